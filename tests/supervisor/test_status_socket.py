"""The socket at which a running program says how it stands, and whoever asks there, the rude ones too."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
import trio
import trio.testing

from supervisor.status import socket as status_socket
from supervisor.status.client import NoAnswerError, NobodyThereError, ask_status
from supervisor.status.path import RUNTIME_PARENT, SOCKET_PATH_BYTES, make_runtime_folder, status_path
from supervisor.status.socket import CLIENT_SECONDS, CLIENTS_MAX, REQUEST, open_status_socket

PATIENCE_SECONDS = 10.0


async def fine() -> dict:
    return {"board": "fine"}


@pytest.fixture
def database(tmp_path, monkeypatch) -> Path:
    """Of a short path, whatever the folder of the tests is called."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "b.db"
    assert len(os.fsencode(status_path(path))) <= SOCKET_PATH_BYTES
    return path


@pytest.fixture
def log():
    with structlog.testing.capture_logs() as entries:
        yield entries


def leave_dead_socket(path: Path) -> None:
    """What a killed process leaves."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    assert path.is_socket()


async def raw(path: Path, request: bytes) -> bytes:
    async with await trio.open_unix_socket(path) as stream:
        await stream.send_all(request)
        return b"".join([part async for part in stream])


@pytest.mark.spec("CLI-16")
async def test_one_request_is_answered_with_one_line_at_a_socket_of_the_owners_own(database):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, fine) as path:
            assert path == database.with_name("b.db.status")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert await ask_status(path) == {"board": "fine"}
            assert await raw(path, REQUEST) == b'{"board": "fine"}\n'
        assert not path.exists()
        with pytest.raises(NobodyThereError):
            await ask_status(path)


@pytest.mark.spec("CLI-16")
async def test_what_a_killed_program_left_is_replaced(database):
    leave_dead_socket(status_path(database))
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, fine) as path:
            assert await ask_status(path) == {"board": "fine"}


@pytest.mark.spec("CLI-16")
async def test_a_program_that_answers_keeps_its_socket(database, log):
    async def other() -> dict:
        return {"board": "other"}

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, fine) as path:
            async with open_status_socket(database, other) as second:
                assert second is None
                assert await ask_status(path) == {"board": "fine"}
            assert await ask_status(path) == {"board": "fine"}
    assert [entry["event"] for entry in log] == ["no_status"]
    assert "another program answers" in log[0]["reason"]


@pytest.mark.spec("CLI-16")
@pytest.mark.parametrize("round_number", range(5))
async def test_of_several_that_find_a_dead_socket_at_once_one_gets_the_place(database, round_number):
    leave_dead_socket(status_path(database))
    paths: list[Path | None] = []
    all_there = trio.Event()

    async def start(name: str) -> None:
        async def own() -> dict:
            return {"name": name}

        async with open_status_socket(database, own) as path:
            paths.append(path)
            if len(paths) == 4:
                all_there.set()
            await all_there.wait()

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(start, str(number))
    assert sorted(map(bool, paths)) == [False, False, False, True]


@pytest.mark.spec("CLI-16")
async def test_a_file_of_another_kind_is_left_alone_and_the_program_runs_on(database, log):
    path = status_path(database)
    path.write_text("mine")
    async with open_status_socket(database, fine) as mine:
        assert mine is None
    assert path.read_text() == "mine"
    assert "is no socket" in log[0]["reason"]


async def test_a_folder_that_somebody_keeps_locked_is_not_waited_for(database, autojump_clock, log):
    with status_socket._folder_lock(database.parent):
        async with open_status_socket(database, fine) as path:
            assert path is None
    assert "locked" in log[0]["reason"]


async def test_a_socket_that_is_not_ours_any_more_is_not_removed(database):
    async with open_status_socket(database, fine) as path:
        path.unlink()
        leave_dead_socket(path)
    assert path.is_socket()


@pytest.mark.spec("CLI-16")
async def test_who_says_nothing_is_sent_away_at_its_deadline_and_others_are_answered_meanwhile(
    database, autojump_clock
):
    async with open_status_socket(database, fine) as path, await trio.open_unix_socket(path) as silent:
        await silent.send_all(b"stat")
        assert await ask_status(path) == {"board": "fine"}
        began = trio.current_time()
        assert await silent.receive_some() == b""
        assert trio.current_time() - began == pytest.approx(CLIENT_SECONDS)


@pytest.mark.spec("CLI-16")
async def test_over_the_bound_of_clients_the_next_is_turned_away_until_one_has_left(database):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, fine) as path:
            silent = [await trio.open_unix_socket(path) for _ in range(CLIENTS_MAX)]
            await trio.testing.wait_all_tasks_blocked(0.01)
            with pytest.raises(NoAnswerError, match="too many ask"):
                await ask_status(path)
            await silent.pop().aclose()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert await ask_status(path) == {"board": "fine"}
            for stream in silent:
                await stream.aclose()


@pytest.mark.spec("CLI-16")
async def test_who_does_not_read_a_long_answer_is_cut_off(database, autojump_clock):
    async def long() -> dict:
        return {"text": "x" * 2_000_000}

    async with open_status_socket(database, long) as path, await trio.open_unix_socket(path) as deaf:
        await deaf.send_all(REQUEST)
        await trio.sleep(CLIENT_SECONDS + 1)
        received = b"".join([part async for part in deaf])
        assert 0 < len(received) < 2_000_000
        assert len((await ask_status(path))["text"]) == 2_000_000


@pytest.mark.parametrize("request_bytes", [b"", b"\n", b"STATUS\n", b"x" * 100_000, b"GET / HTTP/1.1\r\n"])
async def test_whatever_else_is_asked_gets_no_answer(database, request_bytes):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, fine) as path:
            async with await trio.open_unix_socket(path) as stream:
                try:
                    await stream.send_all(request_bytes)
                    await stream.send_eof()
                    answer = await stream.receive_some()
                except trio.BrokenResourceError:
                    answer = b""
            assert answer == b""
            assert await ask_status(path) == {"board": "fine"}


@pytest.mark.spec("CLI-16")
@pytest.mark.parametrize("wrong", [ValueError("secret"), {"not": {"json"}}])
async def test_a_fault_in_looking_is_told_and_ends_nothing(database, wrong, log):
    answers = [wrong, wrong, {"board": "fine"}]

    async def faulty() -> dict:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, faulty) as path:
            for _ in range(2):
                with pytest.raises(NoAnswerError, match="its log says why") as raised:
                    await ask_status(path)
                assert "secret" not in str(raised.value)
            assert await ask_status(path) == {"board": "fine"}
    assert [entry["event"] for entry in log] == ["status_fault"]


async def test_leaving_cuts_off_who_is_being_answered(database):
    async def never() -> dict:
        return await trio.sleep_forever()

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_status_socket(database, never) as path:
            stream = await trio.open_unix_socket(path)
            await stream.send_all(REQUEST)
            await trio.testing.wait_all_tasks_blocked(0.01)
        async with stream:
            assert await stream.receive_some() == b""


async def test_what_the_body_raises_comes_out_as_it_is(database):
    with pytest.raises(KeyError):
        async with open_status_socket(database, fine) as path:
            raise KeyError
    assert not path.exists()


@pytest.mark.spec("CLI-16")
async def test_where_the_folders_path_is_too_long_the_socket_lies_in_a_folder_of_the_owners_own(tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with trio.fail_after(PATIENCE_SECONDS), TemporaryDirectory(dir=RUNTIME_PARENT) as name:
        parent = Path(name)
        path = status_path(deep / "b.db", parent)
        assert path.parent.parent == parent
        assert path != status_path(deep / "c.db", parent)
        async with open_status_socket(deep / "b.db", fine, path=path):
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert await ask_status(path) == {"board": "fine"}
        async with open_status_socket(deep / "b.db", fine, path=path) as again:
            assert again == path


def test_by_a_symbolic_link_the_same_socket_is_found(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "b.db")
    assert status_path(tmp_path / "link") == status_path(tmp_path / "b.db")


def test_without_a_longer_path_the_place_is_beside_the_database_to_the_last_byte(tmp_path):
    for length in range(1, 120):
        path = status_path(Path("/", "d" * length, "b.db"), tmp_path)
        assert len(os.fsencode(path)) <= max(SOCKET_PATH_BYTES, len(os.fsencode(tmp_path)) + 60)
        assert (path.parent.parent == tmp_path) == (length + len("//b.db.status") > SOCKET_PATH_BYTES)


@pytest.mark.spec("CLI-16")
@pytest.mark.parametrize("kind", ["open to others", "link"])
def test_a_runtime_folder_that_others_may_have_made_is_refused(tmp_path, kind):
    folder = tmp_path / "roundtable-1"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with pytest.raises(PermissionError):
        make_runtime_folder(folder)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "breaks off"),
        (b'{"cut": ', "breaks off"),
        (b"no json\n", "something else than JSON"),
        (b"[]\n", "something else than an object"),
        (b"x" * 5_000_000, "over 4,194,304 bytes"),
        (None, "did not answer within"),
    ],
)
async def test_a_program_that_answers_nonsense_is_told_in_words(tmp_path, answer, told, autojump_clock):
    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        if answer is None:
            await trio.sleep_forever()
        with suppress(trio.BrokenResourceError):
            await stream.send_all(answer)

    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(os.fspath(path))
        door.listen()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(door.dup()))
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, nonsense, [listener]))
            with pytest.raises(NoAnswerError, match=told):
                await ask_status(path)
            nursery.cancel_scope.cancel()

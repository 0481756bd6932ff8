"""`roundtable status` and `roundtable watch` at programs that really run."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import stat
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
import trio

from roundtable.store.lock import OwnerLock
from supervisor.status.path import status_path
from tests.acceptance.programs import COMMAND, ROOT, Program, open_program, write_agents, write_roster
from tests.acceptance.seats import sdk_seat
from tests.cli.cli_folder import run
from tests.supervisor.scripted_endpoint import Request, open_endpoint, response

PATIENCE_SECONDS = 90.0
SUPERVISOR = (sys.executable, "-m", "supervisor")
TITLE = "Zephyr\u202e title"
SECRET = "Quagmire description"
PAUSE_SECONDS = 0.1


async def ask(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code and output of a command beside the program that runs in this folder."""
    async with open_program(*arguments, folder=folder) as command:
        code = await command.ended(30)
        return code, command.out.text, command.err.text


async def status_where(folder: Path, fits) -> dict[str, Any]:
    """The first status that fits."""
    while True:
        code, out, err = await ask(folder, "status", "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        if fits(found):
            return found
        await trio.sleep(PAUSE_SECONDS)


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {worker["name"]: worker for worker in found["pool"]["workers"]}


@asynccontextmanager
async def open_pool_of_three(folder: Path) -> AsyncIterator[tuple[Program, dict[str, str], str]]:
    """`up` with one worker that works on and on, one whose endpoint sends it away for a while, and one whose key is no good."""

    async def by_path(request: Request, stream: trio.SocketStream) -> None:
        path = request.line.split()[1]
        if path.startswith("/busy"):
            await stream.send_all(response(429, b"{}", retry_after="600"))
        elif path.startswith("/locked"):
            await stream.send_all(response(401, b"{}"))
        else:
            await trio.sleep_forever()

    async with open_endpoint(by_path) as endpoint:
        base = endpoint.url.removesuffix("/v1")
        names = {"slow": "slow", "cool": "busy", "lost": "locked"}
        workers = [
            {"name": name, "model": "m", "base_url": f"{base}/{path}/v1", "skills": [name]}
            for name, path in names.items()
        ]
        write_roster(folder, {"poll_interval": 0.05, "grace_seconds": 0.5}, *workers)
        tokens = write_agents(folder, lead="leader", anna="worker")
        async with open_program("up", folder=folder) as up:
            url = await up.url()
            async with sdk_seat(url, tokens["lead"]) as lead:
                for name in names:
                    await lead.call("create_task", title=TITLE, description=SECRET, required_skill=name)
            yield up, tokens, url


@pytest.mark.spec("CLI-16", "CLI-8", "SUP-9")
async def test_status_shows_the_board_and_each_worker_waiting_working_cooling_down_and_parked(tmp_path):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_pool_of_three(tmp_path) as (up, _, url):

            def is_settled(found: dict[str, Any]) -> bool:
                states = {name: worker["state"] for name, worker in by_name(found).items()}
                return states == {"slow": "working", "cool": "cooling_down", "lost": "parked"} and not (
                    found["board"]["tasks"]["claimed"] > 1
                )

            found = await status_where(tmp_path, is_settled)
            path = status_path(tmp_path / "roundtable.db")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            code, text, _ = await ask(tmp_path, "status")
            up.process.send_signal(signal.SIGTERM)
            assert await up.ended(15) == 0
            assert not path.exists()
    board, workers = found["board"], by_name(found)
    assert (found["process"], found["url"]) == (up.process.pid, url)
    assert board["tasks"] == {"open": 2, "claimed": 1, "submitted": 0, "done": 0, "cancelled": 0}
    [held] = board["held"]["tasks"]
    assert (held["agent"], held["title"]) == ("slow", "Zephyr  title")
    assert held["since"] < found["time"] < held["lease_expires_at"]
    assert [task["task_id"] for task in workers["slow"]["tasks"]] == [held["task_id"]]
    assert workers["cool"]["until"] > found["time"]
    assert "401" in workers["lost"]["reason"]
    assert {name: worker["calls_last_hour"] for name, worker in workers.items()} == {
        "slow": 1,
        "cool": 1,
        "lost": 1,
    }
    health = {
        endpoint["base_url"].split("/")[3]: endpoint["health"] for endpoint in found["pool"]["endpoints"]
    }
    assert health == {"slow": "unknown", "busy": "cooling_down", "locked": "failing"}
    assert board["trouble"] is None
    assert board["connections"]["trusted"] >= 2  # those that are not parked
    assert re.fullmatch("[0-9a-f]{64}", board["audit_head"]["sha256"])
    assert code == 0
    for words in (
        r"slow +working on task 1 for \d+ s +1 of 10",
        r"cool +cooling down, \d+ min \d+ s left",
        r"lost +parked for \d+ s: auth",
        "Who is parked takes no tasks until",
        r"/busy/v1 +cooling down, \d+ min \d+ s left +rate_limited, \d+ s ago +none +cool",
        r"/locked/v1 +failing for \d+ s +auth, \d+ s ago +none +lost",
        r"/slow/v1 +called \d+ s ago, nothing back yet +none +none +slow",
        "Tasks: 2 open, 1 claimed",
        "Zephyr  title",
    ):
        assert re.search(words, text), f"{words} in\n{text}"
    assert SECRET not in text + json.dumps(found)


@pytest.mark.spec("CLI-16")
async def test_status_of_a_server_without_a_pool_in_a_folder_with_a_long_path(tmp_path):
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    tokens = write_agents(folder, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=folder) as server:
            async with sdk_seat(await server.url(), tokens["lead"]) as lead:
                await lead.call("create_task", title=TITLE, description=SECRET)
            found = await status_where(folder, lambda found: found["board"]["tasks"]["open"] == 1)
            assert found["pool"] is None
            server.process.kill()  # which leaves the socket
            await server.ended(10)
        assert status_path(folder / "roundtable.db").is_socket()
        code, out, err = await ask(folder, "status")
        assert (code, out) == (3, "")
        assert err == "Nothing runs on roundtable.db: `roundtable up` starts board and pool.\n"
        async with open_program("serve", folder=folder) as server:
            await server.url()
            assert (await ask(folder, "status"))[0] == 0
            server.process.send_signal(signal.SIGTERM)
            assert await server.ended(10) == 0
        assert not status_path(folder / "roundtable.db").exists()


@pytest.mark.spec("CLI-16", "CLI-2")
@pytest.mark.parametrize("command", ["status", "watch"])
def test_where_nothing_runs_it_is_said_in_one_sentence(folder, command):
    result = run(command)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "Nothing runs on roundtable.db: `roundtable up` starts board and pool.\n"
    assert list(folder.iterdir()) == []


@pytest.mark.spec("CLI-16", "CLI-2")
@pytest.mark.parametrize("command", ["status", "watch"])
def test_a_program_that_says_nothing_is_named(folder, command):
    with OwnerLock(folder / "roundtable.db"):
        result = run(command)
    assert result.exit_code == 3
    assert f"Process {os.getpid()} holds roundtable.db and cannot be asked" in result.stderr


@pytest.mark.spec("CLI-16")
def test_a_socket_that_was_left_by_a_dead_program_is_nobody(folder):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind("roundtable.db.status")
    dead.close()
    assert run("status").exit_code == 3


@pytest.mark.spec("CLI-16")
async def test_a_pool_that_runs_alone_tells_how_it_stands_in_its_own_folder(tmp_path):
    with trio.fail_after(PATIENCE_SECONDS):
        settings = {
            "ROUNDTABLE_URL": "http://127.0.0.1:1/mcp",
            "ROUNDTABLE_TOKEN": "token-of-a-worker-that-nobody-knows",
            "WORKER_MODEL_BASE_URL": "http://127.0.0.1:1/v1",
            "WORKER_MODEL_NAME": "m",
        }
        async with open_program(folder=tmp_path, command=SUPERVISOR, settings=settings) as pool:
            await pool.events("worker_started")
            found = await status_where(
                tmp_path, lambda found: by_name(found).get("worker", {}).get("state") == "board_away"
            )
            code, text, _ = await ask(tmp_path, "status")
            pool.process.send_signal(signal.SIGTERM)
            assert await pool.ended(15) == 0
    assert (found["board"], found["process"]) == (None, pool.process.pid)
    assert code == 0
    assert "a worker pool, whose board is at http://127.0.0.1:1/mcp" in text
    assert "the board is away" in text
    assert not (tmp_path / "roundtable-pool.db.status").exists()


@pytest.mark.spec("CLI-17")
async def test_watch_without_a_terminal_prints_how_it_stands_and_then_a_line_for_whatever_happens(tmp_path):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_pool_of_three(tmp_path) as (up, tokens, url):
            await status_where(tmp_path, lambda found: by_name(found)["lost"]["state"] == "parked")
            async with open_program("watch", folder=tmp_path) as watch:
                await watch.out.line(lambda line: line.startswith("Tasks: "))
                await watch.out.line(lambda line: "lost claims task 3" in line)
                async with sdk_seat(url, tokens["lead"]) as lead:
                    await lead.call("create_task", title="And now", description="d")
                    await watch.out.line(lambda line: line.endswith("lead puts task 4 on the board: And now"))
                up.process.kill()
                await watch.out.line(lambda line: line.startswith("Nothing runs on roundtable.db"))
                async with open_program("up", folder=tmp_path):
                    await watch.out.line(lambda line: line == "The program answers again.")
                    await watch.out.line(lambda line: "worker cool: cooling down" in line)
                    watch.process.send_signal(signal.SIGINT)
                    assert await watch.ended(10) == 0
    assert watch.err.text == ""
    assert "\x1b" not in watch.out.text
    assert SECRET not in watch.out.text
    assert sum("task 4 on the board" in line for line in watch.out.lines) == 1, "told again after the restart"


@pytest.mark.spec("CLI-8", "CLI-17")
async def test_watch_as_json_prints_a_line_whenever_something_has_changed(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as server:
            url = await server.url()
            async with open_program("watch", "--json", folder=tmp_path) as watch:
                await watch.out.line()
                async with sdk_seat(url, tokens["lead"]) as lead:
                    await lead.call("create_task", title="t", description="d")
                line = await watch.out.line(lambda line: '"created"' in line)
                watch.process.send_signal(signal.SIGTERM)
                assert await watch.ended(10) == 0
    told = [json.loads(line) for line in watch.out.lines]
    assert told[0]["status"]["board"]["tasks"]["open"] == 0
    assert [event["event"] for event in json.loads(line)["events"]] == ["created"]
    assert all(one["notice"] is None for one in told)


@pytest.mark.spec("CLI-17")
async def test_watch_ends_with_2_where_its_output_cannot_be_written(tmp_path):
    write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as server:
            await server.url()
            shell = ("/bin/sh", "-c", f"{' '.join(map(repr, COMMAND))} watch >/dev/full")
            async with open_program(folder=tmp_path, command=shell) as watch:
                assert await watch.ended(20) == 2
    assert watch.err.text == "the output cannot be written\n"


@pytest.mark.spec("CLI-17")
@pytest.mark.parametrize("no_color", ["", "1"])
async def test_on_a_terminal_watch_draws_the_board_in_columns_and_leaves_it_as_it_was(tmp_path, no_color):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as server:
            async with sdk_seat(await server.url(), tokens["lead"]) as lead:
                await lead.call("create_task", title=TITLE, description=SECRET)
            seen = await _watch_on_terminal(tmp_path, b"what happened last", {"NO_COLOR": no_color})
    screen = seen.decode()
    assert "open 1" in screen
    assert "Zephyr  title" in screen
    assert "lead puts task 1 on the board" in screen
    assert SECRET not in screen
    # the screen of its own is left, and the cursor is there again
    assert screen.count("\x1b[?1049h") == screen.count("\x1b[?1049l") == 1
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")
    colours = re.findall(r"\x1b\[[\d;]*3[1-7][\d;]*m", screen)
    assert bool(colours) == (not no_color)


async def _watch_on_terminal(folder: Path, until: bytes, settings: dict[str, str]) -> bytes:
    """What `watch` writes to a terminal from its start to its end by Ctrl-C, pressed once this text is there."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        **{name: value for name, value in settings.items() if value},
    }
    process = await trio.lowlevel.open_process(
        [*COMMAND, "watch"],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    seen, is_stopping = b"", False
    try:
        os.set_blocking(ours, False)
        while True:
            await trio.lowlevel.wait_readable(ours)
            try:
                part = os.read(ours, 65_536)
            except OSError:
                break  # the other side is closed
            if not part:
                break
            seen += part
            if until.lower() in seen.lower() and not is_stopping:
                is_stopping = True
                os.write(ours, b"\x03")
        assert await process.wait() == 0, seen
    finally:
        if process.poll() is None:
            process.kill()
        os.close(ours)
    return seen

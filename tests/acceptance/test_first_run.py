"""From an empty folder to a running board, and what lies in the folder then."""

from __future__ import annotations

import re
import signal
import stat

import pytest
import trio

from tests.acceptance.programs import COMMAND, open_program
from tests.acceptance.seats import sdk_seat

PATIENCE_SECONDS = 60.0


def modes(folder) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}


@pytest.mark.spec("CLI-5", "CLI-3", "CLI-4", "CONF-10")
async def test_up_in_an_empty_folder_makes_a_configuration_says_so_and_runs_with_it(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("up", folder=tmp_path, umask=0) as up:
            url = await up.url()
            said = up.out.text
            assert said.startswith("There is no configuration here yet, so `roundtable init` runs first.")
            tokens = dict(re.findall(r"# (\S+) \(.*\nexport ROUNDTABLE_TOKEN=(\S+)", said))
            assert set(tokens) == {"leader", "worker-1", "worker-2"}
            async with sdk_seat(url, tokens["leader"]) as leader:
                await leader.call("create_task", title="t", description="d", assignee="worker-2")
            async with sdk_seat(url, tokens["worker-2"]) as worker:
                assert (await worker.call("claim_next"))["task_id"] == 1
            private = {
                "agents.json",
                "roundtable.db",
                "roundtable.db-wal",
                "roundtable.db-shm",
                "roundtable.db.lock",
                "roundtable-pool.db",
                "roundtable-pool.db-wal",
            }
            assert {name: mode for name, mode in modes(tmp_path).items() if mode != 0o600} == {}
            assert set(modes(tmp_path)) == private
            up.process.send_signal(signal.SIGINT)
            assert await up.ended(12) == 0
        kept = (tmp_path / "agents.json").read_text()
        assert [token for token in tokens.values() if token in kept] == []
        assert all(said.count(token) == 1 for token in tokens.values())
        async with open_program("up", folder=tmp_path) as again:
            await again.url()
            assert "roundtable init" not in again.out.text
        assert (tmp_path / "agents.json").read_text() == kept


@pytest.mark.spec("CLI-3")
async def test_init_leaves_what_is_there_as_it_is(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("init", folder=tmp_path, umask=0) as first:
            assert await first.ended(20) == 0
        made = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert {path.relative_to(tmp_path).as_posix() for path in made} == {
            "agents.json",
            "config/workers.toml",
        }
        assert stat.S_IMODE((tmp_path / "agents.json").stat().st_mode) == 0o600
        async with open_program("init", folder=tmp_path) as second:
            assert await second.ended(20) == 0
    assert "rt_" in first.out.text
    assert "rt_" not in second.out.text
    assert second.out.text.count("left as it is") == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == made


@pytest.mark.spec("CLI-3", "CLI-4")
@pytest.mark.parametrize("command", ["init", "up"])
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
async def test_tokens_that_nobody_can_read_are_not_left_behind(tmp_path, command, redirection) -> None:
    shell = ("/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program(command, folder=tmp_path, command=shell) as program:
            assert await program.ended(20) == 2
    assert program.err.lines == ["the output cannot be written, so no file was made"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

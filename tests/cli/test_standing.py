"""What a program tells of itself where not all of it can be known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from roundtable.board.actor import open_board
from roundtable.board.clock import system_clock
from roundtable.cli.server import Server
from roundtable.cli.standing import Standing, open_standing
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.unit import Limits
from roundtable.web.serving import Connections
from supervisor.status.client import NoAnswerError, ask_status
from supervisor.status.path import status_path
from supervisor.status.snapshot import PoolStatus

LEAD = Agent("lead", Role.LEADER)
PATIENCE_SECONDS = 20.0


@dataclass
class Table:
    """A board that runs, and a server that somebody else would serve."""

    executor: Executor
    server: Server


@pytest.fixture
async def table(tmp_path):
    clock = system_clock()
    db = open_database(tmp_path / "b.db")
    executor = Executor(db, Directory([LEAD]), Limits(5, 60), lambda: "claim")
    executor.start(clock())
    async with open_board(executor, clock) as board:
        yield Table(executor, Server(board, ("http://h/mcp",), lambda: Connections(2, 1)))
    executor.close()


async def snapshot(table: Table, path, pool: PoolStatus | None = None) -> dict[str, Any]:
    with trio.fail_after(PATIENCE_SECONDS):
        return await Standing(path, table.server, lambda: pool).snapshot()


@pytest.mark.spec("CLI-16")
async def test_a_board_is_told_whole_and_in_values_of_json(table, tmp_path):
    pool = PoolStatus("2026-11-29T12:00:00.000Z")
    found = await snapshot(table, tmp_path / "b.db", pool)
    found = json.loads(json.dumps(found))
    assert found["board"]["tasks"]["open"] == 0
    assert found["board"]["connections"] == {"trusted": 2, "unknown": 1}
    assert found["pool"] == {"time": pool.time, "workers": [], "endpoints": []}


@pytest.mark.spec("CLI-16")
async def test_where_the_file_cannot_be_read_the_rest_is_told_all_the_same(table, tmp_path):
    with table.server.board.waits.listener(LEAD):
        board = (await snapshot(table, tmp_path / "else\x1bwhere.db"))["board"]
    assert "else where.db" in board["problem"]
    assert "tasks" not in board
    assert board["waits"] == {"for_tasks": 0, "for_news": 1}
    assert board["audit_head"]["audit_id"] == 0


@pytest.mark.spec("CLI-16")
async def test_the_boards_trouble_is_told_in_one_line(table, tmp_path):
    table.executor.trouble = "disk\nfull"
    assert (await snapshot(table, tmp_path / "b.db"))["board"]["trouble"] == "disk full"


@pytest.mark.spec("CLI-16")
async def test_a_pool_that_cannot_say_how_it_stands_breaks_nothing(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def broken() -> PoolStatus:
        raise ZeroDivisionError

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_standing(tmp_path / "b.db", table.server, broken):
            with pytest.raises(NoAnswerError, match="its log says why"):
                await ask_status(status_path(tmp_path / "b.db"))
            assert await table.server.board.probe() is None

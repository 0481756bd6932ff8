"""A whole board on a mock clock with clients that call, wait, hang up and come back, and a count of what it costs."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from roundtable.board.actor import open_board
from roundtable.board.clock import reading
from roundtable.board.waiting import WaitingRoom
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import ClaimNext, Command, WaitForUpdates
from roundtable.rules.errors import BoardError
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.unit import Limits

LEAD = Agent("lead", Role.LEADER)
ANN = Agent("ann", Role.WORKER, ("python",))
BOB = Agent("bob", Role.WORKER, ("python", "sql"))
CY = Agent("cy", Role.WORKER)
START_MS = 1_796_000_400_000


class CountingExecutor(Executor):
    """Knows what it was asked."""

    asked: Counter[str]

    def execute(self, batch, now):
        self.asked.update(type(call.command).__name__ for call in batch)
        return super().execute(batch, now)


class Called:
    """One call in a task of its own: `reply`, `error` or `cancelled` says how it ended, and `at` when."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Any = None
        self.error: BoardError | None = None
        self.cancelled = False
        self.at: float | None = None
        self.ended = trio.Event()

    @property
    def task_id(self) -> int | None:
        return self.reply["task_id"] if self.reply and self.reply.get("task_id") else None


class Table:
    """The board of one file. `stop` and `start` are a restart of the server."""

    def __init__(self, path, agents, nursery, run=None, claims_per_worker=50, waits_per_token=4) -> None:
        self.path = path
        self.directory = Directory(agents)
        self.calls = 0
        self.epoch = trio.current_time()
        self.nursery = nursery
        self.wall_ahead_ms = 0
        self._limits = Limits(claims_per_worker, 60, waits_per_token=waits_per_token)
        self._run = run or inline
        self._claim_ids = (f"claim-{number}" for number in itertools.count(1))

    def clock(self):
        board_ms = START_MS + round((trio.current_time() - self.epoch) * 1000)
        return reading(board_ms + self.wall_ahead_ms, board_ms)

    @property
    def seconds(self) -> float:
        """Since the table was laid."""
        return trio.current_time() - self.epoch

    @asynccontextmanager
    async def serving(self):
        self.executor = CountingExecutor(
            open_database(self.path), self.directory, self._limits, lambda: next(self._claim_ids)
        )
        self.executor.asked = Counter()
        self.executor.start(self.clock())
        try:
            async with open_board(self.executor, self.clock, self._run) as self.board:
                self.room = WaitingRoom(self.board)
                yield self
        finally:
            self.executor.close()

    async def ask(self, caller: Agent, command: Command[Any], *, handed_over: bool = True) -> Any:
        """As a client that stays to hear the answer, unless `handed_over` says that it had gone by then."""
        self.calls += 1
        match command:
            case ClaimNext():
                reply = await self.room.claim_next(caller, command, self.clock())
                if reply["task"] is not None:
                    self.room.answered(reply["claim_id"], is_handed_over=handed_over)
                return reply
            case WaitForUpdates():
                return await self.room.wait_for_updates(caller, command, self.clock())
            case _:
                return await self.board.ask(caller, type(command).__name__, command)

    def start(self, caller: Agent, command: Command[Any], *, takes: bool = True) -> Called:
        """In a task of its own. A client that is cancelled before its answer is out does not get it."""
        called = Called()
        self.nursery.start_soon(self._call, called, caller, command, takes)
        return called

    async def waiting(self, caller: Agent, command: Command[Any], *, takes: bool = True) -> Called:
        """The same, and return once it stands in line."""
        called = self.start(caller, command, takes=takes)
        await trio.testing.wait_all_tasks_blocked()
        return called

    async def _call(self, called: Called, caller: Agent, command: Command[Any], takes: bool) -> None:
        self.calls += 1
        try:
            with called.scope:
                await self._carry_out(called, caller, command, takes)
        finally:
            called.cancelled = called.scope.cancelled_caught
            called.at = self.seconds
            called.ended.set()

    async def _carry_out(self, called: Called, caller: Agent, command: Command[Any], takes: bool) -> None:
        claim_id = None
        handed_over = False
        try:
            if isinstance(command, ClaimNext):
                reply = await self.room.claim_next(caller, command, self.clock())
                claim_id = reply.get("claim_id")
            elif isinstance(command, WaitForUpdates):
                reply = await self.room.wait_for_updates(caller, command, self.clock())
            else:
                reply = await self.board.ask(caller, type(command).__name__, command)
            await trio.lowlevel.checkpoint()  # the way out
            handed_over = takes
            called.reply = reply
        except BoardError as error:
            called.error = error
        finally:
            if claim_id is not None:
                self.room.answered(claim_id, is_handed_over=handed_over)

    async def replace_agents(self, *agents: Agent) -> None:
        self.directory = Directory(agents)
        self.board.replace_agents(self.directory)
        await trio.testing.wait_all_tasks_blocked()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        found = db.execute(sql).fetchall()
        db.close()
        return found

    def counted(self) -> int:
        """The calls that the audit log knows of, and those that will stand in the next rows."""
        [(rows, waits)] = self.rows("SELECT count(*), coalesce(sum(empty_waits), 0) FROM audit_log")
        return rows + waits + self.executor.empty_waits.total()

    def check_nothing_is_left(self) -> None:
        """Nobody stands in line, no answer is on its way, and every call is accounted for."""
        assert len(self.board.waits) == 0
        assert not self.board.waits._claimants
        assert not self.board.waits._listeners
        assert not self.room._under_way
        assert not self.room._deliveries._deliveries
        assert not self.room._deliveries._held
        assert self.counted() == self.calls

    def commands_since(self, before: Counter[str]) -> dict[str, int]:
        return dict(self.executor.asked - before)


async def inline(work):
    await trio.lowlevel.checkpoint()
    return work()


@asynccontextmanager
async def laid_table(path, nursery, agents=(LEAD, ANN, BOB, CY), **more):
    async with Table(path / "b.db", agents, nursery, **more).serving() as table:
        yield table

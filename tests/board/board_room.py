"""A board actor for tests: its executor is a fake or the real one, and the test says when a batch may run."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import asynccontextmanager
from typing import Any

import trio

from roundtable.board.actor import BoardStopped, open_board
from roundtable.board.clock import reading
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import Command, RecordRefusal
from roundtable.rules.errors import BoardError
from roundtable.store import audit
from roundtable.store.database import open_database
from roundtable.store.execute import Executed, Executor, Outcome
from roundtable.store.unit import Limits

LEAD = Agent("lead", Role.LEADER)
WORKERS = tuple(Agent(f"worker-{number}", Role.WORKER) for number in range(20))
ANN = WORKERS[0]
PATIENCE_SECONDS = 20.0


def still_clock():
    return reading(1_796_000_400_000, 1_796_000_400_000)


class FakeExecutor:
    """Answers each call with its command, and remembers the batches. `fail_with` is raised instead, once."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.fail_with: BaseException | None = None
        self.trouble: str | None = None
        self.refusal: BoardError | None = None
        self.accepts_claims = True
        self.empty_waits: Counter[str] = Counter()
        self.limits = Limits(5, 60)
        self.next_end_ms: int | None = None
        self.head = audit.Head(0, audit.START)

    def execute(self, batch, now):
        del now
        if self.fail_with is not None:
            error, self.fail_with = self.fail_with, None
            raise error
        self.batches.append(list(batch))
        if self.refusal is not None:
            return Executed([Outcome(error=self.refusal) for _ in batch])
        return Executed([outcome_of(call.command) for call in batch], [])

    @property
    def commands(self) -> list[Command[Any]]:
        return [call.command for batch in self.batches for call in batch]

    @property
    def gone(self) -> list[tuple[str, str, int | None]]:
        """Who had gone, from which tool, about which task."""
        return [
            (call.caller.name, call.tool, call.task_id)
            for batch in self.batches
            for call in batch
            if isinstance(call.command, RecordRefusal) and call.command.error is None
        ]


def outcome_of(command: Command[Any]) -> Outcome:
    if isinstance(command, RecordRefusal):
        return Outcome(error=command.error)
    return Outcome(reply=command)


class Gate:
    """Runs batches inline, each as soon as the gate is open. As a context it is open at the end, so that nothing hangs."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._open = trio.Event()
        if is_open:
            self._open.set()

    def open(self) -> None:
        self._open.set()

    async def run(self, work):
        await trio.lowlevel.checkpoint()
        await self._open.wait()
        return work()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.open()


class Asked:
    """One ask in a task of its own: `reply`, `error` or `cancelled` says how it ended."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Any = None
        self.error: BoardError | None = None
        self.cancelled = False
        self.ended = trio.Event()

    @property
    def stopped(self) -> bool:
        return isinstance(self.error, BoardStopped)

    async def run(self, board, caller, command, tool="tool", task_status=trio.TASK_STATUS_IGNORED) -> None:
        del task_status
        try:
            with self.scope:
                try:
                    self.reply = await board.ask(caller, tool, command)
                except BoardError as error:
                    self.error = error
                except trio.Cancelled:
                    self.cancelled = True
                    raise
        finally:
            self.ended.set()


async def start_asking(nursery, board, caller, command, tool="tool") -> Asked:
    """Ask in a task of its own and return once it is as far as it gets by itself."""
    asked = Asked()
    nursery.start_soon(asked.run, board, caller, command, tool)
    await trio.testing.wait_all_tasks_blocked()
    return asked


@asynccontextmanager
async def real_board(path, run=None, make=Executor, close=True):
    """A board over a real file, with the executor as `board.executor` for a look inside."""
    numbers = itertools.count(1)
    executor = make(
        open_database(path), Directory([LEAD, *WORKERS]), Limits(5, 60), lambda: f"claim-{next(numbers)}"
    )
    executor.start(still_clock())
    try:
        async with open_board(executor, still_clock, run) as board:
            yield board, executor
    finally:
        if close:
            executor.close()

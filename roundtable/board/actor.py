"""The board actor: one task that carries out every command, in batches, in the order in which they come.

House rules: only `_serve` touches the executor, and only through one thread hop a batch. The inbox holds nothing:
its queue is the list of tasks blocked in `ask`, so whoever is cancelled while queued simply leaves it. A reply is
an event and an outcome: setting it can neither wait nor fail, so a caller that has gone never stalls the board.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
import trio

from roundtable.board.clock import Clock
from roundtable.rules.agents import Agent, Role
from roundtable.rules.commands import Call, Command, Probe, RecordRefusal
from roundtable.rules.errors import INTERNAL_MESSAGE, STOPPED_MESSAGE, BoardError, Code
from roundtable.rules.model import Now
from roundtable.store.execute import Executed, Executor, Outcome

log = structlog.get_logger(__name__)
R = TypeVar("R")

_PROBER = Agent("board", Role.WORKER)
"""The board itself, when it asks whether it answers. No agent can have this name."""

BATCH_CALLS = 256
"""The most calls that one transaction takes: a caller waits for the whole of its batch."""

Run = Callable[[Callable[[], Executed]], Awaitable[Executed]]
"""How a batch is run: in a thread of the board's own; in tests inline, where a mock clock cannot see threads."""


class BoardStopped(BoardError):
    """The board takes no more calls. Whoever was queued gets this; nobody hangs."""

    def __init__(self) -> None:
        super().__init__(Code.UNAVAILABLE, STOPPED_MESSAGE)


@dataclass(slots=True)
class _Pending:
    call: Call[Any]
    outcome: Outcome = field(default_factory=Outcome)
    decided: trio.Event = field(default_factory=trio.Event)

    def decide(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.decided.set()


class Board:
    """The way to the board."""

    def __init__(
        self,
        inbox: trio.MemorySendChannel[_Pending],
        nursery: trio.Nursery,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._nursery = nursery
        self._executor = executor
        self.clock = clock

    @property
    def has_stopped(self) -> bool:
        """Whether the board takes no more calls."""
        return self._inbox.statistics().open_receive_channels == 0

    async def probe(self) -> str | None:
        """Whether the board answers: why not, or None. Cancelled, it asked nothing."""
        try:
            await self.ask(_PROBER, "readyz", Probe())
        except BoardStopped as stopped:
            return stopped.message
        return self.trouble

    def close_claims(self) -> None:
        """From now on nobody gets a new claim; everything else goes on."""
        self._executor.accepts_claims = False

    @property
    def trouble(self) -> str | None:
        """Why the board cannot write now, or None."""
        return self._executor.trouble

    async def ask(self, caller: Agent, tool: str, command: Command[R], arrived: Now | None = None) -> R:
        """Have the command carried out and return its reply.

        If this is cancelled, the command did not run (and an audit row says that its caller had gone). If it
        returns, or raises BoardError, the command was decided, and what it changed is on the disk; a cancel that
        comes while it is being carried out takes effect after that. Raises BoardStopped once the board has stopped.
        """
        pending = _Pending(Call(caller, tool, command, arrived or self.clock()))
        try:
            await self._hand_over(pending)
        except trio.Cancelled:
            self._note_gone(pending.call)
            raise
        with trio.CancelScope(shield=True):
            # bounded by one transaction and SQLite's busy timeout
            await pending.decided.wait()
        reply: R = pending.outcome.unwrap()
        return reply

    async def _hand_over(self, pending: _Pending) -> None:
        try:
            await self._inbox.send(pending)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise BoardStopped from None

    def _note_gone(self, call: Call[Any]) -> None:
        if isinstance(call.command, Probe):
            return
        gone = Call(call.caller, call.tool, RecordRefusal(error=None, task_id=call.task_id), call.arrived)
        try:
            # a way in of its own, so that the row is written even if the board is told to stop meanwhile
            self._nursery.start_soon(_record, self._inbox.clone(), gone)
        except trio.ClosedResourceError:
            log.warning("audit_row_lost", tool=call.tool, agent=call.caller.name)


async def _record(inbox: trio.MemorySendChannel[_Pending], gone: Call[Any]) -> None:
    with trio.CancelScope(shield=True), inbox, suppress(trio.BrokenResourceError):
        await inbox.send(_Pending(gone))


@asynccontextmanager
async def open_board(executor: Executor, clock: Clock, run: Run | None = None) -> AsyncIterator[Board]:
    """A running board for as long as the context lasts.

    On leaving, whatever was accepted is carried out and answered, whoever is still queued gets BoardStopped. The
    body's own exceptions come out as they are.
    """
    send, receive = trio.open_memory_channel[_Pending](0)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        board = Board(send, nursery, executor, clock)
        nursery.start_soon(_serve, receive, executor, clock, run or _thread_runner())
        try:
            yield board
        except BaseException as error:
            failure = error
        # no new senders; the actor ends when those that are queued have been taken
        send.close()
    if failure is not None:
        raise failure


async def _serve(
    receive: trio.MemoryReceiveChannel[_Pending], executor: Executor, clock: Clock, run: Run
) -> None:
    with trio.CancelScope(shield=True), receive:
        async for first in receive:
            batch = [first, *_queued(receive)]
            await _carry_out(batch, executor, clock, run)


def _queued(receive: trio.MemoryReceiveChannel[_Pending]) -> list[_Pending]:
    more: list[_Pending] = []
    try:
        while len(more) < BATCH_CALLS - 1:
            more.append(receive.receive_nowait())
    except (trio.WouldBlock, trio.EndOfChannel):
        pass
    return more


async def _carry_out(batch: Sequence[_Pending], executor: Executor, clock: Clock, run: Run) -> None:
    calls = [pending.call for pending in batch]
    try:
        try:
            executed = await run(lambda: executor.execute(calls, clock()))
        except Exception:
            log.exception("fault", calls=len(calls))
            executed = Executed(
                [Outcome(error=BoardError(Code.INTERNAL, INTERNAL_MESSAGE)) for _ in calls], []
            )
        for pending, outcome in zip(batch, executed.outcomes, strict=True):
            pending.decide(outcome)
    finally:
        # the callers' wait is shielded: whatever went wrong above, none of them may be left in it
        for pending in batch:
            if not pending.decided.is_set():
                pending.decide(Outcome(error=BoardStopped()))
    for told in executed.told:
        log.info(told.event.value, task_id=told.task_id, agent=told.agent, **told.details)


def _thread_runner() -> Run:
    limiter = trio.CapacityLimiter(1)  # of its own, so that no other thread work can starve the board

    async def run(work: Callable[[], Executed]) -> Executed:
        # never abandoned: the thread is short, and its outcome is somebody's answer
        return await trio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=False)

    return run

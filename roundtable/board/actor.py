"""The board actor: one task that carries out every command, in batches, in the order in which they come.

House rules: only `_serve` touches the executor, and only through one thread hop a batch. The inbox holds nothing:
its queue is the list of tasks blocked in `ask`, so whoever is cancelled while queued simply leaves it. A reply is
an event and an outcome: setting it can neither wait nor fail, so a caller that has gone never stalls the board.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
import trio

from roundtable.board.clock import Clock
from roundtable.board.thread import Run, in_a_thread, never_abort
from roundtable.board.waits import Waits
from roundtable.rules.agents import Agent, Directory
from roundtable.rules.commands import Call, Command, Probe, RecordRefusal, ReplaceAgents, Sweep, UndoClaim
from roundtable.rules.errors import INTERNAL_MESSAGE, STOPPED_MESSAGE, BoardError, Code
from roundtable.rules.model import Now
from roundtable.store.audit import Head
from roundtable.store.execute import Executor
from roundtable.store.outcomes import Executed, Outcome
from roundtable.store.unit import BOARD

log = structlog.get_logger(__name__)
R = TypeVar("R")


BATCH_CALLS = 256
"""The most calls that one transaction takes: a caller waits for the whole of its batch."""

SWEEP_LOOK_SECONDS = 60.0
"""How long the sweep sleeps at most: Trio's clock stands still while the machine sleeps, and the board's does not."""
SWEEP_RETRY_SECONDS = 5.0
"""How long a broken disk is left alone between two tries to end what has run out."""
HEAD_LOG_SECONDS = 86_400.0
"""How often the end of the audit chain goes into the log."""


class BoardStopped(BoardError):
    """The board takes no more calls. Whoever was queued gets this; nobody hangs."""

    def __init__(self) -> None:
        super().__init__(Code.UNAVAILABLE, STOPPED_MESSAGE)


@dataclass(slots=True)
class _Pending:
    call: Call[Any]
    outcome: Outcome = field(default_factory=Outcome)
    decided: trio.Event = field(default_factory=trio.Event)
    _caller: trio.lowlevel.Task | None = None

    def decide(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.decided.set()
        if self._caller is not None:
            trio.lowlevel.reschedule(self._caller)

    async def wait(self) -> None:
        """For the caller: until it is decided. Not cancelled, and without a scope to say so: every call passes here."""
        if not self.decided.is_set():
            self._caller = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(never_abort)


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
        self.waits = Waits(executor.limits.waits_per_token)
        self.next_end_changed = trio.Event()
        self._known_end_ms = executor.next_end_ms
        self._empty_waits = executor.empty_waits

    @property
    def has_stopped(self) -> bool:
        """Whether the board takes no more calls."""
        return self._inbox.statistics().open_receive_channels == 0

    async def probe(self) -> str | None:
        """Whether the board answers: why not, or None. Cancelled, it asked nothing."""
        try:
            await self.ask(BOARD, "readyz", Probe())
        except BoardError as refused:
            return self.trouble or refused.message
        return self.trouble

    def close_claims(self) -> None:
        """From now on nobody gets a new claim; everything else goes on."""
        self._executor.accepts_claims = False
        self.waits.end_claims()

    @property
    def trouble(self) -> str | None:
        """Why the board cannot write now, or None."""
        return self._executor.trouble

    @property
    def audit_head(self) -> Head:
        """The end of the audit chain as it is on the disk."""
        return self._executor.head

    async def ask(self, caller: Agent, tool: str, command: Command[R], arrived: Now | None = None) -> R:
        """Have the command carried out and return its reply.

        If this is cancelled, the command did not run (and an audit row says that its caller had gone). If it
        returns, or raises BoardError, the command was decided, and what it changed is on the disk; a cancel that
        comes while it is being carried out takes effect after that. Raises BoardStopped once the board has stopped.
        """
        reply: R = (await self.decide(caller, tool, command, arrived)).unwrap()
        return reply

    async def decide(
        self, caller: Agent, tool: str, command: Command[Any], arrived: Now | None = None
    ) -> Outcome:
        """As `ask`, but a refusal is an outcome like any other. Raises BoardStopped."""
        pending = _Pending(
            Call(caller, tool, command, arrived or self.clock(), self._take_empty_waits(caller))
        )
        try:
            await self._hand_over(pending)
        except trio.Cancelled:
            self._note_gone(pending.call)
            raise
        await pending.wait()  # bounded by one transaction and SQLite's busy timeout
        if not pending.outcome.is_recorded and pending.call.empty_waits:
            self._empty_waits[caller.name] += pending.call.empty_waits  # for the next row
        return pending.outcome

    async def _hand_over(self, pending: _Pending) -> None:
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                # an idle actor takes it as it is; the answer is waited for anyway
                self._inbox.send_nowait(pending)
            except trio.WouldBlock:
                await self._inbox.send(pending)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise BoardStopped from None

    def _note_gone(self, call: Call[Any]) -> None:
        if call.caller is not BOARD:
            gone = RecordRefusal(error=None, task_id=call.task_id)
            self._send_on(Call(call.caller, call.tool, gone, call.arrived, call.empty_waits))

    def note_gone(self, caller: Agent, tool: str, arrived: Now) -> None:
        """A caller that waited has hung up: its audit row is written as soon as may be."""
        self._note_gone(
            Call(caller, tool, RecordRefusal(error=None), arrived, self._take_empty_waits(caller))
        )

    def note_empty_wait(self, caller: Agent) -> None:
        """A wait ended empty: the caller's next audit row counts it."""
        self._empty_waits[caller.name] += 1

    def undo_claim(self, caller: Agent, task_id: int, claim_id: str) -> trio.Event:
        """The answer with this claim never reached its client: take it back as soon as may be.

        The event is set when that is decided.
        """
        return self._send_on(Call(caller, "claim_next", UndoClaim(task_id, claim_id), self.clock()))

    def replace_agents(self, directory: Directory) -> None:
        """As soon as may be these are the agents: who is gone loses its claims, and its waits end."""
        self.waits.end_gone(directory)
        decided = self._send_on(Call(BOARD, "agents", ReplaceAgents(directory), self.clock()))
        self._nursery.start_soon(self._replace_waiters, decided, directory)

    async def _replace_waiters(self, decided: trio.Event, directory: Directory) -> None:
        with trio.CancelScope(shield=True):
            # not before the board knows: those that look again would be answered by what they were
            await decided.wait()
        self.waits.replace_agents(directory)

    def after_commit(self, executed: Executed) -> None:
        """Wake whom the batch concerns: for the actor alone."""
        for ready in executed.ready:
            self.waits.offer(ready)
        self.waits.tell(executed.concerned)
        if self._executor.next_end_ms != self._known_end_ms:
            self._known_end_ms = self._executor.next_end_ms
            self.next_end_changed.set()
            self.next_end_changed = trio.Event()

    def _take_empty_waits(self, caller: Agent) -> int:
        return self._empty_waits.pop(caller.name, 0)

    def _send_on(self, call: Call[Any]) -> trio.Event:
        """Have it carried out without waiting for it. The event is set when it is decided, one way or the other."""
        pending = _Pending(call)
        try:
            # a way in of its own, so that it is carried out even if the board is told to stop meanwhile
            self._nursery.start_soon(_record, self._inbox.clone(), pending)
        except trio.ClosedResourceError:
            log.warning("too_late", tool=call.tool, agent=call.caller.name)
            pending.decide(Outcome(error=BoardStopped()))
        return pending.decided


async def _record(inbox: trio.MemorySendChannel[_Pending], pending: _Pending) -> None:
    with trio.CancelScope(shield=True), inbox:
        try:
            await inbox.send(pending)
        except trio.BrokenResourceError:
            pending.decide(Outcome(error=BoardStopped()))


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
        nursery.start_soon(_serve, receive, board, executor, run or in_a_thread)
        upkeep = (trio.CancelScope(), trio.CancelScope())
        nursery.start_soon(_sweep, board, executor, upkeep[0])
        nursery.start_soon(_log_head, executor, upkeep[1])
        try:
            yield board
        except BaseException as error:
            failure = error
        for scope in upkeep:
            scope.cancel()
        # no new senders; the actor ends when those that are queued have been taken
        send.close()
    if failure is not None:
        raise failure


async def _serve(
    receive: trio.MemoryReceiveChannel[_Pending], board: Board, executor: Executor, run: Run
) -> None:
    with trio.CancelScope(shield=True), receive:
        async for first in receive:
            batch = [first, *_queued(receive)]
            executed = await _carry_out(batch, executor, board.clock, run)
            board.after_commit(executed)


async def _log_head(executor: Executor, scope: trio.CancelScope) -> None:
    """Put the end of the audit chain into the log once a day: who keeps the log can tell if the chain was made anew."""
    with scope:
        while True:
            log.info("audit_head", audit_id=executor.head.audit_id, sha256=executor.head.sha256)
            await trio.sleep(HEAD_LOG_SECONDS)


async def _sweep(board: Board, executor: Executor, scope: trio.CancelScope) -> None:
    """End what runs out at its time, also when nobody calls: sleep until the next end, or until there is an earlier one."""
    with scope, suppress(BoardStopped):
        while True:
            ends_ms = executor.next_end_ms
            if ends_ms is None:
                await board.next_end_changed.wait()
                continue
            left_seconds = (ends_ms - board.clock().board_ms) / 1000
            if left_seconds > 0:
                with trio.move_on_after(min(left_seconds, SWEEP_LOOK_SECONDS)):
                    await board.next_end_changed.wait()
                continue
            await board.decide(BOARD, "sweep", Sweep())
            if executor.next_end_ms == ends_ms:
                await trio.sleep(SWEEP_RETRY_SECONDS)


def _queued(receive: trio.MemoryReceiveChannel[_Pending]) -> list[_Pending]:
    more: list[_Pending] = []
    try:
        while len(more) < BATCH_CALLS - 1:
            more.append(receive.receive_nowait())
    except (trio.WouldBlock, trio.EndOfChannel):
        pass
    return more


async def _carry_out(batch: Sequence[_Pending], executor: Executor, clock: Clock, run: Run) -> Executed:
    calls = [pending.call for pending in batch]
    try:
        try:
            executed = await run(lambda: executor.execute(calls, clock()))
        except Exception:
            log.exception("fault", calls=len(calls))
            executed = Executed([Outcome(error=BoardError(Code.INTERNAL, INTERNAL_MESSAGE)) for _ in calls])
        for pending, outcome in zip(batch, executed.outcomes, strict=True):
            pending.decide(outcome)
    finally:
        # the callers' wait is shielded: whatever went wrong above, none of them may be left in it
        for pending in batch:
            if not pending.decided.is_set():
                pending.decide(Outcome(error=BoardStopped()))
    bound_log = log.bind()  # once, not for each line
    for told in executed.told:
        bound_log.info(told.event.value, task_id=told.task_id, agent=told.agent, **told.details)
    return executed

"""One worker: it connects, lets go of what an earlier run left, and works on tasks until it is told to stop.

House rules: the connection to the board is entered, used and left by this one task; the stop's cancel scope lies
inside it, round the model call alone, so that a release always has an open connection; the board being away is
waited out and never a failure of the worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from supervisor.board.errors import BoardAwayError, BoardBusyError, WorkerRefusedError
from supervisor.board.protocol import BoardClient, Claim
from supervisor.memory.record import State
from supervisor.model.client import ModelClient
from supervisor.nursery.child import Crash, run_guarded
from supervisor.work.calls import Hindrance, ModelCalls
from supervisor.work.claiming import Claimant
from supervisor.work.context import WorkerContext
from supervisor.work.lease import Lease
from supervisor.work.task_run import STOPPING_REASON, TaskRun

_STATES = {
    Hindrance.HOURLY_CAP: State.AT_CAP,
    Hindrance.DAILY_CAP: State.AT_CAP,
    Hindrance.ENDPOINT: State.COOLING_DOWN,
    Hindrance.BACK_OFF: State.BACKING_OFF,
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Connections:
    """How a worker opens its two connections."""

    board: Callable[[], AbstractAsyncContextManager[BoardClient]]
    model: Callable[[], AbstractAsyncContextManager[ModelClient]]


class WorkerLoop:
    """One life of a worker.

    `run` returns when the stop was requested or the worker is parked (record.parked says why), with nothing held if
    the board could be reached. Anything that it raises is a bug or a nonsense answer of the board; a task that met it
    was released as failed, and the other tasks in hand had come to their ends.
    """

    def __init__(self, context: WorkerContext, connections: Connections, poll_interval: float) -> None:
        self._context = context
        self._connections = connections
        self._claimant = Claimant(context, poll_interval, self._wait_for_news)
        self._calls = ModelCalls(context)
        self._running = 0
        self._finished = trio.Event()
        self._crash: Crash | None = None

    async def run(self) -> None:
        context = self._context
        while not self._is_ending():
            try:
                async with self._connections.model() as model, self._connections.board() as board:
                    await self._work(board, model)
            except BoardAwayError as away:
                await self._claimant.wait_for_board(away)
            except BoardBusyError as busy:
                await context.stop.pause(busy.retry_after_seconds)
            except WorkerRefusedError as refused:
                context.record.park(str(refused))
        if self._crash is not None:
            raise self._crash.error

    def _is_ending(self) -> bool:
        return self._crash is not None or self._context.told_to_leave()

    async def release_leftovers(self) -> None:
        """Let go of everything that this worker holds according to the board, and nothing else. Raises BoardError."""
        async with self._connections.board() as board:
            await self._claimant.settle(board)

    async def _work(self, board: BoardClient, model: ModelClient) -> None:
        # Not only before a claim: a worker at a cap, or whose endpoint cools down, may make none for long.
        await self._claimant.settle(board)
        async with trio.open_nursery() as tasks:
            crash = await run_guarded(partial(self._claim_tasks, tasks, board, model))
            self._crash = self._crash or crash
        await self._claimant.leave(board)

    async def _claim_tasks(self, tasks: trio.Nursery, board: BoardClient, model: ModelClient) -> None:
        while not self._is_ending():
            if not await self._has_room():
                continue
            taken = await self._claimant.claim(board)
            if taken is not None:
                self._take(*taken, tasks, board, model)

    async def _has_room(self) -> bool:
        """Whether one more task may be claimed now; if not, after a wait for what may have changed that."""
        context = self._context
        # While the endpoint is in trouble one task at a time finds out whether that is over.
        if self._running >= (1 if context.endpoint.troubles else context.worker.concurrency):
            await self._wait_for_news(float("inf"))
            return False
        now = trio.current_time()
        until, hindrance = self._calls.allowed_at(now)
        if until <= now:
            return True
        if until == float("inf"):
            # What the caps have left is promised to tasks in hand.
            await self._wait_for_news(until)
            return False
        state = _STATES[hindrance]
        if (context.record.state, context.record.reason) != (state, hindrance):
            log.warning("worker_waits", worker=context.name, cause=hindrance, seconds=round(until - now, 1))
        context.record.note(state, until=until, reason=hindrance)
        await self._wait_for_news(until - now)
        return False

    def _take(
        self, claim: Claim, lease: Lease, tasks: trio.Nursery, board: BoardClient, model: ModelClient
    ) -> None:
        """Start on a task that was just claimed. Synchronous, so that nothing comes between the claim and its record."""
        why_not = self._why_not_begin()
        self._context.take(claim)
        self._claimant.in_hand.add(claim.claim_id)
        self._running += 1
        if why_not is None:
            self._calls.promise()
        self._context.tell_task("task_claimed", claim.task_id)
        task = TaskRun(self._context, board, claim)
        begin = partial(task.run, model, self._calls, lease)
        give_back = partial(task.release_unstarted, why_not or "")
        tasks.start_soon(self._run_task, task, claim, begin if why_not is None else give_back)

    def _why_not_begin(self) -> str | None:
        """What has come up while the claim was on its way, as the reason of a release."""
        if self._context.stop.is_requested:
            return STOPPING_REASON
        if self._context.record.parked is not None:
            return "the worker is parked"
        return "the worker may not call its model now" if self._must_not_claim() else None

    def _must_not_claim(self) -> bool:
        now = trio.current_time()
        return self._is_ending() or self._calls.allowed_at(now)[0] > now

    async def _run_task(self, task: TaskRun, claim: Claim, run: Callable[[], Awaitable[None]]) -> None:
        try:
            crash = await self._guarded(run)
            if crash is not None:
                await self._end_crashed(task, claim, crash)
        finally:
            self._claimant.in_hand.discard(claim.claim_id)
            self._running -= 1
            self._finished.set()
            if self._must_not_claim():
                self._claimant.interrupt()

    async def _guarded(self, run: Callable[[], Awaitable[None]]) -> Crash | None:
        async def run_or_park() -> None:
            try:
                await run()
            except WorkerRefusedError as refused:
                self._context.record.park(str(refused))

        return await run_guarded(run_or_park)

    async def _end_crashed(self, task: TaskRun, claim: Claim, crash: Crash) -> None:
        """Count the fault against the task that met it, or that task would end one life after the other.

        This life ends with its other tasks, which go on undisturbed: their calls are paid for.
        """
        name = self._context.name
        self._crash = self._crash or crash
        self._context.record.crashed.add(claim.claim_id)
        self._claimant.interrupt()
        log.error("task_crashed", worker=name, task_id=claim.task_id, error=crash.description)
        again = await self._guarded(task.give_up_crashed)
        if again is not None:
            # The next life tells the board.
            log.error("crash_not_told", worker=name, task_id=claim.task_id, error=again.description)

    async def _wait_for_news(self, seconds: float) -> None:
        """Until a task of this worker has ended since the last such wait, the stop was requested, or the time is over."""
        with trio.move_on_after(seconds), self._context.stop.until_requested():
            await self._finished.wait()
        self._finished = trio.Event()

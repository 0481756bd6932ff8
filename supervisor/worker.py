"""One worker: it connects, lets go of what an earlier run left, and works on tasks until it is told to stop.

House rules: the connection to the board is entered, used and left by this one task; the stop's cancel scope lies
inside it, round the model call alone, so that a release always has an open connection; the board being away is
waited out and never a failure of the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

import structlog
import trio

from supervisor.board import BoardClient, Claim
from supervisor.board_errors import (
    BoardAwayError,
    BoardBusyError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.lease import Lease
from supervisor.limits import BOARD_BACKOFF_FIRST_SECONDS, BOARD_BACKOFF_MAX_SECONDS, CLAIM_WAIT_SECONDS
from supervisor.model_client import ModelClient
from supervisor.record import WorkerRecord
from supervisor.restart import backoff_seconds
from supervisor.roster import Worker
from supervisor.stop import Stop
from supervisor.task_run import STOPPING_REASON, Chance, TaskRun

LEFTOVER_REASON = "left over from an earlier run of the pool"
_LEAVING_ATTEMPTS = 3

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Connections:
    """How a worker opens its two connections."""

    board: Callable[[], AbstractAsyncContextManager[BoardClient]]
    model: Callable[[], AbstractAsyncContextManager[ModelClient]]


class WorkerLoop:
    """One life of a worker.

    `run` returns when the stop was requested or the worker is parked (record.parked says why), with nothing held if
    the board could be reached. Anything that it raises is a bug or a nonsense answer of the board.
    """

    def __init__(
        self,
        worker: Worker,
        record: WorkerRecord,
        stop: Stop,
        connections: Connections,
        chance: Chance,
        poll_interval: float,
    ) -> None:
        self._worker = worker
        self._record = record
        self._stop = stop
        self._connections = connections
        self._chance = chance
        self._poll_interval = poll_interval
        self._running = 0
        self._in_hand: set[str] = set()
        self._finished = trio.Event()
        self._waiting: trio.CancelScope | None = None
        self._key: str | None = None
        """Of a claim_next whose answer has not come: asked again with it, the board gives what it gave."""
        self._is_unsure = True
        self._lease_seconds: int | None = None
        self._board_troubles = 0

    async def run(self) -> None:
        while not self._told_to_leave():
            try:
                async with self._connections.model() as model, self._connections.board() as board:
                    await self._work(board, model)
            except BoardAwayError as away:
                await self._wait_for_board(away)
            except BoardBusyError as busy:
                await self._stop.pause(busy.retry_after_seconds)
            except WorkerRefusedError as refused:
                self._record.park(str(refused))

    async def release_leftovers(self) -> None:
        """Let go of everything that the board says this worker holds, and nothing else. Raises BoardError."""
        async with self._connections.board() as board:
            await self._settle(board)

    def _told_to_leave(self) -> bool:
        return self._stop.is_requested or self._record.parked is not None

    async def _work(self, board: BoardClient, model: ModelClient) -> None:
        async with trio.open_nursery() as tasks:
            while not self._told_to_leave():
                if not await self._has_room():
                    continue
                taken = await self._claim(board)
                if taken is not None:
                    self._take(*taken, tasks, board, model)
        await self._leave(board)

    async def _has_room(self) -> bool:
        """Whether one more task may be claimed now; if not, after a wait for what may have changed that."""
        if self._running >= self._worker.concurrency:
            await self._wait_for_news(float("inf"))
            return False
        now = trio.current_time()
        until, cause = self._call_allowed_at(now)
        if until <= now:
            return True
        if self._record.state != f"waiting: {cause}":
            log.warning("worker_waits", worker=self._worker.name, cause=cause, seconds=round(until - now, 1))
        self._record.state = f"waiting: {cause}"
        await self._wait_for_news(until - now)
        return False

    def _call_allowed_at(self, now: float) -> tuple[float, str]:
        """From when the model may be called, and what stands against it until then; `now` or earlier: at once."""
        cap_until = self._record.call_allowed_at(now, self._worker.max_calls_per_hour)
        if cap_until >= self._record.endpoint_free_at:
            return cap_until, "hourly_cap"
        return self._record.endpoint_free_at, "endpoint"

    def _must_not_claim(self) -> bool:
        now = trio.current_time()
        return self._told_to_leave() or self._call_allowed_at(now)[0] > now

    async def _claim(self, board: BoardClient) -> tuple[Claim, Lease] | None:
        """The next task, or None after a wait. The board being away is waited out here, with the connection open."""
        try:
            if self._is_unsure:
                await self._settle(board)
                if self._told_to_leave():
                    return None
            asked_at = trio.current_time()
            taken = await self._wait_for_task(board)
        except BoardAwayError as away:
            await self._wait_for_board(away)
        except BoardBusyError as busy:
            await self._stop.pause(busy.retry_after_seconds)
        except (ClaimLostError, CallRefusedError) as refused:
            await self._wait_for_slot(refused)
        except WorkerRefusedError as refused:
            self._record.park(str(refused))
        else:
            self._board_is_back()
            if taken is None and trio.current_time() - asked_at < CLAIM_WAIT_SECONDS / 2:
                # The board did not wait: it stops, or has ended the wait for another one. Asking on at once would
                # be polling.
                await self._wait_for_news(self._poll_interval)
            return taken
        return None

    async def _wait_for_task(self, board: BoardClient) -> tuple[Claim, Lease] | None:
        """One wait inside the board, which the stop ends, and this worker being parked."""
        is_repeated = self._key is not None
        key = self._key = self._key or self._chance.mark()
        self._record.state = "working" if self._running else "idle"
        sent_at = trio.current_time()
        claim: Claim | None = None
        with self._stop.until_requested() as waiting:
            self._waiting = waiting
            claim = await board.claim_next(wait_seconds=CLAIM_WAIT_SECONDS, idempotency_key=key)
        self._waiting = None
        if waiting.cancelled_caught:
            # The board may have claimed all the same; it takes that back by itself once it notices.
            self._is_unsure = True
        else:
            self._key = None
        if claim is None:
            return None
        return claim, Lease(self._worker.name, claim, self._lease_seconds, sent_at, is_doubtful=is_repeated)

    async def _wait_for_slot(self, refused: ClaimLostError | CallRefusedError) -> None:
        """The board gives no further task: this worker holds as many as it may, or more than it knows of."""
        self._key = None
        self._is_unsure = True
        log.warning("claim_refused", worker=self._worker.name, code=refused.code)
        if self._running and refused.code == "conflict":
            await self._wait_for_news(float("inf"))
        else:
            await self._wait_for_news(self._poll_interval)

    def _take(
        self, claim: Claim, lease: Lease, tasks: trio.Nursery, board: BoardClient, model: ModelClient
    ) -> None:
        """Start on a task that was just claimed. Synchronous, so that nothing comes between the claim and its record."""
        self._record.held[claim.claim_id] = claim.task_id
        self._in_hand.add(claim.claim_id)
        self._running += 1
        self._record.state = "working"
        why_not = self._why_not_begin()
        if why_not is None:
            self._record.count_call(trio.current_time())
        log.info("task_claimed", worker=self._worker.name, task_id=claim.task_id)
        task = TaskRun(self._worker, self._record, self._stop, self._chance, board, model, claim)
        tasks.start_soon(self._run_task, task, claim, lease, why_not)

    def _why_not_begin(self) -> str | None:
        """What has come up while the claim was on its way, as the reason of a release."""
        if self._stop.is_requested:
            return STOPPING_REASON
        if self._record.parked is not None:
            return "the worker is parked"
        return "the worker may not call its model now" if self._must_not_claim() else None

    async def _run_task(self, task: TaskRun, claim: Claim, lease: Lease, why_not: str | None) -> None:
        try:
            if why_not is None:
                await task.run(lease)
            else:
                await task.release_unstarted(why_not)
        except WorkerRefusedError as refused:
            self._record.park(str(refused))
        finally:
            self._in_hand.discard(claim.claim_id)
            self._running -= 1
            self._finished.set()
            if self._waiting is not None and self._must_not_claim():
                self._waiting.cancel()

    async def _settle(self, board: BoardClient) -> None:
        """Ask the board what it thinks this worker holds, and release what is not in hand."""
        identity = await board.whoami()
        if identity.role != "worker":
            self._record.park("the token is not a worker's")
            return
        self._lease_seconds = identity.lease_seconds
        self._record.held = {held.claim_id: held.task_id for held in identity.held}
        leftovers = [held for held in identity.held if held.claim_id not in self._in_hand]
        if leftovers:
            task_ids = [held.task_id for held in leftovers]
            log.warning("leftovers_released", worker=self._worker.name, task_ids=task_ids)
        for held in leftovers:
            reason = STOPPING_REASON if self._stop.is_requested else LEFTOVER_REASON
            with suppress(ClaimLostError):  # It ended between the two calls, which is as good.
                await board.release_task(held.task_id, held.claim_id, reason)
            self._record.held.pop(held.claim_id, None)
        self._key = None
        self._is_unsure = False

    async def _leave(self, board: BoardClient) -> None:
        """A claim whose reply was lost may still stand: ask before going, but not for ever."""
        for attempt in range(_LEAVING_ATTEMPTS):
            if not self._is_unsure and self._key is None:
                return
            if attempt:
                await trio.sleep(0.5)
            try:
                await self._settle(board)
            except WorkerRefusedError as refused:
                self._record.park(str(refused))
                return
            except (BoardAwayError, BoardBusyError) as away:
                log.warning("board_away", worker=self._worker.name, reason=str(away))

    async def _wait_for_board(self, away: BoardAwayError) -> None:
        self._board_troubles += 1
        wait = backoff_seconds(
            self._board_troubles,
            jitter=self._chance.jitter(),
            first=BOARD_BACKOFF_FIRST_SECONDS,
            maximum=BOARD_BACKOFF_MAX_SECONDS,
        )
        self._record.state = "waiting: board"
        log.warning("board_away", worker=self._worker.name, reason=str(away), wait_seconds=round(wait, 1))
        await self._stop.pause(wait)

    def _board_is_back(self) -> None:
        if self._board_troubles:
            log.info("board_back", worker=self._worker.name)
        self._board_troubles = 0

    async def _wait_for_news(self, seconds: float) -> None:
        """Until a task of this worker has ended since the last such wait, the stop was requested, or the time is over."""

        async def cancel_when_told() -> None:
            await self._stop.wait_requested()
            waiting.cancel_scope.cancel()

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as waiting:
                waiting.start_soon(cancel_when_told)
                await self._finished.wait()
                waiting.cancel_scope.cancel()
        self._finished = trio.Event()

"""How a worker comes by a task, and how it finds out what the board thinks that it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog
import trio

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.board.protocol import BoardClient, Claim
from supervisor.memory.record import State
from supervisor.model.prompt import Brief
from supervisor.rules.limits import BOARD_BACKOFF_FIRST_SECONDS, BOARD_BACKOFF_MAX_SECONDS, CLAIM_WAIT_SECONDS
from supervisor.rules.restart import backoff_seconds
from supervisor.work.context import WorkerContext
from supervisor.work.lease import Lease
from supervisor.work.task_run import STOPPING_REASON, TaskRun

LEFTOVER_REASON = "left over from an earlier run of the pool"
_LEAVING_ATTEMPTS = 3

log = structlog.get_logger(__name__)


class Claimant:
    """One life of a worker, as far as it takes claims."""

    def __init__(
        self, context: WorkerContext, poll_interval: float, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        """`pause` waits so long, or until one of the worker's tasks has ended or the stop was requested."""
        self._context = context
        self._poll_interval = poll_interval
        self._pause = pause
        self.in_hand: set[str] = set()
        """Claims that this life works on."""
        self._waiting: trio.CancelScope | None = None
        self._key: str | None = None
        """Of a claim_next whose answer has not come: asked again with it, the board gives what it gave."""
        self._is_unsure = True
        self._lease_seconds: int | None = None
        self._board_troubles = 0

    def interrupt(self) -> None:
        """End the present wait for a task, if there is one."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def claim(self, board: BoardClient) -> tuple[Claim, Lease] | None:
        """The next task, or None after a wait. The board being away is waited out here, with the connection open."""
        taken = await self._claim(board)
        # Not reached if that raised, which a fault of this program does and nothing else.
        self._context.record.has_unread_claim = False
        return taken

    async def _claim(self, board: BoardClient) -> tuple[Claim, Lease] | None:
        context = self._context
        try:
            if self._is_unsure:
                await self.settle(board)
                if context.told_to_leave():
                    return None
            asked_at = trio.current_time()
            context.record.has_unread_claim = True
            taken = await self._wait_for_task(board)
        except BoardAwayError as away:
            await self.wait_for_board(away)
        except BoardBusyError as busy:
            await context.stop.pause(busy.retry_after_seconds)
        except (ClaimLostError, CallRefusedError) as refused:
            await self._wait_for_slot(refused)
        except WorkerRefusedError as refused:
            context.record.park(str(refused))
        else:
            if self._board_troubles:
                log.info("board_back", worker=context.name)
            self._board_troubles = 0
            is_cut_off = self._is_unsure
            if taken is None and not is_cut_off and trio.current_time() - asked_at < CLAIM_WAIT_SECONDS / 2:
                # The board did not wait: it stops, or has ended the wait for another one. Asking on at once would
                # be polling.
                await self._pause(self._poll_interval)
            return taken
        return None

    async def _wait_for_task(self, board: BoardClient) -> tuple[Claim, Lease] | None:
        """One wait inside the board, which the stop ends, trouble with the endpoint, and this worker being parked."""
        context = self._context
        is_repeated = self._key is not None
        key = self._key = self._key or context.chance.mark()
        context.record.note(State.WAITING)
        sent_at = trio.current_time()
        claim: Claim | None = None
        is_answered = False
        with (
            context.stop.until_requested(),
            context.endpoint.until_trouble(),
            trio.CancelScope() as self._waiting,
        ):
            claim = await board.claim_next(wait_seconds=CLAIM_WAIT_SECONDS, idempotency_key=key)
            is_answered = True
        self._waiting = None
        if is_answered:
            self._key = None
        else:
            # The board may have claimed all the same; it takes that back by itself once it notices.
            self._is_unsure = True
        if claim is None:
            return None
        return claim, Lease(context.name, claim, self._lease_seconds, sent_at, is_doubtful=is_repeated)

    async def _wait_for_slot(self, refused: ClaimLostError | CallRefusedError) -> None:
        """The board gives no further task: this worker holds as many as it may, or more than it knows of."""
        self._key = None
        self._is_unsure = True
        log.warning("claim_refused", worker=self._context.name, code=refused.code)
        is_full = self.in_hand and refused.code == "conflict"
        await self._pause(float("inf") if is_full else self._poll_interval)

    async def settle(self, board: BoardClient) -> None:
        """Ask the board what it thinks this worker holds, and release what is this pool's and not in hand.

        What the first look finds and no run of this pool has claimed is another's, and left to its lease.
        """
        context, record = self._context, self._context.record
        identity = await board.whoami()
        if identity.role != "worker":
            record.park("the token is not a worker's")
            return
        self._lease_seconds = identity.lease_seconds
        own = context.ledger.claims_of(context.name)
        held = {claim.claim_id: claim.task_id for claim in identity.held}
        for claim_id in own.keys() - held.keys() - self.in_hand:
            context.let_go(claim_id)
        if record.foreign is None:
            record.foreign = held.keys() - own.keys()
            if record.foreign:
                task_ids = [held[claim_id] for claim_id in record.foreign]
                log.warning("claims_of_another", worker=context.name, task_ids=task_ids)
        leftovers = {
            claim_id: task_id
            for claim_id, task_id in held.items()
            if claim_id not in self.in_hand | record.foreign
        }
        if leftovers:
            log.warning("leftovers_released", worker=context.name, task_ids=list(leftovers.values()))
        for claim_id, task_id in leftovers.items():
            if claim_id in record.crashed or (record.has_unread_claim and claim_id not in own):
                claim = Claim(claim_id, Brief(task_id, title=""))
                await TaskRun(context, board, claim).give_up_crashed()
                continue
            reason = STOPPING_REASON if context.stop.is_requested else LEFTOVER_REASON
            with suppress(ClaimLostError):  # It ended between the two calls, which is as good.
                await board.release_task(task_id, claim_id, reason)
            context.let_go(claim_id)
        record.has_unread_claim = False
        self._key = None
        self._is_unsure = False

    async def leave(self, board: BoardClient) -> None:
        """A claim whose reply was lost may still stand: ask before going, but not for ever."""
        for attempt in range(_LEAVING_ATTEMPTS):
            if not self._is_unsure and self._key is None:
                return
            if attempt:
                await trio.sleep(0.5)
            try:
                await self.settle(board)
            except WorkerRefusedError as refused:
                self._context.record.park(str(refused))
                return
            except (BoardAwayError, BoardBusyError) as away:
                log.warning("board_away", worker=self._context.name, reason=str(away))

    async def wait_for_board(self, away: BoardAwayError) -> None:
        context = self._context
        self._board_troubles += 1
        wait = backoff_seconds(
            self._board_troubles,
            jitter=context.chance.jitter(),
            first=BOARD_BACKOFF_FIRST_SECONDS,
            maximum=BOARD_BACKOFF_MAX_SECONDS,
        )
        context.record.note(State.BOARD_AWAY, until=trio.current_time() + wait, reason=str(away))
        log.warning("board_away", worker=context.name, reason=str(away), wait_seconds=round(wait, 1))
        await context.stop.pause(wait)

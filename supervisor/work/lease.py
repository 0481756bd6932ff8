"""Keeping a claim while the model works on its task.

Two clocks look at one lease, the board's and this worker's, and only the board's decides. A renewal that fails says
nothing about who holds the claim, so the worker goes on until the lease has run out on its own clock as well,
counted from the moment when the last good renewal was SENT: the board cannot have begun it earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
import trio

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    BoardNonsenseError,
    CallRefusedError,
    ClaimLostError,
)
from supervisor.board.protocol import BoardClient, Claim
from supervisor.rules.limits import (
    BOARD_BACKOFF_FIRST_SECONDS,
    BOARD_BACKOFF_MAX_SECONDS,
    LEASE_MIN_SECONDS,
    LEASE_PART_OF_RENEWAL,
    RENEWAL_SECONDS_MAX,
)
from supervisor.rules.restart import backoff_seconds

RAN_OUT: Final = "ran_out"
"""How a claim ended of which the board has said nothing."""

log = structlog.get_logger(__name__)


class Lease:
    """One claim's lease. `seconds` is the claim's, or the board's default, or the shortest there is."""

    def __init__(
        self, worker: str, claim: Claim, board_default: int | None, sent_at: float, *, is_doubtful: bool
    ) -> None:
        """`sent_at`: when the call that brought the claim was sent, of Trio's clock.

        `is_doubtful`: an earlier call may have brought it already, so it is renewed at once.
        """
        self._worker = worker
        self._claim = claim
        self._default = board_default or LEASE_MIN_SECONDS
        self._seconds = claim.lease_seconds or self._default
        self._sent_at = sent_at
        self._is_doubtful = is_doubtful

    @property
    def ends_at(self) -> float:
        return self._sent_at + self._seconds

    @property
    def renewal_due_at(self) -> float:
        if self._is_doubtful:
            return self._sent_at
        return self._sent_at + min(self._seconds * LEASE_PART_OF_RENEWAL, RENEWAL_SECONDS_MAX)

    async def keep(self, board: BoardClient, jitter: Callable[[], float]) -> str:
        """Renew on time for as long as the claim is this worker's; then return the board's word for how it ended.

        RAN_OUT when the board could not be asked in time. Raises WorkerRefusedError.
        """
        with trio.CancelScope(deadline=self.ends_at) as scope:
            await trio.sleep_until(self.renewal_due_at)
            failures = 0
            while True:
                sent_at = trio.current_time()
                try:
                    renewal = await board.renew_claim(self._claim.task_id, self._claim.claim_id)
                    if renewal.status != "claimed":
                        return renewal.status
                    self._renewed(sent_at)
                    scope.deadline = self.ends_at
                    if renewal.changed:
                        await self._learn_length(board)
                        scope.deadline = self.ends_at
                except ClaimLostError as lost:
                    return lost.code
                except (BoardAwayError, BoardBusyError, BoardNonsenseError, CallRefusedError) as failure:
                    failures += 1
                    await trio.sleep(self._pause(failure, failures, jitter()))
                else:
                    failures = 0
                    await trio.sleep_until(self.renewal_due_at)
        return RAN_OUT

    def _renewed(self, sent_at: float) -> None:
        self._sent_at = sent_at
        self._is_doubtful = False

    async def _learn_length(self, board: BoardClient) -> None:
        """The leader has changed the task, perhaps its lease too. The texts are not asked for again: the call runs."""
        state = await board.read_task(self._claim.task_id)
        self._seconds = state.lease_seconds or self._default
        log.info("task_changed", worker=self._worker, task_id=self._claim.task_id)

    def _pause(self, failure: Exception, failures: int, jitter: float) -> float:
        """What was asked for or the usual back-off, but never so long that no attempt is left."""
        if isinstance(failure, BoardBusyError):
            wait = failure.retry_after_seconds
        else:
            wait = backoff_seconds(
                failures,
                jitter=jitter,
                first=BOARD_BACKOFF_FIRST_SECONDS,
                maximum=BOARD_BACKOFF_MAX_SECONDS,
            )
        wait = min(wait, max((self.ends_at - trio.current_time()) / 2, BOARD_BACKOFF_FIRST_SECONDS))
        log.warning(
            "renewal_failed",
            worker=self._worker,
            task_id=self._claim.task_id,
            reason=str(failure),
            wait_seconds=round(wait, 1),
        )
        return wait

"""One claimed task, from its brief to a submitted answer or a released task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
import trio

from supervisor.board import BoardClient, Claim
from supervisor.board_errors import CallRefusedError, ClaimLostError, WorkerRefusedError
from supervisor.failures import FailureClass, ModelCallError
from supervisor.lease import RAN_OUT, Lease
from supervisor.model_client import ModelClient
from supervisor.persistence import persist
from supervisor.policy import (
    CONSEQUENCES,
    WorkerMove,
    endpoint_wait_seconds,
    gives_up,
    settled_class,
)
from supervisor.prompt import compose
from supervisor.record import WorkerRecord
from supervisor.roster import Worker
from supervisor.stop import Stop

STOPPING_REASON = "the pool is stopping"
RAN_OUT_REASON = "the lease ran out while the board could not be asked"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chance:
    """What a worker draws at random: a word nobody can guess, and a number from 0 to 1 that spreads waits."""

    mark: Callable[[], str]
    jitter: Callable[[], float]


@dataclass(slots=True)
class _Asked:
    """What came of asking the model: an answer, a failure, a lost claim, or none of them when the stop came first."""

    answer: str | None = None
    failure: ModelCallError | None = None
    lost: str | None = None
    refused: WorkerRefusedError | None = None


class TaskRun:
    """One task in one worker's hands.

    `run` returns once the board knows how it ended, or that the task was this worker's no more. Raises
    WorkerRefusedError and BoardNonsenseError. Cancelled from outside, the task may stay claimed; only the stop's own
    cut, which ends no more than the model call, lets it release first.
    """

    def __init__(
        self,
        worker: Worker,
        record: WorkerRecord,
        stop: Stop,
        chance: Chance,
        board: BoardClient,
        model: ModelClient,
        claim: Claim,
    ) -> None:
        self._worker = worker
        self._record = record
        self._stop = stop
        self._chance = chance
        self._board = board
        self._model = model
        self._claim = claim
        self._task_id = claim.task_id

    async def run(self, lease: Lease) -> None:
        asked = await self._ask_model(lease)
        if asked.refused is not None:
            raise asked.refused
        if asked.lost == RAN_OUT:
            await self._release(RAN_OUT_REASON)
        elif asked.lost is not None:
            self._let_go(asked.lost)
        elif asked.failure is not None:
            await self._fail(asked.failure)
        elif asked.answer is not None:
            try:
                await self._submit(asked.answer)
            except ModelCallError as failure:
                await self._fail(failure)
        else:
            await self._release(STOPPING_REASON)

    async def release_unstarted(self, reason: str) -> None:
        """Give back a task that was claimed just when the worker could not begin any more; no call is made for it."""
        await self._release(reason)

    async def _ask_model(self, lease: Lease) -> _Asked:
        """Ask while the lease is kept; a claim that is lost ends the call at once."""
        messages = compose(
            self._claim.brief, mark=self._chance.mark(), system_prompt=self._worker.system_prompt
        )
        started = trio.current_time()
        asked = _Asked()
        async with trio.open_nursery() as nursery:

            async def keep_lease() -> None:
                try:
                    asked.lost = await lease.keep(self._board, self._chance.jitter)
                except WorkerRefusedError as refused:
                    asked.refused = refused
                nursery.cancel_scope.cancel()

            nursery.start_soon(keep_lease)
            try:
                with self._stop.until_cut():
                    asked.answer = await self._model.ask(messages)
            except ModelCallError as failure:
                asked.failure = failure
            nursery.cancel_scope.cancel()
        if asked.answer is not None:
            self._record.note_answer()
            seconds = round(trio.current_time() - started, 3)
            log.info("model_answered", worker=self._worker.name, task_id=self._task_id, seconds=seconds)
        return asked

    async def _submit(self, answer: str) -> None:
        """Hand the answer in, however long the board is away. Raises ModelCallError if the board does not take the text."""

        async def submit() -> None:
            await self._board.submit_result(self._task_id, self._claim.claim_id, answer)

        async def submit_again() -> None:
            # The reply was lost, perhaps after the board had stored the answer.
            state = await self._board.read_task(self._task_id)
            if not (state.status in {"submitted", "done"} and state.result == answer):
                await submit()

        try:
            await self._persist(submit, submit_again)
        except ClaimLostError as lost:
            self._let_go(lost.code)
            return
        except CallRefusedError as refused:
            detail = f"the board does not take the answer ({refused.code})"
            raise ModelCallError(FailureClass.CONTENT, detail) from None
        log.info("task_submitted", worker=self._worker.name, task_id=self._task_id, chars=len(answer))
        self._record.forget_failures(self._task_id)
        self._record.held.pop(self._claim.claim_id, None)

    async def _fail(self, failure: ModelCallError) -> None:
        record, worker = self._record, self._worker
        kind = settled_class(failure.kind, has_answered=record.has_answered)
        consequence = CONSEQUENCES[kind]
        log.warning(
            "model_call_failed",
            worker=worker.name,
            task_id=self._task_id,
            failure=kind,
            detail=failure.detail,
        )
        # What the worker must remember comes before the first await: a crash or a cancel there must not lose it.
        if consequence.worker is WorkerMove.PARK:
            record.park(f"{kind}: {failure.detail}")
        elif consequence.worker is WorkerMove.WAIT:
            record.troubles += 1
            wait = endpoint_wait_seconds(
                kind,
                retry_after_seconds=failure.retry_after_seconds,
                troubles=record.troubles,
                jitter=self._chance.jitter(),
            )
            record.endpoint_free_at = max(record.endpoint_free_at, trio.current_time() + wait)
        else:
            record.troubles = 0
        failures = record.count_failure(self._task_id) if consequence.counts else 0
        if gives_up(consequence, failures=failures, max_failures=worker.max_failures):
            await self._ask_for_help(kind, failures)
            record.forget_failures(self._task_id)
        await self._release(f"{kind}: {failure.detail}", failed=consequence.counts)

    async def _ask_for_help(self, kind: FailureClass, failures: int) -> None:
        """While the task is still held, so that nobody claims it in between."""
        times = "once" if failures == 1 else f"{failures} times"
        body = f"{self._worker.name} failed at this task {times} and leaves it. Class of the last failure: {kind}."

        async def ask() -> None:
            await self._board.ask_for_help(
                self._task_id, body, idempotency_key=f"help-{self._claim.claim_id}"
            )

        try:
            await self._persist(ask)
        except (ClaimLostError, CallRefusedError) as refused:
            log.warning(
                "help_not_requested", worker=self._worker.name, task_id=self._task_id, code=refused.code
            )
        else:
            log.warning("help_requested", worker=self._worker.name, task_id=self._task_id, failure=kind)

    async def _release(self, reason: str, *, failed: bool = False) -> None:
        async def release() -> None:
            await self._board.release_task(
                self._task_id,
                self._claim.claim_id,
                reason,
                failed=failed,
                cooldown_seconds=self._worker.cooldown_seconds if failed else None,
            )

        try:
            await self._persist(release)
        except ClaimLostError as lost:
            self._let_go(lost.code)
        else:
            log.info("task_released", worker=self._worker.name, task_id=self._task_id, failed=failed)
            self._record.held.pop(self._claim.claim_id, None)

    def _let_go(self, code: str) -> None:
        """The board has ended the claim already, and says so with this word."""
        log.warning("claim_lost", worker=self._worker.name, task_id=self._task_id, code=code)
        self._record.held.pop(self._claim.claim_id, None)

    async def _persist(
        self, call: Callable[[], Awaitable[None]], again: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        await persist(
            call, again=again, stop=self._stop, worker=self._worker.name, jitter=self._chance.jitter
        )

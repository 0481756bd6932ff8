"""One claimed task, from its brief to a submitted answer or a released task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
import trio

from supervisor.board_client import BoardClient
from supervisor.board_errors import BoardAwayError, BoardBusyError, CallRefusedError, ClaimLostError
from supervisor.failures import FailureClass, ModelCallError
from supervisor.limits import BOARD_BACKOFF_FIRST_SECONDS, BOARD_BACKOFF_MAX_SECONDS
from supervisor.model_client import ModelClient
from supervisor.policy import (
    CONSEQUENCES,
    WorkerMove,
    endpoint_wait_seconds,
    gives_up,
    settled_class,
)
from supervisor.prompt import Brief, compose
from supervisor.record import WorkerRecord
from supervisor.restart import backoff_seconds
from supervisor.roster import Worker
from supervisor.stop import Stop

STOPPING_REASON = "the pool is stopping"
_STOPPING_WAIT_SECONDS = 0.5
"""Between attempts to reach the board while the pool stops: the whole stop is bounded, so there is no time for more."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chance:
    """What a worker draws at random: the mark of a fence, and a number from 0 to 1 that spreads waits."""

    mark: Callable[[], str]
    jitter: Callable[[], float]


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
    ) -> None:
        self._worker = worker
        self._record = record
        self._stop = stop
        self._chance = chance
        self._board = board
        self._model = model

    async def run(self, brief: Brief) -> None:
        try:
            answer = await self._ask_model(brief)
            if answer is not None:
                await self._submit(brief.task_id, answer)
            else:
                await self._release(brief.task_id, STOPPING_REASON)
        except ModelCallError as failure:
            await self._fail(brief.task_id, failure)

    async def release_unstarted(self, task_id: int) -> None:
        """Give back a task that was claimed just before the worker was told to leave; no call is made for it."""
        await self._release(task_id, STOPPING_REASON if self._stop.is_requested else "the worker is parked")

    async def _ask_model(self, brief: Brief) -> str | None:
        """The answer, or None if the stop came first. Raises ModelCallError."""
        messages = compose(brief, mark=self._chance.mark(), system_prompt=self._worker.system_prompt)
        started = trio.current_time()
        answer: str | None = None
        with self._stop.until_cut():
            answer = await self._model.ask(messages)
        if answer is not None:
            self._record.note_answer()
            seconds = round(trio.current_time() - started, 3)
            log.info("model_answered", worker=self._worker.name, task_id=brief.task_id, seconds=seconds)
        return answer

    async def _submit(self, task_id: int, answer: str) -> None:
        """Hand the answer in, however long the board is away. Raises ModelCallError if the board does not take the text."""

        async def submit() -> None:
            await self._board.submit_result(task_id, answer)

        async def submit_again() -> None:
            # The reply was lost, perhaps after the board had stored the answer.
            state = await self._board.read_task(task_id)
            if not (state.status in {"submitted", "done"} and state.result == answer):
                await submit()

        try:
            await self._persist(submit, submit_again)
        except ClaimLostError as lost:
            log.warning("claim_lost", worker=self._worker.name, task_id=task_id, code=lost.code)
        except CallRefusedError as refused:
            detail = f"the board does not take the answer ({refused.code})"
            raise ModelCallError(FailureClass.CONTENT, detail) from None
        else:
            log.info("task_submitted", worker=self._worker.name, task_id=task_id, chars=len(answer))
            self._record.forget_failures(task_id)
        self._record.held.discard(task_id)

    async def _fail(self, task_id: int, failure: ModelCallError) -> None:
        record, worker = self._record, self._worker
        kind = settled_class(failure.kind, has_answered=record.has_answered)
        consequence = CONSEQUENCES[kind]
        log.warning(
            "model_call_failed", worker=worker.name, task_id=task_id, failure=kind, detail=failure.detail
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
        failures = record.count_failure(task_id) if consequence.counts else 0
        if gives_up(consequence, failures=failures, max_failures=worker.max_failures):
            await self._ask_for_help(task_id, kind, failures)
            record.forget_failures(task_id)
        await self._release(task_id, f"{kind}: {failure.detail}", failed=consequence.counts)

    async def _ask_for_help(self, task_id: int, kind: FailureClass, failures: int) -> None:
        """While the task is still held, so that nobody claims it in between."""
        times = "once" if failures == 1 else f"{failures} times"
        body = f"{self._worker.name} failed at this task {times} and leaves it. Class of the last failure: {kind}."

        async def ask() -> None:
            await self._board.ask_for_help(task_id, body)

        try:
            await self._persist(ask)
        except (ClaimLostError, CallRefusedError) as refused:
            log.warning("help_not_requested", worker=self._worker.name, task_id=task_id, code=refused.code)
        else:
            log.warning("help_requested", worker=self._worker.name, task_id=task_id, failure=kind)

    async def _release(self, task_id: int, reason: str, *, failed: bool = False) -> None:
        async def release() -> None:
            cooldown = self._worker.cooldown_seconds if failed else None
            await self._board.release_task(task_id, reason, failed=failed, cooldown_seconds=cooldown)

        try:
            await self._persist(release)
        except ClaimLostError as lost:
            log.warning("claim_lost", worker=self._worker.name, task_id=task_id, code=lost.code)
        else:
            log.info("task_released", worker=self._worker.name, task_id=task_id, failed=failed)
        self._record.held.discard(task_id)

    async def _persist(
        self, call: Callable[[], Awaitable[None]], again: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Make the call until the board has answered it; `again` takes its place once a reply was lost."""
        attempt = 0
        while True:
            try:
                await call()
            except BoardBusyError as busy:
                wait = busy.retry_after_seconds
            except BoardAwayError as away:
                attempt += 1
                call = again or call
                wait = backoff_seconds(
                    attempt,
                    jitter=self._chance.jitter(),
                    first=BOARD_BACKOFF_FIRST_SECONDS,
                    maximum=BOARD_BACKOFF_MAX_SECONDS,
                )
                log.warning(
                    "board_away", worker=self._worker.name, reason=str(away), wait_seconds=round(wait, 1)
                )
            else:
                return
            if self._stop.is_requested:
                await trio.sleep(min(wait, _STOPPING_WAIT_SECONDS))
            else:
                await self._stop.pause(wait)

"""One claimed task, from its brief to a submitted answer or a released task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from supervisor.board.errors import (
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.board.persistence import persist
from supervisor.board.protocol import BoardClient, Claim
from supervisor.memory.record import BoardWait
from supervisor.model.client import ModelClient
from supervisor.model.prompt import compose
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.policy import CONSEQUENCES, Move, endpoint_wait_seconds, gives_up
from supervisor.work.budget import AtCapError
from supervisor.work.calls import Attempt, ModelCalls
from supervisor.work.context import WorkerContext
from supervisor.work.lease import RAN_OUT, Lease
from supervisor.work.report import end_with_report

STOPPING_REASON = "the pool is stopping"
AT_CAP_REASON = "the worker's budget has no room for this task now"
CRASH_DETAIL = "a fault of the worker's own program, which its log describes"
RAN_OUT_REASON = "the lease ran out while the board could not be asked"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Asked:
    """What came of asking the model: one of these, or nothing when the stop came first."""

    answer: str | None = None
    failure: ModelCallError | None = None
    is_at_cap: bool = False
    lost: str | None = None
    refused: WorkerRefusedError | None = None


class TaskRun:
    """One task in one worker's hands.

    `run` returns once the board knows how it ended, or that the task was this worker's no more. Raises
    WorkerRefusedError and BoardNonsenseError. Cancelled from outside, the task may stay claimed; only the stop's own
    cut, which ends no more than the model call, lets it release first.
    """

    def __init__(self, context: WorkerContext, board: BoardClient, claim: Claim) -> None:
        self._context = context
        self._board = board
        self._claim = claim
        self._task_id = claim.task_id
        self._attempt = Attempt()

    async def run(self, model: ModelClient, calls: ModelCalls, lease: Lease) -> None:
        asked = await self._ask_model(model, calls, lease)
        if asked.refused is not None:
            raise asked.refused
        if asked.lost == RAN_OUT:
            await self._release(RAN_OUT_REASON)
        elif asked.lost is not None:
            self._let_go(asked.lost)
        elif asked.is_at_cap:
            await self._release(AT_CAP_REASON)
        elif asked.failure is not None:
            await self._fail(asked.failure)
        elif asked.answer is not None:
            await self._hand_in(asked.answer)
        else:
            await self._release(STOPPING_REASON)

    async def release_unstarted(self, reason: str) -> None:
        """Give back a task that was claimed just when the worker could not begin any more; no call is made for it."""
        await self._release(reason)

    async def give_up_crashed(self) -> None:
        """Give back a task that met a fault of this program, as one that failed: its next holder may meet it too."""

        async def renew() -> None:
            renewal = await self._board.renew_claim(self._task_id, self._claim.claim_id)
            if renewal.status != "claimed":
                raise ClaimLostError(renewal.status)

        try:
            # The fault may have come after the board had taken the answer.
            await self._persist(renew)
        except ClaimLostError as lost:
            self._let_go(lost.code)
        else:
            await self._fail(ModelCallError(FailureClass.CRASH, CRASH_DETAIL))

    async def _ask_model(self, model: ModelClient, calls: ModelCalls, lease: Lease) -> _Asked:
        """Ask while the lease is kept; a claim that is lost ends the call at once."""
        context = self._context
        messages = compose(
            self._claim.brief, mark=context.chance.mark(), system_prompt=context.worker.system_prompt
        )
        asked = _Asked()
        if trio.current_time() >= lease.ends_at:
            # The program was stopped for so long between the claim and now: no call is worth beginning.
            calls.forgo()
            asked.lost = RAN_OUT
            return asked
        async with trio.open_nursery() as nursery:

            async def keep_lease() -> None:
                try:
                    asked.lost = await lease.keep(self._board, context.chance.jitter)
                except WorkerRefusedError as refused:
                    asked.refused = refused
                nursery.cancel_scope.cancel()

            nursery.start_soon(keep_lease)
            try:
                with context.stop.until_cut():
                    asked.answer = await calls.ask(self._task_id, messages, model, self._attempt)
            except ModelCallError as failure:
                asked.failure = failure
                # Before anything is said to the board: a crash or a cancel there must not lose what follows from it.
                self._draw_consequences(failure, asked_at=self._attempt.last_asked_at)
            except AtCapError:
                asked.is_at_cap = True
            nursery.cancel_scope.cancel()
        if asked.answer is not None:
            log.info(
                "model_answered",
                worker=context.name,
                task_id=self._task_id,
                model=self._attempt.model,
                seconds=round(self._attempt.seconds, 3),
                tokens=self._attempt.usage.tokens,
            )
        return asked

    async def _hand_in(self, answer: str) -> None:
        try:
            await self._end("answered", partial(self._submit, answer))
        except ClaimLostError as lost:
            self._let_go(lost.code)
        except CallRefusedError as refused:
            detail = f"the board does not take the answer ({refused.code})"
            failure = ModelCallError(FailureClass.CONTENT, detail)
            self._draw_consequences(failure, asked_at=self._attempt.last_asked_at)
            await self._fail(failure)

    async def _submit(self, answer: str) -> None:
        """However long the board is away."""

        async def submit() -> None:
            await self._board.submit_result(self._task_id, self._claim.claim_id, answer)

        async def submit_again() -> None:
            # The reply was lost, perhaps after the board had stored the answer.
            state = await self._board.read_task(self._task_id)
            if not (state.status in {"submitted", "done"} and state.result == answer):
                await submit()

        await self._persist(submit, submit_again)
        self._context.tell_task("task_submitted", self._task_id, chars=len(answer))
        self._context.forget_failures(self._task_id)
        self._context.let_go(self._claim.claim_id)

    def _draw_consequences(self, failure: ModelCallError, *, asked_at: float) -> None:
        """For the worker and its endpoint."""
        context, record = self._context, self._context.record
        jitter = context.chance.jitter()
        move = CONSEQUENCES[failure.kind].move
        if move is Move.PARK:
            record.park(f"{failure.kind}: {failure.detail}")
        elif move is Move.COOL_DOWN:
            context.endpoint.cool_down(
                failure.kind,
                asked_at=asked_at,
                retry_after_seconds=failure.retry_after_seconds,
                jitter=jitter,
            )
        elif move is Move.BACK_OFF:
            record.troubles += 1
            wait = endpoint_wait_seconds(
                failure.kind,
                retry_after_seconds=failure.retry_after_seconds,
                troubles=record.troubles,
                jitter=jitter,
            )
            record.free_at = max(record.free_at, trio.current_time() + wait)
        else:
            record.troubles = 0

    async def _fail(self, failure: ModelCallError) -> None:
        consequence = CONSEQUENCES[failure.kind]
        failures = self._context.count_failure(self._claim) if consequence.counts else 0

        async def give_back() -> None:
            if gives_up(consequence, failures=failures, max_failures=self._context.worker.max_failures):
                await self._ask_for_help(failure.kind, failures)
            await self._release(f"{failure.kind}: {failure.detail}", failed=consequence.counts)

        await self._end(f"no result ({failure.kind})", give_back)

    async def _end(self, outcome: str, end: Callable[[], Awaitable[None]]) -> None:
        """Raises what `end` raises."""
        if not self._attempt.calls:
            await end()
            return
        body = self._attempt.sentence(self._context.name, outcome)
        await end_with_report(end, body, context=self._context, board=self._board, claim=self._claim)

    async def _ask_for_help(self, kind: FailureClass, failures: int) -> None:
        """While the task is still held, so that nobody claims it in between."""
        name = self._context.name
        times = "once" if failures == 1 else f"{failures} times"
        body = f"{name} failed at this task {times} and leaves it. Class of the last failure: {kind}."

        async def ask() -> None:
            await self._board.ask_for_help(
                self._task_id, body, idempotency_key=f"help-{self._claim.claim_id}"
            )

        try:
            await self._persist(ask)
        except (ClaimLostError, CallRefusedError) as refused:
            log.warning("help_not_requested", worker=name, task_id=self._task_id, code=refused.code)
        else:
            # Nobody may claim the task before the leader has answered, and then the count starts anew.
            self._context.forget_failures(self._task_id)
            log.warning("help_requested", worker=name, task_id=self._task_id, failure=kind)

    async def _release(self, reason: str, *, failed: bool = False) -> None:
        async def release() -> None:
            await self._board.release_task(
                self._task_id,
                self._claim.claim_id,
                reason,
                failed=failed,
                cooldown_seconds=self._context.worker.cooldown_seconds if failed else None,
            )

        try:
            await self._persist(release)
        except ClaimLostError as lost:
            self._let_go(lost.code)
        else:
            self._context.tell_task("task_released", self._task_id, failed=failed)
            self._context.let_go(self._claim.claim_id)

    def _let_go(self, code: str) -> None:
        """The board has ended the claim already, and says so with this word."""
        log.warning("claim_lost", worker=self._context.name, task_id=self._task_id, code=code)
        self._context.let_go(self._claim.claim_id)

    async def _persist(
        self, call: Callable[[], Awaitable[None]], again: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        context, claim_id = self._context, self._claim.claim_id

        def note_wait(reason: str, until: float) -> None:
            context.record.untold[claim_id] = BoardWait(until, reason)

        try:
            await persist(
                call,
                again=again,
                stop=context.stop,
                worker=context.name,
                jitter=context.chance.jitter,
                note_wait=note_wait,
            )
        finally:
            context.record.untold.pop(claim_id, None)

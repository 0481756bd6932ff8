"""A worker's model calls: none beyond its caps, each one counted, one model after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import structlog
import trio

from supervisor.model.client import ModelClient
from supervisor.model.prompt import Message
from supervisor.model.usage import NO_USAGE, Usage, cost, estimate_usage
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.policy import CONSEQUENCES
from supervisor.rules.refusals import settled_class
from supervisor.work.context import WorkerContext

_FROM_A_WORKING_ENDPOINT = frozenset({FailureClass.CONTENT, FailureClass.CONTEXT_LENGTH})

log = structlog.get_logger(__name__)


class Hindrance(StrEnum):
    """What stands against a call."""

    HOURLY_CAP = "hourly_cap"
    DAILY_CAP = "daily_cap"
    ENDPOINT = "endpoint"
    BACK_OFF = "back_off"


class AtCapError(Exception):
    """No call was made: the caps have no room for it now."""


@dataclass(slots=True)
class Attempt:
    """What one attempt at a task has taken so far."""

    calls: int = 0
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    cost: float | None = None
    model: str | None = None
    """The one that answered."""
    last_asked_at: float = float("-inf")

    def add(self, usage: Usage, seconds: float, cost: float | None) -> None:
        self.calls += 1
        self.seconds += seconds
        self.usage = Usage(
            self.usage.input_tokens + usage.input_tokens,
            self.usage.output_tokens + usage.output_tokens,
            self.usage.is_estimated or usage.is_estimated,
        )
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def sentence(self, worker: str, outcome: str) -> str:
        """For the board: what it took, and nothing of what was said."""
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        estimated = " (estimated)" if self.usage.is_estimated else ""
        price = "" if self.cost is None else f", cost {self.cost:.6f}"
        return (
            f"{worker}: {outcome} after {calls} and {self.seconds:.1f} s; "
            f"{self.usage.input_tokens} tokens in, {self.usage.output_tokens} out{estimated}{price}."
        )


class ModelCalls:
    """The calls of one life of a worker, over one connection."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._promised = 0

    def allowed_at(self, now: float) -> tuple[float, Hindrance]:
        """From when one more task may be begun, and what stands against it until then; `now` or earlier: at once."""
        context, worker = self._context, self._context.worker
        day_now = context.clock.now()
        cap = worker.max_calls_per_hour - self._promised
        calls_at = context.ledger.call_allowed_at(worker.name, cap, day_now) if cap > 0 else float("inf")
        tokens_at = day_now
        if worker.max_tokens_per_day is not None:
            tokens_at = context.ledger.tokens_allowed_at(worker.name, worker.max_tokens_per_day, 1, day_now)
        waits = [
            (now + (calls_at - day_now), Hindrance.HOURLY_CAP),
            (max(now + (tokens_at - day_now), context.record.tokens_free_at), Hindrance.DAILY_CAP),
            (context.endpoint.free_for(worker.name, context.chance.jitter), Hindrance.ENDPOINT),
            (context.record.free_at, Hindrance.BACK_OFF),
        ]
        return max(waits, key=lambda wait: wait[0])

    def promise(self) -> None:
        """A task was taken, and its first call will follow: it counts from now on."""
        self._promised += 1

    def forgo(self) -> None:
        """The promised call will not be made."""
        self._promised -= 1

    async def ask(
        self, task_id: int, messages: Sequence[Message], model: ModelClient, attempt: Attempt
    ) -> str:
        """The answer of the first model that has one. `attempt` is kept up to date, also when this is cancelled.

        Takes the place of one promise. Raises AtCapError, and ModelCallError with its class settled: of the last model
        asked, where one that the endpoint does not know is passed over.
        """
        record = self._context.record
        failure: ModelCallError | None = None
        unknown: ModelCallError | None = None
        # From here to the first call nothing waits, so no other task comes between.
        self._promised -= 1
        for number, name in enumerate(self._models()):
            try:
                self._refuse_beyond_caps(messages)
            except AtCapError:
                if number == 0:
                    raise
                break
            try:
                return await self._call(name, messages, model, attempt)
            except ModelCallError as raised:
                error = self._settled(raised, name, task_id)
                log.warning(
                    "model_call_failed",
                    worker=self._context.name,
                    model=name,
                    failure=error.kind,
                    detail=error.detail,
                )
                self._context.endpoint.note_failure(error.kind)
                if error.kind in _FROM_A_WORKING_ENDPOINT:
                    self._context.endpoint.note_answer()
                if error.kind is FailureClass.CONFIG:
                    record.unusable.add(name)
                    unknown = error
                else:
                    failure = error
                if not CONSEQUENCES[error.kind].falls_back:
                    break
        ended = failure or unknown
        if ended is None:
            raise AssertionError("a worker has a model")
        raise ended

    def _settled(self, error: ModelCallError, model: str, task_id: int) -> ModelCallError:
        """The failure with its class decided. What later ones are decided by is kept."""
        if error.kind in _FROM_A_WORKING_ENDPOINT:
            self._context.note_answer(model)
        if error.kind is not FailureClass.REFUSED_REQUEST:
            return error
        tasks_refused = self._context.note_refusal(model, task_id)
        kind = settled_class(error.kind, tasks_refused=tasks_refused)
        row = f", as to {tasks_refused} tasks in a row" if kind is FailureClass.CONFIG else ""
        return ModelCallError(kind, error.detail + row, usage=error.usage)

    def _models(self) -> list[str]:
        worker = self._context.worker
        names = [worker.model, *worker.fallback_models]
        # All unusable: it is tried once more, since the owner may have made the model known meanwhile.
        return [name for name in names if name not in self._context.record.unusable] or names

    def _refuse_beyond_caps(self, messages: Sequence[Message]) -> None:
        context, worker = self._context, self._context.worker
        now = context.clock.now()
        cap = worker.max_calls_per_hour - self._promised
        if cap <= 0 or context.ledger.call_allowed_at(worker.name, cap, now) > now:
            raise AtCapError
        if worker.max_tokens_per_day is None:
            return
        reserve = self._reserve(messages).tokens
        if reserve > worker.max_tokens_per_day:
            detail = "the brief takes more tokens than this worker has in a day"
            raise ModelCallError(FailureClass.CONTEXT_LENGTH, detail)
        free_at = context.ledger.tokens_allowed_at(worker.name, worker.max_tokens_per_day, reserve, now)
        if free_at > now:
            context.record.tokens_free_at = context.clock.moment(free_at)
            raise AtCapError

    def _reserve(self, messages: Sequence[Message]) -> Usage:
        """What the call may take, as far as that is known."""
        sent = estimate_usage(messages)
        return Usage(sent.input_tokens, self._context.worker.max_output_tokens or 0, is_estimated=True)

    async def _call(
        self, name: str, messages: Sequence[Message], model: ModelClient, attempt: Attempt
    ) -> str:
        context, worker = self._context, self._context.worker
        call_id = context.ledger.begin_call(worker.name, name, self._reserve(messages), context.clock.now())
        context.endpoint.note_call()
        started = attempt.last_asked_at = trio.current_time()
        outcome, usage = "dropped", estimate_usage(messages)
        try:
            answer = await model.ask(messages, model=name)
            outcome, usage = "answered", answer.usage
        except ModelCallError as error:
            outcome, usage = error.kind, error.usage
            raise
        finally:
            seconds = trio.current_time() - started
            price = cost(usage, worker.price_input, worker.price_output)
            context.ledger.end_call(call_id, outcome=outcome, usage=usage, seconds=seconds, cost=price)
            attempt.add(usage, seconds, price)
        attempt.model = name
        context.note_answer(name)
        context.record.troubles = 0
        context.endpoint.note_answer()
        return answer.text

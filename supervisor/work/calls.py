"""A worker's model calls: none beyond its caps, each one counted, one model after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import structlog
import trio

from supervisor.model.client import ModelClient
from supervisor.model.prompt import Message
from supervisor.model.usage import NO_USAGE, Usage
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.policy import CONSEQUENCES
from supervisor.rules.refusals import settled_class
from supervisor.work.budget import AtCapError, Budget, Taken
from supervisor.work.context import WorkerContext

_FROM_A_WORKING_ENDPOINT = frozenset({FailureClass.CONTENT, FailureClass.CONTEXT_LENGTH})

log = structlog.get_logger(__name__)


class Hindrance(StrEnum):
    """What stands against a call."""

    HOURLY_CAP = "hourly_cap"
    DAILY_CAP = "daily_cap"
    ENDPOINT = "endpoint"
    BACK_OFF = "back_off"


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

    def add(self, taken: Taken, seconds: float) -> None:
        usage, cost = taken.usage, taken.cost
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
        self._budget = Budget(context)

    def allowed_at(self, now: float) -> tuple[float, Hindrance]:
        """From when one more task may be begun, and what stands against it until then; `now` or earlier: at once.

        Infinite while that is up to the tasks in hand.
        """
        context = self._context
        waits = [
            (self._budget.call_allowed_at(now), Hindrance.HOURLY_CAP),
            (self._budget.tokens_allowed_at(now), Hindrance.DAILY_CAP),
            (context.endpoint.free_for(context.name, context.chance.jitter), Hindrance.ENDPOINT),
            (context.record.free_at, Hindrance.BACK_OFF),
        ]
        return max(waits, key=lambda wait: wait[0])

    def promise(self) -> None:
        """A task was taken, and its first call will follow: it counts from now on."""
        self._budget.promise()

    def forgo(self) -> None:
        """The promised call will not be made."""
        self._budget.forgo()

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
        self._budget.forgo()
        for number, name in enumerate(self._models()):
            try:
                self._budget.check(messages)
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

    async def _call(
        self, name: str, messages: Sequence[Message], model: ModelClient, attempt: Attempt
    ) -> str:
        context = self._context
        call_id = self._budget.begin(name, messages)
        context.endpoint.note_call()
        started = attempt.last_asked_at = trio.current_time()
        outcome, usage = "dropped", None
        try:
            answer = await model.ask(messages, model=name)
            outcome, usage = "answered", answer.usage
        except ModelCallError as error:
            outcome, usage = error.kind, error.usage
            raise
        finally:
            seconds = trio.current_time() - started
            taken = self._budget.end(call_id, outcome=outcome, usage=usage, seconds=seconds)
            attempt.add(taken, seconds)
        attempt.model = name
        context.note_answer(name)
        context.record.troubles = 0
        context.endpoint.note_answer()
        return answer.text

"""A worker's two caps: calls in any hour, tokens in any day. Nothing is begun that could exceed them unseen.

House rules: what a call is likely to take is set aside before it is made, so that no other one counts on it. Calls are
side by side only while the most that they can take fits; a call alone has to fit by what it is likely to take. So the
day is exceeded by what a single call takes beyond that, at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.model.prompt import Message
from supervisor.model.usage import UNSEEN_OUTPUT_TOKENS, Usage, cost, estimate_usage, most_tokens
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.work.context import WorkerContext


class AtCapError(Exception):
    """No call was made: the caps have no room for it now."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A call that was begun: what is set aside for it, and the most that it can take."""

    aside: Usage
    most: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call has taken in the end; `cost` is None without a price."""

    usage: Usage
    cost: float | None


class Budget:
    """Of one life of a worker. Moments are of Trio's clock."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._ledger = context.ledger
        self._name = context.name
        self._day = context.worker.max_tokens_per_day
        self._limit = context.worker.max_output_tokens
        self._promised = 0
        self._under_way: dict[int, _UnderWay] = {}
        self._is_crowded = False
        """A call had no room beside those under way."""
        self._last_most = most_tokens((), self._limit)
        """Of the last brief. What the next one will take is not known before it is claimed: it is taken to be like it."""

    def promise(self) -> None:
        """A task was taken, and its first call will follow: it counts from now on."""
        self._promised += 1

    def forgo(self) -> None:
        """The promised call is made now, or will not be made."""
        self._promised -= 1

    def call_allowed_at(self, now: float) -> float:
        """From when the hour has room for one more: `now`, or later; infinite while that is promised to tasks in hand."""
        day_now = self._context.clock.now()
        return now + (self._call_allowed_at(day_now) - day_now)

    def tokens_allowed_at(self, now: float) -> float:
        """From when the day has room for a call, however small; infinite while that is up to the calls under way."""
        if self._day is None:
            return float("-inf")
        free_at = self._context.record.tokens_free_at
        if self._under_way or self._promised:
            likely = self._last_most * (self._promised + 1)
            return free_at if self._fits_beside(likely, self._day) and not self._is_crowded else float("inf")
        day_now = self._context.clock.now()
        allowed_at = self._tokens_allowed_at(self._likely_output() + 1, self._day, day_now)
        return max(now + (allowed_at - day_now), free_at)

    def check(self, messages: Sequence[Message]) -> None:
        """Raises AtCapError if the caps have no room for this call now, ModelCallError if the day never has."""
        now = self._context.clock.now()
        if self._call_allowed_at(now) > now:
            raise AtCapError
        if self._day is None:
            return
        brief = estimate_usage(messages).tokens
        if brief + (self._limit or 0) > self._day:
            detail = "the brief takes more tokens than this worker has in a day"
            raise ModelCallError(FailureClass.CONTEXT_LENGTH, detail)
        if self._under_way:
            if not self._fits_beside(most_tokens(messages, self._limit), self._day):
                self._is_crowded = True
                raise AtCapError
            return
        allowed_at = self._tokens_allowed_at(brief + self._likely_output(), self._day, now)
        if allowed_at > now:
            self._context.record.tokens_free_at = self._context.clock.moment(allowed_at)
            raise AtCapError

    def begin(self, model: str, messages: Sequence[Message]) -> int:
        """Count a call that is made now, and set aside what it may take. Its number ends it."""
        brief, answer = estimate_usage(messages).tokens, self._likely_output() or UNSEEN_OUTPUT_TOKENS
        if self._day is not None and self._limit is None:
            answer = max(min(answer, self._day - self._spent() - brief), 0)
        aside = Usage(brief, answer, is_estimated=True)
        call_id = self._ledger.begin_call(self._name, model, aside, self._context.clock.now())
        self._last_most = most_tokens(messages, self._limit)
        self._under_way[call_id] = _UnderWay(aside, self._last_most)
        return call_id

    def end(self, call_id: int, *, outcome: str, usage: Usage | None, seconds: float) -> Taken:
        """The call is over. What was set aside stays counted if nobody saw what it took (None)."""
        aside, worker = self._under_way.pop(call_id).aside, self._context.worker
        self._is_crowded = False
        usage = aside if usage is None else usage
        price = cost(usage, worker.price_input, worker.price_output)
        self._ledger.end_call(call_id, outcome=outcome, usage=usage, seconds=seconds, cost=price)
        return Taken(usage, price)

    def _fits_beside(self, most: float, day: int) -> bool:
        """Whether a call that takes the most it can does, beside those under way that do so too."""
        beyond = sum(call.most - call.aside.tokens for call in self._under_way.values())
        return self._spent() + beyond + most <= day

    def _likely_output(self) -> int:
        """Without a limit: as much as the longest answer of the day, if there was one."""
        if self._limit is not None:
            return self._limit
        return self._ledger.longest_answer(self._name, self._context.clock.now())

    def _call_allowed_at(self, now: float) -> float:
        cap = self._context.worker.max_calls_per_hour - self._promised
        if cap <= 0:
            return float("inf")
        return self._ledger.call_allowed_at(self._name, cap, now)

    def _tokens_allowed_at(self, needed: int, day: int, now: float) -> float:
        return self._ledger.tokens_allowed_at(self._name, day, needed, now)

    def _spent(self) -> int:
        return self._ledger.spent(self._name, self._context.clock.now()).tokens

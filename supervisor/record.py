"""What is kept of one worker while its child comes and goes: a crash that reset these would burn money."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from supervisor.limits import FAILURES_REMEMBERED, HOUR_SECONDS
from supervisor.policy import call_allowed_at
from supervisor.restart import RestartHistory


@dataclass(slots=True)
class WorkerRecord:
    """The memory of one worker. `state` and `parked` are for people; times are of Trio's clock, in seconds."""

    calls: deque[float] = field(default_factory=deque)
    failures: dict[int, int] = field(default_factory=dict)
    troubles: int = 0
    """Failures of the endpoint in a row."""
    endpoint_free_at: float = float("-inf")
    has_answered: bool = False
    restarts: RestartHistory = field(default_factory=RestartHistory)
    held: dict[str, int] = field(default_factory=dict)
    """Claims not known to have ended, by claim_id, each with its task."""
    state: str = "starting"
    parked: str | None = None
    """Why the worker takes no more tasks, as a sentence; None while it does."""

    def count_call(self, now: float) -> None:
        while self.calls and now - self.calls[0] >= HOUR_SECONDS:
            self.calls.popleft()
        self.calls.append(now)

    def call_allowed_at(self, now: float, max_calls_per_hour: int) -> float:
        return call_allowed_at(self.calls, now=now, max_calls_per_hour=max_calls_per_hour)

    def count_failure(self, task_id: int) -> int:
        """This worker's failures on the task, this one included."""
        count = self.failures.pop(task_id, 0) + 1
        self.failures[task_id] = count
        while len(self.failures) > FAILURES_REMEMBERED:
            del self.failures[next(iter(self.failures))]
        return count

    def forget_failures(self, task_id: int) -> None:
        self.failures.pop(task_id, None)

    def note_answer(self) -> None:
        """The endpoint works."""
        self.troubles = 0
        self.has_answered = True

    def park(self, sentence: str) -> None:
        self.parked = self.parked or sentence
        self.state = "parked"

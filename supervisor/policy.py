"""What follows from a failed call, and when the next one may be made. Pure: clock and chance are arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from supervisor.failures import FailureClass
from supervisor.limits import (
    ENDPOINT_BACKOFF_FIRST_SECONDS,
    ENDPOINT_BACKOFF_MAX_SECONDS,
    HOUR_SECONDS,
    QUOTA_WAIT_SECONDS,
    RETRY_AFTER_MAX_SECONDS,
)
from supervisor.restart import backoff_seconds


class WorkerMove(StrEnum):
    """What the worker does after it has let go of the task."""

    GO_ON = "go_on"
    WAIT = "wait"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class Consequence:
    """`counts`: as a failure of the task at this worker. `asks_for_help`: at once, not after max_failures only."""

    counts: bool
    worker: WorkerMove
    asks_for_help: bool = False


CONSEQUENCES: Final[Mapping[FailureClass, Consequence]] = {
    FailureClass.RATE_LIMITED: Consequence(counts=False, worker=WorkerMove.WAIT),
    FailureClass.QUOTA: Consequence(counts=False, worker=WorkerMove.WAIT),
    FailureClass.AUTH: Consequence(counts=False, worker=WorkerMove.PARK),
    FailureClass.CONFIG: Consequence(counts=False, worker=WorkerMove.PARK),
    FailureClass.NETWORK: Consequence(counts=False, worker=WorkerMove.WAIT),
    FailureClass.TIMEOUT: Consequence(counts=True, worker=WorkerMove.WAIT),
    FailureClass.SERVER: Consequence(counts=True, worker=WorkerMove.WAIT),
    FailureClass.CONTENT: Consequence(counts=True, worker=WorkerMove.GO_ON),
    FailureClass.CONTEXT_LENGTH: Consequence(counts=True, worker=WorkerMove.GO_ON, asks_for_help=True),
}


def settled_class(kind: FailureClass, *, has_answered: bool) -> FailureClass:
    """The class with REFUSED_REQUEST decided.

    An endpoint that has answered this worker before is set up rightly, so what it refuses is this task; otherwise one
    odd task could park every worker in turn.
    """
    if kind is not FailureClass.REFUSED_REQUEST:
        return kind
    return FailureClass.CONTENT if has_answered else FailureClass.CONFIG


def gives_up(consequence: Consequence, *, failures: int, max_failures: int) -> bool:
    """Whether the worker asks for help and leaves the task, after its `failures` on it, this one included."""
    return consequence.asks_for_help or (consequence.counts and failures >= max_failures)


def endpoint_wait_seconds(
    kind: FailureClass, *, retry_after_seconds: float | None, troubles: int, jitter: float
) -> float:
    """How long a worker leaves its endpoint alone after the `troubles`-th failure in a row.

    At least what the endpoint asked for; never over RETRY_AFTER_MAX_SECONDS.
    """
    first, maximum = ENDPOINT_BACKOFF_FIRST_SECONDS, ENDPOINT_BACKOFF_MAX_SECONDS
    if kind is FailureClass.QUOTA:
        first, maximum = QUOTA_WAIT_SECONDS, RETRY_AFTER_MAX_SECONDS
    own = backoff_seconds(troubles, jitter=jitter, first=first, maximum=maximum)
    return min(max(own, retry_after_seconds or 0.0), RETRY_AFTER_MAX_SECONDS)


def call_allowed_at(calls: Sequence[float], *, now: float, max_calls_per_hour: int) -> float:
    """The moment from which one more call keeps every hour within the cap: `now`, or later. `calls` is in order."""
    recent = [moment for moment in calls if now - moment < HOUR_SECONDS]
    if len(recent) < max_calls_per_hour:
        return now
    return recent[-max_calls_per_hour] + HOUR_SECONDS

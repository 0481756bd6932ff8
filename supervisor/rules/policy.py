"""What follows from a failed call. Pure: chance is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from supervisor.rules.failures import FailureClass
from supervisor.rules.limits import (
    ENDPOINT_BACKOFF_FIRST_SECONDS,
    ENDPOINT_BACKOFF_MAX_SECONDS,
    QUOTA_WAIT_SECONDS,
    RETRY_AFTER_MAX_SECONDS,
)
from supervisor.rules.restart import backoff_seconds


class Move(StrEnum):
    """What follows for the worker, or for all who share its endpoint, once the task is let go of."""

    GO_ON = "goes on"
    BACK_OFF = "backs off"
    """This worker leaves the endpoint alone for a while."""
    COOL_DOWN = "cools the endpoint down"
    """All workers that share the endpoint do."""
    PARK = "parks"
    RESTART = "starts again"
    """The worker does, once its other tasks have ended; after too many restarts it is parked."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """`counts`: as a failure of the task at this worker. `asks_for_help`: at once, not after max_failures only.

    `falls_back`: another model of the same endpoint may do better on the same claim.
    """

    counts: bool
    move: Move
    falls_back: bool
    asks_for_help: bool = False


CONSEQUENCES: Final[Mapping[FailureClass, Consequence]] = {
    FailureClass.RATE_LIMITED: Consequence(counts=False, move=Move.COOL_DOWN, falls_back=False),
    FailureClass.QUOTA: Consequence(counts=False, move=Move.COOL_DOWN, falls_back=False),
    FailureClass.AUTH: Consequence(counts=False, move=Move.PARK, falls_back=False),
    FailureClass.CONFIG: Consequence(counts=False, move=Move.PARK, falls_back=True),
    FailureClass.NETWORK: Consequence(counts=False, move=Move.COOL_DOWN, falls_back=False),
    FailureClass.TIMEOUT: Consequence(counts=True, move=Move.BACK_OFF, falls_back=True),
    FailureClass.SERVER: Consequence(counts=True, move=Move.BACK_OFF, falls_back=True),
    FailureClass.CONTENT: Consequence(counts=True, move=Move.GO_ON, falls_back=True),
    FailureClass.CONTEXT_LENGTH: Consequence(
        counts=True, move=Move.GO_ON, falls_back=True, asks_for_help=True
    ),
    FailureClass.CRASH: Consequence(counts=True, move=Move.RESTART, falls_back=False),
}


def gives_up(consequence: Consequence, *, failures: int, max_failures: int) -> bool:
    """Whether the worker asks for help and leaves the task, after its `failures` on it, this one included."""
    return consequence.asks_for_help or (consequence.counts and failures >= max_failures)


def endpoint_wait_seconds(
    kind: FailureClass, *, retry_after_seconds: float | None, troubles: int, jitter: float
) -> float:
    """How long an endpoint is left alone after the `troubles`-th failure in a row.

    At least what the endpoint asked for; never over RETRY_AFTER_MAX_SECONDS.
    """
    first, maximum = ENDPOINT_BACKOFF_FIRST_SECONDS, ENDPOINT_BACKOFF_MAX_SECONDS
    if kind is FailureClass.QUOTA:
        first, maximum = QUOTA_WAIT_SECONDS, RETRY_AFTER_MAX_SECONDS
    own = backoff_seconds(troubles, jitter=jitter, first=first, maximum=maximum)
    return min(max(own, retry_after_seconds or 0.0), RETRY_AFTER_MAX_SECONDS)

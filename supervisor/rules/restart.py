"""When a child that failed starts again, and when no more. Pure: clock and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.rules.limits import (
    RESTART_FIRST_SECONDS,
    RESTART_MAX_SECONDS,
    RESTART_QUIET_SECONDS,
    RESTART_WINDOW_SECONDS,
    RESTARTS_MAX,
)

_EXPONENT_MAX = 30  # 2**30 is over every maximum here, and larger powers would overflow a float


def backoff_seconds(attempt: int, *, jitter: float, first: float, maximum: float) -> float:
    """The wait before attempt 1, 2, ...: from `first` to twice as long, doubling, never over `maximum`.

    `jitter` is a random number from 0 to 1. It spreads over the whole of each step, the last one too: many who failed
    together do not come back together.
    """
    shortest = min(first * 2.0 ** min(max(attempt - 1, 0), _EXPONENT_MAX), max(maximum / 2, first))
    return shortest + jitter * (min(2 * shortest, maximum) - shortest)


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """What is known of a child's restarts: failures in a row without quiet between them, and when they were."""

    failures: int = 0
    restarts: tuple[float, ...] = ()


def after_failure(
    history: RestartHistory, *, started_at: float, now: float, jitter: float
) -> tuple[RestartHistory, float | None]:
    """The history with this failure, and the seconds until the restart; None: the budget is spent, park it.

    Only RESTART_QUIET_SECONDS of running reset the back-off; a good start resets nothing.
    """
    failures = 1 if now - started_at >= RESTART_QUIET_SECONDS else history.failures + 1
    recent = tuple(moment for moment in history.restarts if now - moment < RESTART_WINDOW_SECONDS)
    if len(recent) >= RESTARTS_MAX:
        return RestartHistory(failures, recent), None
    delay = backoff_seconds(failures, jitter=jitter, first=RESTART_FIRST_SECONDS, maximum=RESTART_MAX_SECONDS)
    return RestartHistory(failures, (*recent, now)), delay

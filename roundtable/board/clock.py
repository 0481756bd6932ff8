"""The board's clock: wall time for people, a clock that nobody can set for durations."""

from __future__ import annotations

import time
from collections.abc import Callable

from roundtable.rules.model import Now, utc_text

Clock = Callable[[], Now]

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's boot-time clock goes on while the machine sleeps; elsewhere the monotonic clock has to do."""


def reading(utc_ms: int, board_ms: int) -> Now:
    return Now(utc_ms, board_ms, utc_text(utc_ms))


def system_clock() -> Clock:
    """A clock whose board time begins at the wall time of now and then runs by itself."""
    start_board_ms = time.time_ns() // 1_000_000
    start_ns = time.clock_gettime_ns(_MONOTONIC)

    def now() -> Now:
        elapsed_ms = (time.clock_gettime_ns(_MONOTONIC) - start_ns) // 1_000_000
        return reading(time.time_ns() // 1_000_000, start_board_ms + elapsed_ms)

    return now

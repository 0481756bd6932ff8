"""Times of day for moments of Trio's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import trio


class DayClock:
    """Seconds since 1970 that go on evenly, although somebody may set the computer's clock meanwhile.

    Budgets are kept over restarts, so their times are times of day; within one run they must not jump.
    """

    def __init__(self, epoch_seconds: Callable[[], float] = time.time) -> None:
        """Has to be made in a Trio program: it notes how its clock and the computer's stand to each other."""
        self._offset = epoch_seconds() - trio.current_time()

    def now(self) -> float:
        return trio.current_time() + self._offset

    def moment(self, epoch_seconds: float) -> float:
        """The moment of Trio's clock."""
        return epoch_seconds - self._offset

    def text(self, moment: float) -> str:
        """The moment of Trio's clock as RFC 3339 in UTC, with milliseconds."""
        time_of_day = datetime.fromtimestamp(moment + self._offset, UTC)
        return time_of_day.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Sliding windows: at most so many events in any stretch of so many seconds.

Pure: the caller passes the time in, in seconds of a clock that never goes back.
"""

from __future__ import annotations

from collections import OrderedDict, deque


class RateWindow:
    """At most `limit` events in any `window_seconds`.

    Exact: it remembers the time of each event that still counts, which is never
    more than the limit and the largest reserve asked for. Raises ValueError for a
    limit under 1; "no limit" is having no window.
    """

    __slots__ = ("_limit", "_times", "_window_seconds")

    def __init__(self, limit: int, window_seconds: float) -> None:
        if limit < 1:
            raise ValueError(f"a rate limit is at least 1, not {limit}")
        if window_seconds <= 0:
            raise ValueError(f"a window lasts longer than 0 seconds, not {window_seconds}")
        self._limit = limit
        self._window_seconds = window_seconds
        self._times: deque[float] = deque()

    def allow(self, now: float, *, reserve: int = 0) -> float | None:
        """Count one event and return None, or count nothing and return the seconds until one is free.

        An event with a `reserve` may go that many over the limit. What it takes
        counts like any other, so ordinary events wait for it to leave the window.
        """
        times = self._times
        while times and now - times[0] >= self._window_seconds:
            times.popleft()
        ceiling = self._limit + reserve
        if len(times) < ceiling:
            times.append(now)
            return None
        # One is free when all but ceiling - 1 have left.
        return times[len(times) - ceiling] + self._window_seconds - now

    def is_empty(self, now: float) -> bool:
        """Whether nothing counts any more, so that forgetting this window changes nothing."""
        return not self._times or now - self._times[-1] >= self._window_seconds


class RateWindows:
    """One window for each key, for at most `max_keys` keys.

    When there is no room for a new key, the one not asked about for longest is
    forgotten: a flood of keys cannot fill the memory, at the price that a key
    which has been quiet may start afresh.
    """

    def __init__(self, limit: int, window_seconds: float, max_keys: int) -> None:
        if max_keys < 1:
            raise ValueError(f"at least one key is needed, not {max_keys}")
        self._limit = limit
        self._window_seconds = window_seconds
        self._max_keys = max_keys
        self._windows: OrderedDict[str, RateWindow] = OrderedDict()
        RateWindow(limit, window_seconds)  # a wrong limit shows here, not at the first event

    def __len__(self) -> int:
        return len(self._windows)

    def allow(self, key: str, now: float, *, reserve: int = 0) -> float | None:
        """`RateWindow.allow` for this key alone."""
        window = self._windows.get(key)
        if window is None:
            self._make_room(now)
            window = self._windows[key] = RateWindow(self._limit, self._window_seconds)
        self._windows.move_to_end(key)
        return window.allow(now, reserve=reserve)

    def _make_room(self, now: float) -> None:
        for key in list(self._oldest(2)):
            if self._windows[key].is_empty(now):
                del self._windows[key]
        while len(self._windows) >= self._max_keys:
            self._windows.popitem(last=False)

    def _oldest(self, count: int) -> list[str]:
        return [key for key, _ in zip(self._windows, range(count), strict=False)]

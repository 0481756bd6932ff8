"""How many calls an agent may make in a minute."""

from __future__ import annotations

import math
from typing import Final

from roundtable.rules.agents import Agent
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.limits import RATE_WINDOW_SECONDS, RESERVED_CALLS
from roundtable.rules.model import Now
from roundtable.rules.rate import RateWindow

LANDS_WORK: Final = frozenset({"submit_result", "release_task", "renew_claim"})
"""These may use the calls kept in reserve."""


class CallRates:
    """The calls of each agent within the last minute of the board's clock. `calls_per_minute` 0 is no bound."""

    def __init__(self, calls_per_minute: int) -> None:
        self._calls_per_minute = calls_per_minute
        self._windows: dict[str, RateWindow] = {}

    def count(self, agent: Agent, tool: str, now: Now) -> None:
        """Count one call. Raises BoardError `rate_limited`, and counts nothing, if it is one too many."""
        if not self._calls_per_minute:
            return
        window = self._windows.get(agent.name)
        if window is None:
            window = self._windows[agent.name] = RateWindow(self._calls_per_minute, RATE_WINDOW_SECONDS)
        reserve = RESERVED_CALLS if tool in LANDS_WORK else 0
        wait = window.allow(now.board_ms / 1000, reserve=reserve)
        if wait is None:
            return
        seconds = max(1, math.ceil(wait))
        raise BoardError(
            Code.RATE_LIMITED,
            f"More than {self._calls_per_minute} calls in a minute. Wait {seconds} s; "
            f"{', '.join(sorted(LANDS_WORK))} have some in reserve.",
            retry_after_seconds=seconds,
        )

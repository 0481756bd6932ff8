"""Calls as their clients saw them: when each was made, when it ended, and what came of it."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

_KEPT = ("task_id", "status", "claim_id", "attempt", "message_id", "task", "tasks")
"""What is kept of an answer."""


@dataclass
class Call:
    """One call. Times are seconds of one monotonic clock; `start` of the first and `sent` of the last time it was sent."""

    agent: str
    tool: str
    arguments: dict[str, Any]
    mark: str
    start: float
    sent: float = 0.0
    end: float = math.inf
    sends: int = 0
    reply: dict[str, Any] | None = None
    refused: str | None = None
    status: str | None = None
    held: tuple[int, ...] = ()
    is_kept: bool = False

    def take(self, reply: dict[str, Any], now: float) -> None:
        self.reply = {name: reply[name] for name in _KEPT if name in reply}
        self.end = now

    def refuse(self, error: dict[str, Any], now: float) -> None:
        self.refused, self.status, self.end = error["code"], error.get("status"), now
        self.held = tuple(error.get("held", ()))
        self.is_kept = "late_result" in error["message"]

    @property
    def is_unknown(self) -> bool:
        return self.reply is None and self.refused is None

    def __str__(self) -> str:
        return f"{self.mark or self.tool + ' ' + self.agent} {self.arguments.get('task_id', '')} at {self.start:.3f}"


@dataclass
class Recorded:
    """All calls of a run, and when its servers died."""

    calls: list[Call] = field(default_factory=list)
    deaths: list[float] = field(default_factory=list)

    def latest(self, call: Call) -> float:
        """When the call has had its effect, if ever."""
        if not call.is_unknown:
            return call.end
        place = bisect_left(self.deaths, call.sent)
        return self.deaths[place] if place < len(self.deaths) else math.inf

"""/healthz and /readyz: for what watches the process. No token, no board content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from roundtable.web.replies import Reply, refusal

Ready = Callable[[], Awaitable[str | None]]

HEALTH_PATH = b"/healthz"
READY_PATH = b"/readyz"


class Probes:
    """`ready` returns None when the board answers, else the reason why it does not."""

    def __init__(self, ready: Ready, ready_seconds: float) -> None:
        self._ready = ready
        self._ready_seconds = ready_seconds

    async def reply(self, method: str, path: bytes) -> Reply | None:
        """The answer to a probe; None where the path is not one of theirs."""
        if path not in (HEALTH_PATH, READY_PATH):
            return None
        if method not in ("GET", "HEAD"):
            message = "Only GET and HEAD are accepted here."
            return refusal(405, "invalid", message, (b"allow", b"GET, HEAD"))
        if path == HEALTH_PATH:
            return Reply(200, {"status": "alive"})
        reason: str | None = f"The board did not answer within {self._ready_seconds:g} s."
        with trio.move_on_after(self._ready_seconds):
            reason = await self._ready()
        return Reply(200, {"status": "ready"}) if reason is None else refusal(503, "unavailable", reason)

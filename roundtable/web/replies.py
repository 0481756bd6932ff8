"""The answers that need no tool: refusals at the doors, and those of the two probes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roundtable.rules.limits import ECHO_CHARS
from roundtable.web.asgi import Send
from roundtable.web.limits import MAX_HEAD_BYTES

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: status, what its JSON body says, and further headers."""

    status: int
    content: Mapping[str, Any]
    extra_headers: tuple[Header, ...] = ()
    body: bytes = field(init=False)

    def __post_init__(self) -> None:
        # In ASCII, like everything else on this wire.
        object.__setattr__(self, "body", json.dumps(self.content, separators=(",", ":")).encode("ascii"))

    @property
    def headers(self) -> list[Header]:
        return [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(self.body)),
            *self.extra_headers,
        ]

    async def send(self, send: Send, *, closing: bool) -> None:
        """Send it as the answer to a request; `closing` tells the client that the connection ends with it."""
        headers = [*self.headers, (b"connection", b"close")] if closing else self.headers
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def refusal(status: int, code: str, message: str, *headers: Header, **facts: Any) -> Reply:
    """Why a request goes no further: HTTP status, error code, a sentence, and further fields of the error.

    The sentence says what is so and what would be accepted, and quotes no token.
    """
    return Reply(status, {"error": {"code": code, "message": message, **facts}}, headers)


def too_many(message: str, wait_seconds: float, *headers: Header) -> Reply:
    """429 with Retry-After, rounded up so that coming back then is not too early."""
    seconds = max(1, math.ceil(wait_seconds))
    retry = (b"retry-after", b"%d" % seconds)
    return refusal(429, "rate_limited", message, *headers, retry, retry_after_seconds=seconds)


def unreadable(status: int) -> Reply:
    """For bytes that are no request in HTTP/1.1. Every status but 4xx becomes 400: it is the client's fault."""
    if status == 431:
        return refusal(
            431,
            "too_large",
            f"The request line and headers are over {MAX_HEAD_BYTES} bytes, the most accepted.",
        )
    return refusal(
        status if 400 <= status < 500 else 400,
        "invalid",
        "This is no request that can be read here. HTTP/1.1 is accepted, "
        "with one Host and at most one of Content-Length and chunked Transfer-Encoding.",
    )


def echo(text: str) -> str:
    """What a client sent, short enough to be told back to it."""
    return text if len(text) <= ECHO_CHARS else text[: ECHO_CHARS - 3] + "..."

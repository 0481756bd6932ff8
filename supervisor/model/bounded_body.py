"""Reading the body of an HTTP response up to a bound."""

from __future__ import annotations

import httpx2
import trio

_CLOSE_SECONDS = 1.0
"""Closing says goodbye over TLS at most, but a peer that reads nothing could make even that last."""


async def read_body(response: httpx2.Response, *, max_bytes: int) -> bytes | None:
    """The whole body as it came, or None if it is longer than max_bytes. The response is closed in any case."""
    body = bytearray()
    is_too_long = False
    try:
        with trio.CancelScope() as reading:
            async for chunk in response.aiter_raw():
                if len(body) + len(chunk) > max_bytes:
                    is_too_long = True
                    # Cancelled from within, the generators below end one by one; left by `break`, they would be
                    # finished by the garbage collector, which Trio warns of.
                    reading.cancel()
                else:
                    body += chunk
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_SECONDS):
            await response.aclose()
    return None if is_too_long else bytes(body)


def without_framing(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """The headers less those that tell how the body was packed: it is whole now, and nothing is to unfold it."""
    framing = {"content-length", "transfer-encoding", "content-encoding", "connection"}
    return [(name, value) for name, value in headers.multi_items() if name.lower() not in framing]

"""How a message goes out: at once as JSON, or, for a call that may wait, with signs of life until it is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from starlette.types import Receive, Send

SILENCE_SECONDS: Final = 15.0
"""The longest that a client, and whatever stands between, hears nothing. Proxies cut what is silent for a minute."""

_PING: Final = b": ping\r\n\r\n"
_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


async def send_json(body: bytes, send: Send) -> None:
    """One whole answer in JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_when_decided(
    decide: Callable[[], Awaitable[bytes]], receive: Receive, send: Send, *, streams_at_once: bool
) -> None:
    """Send the message that is decided: in an event stream that begins now or with the first sign of life, else as JSON.

    A client that hangs up before cancels the decision, and is sent nothing more.
    """
    stream = _Stream(send)
    if streams_at_once:
        await stream.begin()
    decided: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_mind_client, receive, stream, nursery.cancel_scope)
        decided.append(await decide())
        nursery.cancel_scope.cancel()
    for body in decided:  # none where the client has gone
        await (stream.end(body) if stream.has_begun else send_json(body, send))


class _Stream:
    """An event stream of one message."""

    def __init__(self, send: Send) -> None:
        self.has_begun = False
        self._send = send

    async def begin(self) -> None:
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})

    async def ping(self) -> None:
        if not self.has_begun:
            await self.begin()
        await self._send({"type": "http.response.body", "body": _PING, "more_body": True})

    async def end(self, body: bytes) -> None:
        event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": False})


async def _mind_client(receive: Receive, stream: _Stream, call: trio.CancelScope) -> None:
    while True:
        with trio.move_on_after(SILENCE_SECONDS):
            if (await receive())["type"] == "http.disconnect":
                call.cancel()
                return
            continue  # what it sends besides its request says nothing
        await stream.ping()

"""Reading a request's body whole, and giving it to the application again."""

from __future__ import annotations

from roundtable.web.asgi import Message, Receive


class ClientGoneError(Exception):
    """The client went before its request was complete."""


class BodyTooLargeError(Exception):
    """The body is longer than allowed."""


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """The whole body. Raises ClientGoneError or BodyTooLargeError; the caller sets the deadline."""
    parts: list[bytes] = []
    received_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        received_bytes += len(part)
        if received_bytes > max_bytes:
            raise BodyTooLargeError
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


class Replay:
    """ASGI's receive for a request that has been read: its body once, then whatever the connection reports."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

"""What a connection has received for the application, waiting for it to be read."""

from __future__ import annotations

from collections import deque

import trio
from hypercorn.typing import ASGIReceiveEvent

PIECES_AT_ONCE = 8
"""So many pieces of a body may lie here before whoever brings more lets others run first."""


class Inbox:
    """The queue between a connection and the application of one request.

    Hypercorn's own is a channel of ten places, and putting waits: a body in eleven
    small pieces, refused before it is read, leaves both sides waiting for each other
    for ever. Here putting never waits. It is bounded in bytes instead: pieces past
    `max_body_bytes` are dropped, once the application has been given enough to
    see that the body is too long.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._received_bytes = 0
        self._events: deque[ASGIReceiveEvent] = deque()
        self._arrived = trio.Event()
        self._gone = False

    async def put(self, event: ASGIReceiveEvent) -> None:
        """Keep this event for the application. A checkpoint once some wait, so that many small pieces starve nobody."""
        if event["type"] == "http.disconnect":
            self._gone = True
        elif self._received_bytes <= self._max_body_bytes:
            if event["type"] == "http.request":
                self._received_bytes += len(event["body"])
            self._events.append(event)
        self._arrived.set()
        if len(self._events) > PIECES_AT_ONCE:
            await trio.lowlevel.checkpoint()

    async def receive(self) -> ASGIReceiveEvent:
        """ASGI's receive: the next event, `http.disconnect` from then on where the client has gone."""
        while not self._events and not self._gone:
            if self._arrived.is_set():  # else another receiver waits on it
                self._arrived = trio.Event()
            await self._arrived.wait()
        if self._events:
            return self._events.popleft()
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

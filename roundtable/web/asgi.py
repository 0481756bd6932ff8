"""ASGI's shapes, as far as they are used here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import trio

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class StoppableApp(Protocol):
    """An application that is told when the server stops.

    `stopping` is set when no further request is taken; what waits inside should then
    give its answer.
    """

    stopping: trio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

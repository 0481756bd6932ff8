"""Small HTTP servers of our own, on a free port of loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette


@asynccontextmanager
async def open_http(app: Starlette) -> AsyncIterator[str]:
    """Serve it for as long as the context lasts; gives its address. The body's own exceptions come out as they are."""
    config = Config.from_mapping(
        {"bind": ["127.0.0.1:0"], "errorlog": None, "loglevel": "CRITICAL", "graceful_timeout": 0.1}
    )
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        start: Callable[..., Any] = partial(serve, app, config)  # type: ignore[arg-type]
        (url,) = await nursery.start(start)
        try:
            yield url
        except BaseException as error:
            failure = error  # raised again outside the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure

"""What ours is measured against: a plain MCPServer with tools that do nothing, on the same Hypercorn and Trio.

Run as a program it prints its port and serves until it is told to stop.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import anyio
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from mcp.server.mcpserver import MCPServer

NEVER = 10**9
"""Hypercorn would close a connection after 1,000 requests."""


def application() -> Any:
    server = MCPServer("empty", log_level="WARNING")

    @server.tool()
    async def empty() -> str:
        return ""

    @server.tool()
    async def wait(seconds: float) -> str:
        await anyio.sleep(seconds)
        return ""

    return server.streamable_http_app(stateless_http=True)


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.accesslog = None
    config.errorlog = None
    config.keep_alive_max_requests = NEVER
    config.keep_alive_timeout = 75
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_when_told, stop)
        wait_for_stop: Callable[[], Awaitable[None]] = stop.wait
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        await nursery.start(partial(serve, cast(Any, application()), config, shutdown_trigger=wait_for_stop))


async def _stop_when_told(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            stop.set()


if __name__ == "__main__":
    trio.run(main)

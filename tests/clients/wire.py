"""A relay on loopback that notes what a client asks for, and in which version of the protocol. It passes bytes on as they are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import trio

# a request follows the body of the one before without a line end
_REQUEST = re.compile(rb"(GET|POST|DELETE|PUT|HEAD|OPTIONS) (/\S*) HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL)
_VERSION = re.compile(rb"^mcp-protocol-version: *([\w.-]+)", re.IGNORECASE | re.MULTILINE)
_METHOD = re.compile(rb'"method" *: *"([\w/]+)"')


@dataclass
class Wire:
    """What has been asked for under each version, in the order of first sight."""

    url: str = ""
    seen: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        return [f"{version}: {', '.join(asked)}" for version, asked in self.seen.items()]

    def read(self, sent: bytes) -> None:
        """All that a client has sent on one connection."""
        requests = list(_REQUEST.finditer(sent))
        ends = [*(request.start() for request in requests[1:]), len(sent)]
        for request, end in zip(requests, ends, strict=False):
            body = sent[request.end() : end]
            found = _METHOD.search(body) if request[1] == b"POST" else None
            asked = found[1] if found else b" ".join(request.group(1, 2))
            version = _VERSION.search(request[3])
            under = self.seen.setdefault(version[1].decode() if version else "no version header", {})
            under[asked.decode()] = None


@asynccontextmanager
async def open_wire(url: str) -> AsyncIterator[Wire]:
    """A relay to the server at `url`. While that is down, connections are closed as soon as they are opened."""
    target = urlsplit(url)
    wire = Wire()

    async def relay(client: trio.SocketStream) -> None:
        try:
            server = await trio.open_tcp_stream(target.hostname or "", target.port or 0)
        except OSError:
            return
        sent = bytearray()
        try:
            async with server, trio.open_nursery() as nursery:
                nursery.start_soon(_pass_on, server, client, bytearray(), nursery.cancel_scope)
                await _pass_on(client, server, sent, nursery.cancel_scope)
        finally:
            wire.read(bytes(sent))

    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, relay, 0, host="127.0.0.1"))
        wire.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}{target.path}"
        try:
            yield wire
        except BaseException as error:
            failure = error  # raised again outside the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _pass_on(
    source: trio.SocketStream, target: trio.SocketStream, kept: bytearray, both: trio.CancelScope
) -> None:
    """Until either end is closed; then the other way ends too."""
    try:
        async for part in source:
            kept += part
            await target.send_all(part)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()

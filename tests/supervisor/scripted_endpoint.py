"""A small HTTP server on loopback that does exactly what a test tells it, rude things too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import trio


@dataclass
class Request:
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    @property
    def json(self) -> dict:
        return json.loads(self.body)


Script = Callable[[Request, trio.SocketStream], Awaitable[None]]


@dataclass
class Endpoint:
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    cut_off: trio.Event = field(default_factory=trio.Event)
    """Set when the client went away while the script was still writing or waiting."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@asynccontextmanager
async def open_endpoint(script: Script) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()

    async def serve(stream: trio.SocketStream) -> None:
        try:
            while (request := await _read_request(stream)) is not None:
                endpoint.requests.append(request)
                await script(request, stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            endpoint.cut_off.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        endpoint.port = listeners[0].socket.getsockname()[1]
        try:
            yield endpoint
        finally:
            nursery.cancel_scope.cancel()


async def _read_request(stream: trio.SocketStream) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        received = await stream.receive_some(65_536)
        if not received:
            return None
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rows = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (row.partition(":") for row in rows)]
    length = int(dict(headers).get("content-length", "0"))
    while len(body) < length:
        body += await stream.receive_some(65_536)
    return Request(line, headers, body)


def response(status: int | str, body: bytes = b"", **headers: str) -> bytes:
    fields = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    rows = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{rows}\r\n".encode() + body


def completion(content: object = "fine", finish: str = "stop", **message: object) -> bytes:
    body = {
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ]
    }
    return json.dumps(body).encode()


def answers(*replies: bytes) -> Script:
    """Each request gets the next of these bytes as they are; the last one serves for all that follow."""
    left = list(replies)

    async def script(request: Request, stream: trio.SocketStream) -> None:
        await stream.send_all(left.pop(0) if len(left) > 1 else left[0])

    return script

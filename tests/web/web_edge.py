"""A server of ours on a loopback port, and clients that speak to it byte by byte."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11
import trio

from roundtable.rules.agents import Agent, Role
from roundtable.web.doors import Doors
from roundtable.web.limits import WebLimits
from roundtable.web.listeners import Listener
from roundtable.web.serving import serving
from roundtable.web.tokens import TokenTable, digest

PATIENCE_SECONDS = 10
TOKEN = b"a-token-for-the-worker-of-these-tests"
OTHER_TOKEN = b"a-token-for-the-leader-of-these-tests"
WORKER = Agent("ada", Role.WORKER, ("python",))
LEADER = Agent("lea", Role.LEADER)
TOKENS = {digest(TOKEN): WORKER, digest(OTHER_TOKEN): LEADER}


@dataclass
class Inner:
    """The application behind the doors. Answers `reply`, or what `script` does instead."""

    script: Callable | None = None
    reply: bytes = b'{"ok":true}'
    calls: list = field(default_factory=list)

    async def __call__(self, scope, receive, send):
        self.calls.append(scope)
        if self.script is not None:
            await self.script(scope, receive, send)
            return
        await receive()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.reply})


@dataclass
class Edge:
    urls: tuple[str, ...]
    inner: Inner
    doors: Doors
    stopped: list

    @property
    def port(self) -> int:
        return int(self.urls[0].rpartition(":")[2])

    async def connect(self, host: str = "127.0.0.1", bind: str | None = None) -> trio.SocketStream:
        return await trio.open_tcp_stream(host, self.port, local_address=bind)

    async def ask(self, raw: bytes) -> bytes:
        """Send these bytes on a new connection and read until the server closes it."""
        async with await self.connect() as stream:
            await stream.send_all(raw)
            return await read_to_end(stream)

    async def is_alive(self) -> bool:
        return (await self.ask(request(close=True))).startswith(b"HTTP/1.1 200 ")


@asynccontextmanager
async def edge(inner: Inner | None = None, *, ready=None, listeners=None, **limits) -> AsyncIterator[Edge]:
    inner = inner or Inner()
    stopped: list = []

    async def is_ready() -> str | None:
        return None

    chosen = WebLimits(**limits)
    doors = Doors(
        inner, chosen, ready=ready or is_ready, stopping=trio.Event(), has_stopped=lambda: bool(stopped)
    )
    listeners = listeners or [Listener("127.0.0.1", 0, TokenTable(TOKENS))]
    with trio.fail_after(PATIENCE_SECONDS):
        async with serving(doors, listeners, chosen) as server:
            yield Edge(server.urls, inner, doors, stopped)


def request(
    method: bytes = b"POST",
    path: bytes = b"/mcp",
    *extra: bytes,
    token: bytes | None = TOKEN,
    host: bytes = b"localhost",
    body: bytes | None = None,
    content_type: bytes | None = b"application/json",
    close: bool = False,
) -> bytes:
    if body is None:
        body = b"{}" if method == b"POST" else b""
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: " + host, *extra]
    if token is not None:
        lines.append(b"Authorization: Bearer " + token)
    if content_type is not None:
        lines.append(b"Content-Type: " + content_type)
    if not any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in extra):
        lines.append(b"Content-Length: %d" % len(body))
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def read_to_end(stream) -> bytes:
    """All bytes until the server closes; a reset counts as the end."""
    received = b""
    while True:
        try:
            part = await stream.receive_some(65536)
        except trio.BrokenResourceError:
            return received
        if not part:
            return received
        received += part


async def read_until(stream, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        part = await stream.receive_some(65536)
        assert part, f"closed before {mark!r}, after {received!r}"
        received += part
    return received


@dataclass
class Response:
    status: int
    headers: dict
    body: bytes
    closes: bool

    @property
    def error(self) -> dict:
        return json.loads(self.body)["error"]


def responses(raw: bytes, count: int = 1, method: bytes = b"POST") -> list[Response]:
    """The first so many responses in these bytes, read by h11's client."""
    found = []
    for _ in range(count):
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(raw)
        client.receive_data(b"")
        start = client.next_event()
        body = b""
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            assert isinstance(event, h11.Data), event
            body += event.data
        headers = {name.decode(): value.decode() for name, value in start.headers}
        found.append(Response(start.status_code, headers, body, headers.get("connection") == "close"))
        raw = client.trailing_data[0]
    return found


def response(raw: bytes, method: bytes = b"POST") -> Response:
    return responses(raw, method=method)[0]

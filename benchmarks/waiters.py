"""Clients that wait: each sends one call on a connection of its own and does nothing until its answer comes."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.servers import raise_open_files
from benchmarks.wire import tool_call

ANSWER_SECONDS = 30.0
ANSWERED = b"claim_id"
"""What stands in the answer of a claim, and not in what comes before it in a stream."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who waits where, for what."""

    port: int
    token: str | None
    tool: str
    arguments: Mapping[str, Any]
    version: str


class Line:
    """The connections of those that wait."""

    def __init__(self, connections: Sequence[socket.socket]) -> None:
        self._selector = selectors.DefaultSelector()
        self._received: dict[socket.socket, bytes] = {}
        for connection in connections:
            self._selector.register(connection, selectors.EVENT_READ)
            self._received[connection] = b""

    def next_answer(self) -> float:
        """When, on the monotonic clock, the next claim came. Raises RuntimeError if none does."""
        until = time.monotonic() + ANSWER_SECONDS
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                connection = key.fileobj
                if not isinstance(connection, socket.socket):
                    raise AssertionError("only sockets are watched")
                part = connection.recv(65_536)
                at = time.monotonic()
                self._received[connection] += part
                if not part:
                    raise RuntimeError(f"closed: {self._received[connection][-300:]!r}")
                if ANSWERED in self._received[connection]:
                    self._selector.unregister(connection)
                    return at
        raise RuntimeError("nobody was answered")

    def close(self) -> None:
        self._selector.close()


@contextmanager
def stand_in_line(waiters: Sequence[Waiter]) -> Iterator[Line]:
    """All of them wait for as long as the block lasts; then they hang up."""
    raise_open_files()
    with ExitStack() as stack:
        connections = []
        for waiter in waiters:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", waiter.port)))
            connection.sendall(_request(waiter))
            connections.append(connection)
        line = Line(connections)
        stack.callback(line.close)
        yield line


def _request(waiter: Waiter) -> bytes:
    body, headers = tool_call(waiter.tool, waiter.arguments, waiter.version)
    lines = {"Host": f"127.0.0.1:{waiter.port}", "Content-Length": str(len(body)), **headers}
    if waiter.token is not None:
        lines["Authorization"] = f"Bearer {waiter.token}"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode("ascii") + body

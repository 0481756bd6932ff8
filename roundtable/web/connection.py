"""One connection, from its first byte to its last, on its own.

House rules of this file:
- Whatever goes wrong here ends this connection and nothing else.
- Every wait has a deadline, writes and farewells too, and `begin_stop` and `cut` shorten them all.
- The reading task is the one that ends the connection: others tell it to.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import cast

import structlog
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    Scope,
    TaskGroup,
)
from hypercorn.utils import parse_socket_addr

from roundtable.web import asgi
from roundtable.web.faults import fault_fields
from roundtable.web.inbox import Inbox
from roundtable.web.limits import CLOSE_SECONDS, LINGER_BYTES, SEND_PIECE_BYTES, WebLimits
from roundtable.web.line import Line, has_hung_up
from roundtable.web.listeners import Stream
from roundtable.web.peers import Peer
from roundtable.web.protocol import PlainProtocol
from roundtable.web.shields import Shields

log = structlog.get_logger(__name__)

RECEIVE_BYTES = 64 * 1024
"""Read at most this at a time."""

UNWAITED_SENDS = 4
"""How often in a row an application may send without letting others run: an answer with its end, and some to spare."""

STREAM_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError)


def socket_of(stream: Stream) -> trio.socket.SocketType:
    """The socket under a plain or a TLS stream."""
    return stream.socket if isinstance(stream, trio.SocketStream) else stream.transport_stream.socket


class Connection:
    """One accepted connection whose peer has been let in. Making one raises OSError if the client has gone.

    `run` returns when it has ended and every task of it with it. It raises nothing but
    cancellation, and leaves the stream closed.
    """

    def __init__(
        self,
        app: asgi.App,
        stream: Stream,
        peer: Peer,
        *,
        limits: WebLimits,
        config: Config,
        context: WorkerContext,
    ) -> None:
        self._app = app
        self._stream = stream
        self._peer = peer
        self._limits = limits
        self._nursery: trio.Nursery  # of the applications; there while run() converses
        self._send_lock = trio.Lock()
        self._reading = trio.CancelScope()  # round everything that the reading task waits for
        self._idle_until = inf
        self._is_closing = False  # nothing more is sent; what arrives is swallowed
        self._stop_at: float | None = None  # set: no further request, and by then the present one is here
        self._unwaited_sends = 0
        self._shields = Shields(limits.stop_send_seconds)
        socket = socket_of(stream)
        self._line = Line(partial(has_hung_up, socket))
        self._protocol = PlainProtocol(
            cast(AppWrapper, app),
            config,
            context,
            cast(TaskGroup, self),  # of which only spawn_app is used
            ConnectionState({"peer": peer, "line": self._line}),
            not isinstance(stream, trio.SocketStream),
            parse_socket_addr(socket.family, socket.getpeername()),
            parse_socket_addr(socket.family, socket.getsockname()),
            self.send,
        )

    async def run(self) -> None:
        try:
            if await self._shake_hands():
                await self._converse()
        except* (OSError, *STREAM_ERRORS):
            pass  # the network's, and the client is gone
        except* Exception as group:
            log.error("connection_failed", **fault_fields(group))
        finally:
            await self._close()
            # it leads back here, and would keep all of this until a garbage collection
            del self._protocol

    def begin_stop(self) -> None:
        """Take no further request: end now if none is being answered, else after the answer."""
        self._stop_at = trio.current_time() + self._limits.stop_send_seconds
        self._shields.begin_stop()
        self._reading.deadline = min(self._reading.deadline, self._read_deadline())

    def cut(self) -> None:
        """End every shielded wait now and let none begin. Cancelling the rest is the caller's part."""
        self._shields.cut()

    # --- the protocol's and the applications' way out ---

    async def send(self, event: Event) -> None:
        """Hypercorn's `protocol_send`: put bytes on the wire, or note what became of the connection."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._say_goodbye()
        elif isinstance(event, Updated):
            if event.idle:
                self._await_request()
            else:
                self._reading.deadline = inf if self._stop_at is None else self._stop_at

    async def _write(self, data: bytes) -> None:
        try:
            self._send_lock.acquire_nowait()  # as a rule nobody else sends, and standing in line costs a turn
        except trio.WouldBlock:
            await self._send_lock.acquire()
        try:
            if not data or self._is_closing:
                self._line.is_broken = self._line.is_broken or bool(data)
                # an application may go on for ever, whatever became of its answer
                await trio.lowlevel.checkpoint()
            elif not (self._line.takes_bytes and await self._send_all(data)):
                self._line.is_broken = self._is_closing = True
                self._reading.cancel()
        finally:
            self._send_lock.release()

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Hypercorn's TaskGroup: run the application on one request, return the way to feed it."""
        inbox = Inbox(self._limits.max_body_bytes)
        self._nursery.start_soon(self._answer, cast(asgi.Scope, scope), inbox.receive, send)
        return inbox.put

    async def _answer(
        self,
        scope: asgi.Scope,
        receive: ASGIReceiveCallable,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> None:
        try:
            await self._app(scope, cast(asgi.Receive, receive), cast(asgi.Send, send))
        except* Exception as group:
            # A fault of ours, no client's doing: the answer ends where it is and so does the connection.
            log.error("request_failed", method=scope["method"], **fault_fields(group))
        finally:
            await send(None)

    # --- reading ---

    async def _shake_hands(self) -> bool:
        if isinstance(self._stream, trio.SocketStream):
            return True
        self._reading.deadline = trio.current_time() + self._limits.handshake_seconds
        agreed = False
        with self._reading:
            await self._stream.do_handshake()
            agreed = True
        self._reading = trio.CancelScope()
        return agreed

    async def _converse(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._await_request()
            with self._reading:
                await self._read()
            await self._protocol.handle(Closed())

    async def _read(self) -> None:
        while True:
            data = await self._receive()
            self._line.is_ended = not data
            self._unwaited_sends = 0
            if self._is_closing:
                break
            if self._protocol.is_between_requests and not self._protocol.has_next_bytes:
                self._note_first_byte()
            await self._protocol.handle(RawData(data))
            if not data:
                return
            if self._stop_at is not None:
                self._reading.deadline = self._read_deadline()
        if data:
            await self._swallow()

    async def _receive(self) -> bytes:
        """What has come; nothing once the client has ended its side, or all of the connection."""
        stream = self._stream
        with suppress(OSError, *STREAM_ERRORS):
            if not isinstance(stream, trio.SocketStream):
                return bytes(await stream.receive_some(RECEIVE_BYTES))
            while True:
                # the next request is hardly ever there already, so that to read first would be to fail first
                await trio.lowlevel.wait_readable(stream.socket)
                with suppress(BlockingIOError):
                    return os.read(stream.socket.fileno(), RECEIVE_BYTES)
        return b""

    async def _swallow(self) -> None:
        received_bytes = 0
        while received_bytes < LINGER_BYTES:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            received_bytes += len(data)

    def _await_request(self) -> None:
        """Set the clock for the next request: how long the client may stay silent."""
        limits, now = self._limits, trio.current_time()
        silence = limits.trusted_idle_seconds if self._peer.trusted else limits.unknown_idle_seconds
        self._idle_until = now + silence
        if self._protocol.has_next_bytes:
            self._note_first_byte()
        else:
            self._reading.deadline = self._read_deadline()

    def _note_first_byte(self) -> None:
        """Set the clock for a request that has begun: how long all of it may take."""
        self._peer.request_deadline = trio.current_time() + self._limits.request_seconds
        if self._peer.trusted:
            self._idle_until = self._peer.request_deadline
        self._reading.deadline = self._read_deadline()

    def _read_deadline(self) -> float:
        """Until when the reading task may wait, as things stand."""
        is_idle = self._protocol.is_between_requests
        if self._stop_at is None:
            return self._idle_until if is_idle else inf  # the doors mind the time of a body
        if is_idle or self._is_closing:
            return trio.current_time()
        return self._stop_at if self._protocol.awaits_body else inf

    # --- sending and closing ---

    async def _send_all(self, data: bytes) -> bool:
        """Whether the bytes are with the system. Not cancelled from outside, but cut when the client reads nothing.

        Each piece has its deadline, so a client on a slow line may take its time for a long answer.
        """
        for start in range(self._send_at_once(data), len(data), SEND_PIECE_BYTES):
            delivered = False
            with self._shields.bounded(self._limits.send_seconds), suppress(*STREAM_ERRORS):
                await self._stream.send_all(data[start : start + SEND_PIECE_BYTES])
                delivered = True
            if not delivered:
                return False
        return True

    def _send_at_once(self, data: bytes) -> int:
        """How many bytes the system has taken without a wait: as a rule all of an answer, and then nothing need be set up.

        Only so many times between two reads, so that an application that sends on and on lets others run.
        """
        if self._unwaited_sends >= UNWAITED_SENDS or not isinstance(self._stream, trio.SocketStream):
            return 0
        self._unwaited_sends += 1
        try:
            return os.write(self._stream.socket.fileno(), data)
        except OSError:
            return 0  # the full system, or the network's end: the way that waits tells which

    async def _say_goodbye(self) -> None:
        """Send nothing more, tell the client so, and leave it to the reading task to end the connection."""
        if self._is_closing:
            return
        self._is_closing = True
        stream = self._stream
        if isinstance(stream, trio.SocketStream):
            with self._shields.bounded(CLOSE_SECONDS), suppress(OSError, *STREAM_ERRORS):
                async with self._send_lock:  # behind a write that is under way
                    await stream.send_eof()
        elif not self._protocol.awaits_body:
            self._reading.cancel()  # TLS cannot end one direction alone, and nothing more is on its way
            return
        linger = self._limits.linger_seconds if self._stop_at is None else 0.0
        self._reading.deadline = trio.current_time() + linger

    async def _close(self) -> None:
        with self._shields.bounded(CLOSE_SECONDS), suppress(OSError, *STREAM_ERRORS):
            await self._stream.aclose()
        await trio.aclose_forcefully(self._stream)

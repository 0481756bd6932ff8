"""The server: listens, gives each connection its task, and ends them all when it stops."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache, partial

import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from roundtable.rules.rate import RateWindow
from roundtable.web.asgi import StoppableApp
from roundtable.web.connection import Connection, socket_of
from roundtable.web.limits import MAX_HEAD_BYTES, MINUTE_SECONDS, WebLimits
from roundtable.web.listeners import Bound, Listener, Stream, bind_all, close_doors
from roundtable.web.openfiles import fit_open_files
from roundtable.web.peers import Admission, Peer, address_key

log = structlog.get_logger(__name__)

REQUESTS_PER_CONNECTION = 10**9
"""Hypercorn would close a connection after 1,000; a client that behaves may keep its own."""


@dataclass(frozen=True, slots=True)
class Connections:
    """How many are open: of those that have shown a valid token, and of those that have not."""

    trusted: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens. `urls` are in the order of its listeners; `connections` counts those of now."""

    urls: tuple[str, ...]
    connections: Callable[[], Connections]


@asynccontextmanager
async def serving(
    app: StoppableApp, listeners: Sequence[Listener], limits: WebLimits
) -> AsyncIterator[Serving]:
    """Serve `app` while the context is open.

    All listeners listen when it is entered; OSError says which could not, and then none does.
    Leaving it takes no further connection or request, sets `app.stopping`, lets the answers
    under way out for at most `limits.stop_seconds`, and returns with no task left. What the
    body raises comes out as it is. Cancelled, it cuts every connection at once.
    """
    limits = fit_open_files(limits, len(listeners))
    bound = await bind_all(listeners)
    server = _Server(app, limits)
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.accept, bound, nursery)
            try:
                yield Serving(tuple(each.url for each in bound), server.connections)
            except BaseException as error:
                raised = error  # raised again below, outside the nursery, which would wrap it
            await server.stop()
            nursery.cancel_scope.cancel()
    except BaseException:
        if raised is None or _is_cancellation(raised):
            raise
    finally:
        for each in bound:
            close_doors(each.doors)
    if raised is not None:
        raise raised


class _Server:
    """The connections of one `serving`."""

    def __init__(self, app: StoppableApp, limits: WebLimits) -> None:
        self._app = app
        self._limits = limits
        self._config = _hypercorn_config()
        self._context = WorkerContext(None)
        self._accepting = trio.CancelScope()
        self._admissions: list[Admission] = []
        self._connections: set[Connection] = set()
        self._is_stopping = False
        self._all_left = trio.Event()
        self._full_notices = RateWindow(1, MINUTE_SECONDS)

    def connections(self) -> Connections:
        return Connections(
            sum(each.trusted for each in self._admissions), sum(each.unknown for each in self._admissions)
        )

    async def accept(self, bound: Sequence[Bound], connections: trio.Nursery) -> None:
        """Give every connection that comes in a task in the nursery, until the server stops."""
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for each in bound:
                    # Each listener counts its own: a flood on the public one does not lock the pool out.
                    admission = Admission(self._limits)
                    self._admissions.append(admission)
                    handler = partial(self._host, each.listener, admission)
                    nursery.start_soon(
                        partial(trio.serve_listeners, handler, list(each.doors), handler_nursery=connections)
                    )

    async def stop(self) -> None:
        """Let the answers under way out, then cut what is left. Cancelled: cut at once."""
        self._is_stopping = True
        self._accepting.cancel()
        self._app.stopping.set()
        try:
            await self._context.terminated.set()
            for connection in self._connections:
                connection.begin_stop()
            with trio.move_on_after(self._limits.stop_seconds) as grace:
                if self._connections:
                    await self._all_left.wait()
            if grace.cancelled_caught:
                log.warning("connections_cut", count=len(self._connections))
        finally:
            for connection in self._connections:
                connection.cut()

    async def _host(self, listener: Listener, admission: Admission, stream: Stream) -> None:
        """One connection's task. Returning closes the stream."""
        try:
            address = address_key(socket_of(stream).getpeername()[0])
        except OSError:
            return  # gone already
        if self._is_stopping or not self._let_in(admission, address):
            return
        peer = Peer(address, listener.tokens, admission)
        try:
            connection = Connection(
                self._app, stream, peer, limits=self._limits, config=self._config, context=self._context
            )
        except OSError:
            peer.leave()
            return
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            peer.leave()
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._is_stopping and not self._connections:
            self._all_left.set()

    def _let_in(self, admission: Admission, address: str) -> bool:
        if admission.enter(address):
            return True
        if self._full_notices.allow(trio.current_time()) is None:  # a flood of connections, not of lines
            log.warning(
                "connection_refused", reason="too many connections without a valid token", address=address
            )
        return False


class _Config(Config):
    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        return [(b"date", _date(int(time.time())))]


@lru_cache(maxsize=1)
def _date(utc_seconds: int) -> bytes:
    """As a header has it: the same for all answers of one second."""
    return formatdate(utc_seconds, usegmt=True).encode("ascii")


def _hypercorn_config() -> Config:
    config = _Config()
    config.accesslog = None
    config.errorlog = None  # what goes wrong is logged where it happens
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.keep_alive_max_requests = REQUESTS_PER_CONNECTION
    return config


def _is_cancellation(error: BaseException) -> bool:
    """Whether this is nothing but Cancelled, which says less than whatever else happened."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_cancellation(inner) for inner in error.exceptions)
    return isinstance(error, trio.Cancelled)

"""The server put together: store, board, MCP endpoint, doors and listeners, nested so that it stops in the right order."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
import trio

from roundtable.board.actor import Board, open_board
from roundtable.board.clock import Clock, system_clock
from roundtable.config.settings import Settings
from roundtable.config.tokens import digest_of
from roundtable.rules.agents import Agent, Directory
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.lock import OwnerLock
from roundtable.store.unit import Limits
from roundtable.tools.endpoint import Endpoint
from roundtable.web.doors import Doors
from roundtable.web.limits import WebLimits
from roundtable.web.listeners import Listener
from roundtable.web.serving import Connections, serving
from roundtable.web.tokens import TokenTable

log = structlog.get_logger(__name__)

CLAIM_ID_BYTES = 12


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `urls` are the MCP addresses, in the order of the listeners; `connections` counts those of now."""

    board: Board
    urls: tuple[str, ...]
    connections: Callable[[], Connections]


def public_listener(settings: Settings, agents: Mapping[bytes, Agent]) -> Listener:
    """Where the owner's agents come in. Says so in the log if the network could listen in."""
    if settings.tls_cert is None and not _is_loopback(settings.host):
        log.warning(
            "listening_without_tls",
            host=settings.host,
            advice="tokens cross the network readable: put a reverse proxy with TLS in front (docs/DEPLOY.md), "
            "or set ROUNDTABLE_TLS_CERT and ROUNDTABLE_TLS_KEY",
        )
    return Listener(settings.host, settings.port, TokenTable(agents), settings.tls_cert, settings.tls_key)


def pool_listener(tokens: Mapping[str, str], agents: Iterable[Agent]) -> Listener:
    """Where the pool comes in: on this machine only, with the tokens of this run only."""
    return Listener("127.0.0.1", 0, TokenTable(by_digest(tokens, agents)))


def by_digest(tokens: Mapping[str, str], agents: Iterable[Agent]) -> dict[bytes, Agent]:
    """These agents by the digest of the token that each has by its name."""
    return {digest_of(tokens[agent.name]): agent for agent in agents}


@asynccontextmanager
async def open_server(
    settings: Settings, directory: Directory, listeners: Sequence[Listener], clock: Clock | None = None
) -> AsyncIterator[Server]:
    """The server for as long as the context lasts.

    On leaving: no further requests, what was accepted is committed and answered (bounded), then the database is
    checkpointed and closed, and its lock released. Raises StoreError, OSError.
    """
    clock = clock or system_clock()
    with OwnerLock(settings.db_path):
        executor = Executor(
            open_database(settings.db_path),
            directory,
            Limits(
                settings.claims_per_worker,
                settings.rate_limit_per_minute,
                settings.lease_seconds,
                settings.waits_per_token,
            ),
            lambda: secrets.token_urlsafe(CLAIM_ID_BYTES),
        )
        try:
            executor.start(clock())
            async with open_board(executor, clock) as board:
                stopping = trio.Event()
                endpoint = Endpoint(board, settings.rate_limit_per_minute, stopping)
                limits = _web_limits(settings)
                doors = Doors(
                    endpoint,
                    limits,
                    ready=board.probe,
                    stopping=stopping,
                    has_stopped=lambda: board.has_stopped,
                )
                async with endpoint.run(), serving(doors, listeners, limits) as served:
                    yield Server(board, tuple(f"{url}/mcp" for url in served.urls), served.connections)
        finally:
            executor.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _web_limits(settings: Settings) -> WebLimits:
    return WebLimits(
        unknown_connections=settings.unknown_connections,
        max_connections=settings.max_connections,
        rate_limit_per_minute=settings.rate_limit_per_minute,
        allowed_hosts=tuple(
            each.host if each.port is None else f"{each.host}:{each.port}" for each in settings.allowed_hosts
        ),
    )

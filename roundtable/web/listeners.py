"""Where the server listens."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from roundtable.web.tokens import TokenTable

BACKLOG = 512
"""Connections that the system may hold ready while the server is busy."""

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
Door = trio.SocketListener | trio.SSLListener[trio.SocketStream]


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on, the tokens that are taken there, and its TLS files (both or none).

    Port 0 lets the system choose a free one.
    """

    host: str
    port: int
    tokens: TokenTable
    certfile: Path | None = None
    keyfile: Path | None = None

    def __post_init__(self) -> None:
        """Raise ValueError when only one of the two TLS files is given."""
        if (self.certfile is None) != (self.keyfile is None):
            raise ValueError("TLS needs both the certificate and the key")


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener that listens: its doors (several where a name has several addresses) and its URL."""

    listener: Listener
    doors: tuple[Door, ...]
    url: str


async def bind_all(listeners: Sequence[Listener]) -> tuple[Bound, ...]:
    """Listen on all of them, or raise OSError that names the one that failed, and on none."""
    bound: list[Bound] = []
    try:
        for listener in listeners:
            bound.append(await _bind(listener))
    except BaseException:
        for other in bound:
            close_doors(other.doors)
        raise
    return tuple(bound)


async def _bind(listener: Listener) -> Bound:
    context = _tls_context(listener)
    try:
        plain = await trio.open_tcp_listeners(listener.port, host=listener.host, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or "no such address"
        raise OSError(
            error.errno, f"cannot listen on {listener.host} port {listener.port}: {reason}"
        ) from error
    if listener.port == 0:
        # Each address of the name got a port of its own, and there is one URL.
        close_doors(plain[1:])
        plain = plain[:1]
    url = _url(plain[0], "http" if context is None else "https")
    if context is None:
        return Bound(listener, tuple(plain), url)
    # https_compatible: HTTP says itself where a message ends, and browsers skip the TLS farewell.
    return Bound(
        listener, tuple(trio.SSLListener(door, context, https_compatible=True) for door in plain), url
    )


def _tls_context(listener: Listener) -> ssl.SSLContext | None:
    if listener.certfile is None or listener.keyfile is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # No "h2": Hypercorn's HTTP/2 ends the whole process on DATA after an early answer.
    context.set_alpn_protocols(["http/1.1"])
    try:
        # The password is given so that a locked key is an error and not a question on the terminal.
        context.load_cert_chain(listener.certfile, listener.keyfile, password="")
    except (OSError, ValueError) as error:
        raise OSError(
            f"cannot use the TLS files {listener.certfile} (ROUNDTABLE_TLS_CERT) and "
            f"{listener.keyfile} (ROUNDTABLE_TLS_KEY): {error}"
        ) from error
    return context


def _url(door: trio.SocketListener, scheme: str) -> str:
    host, port = door.socket.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def close_doors(doors: Sequence[Door]) -> None:
    """Stop listening. Does nothing to doors that are closed."""
    for door in doors:
        plain = door.transport_listener if isinstance(door, trio.SSLListener) else door
        plain.socket.close()  # type: ignore[attr-defined]

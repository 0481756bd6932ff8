"""Who vouches for a server under TLS: whom this machine trusts, and whom the owner names beside them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2

_FILE_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Authorities:
    """The certificates (PEM) in a file that the owner names, as they were when it was read."""

    path: str
    pem: str = field(repr=False)


def read_authorities(path: str) -> Authorities:
    """Raises ValueError, whose message is the end of a sentence about the field that names the file."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is no file name"
        raise ValueError(f"the file cannot be read: {reason}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise ValueError(f"the file is over {_FILE_BYTES_MAX:,} bytes")
    authorities = Authorities(path, content.decode("ascii", "ignore"))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities.pem)
    except (ssl.SSLError, ValueError):
        raise ValueError("the file holds no certificates in the form PEM, or damaged ones") from None
    return authorities


def tls_context(url: str, authorities: Authorities | None) -> ssl.SSLContext:
    """What a client of this address accepts: certificates that the machine's authorities or these have signed, for its name.

    No variable of the environment has a say in it.
    """
    if not url.startswith("https:"):
        # There is no TLS, and reading the machine's authorities takes 30 ms: much for fifty workers of one program.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx2.create_ssl_context(trust_env=False)
    if authorities is not None:
        context.load_verify_locations(cadata=authorities.pem)
    return context


def is_untrusted(error: BaseException) -> bool:
    """Whether the connection failed because the server's certificate was not accepted."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False

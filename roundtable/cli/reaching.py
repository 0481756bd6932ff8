"""From an address to a connection, step by step, so that it can be said which step fails."""

from __future__ import annotations

import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from roundtable.cli.output import EXIT_UNREACHABLE
from roundtable.config.errors import shown

CONNECT_SECONDS: Final = 10.0

_SELF_SIGNED: Final = frozenset({18, 19, 20, 21})
"""OpenSSL's numbers for a chain whose end is not known here."""


class Trouble(Exception):
    """What is wrong, in one sentence. `code` is the exit code that goes with it."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def check_connection(url: str) -> None:
    """Look up the name, connect, and shake hands with TLS where the address has it. Raises Trouble."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    _look_up(host, port)
    with _connect(host, port) as plain:
        if parts.scheme == "https":
            _shake_hands(plain, host, port)


def speaks_tls(url: str) -> bool:
    """Whether what listens there speaks TLS, whoever it is. Raises nothing."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname or "", parts.port or 80), CONNECT_SECONDS) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except (OSError, ValueError):
        return False


def _look_up(host: str, port: int) -> None:
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Trouble(
            EXIT_UNREACHABLE,
            f"The name {shown(host)} is not known on this machine (DNS): check the spelling.",
        ) from None


def _connect(host: str, port: int) -> socket.socket:
    where = f"{shown(host)} port {port}"
    try:
        return socket.create_connection((host, port), CONNECT_SECONDS)
    except ConnectionRefusedError:
        sentence = f"Nothing listens on {where}: start the board there (`roundtable up`), or check the port."
    except TimeoutError:
        sentence = f"Nobody answers on {where}: the machine is off, or a firewall drops the connection."
    except OSError as error:
        sentence = f"{where} cannot be reached: {error.strerror or 'no connection'}."
    raise Trouble(EXIT_UNREACHABLE, sentence)


def _shake_hands(plain: socket.socket, host: str, port: int) -> None:
    where = f"{shown(host)} port {port}"
    try:
        with ssl.create_default_context().wrap_socket(plain, server_hostname=host):
            return
    except ssl.SSLCertVerificationError as error:
        sentence = f"The TLS certificate of {where} is not accepted: {_certificate_fault(error)}"
    except (OSError, ValueError):
        sentence = f"TLS with {where} fails: it speaks plain HTTP (then the address begins with http://) or no TLS of today."
    raise Trouble(EXIT_UNREACHABLE, sentence)


def _certificate_fault(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _SELF_SIGNED:
        return "nobody that this machine knows has signed it; SSL_CERT_FILE can name a file with who has."
    if error.verify_code == 10:  # X509_V_ERR_CERT_HAS_EXPIRED
        return "it has expired, or the clock of this machine is wrong."
    if error.verify_code == 9:  # X509_V_ERR_CERT_NOT_YET_VALID
        return "it is not valid yet, or the clock of this machine is wrong."
    return f"{error.verify_message.rstrip('.')}."

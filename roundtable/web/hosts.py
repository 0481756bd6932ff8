"""Which names this server answers to: the Host header, and where a browser's page came from.

A page of any site may send requests to a loopback address, with a Host or an Origin of
its own. Answering only to known names keeps such pages out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_PORTS = {"http": 80, "https": 443}

_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?")
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Host:
    """`name` in lower case (an IPv6 address in brackets), and the port if one was given."""

    name: str
    port: int | None = None


@lru_cache(maxsize=128)
def parse_host(text: str) -> Host:
    """Read host[:port] strictly. Raises ValueError for user info, spaces, paths and whatever else is none."""
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError("this is not host[:port]")
    port = match["port"]
    if port is not None and not 1 <= int(port) <= 65535:
        raise ValueError("a port is 1 to 65535")
    return Host(_normal_name(match["host"]), None if port is None else int(port))


def _normal_name(text: str) -> str:
    if text.startswith("["):
        return f"[{ipaddress.IPv6Address(text[1:-1])}]"
    name = text.lower()
    if not _NAME.fullmatch(name):
        raise ValueError("this is no host name")
    return name


class KnownHosts:
    """Loopback names with any port, and those that the owner allows.

    An allowed entry without a port matches any port, one with a port only that (for the
    scheme's own port a client leaves it out). Raises ValueError for an entry that is no host[:port].
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._any_port = set(LOOPBACK_NAMES)
        self._one_port: set[tuple[str, int]] = set()
        for entry in allowed:
            host = parse_host(entry)
            if host.port is None:
                self._any_port.add(host.name)
            else:
                self._one_port.add((host.name, host.port))

    def knows(self, host: Host, scheme: str) -> bool:
        if host.name in self._any_port:
            return True
        port = DEFAULT_PORTS.get(scheme) if host.port is None else host.port
        return port is not None and (host.name, port) in self._one_port

    def knows_host_header(self, value: bytes, scheme: str) -> bool:
        """Whether a Host header with this value, under this scheme, means this server."""
        try:
            return self.knows(parse_host(value.decode("ascii")), scheme)
        except ValueError:
            return False

    def knows_origin(self, value: bytes) -> bool:
        """Whether an Origin header with this value is a page of this server's own names. `null` is not."""
        try:
            scheme, separator, rest = value.decode("ascii").partition("://")
            return bool(separator) and scheme in DEFAULT_PORTS and self.knows(parse_host(rest), scheme)
        except ValueError:
            return False

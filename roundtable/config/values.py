"""From the text of one setting to its value. Each function raises ValueError with what the setting must be."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from roundtable.config.limits import MAX_PATH_CHARS, MAX_PORT

_Choice = TypeVar("_Choice", bound=str)

# With underscores: container networks use them in names that clients then send as Host.
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z"
)
_ZONE = re.compile(r"[A-Za-z0-9_.-]{0,32}\Z")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,10}\Z", re.ASCII)
_ALLOWED_HOST = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(?::(?P<port>[^:]*))?\Z")


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """A Host header's value that is let in. `host` is in lower case, IPv6 in brackets; `port` None means any port."""

    host: str
    port: int | None = None


def parse_whole_number(text: str, smallest: int, largest: int) -> int:
    if _WHOLE_NUMBER.match(text):
        number = int(text)
        if smallest <= number <= largest:
            return number
    raise ValueError(f"a whole number from {smallest} to {largest}")


def parse_choice(text: str, choices: tuple[_Choice, ...]) -> _Choice:
    for choice in choices:
        if text.lower() == choice:
            return choice
    raise ValueError(" or ".join(choices))


def parse_path(text: str) -> Path:
    """A path of a file, `~` expanded."""
    if text.isprintable() and len(text) <= MAX_PATH_CHARS:
        try:
            return Path(text).expanduser()
        except RuntimeError:
            raise ValueError("a path whose ~ names a known home folder") from None
    raise ValueError(f"a path of at most {MAX_PATH_CHARS} printable characters")


def parse_database_path(text: str) -> Path:
    """A path that SQLite takes for a file: what it holds must outlive the program."""
    if text.startswith((":", "file:")):
        raise ValueError("the path of a file, not a name that is special to SQLite")
    return parse_path(text)


def parse_bind_host(text: str) -> str:
    """An address or name to listen on, IPv6 without its brackets."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(bare)
        if (bare == text or address.version == 6) and _ZONE.match(bare.partition("%")[2]):
            return str(address)
    except ValueError:
        if bare == text and _is_host_name(text.lower()):
            return text.lower()
    raise ValueError("an IP address or a host name, without a port")


def parse_allowed_hosts(text: str) -> tuple[AllowedHost, ...]:
    """Hosts that clients may name in the Host header, separated by commas."""
    return tuple(_parse_allowed_host(entry.strip(" ")) for entry in text.split(","))


def _parse_allowed_host(entry: str) -> AllowedHost:
    parts = _ALLOWED_HOST.match(entry)
    host = _host_part(parts["host"].lower()) if parts else None
    if not parts or host is None:
        raise ValueError(
            "a list of host or host:port, separated by commas (IPv6 in brackets, no scheme, no path, no wildcard)"
        )
    if parts["port"] is None:
        return AllowedHost(host)
    try:
        return AllowedHost(host, parse_whole_number(parts["port"], 1, MAX_PORT))
    except ValueError:
        raise ValueError(f"a list of host or host:port with ports from 1 to {MAX_PORT}") from None


def _host_part(host: str) -> str | None:
    if not host.startswith("["):
        return host if _is_host_name(host) else None
    try:
        return None if "%" in host else f"[{ipaddress.IPv6Address(host[1:-1])}]"
    except ValueError:
        return None


def _is_host_name(text: str) -> bool:
    if not _HOST_NAME.match(text):
        return False
    if not text.rpartition(".")[2].isdigit():
        return True
    # Only digits behind the last dot is an IPv4 address or a typing error, never a name.
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True

"""Which addresses a key, a token or a brief may be sent to."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import httpx2

LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Literal names only: what a resolver answers for another name can change."""

_PLAIN_URL = re.compile(r"[!-\[\]-~]+")  # printable ASCII without space and backslash


class UrlError(ValueError):
    """The address is refused. The message says why and does not repeat it: it may hold a secret."""


def checked_url(text: str) -> str:
    """The address, if it is `https://`, or `http://` to this machine, in the one spelling that it has here.

    Scheme and host are in small letters; a default port, steps such as `/../` and slashes at the end are gone. So two
    spellings of one address are equal. Two names of one machine, such as localhost and 127.0.0.1, are two addresses:
    what a name stands for can change.

    Raises UrlError for anything else, and for user info, a query or a fragment, where secrets are put.
    """
    if not _PLAIN_URL.fullmatch(text):
        raise UrlError("holds a space, a backslash or a character that is not ASCII")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UrlError("is not a URL") from None
    if not host or port == 0:
        raise UrlError("names no host, or port 0")
    if "@" in parts.netloc:
        raise UrlError("holds user info")
    if "?" in text or "#" in text:
        raise UrlError("holds a query or a fragment")
    if parts.scheme == "http" and host not in LOOPBACK_HOSTS:
        raise UrlError("is http:// to a host that is not 127.0.0.1, [::1] or localhost; use https://")
    if parts.scheme not in {"http", "https"}:
        raise UrlError("is neither https:// nor http:// to this machine")
    try:
        # Spelled as the HTTP client sends it.
        return str(httpx2.URL(parts.scheme + text[len(parts.scheme) :])).rstrip("/")
    except httpx2.InvalidURL:
        raise UrlError("is not a URL") from None


def is_loopback(url: str) -> bool:
    """Whether the address is of this machine, by its literal name."""
    return urlsplit(url).hostname in LOOPBACK_HOSTS

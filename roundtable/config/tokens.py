"""Tokens: made, and known by their SHA-256 alone."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

TOKEN_PREFIX: Final = "rt_"  # noqa: S105 - lets people and secret scanners see what it is
DIGEST_PREFIX: Final = "sha256:"
_RANDOM_BYTES: Final = 32


def new_token() -> str:
    """A token that cannot be guessed, in characters that need no quoting anywhere."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(token: str) -> bytes:
    """The 32 bytes that a token is known by. Raises UnicodeEncodeError unless it is ASCII."""
    return hashlib.sha256(token.encode("ascii")).digest()


def digest_key(token: str) -> str:
    """How the token stands in agents.json without being told."""
    return DIGEST_PREFIX + digest_of(token).hex()

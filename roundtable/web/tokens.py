"""Which token is whose."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from roundtable.rules.agents import Agent

DIGEST_BYTES = 32


def digest(token: bytes) -> bytes:
    """The SHA-256 of a token: what is kept of it."""
    return hashlib.sha256(token).digest()


class TokenTable:
    """Agents by the digest of their token. The tokens themselves are not kept.

    A look-up compares digests, so the time it takes tells nothing about any token.
    Raises ValueError for a key that is no SHA-256 digest.
    """

    __slots__ = ("_agents",)

    def __init__(self, agents: Mapping[bytes, Agent]) -> None:
        self._agents: dict[bytes, Agent] = {}
        self.replace(agents)

    def __repr__(self) -> str:
        return f"<TokenTable of {len(self._agents)} agents>"

    def __len__(self) -> int:
        return len(self._agents)

    def agent_for(self, token: bytes) -> Agent | None:
        return self._agents.get(digest(token))

    def replace(self, agents: Mapping[bytes, Agent]) -> None:
        """Take these agents instead, all at once. On ValueError the old ones stay."""
        if any(len(key) != DIGEST_BYTES for key in agents):
            raise ValueError(f"a key is a digest of {DIGEST_BYTES} bytes")
        self._agents = dict(agents)

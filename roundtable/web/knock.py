"""A request at the doors: its head, taken apart once."""

from __future__ import annotations

from roundtable.rules.agents import Agent
from roundtable.web.asgi import Receive, Scope
from roundtable.web.peers import Peer


class Knock:
    """One request on its way in. The doors read it, and fill in `agent` and `body`."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.receive = receive
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        self.scheme: str = scope["scheme"]
        self.http_version: str = scope["http_version"]
        self.peer: Peer = scope["state"]["peer"]
        self.agent: Agent | None = None
        self.body = b""
        self.body_is_read = False
        self._headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self._headers.setdefault(name.lower(), []).append(value)

    def __repr__(self) -> str:
        return f"<Knock {self.method}>"

    def all(self, name: bytes) -> list[bytes]:
        """Every value of a header, in order."""
        return self._headers.get(name, [])

    def one(self, name: bytes) -> bytes | None:
        """The value of a header that is there exactly once, else None."""
        values = self.all(name)
        return values[0] if len(values) == 1 else None

    @property
    def may_have_unread_body(self) -> bool:
        """Whether bytes of this request may still be coming."""
        if self.body_is_read:
            return False
        return bool(self.all(b"transfer-encoding")) or self.content_length not in (None, 0)

    @property
    def content_length(self) -> int | None:
        """The announced length in bytes; h11 has seen to it that it is a number."""
        value = self.one(b"content-length")
        return None if value is None else int(value)

    def media_type(self) -> str | None:
        """The media type of the body without its parameters, in lower case."""
        value = self.one(b"content-type")
        return None if value is None else value.decode("latin-1").partition(";")[0].strip().lower()

    @property
    def is_encoded(self) -> bool:
        """Whether the body is compressed or the like."""
        return any(value.strip().lower() != b"identity" for value in self.all(b"content-encoding"))

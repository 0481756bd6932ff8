"""The way out: what the application answers, made safe for the wire.

- ASCII only. Clients that split a stream at the wrong byte, or guess another encoding,
  then read the same text. In JSON, non-ASCII stands only inside strings, where an
  escape means the same.
- The last body is held back until the application has returned. Hypercorn reports the
  end of an answer as a hang-up; an SSE response cancels itself on hearing that, in
  the middle of sending its end, and the connection would stay open for ever.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass

from roundtable.web.asgi import App, Message, Receive, Scope, Send
from roundtable.web.line import Line

_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_ESCAPED_TYPES = (b"application/json", b"text/event-stream")


@dataclass(slots=True)
class Handover:
    """Whether what an answer gives away was handed over: `scope["state"]["handover"]`.

    The application says what that is by `mark`, bytes that stand in one part of its answer alone, before it emits that
    part. `given` turns true when the system has taken the whole part for a client that, as far as the system knew at
    that moment, was there. To one that was not, that part is not sent, nor anything behind it, so that an answer whose
    gift is taken back never arrives whole.
    """

    mark: bytes = b""
    given: bool = False


async def deliver(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application and send what it answers, in ASCII, over `scope["state"]["line"]`."""
    answer = _Answer(send, scope["state"]["line"])
    scope["state"]["handover"] = answer.handover
    await app(scope, receive, answer.send)
    await answer.finish()


def escape(text: str) -> str:
    """JSON text with every non-ASCII character as its JSON escape."""
    return _NON_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)


class _Answer:
    """One answer on its way."""

    def __init__(self, send: Send, line: Line) -> None:
        self.handover = Handover()
        self._send = send
        self._line = line
        self._is_whole = False
        self._held: Message | None = None  # the start, until the length of the escaped body is known
        self._end = b""  # the whole body of a JSON answer, until the application has returned
        self._decoder: codecs.IncrementalDecoder | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        else:
            await self._continue(message)

    async def finish(self) -> None:
        """Send the end that was held back. Without one the answer stays open, and the connection is closed."""
        if self._is_whole:
            await self._send({"type": "http.response.body", "body": self._end, "more_body": False})

    async def _start(self, message: Message) -> None:
        media_type = _header(message, b"content-type").partition(b";")[0].strip().lower()
        if media_type in _ESCAPED_TYPES:
            self._decoder = codecs.getincrementaldecoder("utf-8")()
        if media_type == b"application/json":
            self._held = message
        else:
            await self._send(message)

    async def _continue(self, message: Message) -> None:
        is_last = not message.get("more_body", False)
        body = self._escaped(bytes(message.get("body", b"")), is_last)
        gives = bool(self.handover.mark) and self.handover.mark in body
        start, self._held = self._held, None
        if start is not None:
            await self._send(_with_length(start, len(body) if is_last else None))
        if is_last:
            self._is_whole = True
            if start is not None and not gives:
                self._end = body
                return
        part: Message = {"type": "http.response.body", "body": body, "more_body": True}
        if gives:
            with self._line.handing_over():
                await self._send(part)
            self.handover.given = not self._line.is_broken
        elif body:
            await self._send(part)

    def _escaped(self, body: bytes, is_last: bool) -> bytes:
        if self._decoder is None:
            return body
        # The decoder keeps a character that is split between two parts until it is whole.
        if body.isascii() and not self._decoder.getstate()[0]:
            return body
        return escape(self._decoder.decode(body, is_last)).encode("ascii")


def _header(message: Message, name: bytes) -> bytes:
    for key, value in message.get("headers", ()):
        if key.lower() == name:
            return bytes(value)
    return b""


def _with_length(start: Message, length: int | None) -> Message:
    """The same start with the length of the body as it goes out; None: not known, so it goes in chunks."""
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {**start, "headers": headers}

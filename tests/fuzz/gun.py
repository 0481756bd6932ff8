"""Sends shots over bare sockets and reads what comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass

import trio

from tests.fuzz.shots import Shot

ANSWER_SECONDS = 20.0
"""Any request is answered long before; this bounds a server that hangs."""
LOOK_SECONDS = 0.1
"""How long to look for an answer that is not owed."""
_PIECE = 65_536
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n")


@dataclass(frozen=True)
class Answer:
    """What came back: the status of each answer, None if none did in time, and the bytes."""

    statuses: tuple[int, ...]
    data: bytes
    is_late: bool = False


class Gun:
    """One connection at a time, kept while the server keeps it."""

    def __init__(self, host: str, port: int) -> None:
        self._where = (host, port)
        self._stream: trio.SocketStream | None = None

    async def fire(self, shot: Shot) -> Answer:
        if not shot.is_whole:
            await self.close()
            answer = await self._look(shot.data)
            await self.close()
            return answer
        for attempt in (1, 2):
            is_new = self._stream is None
            with trio.move_on_after(ANSWER_SECONDS):
                answer = await self._exchange(shot.data)
                # the server may have ended an idle connection just before: then nothing came, and a new one is due
                if answer.statuses or is_new or attempt == 2:
                    return answer
                continue
            await self.close()
            return Answer((), b"", is_late=True)
        raise AssertionError("the second attempt returns")

    async def close(self) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None

    async def _open(self) -> trio.SocketStream:
        if self._stream is None:
            self._stream = await trio.open_tcp_stream(*self._where)
        return self._stream

    async def _look(self, data: bytes) -> Answer:
        """Send, say that this was all, and take what comes for a moment."""
        received = b""
        try:
            stream = await self._open()
            with trio.move_on_after(LOOK_SECONDS * 10):
                await stream.send_all(data)
            with trio.move_on_after(LOOK_SECONDS):
                while part := await stream.receive_some(_PIECE):
                    received += part
                    if _is_complete(received):
                        break
        except (trio.BrokenResourceError, OSError):
            pass
        return _answer(received)

    async def _exchange(self, data: bytes) -> Answer:
        """Send it whole, or as much as the server wants, and read one answer."""
        received = b""
        stream = await self._open()
        ended = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, stream, data)
            try:
                while not _is_complete(received):
                    part = await stream.receive_some(_PIECE)
                    if not part:
                        ended = True
                        break
                    received += part
            except (trio.BrokenResourceError, OSError):
                ended = True
            nursery.cancel_scope.cancel()
        if ended or b"onnection: close" in received.partition(b"\r\n\r\n")[0]:
            await self.close()
        return _answer(received)


async def _send(stream: trio.SocketStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        return  # refused half-way: the answer says why


def _answer(received: bytes) -> Answer:
    return Answer(tuple(int(status) for status in _STATUS.findall(received)), received)


def _is_complete(received: bytes) -> bool:
    """Whether there is one whole answer."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return False
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", lower)
    return len(body) >= int(length[1]) if length else b" 204 " in head or b" 202 " in head

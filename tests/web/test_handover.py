"""Whether a client was there when its answer went out, on real sockets: what is given away is sent to nobody else."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
from web_edge import Inner, edge, read_to_end, read_until, request

from roundtable.web.line import Line, has_hung_up

GIFT = b"the-only-one"
ANSWERS = {
    b"application/json": b'{"claim_id":"%s"}' % GIFT,
    b"text/event-stream": b'data: {"claim_id":"%s"}\r\n\r\n' % GIFT,
}
TYPES = pytest.mark.parametrize("media_type", ANSWERS)
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Giver:
    """An application that answers with the gift when it is told to, and does not listen for its client to go."""

    def __init__(self, media_type: bytes, *, before: bytes = b"", behind: bytes = b"") -> None:
        self.media_type = media_type
        self.before = before
        self.body = ANSWERS[media_type] + behind
        self.asked, self.go_on, self.is_over = trio.Event(), trio.Event(), trio.Event()
        self.handover = None

    async def __call__(self, scope, receive, send):
        self.handover = scope["state"]["handover"]
        self.asked.set()
        try:
            await self.go_on.wait()
            await self._answer(send)
        finally:
            self.is_over.set()

    async def _answer(self, send):
        self.handover.mark = GIFT
        headers = [(b"content-type", self.media_type)]
        if self.media_type == b"application/json":
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in filter(None, (self.before, self.body)):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        self.is_over.set()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def ask(stream, giver) -> None:
    await stream.send_all(request())
    await giver.asked.wait()


@pytest.mark.spec("CLAIM-9")
@TYPES
async def test_a_client_that_reads_its_answer_and_closes_has_been_given_it(media_type):
    giver = Giver(media_type)
    async with edge(Inner(giver)) as server, await server.connect() as stream:
        await ask(stream, giver)
        giver.go_on.set()
        await read_until(stream, GIFT)
        await stream.aclose()
        await giver.is_over.wait()
        assert giver.handover.given


@pytest.mark.spec("CLAIM-9")
@TYPES
@pytest.mark.parametrize("unread", [b"", b"GET / HTTP/1.1\r\n"])
async def test_a_client_that_has_ended_its_side_is_sent_nothing_though_nobody_has_read_its_end(
    media_type, unread
):
    giver = Giver(media_type)
    async with edge(Inner(giver)) as server, await server.connect() as stream:
        await ask(stream, giver)
        if unread:
            await stream.send_all(unread)
        await stream.send_eof()
        giver.go_on.set()  # in the same turn: the server has not come to read the end
        assert GIFT not in await read_to_end(stream)
        await giver.is_over.wait()
        assert not giver.handover.given


@pytest.mark.spec("CLAIM-9")
@TYPES
async def test_a_client_that_has_reset_its_connection_has_been_given_nothing(media_type):
    giver = Giver(media_type)
    async with edge(Inner(giver)) as server:
        stream = await server.connect()
        await ask(stream, giver)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        stream.socket.close()
        giver.go_on.set()
        await giver.is_over.wait()
        assert not giver.handover.given
        assert await server.is_alive()


@pytest.mark.spec("CLAIM-9")
@pytest.mark.parametrize("place", ["before", "behind"])
async def test_a_client_that_reads_no_more_has_not_been_given_what_did_not_go_out_whole(place):
    giver = Giver(b"text/event-stream", **{place: b": more\r\n\r\n" * 4_000_000})
    async with edge(Inner(giver), send_seconds=0.1) as server, await server.connect() as stream:
        await ask(stream, giver)
        giver.go_on.set()
        await giver.is_over.wait()
        assert not giver.handover.given


def test_an_end_is_known_before_it_is_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watched = trio.socket.from_stdlib_socket(ours)
        assert not has_hung_up(watched)
        theirs.sendall(b"unread")
        assert not has_hung_up(watched)
        theirs.shutdown(socket.SHUT_WR)
        assert has_hung_up(watched)
    assert has_hung_up(watched)


def test_only_what_is_handed_over_asks_for_a_client_that_is_there():
    line = Line(lambda: True)
    assert line.takes_bytes
    with line.handing_over():
        assert not line.takes_bytes
    assert line.takes_bytes

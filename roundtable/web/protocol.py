"""HTTP/1.1 as Hypercorn speaks it, without the parts that end the process.

No websocket, no HTTP/2, no 5xx of its own making, and an answer for every message
that cannot be read. What is wrong in the original is told in docs/decisions/0003-own-connection-class.md.
"""

from __future__ import annotations

import h11
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream

from roundtable.web.replies import unreadable

READABLE_VERSIONS = (b"1.0", b"1.1")
UNFINISHED = (h11.IDLE, h11.SEND_BODY, h11.ERROR)
UPGRADE_HEADERS = (b"upgrade", b"http2-settings")


class QuietStream(HTTPStream):
    """One request and its answer. An application that gives no answer gives none, instead of a 500.

    It does so when its client has gone or when it has failed; then the connection ends.
    """

    async def _send_error_response(self, status_code: int) -> None:
        self.state = ASGIHTTPState.CLOSED


class PlainProtocol(H11Protocol):
    """One connection's HTTP/1.1."""

    connection: h11.Connection
    _ignores_input = False  # what the client sends behind a last request is not read
    _head = b""  # of an answer whose body comes at once

    async def handle(self, event: Event) -> None:
        if isinstance(event, RawData) and event.data and self._ignores_input:
            return
        await super().handle(event)

    async def _handle_events(self) -> None:
        """Act on what has been received so far. Returns when more is needed or nothing more will be read."""
        while True:
            if self.connection.they_are_waiting_for_100_continue:
                await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))
            their_state = self.connection.their_state
            try:
                event = self.connection.next_event()
                if isinstance(event, h11.Request) and event.http_version not in READABLE_VERSIONS:
                    raise h11.RemoteProtocolError("not HTTP/1", error_status_hint=400)
            except h11.RemoteProtocolError as error:
                await self._give_up(error.error_status_hint, request_is_whole=their_state not in UNFINISHED)
                return
            if isinstance(event, h11.Request):
                await self.send(Updated(idle=False))
                await self._create_stream(event)
            elif event is h11.PAUSED:
                await self.can_read.clear()
                await self.can_read.wait()
                if self.connection.their_state is not h11.IDLE:
                    return  # the answer was the last one
            elif isinstance(event, h11.Data) and self.stream is not None:
                await self.stream.handle(Body(stream_id=STREAM_ID, data=event.data))
            elif isinstance(event, h11.EndOfMessage) and self.stream is not None:
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
            else:  # more data is needed, none will come, or the request has been answered unread
                return

    async def _give_up(self, status: int, *, request_is_whole: bool) -> None:
        """What was received cannot be read: refuse it, but let an answer that is under way to its end."""
        may_refuse = self.connection.our_state in {h11.IDLE, h11.SEND_RESPONSE} and not request_is_whole
        if may_refuse:
            await self._send_error_response(status)
        elif self.stream is not None:
            self._ignores_input = True  # the end of that answer ends the connection
            return
        await self.send(Closed())

    @property
    def is_between_requests(self) -> bool:
        """Whether no request is being read or answered (a part of the next head may be here)."""
        return self.stream is None and self.connection.their_state is h11.IDLE

    @property
    def has_next_bytes(self) -> bool:
        """Whether bytes of the next request are here."""
        return bool(self.connection.trailing_data[0])

    @property
    def awaits_body(self) -> bool:
        """Whether the client is still sending a request's body."""
        return self.connection.their_state is h11.SEND_BODY

    async def _create_stream(self, request: h11.Request) -> None:
        self.stream = QuietStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=[(name, value) for name, value in request.headers if name not in UPGRADE_HEADERS],
                http_version=request.http_version.decode("ascii"),
                method=request.method.decode("ascii"),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    async def _send_error_response(self, status_code: int) -> None:
        reply = unreadable(status_code)
        await self._send_h11_event(
            h11.Response(
                status_code=reply.status,
                headers=[*reply.headers, (b"connection", b"close"), *self.config.response_headers("h11")],
            )
        )
        await self._send_h11_event(h11.Data(data=reply.body))
        await self._send_h11_event(h11.EndOfMessage())

    async def _send_h11_event(self, event: h11.Event) -> None:
        """As the original, but a head that says how long its body is goes out together with that, in one write."""
        try:
            data = self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response) and any(name == b"content-length" for name, _ in event.headers):
            self._head = data
            return
        data, self._head = self._head + data, b""
        if data:
            await self.send(RawData(data=data))

    async def _close_stream(self) -> None:
        # Forgotten first: handling it lets other tasks run, and one may begin the next request.
        stream, self.stream = self.stream, None
        if stream is not None:
            await stream.handle(StreamClosed(stream_id=STREAM_ID))

"""The doors: what a request must pass, in order, before anything of it is processed.

Each door sees a Knock and lets it pass (None), answers it (Reply), or hangs up
(HANG_UP). The order is the tuple in `Doors.__init__` and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto

import trio

from roundtable.rules.rate import RateWindows
from roundtable.web.answers import deliver
from roundtable.web.asgi import App, Receive, Scope, Send
from roundtable.web.bearer import bearer_token
from roundtable.web.bodies import BodyTooLargeError, ClientGoneError, Replay, read_body
from roundtable.web.hosts import KnownHosts
from roundtable.web.knock import Knock
from roundtable.web.limits import (
    DOOR_RATE_FACTOR,
    MAX_ADDRESSES,
    MAX_AGENTS_RATED,
    MINUTE_SECONDS,
    WebLimits,
)
from roundtable.web.probes import Probes, Ready
from roundtable.web.replies import Reply, echo, refusal, too_many

MCP_PATHS = (b"/mcp", b"/mcp/")
_JSON = b"application/json"
ASKS_FOR_TOKEN = (b"www-authenticate", b"Bearer")


class Farewell(Enum):
    """No answer: the connection ends."""

    HANG_UP = auto()


HANG_UP = Farewell.HANG_UP
Verdict = Reply | Farewell | None
Door = Callable[[Knock], Awaitable[Verdict]]


class Doors:
    """An ASGI application in front of another one.

    `inner` is called only for a POST to /mcp that has passed every door, with
    `scope["agent"]` (whose token it was) and `scope["body"]` (the whole body) set. Its
    receive gives the body once more and then waits for the client to hang up.
    `scope["state"]["handover"]` is the answer's Handover.

    `stopping` is set by the server when it takes no further request. `has_stopped` says
    whether the board is gone for good. Raises ValueError for an allowed host that is none.
    """

    def __init__(
        self,
        inner: App,
        limits: WebLimits,
        *,
        ready: Ready,
        stopping: trio.Event,
        has_stopped: Callable[[], bool],
    ) -> None:
        self.stopping = stopping
        self._inner = inner
        self._limits = limits
        self._probes = Probes(ready, limits.ready_seconds)
        self._hosts = KnownHosts(limits.allowed_hosts)
        self._has_stopped = has_stopped
        self._failed = RateWindows(limits.failed_attempts_per_minute, MINUTE_SECONDS, MAX_ADDRESSES)
        self._requests: RateWindows | None = None
        if limits.rate_limit_per_minute:
            most = limits.rate_limit_per_minute * DOOR_RATE_FACTOR
            self._requests = RateWindows(most, MINUTE_SECONDS, MAX_AGENTS_RATED)
        self._doors: tuple[Door, ...] = (
            self._framing,  # 400
            self._probe,  # /healthz and /readyz, answered whatever the Host
            self._host,  # 421
            self._origin,  # 403
            self._route,  # 404, 405
            self._token,  # 401, 429
            self._rate,  # 429
            self._content_type,  # 415
            self._size,  # 413
            self._whole_body,  # 408, 413
            self._board,  # 503
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the doors are for HTTP, not {scope['type']}")
        knock = Knock(scope, receive)
        for door in self._doors:
            verdict = await door(knock)
            if verdict is HANG_UP:
                return
            if isinstance(verdict, Reply):
                await verdict.send(send, closing=knock.may_have_unread_body)
                return
        if knock.one(b"content-type") != _JSON:
            # the SDK takes this spelling alone, and would refuse the others in words of its own
            scope["headers"] = [
                (name, _JSON if name == b"content-type" else value) for name, value in scope["headers"]
            ]
        scope["agent"] = knock.agent
        scope["body"] = knock.body
        await deliver(self._inner, scope, Replay(knock.body, receive), send)

    async def _framing(self, knock: Knock) -> Verdict:
        if knock.all(b"transfer-encoding") and knock.all(b"content-length"):
            # Whoever stands in front may go by the other one, and then one request is read as two.
            return refusal(
                400, "invalid", "A request has Content-Length or Transfer-Encoding; this one has both."
            )
        if knock.all(b"transfer-encoding") and knock.http_version != "1.1":
            return refusal(400, "invalid", "Transfer-Encoding is accepted in HTTP/1.1 only.")
        if not knock.path.startswith(b"/"):
            return refusal(400, "invalid", "The target of a request is a path that begins with a slash.")
        return None

    async def _probe(self, knock: Knock) -> Verdict:
        return await self._probes.reply(knock.method, knock.path)

    async def _host(self, knock: Knock) -> Verdict:
        host = knock.one(b"host")
        if host is not None and self._hosts.knows_host_header(host, knock.scheme):
            return None
        named = "No Host" if host is None else f"Host {echo(host.decode('latin-1'))!r}"
        return refusal(
            421,
            "forbidden",
            f"{named}: this server does not answer to that name. Loopback names are accepted, "
            "and those that its owner lists in ROUNDTABLE_ALLOWED_HOSTS (as host or host:port).",
        )

    async def _origin(self, knock: Knock) -> Verdict:
        origins = knock.all(b"origin")
        if not origins or (len(origins) == 1 and self._hosts.knows_origin(origins[0])):
            return None
        return refusal(
            403,
            "forbidden",
            f"Origin {echo(origins[0].decode('latin-1'))!r} is a foreign page. Requests without Origin are "
            "accepted, and from pages on a loopback name or one in ROUNDTABLE_ALLOWED_HOSTS.",
        )

    async def _route(self, knock: Knock) -> Verdict:
        if knock.path not in MCP_PATHS:
            return refusal(404, "not_found", "There is nothing at this path. MCP is at /mcp.")
        if knock.method != "POST":
            return refusal(405, "invalid", "Only POST is accepted at /mcp.", (b"allow", b"POST"))
        return None

    async def _token(self, knock: Knock) -> Verdict:
        token = bearer_token(knock.all(b"authorization"))
        knock.agent = None if token is None else knock.peer.tokens.agent_for(token)
        if knock.agent is not None:
            return None if knock.peer.trust() else HANG_UP
        wait_seconds = self._failed.allow(knock.peer.address, trio.current_time())
        if wait_seconds is not None:
            message = (
                "Too many requests without a valid token came from this address; one with it is accepted."
            )
            return too_many(message, wait_seconds, ASKS_FOR_TOKEN)
        what = "has no Authorization header"
        if token is not None:
            what = "has a token that is not known here"
        elif knock.all(b"authorization"):
            what = "has no readable token"
        return refusal(
            401,
            "unauthorized",
            f"This request {what}. Exactly one header `Authorization: Bearer <token>` with the token of "
            "an agent of this board is accepted.",
            ASKS_FOR_TOKEN,
        )

    async def _rate(self, knock: Knock) -> Verdict:
        if self._requests is None or knock.agent is None:
            return None
        wait_seconds = self._requests.allow(knock.agent.name, trio.current_time())
        if wait_seconds is None:
            return None
        most = self._limits.rate_limit_per_minute
        return too_many(
            f"{most * DOOR_RATE_FACTOR} requests in a minute are the most; {most} tool calls are the limit.",
            wait_seconds,
        )

    async def _content_type(self, knock: Knock) -> Verdict:
        if knock.media_type() == "application/json" and not knock.is_encoded:
            return None
        return refusal(415, "invalid", "A body in application/json without Content-Encoding is accepted.")

    async def _size(self, knock: Knock) -> Verdict:
        length = knock.content_length
        return self._too_large() if length is not None and length > self._limits.max_body_bytes else None

    async def _whole_body(self, knock: Knock) -> Verdict:
        try:
            with trio.CancelScope(deadline=knock.peer.request_deadline) as scope:
                knock.body = await read_body(knock.receive, self._limits.max_body_bytes)
                knock.body_is_read = True
        except BodyTooLargeError:
            return self._too_large()
        except ClientGoneError:
            return HANG_UP
        if scope.cancelled_caught:
            seconds = self._limits.request_seconds
            return refusal(408, "invalid", f"A request is complete within {seconds:g} s; this one was not.")
        return None

    async def _board(self, knock: Knock) -> Verdict:
        if self._has_stopped():
            return refusal(503, "unavailable", "The board has stopped.")
        return None

    def _too_large(self) -> Reply:
        most = self._limits.max_body_bytes
        return refusal(413, "too_large", f"The body is over {most} bytes, the most accepted.")

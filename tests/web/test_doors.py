"""The doors in their order, called as an ASGI application."""

import json
from dataclasses import dataclass, field

import pytest
import trio
from web_edge import LEADER, OTHER_TOKEN, TOKEN, TOKENS, WORKER, Inner

from roundtable.web.doors import Doors
from roundtable.web.limits import WebLimits
from roundtable.web.line import Line
from roundtable.web.peers import Admission, Peer
from roundtable.web.tokens import TokenTable

GOOD = {
    b"host": b"localhost:8000",
    b"authorization": b"Bearer " + TOKEN,
    b"content-type": b"application/json",
}


async def is_ready():
    return None


@dataclass
class House:
    """The doors with an application behind them, and what came out."""

    limits: WebLimits = field(default_factory=WebLimits)
    ready: object = is_ready
    stopped: bool = False
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self):
        self.admission = Admission(self.limits)
        self.doors = Doors(
            self.inner,
            self.limits,
            ready=self.ready,
            stopping=trio.Event(),
            has_stopped=lambda: self.stopped,
        )

    def peer(self, address="127.0.0.1"):
        assert self.admission.enter(address)
        return Peer(address, TokenTable(TOKENS), self.admission)

    async def knock(
        self,
        method="POST",
        path=b"/mcp",
        *,
        changes=None,
        extra=(),
        parts=(b"{}",),
        peer=None,
        version="1.1",
        scheme="http",
        address="127.0.0.1",
        receive=None,
    ):
        headers = [(k, v) for k, v in (GOOD | (changes or {})).items() if v is not None] + list(extra)
        events = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        events.append({"type": "http.request", "body": b"", "more_body": False})
        sent = []

        async def feed():
            await trio.lowlevel.checkpoint()
            return events.pop(0) if events else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.partition(b"?")[0],
            "query_string": path.partition(b"?")[2],
            "scheme": scheme,
            "http_version": version,
            "headers": headers,
            "state": {"peer": peer or self.peer(address), "line": Line(lambda: False)},
        }
        await self.doors(scope, receive or feed, send)
        return Answer(scope, sent) if sent else None


class Answer:
    def __init__(self, scope, sent):
        self.scope = scope
        self.status = sent[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        self.raw = b"".join(message["body"] for message in sent[1:])
        self.content = json.loads(self.raw)
        assert self.headers["content-type"] == "application/json"

    @property
    def code(self):
        return self.content["error"]["code"]

    @property
    def message(self):
        return self.content["error"]["message"]


CHUNKED = (b"transfer-encoding", b"chunked")
FAULTS = [
    (400, {"extra": [CHUNKED, (b"content-length", b"2")]}),
    (421, {"changes": {b"host": b"evil.example"}}),
    (403, {"extra": [(b"origin", b"https://evil.example")]}),
    (404, {"path": b"/elsewhere"}),
    (401, {"changes": {b"authorization": b"Bearer nobody-has-this-token-at-all"}}),
    (415, {"changes": {b"content-type": b"text/plain"}}),
    (413, {"extra": [(b"content-length", b"1048577")]}),
]


@pytest.mark.spec("DOOR-1")
async def test_a_request_with_several_faults_is_answered_by_the_first_door_and_nothing_is_read():
    async def read():
        raise AssertionError("a door read the body")

    for first, (status, _) in enumerate(FAULTS):
        knock = {"extra": [], "changes": {}, "path": b"/mcp"}
        for _, fault in FAULTS[first:]:
            knock["extra"] = knock["extra"] + fault.get("extra", [])
            knock["changes"] = knock["changes"] | fault.get("changes", {})
            knock["path"] = fault.get("path", knock["path"])
        house = House()
        answer = await house.knock(**knock, receive=read)
        assert answer.status == status
        assert house.inner.calls == []


@pytest.mark.spec("DOOR-1")
async def test_behind_all_doors_stands_the_application_with_agent_and_body():
    house = House()
    answer = await house.knock(parts=(b'{"a"', b":1}"))
    assert answer.status == 200
    [scope] = house.inner.calls
    assert (scope["agent"], scope["body"]) == (WORKER, b'{"a":1}')


async def test_the_application_reads_the_body_again_and_then_waits_for_the_hang_up():
    heard = []

    async def listen(scope, receive, send):
        heard.append(await receive())
        heard.append(await receive())

    await House(inner=Inner(listen)).knock(parts=(b"ab", b"c"))
    assert heard == [
        {"type": "http.request", "body": b"abc", "more_body": False},
        {"type": "http.disconnect"},
    ]


@pytest.mark.spec("HTTP-1")
@pytest.mark.parametrize("path", [b"/mcp", b"/mcp/", b"/mcp?x=1"])
async def test_both_spellings_of_the_path_answer(path):
    assert (await House().knock(path=path)).status == 200


@pytest.mark.spec("HTTP-4", "DOOR-7")
@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH", "post", "TRACE"])
async def test_any_method_but_post_is_refused_at_mcp_and_told_which_one_is_not(method):
    answer = await House().knock(method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.spec("DOOR-7", "HTTP-8")
@pytest.mark.parametrize(
    "path",
    [
        b"/",
        b"/MCP",
        b"/mcp/x",
        b"/mcp//",
        b"/%6dcp",
        b"//mcp",
        b"/.well-known/oauth-protected-resource",
        b"/.well-known/oauth-protected-resource/mcp",
        b"/.well-known/oauth-authorization-server",
        b"/healthz/",
    ],
)
async def test_any_other_path_is_a_404_in_json(path):
    answer = await House().knock(method="GET", path=path, changes={b"authorization": None})
    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.spec("DOOR-2", "DOOR-4")
@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b"evil.example",
        b"localhost.evil.example",
        b"localhost:80:80",
        b"localhost:",
        b"localhost:0",
        b"localhost:65536",
        b"localhost:8 0",
        b"localhost:+80",
        b"user@localhost",
        b"user:pw@localhost",
        b"localhost@evil.example",
        b"local host",
        b"localhost/x",
        b"localhost,evil.example",
        b"127.0.0.1.",
        b"127.1",
        b"0x7f.0.0.1",
        b"::1",
        b"[::1",
        b"[::1]x",
        b"[::1%25lo]",
        b"l\xc3\xb6calhost",
    ],
)
async def test_a_host_that_is_no_name_of_this_server_is_told_which_setting_names_more(host):
    answer = await House().knock(changes={b"host": host})
    assert answer.status == 421
    assert "ROUNDTABLE_ALLOWED_HOSTS" in answer.message


@pytest.mark.spec("DOOR-2", "DOOR-3")
@pytest.mark.parametrize(
    "host", [b"localhost", b"LOCALHOST:1", b"127.0.0.1:65535", b"[::1]", b"[::1]:80", b"[0:0:0:0:0:0:0:1]:80"]
)
async def test_loopback_names_pass_with_any_port(host):
    assert (await House().knock(changes={b"host": host})).status == 200


@pytest.mark.spec("DOOR-3")
@pytest.mark.parametrize(
    ("entry", "host", "scheme", "status"),
    [
        ("Board.Example", b"board.example", "http", 200),
        ("board.example", b"BOARD.example:4711", "http", 200),
        ("board.example", b"x.board.example", "http", 421),
        ("board.example:8443", b"board.example:8443", "http", 200),
        ("board.example:8443", b"board.example:8444", "http", 421),
        ("board.example:8443", b"board.example", "https", 421),
        ("board.example:443", b"board.example", "https", 200),
        ("board.example:443", b"board.example", "http", 421),
        ("10.1.2.3", b"10.1.2.3:8000", "http", 200),
        ("[fd00::1]:8000", b"[FD00:0::1]:8000", "http", 200),
    ],
)
async def test_the_owner_allows_further_hosts_with_any_port_or_one(entry, host, scheme, status):
    house = House(WebLimits(allowed_hosts=(entry,)))
    assert (await house.knock(changes={b"host": host}, scheme=scheme)).status == status


@pytest.mark.parametrize("entry", ["", "http://board.example", "board.example/x", "*", "board.example:http"])
def test_an_allowed_host_that_is_none_is_refused_at_the_start(entry):
    with pytest.raises(ValueError):
        House(WebLimits(allowed_hosts=(entry,)))


@pytest.mark.spec("DOOR-5")
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (b"http://localhost:6274", 200),
        (b"https://127.0.0.1", 200),
        (b"https://board.example", 200),
        (b"https://board.example:8443", 403),
        (b"http://evil.example", 403),
        (b"http://localhost.evil.example", 403),
        (b"http://localhost@evil.example", 403),
        (b"http://localhost/", 403),
        (b"null", 403),
        (b"", 403),
        (b"file://", 403),
        (b"chrome-extension://localhost", 403),
        (b"\xff", 403),
    ],
)
async def test_a_foreign_origin_is_refused(origin, status):
    house = House(WebLimits(allowed_hosts=("board.example:443",)))
    assert (await house.knock(extra=[(b"origin", origin)])).status == status


@pytest.mark.spec("DOOR-5")
async def test_two_origins_are_refused():
    twice = [(b"origin", b"http://localhost")] * 2
    assert (await House().knock(extra=twice)).status == 403


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        TOKEN,
        b"Bearer",
        b"Bearer ",
        b"Basic " + TOKEN,
        b"Bearer  " + TOKEN + b" x",
        b"Bearer\t" + TOKEN,
        b"Bearer " + TOKEN[:-1],
        b"Bearer " + TOKEN + b"x",
        b"Bearer " + TOKEN + b"," + TOKEN,
        b"Bearer \xc3\xa9" + TOKEN,
        b"Bearer " + TOKEN + b"\xff",
        b'Bearer "' + TOKEN + b'"',
    ],
)
async def test_anything_but_a_known_bearer_token_is_refused_and_nothing_of_it_is_told_back(value):
    house = House()
    peer = house.peer()
    answer = await house.knock(changes={b"authorization": value}, peer=peer)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN[:10] not in answer.raw
    assert not peer.trusted
    assert house.inner.calls == []


@pytest.mark.spec("AUTH-1")
async def test_two_authorization_headers_are_refused_though_both_are_right():
    answer = await House().knock(extra=[(b"authorization", b"Bearer " + TOKEN)])
    assert answer.status == 401


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER  "])
async def test_a_known_token_is_whom_the_request_is_from(scheme):
    house = House()
    peer = house.peer()
    await house.knock(changes={b"authorization": scheme + OTHER_TOKEN}, peer=peer)
    assert house.inner.calls[0]["agent"] is LEADER
    assert peer.trusted


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize("query", [b"token=", b"access_token=", b"authorization=Bearer%20"])
async def test_a_token_in_the_url_is_not_taken(query):
    answer = await House().knock(path=b"/mcp?" + query + TOKEN, changes={b"authorization": None})
    assert answer.status == 401


@pytest.mark.spec("AUTH-3", "AUTH-4")
async def test_after_twenty_failed_attempts_an_address_waits_but_a_valid_token_is_served(mock_clock):
    house = House()
    wrong = {b"authorization": b"Bearer wrong"}
    for n in range(20):
        forwarded = [(b"x-forwarded-for", b"10.0.0.%d" % n), (b"forwarded", b"for=10.0.0.%d" % n)]
        assert (await house.knock(changes=wrong, extra=forwarded)).status == 401
    mock_clock.jump(59.5)
    refused = await house.knock(changes=wrong)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "1")
    assert refused.content["error"]["retry_after_seconds"] == 1
    assert (await house.knock()).status == 200
    assert (await house.knock(changes=wrong, address="127.0.0.2")).status == 401
    mock_clock.jump(1)
    assert (await house.knock(changes=wrong)).status == 401


@pytest.mark.spec("RATE-4")
async def test_over_ten_times_the_limit_every_request_of_a_token_waits(mock_clock):
    house = House(WebLimits(rate_limit_per_minute=2))
    statuses = [(await house.knock(parts=())).status for _ in range(21)]
    assert statuses == [200] * 20 + [429]
    assert len(house.inner.calls) == 20
    refused = await house.knock()
    assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", "60")
    assert (await house.knock(changes={b"authorization": b"Bearer " + OTHER_TOKEN})).status == 200
    mock_clock.jump(60)
    assert (await house.knock()).status == 200


async def test_a_rate_limit_of_0_is_none():
    house = House(WebLimits(rate_limit_per_minute=0))
    assert {(await house.knock()).status for _ in range(100)} == {200}


async def test_a_known_connection_over_the_cap_is_hung_up_on():
    house = House(WebLimits(max_connections=1))
    first = house.peer()
    assert (await house.knock(peer=first)).status == 200
    assert await house.knock() is None
    assert (await house.knock(peer=first)).status == 200


@pytest.mark.spec("DOOR-8")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({b"content-type": b"application/json; charset=utf-8"}, 200),
        ({b"content-type": b"Application/JSON"}, 200),
        ({b"content-type": None}, 415),
        ({b"content-type": b"application/jsonx"}, 415),
        ({b"content-type": b"text/plain"}, 415),
        ({b"content-type": b"application/x-www-form-urlencoded"}, 415),
        ({b"content-encoding": b"gzip"}, 415),
        ({b"content-encoding": b"identity"}, 200),
    ],
)
async def test_a_body_that_is_not_plain_json_is_refused(changes, status):
    answer = await House().knock(changes=changes)
    assert answer.status == status
    if status == 200:  # what is behind the doors knows one spelling
        assert dict(answer.scope["headers"])[b"content-type"] == b"application/json"


@pytest.mark.spec("DOOR-9")
@pytest.mark.parametrize(
    ("sizes", "announced", "status"),
    [
        ((1024 * 1024,), True, 200),
        ((1024 * 1024 + 1,), True, 413),
        ((1024 * 1024,), False, 200),
        ((65536,) * 16 + (1,), False, 413),
    ],
)
async def test_a_body_over_a_mebibyte_is_refused_announced_or_not(sizes, announced, status):
    extra = [(b"content-length", b"%d" % sum(sizes))] if announced else [CHUNKED]
    answer = await House().knock(parts=[b" " * size for size in sizes], extra=extra)
    assert answer.status == status


@pytest.mark.spec("DOOR-10")
async def test_a_body_that_is_late_is_refused(autojump_clock):
    async def never():
        await trio.sleep_forever()

    house = House()
    peer = house.peer()
    peer.request_deadline = trio.current_time() + 30
    with trio.fail_after(31):
        answer = await house.knock(peer=peer, receive=never, extra=[CHUNKED])
    assert (answer.status, answer.headers["connection"]) == (408, "close")


async def test_a_client_that_goes_before_its_body_is_complete_gets_nothing():
    async def gone():
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    house = House()
    assert await house.knock(receive=gone) is None
    assert house.inner.calls == []


@pytest.mark.spec("HTTP-7")
async def test_once_the_board_has_stopped_mcp_is_unavailable():
    house = House(stopped=True)
    answer = await house.knock()
    assert (answer.status, answer.code) == (503, "unavailable")
    assert house.inner.calls == []


@pytest.mark.spec("HTTP-5", "HTTP-6", "DOOR-6")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
async def test_probes_need_no_token_and_no_known_host(method, path):
    changes = {b"host": b"10.1.2.3:8000", b"authorization": None, b"content-type": None}
    house = House()
    answer = await house.knock(
        method=method, path=path, changes=changes, extra=[(b"origin", b"http://x.example")]
    )
    assert answer.status == 200
    assert set(answer.content) == {"status"}
    assert house.inner.calls == []


async def test_a_probe_is_asked_with_get_only():
    answer = await House().knock(path=b"/readyz")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.spec("HTTP-6", "HTTP-5")
async def test_a_board_that_does_not_answer_is_not_ready_with_the_reason_but_alive():
    async def broken():
        return "The disk is full."

    house = House(ready=broken)
    answer = await house.knock(method="GET", path=b"/readyz")
    assert (answer.status, answer.code, answer.message) == (503, "unavailable", "The disk is full.")
    assert (await house.knock(method="GET", path=b"/healthz")).status == 200


@pytest.mark.spec("HTTP-6")
async def test_a_board_that_hangs_is_not_ready(autojump_clock):
    with trio.fail_after(10):
        answer = await House(ready=trio.sleep_forever).knock(method="GET", path=b"/readyz")
    assert answer.status == 503
    assert "did not answer" in answer.message


async def test_what_is_told_back_of_a_request_is_short_and_ascii():
    answer = await House().knock(changes={b"host": b"\xe9" * 5000})
    assert answer.status == 421
    assert len(answer.message) < 400
    assert answer.raw.isascii()


async def test_the_lifespan_is_the_applications():
    house = House()
    scopes = []

    async def inner(scope, receive, send):
        scopes.append(scope)

    house.inner.script = inner
    await house.doors({"type": "lifespan"}, None, None)
    assert scopes == [{"type": "lifespan"}]


async def test_a_websocket_never_reaches_the_application():
    house = House()
    with pytest.raises(ValueError, match="HTTP"):
        await house.doors({"type": "websocket"}, None, None)
    assert house.inner.calls == []

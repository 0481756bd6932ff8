"""One connection never harms another or the server: each fault that was seen, against a real socket."""

import importlib.metadata
import json
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from structlog.testing import capture_logs
from web_edge import Inner, edge, read_to_end, read_until, request, response, responses

WEBSOCKET = (
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.spec("CONN-13")
def test_the_server_library_whose_faults_are_cured_by_name_is_the_one_looked_at():
    assert importlib.metadata.version("hypercorn") == "0.18.0", "read docs/decisions/0003 before an upgrade"
    project = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    assert '"hypercorn==0.18.0"' in project


@pytest.mark.spec("CONN-1")
@pytest.mark.parametrize("behind", [b"", b"x", b"\x81\x85" + b"m" * 9])
async def test_a_websocket_upgrade_is_answered_as_a_plain_request(behind):
    async with edge() as server, await server.connect() as stream:
        await stream.send_all(WEBSOCKET + behind)
        answer = response(await read_until(stream, b'"}}'))
        assert answer.status == 405
        assert await server.is_alive()


@pytest.mark.spec("CONN-1")
async def test_a_post_that_offers_an_upgrade_is_served_without_it():
    async with edge() as server:
        raw = request(b"POST", b"/mcp", b"Connection: Upgrade, close", b"Upgrade: websocket")
        assert response(await server.ask(raw)).status == 200
        assert b"upgrade" not in dict(server.inner.calls[0]["headers"])


@pytest.mark.spec("CONN-3")
@pytest.mark.parametrize("settings", [b"%%%", b"AAMAAABkAAQAAP__", b""])
async def test_an_upgrade_to_http2_is_answered_in_http1(settings):
    async with edge() as server:
        upgrade = (
            b"Connection: Upgrade, HTTP2-Settings, close",
            b"Upgrade: h2c",
            b"HTTP2-Settings: " + settings,
        )
        answer = response(await server.ask(request(b"GET", b"/mcp", *upgrade, token=None)), b"GET")
        assert answer.status == 405
        assert await server.is_alive()


@pytest.mark.spec("CONN-2")
@pytest.mark.parametrize("behind", [b"", b"SM\r\n\r\n", b"SM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"])
async def test_the_preface_of_http2_is_refused_and_closed(behind):
    async with edge() as server:
        raw = await server.ask(b"PRI * HTTP/2.0\r\n\r\n" + behind)
        assert response(raw).status == 400
        assert await server.is_alive()


@pytest.mark.spec("CONN-7")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_framings_at_once_are_refused_and_the_bytes_behind_are_no_request(order):
    framings = (b"Content-Length: 5", b"Transfer-Encoding: chunked")
    async with edge() as server:
        smuggled = request(body=b'{"smuggled":1}')
        first = request(b"POST", b"/mcp", *(framings[i] for i in order), body=b"0\r\n\r\n")
        raw = await server.ask(first + smuggled)
        answer = response(raw)
        assert answer.status == 400
        assert answer.closes
        assert raw.count(b"HTTP/1.1") == 1
        assert server.inner.calls == []


@pytest.mark.spec("CONN-8", "HTTP-7")
@pytest.mark.parametrize(
    "coding", [b"gzip", b"gzip, chunked", b"chunked, chunked", b"identity", b"\x0bchunked"]
)
async def test_an_unknown_transfer_coding_is_a_bad_request(coding):
    async with edge() as server:
        raw = await server.ask(request(b"POST", b"/mcp", b"Transfer-Encoding: " + coding))
        assert response(raw).status == 400
        assert response(raw).error["code"] == "invalid"
        assert await server.is_alive()


@pytest.mark.spec("HTTP-7")
@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /m\x00cp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /m\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000 + b"\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"POST /mcp HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request_get_a_4xx_in_json_and_harm_nobody(raw):
    async with edge(linger_seconds=0.05) as server, await server.connect() as stream:
        await stream.send_all(raw)
        answer = response(await read_until(stream, b'"}}'), b"GET")
        assert 400 <= answer.status < 500
        assert answer.headers["content-type"] == "application/json"
        assert await server.is_alive()


@pytest.mark.spec("HTTP-7")
async def test_a_broken_chunk_behind_a_valid_token_is_a_bad_request():
    async with edge() as server:
        raw = request(b"POST", b"/mcp", b"Transfer-Encoding: chunked", body=b"5\r\nabcdeXX")
        assert response(await server.ask(raw)).status == 400
        assert server.inner.calls == []
        assert await server.is_alive()


async def sse(scope, receive, send, text='data: {"x":"é"}\n\n'):
    """As an SSE response does it: hearing of a hang-up cancels it, even in the middle of its own end."""
    await receive()
    async with trio.open_nursery() as nursery:

        async def hear():
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(hear)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        nursery.cancel_scope.cancel()


@pytest.mark.spec("CONN-4")
async def test_an_answered_event_stream_is_closed_when_the_client_asked_for_it():
    async with edge(Inner(sse)) as server:
        raw = await server.ask(request(close=True))  # returns only when the server closes
        assert response(raw).body == b'data: {"x":"\\u00e9"}\n\n'
        assert response(raw).closes


@pytest.mark.spec("CONN-4")
async def test_an_answered_event_stream_is_closed_when_it_has_been_idle_for_its_time():
    async with edge(Inner(sse), trusted_idle_seconds=0.05) as server:
        assert response(await server.ask(request())).status == 200


@pytest.mark.spec("CONN-4")
async def test_a_connection_serves_one_request_after_another():
    async with edge(Inner(sse)) as server, await server.connect() as stream:
        for _ in range(3):
            await stream.send_all(request())
            assert response(await read_until(stream, b"0\r\n\r\n")).status == 200
        await stream.send_eof()
        assert await read_to_end(stream) == b""


@pytest.mark.parametrize("behind", [b"\r\n", b"\r\n\r\n", b"junk", request()])
async def test_bytes_behind_a_last_request_neither_cut_its_answer_nor_are_served(behind):
    asked = trio.Event()

    async def answer_late(scope, receive, send):
        await receive()
        asked.set()
        await go_on.wait()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"late"})

    go_on = trio.Event()
    async with edge(Inner(answer_late)) as server, await server.connect() as stream:
        await stream.send_all(request(close=True) + behind)
        await asked.wait()
        await stream.send_all(behind)
        go_on.set()
        raw = await read_to_end(stream)
        assert response(raw).body == b"late"
        assert raw.count(b"HTTP/1.1") == 1
        assert len(server.inner.calls) == 1


async def test_a_client_on_a_slow_line_gets_a_long_answer_whole():
    """Each stretch of it within the deadline of one write, all of it not."""
    length = 24 * 1024 * 1024

    async def tell(scope, receive, send):
        await receive()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"x" * length})

    async with edge(Inner(tell), send_seconds=0.3) as server, await server.connect() as stream:
        await stream.send_all(request(close=True))
        received_bytes = 0
        while part := await stream.receive_some(256 * 1024):
            received_bytes += len(part)
            await trio.sleep(0.01)
        assert received_bytes > length


async def test_pipelined_requests_are_answered_in_order_each_with_its_own_agent():
    bodies = [b'{"n":%d}' % n for n in range(4)]

    async def tell(scope, receive, send):
        body = (await receive())["body"]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async with edge(Inner(tell)) as server:
        raw = await server.ask(
            b"".join(request(body=body) for body in bodies[:-1]) + request(body=bodies[-1], close=True)
        )
        assert [answer.body for answer in responses(raw, 4)] == bodies
        assert len(server.inner.calls) == 4


@pytest.mark.spec("CONN-6", "DOOR-10")
@pytest.mark.parametrize(
    "slow",
    [
        request(b"POST", b"/mcp", b"Content-Length: 50", body=b"{"),
        request(b"POST", b"/mcp", b"Transfer-Encoding: chunked", body=b"5\r\n{"),
        request(b"POST", b"/mcp", b"Content-Length: 50", b"Expect: 100-continue", body=b""),
    ],
)
async def test_a_body_that_does_not_come_in_time_is_cut_with_408(slow):
    async with edge(request_seconds=0.1) as server:
        raw = await server.ask(slow)
        raw = raw.removeprefix(b"HTTP/1.1 100 \r\n").partition(b"HTTP/1.1 4")
        answer = response(raw[1] + raw[2])
        assert (answer.status, answer.closes) == (408, True)
        assert server.inner.calls == []


@pytest.mark.spec("CONN-6")
async def test_the_time_of_a_request_runs_from_its_first_byte_however_steadily_it_drips():
    async with edge(request_seconds=0.2) as server, await server.connect() as stream:
        await stream.send_all(request(b"POST", b"/mcp", b"Content-Length: 100000", body=b"{"))
        answer = b""
        async with trio.open_nursery() as nursery:

            async def drip():
                while True:
                    await stream.send_all(b" ")
                    await trio.sleep(0.01)

            nursery.start_soon(drip)
            answer = await read_until(stream, b'"}}')
            nursery.cancel_scope.cancel()
        assert response(answer).status == 408


@pytest.mark.parametrize("said", [b"", b"P", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_a_connection_that_sends_no_whole_head_is_closed(said):
    async with edge(unknown_idle_seconds=0.05) as server:
        assert await server.ask(said) == b""
        assert await server.is_alive()


async def test_a_known_connection_that_drips_its_next_head_is_closed_in_the_time_of_a_request():
    async with edge(request_seconds=0.1, trusted_idle_seconds=60) as server, await server.connect() as stream:
        await stream.send_all(request())
        await read_until(stream, b'{"ok":true}')
        await stream.send_all(b"POST /mcp HT")
        assert await read_to_end(stream) == b""


async def pour(send):
    """Answer without end."""
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})


async def test_a_call_may_take_longer_than_a_connection_may_be_silent():
    async def answer_late(scope, receive, send):
        await receive()
        with trio.move_on_after(0.2):
            assert (await receive())["type"] != "http.disconnect"
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"late"})

    limits = {"unknown_idle_seconds": 0.05, "trusted_idle_seconds": 0.05, "request_seconds": 0.05}
    async with edge(Inner(answer_late), **limits) as server:
        assert response(await server.ask(request())).body == b"late"


@pytest.mark.spec("CONN-5")
async def test_a_client_that_stops_reading_is_cut_and_holds_up_nobody():
    cut = trio.Event()

    async def flood(scope, receive, send):
        await receive()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pour, send)
            assert (await receive())["type"] == "http.disconnect"
            nursery.cancel_scope.cancel()
        cut.set()

    async with edge(Inner(flood), send_seconds=0.1) as server, await server.connect() as stream:
        await stream.send_all(request())
        async with await server.connect() as other:
            await other.send_all(request(b"GET", b"/healthz"))
            assert response(await read_until(other, b"}")).status == 200
        await cut.wait()


@pytest.mark.spec("CONN-9", "HTTP-7")
async def test_a_fault_of_the_application_closes_its_connection_and_is_logged_without_what_it_was_about():
    async def fail(scope, receive, send):
        raise KeyError(f"the secret text in {await receive()}")

    with capture_logs() as logs:
        async with edge(Inner(fail)) as server:
            assert await server.ask(request(body=b'{"secret":1}')) == b""
            server.inner.script = None
            assert await server.is_alive()
    [line] = [line for line in logs if line["event"] == "request_failed"]
    assert line["error"] == "ExceptionGroup"
    assert "KeyError" in line["traceback"]
    assert "in fail" in line["traceback"]
    assert "secret" not in json.dumps({key: value for key, value in line.items() if key != "traceback"})
    assert '{"secret' not in line["traceback"]


@pytest.mark.spec("CONN-9")
async def test_a_fault_in_the_middle_of_an_answer_cuts_it_so_that_it_cannot_be_taken_for_whole():
    async def fail(scope, receive, send):
        await receive()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    with capture_logs():
        async with edge(Inner(fail)) as server:
            raw = await server.ask(request())
            assert b"half" in raw
            assert b"0\r\n\r\n" not in raw


async def test_a_client_that_goes_away_ends_its_waiting_call():
    gone = trio.Event()

    async def wait(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        gone.set()

    async with edge(Inner(wait)) as server:
        async with await server.connect() as stream:
            await stream.send_all(request())
            while not server.inner.calls:
                await trio.lowlevel.checkpoint()
        await gone.wait()


async def test_a_client_that_ends_its_side_after_a_whole_request_still_gets_a_ready_answer():
    async with edge() as server, await server.connect() as stream:
        await stream.send_all(request())
        await stream.send_eof()
        assert response(await read_to_end(stream)).status == 200


async def test_a_refused_body_in_many_small_pieces_blocks_nobody():
    """More pieces than Hypercorn's queue holds, refused unread: there both sides would wait for ever."""
    pieces = b"1\r\nx\r\n" * 5000
    async with edge() as server:
        raw = await server.ask(
            request(b"POST", b"/mcp", b"Transfer-Encoding: chunked", token=None, body=pieces)
        )
        assert response(raw).status == 401
        assert await server.is_alive()


async def test_a_refusal_reaches_a_client_that_is_still_sending_its_body():
    async with edge() as server, await server.connect() as stream:
        await stream.send_all(request(b"POST", b"/mcp", b"Content-Length: 900000", token=None, body=b""))
        head = await read_until(stream, b"\r\n\r\n")
        for _ in range(9):
            await stream.send_all(b"x" * 100_000)  # closing at once would answer this with a reset
        assert response(head + await read_to_end(stream)).status == 401


@pytest.mark.spec("CONN-10")
async def test_unknown_connections_from_one_address_are_at_most_a_quarter_and_others_are_let_in():
    async with edge(unknown_connections=8) as server:
        held = [await server.connect() for _ in range(2)]
        for stream in held:
            await stream.send_all(request(b"GET", b"/healthz"))
            await read_until(stream, b"}")
        with capture_logs():
            assert await server.ask(b"") == b""  # closed at once, not after unknown_idle_seconds
        other = await server.connect(bind="127.0.0.2")
        await other.send_all(request(b"GET", b"/healthz"))
        assert b"200" in await read_until(other, b"}")
        await held[0].aclose()
        await other.aclose()
        await held[1].send_all(request())  # a token frees its place among the unknown
        await read_until(held[1], b'{"ok":true}')
        for _ in range(2):
            held.append(await server.connect())
            await held[-1].send_all(request(b"GET", b"/healthz"))
            assert b"200" in await read_until(held[-1], b"}")
        for stream in held:
            await stream.aclose()


@pytest.mark.spec("CONN-10")
async def test_unknown_connections_are_capped_in_all():
    async with edge(unknown_connections=3) as server:
        held = []
        for n in (2, 3, 4):
            held.append(await server.connect(bind=f"127.0.0.{n}"))
            await held[-1].send_all(request(b"GET", b"/healthz"))
            await read_until(held[-1], b"}")
        with capture_logs() as logs:
            async with await server.connect(bind="127.0.0.5") as stream:
                assert await read_to_end(stream) == b""
        assert [line["event"] for line in logs] == ["connection_refused"]
        for stream in held:
            await stream.aclose()


@pytest.mark.spec("CONN-11")
async def test_connections_with_a_token_are_capped_too():
    async with edge(max_connections=2) as server:
        held = [await server.connect() for _ in range(2)]
        for stream in held:
            await stream.send_all(request())
            await read_until(stream, b'{"ok":true}')
        assert await server.ask(request()) == b""
        assert len(server.inner.calls) == 2
        await held[0].aclose()
        while not await server.ask(request(close=True)):
            await trio.lowlevel.checkpoint()
        await held[1].aclose()

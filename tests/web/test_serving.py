"""How the server starts and stops."""

import errno
import resource

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from web_edge import (
    LEADER,
    OTHER_TOKEN,
    TOKEN,
    TOKENS,
    WORKER,
    Inner,
    edge,
    read_to_end,
    read_until,
    request,
    response,
    responses,
)

from roundtable.web.limits import SPARE_FILES, WebLimits
from roundtable.web.listeners import Listener
from roundtable.web.openfiles import fit_open_files, shrink
from roundtable.web.serving import serving
from roundtable.web.tokens import TokenTable, digest

STOP_SECONDS = 4


class Waiting:
    """An application that waits until the server stops, as a waiting tool does, or for ever."""

    def __init__(self, *, obedient=True):
        self.stopping = trio.Event()
        self.arrived = trio.Event()
        self.obedient = obedient

    async def __call__(self, scope, receive, send):
        self.arrived.set()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if self.obedient:
            await self.stopping.wait()
        else:
            await trio.sleep_forever()
        await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": False})


def listener(**changes):
    return Listener(**{"host": "127.0.0.1", "port": 0, "tokens": TokenTable(TOKENS)} | changes)


async def connect(url):
    host, _, port = url.partition("://")[2].rpartition(":")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))


@pytest.mark.spec("STOP-1")
async def test_a_stop_lets_waiting_calls_end_with_their_answer():
    app = Waiting()
    with trio.fail_after(STOP_SECONDS):
        async with serving(app, [listener()], WebLimits()) as server:
            stream = await connect(server.urls[0])
            await stream.send_all(request())
            await app.arrived.wait()
    answer = response(await read_to_end(stream))
    assert (answer.status, answer.body) == (200, b"data: {}\n\n")
    await stream.aclose()


@pytest.mark.spec("STOP-1", "CONN-5")
async def test_a_stop_ends_in_time_whatever_its_clients_do():
    """All at once: silence, half a head, half a body, an unread answer, and calls that never end."""
    app = Waiting(obedient=False)
    unread = trio.Event()

    async def flood(scope, receive, send):
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        unread.set()
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    async def route(scope, receive, send):
        if dict(scope["headers"]).get(b"x-flood"):
            await flood(scope, receive, send)
        else:
            await app(scope, receive, send)

    streams = []
    with capture_logs() as logs, trio.fail_after(STOP_SECONDS):
        async with edge(Inner(route)) as server:
            for raw in (
                b"",
                b"POST /mcp HTTP/1.1\r\nHost",
                request(b"POST", b"/mcp", b"Content-Length: 50", body=b"{"),
                request(b"POST", b"/mcp", b"X-Flood: 1"),
                request(),
                request() + request(),
            ):
                streams.append(await server.connect())
                await streams[-1].send_all(raw)
            await unread.wait()
            await app.arrived.wait()
            served = await server.connect()
            await served.send_all(request(b"GET", b"/healthz"))
            await read_until(served, b"}")
            streams.append(served)
    assert [line["event"] for line in logs] == ["connections_cut"]
    for stream in streams:
        await stream.aclose()


async def pour(send):
    """Answer without end."""
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})


async def until_gone(receive, work, *args):
    """Work until the client has gone, as an event stream does."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, *args)
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()


@pytest.mark.spec("STOP-1", "CONN-5")
@pytest.mark.parametrize("poured_first", [True, False])
async def test_a_stop_shortens_the_time_of_a_client_that_reads_nothing(poured_first):
    begun = trio.Event()

    async def answer(scope, receive, send):
        begun.set()
        if not poured_first:
            await server.doors.stopping.wait()
        await until_gone(receive, pour, send)

    limits = {"send_seconds": 60, "stop_send_seconds": 0.05, "stop_seconds": 60}
    async with edge(Inner(answer), **limits) as server:
        stream = await server.connect()
        await stream.send_all(request())
        await begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
    await stream.aclose()


@pytest.mark.spec("STOP-1", "CONN-5")
async def test_at_the_end_of_its_time_a_stop_cuts_a_write_that_waits():
    begun = trio.Event()

    async def answer(scope, receive, send):
        begun.set()
        await pour(send)

    limits = {"send_seconds": 60, "stop_send_seconds": 60, "stop_seconds": 0.1}
    with capture_logs():
        async with edge(Inner(answer), **limits) as server:
            stream = await server.connect()
            await stream.send_all(request())
            await begun.wait()
            await trio.testing.wait_all_tasks_blocked(0.05)
    await stream.aclose()


@pytest.mark.spec("STOP-1")
async def test_a_stop_serves_no_request_that_waits_behind_another_one():
    app = Waiting()
    calls = []

    async def count(scope, receive, send):
        calls.append(scope)
        await app(scope, receive, send)

    async with edge(Inner(count)) as server:
        server.doors.stopping = app.stopping
        stream = await server.connect()
        await stream.send_all(request() + request())
        await app.arrived.wait()
    raw = await read_to_end(stream)
    assert response(raw).body == b"data: {}\n\n"
    assert (raw.count(b"HTTP/1.1"), len(calls)) == (1, 1)
    await stream.aclose()


@pytest.mark.spec("STOP-1")
async def test_a_request_whose_body_was_still_coming_is_answered_if_it_is_whole_in_time():
    """And its answer may then take longer than the body was given."""

    async def answer(scope, receive, send):
        await receive()
        with trio.move_on_after(0.6):
            assert await receive() is None, "hung up on"
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"done"})

    answers = []

    async def client(stream):
        await stopping.wait()
        await stream.send_all(b"x" * 9)
        answers.append(response(await read_to_end(stream)).body)
        await stream.aclose()

    async with trio.open_nursery() as nursery, edge(Inner(answer), stop_send_seconds=0.3) as server:
        stopping = server.doors.stopping
        stream = await server.connect()
        await stream.send_all(request(b"POST", b"/mcp", b"Content-Length: 10", body=b"x"))
        nursery.start_soon(client, stream)
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert answers == [b"done"]


async def test_a_stop_takes_no_more_connections():
    async with edge() as server:
        port = server.port
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


async def test_an_idle_connection_does_not_delay_a_stop():
    with trio.fail_after(1):
        async with edge() as server:
            stream = await server.connect()
            await stream.send_all(request())
            await read_until(stream, b'{"ok":true}')
    assert await read_to_end(stream) == b""
    await stream.aclose()


async def test_an_error_of_the_body_comes_out_as_itself():
    with pytest.raises(KeyError):
        async with serving(Waiting(), [listener()], WebLimits()):
            raise KeyError


async def test_a_fault_of_the_server_itself_is_not_swallowed():
    class Unstoppable(Waiting):
        def __init__(self):
            self.stopping = None

    with pytest.RaisesGroup(AttributeError):
        async with serving(Unstoppable(), [listener()], WebLimits()):
            pass


async def test_cancelled_from_outside_it_ends_at_once_and_cleanly():
    app = Waiting(obedient=False)
    with trio.fail_after(1), trio.CancelScope() as outside:
        async with serving(app, [listener()], WebLimits()) as server:
            stream = await connect(server.urls[0])
            await stream.send_all(request())
            await app.arrived.wait()
            outside.cancel()
            await trio.sleep_forever()
    assert outside.cancelled_caught
    await read_to_end(stream)
    await stream.aclose()


async def test_an_error_wins_over_a_cancellation_that_comes_while_stopping():
    app = Waiting(obedient=False)
    streams = []

    async def fail():
        async with serving(app, [listener()], WebLimits(stop_seconds=60)) as server:
            streams.append(await connect(server.urls[0]))
            await streams[0].send_all(request())
            await app.arrived.wait()
            outside.deadline = trio.current_time() + 0.05
            raise KeyError

    with pytest.raises(KeyError), trio.fail_after(2), trio.CancelScope() as outside:
        await fail()
    await streams[0].aclose()


async def test_a_port_that_is_taken_is_an_error_in_words_and_nothing_stays_open():
    async with edge() as server:
        first = trio.socket.socket()
        await first.bind(("127.0.0.1", 0))
        free = first.getsockname()[1]
        first.close()
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {server.port}") as caught:
            async with serving(Waiting(), [listener(port=free), listener(port=server.port)], WebLimits()):
                pass
        assert caught.value.errno == errno.EADDRINUSE
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", free)


async def test_an_address_that_does_not_exist_is_an_error_in_words():
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid port 0"):
        async with serving(Waiting(), [listener(host="no.such.host.invalid")], WebLimits()):
            pass


async def test_ipv6_stands_in_brackets():
    async with edge(listeners=[listener(host="::1")]) as server:
        assert server.urls[0].startswith("http://[::1]:")
        async with await connect(server.urls[0]) as stream:
            await stream.send_all(request(host=b"[::1]", close=True))
            assert response(await read_to_end(stream)).status == 200


@pytest.mark.spec("HTTP-12")
async def test_each_listener_takes_its_own_tokens_only():
    public = listener(tokens=TokenTable({digest(TOKEN): WORKER}))
    pool = listener(tokens=TokenTable({digest(OTHER_TOKEN): LEADER}))
    async with edge(listeners=[public, pool]) as server:
        found = []
        for url in server.urls:
            for token in (TOKEN, OTHER_TOKEN):
                async with await connect(url) as stream:
                    await stream.send_all(request(token=token, close=True))
                    found.append(response(await read_to_end(stream)).status)
        assert found == [200, 401, 401, 200]


async def test_replaced_tokens_count_from_the_next_request_on():
    tokens = TokenTable(TOKENS)
    async with edge(listeners=[listener(tokens=tokens)]) as server, await server.connect() as stream:
        await stream.send_all(request())
        await read_until(stream, b'{"ok":true}')
        tokens.replace({digest(OTHER_TOKEN): LEADER})
        await stream.send_all(request())
        assert response(await read_until(stream, b'"}}')).status == 401


@pytest.mark.spec("CONN-12")
def test_the_soft_limit_of_open_files_is_raised_to_fit_the_caps():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = WebLimits(unknown_connections=20, max_connections=180)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (SPARE_FILES, hard))
        assert fit_open_files(limits, 2) == limits
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == SPARE_FILES + 2 * 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.spec("CONN-12")
def test_caps_over_the_hard_limit_of_open_files_are_lowered_and_the_log_says_so():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with capture_logs() as logs:
            fitted = fit_open_files(WebLimits(unknown_connections=hard, max_connections=3 * hard), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fitted.unknown_connections + fitted.max_connections == hard - SPARE_FILES
    assert [line["event"] for line in logs] == ["connection_caps_lowered"]


def test_caps_shrink_in_proportion_and_let_at_least_one_in():
    assert shrink(WebLimits(), 2000) == WebLimits()
    small = shrink(WebLimits(unknown_connections=100, max_connections=300), 40)
    assert (small.unknown_connections, small.max_connections) == (10, 30)
    least = shrink(WebLimits(), -5)
    assert (least.unknown_connections, least.max_connections) == (1, 1)


async def test_many_requests_go_over_one_connection():
    async with edge(rate_limit_per_minute=0) as server:
        raw = await server.ask(request() * 1100 + request(close=True))
        assert len(responses(raw[-20000:][raw[-20000:].index(b"HTTP/1.1") :], 3)) == 3
        assert raw.count(b"HTTP/1.1 200") == 1101

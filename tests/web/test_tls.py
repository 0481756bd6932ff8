"""The server under TLS."""

import ssl

import pytest
import trio
import trustme
from web_edge import TOKENS, edge, read_to_end, read_until, request, response

from roundtable.web.limits import WebLimits
from roundtable.web.listeners import Listener
from roundtable.web.serving import serving
from roundtable.web.tokens import TokenTable


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def secure(authority, tmp_path):
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certfile, keyfile = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(certfile)
    certificate.private_key_pem.write_to_path(keyfile)
    return Listener("127.0.0.1", 0, TokenTable(TOKENS), certfile, keyfile)


async def connect(server, authority, protocols=("http/1.1",)):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(list(protocols))
    stream = trio.SSLStream(
        await server.connect(), context, server_hostname="127.0.0.1", https_compatible=True
    )
    await stream.do_handshake()
    return stream


@pytest.mark.spec("HTTP-11")
async def test_a_request_under_tls_is_served(secure, authority):
    async with edge(listeners=[secure]) as server:
        assert server.urls[0].startswith("https://127.0.0.1:")
        async with await connect(server, authority) as stream:
            await stream.send_all(request(close=True))
            assert response(await read_to_end(stream)).status == 200


@pytest.mark.spec("CONN-2")
@pytest.mark.parametrize("offered", [("h2", "http/1.1"), ("h2",)])
async def test_http2_is_not_agreed_on_and_its_frames_are_refused(secure, authority, offered):
    async with edge(listeners=[secure]) as server:
        async with await connect(server, authority, offered) as stream:
            assert stream.selected_alpn_protocol() == ("http/1.1" if len(offered) == 2 else None)
            await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            assert response(await read_to_end(stream)).status == 400
        async with await connect(server, authority) as stream:
            await stream.send_all(request(close=True))
            assert response(await read_to_end(stream)).status == 200


async def test_a_refusal_under_tls_reaches_a_client_that_is_still_sending(secure, authority):
    async with edge(listeners=[secure]) as server, await connect(server, authority) as stream:
        await stream.send_all(request(b"POST", b"/mcp", b"Content-Length: 90000", token=None, body=b""))
        head = await read_until(stream, b'"}}')
        await stream.send_all(b"x" * 90_000)
        assert response(head).status == 401


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_a_handshake_that_comes_to_nothing_is_cut(secure, authority, said):
    async with edge(listeners=[secure], handshake_seconds=0.05) as server:
        async with await server.connect() as stream:
            await stream.send_all(said)
            await read_to_end(stream)
        async with await connect(server, authority) as stream:
            await stream.send_all(request(close=True))
            assert response(await read_to_end(stream)).status == 200


async def test_a_handshake_under_way_and_idle_sessions_do_not_delay_a_stop(secure, authority):
    with trio.fail_after(1):
        async with edge(listeners=[secure]) as server:
            half = await server.connect()
            await half.send_all(b"\x16\x03\x01")
            idle = await connect(server, authority)
            await idle.send_all(request())
            await read_until(idle, b'{"ok":true}')
    for stream in (half, idle):
        await trio.aclose_forcefully(stream)


@pytest.mark.spec("CONN-5")
async def test_a_tls_client_that_stops_reading_does_not_hold_a_stop(secure, authority):
    started = trio.Event()

    async def flood(scope, receive, send):
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        started.set()
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    with trio.fail_after(4):
        async with edge(listeners=[secure], stop_seconds=0.2) as server:
            server.inner.script = flood
            stream = await connect(server, authority)
            await stream.send_all(request())
            await started.wait()
    await trio.aclose_forcefully(stream)


async def test_unusable_tls_files_are_an_error_that_names_both_settings(secure, tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for certfile, keyfile in ((broken, secure.keyfile), (secure.certfile, tmp_path / "missing")):
        listener = Listener("127.0.0.1", 0, secure.tokens, certfile, keyfile)
        with pytest.raises(OSError, match=r"ROUNDTABLE_TLS_CERT.*ROUNDTABLE_TLS_KEY"):
            async with serving(None, [listener], WebLimits()):
                pass


def test_one_tls_file_without_the_other_is_refused(secure):
    with pytest.raises(ValueError, match="both"):
        Listener("127.0.0.1", 0, secure.tokens, secure.certfile, None)

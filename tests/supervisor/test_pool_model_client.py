"""One model call over a real socket, at an endpoint that misbehaves."""

from __future__ import annotations

import gzip
import json
from functools import partial

import pytest
import trio
from pydantic import SecretStr
from scripted_endpoint import Endpoint, Request, Script, answers, completion, open_endpoint, response

from supervisor.config.roster import Worker
from supervisor.model.client import open_model
from supervisor.model.prompt import Brief, compose
from supervisor.model.usage import NO_USAGE, Usage
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import ANSWER_BYTES

KEY = "sk-very-secret-0123456789"
MESSAGES = compose(Brief(1, "Count to three"), mark="m4rk")


async def ask(endpoint: Endpoint, key: str | None = KEY, **fields: object) -> str:
    worker = Worker(name="w", model="small", base_url=endpoint.url, **{"timeout_seconds": 20.0, **fields})
    with trio.fail_after(30):
        async with open_model(worker, None if key is None else SecretStr(key)) as model:
            return (await model.ask(MESSAGES, model=worker.model)).text


async def failure_at(script: Script, **fields: object) -> ModelCallError:
    async with open_endpoint(script) as endpoint:
        with pytest.raises(ModelCallError) as caught:
            await ask(endpoint, **fields)
    assert len(endpoint.requests) <= 1
    return caught.value


@pytest.mark.spec("POOL-9", "MODEL-3", "MODEL-6")
async def test_a_call_is_one_request_with_the_model_the_messages_and_no_tools():
    async with open_endpoint(answers(response(200, completion("1 2 3")))) as endpoint:
        assert await ask(endpoint) == "1 2 3"
    (request,) = endpoint.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.json == {"model": "small", "messages": MESSAGES}
    assert request.header("authorization") == [f"Bearer {KEY}"]


async def test_options_of_the_roster_are_sent():
    async with open_endpoint(answers(response(200, completion()))) as endpoint:
        await ask(endpoint, max_output_tokens=50, temperature=0.0)
    assert {"max_tokens": 50, "temperature": 0.0}.items() <= endpoint.requests[0].json.items()


async def test_without_a_key_no_authorization_is_sent():
    async with open_endpoint(answers(response(200, completion()))) as endpoint:
        await ask(endpoint, key=None)
    assert endpoint.requests[0].header("authorization") == []


async def test_no_variable_of_the_openai_package_changes_what_is_sent(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "leak")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: leak\nAuthorization: Bearer leak")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/leak")
    async with open_endpoint(answers(response(200, completion()))) as endpoint:
        await ask(endpoint)
    (request,) = endpoint.requests
    assert "leak" not in repr(request.headers)
    assert request.header("authorization") == [f"Bearer {KEY}"]


@pytest.mark.spec("MODEL-3")
async def test_no_proxy_variable_is_read(monkeypatch: pytest.MonkeyPatch):
    async with open_endpoint(answers(response(200, completion("from the proxy")))) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with open_endpoint(answers(response(200, completion("from the model")))) as endpoint:
            assert await ask(endpoint) == "from the model"
    assert proxy.requests == []


@pytest.mark.spec("MODEL-3")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int):
    async with open_endpoint(answers(response(200, completion("elsewhere")))) as elsewhere:
        failure = await failure_at(answers(response(status, location=f"{elsewhere.url}/chat/completions")))
    assert failure.kind in {FailureClass.CONFIG, FailureClass.REFUSED_REQUEST}
    assert elsewhere.requests == []


@pytest.mark.spec("MODEL-3")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504])
async def test_no_status_makes_the_client_try_again(status: int):
    script = answers(
        response(status, b"{}", retry_after="0", x_should_retry="true"), response(200, completion())
    )
    assert str(status) in (await failure_at(script)).detail


async def test_the_wait_that_an_endpoint_asks_for_comes_along():
    failure = await failure_at(answers(response(429, b'{"error": {"code": "rate_limit"}}', retry_after="17")))
    assert (failure.kind, failure.retry_after_seconds) == (FailureClass.RATE_LIMITED, 17.0)


async def test_the_error_object_of_the_body_tells_failures_apart():
    body = json.dumps({"error": {"message": "too big", "code": "context_length_exceeded"}}).encode()
    assert (await failure_at(answers(response(400, body)))).kind is FailureClass.CONTEXT_LENGTH


async def test_an_endpoint_that_is_not_there_is_the_network():
    with pytest.raises(ModelCallError) as caught:
        await ask(Endpoint(port=1))
    assert caught.value.kind is FailureClass.NETWORK


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00" * 1000,
        b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\nabc",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n",
        b"HTTP/1.1 200 X\r\n" + b"x: " + b"a" * 300_000 + b"\r\n\r\n",
    ],
)
async def test_a_connection_that_breaks_or_speaks_no_http_is_the_network(data: bytes):
    async def script(request: Request, stream: trio.SocketStream) -> None:
        await stream.send_all(data)
        await stream.send_eof()
        await stream.aclose()

    assert (await failure_at(script)).kind is FailureClass.NETWORK


@pytest.mark.spec("MODEL-4")
async def test_an_endpoint_that_never_answers_is_left_at_the_deadline():
    failure = await failure_at(never_answers, timeout_seconds=0.2)
    assert (failure.kind, failure.detail) == (FailureClass.TIMEOUT, "no complete answer within 0.2 s")


@pytest.mark.spec("MODEL-4")
@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 X\r\ncontent-length: 100000\r\n\r\n"])
async def test_a_slow_drip_does_not_extend_the_deadline(start: bytes):
    async def script(request: Request, stream: trio.SocketStream) -> None:
        await stream.send_all(start or b"HTTP/1.1 200 X\r\nx: ")
        while True:
            await stream.send_all(b"a")
            await trio.sleep(0.01)

    assert (await failure_at(script, timeout_seconds=0.3)).kind is FailureClass.TIMEOUT


def sends_and_closes(data: bytes) -> Script:
    async def script(request: Request, stream: trio.SocketStream) -> None:
        await stream.send_all(data)
        await stream.aclose()

    return script


async def never_answers(request: Request, stream: trio.SocketStream) -> None:
    await stream.receive_some()


HEAD = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n"


@pytest.mark.spec("POOL-30")
@pytest.mark.parametrize(
    "script",
    [
        never_answers,
        sends_and_closes(HEAD + b'{"choices"'),
        sends_and_closes(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        answers(response(200, b"x" * (ANSWER_BYTES + 1))),
        answers(response(200, gzip.compress(completion()), content_encoding="gzip")),
        answers(response(200, b"data: {}", content_type="text/event-stream")),
        answers(response(200, completion(5))),
    ],
)
async def test_of_an_answer_that_was_lost_nobody_knows_what_it_took(script: Script):
    assert (await failure_at(script, timeout_seconds=0.3)).usage is None


@pytest.mark.spec("POOL-30")
@pytest.mark.parametrize(
    "script",
    [
        sends_and_closes(b""),
        sends_and_closes(HEAD[:20]),
        answers(response(429, b"{}")),
        answers(response(500, b"x" * (ANSWER_BYTES + 1))),
        sends_and_closes(b"HTTP/1.1 503 X\r\ncontent-length: 100\r\n\r\n{"),
    ],
)
async def test_a_call_that_brought_no_answer_at_all_has_taken_nothing(script: Script):
    assert (await failure_at(script)).usage is NO_USAGE


@pytest.mark.spec("POOL-30")
async def test_an_answer_that_cannot_be_read_has_taken_what_it_says():
    body = b'{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}'
    failure = await failure_at(answers(response(200, body)))
    assert failure.usage == Usage(7, 9, is_estimated=False)


@pytest.mark.spec("MODEL-5")
@pytest.mark.parametrize(
    "head", [b"content-length: 30000000", b"connection: close", b"transfer-encoding: chunked"]
)
@pytest.mark.parametrize("status", [200, 500])
async def test_thirty_megabytes_are_not_read(head: bytes, status: int):
    sent = 0
    chunk = b"x" * 65_536

    async def script(request: Request, stream: trio.SocketStream) -> None:
        nonlocal sent
        await stream.send_all(b"HTTP/1.1 %d X\r\n%s\r\n\r\n" % (status, head))
        while sent < 30_000_000:
            await stream.send_all(b"%x\r\n%s\r\n" % (len(chunk), chunk) if b"chunked" in head else chunk)
            sent += len(chunk)

    async with open_endpoint(script) as endpoint:
        with pytest.raises(ModelCallError) as caught:
            await ask(endpoint)
        with trio.fail_after(10):
            await endpoint.cut_off.wait()
    assert caught.value.kind is FailureClass.CONTENT
    assert caught.value.detail == f"the answer is over {ANSWER_BYTES} bytes"


@pytest.mark.spec("MODEL-5")
async def test_a_compressed_answer_that_would_unfold_to_any_size_is_not_unfolded():
    bomb = gzip.compress(completion("x" * 10_000_000))
    failure = await failure_at(answers(response(200, bomb, content_encoding="gzip")))
    assert (failure.kind, failure.detail) == (
        FailureClass.CONTENT,
        "the answer is compressed, which was not asked for",
    )


@pytest.mark.spec("POOL-10")
@pytest.mark.parametrize(
    "data",
    [
        response(200),
        response("204"),
        response(200, b"<html>busy</html>", content_type="text/html"),
        response(200, b'data: {"choices": []}\n\ndata: [DONE]\n\n', content_type="text/event-stream"),
        response(200, b'{"error": {"message": "busy"}}'),
        response(200, b"\xff\xfe", content_type="application/json; charset=utf-99"),
        response(200, b"[" * 200_000),
    ],
)
async def test_an_answer_that_is_no_completion_is_a_failure(data: bytes):
    failure = await failure_at(answers(data))
    assert (failure.kind, failure.detail) == (FailureClass.CONTENT, "the body is no valid completion")


async def test_a_key_that_the_endpoint_echoes_is_nowhere_in_the_failure():
    body = json.dumps(
        {"error": {"message": f"Incorrect API key provided: {KEY}", "code": KEY, "type": KEY}}
    ).encode()
    failure = await failure_at(answers(response(401, body, www_authenticate=KEY, retry_after=KEY)))
    assert failure.kind is FailureClass.AUTH
    assert failure.__cause__ is None
    assert failure.__suppress_context__
    assert KEY not in f"{failure!r} {failure} {vars(failure)}"


async def test_a_call_that_is_cancelled_leaves_at_once_and_the_next_one_works():
    asked = trio.Event()

    async def script(request: Request, stream: trio.SocketStream) -> None:
        if not asked.is_set():
            asked.set()
            while True:
                await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                await trio.sleep(0.01)
        await stream.send_all(response(200, completion("second")))

    async with open_endpoint(script) as endpoint:
        worker = Worker(name="w", model="small", base_url=endpoint.url)
        with trio.fail_after(30):
            async with open_model(worker, None) as model:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(model.ask, MESSAGES, model="small"))
                    await asked.wait()
                    nursery.cancel_scope.cancel()
                await endpoint.cut_off.wait()
                assert (await model.ask(MESSAGES, model="small")).text == "second"

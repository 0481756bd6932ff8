"""A worker at an endpoint that misbehaves in every way we could think of, over real sockets.

For each: the task ends as the table of failures says, every request was counted, nothing that the endpoint or the task
said stands in a log or on the board, and the worker goes on. The clock stands still but for the jumps made here.
"""

from __future__ import annotations

import gzip
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from functools import partial

import pytest
import structlog
import trio
from fake_board import CHANCE, FakeBoard
from pydantic import SecretStr
from scripted_endpoint import Request, Script, completion, open_endpoint, response

from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import open_ledger
from supervisor.memory.record import WorkerRecord
from supervisor.model.client import open_model
from supervisor.model.endpoint import Endpoint
from supervisor.nursery.stop import Stop
from supervisor.rules.failures import FailureClass
from supervisor.rules.policy import CONSEQUENCES, Move
from supervisor.work.context import WorkerContext
from supervisor.work.worker import Connections, WorkerLoop

KEY = "sk-very-secret-0123456789"
CANARY = "quagmire-zephyr"
"""What a hostile endpoint says; it must stand nowhere afterwards."""
PATIENCE_SECONDS = 30.0
TIMEOUT_SECONDS = 100.0
Jump = Callable[[float], None]
Behaviour = Callable[[Request, trio.SocketStream, Jump], Awaitable[None]]


def sends(data: bytes) -> Behaviour:
    async def behave(request: Request, stream: trio.SocketStream, jump: Jump) -> None:
        await stream.send_all(data)

    return behave


def hangs_up(data: bytes = b"") -> Behaviour:
    async def behave(request: Request, stream: trio.SocketStream, jump: Jump) -> None:
        await stream.send_all(data)
        await stream.send_eof()
        await stream.aclose()

    return behave


def hangs(data: bytes = b"") -> Behaviour:
    async def behave(request: Request, stream: trio.SocketStream, jump: Jump) -> None:
        await stream.send_all(data)
        jump(TIMEOUT_SECONDS)
        await stream.receive_some()

    return behave


def drips(head: bytes) -> Behaviour:
    """A byte now and then, each just in time if every byte had its own deadline."""

    async def behave(request: Request, stream: trio.SocketStream, jump: Jump) -> None:
        await stream.send_all(head)
        for _ in range(10):
            await stream.send_all(b"a")
            jump(TIMEOUT_SECONDS / 4)
        await stream.receive_some()

    return behave


async def floods(request: Request, stream: trio.SocketStream, jump: Jump) -> None:
    await stream.send_all(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n")
    for _ in range(480):
        await stream.send_all(b"x" * 65_536)


def error(status: int | str, code: object = CANARY, **headers: str) -> bytes:
    fields = {"message": f"{CANARY} {KEY}", "type": CANARY, "param": KEY, "code": code}
    return response(status, json.dumps({"error": fields}).encode(), **headers)


def says(content: object, finish: str = "stop", **message: object) -> bytes:
    return response(200, completion(content, finish, **message))


TOOL_CALL = [{"id": "1", "type": "function", "function": {"name": CANARY, "arguments": "{}"}}]
BEHAVIOURS: dict[str, tuple[Behaviour, str]] = {
    "400": (sends(error(400)), "content"),
    "400 of the model": (sends(error(400, "model_not_found")), "config"),
    "400 of the context": (sends(error(400, "context_length_exceeded")), "context_length"),
    "400 of a filter": (sends(error(400, "content_filter")), "content"),
    "400 without a body": (sends(response(400)), "content"),
    "401": (sends(error(401, www_authenticate=KEY)), "auth"),
    "402": (sends(error(402)), "quota"),
    "403": (sends(error(403)), "auth"),
    "403 in HTML": (sends(response(403, f"<h1>{CANARY}</h1>".encode(), content_type="text/html")), "content"),
    "404": (sends(error(404)), "content"),
    "404 of the address": (sends(response(404, b"404 page not found")), "config"),
    "405": (sends(error(405)), "content"),
    "408": (sends(error(408)), "timeout"),
    "409": (sends(error(409)), "server"),
    "413": (sends(error(413)), "context_length"),
    "418": (sends(error(418)), "content"),
    "422": (sends(error(422)), "content"),
    "425": (sends(error(425)), "server"),
    "429": (sends(error(429)), "rate_limited"),
    "429 in seconds": (sends(error(429, retry_after="7")), "rate_limited"),
    "429 until a date": (
        sends(error(429, retry_after="Fri, 29 Nov 2999 12:00:00 GMT")),
        "rate_limited",
    ),
    "429 absurd": (sends(error(429, retry_after="9" * 40)), "rate_limited"),
    "429 negative": (sends(error(429, retry_after="-60")), "rate_limited"),
    "429 in words": (sends(error(429, retry_after=CANARY)), "rate_limited"),
    "429 of the quota": (sends(error(429, "insufficient_quota")), "quota"),
    "500": (sends(error(500)), "server"),
    "502 in HTML": (sends(response(502, f"<h1>{CANARY}</h1>".encode(), content_type="text/html")), "server"),
    "503 with a wait": (sends(error(503, retry_after="20")), "server"),
    "504": (sends(error(504)), "timeout"),
    "529": (sends(error(529)), "server"),
    "a status that is none": (sends(error(999)), "server"),
    "redirect": (sends(response(301, location=f"http://127.0.0.1:1/{CANARY}")), "config"),
    "redirect of a POST": (sends(response(307, location="/elsewhere")), "content"),
    "hangs before": (hangs(), "timeout"),
    "hangs between": (hangs(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n"), "timeout"),
    "hangs during": (hangs(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{"), "timeout"),
    "drips its head": (drips(b"HTTP/1.1 200 X\r\nx: "), "timeout"),
    "drips its body": (drips(b"HTTP/1.1 200 X\r\ncontent-length: 1000\r\n\r\n"), "timeout"),
    "thirty megabytes": (floods, "content"),
    "compressed": (
        sends(response(200, gzip.compress(completion("x" * 10**6)), content_encoding="gzip")),
        "content",
    ),
    "HTML": (sends(response(200, f"<p>{CANARY}".encode(), content_type="text/html")), "content"),
    "server-sent events": (
        sends(response(200, b'data: {"choices": []}\n\n', content_type="text/event-stream")),
        "content",
    ),
    "no body": (sends(response(200)), "content"),
    "204": (sends(response(204)), "content"),
    "broken JSON": (sends(response(200, completion(CANARY)[:-3])), "content"),
    "deep JSON": (sends(response(200, b"[" * 100_000)), "content"),
    "a long number": (sends(response(200, b'{"choices": ' + b"9" * 10_000 + b"}")), "content"),
    "an error with 200": (sends(error(200)), "content"),
    "no choices": (sends(response(200, b'{"choices": []}')), "content"),
    "null choices": (sends(response(200, b'{"choices": null}')), "content"),
    "a choice that is none": (sends(response(200, b'{"choices": [7]}')), "content"),
    "null message": (sends(response(200, b'{"choices": [{"message": null}]}')), "content"),
    "null content": (sends(says(None)), "content"),
    "a tool call": (sends(says(None, "tool_calls", tool_calls=TOOL_CALL)), "content"),
    "a refusal": (sends(says(CANARY, refusal=CANARY)), "content"),
    "filtered": (sends(says(CANARY, "content_filter")), "content"),
    "reasoning only": (sends(says(None, reasoning_content=CANARY)), "content"),
    "thinking only": (sends(says(f"<think>{CANARY}</think>")), "content"),
    "an open thought": (sends(says(f"<reasoning>{CANARY}. So: {CANARY}")), "content"),
    "a thought whose tag the prompt held": (sends(says(f"{CANARY}\n</think>\n")), "content"),
    "analysis only": (sends(says(f"<|channel|>analysis<|message|>{CANARY}<|end|>")), "content"),
    "cut off by length": (sends(says(CANARY, "length")), "content"),
    "over the limit": (sends(says(f"{CANARY:x<20001}")), "content"),
    "invisible": (sends(says("\u200b\u2060\n\u3164")), "content"),
    "surrogates": (sends(says(f"{CANARY}\ud800")), "content"),
    "NUL": (sends(says(f"{CANARY}\x00")), "content"),
    "ANSI": (sends(says(f"\x1b[31m{CANARY}")), "content"),
    "closed at once": (hangs_up(), "network"),
    "closed in the head": (hangs_up(b"HTTP/1.1 200 X\r\ncontent-le"), "network"),
    "closed in the body": (hangs_up(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{"), "network"),
    "no HTTP": (hangs_up(b"SSH-2.0-OpenSSH_9.6\r\n"), "network"),
    "a broken chunk": (hangs_up(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), "network"),
    "a huge head": (hangs_up(b"HTTP/1.1 200 X\r\nx: " + b"a" * 300_000), "network"),
}


def test_there_are_at_least_35_of_them():
    assert len(BEHAVIOURS) >= 35


def misbehaving_once(behaviour: Behaviour, jump: Jump) -> Script:
    is_first = True

    async def script(request: Request, stream: trio.SocketStream) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            await behaviour(request, stream, jump)
        else:
            await stream.send_all(response(200, completion("fine")))

    return script


@contextmanager
def bounded():
    """Fails what waits for ever. A deadline would not: the clock of these tests stands still while they use real sockets."""
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:
        alarm = threading.Timer(PATIENCE_SECONDS, token.run_sync_soon, [scope.cancel])
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()
    assert not scope.cancelled_caught, "nothing more happened"


async def until(board: FakeBoard, holds: Callable[[], object]) -> None:
    while not holds():
        await board.changed()


@pytest.mark.spec("MODEL-3", "MODEL-4", "MODEL-5", "POOL-10", "POOL-14", "POOL-19")
@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_the_task_ends_as_the_table_says_and_the_worker_goes_on(mock_clock, caplog, name: str):
    behaviour, expected = BEHAVIOURS[name]
    kind = FailureClass(expected)
    board = FakeBoard(tasks=1)
    record = WorkerRecord()
    with bounded(), caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as logs:
        async with open_endpoint(misbehaving_once(behaviour, mock_clock.jump)) as endpoint:
            worker = Worker("w", "m", endpoint.url, timeout_seconds=TIMEOUT_SECONDS)
            clock = DayClock()
            with open_ledger(None, clock.now()) as ledger:
                context = WorkerContext(
                    worker, record, Stop(), CHANCE, Endpoint(worker.base_url), ledger, clock
                )
                model = partial(open_model, worker, SecretStr(KEY))
                loop = WorkerLoop(context, Connections(lambda: board.connect("w"), model), 1.0)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(loop.run)
                    # one way or the other: more requests than were counted would bring the endpoint's good answer
                    await until(
                        board, lambda: board.tasks[1].releases or board.tasks[1].status == "submitted"
                    )
                    assert board.tasks[1].releases
                    assert len(endpoint.requests) == 1
                    if CONSEQUENCES[kind].move is not Move.PARK:
                        board.add()
                        mock_clock.jump(1_000.0)
                        await until(
                            board, lambda: board.tasks[2].status == "submitted" or board.tasks[2].releases
                        )
                        assert board.tasks[2].status == "submitted"
                    context.stop.request()
                assert ledger.spent("w", clock.now()).calls == len(endpoint.requests)
    (release, *_) = board.tasks[1].releases
    assert release[0].startswith(f"{kind}: ")
    assert release[1] is CONSEQUENCES[kind].counts
    assert (record.parked is not None) == (CONSEQUENCES[kind].move is Move.PARK)
    said = repr((logs, caplog.text, board.tasks, record))
    assert CANARY not in said
    assert KEY not in said

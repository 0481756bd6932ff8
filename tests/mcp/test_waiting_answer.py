"""The answer to a call that may wait: what its client hears meanwhile, and what becomes of the call when it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from roundtable.tools.waiting_answer import SILENCE_SECONDS, send_when_decided

MESSAGE = b'{"id":7}'
EVENT = b'event: message\r\ndata: {"id":7}\r\n\r\n'
PING = b": ping\r\n\r\n"


class Client:
    """Sends its request, then what is said here, and goes after so many seconds. What it hears is kept with its second."""

    def __init__(self, *more: dict[str, Any], goes_after: float = float("inf")) -> None:
        self.began = trio.current_time()
        self.heard: list[tuple[float, bytes]] = []
        self.sees_end = False
        self._said = [{"type": "http.request", "body": b"{}", "more_body": False}, *more]
        self._goes_at = self.began + goes_after

    async def receive(self) -> dict[str, Any]:
        if self._said:
            return self._said.pop(0)
        await trio.sleep_until(self._goes_at)
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            what = dict(message["headers"])[b"content-type"]
        else:
            what = message["body"]
            self.sees_end = not message["more_body"]
        self.heard.append((trio.current_time() - self.began, what))


def after(seconds: float) -> Callable[[], Awaitable[bytes]]:
    async def decide() -> bytes:
        await trio.sleep(seconds)
        return MESSAGE

    return decide


async def run(client: Client, seconds: float, *, streams_at_once: bool) -> list[tuple[float, bytes]]:
    await send_when_decided(after(seconds), client.receive, client.send, streams_at_once=streams_at_once)
    return client.heard


JSON, STREAM = b"application/json", b"text/event-stream"


@pytest.mark.spec("HTTP-14")
@pytest.mark.parametrize(
    ("streams_at_once", "seconds", "heard"),
    [
        (False, 0, [(0, JSON), (0, MESSAGE)]),
        (False, 14, [(14, JSON), (14, MESSAGE)]),
        (False, 16, [(15, STREAM), (15, PING), (16, EVENT)]),
        (True, 0, [(0, STREAM), (0, EVENT)]),
        (True, 14, [(0, STREAM), (14, EVENT)]),
        (True, 31, [(0, STREAM), (15, PING), (30, PING), (31, EVENT)]),
    ],
)
async def test_a_client_hears_something_every_15_seconds_until_its_answer(
    autojump_clock, streams_at_once, seconds, heard
):
    assert SILENCE_SECONDS == 15
    client = Client()
    assert await run(client, seconds, streams_at_once=streams_at_once) == heard
    assert client.sees_end


@pytest.mark.spec("HTTP-14")
@pytest.mark.parametrize(
    ("streams_at_once", "heard"), [(False, []), (True, [(0, STREAM)])], ids=["json", "stream"]
)
async def test_a_client_that_goes_ends_the_call_and_is_sent_nothing_more(
    autojump_clock, streams_at_once, heard
):
    client = Client(goes_after=3)
    assert await run(client, 10, streams_at_once=streams_at_once) == heard
    assert trio.current_time() - client.began == 3
    assert not client.sees_end


async def test_what_a_client_sends_besides_its_request_says_nothing(autojump_clock):
    more = {"type": "http.request", "body": b"", "more_body": False}
    assert await run(Client(more, more), 1, streams_at_once=False) == [(1, JSON), (1, MESSAGE)]

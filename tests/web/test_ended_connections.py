"""What a connection leaves behind when it has ended, however it did: nothing."""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from collections.abc import Iterator

import pytest
import trio
from web_edge import Inner, edge, request

RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Patient:
    """An application that begins its answer, and waits for its client to go."""

    def __init__(self) -> None:
        self.asked, self.freed = trio.Event(), trio.Event()
        self.heard: list[str] = []
        self.watched: list[weakref.ref] = []

    async def __call__(self, scope, receive, send):
        self.watched.append(weakref.ref(scope["state"]["peer"], lambda _: self.freed.set()))
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.asked.set()
        while not self.heard or self.heard[-1] != "http.disconnect":
            self.heard.append((await receive())["type"])


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.spec("CONN-14")
@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_client_that_goes_is_heard_of_and_all_of_its_connection_is_freed_without_a_collection(
    nothing_is_collected, is_reset
):
    patient = Patient()
    async with edge(Inner(patient)) as server:
        stream = await server.connect()
        await stream.send_all(request())
        await patient.asked.wait()
        server.inner.calls.clear()
        if is_reset:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        stream.socket.close()
        await patient.freed.wait()
        assert patient.heard == ["http.request", "http.disconnect"]

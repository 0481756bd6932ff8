"""The model's server lives exactly as long as the program: real processes, a fake llama.cpp."""

import contextlib
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from supervisor.local_model.errors import LocalExtraError, LocalServerError
from supervisor.local_model.server import MODEL_NAME, local_model, require_extra

FAKE_LLAMA = Path(__file__).parent / "local_model_fakes" / "llama"
PARENT = """
import sys, trio
from pathlib import Path
from supervisor.local_model.server import local_model

async def main():
    async with local_model(Path(sys.argv[1]), Path(sys.argv[2])):
        await trio.sleep_forever()

trio.run(main)
"""


class Child:
    """The test's end of the connection that a fake llama.cpp holds open as long as it lives."""

    def __init__(self, stream, about):
        self._stream = stream
        self.about = about

    async def kill(self):
        await self._stream.send_all(b"x")

    async def wait_ended(self):
        with contextlib.suppress(trio.BrokenResourceError):  # killed with something unread
            assert await self._stream.receive_some() == b""


class Bench:
    def __init__(self, tmp_path, listener):
        self._listener = listener
        self.streams = []
        self.pauses = []
        self.weights = tmp_path / "weights.json"
        self.log = tmp_path / "model.log"
        self.behave()

    def behave(self, **script):
        port = self._listener.socket.getsockname()[1]
        self.weights.write_text(json.dumps({"report_port": port, **script}))

    async def next_child(self):
        stream = await self._listener.accept()
        self.streams.append(stream)
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive_some()
        return Child(stream, json.loads(line))

    def model(self, **options):
        return local_model(self.weights, self.log, sleep=self._note_pause, draw_jitter=lambda: 0.5, **options)

    async def _note_pause(self, seconds):
        self.pauses.append(seconds)
        await trio.lowlevel.checkpoint()


@pytest.fixture
async def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKE_LLAMA))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        bench = Bench(tmp_path, listener)
        yield bench
    for stream in bench.streams:
        await trio.aclose_forcefully(stream)


async def test_the_endpoint_is_yielded_once_the_model_answers(bench):
    with trio.fail_after(30):
        async with bench.model() as endpoint:
            child = await bench.next_child()
            assert endpoint.base_url == "http://127.0.0.1:43210/v1"
            assert endpoint.model == MODEL_NAME
        await child.wait_ended()


async def test_only_loopback_is_bound_and_only_the_api_is_served(bench):
    with trio.fail_after(30):
        async with bench.model():
            about = (await bench.next_child()).about
    assert about["hostnames"] == ["127.0.0.1"]
    assert about["ui"] is False
    assert 1 <= about["threads"] <= os.cpu_count()


async def test_its_talk_goes_to_the_log_and_not_to_the_terminal(bench, capfd):
    with trio.fail_after(30):
        async with bench.model():
            await bench.next_child()
    assert "talks on standard output" in bench.log.read_text()
    assert capfd.readouterr() == ("", "")


@pytest.mark.spec("LOCAL-2")
async def test_it_ends_when_the_body_fails(bench):
    with trio.fail_after(30):
        with pytest.RaisesGroup(ZeroDivisionError):
            async with bench.model():
                child = await bench.next_child()
                raise ZeroDivisionError
        await child.wait_ended()


@pytest.mark.spec("LOCAL-2")
async def test_it_ends_when_the_program_is_cancelled(bench):
    with trio.fail_after(30):
        with trio.CancelScope() as scope:
            async with bench.model():
                child = await bench.next_child()
                scope.cancel()
                await trio.sleep_forever()
        await child.wait_ended()


async def test_a_start_that_is_cancelled_leaves_no_process(bench):
    bench.behave(stuck=True)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def start():
                async with bench.model():
                    raise AssertionError("it was never ready")

            nursery.start_soon(start)
            child = await bench.next_child()
            nursery.cancel_scope.cancel()
        await child.wait_ended()


@pytest.mark.spec("LOCAL-2")
@pytest.mark.parametrize("loads", [{}, {"slow": True}, {"stuck": True}], ids=["at once", "too late", "never"])
async def test_it_ends_when_the_program_is_killed(bench, loads):
    """Also when that comes before the model has answered."""
    bench.behave(**loads)
    command = [sys.executable, "-c", PARENT, str(bench.weights), str(bench.log)]
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            parent = await nursery.start(partial(trio.run_process, command, check=False))
            child = await bench.next_child()
            parent.send_signal(signal.SIGKILL)
            await child.wait_ended()


async def test_ctrl_c_does_not_reach_it(bench):
    with trio.fail_after(30):
        async with bench.model():
            child = await bench.next_child()
            assert os.getpgid(child.about["pid"]) != os.getpgid(0)


@pytest.mark.spec("LOCAL-2")
async def test_one_that_dies_is_started_again_at_the_same_address(bench):
    with trio.fail_after(30):
        async with bench.model() as endpoint:
            first = await bench.next_child()
            assert first.about["port"] == 0
            await first.kill()
            second = await bench.next_child()
            assert second.about["pid"] != first.about["pid"]
            assert endpoint.base_url == f"http://127.0.0.1:{second.about['port']}/v1"


async def test_one_that_keeps_dying_is_given_up_with_one_sentence(bench):
    body_was_cancelled = False

    async def use_it():
        nonlocal body_was_cancelled
        async with bench.model():
            try:
                while True:
                    await (await bench.next_child()).kill()
            except trio.Cancelled:
                body_was_cancelled = True
                raise

    with trio.fail_after(60), pytest.raises(LocalServerError, match="keeps dying"):
        await use_it()
    assert body_was_cancelled
    assert bench.pauses == [1.5, 3, 6, 12, 24]


async def test_one_that_never_comes_up_is_one_sentence_with_its_last_words(bench):
    bench.behave(crash=True)
    with trio.fail_after(30), pytest.raises(LocalServerError) as caught:
        async with bench.model():
            raise AssertionError("it was never ready")
    assert "exit code 3" in str(caught.value)
    assert "failed to load" in str(caught.value)
    assert str(caught.value).isprintable()


async def test_one_that_gets_stuck_is_given_up(bench):
    bench.behave(stuck=True)
    with trio.fail_after(30), pytest.raises(LocalServerError, match="not ready within"):
        async with bench.model(ready_within_seconds=0.1):
            raise AssertionError("it was never ready")


async def test_a_program_that_does_not_exist_is_one_sentence(bench):
    with pytest.raises(LocalServerError, match="did not start"):
        async with bench.model(build=lambda weights: ("/nowhere/python",)):
            raise AssertionError("it was never ready")


@pytest.mark.spec("LOCAL-3")
def test_without_the_extra_the_line_says_how_to_get_it():
    with pytest.raises(LocalExtraError) as caught:
        require_extra("no_module_of_this_name")
    assert "pip install 'roundtable[local]'" in str(caught.value)
    assert "\n" not in str(caught.value)

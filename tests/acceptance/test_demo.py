"""`roundtable demo` as a new user types it, and its parts with a model of ours behind a real board and pool."""

from __future__ import annotations

import importlib.util
import signal
import sys
from io import StringIO

import pytest
import trio
from rich.console import Console

from roundtable.cli.demo import play
from supervisor.local_model.server import Endpoint
from supervisor.local_model.weights import SMOLLM2, find_cache_folder
from tests.acceptance.programs import open_program
from tests.supervisor.scripted_endpoint import completion, open_endpoint, response

CACHE = find_cache_folder()
WITHOUT_EXTRA = (
    sys.executable,
    "-c",
    "import sys; sys.modules['xllamacpp'] = None; from roundtable.cli.main import main; main()",
)
PATIENCE_SECONDS = 300.0

needs_model = [
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None, reason="the `local` extra is not installed"
    ),
    pytest.mark.skipif(
        not (CACHE / SMOLLM2.file_name).is_file(),
        reason="the weights are not in the cache: `roundtable demo` fetches them",
    ),
]


def needs_real_model(test):
    for mark in needs_model:
        test = mark(test)
    return test


def folders(tmp_path):
    """A home whose cache has the weights, and a folder for what is temporary."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    cache = tmp_path / "cache" / "roundtable" / "models"
    cache.mkdir(parents=True)
    (cache / SMOLLM2.file_name).symlink_to(CACHE / SMOLLM2.file_name)
    return temporary, {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@needs_real_model
@pytest.mark.spec("DEMO-1", "DEMO-2")
async def test_the_demo_ends_with_all_tasks_done_by_the_real_model_and_leaves_nothing(tmp_path):
    temporary, settings = folders(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("demo", folder=tmp_path, settings=settings) as demo:
            code = await demo.ended(PATIENCE_SECONDS)
    assert (code, demo.err.text) == (0, "")
    said = demo.out.text
    assert said.endswith("All 4 tasks are done.\n")
    assert "leader sends back task 3" in said
    assert "after tasks 1, 2" in said
    assert said.index("leader accepts task 2") < said.index("claims task 4")
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "temporary"]


@needs_real_model
@pytest.mark.spec("DEMO-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demo_that_is_stopped_leaves_nothing_and_is_no_success(tmp_path, number):
    temporary, settings = folders(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("demo", folder=tmp_path, settings=settings) as demo:
            await demo.out.line(lambda line: "claims task" in line)
            demo.process.send_signal(number)
            code = await demo.ended(60)
    assert (code, demo.err.text) == (1, "")
    assert demo.out.lines[-1] == "Stopped."
    assert list(temporary.iterdir()) == []


@pytest.mark.spec("LOCAL-3")
async def test_without_the_extra_the_demo_says_in_one_line_how_to_get_it(tmp_path):
    with trio.fail_after(60):
        async with open_program("demo", folder=tmp_path, command=WITHOUT_EXTRA) as demo:
            code = await demo.ended(60)
    assert code == 2
    assert demo.out.text == ""
    (line,) = demo.err.lines
    assert "pip install 'roundtable[local]'" in line


async def play_with(tmp_path, script, **options):
    """Play the demo with this model; returns how it ended, what was shown, and what the model was sent."""
    output = StringIO()
    with trio.fail_after(60):
        async with open_endpoint(script) as endpoint:
            finished = await play(
                trio.Event(),
                Console(file=output, width=200),
                tmp_path,
                Endpoint(endpoint.url, "m"),
                **options,
            )
    return finished, output.getvalue(), [request.body.decode() for request in endpoint.requests]


async def echo(request, stream):
    """A model that answers with a word for each thing that a brief can hold."""
    brief = request.json["messages"][1]["content"]
    words = [word for word in ("museum", "children", "RESULT OF TASK 1", "RESULT OF TASK 2") if word in brief]
    await stream.send_all(response(200, completion(f"Read: {', '.join(words)}.")))


@pytest.mark.spec("DEMO-2")
async def test_the_note_and_the_results_before_reach_the_model(tmp_path):
    finished, said, _ = await play_with(tmp_path, echo)
    results = {task.title: (task.sent_back, task.result) for task in finished}
    assert results["Describe the village museum"] == (("Read: museum.",), "Read: museum, children.")
    assert results["Describe the village"] == ((), "Read: RESULT OF TASK 1, RESULT OF TASK 2.")
    assert "the new result heeds the note" in said


async def test_a_model_that_never_manages_ends_the_demo_with_a_sentence(tmp_path):
    async def say_nothing(request, stream):
        await stream.send_all(response(200, completion("")))

    finished, said, bodies = await play_with(tmp_path, say_nothing)
    assert finished is None
    assert "The demo cannot go on: task " in said
    assert bodies


async def test_a_model_that_never_answers_ends_the_demo_when_patience_does(tmp_path):
    async def hang(request, stream):
        await trio.sleep_forever()

    finished, said, _ = await play_with(tmp_path, hang, patience_seconds=1.0)
    assert finished is None
    assert "is not done after 1 s" in said

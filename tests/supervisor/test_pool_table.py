"""The table of failures in SPEC.md, row by row, at a pool of two workers that share an endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections
from test_pool_worker import failure

from supervisor.config.roster import Roster, Worker
from supervisor.pool import Setup, open_pool
from supervisor.rules.failures import FailureClass
from tests.docs.spec_document import table

SPEC = Path(__file__).resolve().parents[2] / "SPEC.md"
ROWS = table(SPEC.read_text(encoding="utf-8"), "Class")
THEN = {
    "cools the endpoint down": ("cooling_down", "cooling_down"),
    "backs off": ("backing_off", "waiting"),
    "parks": ("parked", "waiting"),
    "starts again": ("restarting", "waiting"),
    "goes on": ("waiting", "waiting"),
}
"""The states, after the failure, of the worker that had it and of the other one."""


def failing(row: dict[str, str]) -> BaseException:
    return RuntimeError("a bug") if row["Class"] == FailureClass.CRASH else failure(row["Class"])


@pytest.mark.spec("POOL-19")
def test_the_table_has_every_class_that_a_failure_can_end_in():
    assert {row["Class"] for row in ROWS} == set(FailureClass) - {FailureClass.REFUSED_REQUEST}


@pytest.mark.spec("POOL-10", "POOL-11", "POOL-19", "POOL-20", "POOL-24")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["Class"])
async def test_a_failure_has_the_consequences_of_its_row(autojump_clock, row: dict[str, str]):
    board = FakeBoard()
    board.add(free_for={"other": 1e9})
    models = {"w": ScriptedModel(failing(row)), "other": ScriptedModel()}
    workers = (
        Worker(
            "w", "m", "http://127.0.0.1:1/v1", fallback_models=("n",), cooldown_seconds=77, max_failures=3
        ),
        Worker("other", "m", "http://127.0.0.1:1/v1"),
    )

    def connections_of(setup: Setup):
        return connections(board, models[setup.worker.name], setup.worker.name)

    with trio.fail_after(100):
        async with open_pool(
            Roster(workers), url="", tokens={}, keys={}, connections_of=connections_of, chance=CHANCE
        ) as pool:
            await trio.sleep(0.5)
            states = tuple(worker.state for worker in pool.status().workers)
    ((reason, *how),) = board.tasks[1].releases
    assert reason.startswith(f"{row['Class']}: a ")
    assert how == ([True, 77] if row["Failure of the task"] == "yes" else [False, None])
    assert models["w"].asked == (["m", "n"] if row["Another model is asked"] == "yes" else ["m"])
    assert len(board.tasks[1].messages) == (1 if row["Help is asked for"] == "at once" else 0)
    assert states == THEN[row["Then"]]


@pytest.mark.spec("POOL-11", "POOL-19")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["Class"])
async def test_help_is_asked_for_when_the_row_says_so(autojump_clock, row: dict[str, str]):
    board = FakeBoard(tasks=1)
    model = ScriptedModel(failing(row))
    worker = Worker(
        "w", "m", "http://127.0.0.1:1/v1", cooldown_seconds=0, max_failures=3, max_calls_per_hour=1_000
    )
    with trio.fail_after(20_000):
        async with open_pool(
            Roster((worker,)),
            url="",
            tokens={},
            keys={},
            connections_of=lambda setup: connections(board, model, setup.worker.name),
            chance=CHANCE,
        ):
            await trio.sleep(10_000)
    calls = {"no": None, "at once": 1, "after max_failures": 3}[row["Help is asked for"]]
    assert len(board.tasks[1].messages) == (0 if calls is None else 1)
    if calls is not None:
        assert len(model.calls) == calls

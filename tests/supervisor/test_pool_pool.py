"""All workers together: restarts, parking, and the stop in two phases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections, taking

from supervisor.board.errors import BoardAwayError, BoardNonsenseError
from supervisor.config.roster import Roster, Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import open_ledger
from supervisor.memory.record import WorkerRecord
from supervisor.model.endpoint import Endpoint
from supervisor.nursery.child import run_guarded
from supervisor.nursery.stop import Stop
from supervisor.nursery.supervision import supervise
from supervisor.pool import Pool, Setup, open_pool
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import RELEASE_SECONDS
from supervisor.work.context import WorkerContext
from supervisor.work.worker import Connections

GRACE = 5.0


@asynccontextmanager
async def pool_of(
    board: FakeBoard,
    grace_seconds: float = GRACE,
    concurrency: int = 1,
    max_failures: int = 3,
    ledger_path: Path | None = None,
    **models: ScriptedModel,
) -> AsyncIterator[Pool]:
    """A worker for each model, by its name."""
    workers = [
        Worker(
            name=name,
            model="m",
            base_url="http://127.0.0.1:1/v1",
            max_calls_per_hour=1000,
            concurrency=concurrency,
            max_failures=max_failures,
        )
        for name in models
    ]

    def connections_of(setup: Setup) -> Connections:
        return connections(board, models[setup.worker.name], setup.worker.name)

    roster = Roster(tuple(workers), grace_seconds=grace_seconds)
    with trio.fail_after(1_000_000):
        async with open_pool(
            roster,
            url="unused",
            tokens={},
            keys={},
            ledger_path=ledger_path,
            connections_of=connections_of,
            chance=CHANCE,
        ) as pool:
            yield pool
    assert board.connections == 0


async def never() -> str:
    await trio.sleep_forever()
    raise AssertionError("unreachable")


@pytest.mark.spec("SUP-1")
async def test_each_worker_has_a_child_of_its_own(autojump_clock):
    board = FakeBoard(tasks=4)
    async with pool_of(board, a=ScriptedModel(taking(2)), b=ScriptedModel(taking(2))):
        await trio.sleep(5)
    assert {task.assignee for task in board.tasks.values()} == {"a", "b"}
    assert {task.status for task in board.tasks.values()} == {"submitted"}


class OddError(BaseException):
    """A bug may raise anything."""


@pytest.mark.spec("SUP-1")
@pytest.mark.parametrize(
    "bug",
    [
        ValueError("x"),
        AssertionError("x"),
        OddError("x"),
        SystemExit(1),
        MemoryError(),
        RecursionError(),
        StopAsyncIteration(),
        BaseExceptionGroup("x", [OddError(), ValueError()]),
        ExceptionGroup("x", [ExceptionGroup("y", [OSError()])]),
        trio.TooSlowError(),
        trio.BrokenResourceError(),
        BoardNonsenseError("x"),
    ],
    ids=lambda bug: type(bug).__name__,
)
async def test_no_bug_of_one_worker_touches_another(autojump_clock, bug: BaseException):
    board, good = FakeBoard(tasks=20), ScriptedModel(taking(10))
    async with pool_of(board, good=good, bad=ScriptedModel(bug)) as pool:
        await trio.sleep(250)
        parked = {status.name: status.parked for status in pool.status().workers}
    assert parked == {"good": None, "bad": "it failed too often; the log says how"}
    assert len(good.calls) == 20
    assert {task.status for task in board.tasks.values()} == {"submitted"}


@pytest.mark.spec("SUP-2", "SUP-7")
async def test_a_child_that_keeps_failing_is_restarted_ever_later_and_then_parked(autojump_clock):
    board, model = FakeBoard(tasks=10), ScriptedModel(ValueError("bug"))
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, a=model) as pool:
            with trio.fail_after(60):
                await pool.wait_ended()
    assert model.calls == [0, 1, 3, 7, 15, 31]
    failures = [line for line in logs if line["event"] == "worker_failed"]
    assert [line["restart_in_seconds"] for line in failures] == [1, 2, 4, 8, 16, None]
    assert all(line["error"].startswith("ValueError at fake_board.py:") for line in failures)
    assert [line["worker"] for line in logs if line["event"] == "worker_parked"] == ["a"]
    assert board.held() == []


@pytest.mark.spec("SUP-3")
async def test_a_child_that_returns_without_being_told_to_counts_as_failed(autojump_clock):
    runs = []

    async def run() -> None:
        runs.append(trio.current_time())
        await trio.lowlevel.checkpoint()

    with open_ledger(None, 0.0) as ledger:
        worker = Worker("a", "m", "http://127.0.0.1:1/v1")
        record, endpoint = WorkerRecord(), Endpoint(worker.base_url)
        context = WorkerContext(worker, record, Stop(), CHANCE, endpoint, ledger, DayClock())
        with structlog.testing.capture_logs() as logs, trio.fail_after(60):
            await supervise(context, run=run, release=run)
    assert runs == [0, 1, 3, 7, 15, 31]
    assert record.parked == "it failed too often; the log says how"
    assert {line["error"] for line in logs if line["event"] == "worker_failed"} == {
        "it returned without being told to"
    }


async def test_the_words_of_an_error_are_not_logged(autojump_clock):
    board = FakeBoard(tasks=1)
    bug = ExceptionGroup("sk-secret", [ValueError("sk-secret"), KeyError("sk-secret")])
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, a=ScriptedModel(bug)):
            await trio.sleep(100)
    assert {"task_crashed", "worker_failed"} <= {line["event"] for line in logs}
    assert "ValueError" in repr(logs)
    assert "sk-secret" not in repr(logs)


async def test_a_parked_worker_leaves_the_others_at_work(autojump_clock):
    board, good = FakeBoard(tasks=3), ScriptedModel(taking(1))
    bad = ScriptedModel(ModelCallError(FailureClass.AUTH, "the endpoint answered HTTP 401"))
    async with pool_of(board, bad=bad, good=good) as pool:
        await trio.sleep(100)
        status = {status.name: status for status in pool.status().workers}
    assert status["bad"].parked == "auth: the endpoint answered HTTP 401"
    assert status["bad"].state == "parked"
    assert status["good"].parked is None
    assert len(good.calls) == 3


@pytest.mark.spec("SUP-4", "SUP-6")
async def test_a_call_that_ends_within_the_grace_is_submitted(autojump_clock):
    board = FakeBoard(tasks=2)
    async with pool_of(board, a=ScriptedModel(taking(GRACE))):
        await trio.sleep(1)
    assert [task.status for task in board.tasks.values()] == ["submitted", "open"]
    assert trio.current_time() == GRACE


@pytest.mark.spec("SUP-4", "SUP-5", "SUP-6")
async def test_a_call_that_does_not_is_cancelled_and_its_task_released(autojump_clock):
    board = FakeBoard(tasks=3)
    async with pool_of(board, a=ScriptedModel(never), b=ScriptedModel(never)):
        await trio.sleep(1)
        assert len(board.held()) == 2
    assert board.held() == []
    assert board.tasks[1].releases == [("the pool is stopping", False, None)]
    assert trio.current_time() == 1 + GRACE


@pytest.mark.spec("SUP-6")
@pytest.mark.parametrize("tool", ["whoami", "claim_next", "submit_result", "release_task"])
async def test_a_stop_is_bounded_when_the_board_hangs_and_names_what_is_left(autojump_clock, tool: str):
    board = FakeBoard(tasks=1)

    async def hang(_: FakeBoard) -> None:
        await trio.sleep_forever()

    model = ScriptedModel(never) if tool == "release_task" else ScriptedModel("fine")
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, a=model):
            board.faults[tool] = [hang] * 100
            await trio.sleep(1)
    assert trio.current_time() == (1 if tool == "claim_next" else 1 + GRACE + RELEASE_SECONDS)
    left = [line["task_ids"] for line in logs if line["event"] == "left_claimed"]
    assert left == ([[1]] if tool in {"submit_result", "release_task"} else [])


async def test_a_stop_waits_for_a_board_that_comes_back_in_time(autojump_clock):
    board = FakeBoard(tasks=1)
    board.faults["release_task"] = [BoardAwayError("away")] * 3
    async with pool_of(board, a=ScriptedModel(never)):
        await trio.sleep(1)
    assert board.held() == []


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 2.5, 10.0, 11.0])
async def test_an_idle_or_waiting_pool_stops_at_once(autojump_clock, moment: float):
    board = FakeBoard()
    async with pool_of(board, a=ScriptedModel(), b=ScriptedModel()):
        await trio.sleep(moment)
    assert trio.current_time() == moment


async def test_a_pool_whose_board_is_away_stops_at_once(autojump_clock):
    board = FakeBoard()
    board.open_faults = [BoardAwayError("away")] * 1000
    async with pool_of(board, a=ScriptedModel()):
        await trio.sleep(100)
    assert trio.current_time() == 100


async def test_a_pool_without_workers_has_ended_and_stops(autojump_clock):
    async with pool_of(FakeBoard()) as pool:
        await pool.wait_ended()
    assert pool.status().workers == ()


async def test_draining_twice_and_at_the_same_time_is_fine(autojump_clock):
    board = FakeBoard(tasks=1)
    async with pool_of(board, a=ScriptedModel(taking(3))) as pool, trio.open_nursery() as nursery:
        await trio.sleep(1)
        nursery.start_soon(pool.drain)
        await pool.drain()
        await pool.wait_ended()
    assert trio.current_time() == 3
    assert board.tasks[1].status == "submitted"


async def test_an_error_of_the_body_drains_the_pool_and_comes_out(autojump_clock):
    board = FakeBoard(tasks=1)
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="body")):
        async with pool_of(board, a=ScriptedModel(taking(3))):
            await trio.sleep(1)
            raise ValueError("body")
    assert board.tasks[1].status == "submitted"


async def test_cancelled_from_outside_the_pool_ends_at_once(autojump_clock):
    board = FakeBoard(tasks=1)
    with trio.move_on_after(1) as scope:
        async with pool_of(board, a=ScriptedModel(never)):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 1
    assert board.held() == [1]


async def test_cancelled_during_the_drain_the_pool_ends_at_once(autojump_clock):
    board = FakeBoard(tasks=1)
    with trio.move_on_after(2):
        async with pool_of(board, a=ScriptedModel(never)):
            await trio.sleep(1)
    assert trio.current_time() == 2


@pytest.mark.parametrize(
    "error",
    [
        GeneratorExit("TASK TEXT"),
        KeyboardInterrupt(),
        BaseExceptionGroup("x", [ValueError(), KeyboardInterrupt()]),
    ],
)
async def test_the_guard_lets_nothing_through_but_a_cancel(error):
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    crash = await run_guarded(fail)
    assert crash is not None
    assert "TASK TEXT" not in crash.description

    with trio.CancelScope() as scope:
        scope.cancel()
        await run_guarded(trio.sleep_forever)
    assert scope.cancelled_caught


async def test_a_group_of_a_cancel_and_a_bug_is_only_the_cancel():
    async def both() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("x", [cancelled, ValueError()]) from None

    with trio.CancelScope() as scope:
        scope.cancel()
        await run_guarded(both)
    assert scope.cancelled_caught


@pytest.mark.spec("SUP-6")
@pytest.mark.parametrize("moment", range(0, 120, 7))
async def test_at_no_moment_does_a_stop_leave_anything_claimed(autojump_clock, moment: int):
    board = FakeBoard(tasks=30)

    async def slowly(_: FakeBoard) -> None:
        await trio.sleep(0.3)

    for tool in ("whoami", "claim_next", "submit_result", "release_task"):
        board.faults[tool] = [slowly] * 1000
    models = {
        "a": ScriptedModel(taking(1.1)),
        "b": ScriptedModel(never),
        "c": ScriptedModel(taking(0.2), ValueError()),
    }
    async with pool_of(board, grace_seconds=1.0, **models):
        await trio.sleep(moment / 10)
    assert board.held() == []
    assert trio.current_time() <= moment / 10 + 1.0 + RELEASE_SECONDS

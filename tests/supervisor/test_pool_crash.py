"""A fault of the pool's own, met while it worked on a task: the task's failure, and nobody else's."""

from __future__ import annotations

import pytest
import structlog
import trio
from fake_board import FakeBoard, PickyModel, ScriptedModel, taking
from test_pool_pool import OddError, pool_of

from supervisor.board.errors import BoardAwayError, BoardNonsenseError, ClaimLostError

REASON = "crash: a fault of the worker's own program, which its log describes"
BUGS = [
    ValueError("x"),
    OddError("x"),
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    MemoryError(),
    BaseExceptionGroup("x", [OddError(), ValueError()]),
    trio.ClosedResourceError(),
    BoardNonsenseError("x"),
    BoardAwayError("x"),
]


@pytest.mark.spec("SUP-11")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: type(bug).__name__)
async def test_a_task_that_crashes_its_worker_is_released_as_failed_and_the_worker_starts_again(
    autojump_clock, bug: BaseException
):
    board, model = FakeBoard(tasks=1), ScriptedModel(bug, "fine")
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, a=model) as pool:
            await trio.sleep(0.5)
            assert board.tasks[1].releases == [(REASON, True, 900)]
            assert pool.status().workers[0].state == "restarting"
            await trio.sleep(1_000)
    assert board.tasks[1].status == "submitted"
    assert model.calls == [0, 900]
    assert [line["task_id"] for line in logs if line["event"] == "task_crashed"] == [1]


@pytest.mark.spec("SUP-11", "POOL-11")
async def test_one_task_that_crashes_every_worker_ends_with_the_leader_and_parks_nobody(autojump_clock):
    board = FakeBoard(tasks=30)
    models = {name: PickyModel({1: ValueError("bug")}, taking(5)) for name in ("a", "b", "c")}
    async with pool_of(board, **models) as pool:
        await trio.sleep(10_000)
        workers = pool.status().workers
    assert [worker.parked for worker in workers] == [None, None, None]
    assert board.tasks[1].needs_help
    (message,) = board.tasks[1].messages
    assert message.endswith("failed at this task 3 times and leaves it. Class of the last failure: crash.")
    assert {task.status for number, task in board.tasks.items() if number > 1} == {"submitted"}


@pytest.mark.spec("SUP-11")
async def test_the_other_tasks_of_a_worker_that_crashes_come_to_their_ends_before_it_starts_again(
    autojump_clock,
):
    board, model = FakeBoard(tasks=3), PickyModel({2: ValueError("bug")}, taking(50))
    async with pool_of(board, concurrency=2, a=model):
        await trio.sleep(40)
        assert board.tasks[2].releases == [(REASON, True, 900)]
        assert board.held() == [1]
        await trio.sleep(100)
    assert model.calls == [0, 0, 51]
    assert [board.tasks[number].status for number in (1, 3)] == ["submitted", "submitted"]
    assert board.tasks[1].releases == board.tasks[3].releases == []


@pytest.mark.spec("SUP-11")
async def test_a_claim_that_arrives_with_the_crash_has_not_failed(autojump_clock):
    """It is begun or given back, whichever of the two comes first."""
    board = FakeBoard(tasks=1)

    async def add_and_crash(_: FakeBoard) -> None:
        board.add()
        raise ValueError("bug")

    board.faults["submit_result"] = [add_and_crash]
    async with pool_of(board, concurrency=2, a=ScriptedModel(taking(3))):
        await trio.sleep(100)
    assert board.tasks[1].releases == [(REASON, True, 900)]
    assert not any(failed for _, failed, _ in board.tasks[2].releases)
    assert board.tasks[2].status == "submitted"


@pytest.mark.spec("SUP-11")
@pytest.mark.parametrize("tool", ["renew_claim", "release_task"])
async def test_a_crash_of_which_the_board_could_not_be_told_is_told_by_the_next_life(
    autojump_clock, tool: str
):
    board = FakeBoard(tasks=1)
    board.faults[tool] = [RuntimeError("bug")]
    async with pool_of(board, a=ScriptedModel(ValueError("bug"), "fine")):
        await trio.sleep(0.5)
        assert board.held() == [1]
        await trio.sleep(5)
        assert board.tasks[1].releases == [(REASON, True, 900)]
        await trio.sleep(1_000)
    assert board.tasks[1].status == "submitted"


@pytest.mark.spec("SUP-6", "SUP-11")
async def test_it_is_told_when_the_stop_comes_before_the_next_life(autojump_clock):
    board = FakeBoard(tasks=1)
    board.faults["release_task"] = [RuntimeError("bug")]
    async with pool_of(board, a=ScriptedModel(ValueError("bug"))):
        await trio.sleep(0.5)
        assert board.held() == [1]
    assert board.tasks[1].releases == [(REASON, True, 900)]


@pytest.mark.spec("SUP-11")
async def test_a_crash_after_the_board_has_taken_the_answer_is_no_failure_of_the_task(autojump_clock):
    board = FakeBoard(tasks=1)

    async def crash_once_taken(_: FakeBoard) -> None:
        board.tasks[1].status = "submitted"
        raise ValueError("bug")

    board.faults["submit_result"] = [crash_once_taken]
    async with pool_of(board, max_failures=1, a=ScriptedModel()) as pool:
        await trio.sleep(5)
        assert pool.status().workers[0].restarts == 1
    assert (board.tasks[1].status, board.tasks[1].releases, board.tasks[1].messages) == ("submitted", [], [])


@pytest.mark.spec("SUP-11")
@pytest.mark.parametrize(
    "bug", [KeyError("x"), OddError("x"), BoardNonsenseError("x")], ids=lambda bug: type(bug).__name__
)
async def test_a_task_whose_brief_cannot_be_read_ends_with_the_leader_and_parks_nobody(
    autojump_clock, bug: BaseException
):
    board = FakeBoard(tasks=10)
    board.unreadable = {1: bug}
    async with pool_of(board, a=ScriptedModel(taking(5)), b=ScriptedModel(taking(5))) as pool:
        await trio.sleep(10_000)
        workers = pool.status().workers
    assert [worker.parked for worker in workers] == [None, None]
    assert board.tasks[1].needs_help
    assert {failed for _, failed, _ in board.tasks[1].releases} == {True}
    assert {task.status for number, task in board.tasks.items() if number > 1} == {"submitted"}


@pytest.mark.spec("SUP-11")
async def test_a_claim_whose_answer_was_lost_is_not_taken_for_a_crash(autojump_clock):
    board = FakeBoard(tasks=1)
    board.lost["claim_next"] = 1
    async with pool_of(board, a=ScriptedModel()):
        await trio.sleep(1)
        board.faults["claim_next"] = [ClaimLostError("conflict")]
        await trio.sleep(100)
    assert [failed for _, failed, _ in board.tasks[1].releases] == [False]
    assert board.tasks[1].status == "submitted"

"""The message that tells the board what an attempt took: one for each, and it never stands in anything's way."""

from __future__ import annotations

import pytest
import structlog
import trio
from fake_board import FakeBoard, ScriptedModel, taking
from test_pool_calls import with_usage
from test_pool_pool import OddError, pool_of
from test_pool_worker import failure, working

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    BoardNonsenseError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.model.usage import Usage
from supervisor.nursery.stop import Stop
from supervisor.rules.limits import BOARD_CALL_SECONDS, REPORT_SECONDS

ANSWERED = "w: answered after 1 call and 1.0 s; 100 tokens in, 20 out."
FAILED = "w: no result (content) after 1 call and 0.0 s; 0 tokens in, 0 out."


async def hang(_: FakeBoard) -> None:
    await trio.sleep(BOARD_CALL_SECONDS)
    raise BoardAwayError("no answer in time")


@pytest.mark.spec("POOL-25")
async def test_the_board_is_told_what_each_attempt_took(autojump_clock):
    board = FakeBoard(tasks=1)
    model = ScriptedModel(
        with_usage("content", 40), taking(2.5), usage=Usage(1_000_000, 500_000, is_estimated=False)
    )
    async with working(board, model, cooldown_seconds=10, price_input=0.5, price_output=2.0):
        await trio.sleep(60)
    assert board.tasks[1].progress == [
        "w: no result (content) after 1 call and 0.0 s; 40 tokens in, 0 out, cost 0.000020.",
        "w: answered after 1 call and 2.5 s; 1000000 tokens in, 500000 out, cost 1.500000.",
    ]


@pytest.mark.spec("POOL-25")
async def test_an_estimate_is_flagged_and_calls_of_fallbacks_are_summed(autojump_clock):
    board = FakeBoard(tasks=1)
    model = ScriptedModel(with_usage("server", 7), taking(2), usage=Usage(10, 5, is_estimated=True))
    async with working(board, model, fallback_models=("second",)):
        await trio.sleep(10)
    assert board.tasks[1].progress == [
        "w: answered after 2 calls and 2.0 s; 17 tokens in, 5 out (estimated)."
    ]


@pytest.mark.spec("POOL-25")
async def test_the_message_is_on_its_way_before_the_result_so_that_a_quick_review_does_not_shut_it_out(
    autojump_clock,
):
    board = FakeBoard(tasks=1)
    async with working(board, ScriptedModel(taking(1))):
        await board.changed()
        board.tasks[1].status = "done"
        await trio.sleep(10)
    assert board.tasks[1].progress == [ANSWERED]


@pytest.mark.spec("POOL-25")
async def test_a_message_that_hangs_holds_no_result_back_and_costs_no_lease(autojump_clock):
    board, model = FakeBoard(tasks=2, lease_seconds=30), ScriptedModel(taking(1))
    board.faults["report_progress"] = [hang]
    async with working(board, model):
        await trio.sleep(1.5)
        assert board.tasks[1].status == "submitted"
        await trio.sleep(100)
    assert model.calls == [0, 1 + REPORT_SECONDS]
    assert [task.expiries for task in board.tasks.values()] == [0, 0]
    assert board.tasks[2].progress == [ANSWERED]


@pytest.mark.spec("POOL-25")
@pytest.mark.parametrize("max_failures", [1, 3])
async def test_a_message_that_hangs_holds_no_failed_task_back(autojump_clock, max_failures: int):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    board.faults["report_progress"] = [hang]
    async with working(board, model, max_failures=max_failures):
        await trio.sleep(0.5)
        assert board.held() == []
        assert len(board.tasks[1].messages) == (1 if max_failures == 1 else 0)


@pytest.mark.spec("POOL-25")
@pytest.mark.parametrize(("step", "message"), [(taking(1), ANSWERED), (failure("content"), FAILED)])
@pytest.mark.parametrize(
    "error", [BoardAwayError("x"), BoardBusyError(50), BoardNonsenseError("x"), CallRefusedError("too_large")]
)
async def test_a_message_that_did_not_get_through_is_sent_once_more_when_the_attempt_has_ended(
    autojump_clock, error, step, message: str
):
    board, model = FakeBoard(tasks=1), ScriptedModel(step)
    board.faults["report_progress"] = [error]
    async with working(board, model):
        await trio.sleep(1.5)
    assert board.held() == []
    assert board.tasks[1].progress == [message]


@pytest.mark.spec("POOL-25")
@pytest.mark.parametrize("error", [ClaimLostError("conflict"), WorkerRefusedError("x"), BoardAwayError("x")])
async def test_a_message_that_never_gets_through_changes_nothing_and_warns_of_nothing(autojump_clock, error):
    board, model = FakeBoard(tasks=1), ScriptedModel(taking(1))
    board.faults["report_progress"] = [error] * 9
    with structlog.testing.capture_logs() as logs:
        async with working(board, model) as record:
            await trio.sleep(10)
    assert board.tasks[1].status == "submitted"
    assert board.calls.count(("w", "report_progress")) == 2
    assert record.parked is None
    assert {line["log_level"] for line in logs} <= {"debug", "info"}


@pytest.mark.spec("POOL-25")
async def test_a_message_whose_reply_was_lost_is_there_once(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(taking(1))
    board.lost["report_progress"] = 1
    board.faults["submit_result"] = [BoardAwayError("away")] * 5
    async with working(board, model):
        await trio.sleep(200)
    assert board.calls.count(("w", "report_progress")) == 2
    assert board.tasks[1].progress == [ANSWERED]


@pytest.mark.spec("POOL-25")
async def test_an_answer_that_the_board_refuses_leaves_one_message_too(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(taking(1))
    board.faults["submit_result"] = [CallRefusedError("invalid")]
    async with working(board, model):
        await trio.sleep(5)
    assert board.tasks[1].progress == [ANSWERED]
    assert len(board.tasks[1].releases) == 1


@pytest.mark.spec("POOL-25", "SUP-4")
async def test_an_attempt_that_ends_during_the_stop_leaves_its_message(autojump_clock):
    board, model, stop = FakeBoard(tasks=1), ScriptedModel(taking(1)), Stop()
    async with working(board, model, stop=stop):
        await trio.sleep(0.5)
        stop.request()
    assert board.tasks[1].progress == [ANSWERED]
    assert trio.current_time() == 1


@pytest.mark.spec("POOL-25", "SUP-4")
async def test_the_cut_of_the_stop_does_not_wait_for_a_message(autojump_clock):
    board, model, stop = FakeBoard(tasks=1), ScriptedModel(taking(1)), Stop()
    board.faults["report_progress"] = [hang]
    async with working(board, model, stop=stop):
        await trio.sleep(2)
        stop.cut()
    assert board.tasks[1].status == "submitted"
    assert trio.current_time() == 2


@pytest.mark.spec("POOL-25", "SUP-11")
@pytest.mark.parametrize("bug", [ValueError("x"), OddError("x"), KeyboardInterrupt()])
async def test_a_fault_of_this_program_in_the_message_costs_no_answer(autojump_clock, bug: BaseException):
    board = FakeBoard(tasks=1)
    board.faults["report_progress"] = [bug]
    board.faults["submit_result"] = [BoardAwayError("away")]
    async with pool_of(board, w=ScriptedModel(taking(1))) as pool:
        await trio.sleep(100)
        assert pool.status().workers[0].restarts == 1
    assert (board.tasks[1].status, board.tasks[1].releases) == ("submitted", [])

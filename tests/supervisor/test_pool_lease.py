"""A claim is kept while the model works, and let go of as soon as it is lost."""

from __future__ import annotations

import pytest
import structlog
import trio
import trio.testing
from fake_board import FakeBoard, ScriptedModel, Step, taking
from test_pool_worker import failure, working

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    BoardNonsenseError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.nursery.stop import Stop
from supervisor.rules.failures import ModelCallError
from supervisor.rules.limits import BOARD_CALL_SECONDS

LEASE = 90.0


class Watched:
    """A model call of which it is known when it ended, and how."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.dropped_at: float | None = None

    async def __call__(self) -> str:
        try:
            await trio.sleep(self._seconds)
        except trio.Cancelled:
            self.dropped_at = trio.current_time()
            raise
        return "fine"


def board_of_one(lease_seconds: float = LEASE) -> FakeBoard:
    return FakeBoard(tasks=1, lease_seconds=lease_seconds)


async def hang(_: FakeBoard) -> None:
    await trio.sleep(BOARD_CALL_SECONDS)
    raise BoardAwayError("away")


@pytest.mark.spec("POOL-16")
async def test_a_lease_is_renewed_at_a_third_of_it_for_as_long_as_the_model_works(autojump_clock):
    board = board_of_one()
    async with working(board, ScriptedModel(taking(200))):
        await trio.sleep(300)
    assert board.renewals == [30, 60, 90, 120, 150, 180]
    assert board.tasks[1].status == "submitted"
    assert board.tasks[1].expiries == 0


@pytest.mark.spec("POOL-16")
async def test_a_short_call_costs_no_renewal(autojump_clock):
    board = board_of_one()
    async with working(board, ScriptedModel(taking(29))):
        await trio.sleep(100)
    assert board.renewals == []


@pytest.mark.spec("POOL-16")
async def test_the_tasks_own_lease_goes_before_the_boards(autojump_clock):
    board = FakeBoard(lease_seconds=LEASE)
    board.add(lease_seconds=30)
    async with working(board, ScriptedModel(taking(35))):
        await trio.sleep(100)
    assert board.renewals == [10, 20, 30]


@pytest.mark.spec("POOL-16")
async def test_a_cancelled_task_is_heard_of_within_half_a_minute_however_long_the_lease(autojump_clock):
    board = board_of_one(lease_seconds=1_800)
    async with working(board, ScriptedModel(taking(100))):
        await trio.sleep(150)
    assert board.renewals == [30, 60, 90]


@pytest.mark.spec("POOL-16")
async def test_a_lease_that_the_leader_shortens_is_renewed_more_often_from_then_on(autojump_clock):
    board = board_of_one(lease_seconds=300)
    async with working(board, ScriptedModel(taking(150))):
        await trio.sleep(50)
        board.tasks[1].lease_seconds, board.tasks[1].changed = 30, True
        await trio.sleep(200)
    assert board.renewals == [30, 60, 70, 80, 90, 100, 110, 120, 130, 140]
    assert board.tasks[1].status == "submitted"


@pytest.mark.spec("POOL-16")
@pytest.mark.parametrize("code", ["stale_claim", "conflict", "not_found", "forbidden"])
async def test_the_model_call_is_dropped_at_once_when_the_claim_is_lost(autojump_clock, ledger, code: str):
    board, call = board_of_one(), Watched(1_000)
    board.faults["renew_claim"] = [ClaimLostError(code)]
    with structlog.testing.capture_logs() as logs:
        async with working(board, ScriptedModel(call), ledger=ledger, max_calls_per_hour=1) as record:
            await trio.sleep(31)
            assert record.held == {}
    assert call.dropped_at == 30
    assert board.tasks[1].releases == []
    assert [line["code"] for line in logs if line["event"] == "claim_lost"] == [code]
    assert ledger.failures_of("w") == {}


@pytest.mark.spec("POOL-16")
async def test_the_model_call_is_dropped_when_the_task_is_cancelled_and_the_worker_goes_on(autojump_clock):
    board, call = board_of_one(), Watched(1_000)
    async with working(board, ScriptedModel(call, "two")):
        await trio.sleep(10)
        board.tasks[1].status = "cancelled"
        await trio.sleep(30)
        assert call.dropped_at == 30
        board.add()
        await trio.sleep(1)
    assert board.tasks[1].result is None
    assert board.tasks[2].result == "two"


@pytest.mark.spec("POOL-16")
async def test_a_task_taken_by_somebody_else_is_let_go_within_one_renewal(autojump_clock):
    board, call = board_of_one(), Watched(1_000)
    async with working(board, ScriptedModel(call), max_calls_per_hour=1):
        await trio.sleep(10)
        board.free(board.tasks[1])
        board.claim(1, "other")
        await trio.sleep(40)
    assert call.dropped_at == 30
    assert board.tasks[1].assignee == "other"


@pytest.mark.spec("POOL-17")
@pytest.mark.parametrize(
    "error",
    [
        BoardAwayError("unavailable"),
        BoardBusyError(20),
        BoardBusyError(60),
        BoardNonsenseError("x"),
        CallRefusedError("invalid"),
        hang,
    ],
    ids=str,
)
async def test_a_renewal_that_fails_is_tried_again_and_the_model_works_on(autojump_clock, error):
    board, call = board_of_one(), Watched(200)
    board.faults["renew_claim"] = [error]
    async with working(board, ScriptedModel(call)):
        await trio.sleep(300)
    assert call.dropped_at is None
    assert board.tasks[1].status == "submitted"
    assert board.tasks[1].expiries == 0


@pytest.mark.spec("POOL-17")
@pytest.mark.parametrize(
    "error", [BoardAwayError("x"), BoardBusyError(7), BoardBusyError(500), hang], ids=str
)
async def test_the_model_call_ends_when_the_lease_has_run_out_on_the_workers_own_clock(
    autojump_clock, ledger, error
):
    """Counted from when the last good renewal was sent: here at 30 s, and it took 5 s."""
    board, call = board_of_one(), Watched(10_000)

    async def slowly(_: FakeBoard) -> None:
        await trio.sleep(5)

    board.faults["renew_claim"] = [slowly] + [error] * 1_000
    async with working(board, ScriptedModel(call), ledger=ledger, max_calls_per_hour=1) as record:
        await trio.sleep(30 + LEASE + 0.1)
        assert record.held == {}
    assert call.dropped_at == 30 + LEASE
    assert ledger.failures_of("w") == {}


@pytest.mark.spec("POOL-17")
async def test_a_lease_that_ran_out_unheard_is_given_back_once_the_board_answers(autojump_clock):
    """On the board's clock it may still run, as after a restart of the board."""
    board, call = board_of_one(), Watched(10_000)
    board.faults["renew_claim"] = [BoardAwayError("x")] * 1_000
    board.faults["release_task"] = [BoardAwayError("x")] * 4
    async with working(board, ScriptedModel(call), max_calls_per_hour=1):
        await trio.sleep(LEASE - 1)
        board.renew(board.tasks[1])
        board.tasks[1].lease_until += 1_000
        await trio.sleep(60)
    assert board.tasks[1].releases == [("the lease ran out while the board could not be asked", False, None)]


@pytest.mark.spec("POOL-16")
async def test_a_worker_that_the_board_no_longer_knows_drops_its_call_and_is_parked(autojump_clock):
    board, call = board_of_one(), Watched(1_000)
    board.faults["renew_claim"] = [WorkerRefusedError("401")]
    async with working(board, ScriptedModel(call)) as record:
        await trio.sleep(31)
        assert record.parked == "401"
    assert call.dropped_at == 30


async def test_renewals_go_on_during_the_grace_of_a_stop(autojump_clock):
    board, stop = board_of_one(), Stop()
    async with working(board, ScriptedModel(taking(100)), stop=stop):
        await trio.sleep(1)
        stop.request()
    assert board.tasks[1].status == "submitted"
    assert board.renewals == [30, 60, 90]


@pytest.mark.parametrize("step", ["fine", failure("content")], ids=["answer", "failure"])
async def test_an_answer_or_failure_ends_the_renewals(autojump_clock, step: Step):
    board = board_of_one()

    async def in_35_seconds() -> str:
        await trio.sleep(35)
        if isinstance(step, ModelCallError):
            raise step
        return "fine"

    async with working(board, ScriptedModel(in_35_seconds), cooldown_seconds=5_000):
        await trio.sleep(500)
    assert board.renewals == [30]


async def test_a_late_answer_is_handed_in_all_the_same(autojump_clock):
    """The board decides whether it takes it or keeps it beside the task."""
    board = board_of_one()
    board.faults["submit_result"] = [BoardAwayError("x")] * 12
    async with working(board, ScriptedModel(taking(5)), max_calls_per_hour=1) as record:
        await trio.sleep(400)
    assert board.tasks[1].expiries == 1
    assert board.calls.count(("w", "submit_result")) == 13
    assert record.held == {}


@pytest.mark.spec("POOL-17")
async def test_a_claim_that_arrives_when_its_lease_has_run_out_costs_no_call(mock_clock):
    """As when the program was stopped in between: no time passes but this jump."""
    board, model = FakeBoard(lease_seconds=LEASE), ScriptedModel()
    async with working(board, model, max_calls_per_hour=1) as record:
        await trio.testing.wait_all_tasks_blocked()
        board.add()
        mock_clock.jump(LEASE)
        await trio.testing.wait_all_tasks_blocked()
        assert board.tasks[1].releases == [
            ("the lease ran out while the board could not be asked", False, None)
        ]
        # The next claim is a fresh one, and the call that was not made is still there to be made.
        assert board.tasks[1].status == "submitted"
        assert record.held == {}
    assert len(model.calls) == 1

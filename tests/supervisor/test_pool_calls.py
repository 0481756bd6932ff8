"""Caps, fallbacks and what an attempt took, as the board and the status tell it."""

from __future__ import annotations

import pytest
import structlog
import trio
from fake_board import FakeBoard, ScriptedModel, taking
from test_pool_worker import failure, working

from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import Spent, open_ledger
from supervisor.model.usage import NO_USAGE, Usage
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.policy import CONSEQUENCES

DAY = 86_400


def with_usage(kind: str, tokens: int) -> ModelCallError:
    return ModelCallError(FailureClass(kind), "a detail", usage=Usage(tokens, 0, is_estimated=False))


@pytest.mark.spec("POOL-20")
async def test_fallback_models_are_asked_in_order_and_each_call_counts(autojump_clock):
    board = FakeBoard(tasks=1)
    model = ScriptedModel(failure("server"), failure("content"), "fine")
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger, fallback_models=("second", "third")):
            await trio.sleep(5)
        assert ledger.spent("w", DayClock().now()).calls == 3
    assert model.asked == ["m", "second", "third"]
    assert board.tasks[1].result == "fine"
    assert board.tasks[1].releases == []


@pytest.mark.spec("POOL-20")
async def test_fallbacks_end_at_the_hourly_cap(autojump_clock):
    board, model = FakeBoard(tasks=2), ScriptedModel(failure("content"))
    async with working(board, model, fallback_models=("second", "third"), max_calls_per_hour=2):
        await trio.sleep(3_000)
    assert model.asked == ["m", "second"]
    assert board.tasks[1].releases == [("content: a detail", True, 900)]
    assert board.tasks[2].claims == 0


@pytest.mark.spec("POOL-20")
@pytest.mark.parametrize("kind", list(CONSEQUENCES))
async def test_only_failures_that_another_model_may_cure_fall_back(autojump_clock, kind):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind), "fine")
    async with working(board, model, fallback_models=("second",)):
        await trio.sleep(0.5)
        assert model.asked == (["m", "second"] if CONSEQUENCES[kind].falls_back else ["m"])


@pytest.mark.spec("POOL-20")
async def test_a_task_on_which_all_models_fail_has_failed_once(autojump_clock, ledger):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("server"), failure("content"))
    async with working(board, model, ledger=ledger, fallback_models=("second",)):
        await trio.sleep(5)
    assert ledger.failures_of("w") == {1: 1}
    assert board.tasks[1].releases == [("content: a detail", True, 900)]


async def test_a_model_that_the_endpoint_does_not_know_is_passed_over_from_then_on(autojump_clock):
    board, model = FakeBoard(tasks=3), ScriptedModel(failure("config"), "fine")
    async with working(board, model, fallback_models=("second",)) as record:
        await trio.sleep(5)
        assert record.unusable == {"m"}
    assert record.parked is None
    assert model.asked == ["m", "second", "second", "second"]


async def test_a_worker_whose_models_are_all_unknown_is_parked(autojump_clock):
    board, model = FakeBoard(tasks=3), ScriptedModel(failure("config"))
    async with working(board, model, fallback_models=("second",)) as record:
        await trio.sleep(5)
    assert record.parked == "config: a detail"
    assert model.asked == ["m", "second"]


async def test_an_unknown_fallback_does_not_hide_why_the_first_model_failed(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"), failure("config"))
    async with working(board, model, fallback_models=("second",)) as record:
        await trio.sleep(5)
    assert record.parked is None
    assert board.tasks[1].releases == [("content: a detail", True, 900)]


@pytest.mark.spec("POOL-21")
async def test_at_the_daily_cap_of_tokens_the_worker_waits_and_says_so(autojump_clock):
    board = FakeBoard(tasks=5)
    model = ScriptedModel(usage=Usage(400, 100, is_estimated=False))
    async with working(board, model, max_tokens_per_day=1_500, max_calls_per_hour=1_000) as record:
        await trio.sleep(DAY - 10)
        assert len(model.calls) == 3
        assert (record.state, record.reason) == ("at_cap", "daily_cap")
        assert board.held() == []
        await trio.sleep(20)
        assert len(model.calls) == 5


@pytest.mark.spec("POOL-21")
async def test_what_a_brief_may_take_is_reserved_so_that_the_day_is_never_exceeded(autojump_clock):
    board = FakeBoard(tasks=5)
    model = ScriptedModel(taking(1), usage=Usage(10, 600, is_estimated=False))
    with open_ledger(None, DayClock().now()) as ledger:
        fields = {"max_tokens_per_day": 2_000, "max_output_tokens": 600, "max_calls_per_hour": 1_000}
        async with working(board, model, ledger=ledger, concurrency=5, **fields):
            for _ in range(200):
                await trio.sleep(0.1)
                assert ledger.spent("w", DayClock().now()).tokens <= 2_000
            assert board.held() == []
        assert len(model.calls) == 3
    assert all(not failed for task in board.tasks.values() for _, failed, _ in task.releases)


@pytest.mark.spec("POOL-21")
async def test_a_brief_beyond_the_whole_day_asks_for_help_without_a_call(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    async with working(board, model, max_tokens_per_day=20):
        await trio.sleep(5)
    assert model.calls == []
    assert board.tasks[1].releases == [
        ("context_length: the brief takes more tokens than this worker has in a day", True, 900)
    ]
    assert len(board.tasks[1].messages) == 1
    assert board.tasks[1].progress == []


@pytest.mark.spec("POOL-12", "POOL-22")
async def test_several_slots_never_exceed_the_hourly_cap_together(autojump_clock):
    board, model = FakeBoard(tasks=9), ScriptedModel(taking(100))
    async with working(board, model, concurrency=5, max_calls_per_hour=3):
        await trio.sleep(3_000)
    assert len(model.calls) == 3
    assert sum(task.claims for task in board.tasks.values()) == 3


@pytest.mark.spec("POOL-22")
async def test_both_caps_survive_a_restart_of_the_program(autojump_clock, tmp_path):
    board = FakeBoard(tasks=9)
    models = [ScriptedModel() for _ in range(3)]
    for model in models:
        with open_ledger(tmp_path / "pool.db", DayClock().now()) as ledger:
            async with working(board, model, ledger=ledger, max_calls_per_hour=2):
                await trio.sleep(60)
    assert [len(model.calls) for model in models] == [2, 0, 0]


@pytest.mark.spec("POOL-21")
async def test_a_call_that_is_dropped_is_counted_with_an_estimate(autojump_clock):
    board, model = FakeBoard(tasks=1, lease_seconds=30), ScriptedModel(taking(1_000))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger):
            await trio.sleep(5)
            board.tasks[1].status = "cancelled"
            await trio.sleep(10)
        spent = ledger.spent("w", DayClock().now())
    assert (spent.calls, spent.is_estimated) == (1, True)
    assert spent.tokens > 0


@pytest.mark.spec("POOL-21")
@pytest.mark.parametrize("kind", ["rate_limited", "auth", "network"])
async def test_a_call_that_never_reached_a_model_counts_and_takes_no_tokens(autojump_clock, kind: str):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger):
            await trio.sleep(1)
        assert ledger.spent("w", DayClock().now()) == Spent(1, 0, is_estimated=False, cost=None)


async def test_no_log_line_says_what_a_brief_or_answer_says(autojump_clock):
    board = FakeBoard(tasks=1)
    with structlog.testing.capture_logs() as logs:
        async with working(board, ScriptedModel("secret answer")):
            await trio.sleep(1)
    (line,) = [line for line in logs if line["event"] == "model_answered"]
    assert (line["model"], line["tokens"]) == ("m", 120)
    assert "secret" not in repr(logs)


def test_a_failure_has_taken_nothing_unless_it_says_so():
    assert failure("network").usage is NO_USAGE

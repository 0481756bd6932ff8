"""A roster that is replaced while the pool runs: who starts, who leaves, who is left alone."""

from __future__ import annotations

import pytest
import structlog
import trio
from fake_board import FakeBoard, ScriptedModel, taking
from pydantic import SecretStr
from test_pool_status import pool_of, replace, seen, worker
from test_pool_worker import failure

from supervisor.config.roster import Roster, parse_roster


@pytest.mark.spec("SUP-8")
async def test_a_new_worker_starts_and_an_unchanged_one_is_not_touched(autojump_clock):
    board = FakeBoard(tasks=1)
    models = {"a": ScriptedModel(taking(10)), "b": ScriptedModel(taking(10))}
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, models, worker("a")) as pool:
            await trio.sleep(1)
            replace(pool, worker("a"), worker("b"))
            board.add()
            await trio.sleep(20)
            assert board.calls.count(("a", "whoami")) == 1
    assert {task.assignee for task in board.tasks.values()} == {"a", "b"}
    assert [line["worker"] for line in logs if line["event"] == "worker_started"] == ["a", "b"]


@pytest.mark.spec("SUP-8")
async def test_a_removed_worker_ends_with_its_running_task_and_claims_nothing_more(autojump_clock):
    board = FakeBoard(tasks=2)
    async with pool_of(board, {"a": ScriptedModel(taking(100))}, worker("a"), grace_seconds=1.0) as pool:
        await trio.sleep(1)
        replace(pool)
        await trio.sleep(50)
        assert seen(pool, "a").state == "draining"
        await trio.sleep(100)
        assert pool.status().workers == ()
    assert [task.status for task in board.tasks.values()] == ["submitted", "open"]


@pytest.mark.spec("SUP-8")
async def test_a_changed_worker_starts_anew_after_its_running_task(autojump_clock):
    board = FakeBoard(tasks=3)
    model = ScriptedModel(taking(10))
    async with pool_of(board, {"a": model}, worker("a")) as pool:
        await trio.sleep(1)
        replace(pool, worker("a", model="better", concurrency=2))
        await trio.sleep(30)
    assert model.asked == ["m", "better", "better"]
    assert model.calls == [0, 10, 10]
    assert board.tasks[1].releases == []


@pytest.mark.spec("SUP-8")
@pytest.mark.parametrize("secrets", [{"keys": {"a": SecretStr("new")}}, {"tokens": {"a": "new"}}], ids=str)
async def test_a_new_key_or_token_is_a_change(autojump_clock, secrets):
    board = FakeBoard()
    async with pool_of(board, {"a": ScriptedModel()}, worker("a")) as pool:
        await trio.sleep(1)
        replace(pool, worker("a"), **secrets)
        await trio.sleep(1)
        replace(pool, worker("a"), **secrets)
        await trio.sleep(1)
    assert board.calls.count(("a", "whoami")) >= 2
    assert board.calls.count(("a", "claim_next")) == 2


@pytest.mark.spec("SUP-8")
async def test_a_parked_worker_works_again_once_it_is_changed_and_not_before(autojump_clock):
    board = FakeBoard(tasks=1)
    model = ScriptedModel(failure("auth"), "fine")
    async with pool_of(board, {"a": model, "b": ScriptedModel()}, worker("a"), worker("b")) as pool:
        board.tasks[1].free_for["b"] = 1e9
        await trio.sleep(1)
        replace(pool, worker("a"), worker("b"))
        await trio.sleep(1)
        assert seen(pool, "a").state == "parked"
        replace(pool, worker("a"), worker("b"), keys={"a": SecretStr("right")})
        await trio.sleep(1)
        assert seen(pool, "a").state == "waiting"
    assert board.tasks[1].status == "submitted"


@pytest.mark.spec("SUP-8", "POOL-22")
async def test_a_change_does_not_reset_what_was_used_up(autojump_clock):
    board = FakeBoard(tasks=9)
    model = ScriptedModel()
    async with pool_of(board, {"a": model}, worker("a", max_calls_per_hour=2)) as pool:
        await trio.sleep(1)
        replace(pool, worker("a", max_calls_per_hour=3))
        await trio.sleep(1)
        replace(pool)
        await trio.sleep(1)
        replace(pool, worker("a", max_calls_per_hour=3))
        await trio.sleep(1)
    assert len(model.calls) == 3


@pytest.mark.spec("SUP-8")
async def test_changes_during_a_running_task_end_in_the_last_of_them(autojump_clock):
    board = FakeBoard(tasks=2)
    model = ScriptedModel(taking(10))
    async with pool_of(board, {"a": model}, worker("a")) as pool:
        await trio.sleep(1)
        replace(pool, worker("a", model="second"))
        replace(pool)
        replace(pool, worker("a", model="third"))
        await trio.sleep(30)
        assert len(pool.status().workers) == 1
    assert model.asked == ["m", "third"]


@pytest.mark.spec("SUP-8")
async def test_a_roster_that_comes_during_the_stop_starts_nobody(autojump_clock):
    board = FakeBoard(tasks=1)
    models = {"a": ScriptedModel(taking(3)), "b": ScriptedModel()}
    async with pool_of(board, models, worker("a")) as pool, trio.open_nursery() as nursery:
        await trio.sleep(1)
        nursery.start_soon(pool.drain)
        await trio.sleep(0.1)
        replace(pool, worker("a", model="x"), worker("b"))
    assert models["b"].calls == []
    assert board.tasks[1].status == "submitted"


@pytest.mark.spec("SUP-8", "SUP-6")
async def test_a_stop_cuts_the_call_of_a_worker_that_was_leaving_anyway(autojump_clock):
    board = FakeBoard(tasks=1)
    async with pool_of(board, {"a": ScriptedModel(taking(10_000))}, worker("a"), grace_seconds=600.0) as pool:
        await trio.sleep(1)
        replace(pool)
        await trio.sleep(1)
    assert trio.current_time() == 2 + 5.0  # the grace of the new roster
    assert board.held() == []


@pytest.mark.spec("SUP-8")
async def test_an_unchanged_worker_goes_on_with_the_very_call_that_runs_whatever_else_changes(autojump_clock):
    board = FakeBoard(tasks=1)
    board.tasks[1].free_for["b"] = 1e9
    models = {"a": ScriptedModel(taking(10)), "b": ScriptedModel()}
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, models, worker("a"), worker("b"), grace_seconds=600.0) as pool:
            await trio.sleep(1)
            moved = Roster((worker("b"), worker("a", number=2)), grace_seconds=1.0, poll_interval=77.0)
            pool.replace_roster(moved, {}, {})
            await trio.sleep(5)
            assert [task.task_id for task in seen(pool, "a").tasks] == [1]
            await trio.sleep(20)
    assert (board.tasks[1].claims, board.tasks[1].assignee, models["a"].calls) == (1, "a", [0])
    assert sorted(line["worker"] for line in logs if line["event"] == "worker_started") == ["a", "b"]


@pytest.mark.spec("SUP-8")
async def test_a_change_of_the_grace_alone_touches_nobody_and_holds_from_then_on(autojump_clock):
    board = FakeBoard(tasks=1)
    async with pool_of(board, {"a": ScriptedModel(taking(10_000))}, worker("a"), grace_seconds=600.0) as pool:
        await trio.sleep(1)
        pool.replace_roster(Roster((worker("a"),), grace_seconds=2.0), {}, {})
        await trio.sleep(1)
        assert seen(pool, "a").state == "working"
    assert trio.current_time() == 2 + 2.0
    assert board.calls.count(("a", "whoami")) == 1


DEFAULTS = """
[defaults]
model = "m"
base_url = "http://127.0.0.1:1/v1"
max_failures = {max_failures}
[[workers]]
name = "a"
[[workers]]
name = "b"
max_failures = 9
"""


@pytest.mark.spec("SUP-8")
async def test_a_changed_default_changes_those_who_have_it_and_no_others(autojump_clock):
    board = FakeBoard()
    models = {"a": ScriptedModel(), "b": ScriptedModel()}
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, models, *parse_roster(DEFAULTS.format(max_failures=3)).workers) as pool:
            await trio.sleep(1)
            pool.replace_roster(parse_roster(DEFAULTS.format(max_failures=4)), {}, {})
            await trio.sleep(1)
    assert [line["worker"] for line in logs if line["event"] == "worker_leaves"] == ["a"]
    assert sorted(line["worker"] for line in logs if line["event"] == "worker_started") == ["a", "a", "b"]


@pytest.mark.spec("SUP-8")
async def test_a_worker_of_a_new_name_starts_at_once_while_the_one_of_the_old_name_ends_its_task(
    autojump_clock,
):
    board = FakeBoard(tasks=2)
    models = {"a": ScriptedModel(taking(100)), "b": ScriptedModel()}
    async with pool_of(board, models, worker("a")) as pool:
        await trio.sleep(1)
        replace(pool, worker("b"))
        await trio.sleep(1)
        assert (seen(pool, "a").state, seen(pool, "b").state) == ("draining", "waiting")
        await trio.sleep(200)
        assert [status.name for status in pool.status().workers] == ["b"]
    assert [task.assignee for task in board.tasks.values()] == ["a", "b"]


@pytest.mark.spec("SUP-8", "POOL-8")
async def test_a_worker_that_comes_with_the_token_of_one_who_is_leaving_waits_until_that_one_has_left(
    autojump_clock,
):
    board = FakeBoard(tasks=1)
    models = {"a": ScriptedModel(taking(100)), "b": ScriptedModel(taking(10))}
    async with pool_of(board, models) as pool:
        replace(pool, worker("a"), tokens={"a": "T"})
        await trio.sleep(1)
        replace(pool, worker("b"), tokens={"b": "T"})
        board.add()
        await trio.sleep(50)
        assert (seen(pool, "a").state, seen(pool, "b").state) == ("draining", "starting")
        assert ("b", "whoami") not in board.calls
        await trio.sleep(50)
        assert [task.task_id for task in seen(pool, "b").tasks] == [2]
        await trio.sleep(50)
    assert [task.assignee for task in board.tasks.values()] == ["a", "b"]
    assert [task.claims for task in board.tasks.values()] == [1, 1]


@pytest.mark.spec("SUP-8", "SUP-6")
async def test_two_workers_that_change_tokens_with_each_other_never_work_with_one_at_once(autojump_clock):
    board = FakeBoard(tasks=2)
    models = {"a": ScriptedModel(taking(10)), "b": ScriptedModel(taking(100))}
    async with pool_of(board, models) as pool:
        replace(pool, worker("a"), worker("b"), tokens={"a": "S", "b": "T"})
        await trio.sleep(1)
        replace(pool, worker("a"), worker("b"), tokens={"a": "T", "b": "S"})
        await trio.sleep(50)
        assert (seen(pool, "a").state, seen(pool, "b").state) == ("starting", "draining")
        await trio.sleep(100)
        assert (seen(pool, "a").state, seen(pool, "b").state) == ("waiting", "waiting")


@pytest.mark.spec("SUP-8", "SUP-4")
async def test_a_stop_does_not_wait_for_a_worker_that_waits_for_its_token(autojump_clock):
    board = FakeBoard(tasks=1)
    models = {"a": ScriptedModel(taking(10_000)), "b": ScriptedModel()}
    async with pool_of(board, models, grace_seconds=5.0) as pool:
        replace(pool, worker("a"), tokens={"a": "T"})
        await trio.sleep(1)
        replace(pool, worker("b"), tokens={"b": "T"})
        await trio.sleep(1)
    assert trio.current_time() == 2 + 5.0
    assert board.held() == []
    assert ("b", "whoami") not in board.calls

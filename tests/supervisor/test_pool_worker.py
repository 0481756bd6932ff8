"""One worker's loop, at a board and a model in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections, taking

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import Ledger, open_ledger
from supervisor.memory.record import WorkerRecord
from supervisor.model.endpoint import Endpoint
from supervisor.model.usage import NO_USAGE
from supervisor.nursery.stop import Stop
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import BOARD_CALL_SECONDS
from supervisor.work.context import WorkerContext
from supervisor.work.worker import WorkerLoop

POLL = 10.0


@asynccontextmanager
async def working(
    board: FakeBoard,
    model: ScriptedModel,
    *,
    record: WorkerRecord | None = None,
    stop: Stop | None = None,
    ledger: Ledger | None = None,
    endpoint: Endpoint | None = None,
    claims: Sequence[int] = (),
    **fields: object,
) -> AsyncIterator[WorkerRecord]:
    """A worker at work; it is stopped, and must end by itself, when the block ends.

    `claims` are tasks that it holds from an earlier run of the pool.
    """
    worker = Worker(name="w", model="m", base_url="http://127.0.0.1:1/v1", **fields)
    clock = DayClock()
    with ExitStack() as stack:
        context = WorkerContext(
            worker,
            record or WorkerRecord(),
            stop or Stop(),
            CHANCE,
            endpoint or Endpoint(worker.base_url),
            ledger or stack.enter_context(open_ledger(None, clock.now())),
            clock,
        )
        for task_id in claims:
            board.claim(task_id, "w")
            context.ledger.take_claim(board.tasks[task_id].claim_id, "w", task_id, clock.now())
        loop = WorkerLoop(context, connections(board, model), POLL)
        with trio.fail_after(1_000_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                yield context.record
                context.stop.request()
    assert board.connections == 0


def failure(kind: str, wait: float | None = None) -> ModelCallError:
    return ModelCallError(FailureClass(kind), "a detail", retry_after_seconds=wait)


def taking_to_fail(seconds: float, error: ModelCallError):
    async def step() -> str:
        await trio.sleep(seconds)
        raise error

    return step


@pytest.mark.spec("POOL-9")
async def test_a_task_is_claimed_answered_and_submitted(autojump_clock):
    board, model = FakeBoard(tasks=2), ScriptedModel("one", "two")
    async with working(board, model) as record:
        await trio.sleep(1)
    assert [(task.status, task.result) for task in board.tasks.values()] == [
        ("submitted", "one"),
        ("submitted", "two"),
    ]
    assert record.held == {}


@pytest.mark.spec("POOL-7", "POOL-15")
async def test_an_idle_worker_waits_inside_the_board_and_costs_no_model_call(autojump_clock):
    board, model = FakeBoard(), ScriptedModel()
    async with working(board, model):
        await trio.sleep(205)
    assert board.calls.count(("w", "claim_next")) == 11
    assert model.calls == []


@pytest.mark.spec("POOL-15")
async def test_a_task_that_appears_during_the_wait_is_taken_at_once(autojump_clock):
    board, model = FakeBoard(), ScriptedModel()
    async with working(board, model):
        await trio.sleep(7)
        board.add()
        await trio.sleep(1)
    assert model.calls == [7]


@pytest.mark.spec("POOL-15")
async def test_a_worker_with_several_slots_has_one_wait(autojump_clock):
    board, model = FakeBoard(), ScriptedModel(taking(5))
    async with working(board, model, concurrency=4):
        for _ in range(6):
            await trio.sleep(1)
            board.add()
        await trio.sleep(30)
    assert board.most_waiting == 1
    assert model.most_running == 4
    assert len(model.calls) == 6


@pytest.mark.spec("POOL-15")
async def test_a_board_that_answers_empty_at_once_is_asked_again_at_the_interval_only(autojump_clock):
    board, model = FakeBoard(), ScriptedModel()
    board.accepts_claims = False
    async with working(board, model):
        await trio.sleep(POLL * 10 + 1)
    assert board.calls.count(("w", "claim_next")) == 11


@pytest.mark.spec("POOL-15")
async def test_at_the_boards_limit_of_claims_the_worker_waits_for_a_slot(autojump_clock, ledger):
    board, model = FakeBoard(tasks=2), ScriptedModel(taking(100))

    async def refuse(_: FakeBoard) -> None:
        if board.held():
            raise ClaimLostError("conflict")

    board.faults["claim_next"] = [refuse] * 100
    async with working(board, model, ledger=ledger, concurrency=2) as record:
        await trio.sleep(150)
        assert model.calls == [0, 100]
        await trio.sleep(60)
    assert board.calls.count(("w", "claim_next")) < 10
    assert record.parked is None
    assert ledger.failures_of("w") == {}


@pytest.mark.parametrize("moment", [0.5, 3, 19.9, 20, 35])
async def test_a_stop_during_a_wait_ends_at_once(autojump_clock, moment: float):
    board, model, stop = FakeBoard(), ScriptedModel(), Stop()
    async with working(board, model, stop=stop):
        await trio.sleep(moment)
        stop.request()
    assert trio.current_time() == moment


@pytest.mark.spec("SUP-6")
async def test_what_a_cut_off_wait_has_claimed_is_found_and_released(autojump_clock):
    board, model, stop = FakeBoard(tasks=1), ScriptedModel(), Stop()
    board.lost["claim_next"] = 1
    async with working(board, model, stop=stop):
        await trio.sleep(1)
        assert board.held() == [1]
        stop.request()
    assert board.tasks[1].releases == [("the pool is stopping", False, None)]
    assert trio.current_time() == 1


async def test_a_worker_that_is_parked_meanwhile_gives_up_its_wait(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(taking_to_fail(3, failure("auth")))
    async with working(board, model, concurrency=2) as record:
        await trio.sleep(4)
        assert record.parked == "auth: a detail"
        assert board.waiting == 0
        board.add()
        await trio.sleep(100)
    assert board.tasks[2].claims == 0


async def test_after_a_task_the_worker_asks_again_at_once(autojump_clock):
    board, model = FakeBoard(tasks=3), ScriptedModel(taking(1))
    async with working(board, model):
        await trio.sleep(POLL / 2)
    assert model.calls == [0, 1, 2]


@pytest.mark.spec("POOL-8")
async def test_on_start_a_worker_releases_what_it_still_holds_and_names_the_ids(autojump_clock):
    board, model = FakeBoard(tasks=2), ScriptedModel(taking(5))
    with structlog.testing.capture_logs() as logs:
        async with working(board, model, claims=[1, 2]):
            await trio.sleep(1)
    assert board.tasks[2].releases == [("left over from an earlier run of the pool", False, None)]
    assert [line["task_ids"] for line in logs if line["event"] == "leftovers_released"] == [[1, 2]]


@pytest.mark.spec("POOL-8")
@pytest.mark.parametrize("hindrance", ["hourly_cap", "endpoint"])
async def test_a_worker_that_may_not_call_its_model_releases_what_it_still_holds_all_the_same(
    autojump_clock, hindrance: str
):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    endpoint, now = Endpoint("http://127.0.0.1:1/v1"), DayClock().now()
    with open_ledger(None, now) as ledger:
        if hindrance == "hourly_cap":
            for _ in range(10):
                ledger.begin_call("w", "m", NO_USAGE, now)
        else:
            asked_at = trio.current_time()
            endpoint.cool_down(FailureClass.NETWORK, asked_at=asked_at, retry_after_seconds=900, jitter=0)
        async with working(board, model, ledger=ledger, endpoint=endpoint, claims=[1]) as record:
            await trio.sleep(60)
            assert board.held() == []
            assert record.reason == hindrance
    assert model.calls == []


@pytest.mark.spec("POOL-23")
async def test_a_claim_that_no_run_of_this_pool_has_made_is_named_and_left_to_its_lease(autojump_clock):
    board, model = FakeBoard(tasks=2, lease_seconds=500), ScriptedModel()
    board.claim(1, "w")
    with structlog.testing.capture_logs() as logs:
        async with working(board, model, claims=[2]):
            await trio.sleep(100)
            assert board.held() == [1]
            board.faults["claim_next"] = [ClaimLostError("stale_claim")]
            await trio.sleep(100)
            assert board.held() == [1]
            await trio.sleep(400)
    assert board.tasks[1].releases == []
    assert board.tasks[1].expiries == 1
    assert [task.status for task in board.tasks.values()] == ["submitted", "submitted"]
    assert [line["task_ids"] for line in logs if line["event"] == "claims_of_another"] == [[1]]


@pytest.mark.spec("POOL-23")
async def test_a_claim_is_in_the_file_from_its_taking_to_its_end(autojump_clock):
    board, model = FakeBoard(tasks=3), ScriptedModel(taking(5), failure("content"), taking(1_000))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger):
            for expected in ({"c1": 1}, {"c3": 3}):
                await trio.sleep(4)
                assert ledger.claims_of("w") == expected
            board.tasks[3].status = "cancelled"
            await trio.sleep(700)
            assert ledger.claims_of("w") == {}


@pytest.mark.spec("POOL-10")
@pytest.mark.parametrize("kind", ["content", "timeout", "server"])
async def test_a_failure_that_counts_releases_the_task_with_the_cool_down(autojump_clock, kind: str):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind))
    async with working(board, model, cooldown_seconds=77):
        await trio.sleep(5)
    assert board.tasks[1].releases == [(f"{kind}: a detail", True, 77)]
    assert len(model.calls) == 1


@pytest.mark.spec("POOL-19")
@pytest.mark.parametrize("kind", ["rate_limited", "quota", "network"])
async def test_a_failure_of_the_endpoint_counts_for_nothing_and_the_worker_waits(
    autojump_clock, ledger, kind: str
):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind), "fine")
    async with working(board, model, ledger=ledger) as record:
        await trio.sleep(1.5)
        assert board.tasks[1].releases == [(f"{kind}: a detail", False, None)]
        assert record.state == "cooling_down"
        await trio.sleep(100)
    assert board.tasks[1].status == "submitted"
    assert model.calls[1] - model.calls[0] >= 2
    assert ledger.failures_of("w") == {}


@pytest.mark.spec("POOL-19")
async def test_the_wait_that_an_endpoint_asks_for_is_kept(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("rate_limited", wait=500), "fine")
    async with working(board, model):
        await trio.sleep(600)
    assert model.calls == [0, 500]


async def test_an_endpoint_that_stays_down_is_asked_less_and_less(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("network"))
    async with working(board, model, max_calls_per_hour=1000):
        await trio.sleep(63)
    assert model.calls == [0, 2, 6, 14, 30, 62]


@pytest.mark.spec("POOL-19")
@pytest.mark.parametrize("kind", ["auth", "config"])
async def test_a_failure_of_key_or_roster_parks_the_worker_and_frees_the_task(autojump_clock, kind: str):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind))
    async with working(board, model) as record:
        await trio.sleep(10_000)
    assert record.parked == f"{kind}: a detail"
    assert board.tasks[1].releases == [(f"{kind}: a detail", False, None)]
    assert len(model.calls) == 1


@pytest.mark.spec("POOL-11")
async def test_after_max_failures_on_a_task_the_worker_asks_for_help_once_and_leaves_it(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    async with working(board, model, max_failures=3, cooldown_seconds=10):
        await trio.sleep(1_000)
    task = board.tasks[1]
    assert len(model.calls) == 3
    assert task.messages == [
        "w failed at this task 3 times and leaves it. Class of the last failure: content."
    ]
    assert [failed for _, failed, _ in task.releases] == [True, True, True]
    assert task.status == "open"


@pytest.mark.spec("POOL-11")
async def test_help_is_asked_for_while_the_task_is_still_held(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    async with working(board, model, max_failures=1):
        await trio.sleep(5)
    tools = [tool for _, tool in board.calls]
    assert tools.index("ask_for_help") < tools.index("release_task")


@pytest.mark.spec("POOL-19")
async def test_a_brief_too_long_for_the_model_asks_for_help_at_once(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("context_length"))
    async with working(board, model, max_failures=3):
        await trio.sleep(5)
    assert board.tasks[1].messages == [
        "w failed at this task once and leaves it. Class of the last failure: context_length."
    ]
    assert board.tasks[1].releases == [("context_length: a detail", True, 900)]


async def test_failures_are_counted_per_task_and_forgotten_after_success(autojump_clock, ledger):
    board, model = FakeBoard(tasks=2), ScriptedModel(failure("content"), failure("content"), "fine")
    async with working(board, model, ledger=ledger, max_failures=2, cooldown_seconds=10):
        await trio.sleep(5)
        assert ledger.failures_of("w") == {1: 1, 2: 1}
        await trio.sleep(95)
    assert [task.status for task in board.tasks.values()] == ["submitted", "submitted"]
    assert ledger.failures_of("w") == {}


@pytest.mark.spec("POOL-11")
async def test_failures_on_a_task_are_counted_on_over_restarts_of_the_program(autojump_clock, tmp_path):
    """Help is asked for at the third failure, in the third run; then the count starts anew."""
    board, runs = FakeBoard(tasks=1), []
    for _ in range(3):
        model = ScriptedModel(failure("content"))
        with open_ledger(tmp_path / "pool.db", DayClock().now()) as ledger:
            async with working(board, model, ledger=ledger, max_failures=3, cooldown_seconds=10):
                await trio.sleep(9)
        await trio.sleep(5)
        runs.append((len(model.calls), ledger_says(tmp_path), len(board.tasks[1].messages)))
    assert runs == [(1, {1: 1}, 0), (1, {1: 2}, 0), (1, {}, 1)]


def ledger_says(folder: Path) -> dict[int, int]:
    with open_ledger(folder / "pool.db", DayClock().now()) as ledger:
        return ledger.failures_of("w")


@pytest.mark.spec("POOL-11")
async def test_failures_before_the_leaders_last_update_do_not_count(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    async with working(board, model, max_failures=3, cooldown_seconds=10):
        await trio.sleep(15)
        assert len(model.calls) == 2
        board.tasks[1].failures = 0
        await trio.sleep(10)
        assert (len(model.calls), board.tasks[1].messages) == (3, [])
        await trio.sleep(100)
    assert len(model.calls) == 5
    assert len(board.tasks[1].messages) == 1


@pytest.mark.spec("POOL-11")
async def test_help_that_could_not_be_asked_for_is_asked_for_at_the_next_failure(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    board.faults["ask_for_help"] = [CallRefusedError("too_large")]
    async with working(board, model, max_failures=2, cooldown_seconds=10):
        await trio.sleep(100)
    assert len(model.calls) == 3
    assert len(board.tasks[1].messages) == 1


@pytest.mark.spec("POOL-11")
async def test_a_help_request_whose_reply_was_lost_is_posted_once(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    board.lost["ask_for_help"] = 1
    async with working(board, model, max_failures=1):
        await trio.sleep(100)
    assert board.calls.count(("w", "ask_for_help")) == 2
    assert [key for _, _, key in board.answered if key.startswith("help")] == ["help-c1"]


async def test_a_help_request_that_the_board_refuses_does_not_keep_the_task(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("content"))
    board.faults["ask_for_help"] = [CallRefusedError("too_large")]
    async with working(board, model, max_failures=1):
        await trio.sleep(5)
    assert board.held() == []


async def test_an_answer_that_the_board_refuses_is_a_failure(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel("odd")
    board.faults["submit_result"] = [CallRefusedError("invalid")]
    async with working(board, model):
        await trio.sleep(5)
    assert board.tasks[1].releases == [("content: the board does not take the answer (invalid)", True, 900)]


@pytest.mark.spec("POOL-12")
async def test_at_the_hourly_cap_the_worker_waits_and_says_so_once(autojump_clock):
    board, model = FakeBoard(tasks=5), ScriptedModel()
    with structlog.testing.capture_logs() as logs:
        async with working(board, model, max_calls_per_hour=2) as record:
            await trio.sleep(3_599)
            assert len(model.calls) == 2
            assert (record.state, record.reason) == ("at_cap", "hourly_cap")
            assert board.held() == []
            await trio.sleep(2)
            assert len(model.calls) == 4
    assert [line["cause"] for line in logs if line["event"] == "worker_waits"] == ["hourly_cap", "hourly_cap"]


@pytest.mark.spec("POOL-12")
async def test_a_new_life_of_a_worker_does_not_reset_its_cap(autojump_clock):
    board, model = FakeBoard(tasks=5), ScriptedModel()
    with open_ledger(None, DayClock().now()) as ledger:
        for _ in range(3):
            async with working(board, model, ledger=ledger, max_calls_per_hour=2):
                await trio.sleep(10)
    assert len(model.calls) == 2


@pytest.mark.spec("POOL-18")
async def test_as_many_tasks_at_once_as_the_roster_says_and_no_more(autojump_clock):
    board, model = FakeBoard(tasks=5), ScriptedModel(taking(3))
    async with working(board, model, concurrency=2):
        await trio.sleep(100)
    assert model.most_running == 2
    assert model.calls == [0, 0, 3, 3, 6]


@pytest.mark.spec("POOL-13")
async def test_a_lost_reply_to_a_submit_is_cleared_up_without_asking_the_model_again(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel("one")
    board.lost["submit_result"] = 1
    async with working(board, model):
        await trio.sleep(100)
    assert board.tasks[1].result == "one"
    assert [tool for _, tool in board.calls].count("submit_result") == 1
    assert ("w", "read_task") in board.calls
    assert len(model.calls) == 1


@pytest.mark.spec("POOL-13")
async def test_an_answer_that_did_not_arrive_is_submitted_again(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel("one")
    board.faults["submit_result"] = [BoardAwayError("away"), BoardAwayError("away"), BoardBusyError(3)]
    async with working(board, model):
        await trio.sleep(100)
    assert board.tasks[1].result == "one"
    assert len(model.calls) == 1


async def test_a_board_that_is_away_is_waited_for_and_nobody_is_parked(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    board.open_faults = [BoardAwayError("away")] * 20
    with structlog.testing.capture_logs() as logs:
        async with working(board, model) as record:
            await trio.sleep(10)
            assert record.state == "board_away"
            await trio.sleep(3_600)
    assert record.parked is None
    assert board.tasks[1].status == "submitted"
    waits = [line["wait_seconds"] for line in logs if line["event"] == "board_away"]
    assert waits[:6] == [1, 2, 4, 8, 15, 15]


async def test_a_board_that_goes_away_in_between_is_waited_for_on_the_same_connection(autojump_clock):
    board, model = FakeBoard(), ScriptedModel()
    board.faults["claim_next"] = [BoardAwayError("away")] * 3
    with structlog.testing.capture_logs() as logs:
        async with working(board, model):
            await trio.sleep(8)
            board.add()
            await trio.sleep(12)
    assert board.tasks[1].status == "submitted"
    assert "board_back" in [line["event"] for line in logs]


@pytest.mark.spec("POOL-15")
async def test_a_claim_whose_reply_was_lost_is_brought_by_the_same_key(autojump_clock):
    board, model = FakeBoard(tasks=2), ScriptedModel()
    board.lost["claim_next"] = 1
    async with working(board, model):
        await trio.sleep(100)
    assert [task.claims for task in board.tasks.values()] == [1, 1]
    assert board.tasks[1].releases == []
    assert board.tasks[1].status == "submitted"


@pytest.mark.spec("POOL-15")
async def test_a_claim_brought_again_is_renewed_before_anything_is_believed_of_its_lease(autojump_clock):
    board, model = FakeBoard(tasks=1, lease_seconds=100), ScriptedModel(taking(90))
    board.lost["claim_next"] = 1
    async with working(board, model):
        await trio.sleep(BOARD_CALL_SECONDS + 1.5)
        assert board.renewals == [BOARD_CALL_SECONDS + 1]
        await trio.sleep(200)
    assert board.tasks[1].status == "submitted"


async def test_a_key_whose_claim_is_over_is_dropped(autojump_clock):
    board, model = FakeBoard(tasks=1, lease_seconds=30), ScriptedModel()
    board.lost["claim_next"] = 1
    board.faults["claim_next"] = []

    async def away(_: FakeBoard) -> None:
        raise BoardAwayError("away")

    async with working(board, model):
        await trio.sleep(1)
        board.faults["claim_next"] = [away] * 5
        await trio.sleep(200)
    assert board.tasks[1].expiries == 1
    assert board.tasks[1].status == "submitted"


async def test_what_is_in_hand_is_not_released_when_the_board_comes_back(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(taking(60))
    async with working(board, model, concurrency=2):
        await trio.sleep(1)
        board.faults["claim_next"] = [BoardAwayError("away")]
        await trio.sleep(100)
    assert board.tasks[1].releases == []
    assert board.tasks[1].status == "submitted"


@pytest.mark.parametrize("place", ["open", "whoami", "claim_next"])
async def test_a_board_that_does_not_take_the_worker_parks_it(autojump_clock, place: str):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    refused = WorkerRefusedError("the board does not know this worker's token (401)")
    if place == "open":
        board.open_faults = [refused]
    else:
        board.faults[place] = [refused]
    async with working(board, model) as record:
        await trio.sleep(100)
    assert record.parked == str(refused)
    assert model.calls == []


async def test_a_refusal_while_a_task_runs_parks_the_worker_too(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    board.faults["submit_result"] = [WorkerRefusedError("401")]
    async with working(board, model) as record:
        await trio.sleep(100)
    assert record.parked == "401"
    assert [task.task_id for task in record.held.values()] == [1]


async def test_the_leaders_token_is_no_workers(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    board.role = "leader"
    async with working(board, model) as record:
        await trio.sleep(100)
    assert record.parked == "the token is not a worker's"
    assert board.tasks[1].claims == 0


async def test_a_board_that_asks_for_fewer_calls_is_obeyed(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel()
    board.faults["claim_next"] = [BoardBusyError(42)]
    async with working(board, model):
        await trio.sleep(41)
        assert board.tasks[1].claims == 0
        await trio.sleep(2)
        assert board.tasks[1].claims == 1


async def test_an_endpoint_that_answers_badly_is_not_down_and_its_waits_begin_anew(autojump_clock):
    model = ScriptedModel(
        failure("network"), failure("network"), failure("content"), failure("network"), "fine"
    )
    board = FakeBoard(tasks=1)
    async with working(board, model, cooldown_seconds=0):
        await trio.sleep(60)
    assert model.calls == [0, 2, 6, 6, 8]


async def test_a_model_call_that_begins_after_the_cut_ends_as_it_begins(autojump_clock):
    stop = Stop()
    stop.cut()
    with trio.fail_after(5), stop.until_cut() as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.spec("SUP-4")
async def test_a_stop_lets_a_running_call_end_and_claims_nothing_more(autojump_clock):
    board, model, stop = FakeBoard(tasks=2), ScriptedModel(taking(3)), Stop()
    async with working(board, model, stop=stop):
        await trio.sleep(1)
        stop.request()
    assert [task.status for task in board.tasks.values()] == ["submitted", "open"]
    assert trio.current_time() == 3


@pytest.mark.spec("SUP-4", "SUP-5")
async def test_a_cut_cancels_the_model_call_only_and_releases_over_the_open_connection(
    autojump_clock, ledger
):
    board, model, stop = FakeBoard(tasks=1), ScriptedModel(taking(1_000)), Stop()
    async with working(board, model, stop=stop, ledger=ledger):
        await trio.sleep(1)
        stop.cut()
    assert board.tasks[1].releases == [("the pool is stopping", False, None)]
    assert ledger.failures_of("w") == {}
    assert trio.current_time() == 1


async def test_a_claim_that_arrives_with_the_stop_is_given_back_without_a_call(autojump_clock):
    board, model, stop = FakeBoard(), ScriptedModel(), Stop()
    async with working(board, model, stop=stop):
        await trio.sleep(1)
        board.add()
        stop.request()
    assert board.tasks[1].releases == [("the pool is stopping", False, None)]
    assert model.calls == []


async def test_a_claim_whose_reply_is_lost_during_the_stop_is_released_before_leaving(autojump_clock):
    board, model, stop = FakeBoard(tasks=1), ScriptedModel(), Stop()
    board.lost["claim_next"] = 1
    async with working(board, model, stop=stop):
        await trio.sleep(1)
        stop.request()
    assert board.held() == []
    assert board.tasks[1].releases == [("the pool is stopping", False, None)]


@pytest.mark.spec("POOL-14")
async def test_no_log_line_holds_a_title_or_an_answer(autojump_clock):
    board, model = FakeBoard(tasks=2), ScriptedModel("secret answer", failure("content"))
    board.lost["submit_result"] = 1
    with structlog.testing.capture_logs() as logs:
        async with working(board, model, max_failures=1, system_prompt="secret prompt"):
            await trio.sleep(100)
    assert {"task_claimed", "task_submitted", "model_call_failed", "help_requested"} <= {
        line["event"] for line in logs
    }
    assert "title" not in repr(logs)
    assert "secret" not in repr(logs)

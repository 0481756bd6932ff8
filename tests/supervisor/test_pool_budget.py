"""The day's tokens hold, however many calls are under way and however they end."""

from __future__ import annotations

import random

import pytest
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, taking
from test_pool_worker import failure, working

from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import Ledger, open_ledger
from supervisor.memory.record import WorkerRecord
from supervisor.model.completion import Answer
from supervisor.model.endpoint import Endpoint
from supervisor.model.prompt import Message
from supervisor.model.usage import UNSEEN_OUTPUT_TOKENS, Usage, estimate_usage, most_tokens
from supervisor.nursery.stop import Stop
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import RESULT_CHARS
from supervisor.work.budget import Budget
from supervisor.work.context import WorkerContext

DAY = 86_400
MESSAGES: list[Message] = [{"role": "user", "content": "a brief"}]
LIMIT = 800


class MeasuredModel(ScriptedModel):
    """Answers after a second with the usage that it is told, and keeps the messages of the last call."""

    messages: list[Message]

    async def ask(self, messages: list[Message], *, model: str) -> Answer:
        self.messages = messages
        return await super().ask(messages, model=model)

    @property
    def brief(self) -> int:
        return estimate_usage(self.messages).tokens


class LavishModel(MeasuredModel):
    """Takes anything from nothing to the most that a call can take, in any time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)  # noqa: S311
        self.worst_excess = 0

    async def ask(self, messages: list[Message], *, model: str) -> Answer:
        await super().ask(messages, model=model)
        await trio.sleep(self._chance.choice([0, 1, 5]))
        most = int(most_tokens(messages, LIMIT))
        taken = self._chance.choice([0, self._chance.randrange(most), most])
        self.worst_excess = max(self.worst_excess, taken - self.brief - LIMIT)
        return Answer("fine", Usage(taken, 0, is_estimated=False))


def tokens_of(ledger: Ledger) -> int:
    return ledger.spent("w", DayClock().now()).tokens


@pytest.mark.spec("POOL-29")
async def test_calls_without_a_limit_of_their_own_are_made_one_at_a_time(autojump_clock):
    board = FakeBoard(tasks=9)
    model = ScriptedModel(taking(1), usage=Usage(100, 500, is_estimated=False))
    with open_ledger(None, DayClock().now()) as ledger:
        fields = {"max_tokens_per_day": 2_000, "max_calls_per_hour": 1_000}
        async with working(board, model, ledger=ledger, concurrency=5, **fields) as record:
            for _ in range(200):
                await trio.sleep(0.1)
                assert tokens_of(ledger) <= 2_000
            assert (record.state, record.reason) == ("at_cap", "daily_cap")
    assert model.most_running == 1
    assert len(model.calls) == 3
    assert sum(task.claims for task in board.tasks.values()) == 3


async def test_without_a_cap_of_tokens_they_are_made_side_by_side(autojump_clock):
    board, model = FakeBoard(tasks=9), ScriptedModel(taking(1))
    async with working(board, model, concurrency=5):
        await trio.sleep(20)
    assert model.most_running == 5


@pytest.mark.spec("POOL-29")
async def test_calls_go_side_by_side_while_the_most_that_they_can_take_fits(autojump_clock):
    board, model = FakeBoard(tasks=9), MeasuredModel(taking(1), usage=Usage(10, LIMIT, is_estimated=False))
    fields = {"max_tokens_per_day": 9_000, "max_output_tokens": LIMIT, "max_calls_per_hour": 1_000}
    async with working(board, model, concurrency=3, **fields):
        await trio.sleep(1.5)
        assert model.most_running == 3
        await trio.sleep(100)
    assert len(model.calls) == 9
    assert model.calls[-1] > model.calls[0] + 2


@pytest.mark.spec("POOL-21", "POOL-29")
@pytest.mark.parametrize("seed", range(12))
async def test_the_day_is_exceeded_by_no_more_than_one_call_takes_beyond_what_was_set_aside(
    autojump_clock, seed: int
):
    board, model = FakeBoard(tasks=60), LavishModel(seed)
    cap = 5_000 + 1_000 * seed
    fields = {"max_tokens_per_day": cap, "max_output_tokens": LIMIT, "max_calls_per_hour": 1_000}
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger, concurrency=4, **fields):
            for _ in range(60):
                await trio.sleep(1)
                assert tokens_of(ledger) <= cap + max(model.worst_excess, 0)
    assert len(model.calls) > 3


@pytest.mark.spec("POOL-29")
async def test_a_task_for_which_there_is_no_room_beside_another_is_taken_when_that_one_has_ended(
    autojump_clock,
):
    board, model = FakeBoard(tasks=5), ScriptedModel(taking(10), usage=Usage(10, 10, is_estimated=False))
    fields = {"max_tokens_per_day": 2_000, "max_output_tokens": LIMIT, "max_calls_per_hour": 1_000}
    async with working(board, model, concurrency=3, **fields):
        await trio.sleep(60)
    assert model.calls == [0, 10, 20, 30, 40]
    # Those that were claimed at first, before any brief was known, and no more.
    assert 1 <= sum(len(task.releases) for task in board.tasks.values()) <= 2


@pytest.mark.spec("POOL-30")
@pytest.mark.parametrize("max_output_tokens", [LIMIT, None])
@pytest.mark.parametrize("end", ["cancelled", "cut", "unknown"])
async def test_an_answer_that_was_not_seen_counts_as_set_aside(autojump_clock, end: str, max_output_tokens):
    board, stop = FakeBoard(tasks=1, lease_seconds=30), Stop()
    unknown = ModelCallError(FailureClass.TIMEOUT, "a detail", usage=None)
    model = MeasuredModel(unknown if end == "unknown" else taking(1_000))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger, stop=stop, max_output_tokens=max_output_tokens):
            await trio.sleep(1)
            if end == "cancelled":
                board.tasks[1].status = "cancelled"
                await trio.sleep(30)
            elif end == "cut":
                stop.cut()
        spent = ledger.spent("w", DayClock().now())
    assert (spent.calls, spent.is_estimated) == (1, True)
    assert spent.tokens == model.brief + (max_output_tokens or UNSEEN_OUTPUT_TOKENS)


@pytest.mark.spec("POOL-30")
async def test_no_more_is_set_aside_for_an_answer_without_a_limit_than_the_day_has_left(autojump_clock):
    board, model = FakeBoard(tasks=2, lease_seconds=30), MeasuredModel(taking(1_000))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger, max_tokens_per_day=1_000) as record:
            await trio.sleep(1)
            assert tokens_of(ledger) == 1_000
            board.tasks[1].status = "cancelled"
            await trio.sleep(30)
            assert (record.state, record.reason) == ("at_cap", "daily_cap")
            await trio.sleep(DAY)
            assert board.held() == [2]
    assert len(model.calls) == 2


@pytest.mark.spec("POOL-30")
@pytest.mark.parametrize("kind", ["rate_limited", "auth", "network", "server"])
async def test_what_was_set_aside_for_a_call_that_reached_no_model_is_free_again(autojump_clock, kind: str):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind))
    with open_ledger(None, DayClock().now()) as ledger:
        async with working(board, model, ledger=ledger, max_tokens_per_day=2_000, max_output_tokens=LIMIT):
            await trio.sleep(1)
        assert tokens_of(ledger) == 0


@pytest.mark.spec("POOL-21", "POOL-29")
async def test_fallbacks_are_within_the_day_like_any_call(autojump_clock):
    board = FakeBoard(tasks=3)
    costly = ModelCallError(FailureClass.CONTENT, "a detail", usage=Usage(0, 600, is_estimated=False))
    model = ScriptedModel(costly)
    with open_ledger(None, DayClock().now()) as ledger:
        fields = {"max_tokens_per_day": 1_000, "fallback_models": ("second", "third"), "concurrency": 3}
        async with working(board, model, ledger=ledger, **fields):
            await trio.sleep(60)
        assert tokens_of(ledger) == 1_200
    assert model.asked == ["m", "second"]
    assert sum(len(task.releases) for task in board.tasks.values()) == 1


@pytest.mark.spec("POOL-22", "POOL-30")
async def test_a_call_during_which_the_program_was_killed_counts_as_set_aside(autojump_clock, tmp_path):
    with open_ledger(tmp_path / "pool.db", DayClock().now()) as ledger:
        model = MeasuredModel(taking(1_000))
        with trio.move_on_after(1):
            async with working(FakeBoard(tasks=1), model, ledger=ledger, max_output_tokens=LIMIT):
                await trio.sleep(0.5)
                (tmp_path / "killed.db").write_bytes((tmp_path / "pool.db").read_bytes())
                (tmp_path / "killed.db-wal").write_bytes((tmp_path / "pool.db-wal").read_bytes())
                await trio.sleep_forever()
    with open_ledger(tmp_path / "killed.db", DayClock().now()) as ledger:
        assert tokens_of(ledger) == model.brief + LIMIT


class _GoingOn(DayClock):
    """Later at each look, as a real clock is."""

    _looks = 0

    def now(self) -> float:
        self._looks += 1
        return super().now() + self._looks / 1_000


@pytest.mark.spec("POOL-12", "POOL-21")
async def test_what_the_caps_allow_now_is_allowed_at_once_although_the_clock_goes_on(autojump_clock):
    worker = Worker("w", "m", "http://127.0.0.1:1/v1", max_tokens_per_day=2_000, max_output_tokens=LIMIT)
    clock = _GoingOn()
    with open_ledger(None, clock.now()) as ledger:
        context = WorkerContext(
            worker, WorkerRecord(), Stop(), CHANCE, Endpoint(worker.base_url), ledger, clock
        )
        budget = Budget(context)
        now = trio.current_time()
        for _ in range(2):
            assert budget.call_allowed_at(now) <= now
            assert budget.tokens_allowed_at(now) <= now
            budget.check(MESSAGES)
            usage = Usage(10, 10, is_estimated=False)
            budget.end(budget.begin("m", MESSAGES), outcome="answered", usage=usage, seconds=1.0)


@pytest.mark.spec("POOL-30")
def test_an_answer_of_which_nothing_is_known_is_taken_for_the_longest_that_can_be_submitted():
    assert estimate_usage((), "x" * RESULT_CHARS).tokens == UNSEEN_OUTPUT_TOKENS == 5_000


@pytest.mark.spec("POOL-29")
def test_the_most_that_a_call_can_take_is_a_token_a_byte_and_the_limit():
    messages: list[Message] = [{"role": "user", "content": "é字🙂"}]
    assert most_tokens(messages, 100) >= 9 + 100
    assert most_tokens(messages, None) == float("inf")

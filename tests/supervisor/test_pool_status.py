"""What there is to see of a running pool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections, taking
from test_pool_worker import failure

from supervisor.board.errors import BoardAwayError
from supervisor.config.roster import Roster, Worker
from supervisor.memory.clock import DayClock
from supervisor.model.usage import Usage
from supervisor.pool import Pool, Setup, open_pool
from supervisor.rules.failures import FailureClass
from supervisor.rules.policy import CONSEQUENCES, Move

URL = "http://127.0.0.1:1/v1"
NOON = 1_796_040_000.0
"""2026-11-30T12:00:00Z"""


def worker(name: str, **fields: object) -> Worker:
    return Worker(**{"name": name, "model": "m", "base_url": URL, "max_calls_per_hour": 1_000, **fields})


@asynccontextmanager
async def pool_of(
    board: FakeBoard, models: dict[str, ScriptedModel], *workers: Worker, **options: object
) -> AsyncIterator[Pool]:
    def connections_of(setup: Setup):
        return connections(board, models[setup.worker.name], setup.worker.name)

    with trio.fail_after(1_000_000):
        async with open_pool(
            Roster(workers, **options),
            url="",
            tokens={},
            keys={},
            connections_of=connections_of,
            chance=CHANCE,
            clock=DayClock(lambda: NOON),
        ) as pool:
            yield pool
    assert board.connections == 0


def seen(pool: Pool, name: str):
    return next(status for status in pool.status().workers if status.name == name)


def replace(pool: Pool, *workers: Worker, **secrets: object) -> None:
    pool.replace_roster(Roster(workers), secrets.get("tokens", {}), secrets.get("keys", {}))


@pytest.mark.spec("POOL-26")
async def test_a_worker_that_waits_and_one_that_works(autojump_clock):
    board = FakeBoard()
    async with pool_of(
        board, {"a": ScriptedModel(taking(100))}, worker("a", max_tokens_per_day=9_000)
    ) as pool:
        await trio.sleep(1)
        assert seen(pool, "a").state == "waiting"
        board.add()
        await trio.sleep(1)
        status = seen(pool, "a")
        assert (status.state, status.until, status.reason) == ("working", None, None)
        assert [(task.task_id, task.since) for task in status.tasks] == [(1, "2026-11-30T12:00:01.000Z")]
        assert (status.calls_last_hour, status.max_calls_per_hour) == (1, 1_000)
        assert status.max_tokens_per_day == 9_000
        assert status.tokens_are_estimated
        (endpoint,) = pool.status().endpoints
        assert (endpoint.health, endpoint.last_call_at) == ("unknown", "2026-11-30T12:00:01.000Z")
        await trio.sleep(200)
        status = seen(pool, "a")
        assert (status.state, status.tasks) == ("waiting", ())
        assert (status.tokens_last_day, status.tokens_are_estimated) == (120, False)
        (endpoint,) = pool.status().endpoints
        assert (endpoint.health, endpoint.last_answer_at) == ("well", "2026-11-30T12:01:41.000Z")


@pytest.mark.spec("POOL-26")
async def test_a_cool_down_shows_at_the_worker_and_at_the_endpoint(autojump_clock):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure("rate_limited", 300), taking(50))
    async with pool_of(board, {"a": model}, worker("a")) as pool:
        assert pool.status().endpoints[0].health == "unknown"
        await trio.sleep(1)
        status = seen(pool, "a")
        assert (status.state, status.until) == ("cooling_down", "2026-11-30T12:05:00.000Z")
        (endpoint,) = pool.status().endpoints
        assert (endpoint.health, endpoint.until) == ("cooling_down", "2026-11-30T12:05:00.000Z")
        assert (endpoint.base_url, endpoint.workers, endpoint.troubles) == (URL, ("a",), 1)
        assert (endpoint.last_failure, endpoint.last_failure_at) == (
            "rate_limited",
            "2026-11-30T12:00:00.000Z",
        )
        await trio.sleep(310)
        endpoint = pool.status().endpoints[0]
        assert (endpoint.health, endpoint.until) == ("failing", None)
        assert endpoint.failing_since == "2026-11-30T12:00:00.000Z"
        await trio.sleep(50)
        endpoint = pool.status().endpoints[0]
        assert (endpoint.health, endpoint.failing_since) == ("well", None)
        assert (endpoint.last_failure, endpoint.last_failure_at) == (
            "rate_limited",
            "2026-11-30T12:00:00.000Z",
        )


WELL_ALL_THE_SAME = {FailureClass.CONTENT, FailureClass.CONTEXT_LENGTH}
COOLED_DOWN = {kind for kind, consequence in CONSEQUENCES.items() if consequence.move is Move.COOL_DOWN}


@pytest.mark.spec("POOL-26")
@pytest.mark.parametrize("kind", list(CONSEQUENCES))
async def test_an_endpoint_that_has_only_failed_says_how_and_since_when(autojump_clock, kind):
    board, model = FakeBoard(tasks=1), ScriptedModel(failure(kind))
    async with pool_of(board, {"a": model}, worker("a", cooldown_seconds=86_400)) as pool:
        await trio.sleep(1)
        (endpoint,) = pool.status().endpoints
    expected = "well" if kind in WELL_ALL_THE_SAME else "cooling_down" if kind in COOLED_DOWN else "failing"
    assert endpoint.health == expected
    assert (endpoint.last_failure, endpoint.last_failure_at) == (kind.value, "2026-11-30T12:00:00.000Z")
    assert (endpoint.failing_since is None) == (expected == "well")
    assert (endpoint.last_answer_at is None) == (expected != "well")


@pytest.mark.spec("POOL-26")
async def test_an_endpoint_is_shown_for_as_long_as_the_roster_has_it_with_the_workers_that_use_it(
    autojump_clock,
):
    board = FakeBoard(tasks=1)
    models = {"a": ScriptedModel(failure("auth")), "b": ScriptedModel(), "c": ScriptedModel()}
    elsewhere = "http://127.0.0.1:2/v1"
    workers = worker("a"), worker("b", base_url=elsewhere), worker("c", base_url=elsewhere)
    board.tasks[1].free_for.update(b=1e9, c=1e9)
    async with pool_of(board, models, *workers) as pool:
        await trio.sleep(1)
        assert seen(pool, "a").state == "parked"
        shown = {
            endpoint.base_url: (endpoint.workers, endpoint.health) for endpoint in pool.status().endpoints
        }
        assert shown == {URL: (("a",), "failing"), elsewhere: (("b", "c"), "unknown")}
        replace(pool, workers[1])
        await trio.sleep(1)
        (endpoint,) = pool.status().endpoints
        assert (endpoint.base_url, endpoint.workers) == (elsewhere, ("b",))


@pytest.mark.spec("POOL-26")
async def test_the_models_and_prices_of_a_worker_are_shown_with_what_it_has_cost(autojump_clock):
    board = FakeBoard()
    model = ScriptedModel(failure("config"), "fine")
    fields = {"fallback_models": ("n",), "price_input": 10_000.0, "price_output": 50_000.0, "concurrency": 3}
    async with pool_of(
        board,
        {"a": model, "b": ScriptedModel()},
        worker("a", **fields),
        worker("b", base_url="http://[::1]/v1"),
    ) as pool:
        await trio.sleep(1)
        assert (seen(pool, "a").cost_last_day, seen(pool, "b").cost_last_day) == (0.0, None)
        board.add(free_for={"b": 1e9})
        await trio.sleep(1)
        status = seen(pool, "a")
    assert (status.model, status.fallback_models, status.unusable_models) == ("m", ("n",), ("m",))
    assert (status.price_input, status.price_output, status.concurrency) == (10_000.0, 50_000.0, 3)
    assert status.cost_last_day == pytest.approx(2.0)


@pytest.mark.spec("POOL-26")
@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        (ScriptedModel(), {"max_calls_per_hour": 1}, ("at_cap", "2026-11-30T13:00:00.000Z", "hourly_cap")),
        (
            ScriptedModel(usage=Usage(990, 10, is_estimated=False)),
            {"max_tokens_per_day": 1_000},
            ("at_cap", "2026-12-01T12:00:00.000Z", "daily_cap"),
        ),
        (
            ScriptedModel(failure("server", 60)),
            {},
            ("backing_off", "2026-11-30T12:01:00.000Z", "back_off"),
        ),
        (
            ScriptedModel(ValueError()),
            {},
            ("restarting", "2026-11-30T12:00:07.000Z", None),
        ),
        (ScriptedModel(failure("auth")), {}, ("parked", None, "auth: a detail")),
    ],
    ids=["hourly", "daily", "back_off", "restarting", "parked"],
)
async def test_why_a_worker_takes_no_task_and_until_when(autojump_clock, model, fields, expected):
    board = FakeBoard(tasks=3)
    async with pool_of(board, {"a": model}, worker("a", **{"system_prompt": "", **fields})) as pool:
        await trio.sleep(3.5)
        status = seen(pool, "a")
        assert (status.state, status.until, status.reason) == expected
        assert status.parked_since == ("2026-11-30T12:00:00.000Z" if status.state == "parked" else None)
        assert status.restarts == (3 if status.state == "restarting" else 0)


@pytest.mark.spec("POOL-26")
async def test_a_board_that_is_away_shows(autojump_clock):
    board = FakeBoard()
    board.open_faults = [BoardAwayError("the board cannot be reached")] * 3
    async with pool_of(board, {"a": ScriptedModel()}, worker("a")) as pool:
        await trio.sleep(0.5)
        status = seen(pool, "a")
        assert (status.state, status.until) == ("board_away", "2026-11-30T12:00:01.000Z")
        assert status.reason == "the board cannot be reached"


@pytest.mark.spec("POOL-26")
async def test_the_snapshot_is_plain_json(autojump_clock):
    board = FakeBoard(tasks=1)
    async with pool_of(board, {"a": ScriptedModel(taking(5))}, worker("a", price_input=1.0)) as pool:
        await trio.sleep(1)
        shown = json.loads(json.dumps(pool.status().as_json(), allow_nan=False))
    assert shown["time"] == "2026-11-30T12:00:01.000Z"
    assert shown["workers"][0]["tasks"] == [{"task_id": 1, "since": "2026-11-30T12:00:00.000Z"}]
    assert shown["endpoints"][0]["workers"] == ["a"]


@pytest.mark.spec("POOL-26")
@pytest.mark.parametrize("step", ["fine", failure("content")], ids=["an answer", "a failure"])
async def test_a_worker_whose_task_has_ended_and_waits_for_the_board_says_so(autojump_clock, step: object):
    board = FakeBoard(tasks=1)
    async with pool_of(board, {"a": ScriptedModel(step)}, worker("a")) as pool:
        board.faults["submit_result"] = board.faults["release_task"] = [BoardAwayError("no board")] * 4
        await trio.sleep(10)
        status = seen(pool, "a")
        assert (status.state, status.reason, status.held) == ("board_away", "no board", (1,))
        assert status.until == "2026-11-30T12:00:15.000Z"
        await trio.sleep(10)
        status = seen(pool, "a")
        assert (status.state, status.until, status.reason, status.held) == ("waiting", None, None, ())


@pytest.mark.spec("POOL-26")
async def test_a_parked_worker_is_shown_as_parked_while_its_task_waits_for_the_board(autojump_clock):
    board = FakeBoard(tasks=1)
    async with pool_of(board, {"a": ScriptedModel(failure("auth"))}, worker("a")) as pool:
        board.faults["release_task"] = [BoardAwayError("no board")] * 4
        await trio.sleep(10)
        status = seen(pool, "a")
        assert (status.state, status.until, status.held) == ("parked", None, (1,))
        assert "auth" in str(status.reason)


@pytest.mark.spec("POOL-26")
async def test_while_the_pool_stops_its_workers_are_leaving(autojump_clock):
    board = FakeBoard(tasks=1)
    models = {name: ScriptedModel(taking(100)) for name in "ab"}
    async with pool_of(board, models, worker("a"), worker("b"), grace_seconds=3.0) as pool:
        await trio.sleep(1)
        # whoever was first got the task
        busy, idle = sorted(models, key=lambda name: not seen(pool, name).held)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.drain)
            await trio.sleep(1)
            assert (seen(pool, busy).state, seen(pool, busy).held) == ("draining", (1,))
            assert seen(pool, idle).state == "stopped"

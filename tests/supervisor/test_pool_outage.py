"""The board is away for an hour: nobody is parked, nobody calls a model in vain, and nobody comes back in a crowd."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections, taking

from supervisor.config.roster import Roster, Worker
from supervisor.pool import Pool, Setup, open_pool
from supervisor.work.context import Chance

HOUR = 3_600.0
LEASE = 1_800.0
REQUESTS_MAX = 250
"""Of one worker in the hour: one in 15 s, and the first ones sooner."""
BACK_WITHIN_SECONDS = 30.0


@asynccontextmanager
async def pool_of(board: FakeBoard, models: Mapping[str, ScriptedModel]) -> AsyncIterator[Pool]:
    """A worker for each model, with waits that are spread at random, in the same way each time."""
    workers = tuple(Worker(name, "m", "http://127.0.0.1:1/v1", max_calls_per_hour=1_000) for name in models)

    def connections_of(setup: Setup):
        return connections(board, models[setup.worker.name], setup.worker.name)

    chance = Chance(mark=CHANCE.mark, jitter=random.Random(7).random)  # noqa: S311 - spreads waits
    with trio.fail_after(100 * HOUR):
        async with open_pool(
            Roster(workers), url="", tokens={}, keys={}, connections_of=connections_of, chance=chance
        ) as pool:
            yield pool


async def be_away(board: FakeBoard, seconds: float) -> tuple[float, float]:
    """From when to when. Whoever waits inside the board is cut off at once, and nobody gets in."""
    gone_at = trio.current_time()
    board.is_away = True
    board.notify()
    await trio.sleep(seconds)
    board.is_away = False
    return gone_at, trio.current_time()


@pytest.mark.spec("SUP-12", "POOL-17")
async def test_an_hour_without_the_board_parks_nobody_and_costs_no_model_call(autojump_clock):
    board = FakeBoard(tasks=2, lease_seconds=LEASE)
    board.tasks[2].lease_seconds = 3 * HOUR
    slow, ready = ScriptedModel(taking(10 * HOUR), "second try"), ScriptedModel(taking(HOUR / 2, "kept"))
    models = {"slow": slow, "ready": ready} | {f"idle{number}": ScriptedModel() for number in range(8)}
    board.tasks[1].free_for = {name: 1e9 for name in models if name != "slow"}
    board.tasks[2].free_for = {name: 1e9 for name in models if name != "ready"}
    with structlog.testing.capture_logs() as logs:
        async with pool_of(board, models) as pool:
            await trio.sleep(100)
            assert board.held() == [1, 2]
            board.arrivals.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(be_away, board, HOUR)
                await trio.sleep(HOUR - 1)
                states = {worker.name: worker.state for worker in pool.status().workers}
                held = {worker.name: worker.held for worker in pool.status().workers if worker.held}
            calls_made = sum(len(model.calls) for model in models.values())
            knocks = list(board.arrivals)
            for _ in range(8):
                board.add()
            await trio.sleep(HOUR)
            workers = pool.status().workers
    assert [worker.parked for worker in workers] == [None] * 10
    assert sum(worker.restarts for worker in workers) == 0
    assert {state for name, state in states.items() if name.startswith("idle")} == {"board_away"}
    assert held == {"slow": (1,), "ready": (2,)}
    assert calls_made == 2
    assert slow.running == 0
    for name in models:
        asked = sum(who == name for who, _ in knocks)
        assert 0 < asked <= REQUESTS_MAX, name
    assert board.tasks[2].result == "kept"
    assert board.tasks[1].result == "second try"
    assert (board.tasks[1].expiries, board.tasks[1].releases) == (1, [])
    assert {task.status for task in board.tasks.values()} == {"submitted"}
    assert not [line for line in logs if line["log_level"] == "error"]


@pytest.mark.spec("SUP-12")
@pytest.mark.parametrize("is_away_from_the_start", [True, False])
async def test_after_an_hour_without_the_board_the_workers_come_back_one_by_one(
    autojump_clock, is_away_from_the_start: bool
):
    board = FakeBoard()
    models = {f"w{number}": ScriptedModel(taking(1)) for number in range(40)}
    board.is_away = is_away_from_the_start
    async with pool_of(board, models) as pool:
        await trio.sleep(0 if is_away_from_the_start else 100)
        _, back_at = await be_away(board, HOUR)
        board.arrivals.clear()
        for _ in range(200):
            board.add()
        await trio.sleep(BACK_WITHIN_SECONDS)
        first: dict[str, float] = {}
        for name, moment in board.arrivals:
            first.setdefault(name, moment)
        await trio.sleep(100)
        parked = [worker.parked for worker in pool.status().workers]
    assert first.keys() == models.keys()
    busiest = max(sum(moment <= other < moment + 1 for other in first.values()) for moment in first.values())
    assert busiest <= len(models) / 5
    assert min(first.values()) >= back_at
    assert parked == [None] * 40
    assert {task.status for task in board.tasks.values()} == {"submitted"}

"""Many workers, many tasks, and everything that goes wrong at once."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
import trio
from fake_board import USAGE, FakeBoard, ScriptedModel, connections
from test_pool_worker import failure

from supervisor.config.roster import Roster, Worker
from supervisor.pool import Setup, open_pool
from supervisor.work.context import Chance

WORKERS, TASKS, CAP = 20, 500, 40
HOUR = 3_600.0


@pytest.mark.spec("SUP-1", "SUP-7", "POOL-12", "POOL-18", "POOL-22")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_task_is_done_once_or_waits_for_the_leader_and_no_cap_is_exceeded(
    autojump_clock, tmp_path, seed: int
):
    """One call in five fails, the board goes away three times, two workers have a bug."""
    draw = random.Random(seed)  # noqa: S311 - a test that can be run again
    board = FakeBoard(tasks=TASKS, lease_seconds=300)
    answers = bugs = 0

    def model_of(name: str) -> ScriptedModel:
        async def call() -> str:
            nonlocal answers, bugs
            await trio.sleep(draw.uniform(0.5, 90))
            if name in {"w3", "w7"} and draw.random() < 0.3:
                bugs += 1
                raise ZeroDivisionError
            if draw.random() < 0.2:
                kinds = ["content", "server", "timeout", "network", "rate_limited", "context_length"]
                raise failure(draw.choice(kinds), draw.choice([None, 1, 30]))
            answers += 1
            return f"answer {answers}"

        return ScriptedModel(call)

    models = {f"w{number}": model_of(f"w{number}") for number in range(WORKERS)}
    workers = tuple(
        Worker(
            name,
            "m",
            f"http://127.0.0.1:{1 + number % 4}/v1",
            concurrency=1 + number % 3,
            max_calls_per_hour=CAP,
            cooldown_seconds=60,
            max_failures=3,
            fallback_models=("n",) if number % 2 else (),
        )
        for number, name in enumerate(models)
    )
    marks = iter(range(10**9))
    chance = Chance(mark=lambda: f"m4rk{next(marks)}", jitter=draw.random)

    def connections_of(setup: Setup):
        return connections(board, models[setup.worker.name], setup.worker.name)

    with trio.fail_after(100 * HOUR):
        async with open_pool(
            Roster(workers),
            url="",
            tokens={},
            keys={},
            ledger_path=tmp_path / "pool.db",
            connections_of=connections_of,
            chance=chance,
        ) as pool:
            for _ in range(3):
                await trio.sleep(draw.uniform(200, 900))
                board.is_away = True
                board.notify()
                await trio.sleep(draw.uniform(5, 200))
                board.is_away = False
            while any(task.status != "submitted" and not task.needs_help for task in board.tasks.values()):
                await board.changed()
            status = {worker.name: worker for worker in pool.status().workers}
    parked = {name for name, worker in status.items() if worker.state == "parked"}
    assert parked <= {"w3", "w7"}
    assert sum(worker.restarts for worker in status.values()) > 0
    results = Counter(task.result for task in board.tasks.values() if task.status == "submitted")
    assert max(results.values()) == 1
    assert len(results) + sum(task.needs_help for task in board.tasks.values()) >= TASKS
    assert board.held() == []
    for worker in workers:
        calls = models[worker.name].calls
        assert all(last - first >= HOUR for first, last in zip(calls, calls[CAP:], strict=False))
        assert models[worker.name].most_running <= worker.concurrency
    with closing(sqlite3.connect(tmp_path / "pool.db")) as db:
        kept = Counter(dict(db.execute("SELECT worker, count(*) FROM calls GROUP BY worker")))
        (tokens,) = db.execute(
            "SELECT sum(input_tokens + output_tokens) FROM calls WHERE outcome = 'answered'"
        ).fetchone()
        # One that was parked before it could tell the board leaves that to its next start; the lease has ended the claim.
        assert {name for (name,) in db.execute("SELECT DISTINCT worker FROM claims")} <= parked
    assert kept == {name: len(model.calls) for name, model in models.items()}
    assert tokens == answers * USAGE.tokens
    # A life ends with the first bug, once the other tasks in hand have ended, perhaps with a bug as well.
    lives = {
        worker.name: status[worker.name].restarts + 1 for worker in workers if status[worker.name].restarts
    }
    assert lives.keys() <= {"w3", "w7"}
    assert bugs <= sum(lives[worker.name] * worker.concurrency for worker in workers if worker.name in lives)

"""20 workers, an endpoint that fails one call in five, a board that is killed three times, and two workers with a bug.

    python -m tests.endurance.pool_storm --seed 1 --tasks 500

Board and pool are processes of their own; the endpoint is this one, and keeps its own log. At the end every task is
submitted, once, or waits for the leader; no cap was exceeded; and what the pool says that its workers have used up is
what the endpoint has seen.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from tests.acceptance.programs import open_program, write_agents, write_roster
from tests.acceptance.seats import HttpSeat
from tests.endurance.kill_nine import free_port
from tests.endurance.report import Report, chance_of, main
from tests.endurance.soundness import open_readonly
from tests.endurance.storm_checks import Outcome, check_board, check_budgets, check_restarts, check_words
from tests.endurance.stormy_endpoint import HOPELESS, OUTPUT_TOKENS_MAX, StormyModel
from tests.supervisor.scripted_endpoint import Endpoint, open_endpoint

WORKERS_MAX: Final = 20
KILLS_AFTER: Final = (0.2, 0.45, 0.7)
"""How much of all the tasks is finished when the board is killed."""
SHORT_TASKS: Final = 100
"""A run of fewer tasks kills once, and has a worker for two tasks."""
AWAY_SECONDS: Final = (0.5, 3.0)
AHEAD_TASKS: Final = 60
"""The leader puts so many more on the board than are finished."""
HOPELESS_EVERY: Final = 50
LEASE_SECONDS: Final = 120
"""More than a worker's longest way back: nothing here may need a lease to run out."""
GRACE_SECONDS: Final = 1
SOMETIMES_BUGGY, ALWAYS_BUGGY = "worker-1", "worker-2"
STRIKES: Final = {SOMETIMES_BUGGY: 4, ALWAYS_BUGGY: 1_000}
"""How often the bug strikes: the first worker is restarted each time, the second one is parked in the end."""
LOOK_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 120.0
PATIENCE_SECONDS_A_TASK: Final = 3.0
FINISHED: Final = "status = 'submitted' OR (status = 'open' AND needs_attention IS NOT NULL)"


@dataclass
class Storm:
    """One run, and what its parts know of each other."""

    folder: Path
    chance: random.Random
    tasks: int
    port: int
    report: Report
    keys: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def count(self, condition: str) -> int:
        """The tasks of which this holds. The board may be dead, or be opening its file just now."""
        try:
            with open_readonly(self.folder / "roundtable.db") as db:
                (count,) = db.execute(f"SELECT count(*) FROM tasks WHERE {condition}").fetchone()
        except sqlite3.OperationalError:
            return 0
        return int(count)

    async def wait_for_finished(self, tasks: float) -> None:
        while True:
            if self.count(FINISHED) >= tasks:
                return
            await trio.sleep(LOOK_SECONDS)


async def pool_storm(folder: Path, seed: int, tasks: int) -> Report:
    is_short = tasks < SHORT_TASKS
    workers = min(WORKERS_MAX, tasks // 2) if is_short else WORKERS_MAX
    kills_after = KILLS_AFTER[:1] if is_short else KILLS_AFTER
    report = Report(f"pool_storm: {workers} workers, {tasks} tasks, {len(kills_after)} kills, seed {seed}")
    chance = chance_of(seed)
    storm = Storm(folder, chance, tasks, free_port(chance), report)
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    storm.keys = {name: f"key-of-{name}-{chance.getrandbits(64):x}" for name in names}
    storm.tokens = write_agents(folder, lead="leader", **dict.fromkeys(names, "worker"))
    model = StormyModel(chance, {key: name for name, key in storm.keys.items()}, STRIKES)
    started = trio.current_time()
    async with open_endpoint(model) as endpoint, _open_board(storm, kills_after):
        roster = _write_pool(storm, endpoint)
        settings = {_variable("TOKEN", name): storm.tokens[name] for name in names}
        settings |= {_variable("KEY", name): key for name, key in storm.keys.items()}
        command = (sys.executable, "-m", "tests.endurance.planted_pool")
        async with open_program(*STRIKES, command=command, folder=folder / "pool", settings=settings) as pool:
            with trio.move_on_after(PATIENCE_SECONDS + PATIENCE_SECONDS_A_TASK * tasks) as patience:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_lead, storm)
                    await storm.wait_for_finished(tasks)
            report.expect(not patience.cancelled_caught, "not all tasks have ended in time")
            status = await _settled_status(folder / "pool")
            pool.process.send_signal(signal.SIGTERM)
            report.expect(await pool.ended(GRACE_SECONDS + 5) == 0, "the pool did not stop cleanly")
    (folder / "pool.log").write_text(pool.out.text + pool.err.text)
    outcome = Outcome(model, roster, status, pool, folder)
    check_board(report, outcome, tasks)
    check_budgets(report, outcome)
    check_restarts(report, outcome, STRIKES)
    check_words(report, outcome, [*storm.keys.values(), *storm.tokens.values(), "Storm task", "Answer"])
    report.figures["seconds"] = f"{trio.current_time() - started:.0f}"
    return report


async def _lead(storm: Storm) -> None:
    """Put all tasks on the board, each once, however often it dies."""
    seat = HttpSeat(storm.tokens["lead"])
    for number in range(1, storm.tasks + 1):
        await storm.wait_for_finished(number - AHEAD_TASKS)
        text = HOPELESS if number % HOPELESS_EVERY == 0 else "d"
        task = {"title": f"Storm task {number}", "description": text, "idempotency_key": f"storm-{number}"}
        while True:
            try:
                await seat.call(storm.url, "create_task", **task)
                break
            except httpx.TransportError:
                await trio.sleep(LOOK_SECONDS)
    await seat.aclose()


async def _settled_status(folder: Path) -> dict[str, Any]:
    """What `roundtable status` says of the pool once no worker has anything in hand."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            async with open_program("status", "--json", folder=folder) as status:
                assert await status.ended(20) == 0, status.err.text
            pool: dict[str, Any] = json.loads(status.out.text)["pool"]
            if not any(worker["tasks"] for worker in pool["workers"]):
                return pool


def _variable(kind: str, name: str) -> str:
    return f"{kind}_{name.upper().replace('-', '_')}"


def _write_pool(storm: Storm, endpoint: Endpoint) -> list[dict[str, Any]]:
    """Three endpoints, as far as a pool can tell; caps that bind for some workers, and others that never do."""
    roster = []
    for number, name in enumerate(storm.keys):
        worker: dict[str, Any] = {
            "name": name,
            "model": "usual",
            "base_url": endpoint.url.replace("/v1", f"/{number % 3}/v1"),
            "token_env": _variable("TOKEN", name),
            "api_key_env": _variable("KEY", name),
            "max_calls_per_hour": 1_000,
            "timeout_seconds": 8.0,
            "max_output_tokens": OUTPUT_TOKENS_MAX,
            "cooldown_seconds": 1,
        }
        if (
            name not in STRIKES
        ):  # one task at a time: a bug would take others along, and their answers with them
            worker["concurrency"] = 1 + number % 3
        if number % 2:
            worker["fallback_models"] = ["spare"]
        if number % 5 == 2:
            worker["max_calls_per_hour"] = max(2, storm.tasks // 40)
        if number % 5 == 3:
            worker["max_tokens_per_day"] = max(700, storm.tasks * 6)
        if number % 5 == 4:
            worker["max_failures"] = 1
        roster.append(worker)
    (storm.folder / "pool").mkdir()
    pool = {"grace_seconds": GRACE_SECONDS, "poll_interval": 0.2, "url": storm.url}
    write_roster(storm.folder / "pool", pool, *roster)
    return roster


@asynccontextmanager
async def _open_board(storm: Storm, kills_after: Sequence[float]) -> AsyncIterator[None]:
    """The board, killed and started again on its way; stopped at the end."""
    settings = {
        "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0",
        "ROUNDTABLE_PORT": str(storm.port),
        "ROUNDTABLE_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    is_over = trio.Event()

    async def keep_starting(task_status: trio.TaskStatus[None]) -> None:
        for part in kills_after:
            async with open_program("serve", folder=storm.folder, settings=settings) as serve:
                await serve.url()
                if part == kills_after[0]:
                    task_status.started()
                await storm.wait_for_finished(part * storm.tasks)
                serve.process.send_signal(signal.SIGKILL)
                await serve.ended(10)
            await trio.sleep(storm.chance.uniform(*AWAY_SECONDS))
        async with open_program("serve", folder=storm.folder, settings=settings) as serve:
            await serve.url()
            await is_over.wait()
            serve.process.send_signal(signal.SIGTERM)
            storm.report.expect(await serve.ended(10) == 0, "the board did not stop cleanly")

    async with trio.open_nursery() as nursery:
        await nursery.start(keep_starting)
        yield
        is_over.set()


if __name__ == "__main__":
    main(pool_storm, __doc__ or "", size="tasks", default=500)

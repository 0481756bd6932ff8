"""16 workers with a token each race over HTTP for one task after another: each has exactly one winner.

python -m tests.endurance.race --seed 1 --tasks 200
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import trio

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import HttpSeat, RefusedError
from tests.endurance.report import Report, chance_of, main

WORKERS = 16
TASK_SECONDS = 30.0


async def race(folder: Path, seed: int, tasks: int) -> Report:
    report = Report(f"race: {WORKERS} workers, {tasks} tasks, seed {seed}")
    chance = chance_of(seed)
    names = [f"worker_{number}" for number in range(1, WORKERS + 1)]
    tokens = write_agents(folder, lead="leader", **dict.fromkeys(names, "worker"))
    seats = {name: HttpSeat(token) for name, token in tokens.items()}
    settings = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0"}
    wins: Counter[str] = Counter()
    losers: Counter[str] = Counter()
    async with open_program("serve", folder=folder, settings=settings) as serve:
        url = await serve.url()
        started = trio.current_time()
        for number in range(1, tasks + 1):
            with trio.fail_after(TASK_SECONDS):
                task_id = (
                    await seats["lead"].call(url, "create_task", title=f"Race {number}", description="d")
                )["task_id"]
                winners = await _claim_all(seats, chance.sample(names, WORKERS), url, task_id, losers)
                report.expect(len(winners) == 1, f"task {task_id} was won by {winners}")
                for winner in winners[:1]:
                    wins[winner] += 1
                    await seats[winner].call(url, "submit_result", task_id=task_id, result=f"by {winner}")
        seconds = trio.current_time() - started
        for seat in seats.values():
            await seat.aclose()
    report.expect(set(losers) <= {"conflict"}, f"losers were told {dict(losers)}")
    claims, calls, together = _what_the_board_saw(folder)
    report.expect(claims == tasks, f"the database has {claims} claims for {tasks} tasks")
    report.figures |= {
        "calls": calls,
        "seconds": f"{seconds:.1f} ({calls / seconds:.0f} calls a second)",
        "won": sum(wins.values()),
        "lost": dict(losers),
        "wins a worker": " ".join(str(wins[name]) for name in names),
        "rivals there when a race was decided": f"{together:.1f} of {WORKERS - 1} on average",
    }
    return report


async def _claim_all(
    seats: dict[str, HttpSeat], order: list[str], url: str, task_id: int, losers: Counter[str]
) -> list[str]:
    """Let all claim the task at once, in this order as far as there is one. Returns who won."""
    winners: list[str] = []
    start = trio.Event()

    async def claim(name: str) -> None:
        await start.wait()
        try:
            answer = await seats[name].call(url, "claim_task", task_id=task_id)
        except RefusedError as refused:
            losers[refused.code] += 1
        else:
            assert answer["task"]["task_id"] == task_id, answer
            winners.append(name)

    async with trio.open_nursery() as nursery:
        for name in order:
            nursery.start_soon(claim, name)
        start.set()
    return winners


def _what_the_board_saw(folder: Path) -> tuple[int, int, float]:
    """Claims ever made, tool calls, and how many rivals' calls had arrived, on average, when a winner was decided."""
    with closing(sqlite3.connect(f"file:{folder / 'roundtable.db'}?mode=ro", uri=True)) as db:
        (claims,) = db.execute("SELECT count(*) FROM claims").fetchone()
        (calls,) = db.execute("SELECT count(*) FROM audit_log").fetchone()
        rows = db.execute(
            "SELECT task_id, time, duration_ms, outcome FROM audit_log WHERE tool = 'claim_task'"
        ).fetchall()
    arrivals = [(task_id, datetime.fromisoformat(time)) for task_id, time, _, _ in rows]
    rivals = 0
    for won, time, duration_ms, outcome in rows:
        if outcome == "ok":
            decided = datetime.fromisoformat(time) + timedelta(milliseconds=duration_ms)
            rivals += sum(task_id == won and arrived <= decided for task_id, arrived in arrivals) - 1
    return claims, calls, rivals / max(claims, 1)


if __name__ == "__main__":
    main(race, __doc__ or "", size="tasks", default=200)

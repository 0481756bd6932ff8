"""SIGKILL of `roundtable up` at random moments, from its first printed line on, again and again on one board.

    python -m tests.endurance.kill_pool --seed 1 --kills 50

After the next start, or one lease, nothing is stuck: the pool releases what it took before, and what the board gave and
nobody got runs out. No task is lost, made twice or done twice, no cap is exceeded, and audit log and history are whole.
"""

from __future__ import annotations

import random
import re
import signal
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from tests.acceptance.programs import Program, open_program, write_agents, write_roster
from tests.endurance.onlooker import LOOK_SECONDS, Onlooker
from tests.endurance.report import Report, chance_of, main
from tests.endurance.soundness import faults_of, open_readonly
from tests.supervisor.scripted_endpoint import Endpoint, Request, completion, open_endpoint, response

LEASE_SECONDS: Final = 30
"""The shortest that there is."""
RELEASED_WITHIN_SECONDS: Final = 10.0
"""What the pool knows that it took is back so long after the next start, however busy the machine is."""
RUN_OUT_WITHIN_SECONDS: Final = LEASE_SECONDS + 5.0
LONGEST_SECONDS: Final = (0.1, 2.5, 4.0)
"""A moment lies between the first line and one of these: while it starts, at the first claims, at work."""
SETTLING_EVERY: Final = 3
"""In so many rounds the kill comes only after what was held before has come back."""
FIRST_RUN_EVERY: Final = 10
FIRST_RUN_SECONDS: Final = 0.4
LAST_SECONDS: Final = 120.0
PACES: Final = ("varying", "instant", "hanging")
CONCURRENCY: Final = {"poet-1": 1, "poet-2": 2, "poet-3": 3, "poet-4": 3}
CAPS: Final = {"poet-4": 20}
"""Calls an hour, which no number of kills resets."""
RESTING: Final = f"""status = 'open' AND {len(CONCURRENCY) - len(CAPS)} = (
    SELECT count(*) FROM cooldowns c WHERE c.task_id = tasks.task_id AND c.agent NOT IN ('{"', '".join(CAPS)}'))"""
"""A claim that ran out keeps the task from its worker for a quarter of an hour. Kills enough, and it is kept from them all."""
SETTINGS: Final = {
    "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0",
    "ROUNDTABLE_LEASE_SECONDS": str(LEASE_SECONDS),
    "ROUNDTABLE_FIRST_LINE": "a warning about this is the very first thing that the program prints",
}

_TASK = re.compile(r"Task number (\d+)")


@dataclass
class _Model:
    """The script of the endpoint, at a pace that is set for each round; its own log of calls and answers."""

    chance: random.Random
    pace: str = "instant"
    calls: Counter[str] = field(default_factory=Counter)
    answers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each task, by its title."""

    async def __call__(self, request: Request, stream: trio.SocketStream) -> None:
        self.calls[request.json["model"]] += 1
        found = _TASK.search(request.json["messages"][-1]["content"])
        assert found
        if self.pace == "hanging":
            await stream.receive_some(1)
            return
        if self.pace == "varying":
            await trio.sleep(self.chance.choice([0.0, 0.02, 0.1, 0.5, 2.0]))
        answer = f"Answer {self.calls.total()} to {found[0]}."
        self.answers[found[0]].add(answer)
        await stream.send_all(response(200, completion(answer)))


@dataclass
class _Tally:
    """What the kills left behind, and how it came back."""

    phases: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Claims that last after the last kill, as far as the pool has noted them, and all others."""
    left: Counter[str] = field(default_factory=Counter)
    released_seconds: list[float] = field(default_factory=list)
    run_out_seconds: list[float] = field(default_factory=list)


async def kill_pool(folder: Path, seed: int, kills: int) -> Report:
    report = Report(f"kill_pool: {kills} kills, leases of {LEASE_SECONDS} s, seed {seed}")
    chance = chance_of(seed)
    model, tally = _Model(chance), _Tally()
    started = trio.current_time()
    first_runs = 0
    async with open_endpoint(model) as endpoint:
        board = Onlooker(folder, _configure(folder, endpoint)["lead"])
        for number in range(1, kills + 1):
            model.pace = PACES[number % len(PACES)]
            if number % FIRST_RUN_EVERY == 0:
                (folder / f"first-{number}").mkdir()
                await _kill_first_run(
                    folder / f"first-{number}", chance.uniform(0, FIRST_RUN_SECONDS), report
                )
                first_runs += 1
                continue
            moment = chance.uniform(0, chance.choice(LONGEST_SECONDS))
            await _kill_once(board, tally, moment, settles=number % SETTLING_EVERY == 0, report=report)
            report.violations += [f"after kill {number}: {fault}" for fault in board.faults()]
        model.pace = "instant"
        await _run_to_the_end(board, tally, report)
    _check_tasks(board, model, report)
    _check_calls(board, model, report)
    report.figures |= {
        "when they came": dict(tally.phases),
        "first runs killed": first_runs,
        "claims left by the kills": dict(tally.left),
        "seconds until the pool had released its own": _range(tally.released_seconds),
        "seconds until the others had run out": _range(tally.run_out_seconds),
        "seconds": f"{trio.current_time() - started:.0f}",
        "violations": len(report.violations),
    }
    return report


def _configure(folder: Path, endpoint: Endpoint) -> dict[str, str]:
    workers = [
        {
            "name": name,
            "model": name,  # by which the endpoint knows who calls
            "base_url": endpoint.url,
            "concurrency": concurrency,
            "max_calls_per_hour": CAPS.get(name, 100_000),
        }
        for name, concurrency in CONCURRENCY.items()
    ]
    write_roster(folder, {"grace_seconds": 1, "poll_interval": 0.1}, *workers)
    return write_agents(folder, lead="leader")


async def _kill_once(board: Onlooker, tally: _Tally, moment: float, *, settles: bool, report: Report) -> None:
    with trio.fail_after(LAST_SECONDS):
        async with open_program("up", folder=board.folder, settings=SETTINGS) as up:
            await up.err.line()
            if settles:
                await _settle(board, tally, await up.url(), report)
            with trio.move_on_after(moment):
                await board.lead(await up.url())
            tally.phases[_phase(up)] += 1
            up.process.send_signal(signal.SIGKILL)
            await up.ended(10)
    held = set(board.held())
    tally.known = held & board.known_to_pool()
    tally.unknown = held - tally.known
    tally.left["noted by the pool"] += len(tally.known)
    tally.left["not noted"] += len(tally.unknown)


async def _settle(board: Onlooker, tally: _Tally, url: str, report: Report) -> None:
    """Just started: what was held before comes back."""
    seconds = await board.wait_ended(tally.known, RELEASED_WITHIN_SECONDS)
    report.expect(seconds is not None, f"the pool did not release {tally.known & board.held().keys()}")
    if tally.known and seconds is not None:
        tally.released_seconds.append(seconds)
    if tally.unknown:
        seconds = await board.wait_ended(tally.unknown, RUN_OUT_WITHIN_SECONDS)
        report.expect(seconds is not None, f"{tally.unknown & board.held().keys()} outlived their lease")
        tally.run_out_seconds += [] if seconds is None else [seconds]


def _phase(up: Program) -> str:
    if not up.out.lines:
        return "starting"
    if not up.count("claimed"):
        return "before the first claim"
    return "at work"


async def _kill_first_run(folder: Path, moment: float, report: Report) -> None:
    """Where nothing was before: the next start goes on from whatever is there."""
    with trio.fail_after(LAST_SECONDS):
        async with open_program("up", folder=folder, settings=SETTINGS) as up:
            await up.err.line()
            await trio.sleep(moment)
            up.process.send_signal(signal.SIGKILL)
            await up.ended(10)
        async with open_program("up", folder=folder, settings=SETTINGS) as up:
            await up.url()
            up.process.send_signal(signal.SIGTERM)
            report.expect(await up.ended(10) == 0, f"{folder.name}: did not stop cleanly")
    with open_readonly(folder / "roundtable.db") as db:
        report.violations += [f"{folder.name}: {fault}" for fault in faults_of(db)]


async def _run_to_the_end(board: Onlooker, tally: _Tally, report: Report) -> None:
    """Nobody kills any more: everything comes back, and all tasks are finished."""
    with trio.fail_after(2 * LAST_SECONDS):
        async with open_program("up", folder=board.folder, settings=SETTINGS) as up:
            await _settle(board, tally, await up.url(), report)
            with trio.move_on_after(LAST_SECONDS) as patience:
                while True:
                    if not board.count(f"status <> 'submitted' AND NOT ({RESTING})"):
                        break
                    await trio.sleep(LOOK_SECONDS)
            report.expect(not patience.cancelled_caught, "not all tasks were finished in the end")
            report.figures["tasks that ran out at every worker, and rest"] = board.count(RESTING)
            up.process.send_signal(signal.SIGTERM)
            report.expect(await up.ended(10) == 0, "the last program did not stop cleanly")
    report.expect(not board.held(), f"left claimed: {board.held()}")
    report.expect(not board.known_to_pool(), "the pool thinks that it still holds something")
    report.violations += [f"at the end: {fault}" for fault in board.faults()]


def _check_tasks(board: Onlooker, model: _Model, report: Report) -> None:
    with open_readonly(board.database) as db:
        rows = db.execute("SELECT task_id, title, result FROM tasks").fetchall()
        submits = Counter(
            task_id for (task_id,) in db.execute("SELECT task_id FROM history WHERE event = 'submitted'")
        )
        report.figures["claims ended"] = dict(
            db.execute("SELECT ended_by, count(*) FROM claims GROUP BY ended_by")
        )
    titles = Counter(title for _, title, _ in rows)
    lost = [
        title for title, is_acknowledged in board.created.items() if is_acknowledged and not titles[title]
    ]
    report.expect(not lost, f"tasks that the board had are lost: {lost}")
    report.expect(titles.keys() <= board.created.keys(), "there are tasks that nobody made")
    report.expect(max(titles.values(), default=0) <= 1, "a task is there twice")
    for task_id, title, result in rows:
        report.expect(submits[task_id] <= 1, f"task {task_id} was submitted {submits[task_id]} times")
        report.expect(
            result is None or result in model.answers[title],
            f"task {task_id} has a result that was not made for it",
        )
    report.figures["tasks"] = f"{len(rows)}, of which {sum(submits.values())} submitted"


def _check_calls(board: Onlooker, model: _Model, report: Report) -> None:
    """The pool counts a call before it makes it: a kill can make it count one too many, and never one too few."""
    with open_readonly(board.pool_file) as db:
        kept = dict(db.execute("SELECT worker, count(*) FROM calls GROUP BY worker"))
        broken_off = dict(
            db.execute("SELECT worker, count(*) FROM calls WHERE outcome = 'running' GROUP BY worker")
        )
    for worker in CONCURRENCY:
        made, counted, unsure = model.calls[worker], kept.get(worker, 0), broken_off.get(worker, 0)
        report.expect(
            made <= counted <= made + unsure,
            f"{worker}: {made} calls, the pool counted {counted}, {unsure} of them broken off",
        )
        report.expect(counted <= CAPS.get(worker, 100_000), f"{worker}: {counted} calls, over its cap")
    report.figures["model calls"] = f"{model.calls.total():,}, of which {sum(broken_off.values())} broken off"


def _range(seconds: list[float]) -> str:
    return f"{min(seconds):.1f} to {max(seconds):.1f}, {len(seconds)} times" if seconds else "none"


if __name__ == "__main__":
    main(kill_pool, __doc__ or "", size="kills", default=50)

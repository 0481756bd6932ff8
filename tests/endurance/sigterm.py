"""SIGTERM at random moments of `roundtable up`, from its first printed line on: it ends with 0, in time, nothing left claimed.

    python -m tests.endurance.sigterm --seed 1 --moments 200

The model is an endpoint on loopback that answers at once, after a while, or never.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tests.acceptance.programs import Program, open_program, write_agents, write_roster
from tests.acceptance.seats import HttpSeat
from tests.endurance.report import Report, chance_of, main
from tests.endurance.soundness import faults_of, open_readonly
from tests.supervisor.scripted_endpoint import Endpoint, Request, completion, open_endpoint, response

GRACE_SECONDS = 1
STOP_SECONDS = GRACE_SECONDS + 5
LONGEST_SECONDS: Final = (0.08, 3.0, 5.0)
"""A moment lies between the first line and one of these: while it starts, at the first claims, at work."""
OPEN_TASKS = 160
"""At least half of them are there at each start: more than the workers finish in a second or two."""

PACES: Final = ("varying", "instant", "hanging", "varying", "idle", "instant", "first run")
_WITHOUT_TASKS: Final = ("idle", "first run")


class Model:
    """The script of the endpoint, at a pace that is set for each run."""

    def __init__(self, chance: random.Random) -> None:
        self.pace = "instant"
        self.under_way = 0
        self._chance = chance

    async def __call__(self, request: Request, stream: trio.SocketStream) -> None:
        self.under_way += 1
        try:
            if await _is_gone(stream, within_seconds=self._draw_seconds()):
                return
            await stream.send_all(response(200, completion(f"An answer {self._chance.random()}")))
        finally:
            self.under_way -= 1

    def _draw_seconds(self) -> float:
        if self.pace == "hanging":
            return float("inf")
        if self.pace == "varying":
            # often over at once, sometimes just within or just over the grace
            return self._chance.choice([0.0, 0.02, 0.1, 0.4, GRACE_SECONDS, 2 * GRACE_SECONDS])
        return 0.0


async def _is_gone(stream: trio.SocketStream, *, within_seconds: float) -> bool:
    """Wait so long, or until the client hangs up."""
    with trio.move_on_after(within_seconds):
        return not await stream.receive_some(1)
    return False


async def sigterm(folder: Path, seed: int, moments: int) -> Report:
    report = Report(f"sigterm: {moments} moments, grace {GRACE_SECONDS} s, seed {seed}")
    chance = chance_of(seed)
    model = Model(chance)
    phases: Counter[str] = Counter()
    codes: Counter[int | None] = Counter()
    stops: list[float] = []
    finished = 0
    started = trio.current_time()
    async with open_endpoint(model) as endpoint:
        tokens = _configure(folder, endpoint)
        for number in range(1, moments + 1):
            model.pace = PACES[number % len(PACES)]
            database = folder / ("idle.db" if model.pace == "idle" else "busy.db")
            if model.pace == "first run":  # nothing is there, and init runs first
                database = folder / f"first-{number}" / "roundtable.db"
                database.parent.mkdir()
            elif model.pace not in _WITHOUT_TASKS:
                await _fill(tokens["lead"], database)
            moment = chance.uniform(0, chance.choice(LONGEST_SECONDS))
            code, phase, seconds = await _stop_once(database, model, moment)
            codes[code] += 1
            phases[phase] += 1
            stops.append(seconds)
            place = f"moment {number} ({model.pace}, {phase})"
            report.expect(code == 0, f"{place}: ended with {code} after {seconds:.1f} s")
            report.violations += [f"{place}: {fault}" for fault in _left_behind(database)]
        with open_readonly(folder / "busy.db") as db:
            (finished,) = db.execute("SELECT count(*) FROM tasks WHERE status = 'submitted'").fetchone()
            endings = dict(db.execute("SELECT ended_by, count(*) FROM claims GROUP BY ended_by"))
    report.figures |= {
        "exit codes": dict(codes),
        "when it came": dict(phases),
        "seconds from the signal to the end": f"{min(stops):.2f} to {max(stops):.2f} (allowed {STOP_SECONDS})",
        "tasks finished on the way": finished,
        "claims ended": endings,
        "seconds": f"{trio.current_time() - started:.0f}",
        "violations": len(report.violations),
    }
    return report


def _configure(folder: Path, endpoint: Endpoint) -> dict[str, str]:
    common = {"model": "m", "base_url": endpoint.url, "max_calls_per_hour": 100_000}
    workers = [{"name": f"poet-{number}", "concurrency": number, **common} for number in (1, 2, 3)]
    write_roster(folder, {"grace_seconds": GRACE_SECONDS, "poll_interval": 0.1}, *workers)
    return write_agents(folder, lead="leader")


async def _fill(token: str, database: Path) -> None:
    """Have OPEN_TASKS open tasks on the board, put there by its leader."""
    settings = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0", "ROUNDTABLE_DB_PATH": database.name}
    there = _count_open(database)
    if there >= OPEN_TASKS // 2:
        return
    with trio.fail_after(60):
        async with open_program("serve", folder=database.parent, settings=settings) as serve:
            seat, url = HttpSeat(token), await serve.url()
            for number in range(there, OPEN_TASKS):
                await seat.call(url, "create_task", title=f"Task {number}", description="d")
            await seat.aclose()
            serve.process.send_signal(signal.SIGTERM)
            await serve.ended(10)


def _count_open(database: Path) -> int:
    if not database.exists():
        return 0
    with open_readonly(database) as db:
        (there,) = db.execute("SELECT count(*) FROM tasks WHERE status = 'open'").fetchone()
    return int(there)


async def _stop_once(database: Path, model: Model, after_seconds: float) -> tuple[int | None, str, float]:
    """Start, wait so long from the first line on, and stop. Returns the exit code (None: not in time), when the signal
    came in the life of the program, and how long it took from there."""
    settings = {
        "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0",
        "ROUNDTABLE_DB_PATH": database.name,
        "ROUNDTABLE_FIRST_LINE": "a warning about this is the very first thing that the program prints",
    }
    with trio.fail_after(120):
        async with open_program("up", folder=database.parent, settings=settings) as up:
            await up.err.line()
            await trio.sleep(after_seconds)
            phase = _phase(up, model)
            up.process.send_signal(signal.SIGTERM)
            sent_at = trio.current_time()
            code: int | None = None
            with suppress(trio.TooSlowError):
                code = await up.ended(STOP_SECONDS)
            return code, phase, trio.current_time() - sent_at


def _phase(up: Program, model: Model) -> str:
    if not up.out.lines:
        return "starting"
    if model.pace not in _WITHOUT_TASKS and not up.count("claimed"):
        return "before the first claim"
    if model.under_way:
        return "model call"
    if up.count("claimed") > up.count("submitted"):
        return "claim or submit"
    return "idle"


def _left_behind(database: Path) -> list[str]:
    """What a clean stop may not leave. A stop before the database was made leaves none."""
    if not database.exists():
        return []
    with open_readonly(database) as db:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables:
            return ["the database is empty"]
        faults = faults_of(db)
        claimed = db.execute("SELECT task_id, assignee FROM tasks WHERE status = 'claimed'").fetchall()
        held = db.execute("SELECT task_id, agent FROM claims WHERE ended_at IS NULL").fetchall()
        failed = db.execute("SELECT task_id FROM tasks WHERE failures > 0").fetchall()
    if claimed or held:
        faults.append(f"left claimed: tasks {claimed}, claims {held}")
    if failed:
        faults.append(f"a stop counted as a failure of tasks {failed}")
    return faults


if __name__ == "__main__":
    main(sigterm, __doc__ or "", size="moments", default=200)

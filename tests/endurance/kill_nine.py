"""kill -9 of `roundtable serve` at random moments under 8 writers, again and again on one file, with no hand in between.

    python -m tests.endurance.kill_nine --seed 1 --rounds 30

After every restart the file is held against what the writers were told, and against itself.
"""

from __future__ import annotations

import random
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import HttpSeat, RefusedError
from tests.endurance.ledger import MARKS, Ledger, Write
from tests.endurance.report import Report, chance_of, main
from tests.endurance.soundness import faults_of, open_readonly

LEADING, WORKING = 2, 6
WRITING_SECONDS = (0.02, 1.2)
STARTING_SECONDS = (0.0, 1.6)
"""A start takes somewhat less than the longest of these, so that some of these kills come after it."""
ROUND_SECONDS = 60.0


async def kill_nine(folder: Path, seed: int, rounds: int) -> Report:
    report = Report(f"kill_nine: {LEADING + WORKING} writers, {rounds} rounds, seed {seed}")
    chance = chance_of(seed)
    ledger = Ledger()
    workers = [f"worker_{number}" for number in range(1, WORKING + 1)]
    tokens = write_agents(folder, lead="leader", **dict.fromkeys(workers, "worker"))
    settings = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0", "ROUNDTABLE_PORT": str(free_port(chance))}
    database = folder / "roundtable.db"
    kills_in_start = log_bytes = held = 0
    started = trio.current_time()
    for number in range(1, rounds + 1):
        with trio.fail_after(ROUND_SECONDS):
            if number > 1 and chance.random() < 0.4:
                await _kill_in_start(folder, settings, chance.uniform(*STARTING_SECONDS))
                kills_in_start += 1
            async with open_program("serve", folder=folder, settings=settings) as serve:
                url = await serve.url()
                report.violations += [
                    f"before round {number}: {fault}" for fault in _faults(database, ledger)
                ]
                held += await _check_held(url, tokens, database, report)
                async with trio.open_nursery() as writers:
                    for writer in range(LEADING + WORKING):
                        agent = "lead" if writer < LEADING else workers[writer - LEADING]
                        seat = HttpSeat(tokens[agent])
                        own = _Writer(
                            agent, f"{number}.{writer}", seat, url, ledger, chance_of(chance.getrandbits(32))
                        )
                        writers.start_soon(own.write_until_killed)
                    await trio.sleep(chance.uniform(*WRITING_SECONDS))
                    serve.process.send_signal(signal.SIGKILL)
                await serve.ended(10)
            log = database.with_name(database.name + "-wal")
            log_bytes += log.stat().st_size if log.exists() else 0
    async with open_program("serve", folder=folder, settings=settings) as serve:
        await serve.url()
        report.violations += [f"at the end: {fault}" for fault in _faults(database, ledger)]
        with open_readonly(database) as db:
            there, not_there = ledger.fate_of_unanswered(db)
            totals = {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _TABLES}
        serve.process.send_signal(signal.SIGTERM)
        report.expect(await serve.ended(10) == 0, "the last server did not stop cleanly")
    report.expect(ledger.acknowledged > rounds, "hardly anything was written")
    report.figures |= {
        "kills": f"{rounds} under load and {kills_in_start} while it started",
        "seconds": f"{trio.current_time() - started:.0f}",
        "acknowledged writes": ledger.acknowledged,
        "refused": dict(ledger.refused),
        "without an answer": f"{there} wholly there, {not_there} not at all",
        "tasks still held after a restart": held,
        "write-ahead log at a kill": f"{log_bytes // rounds:,} bytes on average",
        "rows": " ".join(f"{name}={count}" for name, count in totals.items()),
        "violations": len(report.violations),
    }
    return report


_TABLES = ("tasks", "claims", "messages", "reviews", "history", "audit_log")


class _Writer:
    """One client that writes as fast as it is answered, until the connection breaks."""

    def __init__(
        self, agent: str, name: str, seat: HttpSeat, url: str, ledger: Ledger, chance: random.Random
    ) -> None:
        self._agent = agent
        self._name = name
        self._seat = seat
        self._url = url
        self._ledger = ledger
        self._chance = chance
        self._count = 0
        self._tasks: list[int] = []  # of a leader: those it made; of a worker: those it holds

    async def write_until_killed(self) -> None:
        step = self._lead if self._agent == "lead" else self._work
        try:
            if self._agent != "lead":
                identity = await self._seat.call(self._url, "whoami")
                self._tasks = [task["task_id"] for task in identity["tasks"]]
            while True:
                await step()
        except httpx.TransportError:
            pass  # the server is dead, or the answer did not come whole
        finally:
            with trio.CancelScope(shield=True):
                await self._seat.aclose()

    async def _lead(self) -> None:
        drawn = self._chance.random()
        if drawn < 0.5 or not self._tasks:
            priority = self._chance.randint(-100, 100)
            answer = await self._write("create_task", description=self._text(8_000), priority=priority)
            if answer is not None:
                self._tasks.append(answer["task_id"])
        elif drawn < 0.7:
            kind = self._chance.choice(["note", "reply"])
            await self._write("post_message", task_id=self._chance.choice(self._tasks), kind=kind)
        else:
            page = await self._seat.call(self._url, "list_tasks", status="submitted", limit=20)
            for row in page["tasks"][:3]:
                verdict = self._chance.choice(["accept", "reject"])
                await self._write("review_task", task_id=row["task_id"], verdict=verdict)

    async def _work(self) -> None:
        if len(self._tasks) < self._chance.randint(1, 4):
            write = Write(self._agent, "claim_next", "", {})
            self._ledger.claims.append(write)
            brief = await self._seat.call(self._url, "claim_next")
            if brief["task"] is None:
                self._ledger.claims.remove(write)
                await trio.sleep(0.01)
            else:
                write.answer = brief
                self._tasks.append(brief["task_id"])
        if not self._tasks:
            return
        task_id = self._tasks.pop(self._chance.randrange(len(self._tasks)))
        drawn = self._chance.random()
        if drawn < 0.4:
            self._tasks.append(task_id)
            await self._write("post_message", task_id=task_id, kind="progress")
        elif drawn < 0.8:
            await self._write("submit_result", task_id=task_id)
        else:
            await self._write(
                "release_task", task_id=task_id, failed=self._chance.random() < 0.5, cooldown_seconds=0
            )

    async def _write(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Send a marked write and note what became of it. None if it was refused. Raises httpx.TransportError."""
        self._count += 1
        mark = f"{tool} {self._name}.{self._count} "
        if MARKS[tool] == "result":
            mark += self._text(15_000)
        elif tool == "post_message":
            mark += self._text(3_000)
        write = Write(self._agent, tool, mark.strip(), arguments)
        self._ledger.marked.append(write)
        try:
            write.answer = await self._seat.call(self._url, tool, **arguments, **{MARKS[tool]: write.mark})
        except RefusedError as refused:
            write.refused = refused.code
        return write.answer

    def _text(self, most: int) -> str:
        """Often short, sometimes long enough to fill many pages of the file."""
        length = int(most * self._chance.random() ** 4)
        return "".join(self._chance.choices("abcdé中🙂 ", k=length)).strip() + "."


async def _kill_in_start(folder: Path, settings: dict[str, str], seconds: float) -> None:
    async with open_program("serve", folder=folder, settings=settings) as serve:
        await trio.sleep(seconds)
        serve.process.send_signal(signal.SIGKILL)
        await serve.ended(10)


async def _check_held(url: str, tokens: dict[str, str], database: Path, report: Report) -> int:
    """Each worker finds again over HTTP what the file says that it holds. Returns how many tasks that is."""
    held = 0
    for agent, token in tokens.items():
        seat = HttpSeat(token)
        identity = await seat.call(url, "whoami")
        await seat.aclose()
        told = {(task["task_id"], task["claim_id"]) for task in identity["tasks"]}
        with open_readonly(database) as db:
            sql = "SELECT task_id, claim_id FROM claims WHERE agent = ? AND ended_at IS NULL"
            there = set(db.execute(sql, (agent,)))
        report.expect(told == there, f"{agent} is told that it holds {told}, the file says {there}")
        held += len(told)
    return held


def _faults(database: Path, ledger: Ledger) -> list[str]:
    with open_readonly(database) as db:
        return faults_of(db) + ledger.faults_in(db)


def free_port(chance: random.Random) -> int:
    """A port of its own over all restarts, as an owner has, below those that systems give to clients."""
    while True:
        port = chance.randint(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


if __name__ == "__main__":
    main(kill_nine, __doc__ or "", size="rounds", default=30)

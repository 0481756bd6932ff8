"""Many calls that wait in the server: what one new task costs, what they cost while nothing happens, and their memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from benchmarks import servers
from benchmarks.report import Report
from benchmarks.table import LEAD, open_executor, server_log, workers
from benchmarks.waiters import Waiter, stand_in_line
from benchmarks.wire import GENERATIONS, Caller
from roundtable.board.actor import open_board
from roundtable.board.clock import Clock, system_clock
from roundtable.board.waiting import WaitingRoom
from roundtable.rules.agents import Agent
from roundtable.rules.commands import Call, ClaimNext, CreateTask
from roundtable.rules.model import Now
from roundtable.store.execute import Executor
from roundtable.store.outcomes import Executed

WAITS = 200
WAITS_PER_SEAT = 4
WAIT_SECONDS = 25
ROOM_WAITS = 1_000
COMMANDS_WANTED, LATENCY_MS_WANTED, PARKED_PERCENT_WANTED, MEMORY_WANTED, AFTER_WANTED = (
    2,
    25.0,
    0.5,
    1.3,
    1.1,
)
ROOM_TASKS = 5
ARRIVE_SECONDS = 3.0
SETTLE_SECONDS = 0.3
IDLE_WORKERS, IDLE_ROUNDS, IDLE_WAIT_SECONDS = 50, 3, 5
WARM_CALLS = 100
PARKED_SECONDS = 15.0


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    _commands_of_one_task(report, folder)
    for generation, version in GENERATIONS.items():
        with (
            tempfile.TemporaryDirectory(dir=folder) as own,
            servers.roundtable(Path(own), seats=WAITS // WAITS_PER_SEAT) as board,
            servers.empty() as plain,
        ):
            # first: what has waited once has made room that the next ones use
            _parked(report, board, plain, generation, version, 5.0 if quick else PARKED_SECONDS)
            _latency(report, board, generation, version, 10 if quick else 40)
            _idle(report, board, generation, version)


class _Counting(Executor):
    """The executor, which counts what it is asked."""

    commands = 0

    def execute(self, batch: Sequence[Call[Any]], now: Now) -> Executed:
        self.commands += len(batch)
        return super().execute(batch, now)


def _commands_of_one_task(report: Report, folder: Path) -> None:
    seats = workers(ROOM_WAITS // WAITS_PER_SEAT)
    with tempfile.TemporaryDirectory(dir=folder) as own, server_log():
        executor = open_executor(Path(own) / "board.db", seats, _Counting)
        counts = trio.run(_new_tasks, executor, seats, system_clock())
        executor.close()
    report.add(f"{ROOM_WAITS:,} waiting: commands for one new task", "", counts, at_most=COMMANDS_WANTED)


async def _new_tasks(executor: _Counting, seats: Sequence[Agent], clock: Clock) -> list[float]:
    """The commands that each of some new tasks costs the board: its creation, and what follows from it."""
    counts: list[float] = []
    answered, given = trio.open_memory_channel[None](ROOM_WAITS)
    async with open_board(executor, clock) as board:
        room = WaitingRoom(board)

        async def wait(seat: Agent) -> None:
            reply = await room.claim_next(seat, ClaimNext(wait_seconds=WAIT_SECONDS), clock())
            room.answered(reply["claim_id"], is_handed_over=True)
            answered.send_nowait(None)

        async with trio.open_nursery() as nursery:
            for number in range(ROOM_WAITS):
                nursery.start_soon(wait, seats[number % len(seats)])
            await trio.sleep(ARRIVE_SECONDS)
            for number in range(ROOM_TASKS):
                before = executor.commands
                await board.ask(LEAD, "create_task", CreateTask(f"Chapter {number}", "text"))
                await given.receive()
                await trio.sleep(SETTLE_SECONDS)
                counts.append(executor.commands - before)
            nursery.cancel_scope.cancel()
    return counts


def _latency(report: Report, board: servers.Child, generation: str, version: str, rounds: int) -> None:
    """From the answer to create_task to the answer of the one that waited for it."""
    seats = [token for name, token in board.tokens.items() if name != "lead"]
    took: list[float] = []
    with stand_in_line(_waiters(board, seats, version)) as line:
        time.sleep(ARRIVE_SECONDS)
        caller = Caller(board.port)
        for number in range(rounds):
            task = {"title": f"Chapter {number}", "description": "text"}
            caller.call("create_task", task, version, board.tokens["lead"])
            created = time.monotonic()
            took.append((line.next_answer() - created) * 1000)
            time.sleep(0.1)
        caller.close()
    report.add(f"{generation}, {WAITS} waiting: task to answer", "ms", took, at_most=LATENCY_MS_WANTED)


def _parked(
    report: Report, board: servers.Child, plain: servers.Child, generation: str, version: str, seconds: float
) -> None:
    """On servers on which nothing has waited yet: what has made room once leaves it for the next."""
    seats = [token for name, token in board.tokens.items() if name != "lead"]
    resting = [Waiter(plain.port, None, "wait", {"seconds": WAIT_SECONDS}, version)] * WAITS
    waves = {
        "board": _wave(board, _waiters(board, seats, version), seconds),
        "empty": _wave(plain, resting, seconds),
    }
    for side, wave in waves.items():
        wanted = side == "board"
        report.add(
            f"{generation}, {side}: {WAITS} parked",
            "% of a core",
            [wave.percent],
            at_most=PARKED_PERCENT_WANTED if wanted else None,
        )
        report.add(f"{generation}, {side}: memory of a wait", "KiB", [wave.kib_per_wait])
        report.add(
            f"{generation}, {side}: all memory after / before",
            "",
            [wave.after_kib / wave.before_kib],
            at_most=AFTER_WANTED if wanted else None,
        )
    second = _wave(board, _waiters(board, seats, version), SETTLE_SECONDS)
    report.add(
        f"{generation}, memory of a wait / empty",
        "",
        [waves["board"].kib_per_wait / waves["empty"].kib_per_wait],
        at_most=MEMORY_WANTED,
    )
    report.add(
        f"{generation}, board: after a second wave / after the first",
        "",
        [second.after_kib / waves["board"].after_kib],
        at_most=AFTER_WANTED,
    )


def _idle(report: Report, board: servers.Child, generation: str, version: str) -> None:
    """What a board writes while nothing happens but that its workers' waits end and begin again."""
    seats = [token for name, token in board.tokens.items() if name != "lead"][:IDLE_WORKERS]
    arguments = {"wait_seconds": IDLE_WAIT_SECONDS}
    waiters = [Waiter(board.port, seat, "claim_next", arguments, version) for seat in seats]
    with stand_in_line(waiters):
        time.sleep(IDLE_WAIT_SECONDS + ARRIVE_SECONDS)
    before = board.written_kib
    for _ in range(IDLE_ROUNDS):
        with stand_in_line(waiters):
            time.sleep(IDLE_WAIT_SECONDS + ARRIVE_SECONDS)
    report.add(
        f"{generation}, {len(seats)} idle workers: written to disk",
        "KiB",
        [board.written_kib - before],
        at_most=0,
    )


@dataclass(frozen=True, slots=True)
class _Wave:
    """What a server's memory was before, with and after so many waits, and what they cost meanwhile."""

    before_kib: float
    during_kib: float
    after_kib: float
    percent: float

    @property
    def kib_per_wait(self) -> float:
        return (self.during_kib - self.before_kib) / WAITS


def _wave(server: servers.Child, waiters: Sequence[Waiter], seconds: float) -> _Wave:
    _warm(server, waiters[0])
    before = server.rss_kib
    with stand_in_line(waiters):
        time.sleep(ARRIVE_SECONDS)
        cpu = server.cpu_ns
        time.sleep(seconds)
        percent = (server.cpu_ns - cpu) / 1e9 / seconds * 100
        during = server.rss_kib
    time.sleep(ARRIVE_SECONDS)
    _warm(server, waiters[0])  # so that what is garbage by now is collected
    return _Wave(before, during, server.rss_kib, percent)


def _warm(server: servers.Child, like: Waiter) -> None:
    """Some calls, so that what the first ones make for all is there."""
    caller = Caller(server.port)
    for _ in range(WARM_CALLS):
        caller.call("whoami" if like.token else "empty", {}, like.version, like.token)
    if not like.token:
        caller.call("wait", {"seconds": 0.01}, like.version)
    else:
        caller.call("claim_next", {"wait_seconds": 1}, like.version, like.token)
    caller.close()


def _waiters(board: servers.Child, seats: Sequence[str], version: str) -> list[Waiter]:
    arguments = {"wait_seconds": WAIT_SECONDS}
    return [
        Waiter(board.port, seats[number // WAITS_PER_SEAT], "claim_next", arguments, version)
        for number in range(WAITS)
    ]

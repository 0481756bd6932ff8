"""What the actor costs beside the store's own execute: calls a second, on disk, rules, audit and history included."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from benchmarks.report import Report
from benchmarks.table import CLAIMS_PER_WORKER, LEAD, calls, new_task, open_executor, server_log, workers
from roundtable.board.actor import Board, open_board
from roundtable.board.clock import system_clock
from roundtable.rules.agents import Agent
from roundtable.rules.commands import ClaimNext, Command
from roundtable.store.execute import Executor

CALLERS = (1, 8, 64, 256)
WANTED_AT_ONE = {"create_task": 0.60, "claim_next": 0.40}
WANTED_OF_SINGLES, WANTED_OF_BATCH = 2.0, 0.5

Asked = list[tuple[Agent, str, Command[object]]]


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """Each round measures all of it, on fresh files, so that both sides of a ratio have the same weather."""
    count, rounds = (256, 2) if quick else (2_048, 5)
    with server_log():
        for tool in ("create_task", "claim_next"):
            _tell(report, tool, [_round(tool, count, folder) for _ in range(rounds)])


def _tell(report: Report, tool: str, measured: list[dict[str, float]]) -> None:
    for side in measured[0]:
        report.add(f"{tool}, {side}", "calls/s", [one[side] for one in measured])
    singles = "one transaction a call"
    report.add(
        f"{tool}, 1 caller / one transaction a call",
        "",
        [one["1 caller"] / one[singles] for one in measured],
        at_least=WANTED_AT_ONE[tool],
    )
    report.add(
        f"{tool}, 64 callers / one transaction a call",
        "",
        [one["64 callers"] / one[singles] for one in measured],
        at_least=WANTED_OF_SINGLES,
    )
    report.add(
        f"{tool}, 64 callers / one big transaction",
        "",
        [one["64 callers"] / one["one big transaction"] for one in measured],
        at_least=WANTED_OF_BATCH,
    )


def _round(tool: str, count: int, folder: Path) -> dict[str, float]:
    measured = {
        "one transaction a call": _direct(tool, count, folder, batch=1),
        "one big transaction": _direct(tool, count, folder, batch=count),
    }
    for callers in CALLERS:
        side = f"{callers} caller{'s' if callers > 1 else ''}"
        measured[side] = _through_the_actor(tool, count, folder, callers)
    return measured


def _direct(tool: str, count: int, folder: Path, *, batch: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        executor, asked = _prepared(tool, count, Path(own))
        clock = system_clock()
        start = time.perf_counter()
        for begin in range(0, count, batch):
            executor.execute(calls(clock, asked[begin : begin + batch]), clock())
        took = time.perf_counter() - start
        executor.close()
        return count / took


def _through_the_actor(tool: str, count: int, folder: Path, callers: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        executor, asked = _prepared(tool, count, Path(own))
        took = trio.run(_drive, executor, asked, callers)
        executor.close()
        return count / took


async def _drive(executor: Executor, asked: Asked, callers: int) -> float:
    async with open_board(executor, system_clock()) as board:
        left = iter(asked)
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(_call_on, board, left)
        return time.perf_counter() - start


async def _call_on(board: Board, left: Iterator[tuple[Agent, str, Command[object]]]) -> None:
    for agent, tool, command in left:
        await board.ask(agent, tool, command)


def _prepared(tool: str, count: int, folder: Path) -> tuple[Executor, Asked]:
    """An open board, and the calls that are to be made of it."""
    seats = workers(-(-count // CLAIMS_PER_WORKER))
    executor = open_executor(folder / "board.db", seats, Executor)
    if tool == "create_task":
        return executor, [(LEAD, tool, new_task(number)) for number in range(count)]
    clock = system_clock()
    for begin in range(0, count, 256):
        numbers = range(begin, min(begin + 256, count))
        executor.execute(calls(clock, [(LEAD, "create_task", new_task(each)) for each in numbers]), clock())
    return executor, [(seats[number % len(seats)], tool, ClaimNext()) for number in range(count)]

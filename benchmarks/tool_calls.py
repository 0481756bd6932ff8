"""What a whole durable call costs the server over HTTP, beside an empty tool of a plain MCPServer: CPU, not time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import servers
from benchmarks.load import Lane, Load, lane, load
from benchmarks.report import Report
from benchmarks.table import BRIEF_CHARS, CLAIMS_PER_WORKER, text
from benchmarks.wire import GENERATIONS

CONNECTIONS = 8
WANTED = {"legacy": 0.75, "2026": 0.95}
SIDES = ("empty tool", "create_task", "claim_task")


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """Both servers live all the time and take turns, so that both sides of a ratio have the same weather."""
    calls, rounds = (25, 2) if quick else (120, 7)
    seats = CONNECTIONS * calls // CLAIMS_PER_WORKER
    measured: dict[tuple[str, str], list[float]] = {}
    with (
        tempfile.TemporaryDirectory(dir=folder) as own,
        load() as client,
        servers.empty() as plain,
        servers.roundtable(Path(own), seats=seats) as board,
    ):
        made = 0
        for number in range(rounds + 1):
            for generation, version in GENERATIONS.items():
                new = range(made + 1, made + 1 + calls * CONNECTIONS)
                made = new[-1]
                took = {
                    "empty tool": _cpu_ms(
                        client, plain, version, [lane(None, [("empty", {})] * calls)] * CONNECTIONS
                    ),
                    "create_task": _cpu_ms(client, board, version, _creates(board, calls)),
                    "claim_task": _cpu_ms(client, board, version, _claims(board, new)),
                }
                client.run(board.port, version, _cancels(board, new))
                if number:  # the first round makes what is kept, and is not counted
                    for side, cost in took.items():
                        measured.setdefault((generation, side), []).append(cost)
    _tell(report, measured)


def _tell(report: Report, measured: dict[tuple[str, str], list[float]]) -> None:
    for generation, wanted in WANTED.items():
        for side in SIDES:
            report.add(f"{generation}, {side}", "ms of CPU", measured[generation, side])
        plain = measured[generation, "empty tool"]
        for side in SIDES[1:]:
            ratios = [ours / theirs for ours, theirs in zip(measured[generation, side], plain, strict=True)]
            report.add(f"{generation}, {side} / empty tool", "", ratios, at_most=wanted)


def _cpu_ms(client: Load, server: servers.Child, version: str, lanes: Sequence[Lane]) -> float:
    """CPU of the server for each call."""
    before = server.cpu_seconds
    client.run(server.port, version, lanes)
    servers.settle()
    return (server.cpu_seconds - before) * 1000 / sum(map(len, lanes))


def _creates(board: servers.Child, calls: int) -> list[Lane]:
    asked = [
        ("create_task", {"title": f"Chapter {number}", "description": text(BRIEF_CHARS, number)})
        for number in range(calls)
    ]
    return [lane(board.tokens["lead"], asked)] * CONNECTIONS


def _claims(board: servers.Child, tasks: range) -> list[Lane]:
    """Each worker claims as many as it may hold; the workers of a connection one after another."""
    seats = [token for name, token in board.tokens.items() if name != "lead"]
    claims: Lane = [
        [seats[place // CLAIMS_PER_WORKER], "claim_task", {"task_id": task_id}]
        for place, task_id in enumerate(tasks)
    ]
    share = len(claims) // CONNECTIONS
    return [claims[start : start + share] for start in range(0, len(claims), share)]


def _cancels(board: servers.Child, tasks: range) -> list[Lane]:
    asked = [("cancel_task", {"task_id": task_id, "reason": "measured"}) for task_id in tasks]
    return [lane(board.tokens["lead"], asked[start::CONNECTIONS]) for start in range(CONNECTIONS)]

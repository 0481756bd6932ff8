"""What the server's memory does over many calls of all kinds."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from benchmarks import servers
from benchmarks.load import Lane, load
from benchmarks.report import Report
from benchmarks.table import BRIEF_CHARS, text
from benchmarks.wire import GENERATIONS

CONNECTIONS = 8
CYCLE_CALLS = 10
FIRST_CYCLES = 100
JOB_CYCLES = 800
"""Tasks in one job for the load: its messages stay small."""
KIB = 1024


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    cycles = 400 if quick else 10_000
    with (
        tempfile.TemporaryDirectory(dir=folder) as own,
        load() as client,
        servers.roundtable(Path(own), seats=CONNECTIONS) as board,
    ):
        report.add("after the start", "MiB", [board.rss_kib / KIB])
        made = 0
        at_first = 0.0
        for number, version in enumerate(itertools.cycle(GENERATIONS.values())):
            if made >= cycles:
                break
            new = range(made + 1, made + 1 + (JOB_CYCLES if number else FIRST_CYCLES))
            client.run(board.port, version, _creates(board, new))
            client.run(board.port, version, _lives(board, new))
            made = new[-1]
            if not number:
                at_first = board.rss_kib
                report.add(f"after {made * CYCLE_CALLS:,} calls", "MiB", [at_first / KIB])
        report.add(f"after {made * CYCLE_CALLS:,} calls", "MiB", [board.rss_kib / KIB])
        report.add("grown between the two", "MiB", [(board.rss_kib - at_first) / KIB])


def _creates(board: servers.Child, tasks: range) -> list[Lane]:
    lead = board.tokens["lead"]
    asked: Lane = [
        [lead, "create_task", {"title": f"Chapter {task_id}", "description": text(BRIEF_CHARS, task_id)}]
        for task_id in tasks
    ]
    return [asked[start::CONNECTIONS] for start in range(CONNECTIONS)]


def _lives(board: servers.Child, tasks: range) -> list[Lane]:
    """Each task from its claim to its end, and some looking round."""
    lead = board.tokens["lead"]
    lanes: list[Lane] = [[] for _ in range(CONNECTIONS)]
    for task_id in tasks:
        seat = board.tokens[f"worker-{task_id % CONNECTIONS}"]
        own = {"task_id": task_id}
        lanes[task_id % CONNECTIONS] += [
            [seat, "claim_task", own],
            [seat, "post_message", {**own, "body": text(100), "kind": "progress"}],
            [seat, "whoami", {}],
            [lead, "get_task", own],
            [seat, "submit_result", {**own, "result": text(BRIEF_CHARS, task_id)}],
            [lead, "list_tasks", {"limit": 20}],
            [lead, "get_history", {"newest_first": True, "limit": 20}],
            [lead, "wait_for_updates", {}],
            [lead, "review_task", {**own, "verdict": "accept"}],
        ]
    return lanes

"""From the start of `serve` to its first answered call."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks import servers
from benchmarks.report import Report
from benchmarks.wire import GENERATIONS, Caller

WANTED_SECONDS = 2.5


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    elapsed: list[float] = []
    used: list[float] = []
    for number in range(2 if quick else 9):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            start = time.perf_counter()
            with servers.roundtable(Path(own), seats=3) as board:
                caller = Caller(board.port)
                caller.call("whoami", {}, GENERATIONS["legacy"], board.tokens["lead"])
                took, cpu = time.perf_counter() - start, board.cpu_seconds
                caller.close()
        if number:  # the first may have files to read from the disk
            elapsed.append(took)
            used.append(cpu)
    report.add("start to first answered call", "s", elapsed, at_most=WANTED_SECONDS)
    report.add("of that, CPU", "s", used)

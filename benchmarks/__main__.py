"""The one command: `python -m benchmarks [NAMES] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import board_ask, board_size, machine, memory, start_up, tokens, tool_calls, waits
from benchmarks.report import Report

BENCHMARKS: dict[str, tuple[str, Callable[..., None]]] = {
    "board": ("the actor beside the store's own execute", board_ask.measure),
    "calls": ("server CPU of a tool call over HTTP", tool_calls.measure),
    "size": ("every tool on a small board and on a large one", board_size.measure),
    "start": ("from the start of serve to its first answered call", start_up.measure),
    "memory": ("memory over many calls", memory.measure),
    "tokens": ("what the tools cost a model's context", tokens.measure),
    "waits": ("many calls that wait in the server", waits.measure),
}


def main() -> int:
    """Run the named benchmarks (default: all) and say how many figures are not as wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What the board costs.")
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small and few rounds, to see that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="append each figure to it as a line of JSON"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the databases lie meanwhile"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    facts = machine.describe(arguments.folder)
    report = Report(sys.stdout, arguments.json)
    print(json.dumps(facts))
    report.write_json({"machine": facts, "quick": arguments.quick})
    for name in arguments.names or BENCHMARKS:
        title, measure = BENCHMARKS[name]
        report.begin(name, title)
        measure(report, arguments.folder, quick=arguments.quick)
    wanted = [figure for figure in report.figures if figure.is_met is not None]
    print(f"\n{len(wanted) - len(report.misses)} of {len(wanted)} figures are as wanted.")
    for figure in report.misses:
        print(f"  missed: {figure.benchmark}: {figure.what}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

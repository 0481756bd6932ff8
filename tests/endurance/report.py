"""What an endurance script prints: a few figures, and what did not hold."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio


@dataclass
class Report:
    """The figures of a run in order, and its violations."""

    title: str
    figures: dict[str, object] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def expect(self, holds: object, otherwise: str) -> None:
        if not holds:
            self.violations.append(otherwise)

    def text(self) -> str:
        width = max(map(len, self.figures), default=0)
        lines = [self.title, *(f"  {name:<{width}}  {value}" for name, value in self.figures.items())]
        lines += [f"  VIOLATION: {violation}" for violation in self.violations]
        return "\n".join([*lines, "  all held" if not self.violations else "  NOT all held"])


def chance_of(seed: int) -> random.Random:
    """The one source of everything that a run draws."""
    return random.Random(seed)  # noqa: S311 - it has to be the same again, not secret


Trial = Callable[[Path, int, int], Awaitable[Report]]
"""A run in an empty folder, with a seed and a size."""


def main(trial: Trial, description: str, *, size: str, default: int) -> None:
    """Run the trial as the command line says, print its report, and exit 0 only if all held."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1, help="draws every moment and choice (1)")
    parser.add_argument(f"--{size}", type=int, default=default, dest="size", help=f"how many ({default})")
    parser.add_argument("--folder", type=Path, help="an empty folder to keep (a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roundtable-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = trio.run(trial, folder, arguments.seed, arguments.size)
    sys.stdout.write(report.text() + "\n")
    raise SystemExit(1 if report.violations else 0)

"""Figures: collected, compared with what is wanted, told as a table and as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity: the median of its rounds, and what is wanted of it, if anything."""

    benchmark: str
    what: str
    unit: str
    rounds: tuple[float, ...]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def value(self) -> float:
        return median(self.rounds)

    @property
    def is_met(self) -> bool | None:
        """Whether it is as wanted; None where nothing is."""
        if self.at_most is None and self.at_least is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    def as_json(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "benchmark": self.benchmark,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "rounds": list(self.rounds),
        }
        for name in ("at_most", "at_least"):
            bound = getattr(self, name)
            if bound is not None:
                shown[name] = bound
        if self.is_met is not None:
            shown["met"] = self.is_met
        return shown


@dataclass(slots=True)
class Report:
    """All figures of a run. Each goes to the stream as soon as it is there, and to the file, if there is one, as JSON."""

    stream: TextIO
    json_path: Path | None = None
    benchmark: str = ""
    figures: list[Figure] = field(default_factory=list)

    def begin(self, benchmark: str, title: str) -> None:
        self.benchmark = benchmark
        self.stream.write(f"\n{benchmark}: {title}\n")

    def add(
        self,
        what: str,
        unit: str,
        rounds: Sequence[float],
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> Figure:
        figure = Figure(self.benchmark, what, unit, tuple(rounds), at_most, at_least)
        self.figures.append(figure)
        self.stream.write(f"  {_line(figure)}\n")
        self.stream.flush()
        self.write_json(figure.as_json())
        return figure

    def say(self, sentence: str) -> None:
        self.stream.write(f"  {sentence}\n")
        self.stream.flush()

    def write_json(self, value: dict[str, object]) -> None:
        if self.json_path is not None:
            with self.json_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(value) + "\n")

    @property
    def misses(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.is_met is False]


def _line(figure: Figure) -> str:
    spread = ""
    if len(figure.rounds) > 1:
        spread = (
            f"  ({_number(min(figure.rounds))} to {_number(max(figure.rounds))}, {len(figure.rounds)} rounds)"
        )
    wanted = ""
    if figure.at_most is not None:
        wanted += f"  wanted: at most {_number(figure.at_most)}"
    if figure.at_least is not None:
        wanted += f"  wanted: at least {_number(figure.at_least)}"
    if figure.is_met is not None:
        wanted += ", met" if figure.is_met else ", MISSED"
    return f"{figure.what:<58} {_number(figure.value):>9} {figure.unit}{spread}{wanted}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

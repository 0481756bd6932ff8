"""SPEC.md as data: its requirements and its tables, and who cites what in the tests."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_YET = "Not yet"

_REQUIREMENT = re.compile(r"^- \*\*([A-Z]+-\d+)\*\* \S")
_MENTION = re.compile(r"\b[A-Z]{3,}-\d+\b")
_LOOKS_LIKE_ID = re.compile(r"^- \*\*")


@dataclass(frozen=True)
class Spec:
    """`built` and `not_yet` are ids in the order of the document; `faults` says what is wrong with the document itself."""

    built: tuple[str, ...]
    not_yet: tuple[str, ...]
    faults: tuple[str, ...]


def parse(text: str) -> Spec:
    built: list[str] = []
    not_yet: list[str] = []
    faults: list[str] = []
    section = ""
    mentioned: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            if section == NOT_YET:
                faults.append(f"line {number}: the section {NOT_YET!r} has to be the last")
            section = line.removeprefix("## ").strip()
        found = _REQUIREMENT.match(line)
        if found:
            (not_yet if section == NOT_YET else built).append(found[1])
            line = line[found.end(1) :]
        elif _LOOKS_LIKE_ID.match(line):
            faults.append(f"line {number}: no requirement id where one is expected: {line[:40]}")
        mentioned.update(_MENTION.findall(line))
    everything = built + not_yet
    faults += [
        f"{name} stands there {times} times" for name, times in Counter(everything).items() if times > 1
    ]
    areas = {name.rpartition("-")[0] for name in everything}
    faults += [
        f"{name} is mentioned and is no requirement"
        for name in sorted(mentioned - set(everything))
        if name.rpartition("-")[0] in areas
    ]
    return Spec(tuple(built), tuple(not_yet), tuple(faults))


def cited_by(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Requirement -> places that cite it, from (file name, source text) pairs. The sources are read, never run.

    A citation is a call of pytest.mark.spec with plain strings, wherever it stands: as a decorator, in
    `pytestmark`, in the marks of a parameter. Raises ValueError for one that cannot be read off.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, source in sources:
        for node in ast.walk(ast.parse(source, name)):
            if not _is_spec_mark(node):
                continue
            place = f"{name}:{node.lineno}"
            if not isinstance(node, ast.Call) or not node.args or node.keywords:
                raise ValueError(
                    f"{place}: a citation names its requirements: pytest.mark.spec('AREA-1', ...)"
                )
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(f"{place}: a citation is made of plain strings")
                places[argument.value].append(place)
    return places


def _is_spec_mark(node: ast.AST) -> bool:
    """Whether it is a call of `pytest.mark.spec(...)` or `mark.spec(...)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "spec"
        and ast.unparse(node.func.value).split(".")[-1] == "mark"
    )


def test_sources() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    ]


test_sources.__test__ = False  # type: ignore[attr-defined]


def table(text: str, first_column: str) -> list[dict[str, str]]:
    """The rows of the Markdown table whose header begins with this column, cells without their back-ticks.

    Raises LookupError if there is no such table.
    """
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if rows and not line.startswith("|"):
            break
        if rows or (line.startswith("|") and cells[0] == first_column):
            rows.append(cells)
    if not rows:
        raise LookupError(f"no table with the first column {first_column!r}")
    header, _ruler, *body = rows
    return [dict(zip(header, row, strict=True)) for row in body]

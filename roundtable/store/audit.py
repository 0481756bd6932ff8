"""The audit log: one row for each tool call, each carrying a hash over the row before it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_COLUMNS: Final = (
    "audit_id",
    "time",
    "agent",
    "tool",
    "task_id",
    "outcome",
    "duration_ms",
    "empty_waits",
    "previous_sha256",
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM audit_log"  # noqa: S608
_INSERT: Final = f"INSERT INTO audit_log ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608

_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))

START: Final = hashlib.sha256(b"").hexdigest()
"""What the first row carries: the hash of nothing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call as it was decided."""

    time: str
    agent: str
    tool: str
    task_id: int | None
    outcome: str
    duration_ms: int
    empty_waits: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain: the last row's id and the hash over it."""

    audit_id: int
    sha256: str


def digest(row: tuple[object, ...]) -> str:
    """The hash over a whole row, its columns in order."""
    return hashlib.sha256(_ENCODER.encode(row).encode()).hexdigest()


def read_head(db: sqlite3.Connection) -> Head:
    row = db.execute(f"{_SELECT} ORDER BY audit_id DESC LIMIT 1").fetchone()
    return Head(row[0], digest(row)) if row else Head(0, START)


def append(db: sqlite3.Connection, head: Head, entry: Entry) -> Head:
    """Write the row and return the new end of the chain."""
    row = (
        head.audit_id + 1,
        entry.time,
        entry.agent,
        entry.tool,
        entry.task_id,
        entry.outcome,
        entry.duration_ms,
        entry.empty_waits,
        head.sha256,
    )
    db.execute(_INSERT, row)
    return Head(head.audit_id + 1, digest(row))


def take_empty_waits(db: sqlite3.Connection) -> dict[str, int]:
    """What was kept over a stop, and keep it no longer."""
    return dict(db.execute("DELETE FROM empty_waits RETURNING agent, waits").fetchall())


def keep_empty_waits(db: sqlite3.Connection, waits: Mapping[str, int]) -> None:
    """Keep over a stop how many waits of each agent ended empty and stand in no row yet."""
    db.executemany(
        "INSERT INTO empty_waits (agent, waits) VALUES (?, ?)", [one for one in waits.items() if one[1]]
    )


def first_break(db: sqlite3.Connection) -> int | None:
    """The id of the first row that does not carry the hash over the row before it, or None for a sound chain."""
    expected_id, expected_hash = 1, START
    for row in db.execute(f"{_SELECT} ORDER BY audit_id"):
        if row[0] != expected_id or row[-1] != expected_hash:
            return int(row[0])
        expected_id, expected_hash = row[0] + 1, digest(row)
    return None

"""Whether a board's file is whole: what SQLite says of it, the chain of the audit log, and history played from its beginning."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

from roundtable.rules.change import TOLD_FIELDS, Event
from roundtable.rules.model import Attention
from roundtable.store import audit
from roundtable.store.reading import open_reading

FAULTS_MAX: Final = 100
"""So many are told. A file with more is as broken as one with fewer."""

_COLUMNS: Final = tuple(name for name in TOLD_FIELDS if name != "depends_on")
_PRESENT: Final = f"SELECT {', '.join(_COLUMNS)}, needs_attention FROM tasks WHERE task_id = ?"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Soundness:
    """What was found. `faults` has one sentence for each, and is empty for a sound board."""

    faults: tuple[str, ...]
    tasks: int
    events: int
    head: audit.Head


def check_file(path: Path) -> Soundness:
    """Look at a whole file. Raises StoreError if it is no board, or cannot be read at all."""
    with open_reading(path) as db:
        return check(db)


def check(db: sqlite3.Connection) -> Soundness:
    """Look at a whole board. Raises sqlite3.Error only if not even its counts can be read."""
    faults: list[str] = []
    try:
        faults += islice(_all_faults(db), FAULTS_MAX)
    except sqlite3.DatabaseError as error:
        faults.append(f"SQLite cannot go on reading: {error}")
    (tasks,) = db.execute("SELECT count(*) FROM tasks").fetchone()
    (events,) = db.execute("SELECT count(*) FROM history").fetchone()
    return Soundness(tuple(faults), tasks, events, audit.read_head(db))


def _all_faults(db: sqlite3.Connection) -> Iterator[str]:
    for (line,) in db.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"integrity: {line}"
    for table, row_id, parent, _ in db.execute("PRAGMA foreign_key_check"):
        yield f"a row of {table} ({row_id}) points to one of {parent} that is not there"
    broken = audit.first_break(db)
    if broken is not None:
        yield f"the chain of the audit log breaks at row {broken}"
    yield from replay_faults(db)
    yield from _kept_for_speed(db)


def replay_faults(db: sqlite3.Connection) -> Iterator[str]:
    """Where history, played from its beginning, does not give the tasks that there are, a sentence each."""
    events = db.execute(
        "SELECT task_id, event_id, event, changes FROM history WHERE task_id IS NOT NULL ORDER BY task_id, event_id"
    )
    for task_id, rows in groupby(events, key=lambda row: row[0]):
        yield from _faults_of_task(db, task_id, list(rows))
    for (task_id,) in db.execute(
        "SELECT task_id FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.task_id = t.task_id)"
    ):
        yield f"task {task_id} has no history"


def _faults_of_task(db: sqlite3.Connection, task_id: int, rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    played: dict[str, Any] = {**dict.fromkeys(TOLD_FIELDS), "depends_on": []}
    attention: set[str] = set()
    for _, event_id, event, changes in rows:
        try:
            told = [(name, old, new) for name, (old, new) in json.loads(changes).items()]
        except (ValueError, TypeError, AttributeError):
            yield f"event {event_id} cannot be read"
            continue
        for name, old, new in told:
            if name == "attention":
                attention ^= {old or new}
            elif name in played:
                if played[name] != old and event != Event.CREATED:
                    yield f"event {event_id}: {name} of task {task_id} was not what it says"
                played[name] = new
    present = db.execute(_PRESENT, (task_id,)).fetchone()
    if present is None:
        yield f"task {task_id} has a history and is not there"
        return
    there = dict(zip(_COLUMNS, present, strict=False))
    causes = db.execute("SELECT depends_on FROM dependencies WHERE task_id = ? ORDER BY position", (task_id,))
    there["depends_on"] = [cause for (cause,) in causes]
    for name in TOLD_FIELDS:
        if played[name] != there[name]:
            yield f"history gives another {name} of task {task_id} than it has"
    reasons = {
        reason for (reason,) in db.execute("SELECT reason FROM attention WHERE task_id = ?", (task_id,))
    }
    if attention != reasons:
        yield f"history gives other attention of task {task_id} than it has"
    if present[-1] != next((reason.value for reason in Attention if reason.value in reasons), None):
        yield f"needs_attention of task {task_id} is not the gravest of its reasons"


def _kept_for_speed(db: sqlite3.Connection) -> Iterator[str]:
    """What stands in a second place, so that it is found quickly, and differs from the first."""
    for (task_id,) in db.execute(
        "SELECT t.task_id FROM tasks t WHERE t.open_dependencies <> (SELECT count(*) FROM dependencies d "
        "JOIN tasks c ON c.task_id = d.depends_on WHERE d.task_id = t.task_id AND c.status <> 'done')"
    ):
        yield f"open_dependencies of task {task_id} is not their number"
    for (task_id,) in db.execute(
        "SELECT t.task_id FROM tasks t LEFT JOIN claims c ON c.task_id = t.task_id AND c.ended_at IS NULL "
        "WHERE (t.claim_id IS NOT c.claim_id) OR (c.claim_id IS NOT NULL AND t.assignee IS NOT c.agent)"
    ):
        yield f"task {task_id} and its present claim do not agree"
    for status, counted in _counts(db):
        (there,) = db.execute("SELECT count(*) FROM tasks WHERE status = ?", (status,)).fetchone()
        if counted != there:
            yield f"the count of {status} tasks is {counted}, and there are {there}"


def _counts(db: sqlite3.Connection) -> list[tuple[str, int]]:
    """None in a file of an older schema."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'task_counts'").fetchone():
        return []
    return db.execute("SELECT status, tasks FROM task_counts ORDER BY status").fetchall()

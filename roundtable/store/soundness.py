"""Whether a board's file is whole: what SQLite says of it, the chain of the audit log, and history played from its beginning."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
_MESSAGES: Final = (
    "SELECT message_id, kind, agent, created_at FROM messages WHERE task_id = ? ORDER BY message_id"
)
_REVIEWS: Final = "SELECT verdict, note, attempt, result, agent, created_at FROM reviews WHERE task_id = ? ORDER BY review_id"
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
    if not db.execute("SELECT 1 FROM board").fetchone():
        yield "what marks this board apart from others is missing"
    broken = audit.first_break(db)
    if broken is not None:
        yield f"the chain of the audit log breaks at row {broken}"
    yield from replay_faults(db)
    yield from _kept_for_speed(db)


def replay_faults(db: sqlite3.Connection) -> Iterator[str]:
    """Where history, played from its beginning, does not give the tasks that there are, a sentence each."""
    events = db.execute(
        "SELECT task_id, event_id, time, agent, event, changes FROM history WHERE task_id IS NOT NULL "
        "ORDER BY task_id, event_id"
    )
    for task_id, rows in groupby(events, key=lambda row: row[0]):
        played = _Played(task_id)
        for _, event_id, *told in rows:
            yield from played.take(event_id, *told)
        yield from _faults_of_task(db, played)
    for (task_id,) in db.execute(
        "SELECT task_id FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.task_id = t.task_id)"
    ):
        yield f"task {task_id} has no history"


@dataclass(slots=True)
class _Played:
    """What the events of one task give, one after the other. Values are compared as they stand: they may be of any type."""

    task_id: int
    fields: dict[str, Any] = field(default_factory=lambda: {**dict.fromkeys(TOLD_FIELDS), "depends_on": []})
    attention: list[Any] = field(default_factory=list)
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    reviews: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, event_id: int, time: str, agent: str, event: str, changes: str) -> Iterator[str]:
        """The next event, and what of it cannot be."""
        try:
            told = {name: (old, new) for name, (old, new) in json.loads(changes).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            yield f"event {event_id} cannot be read"
            return
        if event == Event.MESSAGE_POSTED:
            self.messages.append((_new(told, "message_id"), _new(told, "kind"), agent, time))
        elif event == Event.REVIEWED:
            judged = (self.fields["attempt"], self.fields["result"])
            self.reviews.append((_new(told, "verdict"), _new(told, "note"), *judged, agent, time))
        for name, (old, new) in told.items():
            if name == "attention":
                self._turn(old or new)
            elif name in self.fields:
                if self.fields[name] != old and event != Event.CREATED:
                    yield f"event {event_id}: {name} of task {self.task_id} was not what it says"
                self.fields[name] = new

    def _turn(self, reason: object) -> None:
        if reason in self.attention:
            self.attention.remove(reason)
        else:
            self.attention.append(reason)


def _new(told: Mapping[str, tuple[Any, Any]], name: str) -> Any:
    return told.get(name, (None, None))[1]


def _faults_of_task(db: sqlite3.Connection, played: _Played) -> Iterator[str]:
    task_id = played.task_id
    present = db.execute(_PRESENT, (task_id,)).fetchone()
    if present is None:
        yield f"task {task_id} has a history and is not there"
        return
    there = dict(zip(_COLUMNS, present, strict=False))
    causes = db.execute("SELECT depends_on FROM dependencies WHERE task_id = ? ORDER BY position", (task_id,))
    there["depends_on"] = [cause for (cause,) in causes]
    for name in TOLD_FIELDS:
        if played.fields[name] != there[name]:
            yield f"history gives another {name} of task {task_id} than it has"
    reasons = [
        reason for (reason,) in db.execute("SELECT reason FROM attention WHERE task_id = ?", (task_id,))
    ]
    if sorted(map(repr, played.attention)) != sorted(map(repr, reasons)):
        yield f"history gives other attention of task {task_id} than it has"
    if present[-1] != next((reason.value for reason in Attention if reason.value in reasons), None):
        yield f"needs_attention of task {task_id} is not the gravest of its reasons"
    if db.execute(_MESSAGES, (task_id,)).fetchall() != played.messages:
        yield f"the messages of task {task_id} are not those of its history"
    if db.execute(_REVIEWS, (task_id,)).fetchall() != played.reviews:
        yield f"the reviews of task {task_id} are not those of its history"


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

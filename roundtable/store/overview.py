"""What an owner wants to see of a board at a glance: how many, who holds what, what is stuck, what happened last.

Each of these takes a connection of `open_reading`, and returns a bounded number of rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from roundtable.rules import replies
from roundtable.rules.model import Attention, Status
from roundtable.store import views

ROWS_MAX: Final = 50
"""Of each list: nobody reads more at a glance."""


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task in somebody's hands. `lease_until_ms` is on the board's own clock."""

    task_id: int
    title: str
    agent: str
    since: str
    attempt: int
    lease_until_ms: int


@dataclass(frozen=True, slots=True)
class StuckTask:
    """A task that waits for the leader, with all its reasons, the gravest first."""

    task_id: int
    title: str
    reasons: tuple[str, ...]
    since: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The board at one moment. `counts` has every status; of `held` and `stuck` the oldest ROWS_MAX, of so many."""

    counts: dict[str, int]
    held: tuple[HeldTask, ...]
    stuck: tuple[StuckTask, ...]
    stuck_count: int


def read_overview(db: sqlite3.Connection) -> Overview:
    """Of a file at the newest schema, which it is while a program has it."""
    counts = dict(db.execute("SELECT status, tasks FROM task_counts"))
    (stuck_count,) = db.execute("SELECT count(*) FROM tasks WHERE needs_attention IS NOT NULL").fetchone()
    return Overview(
        {status.value: counts[status.value] for status in Status},
        tuple(_held(db)),
        tuple(_stuck(db)),
        stuck_count,
    )


def _held(db: sqlite3.Connection) -> Iterator[HeldTask]:
    for values in db.execute(
        "SELECT c.task_id, t.title, c.agent, c.claimed_at, c.attempt, c.lease_until_ms FROM claims c "
        "JOIN tasks t ON t.task_id = c.task_id WHERE c.ended_at IS NULL ORDER BY c.claimed_at, c.task_id LIMIT ?",
        (ROWS_MAX,),
    ):
        yield HeldTask(*values)


def _stuck(db: sqlite3.Connection) -> Iterator[StuckTask]:
    order = {reason.value: place for place, reason in enumerate(Attention)}
    for task_id, title in db.execute(
        "SELECT task_id, title FROM tasks WHERE needs_attention IS NOT NULL ORDER BY task_id LIMIT ?",
        (ROWS_MAX,),
    ):
        since = dict(db.execute("SELECT reason, since FROM attention WHERE task_id = ?", (task_id,)))
        yield StuckTask(
            task_id, title, tuple(sorted(since, key=order.__getitem__)), min(since.values(), default="")
        )


def read_columns(db: sqlite3.Connection, rows: int) -> dict[str, list[replies.Row]]:
    """For each status its newest tasks in brief, `rows` at the most."""
    return {
        status.value: [
            views.row(db, values)
            for values in db.execute(
                f"SELECT {views.ROW_COLUMNS} FROM tasks WHERE status = ? ORDER BY task_id DESC LIMIT ?",  # noqa: S608
                (status.value, rows),
            ).fetchall()
        ]
        for status in Status
    }


def newest_event_id(db: sqlite3.Connection) -> int:
    """The id of the last event of the history, 0 if there is none."""
    (newest,) = db.execute("SELECT coalesce(max(event_id), 0) FROM history").fetchone()
    return int(newest)


def events_after(db: sqlite3.Connection, event_id: int, limit: int) -> list[replies.EventRow]:
    """The events behind this one, the oldest first."""
    rows = db.execute(
        "SELECT event_id, time, task_id, agent, event, changes FROM history WHERE event_id > ? "
        "ORDER BY event_id LIMIT ?",
        (event_id, limit),
    )
    return [views.event(values) for values in rows]

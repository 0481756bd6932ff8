"""A board with a past: so many tasks as if they had been worked on for months, written straight into the tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import SKILLS, text, workers
from roundtable.rules.agents import Agent
from roundtable.rules.model import utc_text
from roundtable.store import audit
from roundtable.store.database import open_database
from roundtable.store.search import catch_up

SEATS = 10
CHUNK_TASKS = 10_000
FIRST_MS = 1_750_000_000_000
TASK_EVERY_MS = 20_000
"""A million tasks in 231 days."""

ALIVE = 10
"""So many hundreds of tasks have one that is held, one that is assigned, one to review and one that needs attention, on a
board of any size: there are only so many agents, and what they are shown of it at once is bounded."""
DESCRIPTION_CHARS = 160
RESULT_CHARS = 120

Row = tuple[Any, ...]


def build(path: Path, tasks: int) -> None:
    """Of a hundred tasks 90 are done and 5 cancelled; of the others most are open, and some wait for the leader.

    One in ten depends on an earlier one, every second has a message, half need a skill.
    """
    db = open_database(path)
    # nothing of this has to survive a power cut
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -200000")
    head = audit.read_head(db)
    seats = workers(SEATS)
    claimed = 0
    for start in range(1, tasks + 1, CHUNK_TASKS):
        chunk = Chunk(seats, claimed)
        for task_id in range(start, min(start + CHUNK_TASKS, tasks + 1)):
            chunk.add(task_id)
        claimed = chunk.claimed
        db.execute("BEGIN")
        chunk.write(db)
        for entry in chunk.entries:
            head = audit.append(db, head, entry)
        catch_up(db)
        db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


class Chunk:
    """The rows of some tasks, table by table."""

    def __init__(self, seats: Sequence[Agent], claimed: int) -> None:
        self.claimed = claimed
        self.entries: list[audit.Entry] = []
        self._seats = seats
        self._rows: dict[str, list[Row]] = {}

    def add(self, task_id: int) -> None:
        status, now = self._status(task_id), utc_text(FIRST_MS + task_id * TASK_EVERY_MS)
        seat = self._seats[(task_id // 100 + task_id * 7) % len(self._seats)].name
        skill = SKILLS[task_id % len(SKILLS)] if task_id % 2 else None
        is_alive = task_id // 100 < ALIVE
        attention = "help_requested" if task_id % 100 == 97 and is_alive else None
        held = status == "claimed"
        has_result = status in {"submitted", "done"}
        worked = held or has_result
        claim_id = f"claim-{task_id}"
        cause = task_id - 17 if task_id % 10 == 7 and task_id > 17 else None
        if task_id % 100 == 99:
            cause = task_id - 1
        blocked = int(cause is not None and status == "open" and self._status(cause) != "done")
        title, result = f"Chapter {task_id}", text(RESULT_CHARS, task_id) if has_result else None
        plan = (title, text(DESCRIPTION_CHARS, task_id), skill, task_id % 5, self._rank(task_id))
        who = (seat if task_id % 100 == 98 and is_alive else None, seat if worked else None)
        state = (status, int(worked), attention, blocked, result, claim_id if held else None)
        self._put("tasks", (task_id, *plan, *who, *state, now if held else None, now, now))
        if cause is not None:
            self._put("dependencies", (task_id, cause, 0))
        if attention:
            self._put("attention", (task_id, attention, now))
        if worked:
            end = None if held else now
            self._put("claims", (claim_id, task_id, seat, now, end, None if held else "submitted"))
        if status == "done":
            self._put("reviews", (task_id, result, now))
        if task_id % 2:
            self._put("messages", (task_id, seat, text(80, task_id), now))
        for event, agent, recipient in _events(status, attention, seat):
            changes = {"title": [None, title]} if event == "created" else {"status": ["open", status]}
            self._put("history", (now, task_id, agent, event, json.dumps(changes), recipient))
            if event in {"created", "claimed"}:
                self.entries.append(audit.Entry(now, agent, f"{event}_task", task_id, "ok", 1))

    def write(self, db: sqlite3.Connection) -> None:
        for table, sql in _INSERTS.items():
            rows = self._rows.get(table, [])
            db.executemany(sql, [row[:-1] for row in rows] if table == "history" else rows)
        (last,) = db.execute("SELECT max(event_id) FROM history").fetchone()
        history = self._rows["history"]
        db.executemany(
            "INSERT INTO recipients (recipient, event_id) VALUES (?, ?)",
            [(row[-1], last - len(history) + 1 + place) for place, row in enumerate(history) if row[-1]],
        )

    def _put(self, table: str, row: Row) -> None:
        self._rows.setdefault(table, []).append(row)

    def _status(self, task_id: int) -> str:
        place = task_id % 100
        if place < 90:
            return "done"
        if place < 95:
            return "cancelled"
        if place == 95 and task_id // 100 < ALIVE:
            return "claimed"
        return "submitted" if place == 96 and task_id // 100 < ALIVE else "open"

    def _rank(self, task_id: int) -> int:
        return (FIRST_MS + task_id * TASK_EVERY_MS) // 3_600_000 - task_id % 5


def _events(status: str, attention: str | None, seat: str) -> Iterator[tuple[str, str, str | None]]:
    """What happened to a task: event, by whom, whom it concerned."""
    yield "created", "lead", None
    if status == "cancelled":
        yield "cancelled", "lead", None
    if attention:
        yield "attention_set", "board", "leader"
    if status in {"claimed", "submitted", "done"}:
        yield "claimed", seat, None
    if status in {"submitted", "done"}:
        yield "submitted", seat, "leader"
    if status == "done":
        yield "reviewed", "lead", f"worker:{seat}"


_INSERTS = {
    "tasks": "INSERT INTO tasks (task_id, title, description, required_skill, priority, rank, assigned_to, assignee, "
    "status, attempt, failures, rejections, max_attempts, needs_attention, open_dependencies, result, claim_id, "
    "claimed_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 3, ?, ?, ?, ?, ?, ?, ?)",
    "dependencies": "INSERT INTO dependencies (task_id, depends_on, position) VALUES (?, ?, ?)",
    "attention": "INSERT INTO attention (task_id, reason, since) VALUES (?, ?, ?)",
    "claims": "INSERT INTO claims (claim_id, task_id, agent, attempt, claimed_at, lease_seconds, lease_until_ms, "
    "revision_seen, ended_at, ended_by) VALUES (?, ?, ?, 1, ?, 86400, 4102444800000, 0, ?, ?)",
    "reviews": "INSERT INTO reviews (task_id, verdict, agent, attempt, result, created_at) "
    "VALUES (?, 'accept', 'lead', 1, ?, ?)",
    "messages": "INSERT INTO messages (task_id, agent, role, kind, body, created_at) "
    "VALUES (?, ?, 'worker', 'progress', ?, ?)",
    "history": "INSERT INTO history (time, task_id, agent, event, changes) VALUES (?, ?, ?, ?, ?)",
}

"""Whether a board's file is whole in itself: every effect with its history and its audit row, and history with every effect."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from roundtable.rules.claims import NEVER_HANDED_OVER
from roundtable.store.audit import first_break
from roundtable.store.soundness import replay_faults

_EVENT_OF_TOOL = {
    "create_task": "created",
    "post_message": "message_posted",
    "submit_result": "submitted",
    "release_task": "released",
    "review_task": "reviewed",
}
"""The tools whose every success is exactly one event of this name."""

_AUDITED = "audited"


def open_readonly(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


def faults_of(db: sqlite3.Connection, *, calls_are_repeated: bool = False) -> list[str]:
    """What is broken, lost or half there in this file, one sentence each.

    `calls_are_repeated`: somebody made a call again whose answer was lost, which is audited and changes nothing.
    """
    integrity = [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]
    orphans = db.execute("PRAGMA foreign_key_check").fetchall()
    broken = first_break(db)
    events = db.execute(
        "SELECT event_id, task_id, agent, event, changes FROM history ORDER BY event_id"
    ).fetchall()
    told = [(task_id, agent, event, json.loads(changes)) for _, task_id, agent, event, changes in events]
    faults = [f"integrity_check: {line}" for line in integrity]
    faults += [f"foreign_key_check: {orphan}" for orphan in orphans]
    if broken is not None:
        faults.append(f"the chain of the audit log breaks at row {broken}")
    faults += replay_faults(db)
    for what, in_tables, in_history in _pairs(db, told):
        if calls_are_repeated and what.startswith(_AUDITED):
            in_tables &= in_history
        if in_tables != in_history:
            faults.append(f"{what}: tables {in_tables - in_history} against history {in_history - in_tables}")
    return faults


Told = tuple[int, str, str, dict[str, list[Any]]]


def _is_the_boards_own(one: Told) -> bool:
    """Whether it was no call that did this."""
    return one[3].get("reason") == [None, NEVER_HANDED_OVER]


def _pairs(db: sqlite3.Connection, told: list[Told]) -> list[tuple[str, Counter[Any], Counter[Any]]]:
    """What has to be the same in the tables and in history: (what, tables, history)."""

    def events(name: str, of: Callable[[Told], Any]) -> Counter[Any]:
        return Counter(of(one) for one in told if one[2] == name)

    def rows(sql: str) -> Counter[Any]:
        return Counter(db.execute(sql).fetchall())

    def new(one: Told, name: str) -> Any:
        return one[3][name][1]

    pairs = [
        (
            "messages",
            rows("SELECT message_id, task_id, agent, kind FROM messages"),
            events("message_posted", lambda one: (new(one, "message_id"), one[0], one[1], new(one, "kind"))),
        ),
        (
            "claims",
            rows("SELECT task_id, agent, attempt FROM claims"),
            events("claimed", lambda one: (one[0], one[1], new(one, "attempt"))),
        ),
        (
            "reviews",
            rows("SELECT task_id, agent, verdict FROM reviews"),
            events("reviewed", lambda one: (one[0], one[1], new(one, "verdict"))),
        ),
        (
            "claims that ended by submit",
            rows("SELECT task_id, agent FROM claims WHERE ended_by = 'submitted'"),
            events("submitted", lambda one: one[:2]),
        ),
        (
            "claims that ended by release",
            rows("SELECT task_id FROM claims WHERE ended_by IN ('released', 'failed', 'forced')"),
            events("released", lambda one: one[:1]),
        ),
        (
            "claims that last",
            rows("SELECT claim_id, task_id, agent FROM claims WHERE ended_at IS NULL"),
            rows("SELECT claim_id, task_id, assignee FROM tasks WHERE status = 'claimed'"),
        ),
    ]
    for tool, event in _EVENT_OF_TOOL.items():
        audited = rows(f"SELECT agent FROM audit_log WHERE tool = '{tool}' AND outcome = 'ok'")
        called = Counter((one[1],) for one in told if one[2] == event and not _is_the_boards_own(one))
        pairs.append((f"{_AUDITED} {tool}", audited, called))
    return pairs

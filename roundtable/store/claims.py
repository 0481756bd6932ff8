"""Claims in the tables: who holds what, and who held it before."""

from __future__ import annotations

import sqlite3

from roundtable.rules.agents import Agent
from roundtable.rules.model import ClaimEnd, Now, Task


def begin(db: sqlite3.Connection, task: Task) -> None:
    db.execute(
        "INSERT INTO claims (claim_id, task_id, agent, attempt, claimed_at) VALUES (?, ?, ?, ?, ?)",
        (task.claim_id, task.task_id, task.assignee, task.attempt, task.claimed_at),
    )


def end(db: sqlite3.Connection, task: Task, ended_by: ClaimEnd, now: Now) -> None:
    db.execute(
        "UPDATE claims SET ended_at = ?, ended_by = ? WHERE claim_id = ?", (now.text, ended_by, task.claim_id)
    )


def held_by(db: sqlite3.Connection, name: str) -> list[int]:
    """The tasks that the agent holds now."""
    return [
        task_id
        for (task_id,) in db.execute(
            "SELECT task_id FROM claims WHERE agent = ? AND ended_at IS NULL ORDER BY task_id", (name,)
        )
    ]


def ever_held(db: sqlite3.Connection, task_id: int, name: str) -> bool:
    return (
        db.execute("SELECT 1 FROM claims WHERE task_id = ? AND agent = ? LIMIT 1", (task_id, name)).fetchone()
        is not None
    )


def last_holder(db: sqlite3.Connection, task_id: int) -> str | None:
    """Who holds the task, or held it last."""
    row = db.execute(
        "SELECT agent FROM claims WHERE task_id = ? ORDER BY attempt DESC LIMIT 1", (task_id,)
    ).fetchone()
    return row[0] if row else None


def cool_down(db: sqlite3.Connection, name: str, task_id: int, seconds: int, now: Now) -> None:
    """Keep the task from this agent's claim_next for so long; what was said before and lasts longer stands."""
    db.execute(
        "INSERT INTO cooldowns (agent, task_id, until_ms, seconds) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (agent, task_id) DO UPDATE SET until_ms = excluded.until_ms, seconds = excluded.seconds "
        "WHERE excluded.until_ms > until_ms",
        (name, task_id, now.board_ms + seconds * 1000, seconds),
    )


def bound_cool_downs(db: sqlite3.Connection, now: Now) -> None:
    """At a start: the clock may have been set meanwhile, so no more can remain than the whole length."""
    db.execute("DELETE FROM cooldowns WHERE until_ms <= ?", (now.board_ms,))
    db.execute("UPDATE cooldowns SET until_ms = min(until_ms, ? + seconds * 1000)", (now.board_ms,))


_READY = "status = 'open' AND needs_attention IS NULL AND open_dependencies = 0"
_NOT_COOLING = "NOT EXISTS (SELECT 1 FROM cooldowns c WHERE c.agent = :name AND c.task_id = tasks.task_id AND c.until_ms > :now)"
_BEST = (
    f"SELECT rank, {{whose}}, task_id FROM tasks WHERE {_READY} AND {{which}} AND {_NOT_COOLING} "  # noqa: S608
    "ORDER BY rank, task_id LIMIT 1"
)
_BEST_ASSIGNED = _BEST.format(whose=0, which="assigned_to = :name")
_BEST_UNSKILLED = _BEST.format(whose=1, which="assigned_to IS NULL AND required_skill IS NULL")
_BEST_SKILLED = _BEST.format(whose=1, which="assigned_to IS NULL AND required_skill = :skill")


def best_for(db: sqlite3.Connection, caller: Agent, now: Now) -> int | None:
    """The task that claim_next gives: lowest rank, then assigned to the caller, then oldest.

    One step in an index for each line the caller stands in: its own, that for everybody, and one a skill.
    """
    values = {"name": caller.name, "now": now.board_ms}
    candidates = [
        db.execute(_BEST_ASSIGNED, values).fetchone(),
        db.execute(_BEST_UNSKILLED, values).fetchone(),
        *(db.execute(_BEST_SKILLED, {**values, "skill": skill}).fetchone() for skill in caller.skills),
    ]
    found = [candidate for candidate in candidates if candidate is not None]
    return int(min(found)[2]) if found else None

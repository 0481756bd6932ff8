"""Claims in the tables: who holds what, and who held it before."""

from __future__ import annotations

import sqlite3

from roundtable.rules import claims as claiming
from roundtable.rules.agents import Agent
from roundtable.rules.model import Claim, ClaimEnd, Now, Task, utc_text
from roundtable.store.unit import Unit

_COLUMNS = "claim_id, task_id, agent, attempt, lease_until_ms, revision_seen, ended_by, superseded"


def begin(unit: Unit, task: Task) -> None:
    seconds = claiming.lease_seconds(task, unit.limits.lease_seconds)
    unit.db.execute(
        "INSERT INTO claims (claim_id, task_id, agent, attempt, claimed_at, lease_seconds, lease_until_ms, revision_seen) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            task.claim_id,
            task.task_id,
            task.assignee,
            task.attempt,
            task.claimed_at,
            seconds,
            unit.now.board_ms + seconds * 1000,
            task.revision,
        ),
    )


def end(db: sqlite3.Connection, task: Task, ended_by: ClaimEnd, now: Now) -> None:
    db.execute(
        "UPDATE claims SET ended_at = ?, ended_by = ? WHERE claim_id = ?", (now.text, ended_by, task.claim_id)
    )


def renew(unit: Unit, task: Task) -> None:
    """Start the lease of the task's present claim anew."""
    seconds = claiming.lease_seconds(task, unit.limits.lease_seconds)
    unit.db.execute(
        "UPDATE claims SET lease_seconds = ?, lease_until_ms = ? WHERE claim_id = ?",
        (seconds, unit.now.board_ms + seconds * 1000, task.claim_id),
    )


def note_read(db: sqlite3.Connection, task: Task) -> None:
    """The holder has the task before it as it is now."""
    db.execute("UPDATE claims SET revision_seen = ? WHERE claim_id = ?", (task.revision, task.claim_id))


def came_late(db: sqlite3.Connection, claim_id: str) -> None:
    """The claim that had run out has brought its result after all, and can bring no other."""
    db.execute("UPDATE claims SET ended_by = ? WHERE claim_id = ?", (ClaimEnd.SUBMITTED, claim_id))


def supersede_ended(db: sqlite3.Connection, task_id: int) -> None:
    """The leader has updated the task: what comes late from an earlier claim was made for another one."""
    db.execute("UPDATE claims SET superseded = 1 WHERE task_id = ? AND ended_at IS NOT NULL", (task_id,))


def run_out(db: sqlite3.Connection, now: Now) -> list[int]:
    """The tasks whose lease has run out, the longest ago first."""
    return [
        task_id
        for (task_id,) in db.execute(
            "SELECT task_id FROM claims WHERE ended_at IS NULL AND lease_until_ms <= ? ORDER BY lease_until_ms, task_id",
            (now.board_ms,),
        )
    ]


def next_end_ms(db: sqlite3.Connection) -> int | None:
    """When, on the board's clock, the next lease or cool-down runs out."""
    ends = db.execute(
        "SELECT (SELECT min(lease_until_ms) FROM claims WHERE ended_at IS NULL), (SELECT min(until_ms) FROM cooldowns)"
    ).fetchone()
    return min((end for end in ends if end is not None), default=None)


def expires_at(db: sqlite3.Connection, claim_id: str, now: Now) -> str:
    """When the claim's lease runs out, on the wall clock of now."""
    (until_ms,) = db.execute("SELECT lease_until_ms FROM claims WHERE claim_id = ?", (claim_id,)).fetchone()
    return utc_text(now.utc_ms + until_ms - now.board_ms)


def held_by(db: sqlite3.Connection, name: str) -> list[int]:
    """The tasks that the agent holds now."""
    return [
        task_id
        for (task_id,) in db.execute(
            "SELECT task_id FROM claims WHERE agent = ? AND ended_at IS NULL ORDER BY task_id", (name,)
        )
    ]


def present_of(db: sqlite3.Connection, task_id: int, name: str) -> str | None:
    """The id of the claim by which the agent holds the task now, if it does."""
    row = db.execute(
        "SELECT claim_id FROM claims WHERE agent = ? AND task_id = ? AND ended_at IS NULL", (name, task_id)
    ).fetchone()
    return row[0] if row else None


def ever_held(db: sqlite3.Connection, task_id: int, name: str) -> bool:
    return (
        db.execute("SELECT 1 FROM claims WHERE task_id = ? AND agent = ? LIMIT 1", (task_id, name)).fetchone()
        is not None
    )


def last(db: sqlite3.Connection, task_id: int) -> Claim | None:
    """The last claim of the task."""
    return _one(db, "task_id = ? ORDER BY attempt DESC", (task_id,))


def last_of(db: sqlite3.Connection, task_id: int, name: str) -> Claim | None:
    """The last claim of the task by this agent."""
    return _one(db, "task_id = ? AND agent = ? ORDER BY attempt DESC", (task_id, name))


def named(db: sqlite3.Connection, task_id: int, name: str, claim_id: str) -> Claim | None:
    """The claim of that id, if it is one of this agent on this task."""
    return _one(db, "task_id = ? AND agent = ? AND claim_id = ?", (task_id, name, claim_id))


def _one(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Claim | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM claims WHERE {where} LIMIT 1", values).fetchone()  # noqa: S608
    if row is None:
        return None
    claim_id, of_task, agent, attempt, lease_until_ms, revision_seen, ended_by, superseded = row
    return Claim(
        claim_id,
        of_task,
        agent,
        attempt,
        lease_until_ms,
        revision_seen,
        ClaimEnd(ended_by) if ended_by else None,
        bool(superseded),
    )


def open_claims(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """Every task that is held, and by whom."""
    return db.execute("SELECT task_id, agent FROM claims WHERE ended_at IS NULL ORDER BY task_id").fetchall()


def cool_down(db: sqlite3.Connection, name: str, task_id: int, seconds: int, now: Now) -> None:
    """Keep the task from this agent's claim_next for so long; what was said before and lasts longer stands."""
    db.execute(
        "INSERT INTO cooldowns (agent, task_id, until_ms, seconds) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (agent, task_id) DO UPDATE SET until_ms = excluded.until_ms, seconds = excluded.seconds "
        "WHERE excluded.until_ms > until_ms",
        (name, task_id, now.board_ms + seconds * 1000, seconds),
    )


def cooling(db: sqlite3.Connection, task_id: int) -> frozenset[str]:
    """The agents whose claim_next passes over the task for now."""
    return frozenset(
        name for (name,) in db.execute("SELECT agent FROM cooldowns WHERE task_id = ?", (task_id,))
    )


def end_cool_downs(db: sqlite3.Connection, now: Now) -> list[int]:
    """Forget the cool-downs that have run out, and say of which tasks."""
    return [
        task_id
        for (task_id,) in db.execute(
            "DELETE FROM cooldowns WHERE until_ms <= ? RETURNING task_id", (now.board_ms,)
        )
    ]


def bound_by_length(db: sqlite3.Connection, now: Now) -> None:
    """At a start: the clock may have been set meanwhile, so no more can remain than the whole length."""
    db.execute(
        "UPDATE claims SET lease_until_ms = min(lease_until_ms, ? + lease_seconds * 1000) WHERE ended_at IS NULL",
        (now.board_ms,),
    )
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

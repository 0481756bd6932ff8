"""Tasks in the tables: loading one, and writing a decided change of one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from roundtable.rules import attention
from roundtable.rules.change import Change
from roundtable.rules.errors import no_such_task
from roundtable.rules.model import Attention, Dependency, Status, Task, rank_of
from roundtable.store import claims, history
from roundtable.store.unit import Ready, Unit

_COLUMNS: Final = (
    "task_id",
    "title",
    "description",
    "acceptance_criteria",
    "required_skill",
    "priority",
    "assigned_to",
    "assignee",
    "status",
    "attempt",
    "failures",
    "rejections",
    "max_attempts",
    "lease_seconds",
    "revision",
    "result",
    "claim_id",
    "claimed_at",
    "created_at",
    "updated_at",
)
_SELECT: Final = (
    f"SELECT {', '.join(_COLUMNS)}, needs_attention, "  # noqa: S608
    "EXISTS (SELECT 1 FROM dependencies d WHERE d.task_id = tasks.task_id) FROM tasks WHERE task_id = ?"
)


def load(db: sqlite3.Connection, task_id: int) -> Task:
    """The task. Raises BoardError `not_found`."""
    row = db.execute(_SELECT, (task_id,)).fetchone()
    if row is None:
        raise no_such_task(task_id)
    *_, needs_attention, depends = row
    values = dict(zip(_COLUMNS, row, strict=False))
    values["status"] = Status(values["status"])
    values["depends_on"] = _depends_on(db, task_id) if depends else ()
    values["attention"] = _attention(db, task_id) if needs_attention is not None else frozenset()
    return Task(**values)


def next_id(db: sqlite3.Connection) -> int:
    """The id that the next task will have."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'tasks'").fetchone()
    return row[0] + 1 if row else 1


def dependencies_named(db: sqlite3.Connection, task_ids: Iterable[int]) -> list[Dependency]:
    """Those of the ids that exist, in the order given."""
    found = []
    for task_id in task_ids:
        row = db.execute("SELECT title, status FROM tasks WHERE task_id = ?", (task_id,)).fetchone()
        if row:
            found.append(Dependency(task_id, row[0], Status(row[1])))
    return found


def unfinished(db: sqlite3.Connection, task_id: int) -> list[int]:
    """The task's dependencies that are not done."""
    return [
        found
        for (found,) in db.execute(
            "SELECT t.task_id FROM dependencies d JOIN tasks t ON t.task_id = d.depends_on "
            "WHERE d.task_id = ? AND t.status <> 'done' ORDER BY d.position",
            (task_id,),
        )
    ]


def leads_to(db: sqlite3.Connection, starts: Iterable[int], task_id: int) -> bool:
    """Whether following dependencies from any of `starts` arrives at the task."""
    seen = set(starts)
    front = list(seen)
    while front:
        current = front.pop()
        if current == task_id:
            return True
        for (cause,) in db.execute("SELECT depends_on FROM dependencies WHERE task_id = ?", (current,)):
            if cause not in seen:
                seen.add(cause)
                front.append(cause)
    return False


def apply(unit: Unit, change: Change) -> None:
    """Write a decided change, with the attention that follows from it: the task, what hangs on it, the claim, history."""
    change = attention.completed(change, unit.directory)
    before, after, db = change.before, change.after, unit.db
    may_become_ready = after.status is Status.OPEN
    was_ready = may_become_ready and before is not None and is_ready(db, before.task_id)
    if before is None:
        _insert(db, after)
    else:
        _update(db, before, after)
    if after.depends_on != (before.depends_on if before else ()):
        _replace_dependencies(db, after)
    if after.status is Status.DONE and before is not None and before.status is not Status.DONE:
        _unblock_dependents(unit, after.task_id)
    _replace_attention(unit, before.attention if before else frozenset(), after)
    last = claims.last(db, after.task_id) if before is not None and before.attempt else None
    last_holder = last.agent if last else None
    if after.claim_id is not None and (before is None or before.claim_id != after.claim_id):
        claims.begin(unit, after)
    if change.ends is not None and before is not None:
        claims.end(db, before, change.ends, unit.now)
    if before is not None and before.revision != after.revision:
        claims.supersede_ended(db, after.task_id)
    history.write(unit, change, last_holder)
    if (
        may_become_ready
        and (not was_ready or before is None or _line(before) != _line(after))
        and is_ready(db, after.task_id)
    ):
        unit.ready.append(after.task_id)


def ready(db: sqlite3.Connection, task_id: int) -> Ready | None:
    """The task if somebody could claim it now."""
    row = _ready_line(db, task_id)
    return Ready(task_id, row[0], row[1], claims.cooling(db, task_id)) if row else None


def is_ready(db: sqlite3.Connection, task_id: int) -> bool:
    """Whether somebody could claim the task now."""
    return _ready_line(db, task_id) is not None


def _ready_line(db: sqlite3.Connection, task_id: int) -> tuple[str | None, str | None] | None:
    row: tuple[str | None, str | None] | None = db.execute(
        "SELECT assigned_to, required_skill FROM tasks "
        "WHERE task_id = ? AND status = 'open' AND needs_attention IS NULL AND open_dependencies = 0",
        (task_id,),
    ).fetchone()
    return row


def _line(task: Task) -> tuple[str | None, str | None]:
    """In which line a claimant has to stand to get the task."""
    return task.assigned_to, task.required_skill


def _unblock_dependents(unit: Unit, task_id: int) -> None:
    unit.db.execute(
        "UPDATE tasks SET open_dependencies = open_dependencies - 1 "
        "WHERE task_id IN (SELECT task_id FROM dependencies WHERE depends_on = ?)",
        (task_id,),
    )
    unit.ready.extend(waiting_for(unit.db, task_id))


def _insert(db: sqlite3.Connection, task: Task) -> None:
    names = (*_COLUMNS, "rank")
    db.execute(
        f"INSERT INTO tasks ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608
        (*(getattr(task, name) for name in _COLUMNS), rank_of(task)),
    )


def _update(db: sqlite3.Connection, before: Task, after: Task) -> None:
    """Only the columns that changed, so that only their indexes are touched."""
    changed = [name for name in _COLUMNS if getattr(before, name) != getattr(after, name)]
    values = [getattr(after, name) for name in changed]
    if before.priority != after.priority:
        changed.append("rank")
        values.append(rank_of(after))
    if changed:
        db.execute(
            f"UPDATE tasks SET {', '.join(f'{name} = ?' for name in changed)} WHERE task_id = ?",  # noqa: S608
            (*values, after.task_id),
        )


def _replace_dependencies(db: sqlite3.Connection, task: Task) -> None:
    db.execute("DELETE FROM dependencies WHERE task_id = ?", (task.task_id,))
    db.executemany(
        "INSERT INTO dependencies (task_id, depends_on, position) VALUES (?, ?, ?)",
        [(task.task_id, cause, position) for position, cause in enumerate(task.depends_on)],
    )
    db.execute(
        "UPDATE tasks SET open_dependencies = ? WHERE task_id = ?",
        (len(unfinished(db, task.task_id)), task.task_id),
    )


def _replace_attention(unit: Unit, before: frozenset[Attention], after: Task) -> None:
    if before == after.attention:
        return
    db = unit.db
    db.executemany(
        "DELETE FROM attention WHERE task_id = ? AND reason = ?",
        [(after.task_id, reason) for reason in before - after.attention],
    )
    db.executemany(
        "INSERT INTO attention (task_id, reason, since) VALUES (?, ?, ?)",
        [(after.task_id, reason, unit.now.text) for reason in after.attention - before],
    )
    db.execute(
        "UPDATE tasks SET needs_attention = ? WHERE task_id = ?", (after.needs_attention, after.task_id)
    )


def waiting_for(db: sqlite3.Connection, task_id: int) -> list[int]:
    """The open tasks that depend on this one."""
    return [
        found
        for (found,) in db.execute(
            # CROSS: from the few that depend to their status, never through all that are open
            "SELECT t.task_id FROM dependencies d CROSS JOIN tasks t ON t.task_id = d.task_id "
            "WHERE d.depends_on = ? AND t.status = 'open' ORDER BY t.task_id",
            (task_id,),
        )
    ]


def assigned_open(db: sqlite3.Connection) -> list[int]:
    """The open tasks that are assigned to somebody."""
    return [
        found
        for (found,) in db.execute(
            "SELECT task_id FROM tasks WHERE status = 'open' AND assigned_to IS NOT NULL ORDER BY task_id"
        )
    ]


def _depends_on(db: sqlite3.Connection, task_id: int) -> tuple[int, ...]:
    return tuple(
        found
        for (found,) in db.execute(
            "SELECT depends_on FROM dependencies WHERE task_id = ? ORDER BY position", (task_id,)
        )
    )


def _attention(db: sqlite3.Connection, task_id: int) -> frozenset[Attention]:
    return frozenset(
        Attention(reason)
        for (reason,) in db.execute("SELECT reason FROM attention WHERE task_id = ?", (task_id,))
    )

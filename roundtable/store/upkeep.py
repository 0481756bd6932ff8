"""What the board does on its own: ending leases and cool-downs, and letting go of agents that are gone."""

from __future__ import annotations

from roundtable.rules import attention
from roundtable.rules import claims as claiming
from roundtable.rules.limits import COOLDOWN_SECONDS_DEFAULT
from roundtable.store import claims, search, tasks
from roundtable.store.unit import Unit


def prepare(unit: Unit, *, has_end: bool) -> None:
    """Before the commands of every batch. `has_end` says whether a lease or a cool-down has run out."""
    if has_end:
        expire(unit)
    search.keep_up(unit.db)


def expire(unit: Unit) -> None:
    """End what has run out: no command sees such a lease as current."""
    for task_id in claims.run_out(unit.db, unit.now):
        task = tasks.load(unit.db, task_id)
        tasks.apply(unit.as_board, claiming.expire(task, unit.now))
        if task.assignee is not None:
            claims.cool_down(unit.db, task.assignee, task_id, COOLDOWN_SECONDS_DEFAULT, unit.now)
    unit.ready.extend(claims.end_cool_downs(unit.db, unit.now))


def settle_agents(unit: Unit) -> None:
    """Bring the board in line with who is known now: nobody but a known worker holds a task, or has an open one assigned."""
    for task_id, holder in claims.open_claims(unit.db):
        if not unit.directory.is_worker(holder):
            tasks.apply(unit.as_board, claiming.remove_holder(tasks.load(unit.db, task_id), unit.now))
    for task_id in tasks.assigned_open(unit.db):
        change = attention.agents_replaced(tasks.load(unit.db, task_id), unit.directory, unit.now)
        if change.before is None or change.before.attention != change.after.attention:
            tasks.apply(unit.as_board, change)

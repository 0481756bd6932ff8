"""Small builders for the rules' types, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.errors import BoardError
from roundtable.rules.model import Now, Status, Task

LEAD = Agent("lead", Role.LEADER)
ANN = Agent("ann", Role.WORKER, ("python", "sql"))
BOB = Agent("bob", Role.WORKER)
TABLE = Directory([LEAD, ANN, BOB])

THEN = "2026-11-29T10:00:00.000Z"
NOW = Now(1_796_000_000_000, 5_000, "2026-11-30T05:33:20.000Z")


def a_task(**fields: Any) -> Task:
    """An open task of nobody's; a claimed one also has what a claim brings."""
    values: dict[str, Any] = {
        "task_id": 7,
        "title": "A title",
        "description": "What to do",
        "acceptance_criteria": None,
        "required_skill": None,
        "priority": 0,
        "depends_on": (),
        "assigned_to": None,
        "assignee": None,
        "status": Status.OPEN,
        "attempt": 0,
        "failures": 0,
        "rejections": 0,
        "max_attempts": 3,
        "lease_seconds": None,
        "revision": 0,
        "attention": frozenset(),
        "result": None,
        "claim_id": None,
        "claimed_at": None,
        "created_at": THEN,
        "updated_at": THEN,
    }
    if fields.get("status") is Status.CLAIMED:
        values |= {"assignee": "ann", "attempt": 1, "claim_id": "c1", "claimed_at": THEN}
    elif fields.get("status") in {Status.SUBMITTED, Status.DONE}:
        values |= {"assignee": "ann", "attempt": 1, "result": "the result"}
    return Task(**(values | fields))


def refusal_of(call: Any, *args: Any, **named: Any) -> BoardError:
    """The BoardError that the call raises; fails if it raises none."""
    try:
        call(*args, **named)
    except BoardError as error:
        return error
    raise AssertionError("nothing was refused")

"""Rows of the tables in the shapes of replies."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final

from roundtable.rules import replies
from roundtable.rules.model import Task
from roundtable.rules.paging import shown_value
from roundtable.store import claims
from roundtable.store.tasks import unfinished
from roundtable.store.unit import Unit

ROW_COLUMNS: Final = (
    "task_id, title, status, priority, assigned_to, assignee, required_skill, needs_attention, attempt, "
    "open_dependencies, updated_at"
)


def row(db: sqlite3.Connection, values: tuple[Any, ...]) -> replies.Row:
    """A task in brief, from `ROW_COLUMNS`."""
    task_id, title, status, priority, assigned_to, assignee, skill, attention, attempt, waits, updated_at = (
        values
    )
    brief: replies.Row = {
        "task_id": task_id,
        "title": title,
        "status": status,
        "priority": priority,
        "attempt": attempt,
        "updated_at": updated_at,
    }
    if assigned_to is not None:
        brief["assigned_to"] = assigned_to
    if assignee is not None:
        brief["assignee"] = assignee
    if skill is not None:
        brief["required_skill"] = skill
    if attention is not None:
        brief["needs_attention"] = attention
    if waits and status == "open":
        brief["blocked_by"] = unfinished(db, task_id)
    return brief


def fields(unit: Unit, task: Task, *, for_holder: bool) -> replies.TaskFields:
    """All of a task; the claim_id for its holder only."""
    shown: replies.TaskFields = {
        "task_id": task.task_id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "status": task.status.value,
        "attempt": task.attempt,
        "failures": task.failures,
        "rejections": task.rejections,
        "max_attempts": task.max_attempts,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
    }
    if task.acceptance_criteria is not None:
        shown["acceptance_criteria"] = task.acceptance_criteria
    if task.required_skill is not None:
        shown["required_skill"] = task.required_skill
    if task.depends_on:
        shown["depends_on"] = list(task.depends_on)
    if task.assigned_to is not None:
        shown["assigned_to"] = task.assigned_to
    if task.assignee is not None:
        shown["assignee"] = task.assignee
    if task.needs_attention is not None:
        shown["needs_attention"] = task.needs_attention.value
        shown["attention"] = sorted(reason.value for reason in task.attention)
    if task.result is not None:
        shown["result"] = task.result
    if task.claimed_at is not None:
        shown["claimed_at"] = task.claimed_at
    if task.lease_seconds is not None:
        shown["lease_seconds"] = task.lease_seconds
    if task.claim_id is not None:
        shown["lease_expires_at"] = claims.expires_at(unit.db, task.claim_id, unit.now)
    if task.claim_id is not None and for_holder:
        shown["claim_id"] = task.claim_id
    return shown


def event(values: tuple[Any, ...]) -> replies.EventRow:
    """An event, from event_id, time, task_id, agent, event, changes."""
    event_id, time, task_id, agent, name, changes = values
    shown: replies.EventRow = {
        "event_id": event_id,
        "time": time,
        "agent": agent,
        "event": name,
        "changes": {
            field: [shown_value(old), shown_value(new)] for field, (old, new) in json.loads(changes).items()
        },
    }
    if task_id is not None:
        shown["task_id"] = task_id
    return shown

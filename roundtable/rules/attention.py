"""Why a task waits for its leader: which changes bring a reason about, in one place."""

from __future__ import annotations

from dataclasses import replace

from roundtable.rules.agents import Directory
from roundtable.rules.change import Change
from roundtable.rules.limits import REJECTIONS_MAX
from roundtable.rules.model import Attention, Now, Status, Task


def completed(change: Change, directory: Directory) -> Change:
    """The change with the reasons that follow from it."""
    task = change.after
    reasons = set(task.attention)
    before = change.before
    if before is not None and task.failures > before.failures and task.failures >= task.max_attempts:
        reasons.add(Attention.ATTEMPTS_EXHAUSTED)
    if before is not None and task.rejections > before.rejections and task.rejections >= REJECTIONS_MAX:
        reasons.add(Attention.REJECTED_REPEATEDLY)
    if is_orphan(task, directory):
        reasons.add(Attention.ASSIGNEE_GONE)
    if reasons == task.attention:
        return change
    return replace(change, after=replace(task, attention=frozenset(reasons)))


def is_orphan(task: Task, directory: Directory) -> bool:
    """Whether the task waits for an agent that is no longer known, or leads now."""
    return (
        task.status is Status.OPEN
        and task.assigned_to is not None
        and not directory.is_worker(task.assigned_to)
    )


def dependency_cancelled(task: Task, now: Now) -> Change:
    """Decide what a cancelled dependency means for a task that waits for it."""
    return _with_reasons(task, task.attention | {Attention.DEPENDENCY_CANCELLED}, now)


def agents_replaced(task: Task, directory: Directory, now: Now) -> Change:
    """Decide what new agents mean for an open task that is assigned to somebody: orphaned, or at home again."""
    if is_orphan(task, directory):
        return _with_reasons(task, task.attention | {Attention.ASSIGNEE_GONE}, now)
    return _with_reasons(task, task.attention - {Attention.ASSIGNEE_GONE}, now)


def _with_reasons(task: Task, reasons: frozenset[Attention], now: Now) -> Change:
    return Change(None, task, replace(task, attention=reasons, updated_at=now.text))

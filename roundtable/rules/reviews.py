"""Reviewing and cancelling: how a task ends, or goes round again."""

from __future__ import annotations

from dataclasses import replace

from roundtable.rules.change import Change, Event
from roundtable.rules.commands import CancelTask, ReviewTask
from roundtable.rules.errors import invalid
from roundtable.rules.lifecycle import Action, after
from roundtable.rules.model import ClaimEnd, Now, Status, Task, Verdict


def review(task: Task, command: ReviewTask, now: Now) -> Change:
    """Decide a review. A rejected result lives on in its review round; the task itself is as before it.

    Raises BoardError: `conflict` (not submitted), `invalid` (reject without a note).
    """
    facts = {"verdict": command.verdict.value, "note": command.note}
    if command.verdict is Verdict.ACCEPT:
        # nothing can follow, so nothing waits for the leader any more
        new = replace(task, status=after(task, Action.ACCEPT), attention=frozenset(), updated_at=now.text)
        return Change(Event.REVIEWED, task, new, facts)
    status = after(task, Action.REJECT)
    if command.note is None:
        raise invalid("A reject needs a note: it tells the next attempt what to do better.")
    new = replace(
        task,
        status=status,
        assigned_to=task.assignee if command.keep_assignee else task.assigned_to,
        assignee=None,
        result=None,
        rejections=task.rejections + 1,
        updated_at=now.text,
    )
    return Change(Event.REVIEWED, task, new, facts)


def cancel(task: Task, command: CancelTask, now: Now) -> Change:
    """Decide a cancel. Raises BoardError `conflict` on a final task."""
    held = task.status is Status.CLAIMED
    new = replace(
        task,
        status=after(task, Action.CANCEL),
        assignee=None if held else task.assignee,
        claim_id=None,
        claimed_at=None,
        attention=frozenset(),
        updated_at=now.text,
    )
    return Change(
        Event.CANCELLED, task, new, {"reason": command.reason}, ClaimEnd.CANCELLED if held else None
    )

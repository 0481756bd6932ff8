"""Claiming, releasing and submitting: the worker's side of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roundtable.rules import limits
from roundtable.rules.agents import Agent
from roundtable.rules.change import Change, Event
from roundtable.rules.commands import ReleaseTask, SubmitResult
from roundtable.rules.errors import BoardError, Code, echo, forbidden, invalid
from roundtable.rules.lifecycle import Action, after, is_final, wrong_status
from roundtable.rules.model import Attention, ClaimEnd, Now, Status, Task
from roundtable.rules.text import is_invisible


def holds(task: Task, agent: Agent) -> bool:
    return task.status is Status.CLAIMED and task.assignee == agent.name


def claim(task: Task, caller: Agent, unfinished: Sequence[int], claim_id: str, now: Now) -> Change:
    """Decide a claim. `unfinished` are the task's dependencies that are not done.

    Raises BoardError: `conflict` (not open), `forbidden` (another's, or a skill that the caller lacks),
    `needs_attention`, `blocked`.
    """
    status = after(task, Action.CLAIM)
    if task.assigned_to is not None and task.assigned_to != caller.name:
        raise forbidden(
            f"Task {task.task_id} is assigned to {echo(task.assigned_to)}; only that worker may claim it."
        )
    if (
        task.assigned_to is None
        and task.required_skill is not None
        and task.required_skill not in caller.skills
    ):
        # the skill is named by the leader: not repeated here, an error carries no other agent's text
        raise forbidden(
            f"Task {task.task_id} needs a skill that you do not have: get_task shows which, whoami lists yours."
        )
    if task.needs_attention is not None:
        raise BoardError(
            Code.NEEDS_ATTENTION,
            f"Task {task.task_id} waits for the leader ({task.needs_attention}) and cannot be claimed until that is settled.",
        )
    if unfinished:
        raise BoardError(
            Code.BLOCKED,
            f"Task {task.task_id} waits for tasks that are not done yet (blocked_by).",
            blocked_by=list(unfinished),
        )
    new = replace(
        task,
        status=status,
        assignee=caller.name,
        claim_id=claim_id,
        claimed_at=now.text,
        attempt=task.attempt + 1,
        updated_at=now.text,
    )
    return Change(Event.CLAIMED, task, new)


def refuse_one_more(held: Sequence[int], allowed: int) -> None:
    """Raise BoardError `conflict` if a worker that holds these may hold no further task."""
    if len(held) >= allowed:
        raise BoardError(
            Code.CONFLICT,
            f"You hold {len(held)} of at most {allowed} tasks: {', '.join(map(str, held))}. Submit or release one first.",
            status=Status.CLAIMED.value,
            held=list(held),
        )


def refuse_not_holder(task: Task, caller: Agent, *, ever_held: bool) -> None:
    """Raise BoardError unless the caller holds the task now: `forbidden`, `conflict` or `stale_claim`, in this order."""
    if holds(task, caller):
        return
    if not ever_held:
        raise forbidden(f"You have never held task {task.task_id}; only its holder may do this.")
    if is_final(task.status) or (task.status is Status.SUBMITTED and task.assignee == caller.name):
        raise wrong_status(task, "only its holder may do this, while it is claimed")
    raise BoardError(
        Code.STALE_CLAIM,
        f"Your claim on task {task.task_id} has ended; the task is {task.status}. Nothing was changed.",
        status=task.status.value,
    )


def release(task: Task, caller: Agent, command: ReleaseTask, now: Now, *, ever_held: bool) -> Change:
    """Decide a release by the holder, or by the leader by force (which counts no failure).

    Raises BoardError: see `refuse_not_holder`; `conflict` where nobody holds it.
    """
    forced = caller.is_leader
    if forced:
        if command.failed:
            raise invalid("failed=true is for the holder of a task; a leader's release counts no failure.")
    else:
        refuse_not_holder(task, caller, ever_held=ever_held)
    new = replace(
        task,
        status=after(task, Action.RELEASE),
        assignee=None,
        claim_id=None,
        claimed_at=None,
        failures=task.failures + command.failed,
        updated_at=now.text,
    )
    ends = ClaimEnd.FORCED if forced else ClaimEnd.FAILED if command.failed else ClaimEnd.RELEASED
    return Change(Event.RELEASED, task, new, {"reason": command.reason}, ends)


def cooldown_seconds(command: ReleaseTask, caller: Agent) -> int:
    """How long the former holder's claim_next passes over the task after this release; 0 for not at all."""
    if caller.is_leader:
        return limits.COOLDOWN_SECONDS_DEFAULT
    return command.cooldown_seconds if command.failed else 0


def is_same_submit(task: Task, caller: Agent, command: SubmitResult) -> bool:
    """Whether this very result of this caller already stands: a repeat after a lost answer."""
    return (
        task.status in {Status.SUBMITTED, Status.DONE}
        and task.assignee == caller.name
        and task.result == command.result
    )


def submit(task: Task, caller: Agent, command: SubmitResult, now: Now, *, ever_held: bool) -> Change:
    """Decide a submit.

    Raises BoardError: `invalid` for a result in which nothing can be seen; see `refuse_not_holder`.
    """
    if is_invisible(command.result):
        raise invalid("The result has no visible character. Submit the work itself, or release the task.")
    refuse_not_holder(task, caller, ever_held=ever_held)
    new = replace(
        task,
        status=after(task, Action.SUBMIT),
        claim_id=None,
        claimed_at=None,
        result=command.result,
        attention=task.attention - {Attention.HELP_REQUESTED, Attention.ATTEMPTS_EXHAUSTED},
        updated_at=now.text,
    )
    return Change(Event.SUBMITTED, task, new, ends=ClaimEnd.SUBMITTED)

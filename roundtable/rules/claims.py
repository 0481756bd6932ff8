"""Claims: taking one, and every way in which it ends but a submit.

A claim is a lease with a fence: it ends by itself unless its holder is heard of, and its claim_id, new for every
claim, tells a holder of today from one of yesterday.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roundtable.rules import limits
from roundtable.rules.agents import Agent
from roundtable.rules.change import Change, Event
from roundtable.rules.commands import ReleaseTask
from roundtable.rules.errors import BoardError, Code, echo, forbidden, invalid
from roundtable.rules.lifecycle import Action, after, is_final, wrong_status
from roundtable.rules.model import ClaimEnd, Now, Status, Task

NEVER_HANDED_OVER = "the answer to claim_next was never handed over"
"""Why the board took a claim back: told in history, and by no tool call."""


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


def refuse_not_holder(task: Task, caller: Agent, claim_id: str | None, *, ever_held: bool) -> None:
    """Raise BoardError unless the caller holds the task now, by the claim that it names (None: its present one).

    `forbidden` if it never held it; `conflict` if the task is final or submitted by the caller; else `stale_claim`.
    """
    if holds(task, caller) and claim_id in (None, task.claim_id):
        return
    if not ever_held:
        raise forbidden(f"You have never held task {task.task_id}; only its holder may do this.")
    if is_final(task.status) or (task.status is Status.SUBMITTED and task.assignee == caller.name):
        raise wrong_status(task, "only its holder may do this, while it is claimed")
    what = "You hold it by another claim" if holds(task, caller) else "Your claim on it has ended"
    raise BoardError(
        Code.STALE_CLAIM,
        f"{what}; task {task.task_id} is {task.status}. Nothing was changed; whoami lists your present claims.",
        status=task.status.value,
    )


def lease_seconds(task: Task, default: int) -> int:
    """How long a claim of the task lasts without a word from its holder."""
    return task.lease_seconds or default


def _freed(task: Task, action: Action, now: Now) -> Task:
    """The task back on the board."""
    return replace(
        task,
        status=after(task, action),
        assignee=None,
        claim_id=None,
        claimed_at=None,
        updated_at=now.text,
    )


def release(task: Task, caller: Agent, command: ReleaseTask, now: Now, *, ever_held: bool) -> Change:
    """Decide a release by the holder, or by the leader by force (which counts no failure).

    Raises BoardError: see `refuse_not_holder`; `conflict` where nobody holds it.
    """
    forced = caller.is_leader
    if forced:
        if command.failed:
            raise invalid("failed=true is for the holder of a task; a leader's release counts no failure.")
        freed = _freed(task, Action.RELEASE, now)
        if command.claim_id not in (None, task.claim_id):
            raise BoardError(
                Code.STALE_CLAIM,
                f"Task {task.task_id} is held by another claim than the one named. Nothing was changed.",
                status=task.status.value,
            )
    else:
        refuse_not_holder(task, caller, command.claim_id, ever_held=ever_held)
        freed = _freed(task, Action.RELEASE, now)
    new = replace(freed, failures=task.failures + command.failed)
    ends = ClaimEnd.FORCED if forced else ClaimEnd.FAILED if command.failed else ClaimEnd.RELEASED
    return Change(Event.RELEASED, task, new, {"reason": command.reason}, ends)


def expire(task: Task, now: Now) -> Change:
    """Decide the end of a lease that has run out."""
    new = replace(_freed(task, Action.EXPIRE, now), failures=task.failures + 1)
    return Change(Event.EXPIRED, task, new, ends=ClaimEnd.EXPIRED)


def undo(task: Task, now: Now) -> Change:
    """Decide that a claim whose answer never arrived is as good as never made."""
    facts = {"reason": NEVER_HANDED_OVER}
    return Change(Event.RELEASED, task, _freed(task, Action.RELEASE, now), facts, ClaimEnd.RELEASED)


def remove_holder(task: Task, now: Now) -> Change:
    """Decide the end of a claim whose holder is no longer known."""
    return Change(Event.AGENT_REMOVED, task, _freed(task, Action.RELEASE, now), ends=ClaimEnd.AGENT_REMOVED)


def cooldown_seconds(command: ReleaseTask, caller: Agent) -> int:
    """How long the former holder's claim_next passes over the task after this release; 0 for not at all."""
    if caller.is_leader:
        return limits.COOLDOWN_SECONDS_DEFAULT
    return command.cooldown_seconds if command.failed else 0

"""Submitting: in time, again after a lost answer, or too late."""

from __future__ import annotations

from dataclasses import replace

from roundtable.rules.agents import Agent
from roundtable.rules.change import Change, Event
from roundtable.rules.claims import holds, refuse_not_holder
from roundtable.rules.commands import SubmitResult
from roundtable.rules.errors import BoardError, invalid
from roundtable.rules.lifecycle import Action, after
from roundtable.rules.model import Attention, Claim, ClaimEnd, Kind, Now, Status, Task
from roundtable.rules.text import is_invisible

KEPT = "The text is kept on the task as a message (late_result)."
"""Added to a refusal whose work was not thrown away."""


def named_claim(command: SubmitResult, task: Task, caller: Agent, last_own: Claim | None) -> str | None:
    """The claim that a submit speaks of: the one it names, else the present one, else the caller's last."""
    if command.claim_id is not None:
        return command.claim_id
    if holds(task, caller):
        return task.claim_id
    return last_own.claim_id if last_own else None


def is_repeat(command: SubmitResult, brought: str | None) -> bool:
    """Whether this very text was submitted by this claim before: a repeat after a lost answer.

    `brought` is the text that the claim which the submit speaks of was submitted with, if it was.
    """
    return brought == command.result


def submit(
    task: Task, caller: Agent, command: SubmitResult, last: Claim | None, now: Now, *, ever_held: bool
) -> Change:
    """Decide a submit. `last` is the last claim ever made of the task.

    A late one is accepted if its claim was that last one, ended by running out, and the leader has not touched the
    task since. Raises BoardError: `invalid` for a result in which nothing can be seen; see `refuse_not_holder`.
    """
    if is_invisible(command.result):
        raise invalid("The result has no visible character. Submit the work itself, or release the task.")
    late = _is_welcome_late(task, caller, command, last)
    if not late:
        refuse_not_holder(task, caller, command.claim_id, ever_held=ever_held)
    new = replace(
        task,
        status=after(task, Action.SUBMIT_LATE if late else Action.SUBMIT),
        assignee=caller.name,
        claim_id=None,
        claimed_at=None,
        result=command.result,
        attention=task.attention - {Attention.HELP_REQUESTED, Attention.ATTEMPTS_EXHAUSTED},
        updated_at=now.text,
    )
    return Change(Event.SUBMITTED, task, new, ends=None if late else ClaimEnd.SUBMITTED)


def _is_welcome_late(task: Task, caller: Agent, command: SubmitResult, last: Claim | None) -> bool:
    return (
        task.status is Status.OPEN
        and last is not None
        and last.agent == caller.name
        and command.claim_id in (None, last.claim_id)
        and last.ended_by is ClaimEnd.EXPIRED
        and not last.superseded
    )


def keep(task: Task, message_id: int, now: Now) -> Change:
    """Keep refused work on the task as a message, also on a final one."""
    facts = {"message_id": message_id, "kind": Kind.LATE_RESULT.value}
    return Change(Event.MESSAGE_POSTED, task, replace(task, updated_at=now.text), facts)


def with_kept(error: BoardError) -> BoardError:
    """The same refusal, saying that the text is kept."""
    return BoardError(error.code, f"{error.message} {KEPT}", **error.details)

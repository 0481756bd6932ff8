"""Messages on a task."""

from __future__ import annotations

from dataclasses import replace

from roundtable.rules import limits
from roundtable.rules.agents import Agent
from roundtable.rules.change import Change, Event
from roundtable.rules.commands import PostMessage
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.lifecycle import refuse_final
from roundtable.rules.model import Attention, Kind, Now, Task


def post(
    task: Task,
    caller: Agent,
    command: PostMessage,
    message_id: int,
    posted: int,
    now: Now,
    *,
    ever_held: bool,
) -> Change:
    """Decide a message. `posted` is how many the task has.

    A help_request by whom the task concerns calls the leader; the leader's reply settles it.
    Raises BoardError: `conflict` (final task), `too_large` (one message too many).
    """
    refuse_final(task, "nothing more can be posted on it")
    if posted >= limits.MESSAGES_PER_TASK:
        raise BoardError(
            Code.TOO_LARGE,
            f"Task {task.task_id} has {posted} messages, the most a task can have. Put the rest into the result or a new task.",
        )
    attention = task.attention
    concerns_caller = caller.name in {task.assignee, task.assigned_to} or ever_held
    if command.kind is Kind.HELP_REQUEST and concerns_caller and not caller.is_leader:
        attention = attention | {Attention.HELP_REQUESTED}
    elif command.kind is Kind.REPLY and caller.is_leader:
        attention = attention - {Attention.HELP_REQUESTED}
    new = replace(task, attention=attention, updated_at=now.text)
    return Change(Event.MESSAGE_POSTED, task, new, {"message_id": message_id, "kind": command.kind.value})

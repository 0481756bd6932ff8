"""Which command is carried out by which function, and what goes for all of them: roles, keys, late work, renewal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundtable.rules import commands, submits
from roundtable.rules.commands import Call, Command
from roundtable.rules.errors import BoardError
from roundtable.rules.roles import refuse_role
from roundtable.store import claims, glance, idempotency, listing, reads, tasks, updates, writes
from roundtable.store.unit import Unit

Handler = Callable[[Unit, Any], Any]

READS: dict[type[Command[Any]], Handler] = {
    commands.WhoAmI: reads.who_am_i,
    commands.ListAgents: reads.list_agents,
    commands.ListTasks: listing.list_tasks,
    commands.GetTask: reads.get_task,
    commands.ReadBoard: glance.read_board,
    commands.GetHistory: reads.get_history,
    commands.WaitForUpdates: updates.wait_for_updates,
}
WRITES: dict[type[Command[Any]], Handler] = {
    commands.CreateTask: writes.create_task,
    commands.UpdateTask: writes.update_task,
    commands.ClaimTask: writes.claim_task,
    commands.ClaimNext: writes.claim_next,
    commands.RenewClaim: writes.renew_claim,
    commands.ReleaseTask: writes.release_task,
    commands.PostMessage: writes.post_message,
    commands.SubmitResult: writes.submit_result,
    commands.ReviewTask: writes.review_task,
    commands.CancelTask: writes.cancel_task,
}
OWN: dict[type[Command[Any]], Handler] = {
    commands.Probe: lambda _unit, _command: None,
    commands.Sweep: lambda _unit, _command: None,  # every batch begins with it
    commands.IsReady: lambda unit, command: tasks.is_ready(unit.db, command.task_id),
    commands.UndoClaim: writes.undo_claim,
    commands.ReplaceAgents: lambda _unit, _command: None,  # the executor's doing: it knows the agents
}
"""The board's own commands: no tool sends them, so no role is asked for and no audit row written."""


def carry_out(unit: Unit, call: Call[Any]) -> Any:
    """The reply to the call. Raises BoardError."""
    command = call.command
    own = OWN.get(type(command))
    if own is not None:
        return own(unit, command)
    refuse_role(unit.caller, type(command), call.tool)
    read = READS.get(type(command))
    if read is not None:
        return read(unit, command)
    first_answer = idempotency.recall(unit, call.tool, command)
    if first_answer is not None:
        return first_answer
    reply = WRITES[type(command)](unit, command)
    idempotency.remember(unit, call.tool, command, reply)
    return reply


def is_empty_wait(command: Command[Any], reply: Any) -> bool:
    """Whether this is a wait that is not over yet, and leaves no audit row."""
    if isinstance(command, commands.ClaimNext):
        return command.waits and reply == {"task": None}
    return isinstance(command, commands.WaitForUpdates) and command.waits and updates.is_empty(command, reply)


def is_of_holder(unit: Unit, call: Call[Any]) -> bool:
    """Whether the call is about a task that the caller holds, by the claim that it names, if it names one."""
    if call.task_id is None or type(call.command) in OWN:
        return False
    present = claims.present_of(unit.db, call.task_id, unit.caller.name)
    return present is not None and getattr(call.command, "claim_id", None) in (None, present)


def renew_lease(unit: Unit, call: Call[Any]) -> None:
    """A holder that is heard of keeps its claim: every call that names the task renews the lease, refused or not."""
    if call.task_id is not None:
        claims.renew(unit, tasks.load(unit.db, call.task_id))


def after_refusal(unit: Unit, call: Call[Any], error: BoardError) -> BoardError:
    """What is done although the call was refused: late work is kept, and the refusal says so."""
    command = call.command
    if isinstance(command, commands.SubmitResult) and writes.keep_late_result(unit, command):
        return submits.with_kept(error)
    return error

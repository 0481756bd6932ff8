"""What becomes of calls: of each one, of a batch of them, and what the audit log says of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from roundtable.rules import commands
from roundtable.rules.commands import Call
from roundtable.rules.errors import BoardError
from roundtable.rules.model import Now
from roundtable.store import audit
from roundtable.store.dispatch import OWN, is_empty_wait
from roundtable.store.unit import Ready, Told


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call: a reply, or the error that refused it.

    `is_replay`: the first answer to its key, given again. `is_recorded`: there is an audit row of it.
    """

    reply: Any = None
    error: BoardError | None = None
    is_replay: bool = False
    is_recorded: bool = True

    def unwrap(self) -> Any:
        """The reply. Raises the BoardError if the call was refused."""
        if self.error is not None:
            raise self.error
        return self.reply


@dataclass(frozen=True, slots=True)
class Executed:
    """A finished batch: an outcome for each call, events for the program's log, and whom it may wake.

    `ready` are the tasks that can be claimed since; `concerned` the recipients that have news.
    """

    outcomes: list[Outcome]
    told: list[Told] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    concerned: set[str] = field(default_factory=set)


def audit_entry(call: Call[Any], outcome: Outcome, now: Now) -> audit.Entry | None:
    """The row of a call that was decided at `now`; None for what has no row."""
    command = call.command
    if type(command) in OWN or (outcome.error is None and is_empty_wait(command, outcome.reply)):
        return None
    word = outcome.error.code.value if outcome.error else "ok"
    if isinstance(command, commands.RecordRefusal) and command.error is None:
        word = "gone"
    duration_ms = max(0, now.board_ms - call.arrived.board_ms)
    task_id = call.task_id or _brought_about(outcome)
    return audit.Entry(
        call.arrived.text, call.caller.name, call.tool, task_id, word, duration_ms, call.empty_waits
    )


def _brought_about(outcome: Outcome) -> int | None:
    """The task that a call came upon without naming it: created, or given by claim_next."""
    return outcome.reply.get("task_id") if isinstance(outcome.reply, dict) else None

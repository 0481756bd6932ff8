"""Who may do what: the table behind tools/list and every call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from roundtable.rules import commands
from roundtable.rules.agents import Agent, Role
from roundtable.rules.errors import forbidden

_ALL: Final = frozenset(Role)
_LEADER: Final = frozenset({Role.LEADER})
_WORKER: Final = frozenset({Role.WORKER})

ALLOWED: Mapping[type[commands.Command[Any]], frozenset[Role]] = MappingProxyType(
    {
        commands.WhoAmI: _ALL,
        commands.ListAgents: _ALL,
        commands.CreateTask: _LEADER,
        commands.UpdateTask: _LEADER,
        commands.ListTasks: _ALL,
        commands.GetTask: _ALL,
        commands.ReadBoard: _ALL,
        commands.ClaimTask: _WORKER,
        commands.ClaimNext: _WORKER,
        commands.RenewClaim: _WORKER,
        commands.ReleaseTask: _ALL,
        commands.PostMessage: _ALL,
        commands.SubmitResult: _WORKER,
        commands.ReviewTask: _LEADER,
        commands.CancelTask: _LEADER,
        commands.GetHistory: _ALL,
        commands.WaitForUpdates: _ALL,
    }
)


def refuse_role(caller: Agent, kind: type[commands.Command[Any]], tool: str) -> None:
    """Raise BoardError `forbidden` unless the caller's role may send such a command."""
    allowed = ALLOWED[kind]
    if caller.role not in allowed:
        raise forbidden(f"{tool} is for the {' and '.join(sorted(allowed))}; you are a {caller.role}.")

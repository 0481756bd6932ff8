"""Whom an event concerns: the recipients that wait_for_updates reads by.

They are stored with every event from the first day, so that nothing of the past has to be guessed later.
"""

from __future__ import annotations

from roundtable.rules.agents import Agent
from roundtable.rules.change import Change, Event
from roundtable.rules.model import Attention, Kind, Task

LEADER = "leader"
"""The leader is addressed by role: whoever leads tomorrow reads what was told today."""


def worker(name: str) -> str:
    """How a worker is addressed."""
    return f"worker:{name}"


def address(agent: Agent) -> str:
    """How the agent is addressed."""
    return LEADER if agent.is_leader else worker(agent.name)


def recipients(event: Event, change: Change, actor: Agent, last_holder: str | None) -> frozenset[str]:
    """Whom this event of the change concerns; never the one who did it, but for attention.

    `last_holder` is who held the task last, or holds it.
    """
    after, before = change.after, change.before
    concerned: set[str] = set()
    if event in {Event.SUBMITTED, Event.EXPIRED, Event.ATTENTION_SET, Event.AGENT_REMOVED}:
        concerned.add(LEADER)
    if event is Event.MESSAGE_POSTED and actor.is_leader:
        concerned |= _workers(after.assignee, after.assigned_to, last_holder)
    if event is Event.MESSAGE_POSTED and _calls_leader(change):
        concerned.add(LEADER)
    if event is Event.CANCELLED:
        concerned |= _workers(after.assigned_to)
    if event in {Event.CANCELLED, Event.REVIEWED, Event.EXPIRED}:
        concerned |= _workers(before.assignee if before else None)
    if event is Event.RELEASED and actor.is_leader:
        concerned |= _workers(before.assignee if before else None)
    if event is Event.UPDATED:
        concerned |= _workers(after.assignee)
    if event in {Event.CREATED, Event.UPDATED, Event.REVIEWED} and _newly_assigned(before, after):
        concerned |= _workers(after.assigned_to)
    if event is not Event.ATTENTION_SET:
        # what an act entails may be news to the one who acted
        concerned.discard(address(actor))
    return frozenset(concerned)


def _calls_leader(change: Change) -> bool:
    """Late work; and a call for help on a task that waits for help already, which sets no attention."""
    kind = change.facts.get("kind")
    waited = change.before is not None and Attention.HELP_REQUESTED in change.before.attention
    return kind == Kind.LATE_RESULT or (kind == Kind.HELP_REQUEST and waited)


def _newly_assigned(before: Task | None, after: Task) -> bool:
    return after.assigned_to is not None and (before is None or before.assigned_to != after.assigned_to)


def _workers(*names: str | None) -> set[str]:
    return {worker(name) for name in names if name is not None}

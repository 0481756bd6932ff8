"""A change of one task: what was, what is, and the events that tell it.

History is made from this and nothing else, so that replaying it gives back every field of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from roundtable.rules.model import Attention, ClaimEnd, Task


class Event(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    CLAIMED = "claimed"
    RELEASED = "released"
    EXPIRED = "expired"
    SUBMITTED = "submitted"
    REVIEWED = "reviewed"
    CANCELLED = "cancelled"
    MESSAGE_POSTED = "message_posted"
    ATTENTION_SET = "attention_set"
    ATTENTION_CLEARED = "attention_cleared"
    AGENT_REMOVED = "agent_removed"


_NOT_IN_HISTORY = frozenset({"task_id", "claim_id", "revision", "updated_at", "attention"})
"""Identity, secret, derivable (twice), and told by events of its own."""

TOLD_FIELDS = tuple(f.name for f in fields(Task) if f.name not in _NOT_IN_HISTORY)

Changes = Mapping[str, tuple[object, object]]
"""Field -> (old value, new value)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One decided step.

    `event` is None where only attention changes. `facts` are further values to tell (a reason, a verdict); `ends`
    says how a claim ended.
    """

    event: Event | None
    before: Task | None
    after: Task
    facts: Mapping[str, object] = field(default_factory=dict)
    ends: ClaimEnd | None = None

    def events(self) -> Iterator[tuple[Event, Changes]]:
        """The events of this change, in the order in which they are told."""
        if self.event is not None:
            facts = {name: (None, fact) for name, fact in self.facts.items() if fact is not None}
            yield self.event, {**self._field_changes(), **facts}
        before = self.before.attention if self.before else frozenset()
        for reason in Attention:
            if reason in self.after.attention - before:
                yield Event.ATTENTION_SET, {"attention": (None, reason.value)}
            elif reason in before - self.after.attention:
                yield Event.ATTENTION_CLEARED, {"attention": (reason.value, None)}

    def _field_changes(self) -> dict[str, tuple[object, object]]:
        told: dict[str, tuple[object, object]] = {}
        for name in TOLD_FIELDS:
            old = getattr(self.before, name) if self.before else None
            new = getattr(self.after, name)
            if old != new and not (self.before is None and new == ()):
                told[name] = (old, new)
        return told

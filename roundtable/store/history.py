"""History in the tables: every change of every task, with whom it concerns."""

from __future__ import annotations

from pydantic_core import to_json

from roundtable.rules import news
from roundtable.rules.change import Change, Changes, Event
from roundtable.store.unit import Told, Unit

_TOLD_DETAILS = ("verdict", "kind", "failures", "rejections", "attention", "attempt", "status")
"""What the program's log may show of an event: words of the board itself, no text of any agent."""


def write(unit: Unit, change: Change, last_holder: str | None) -> None:
    """One row for each event of the change, and a row for each agent that it concerns."""
    for event, changes in change.events():
        cursor = unit.db.execute(
            "INSERT INTO history (time, task_id, agent, event, changes) VALUES (?, ?, ?, ?, ?)",
            (unit.now.text, change.after.task_id, unit.caller.name, event, _encoded(changes)),
        )
        recipients = news.recipients(event, change, unit.caller, last_holder)
        for recipient in sorted(recipients):
            unit.db.execute(
                "INSERT INTO recipients (recipient, event_id) VALUES (?, ?)", (recipient, cursor.lastrowid)
            )
        unit.concerned.update(recipients)
        details = {} if event is Event.CREATED else _details(changes)  # of a new task everything is new
        unit.told.append(Told(event, change.after.task_id, unit.caller.name, details))


def _encoded(changes: Changes) -> str:
    return to_json(changes).decode()


def _details(changes: Changes) -> dict[str, object]:
    return {
        name: new if new is not None else old for name, (old, new) in changes.items() if name in _TOLD_DETAILS
    }

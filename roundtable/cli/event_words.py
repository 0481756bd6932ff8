"""What happened on the board, in words: one line of printable text for each event of the history."""

from __future__ import annotations

from typing import Any, Final

from roundtable.rules.change import Event
from roundtable.rules.model import Kind, Status
from roundtable.rules.replies import EventRow
from supervisor.rules.text import in_one_line

REASON_CHARS: Final = 100

_MESSAGES: Final[dict[str, str]] = {
    Kind.PROGRESS: "reports progress on",
    Kind.HELP_REQUEST: "asks for help with",
    Kind.REPLY: "replies on",
    Kind.NOTE: "writes a note on",
    Kind.LATE_RESULT: "brings late work for",
}


def describe(event: EventRow) -> str:
    """Who did what. Of texts only titles and reasons are told, shortened."""
    task, agent = f"task {event.get('task_id')}", in_one_line(event["agent"])
    changes = event["changes"]
    match event["event"]:
        case Event.CREATED:
            return f"{agent} puts {task} on the board: {_text(_new(changes, 'title'))}"
        case Event.UPDATED:
            return f"{agent} changes {task}: {', '.join(sorted(changes)) or 'nothing'}"
        case Event.CLAIMED:
            return f"{agent} claims {task}"
        case Event.RELEASED:
            return _with_reason(f"{agent} gives {task} back", changes)
        case Event.EXPIRED:
            return f"the lease of {_text(_old(changes, 'assignee'))} on {task} has run out"
        case Event.SUBMITTED:
            return f"{agent} submits {task}"
        case Event.REVIEWED:
            verb = "accepts" if _new(changes, "status") == Status.DONE else "sends back"
            return f"{agent} {verb} {task}"
        case Event.CANCELLED:
            return _with_reason(f"{agent} cancels {task}", changes)
        case Event.MESSAGE_POSTED:
            return f"{agent} {_MESSAGES.get(_new(changes, 'kind'), 'writes on')} {task}"
        case Event.ATTENTION_SET:
            return f"{task} needs the leader: {_new(changes, 'attention')}"
        case Event.ATTENTION_CLEARED:
            return f"{task} needs the leader no longer for: {_old(changes, 'attention')}"
        case Event.AGENT_REMOVED:
            return f"{_text(_old(changes, 'assignee'))} is no longer an agent of the board and loses {task}"
        case other:
            return f"{agent}: {in_one_line(other)} {task}"


def clock_time(event: EventRow) -> str:
    """The event's time of day, in UTC."""
    return event["time"][11:19]


def _with_reason(words: str, changes: dict[str, list[object]]) -> str:
    reason = _new(changes, "reason")
    return words if reason is None else f"{words}: {_text(reason)}"


def _new(changes: dict[str, list[object]], name: str) -> Any:
    return changes[name][1] if name in changes else None


def _old(changes: dict[str, list[object]], name: str) -> Any:
    return changes[name][0] if name in changes else None


def _text(value: object) -> str:
    """A short text as it is; of a long one the history gives only the length."""
    if isinstance(value, dict):
        return f"({value.get('length')} characters)"
    text = in_one_line(str(value))
    return text if len(text) <= REASON_CHARS else f"{text[: REASON_CHARS - 1]}…"

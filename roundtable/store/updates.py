"""News: what concerns an agent, from the stored history."""

from __future__ import annotations

from collections.abc import Iterator

from roundtable.rules import commands, cursor, news, replies
from roundtable.rules.limits import NEEDS_NOW_MAX
from roundtable.rules.paging import fill
from roundtable.store import views
from roundtable.store.unit import Unit

_OF = "updates"


def wait_for_updates(unit: Unit, command: commands.WaitForUpdates) -> replies.News:
    """What there is now: since the cursor, or without one what now needs the caller and the cursor of now."""
    if command.cursor is None:
        (newest,) = unit.db.execute("SELECT coalesce(max(event_id), 0) FROM history").fetchone()
        page, _ = fill(_needs_now(unit), NEEDS_NOW_MAX)
        return {"cursor": cursor.encode(unit.board_id, _OF, newest), "updates": page[::-1]}
    since = cursor.decode(command.cursor, unit.board_id, _OF)
    page, _ = fill(_since(unit, since), NEEDS_NOW_MAX)
    if page:
        since = page[-1]["event_id"]
    return {"cursor": cursor.encode(unit.board_id, _OF, since), "updates": page}


def is_empty(command: object, reply: object) -> bool:
    """Whether this is an answer without news to somebody who named a cursor: what a wait is for."""
    return (
        isinstance(command, commands.WaitForUpdates)
        and command.cursor is not None
        and isinstance(reply, dict)
        and not reply["updates"]
    )


def _since(unit: Unit, event_id: int) -> Iterator[replies.EventRow]:
    rows = unit.db.execute(
        "SELECT h.event_id, h.time, h.task_id, h.agent, h.event, h.changes FROM recipients r "
        "JOIN history h ON h.event_id = r.event_id WHERE r.recipient = ? AND r.event_id > ? "
        "ORDER BY r.event_id LIMIT ?",
        (news.address(unit.caller), event_id, NEEDS_NOW_MAX + 1),
    )
    return (views.event(row) for row in rows)


def _needs_now(unit: Unit) -> Iterator[replies.EventRow]:
    """The last event that concerned the caller of each task that still waits for it, the newest first."""
    waiting = (
        "SELECT task_id FROM tasks WHERE status = 'submitted' "
        "UNION SELECT task_id FROM tasks WHERE needs_attention IS NOT NULL"
        if unit.caller.is_leader
        else "SELECT task_id FROM tasks WHERE assignee = :name AND status = 'claimed' "
        "UNION SELECT task_id FROM tasks WHERE assigned_to = :name AND status = 'open' AND needs_attention IS NULL"
    )
    rows = unit.db.execute(
        "SELECT h.event_id, h.time, h.task_id, h.agent, h.event, h.changes FROM "  # noqa: S608
        "(SELECT (SELECT max(r.event_id) FROM history x JOIN recipients r ON r.event_id = x.event_id "
        f"AND r.recipient = :recipient WHERE x.task_id = w.task_id) AS event_id FROM ({waiting}) w) last "
        "JOIN history h ON h.event_id = last.event_id ORDER BY h.event_id DESC LIMIT :most",
        {"name": unit.caller.name, "recipient": news.address(unit.caller), "most": NEEDS_NOW_MAX},
    )
    return (views.event(row) for row in rows)

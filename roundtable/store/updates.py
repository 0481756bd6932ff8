"""News: what concerns an agent, from the stored history."""

from __future__ import annotations

from collections.abc import Iterator

from roundtable.rules import commands, cursor, news, replies
from roundtable.rules.agents import Role
from roundtable.rules.limits import NEEDS_NOW_MAX
from roundtable.rules.paging import fill
from roundtable.store import views
from roundtable.store.unit import Unit

_OF = "updates"

_EACH = "SELECT * FROM (SELECT task_id FROM tasks WHERE {} ORDER BY task_id LIMIT :most)"
_WAITING_FOR = {
    Role.LEADER: " UNION ".join(
        _EACH.format(which) for which in ("status = 'submitted'", "needs_attention IS NOT NULL")
    ),
    Role.WORKER: " UNION ".join(
        _EACH.format(which)
        for which in (
            "assignee = :name AND status = 'claimed'",
            "assigned_to = :name AND status = 'open' AND needs_attention IS NULL",
        )
    ),
}
"""The tasks that wait for a caller of each role: a bounded number of each kind, the oldest first."""


def wait_for_updates(unit: Unit, command: commands.WaitForUpdates) -> replies.News:
    """What there is now: since the cursor, or without one what now needs the caller and the cursor of now."""
    if command.cursor is None:
        page, _ = fill(_needs_now(unit), NEEDS_NOW_MAX)
        return {"cursor": cursor.encode(unit.board_id, _OF, _newest(unit)), "updates": page}
    since = cursor.decode(command.cursor, unit.board_id, _OF)
    if since > _newest(unit):
        raise cursor.foreign()  # of a board that went on from here, before this file was put back
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


def _newest(unit: Unit) -> int:
    (newest,) = unit.db.execute("SELECT coalesce(max(event_id), 0) FROM history").fetchone()
    return int(newest)


def _since(unit: Unit, event_id: int) -> Iterator[replies.EventRow]:
    rows = unit.db.execute(
        "SELECT h.event_id, h.time, h.task_id, h.agent, h.event, h.changes FROM recipients r "
        "JOIN history h ON h.event_id = r.event_id WHERE r.recipient = ? AND r.event_id > ? "
        "ORDER BY r.event_id LIMIT ?",
        (news.address(unit.caller), event_id, NEEDS_NOW_MAX + 1),
    )
    return (views.event(row) for row in rows)


def _needs_now(unit: Unit) -> Iterator[replies.EventRow]:
    """The last event of each task that still waits for the caller, of those that concerned it; the longest waiting first."""
    rows = unit.db.execute(
        "SELECT h.event_id, h.time, h.task_id, h.agent, h.event, h.changes FROM "  # noqa: S608
        "(SELECT coalesce((SELECT max(r.event_id) FROM history x CROSS JOIN recipients r ON r.event_id = x.event_id "
        "AND r.recipient = :recipient WHERE x.task_id = w.task_id), "
        # what it claimed by itself nobody told it of
        "(SELECT max(event_id) FROM history WHERE task_id = w.task_id)) AS event_id "
        f"FROM ({_WAITING_FOR[unit.caller.role]}) w) last "
        "JOIN history h ON h.event_id = last.event_id ORDER BY h.event_id LIMIT :most",
        {"name": unit.caller.name, "recipient": news.address(unit.caller), "most": NEEDS_NOW_MAX},
    )
    return (views.event(row) for row in rows)

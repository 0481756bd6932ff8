"""The board at a glance, for an agent."""

from __future__ import annotations

from roundtable.rules import commands, replies
from roundtable.rules.limits import NEEDS_NOW_MAX
from roundtable.rules.paging import fill
from roundtable.store import views
from roundtable.store.unit import Unit


def read_board(unit: Unit, command: commands.ReadBoard) -> replies.BoardAtAGlance:
    """The counts by status, and what waits for the leader, the oldest first, as far as one answer goes."""
    del command
    counts = dict(unit.db.execute("SELECT status, tasks FROM task_counts"))
    (waiting,) = unit.db.execute("SELECT count(*) FROM tasks WHERE needs_attention IS NOT NULL").fetchone()
    rows = unit.db.execute(
        f"SELECT {views.ROW_COLUMNS} FROM tasks WHERE needs_attention IS NOT NULL ORDER BY task_id LIMIT ?",  # noqa: S608
        (NEEDS_NOW_MAX,),
    )
    shown, _ = fill((views.row(unit.db, values) for values in rows), NEEDS_NOW_MAX)
    return {
        "counts": {
            "open": counts["open"],
            "claimed": counts["claimed"],
            "submitted": counts["submitted"],
            "done": counts["done"],
            "cancelled": counts["cancelled"],
            "needs_attention": waiting,
        },
        "needs_attention": shown,
    }

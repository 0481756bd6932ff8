"""The picture of `watch`: the board in columns, the pool and what happened last, together on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from roundtable.cli.event_words import clock_time, describe
from roundtable.cli.status_view import draw_endpoints, draw_stuck, draw_workers, make_table
from roundtable.cli.status_words import heading, in_a_count, is_in_trouble, is_notable
from roundtable.rules.model import Status
from roundtable.rules.replies import EventRow, Row
from supervisor.rules.text import in_one_line

Values = Mapping[str, Any]

STATUS_STYLES: Final = {
    Status.OPEN: "default",
    Status.CLAIMED: "yellow",
    Status.SUBMITTED: "cyan",
    Status.DONE: "green",
    Status.CANCELLED: "red",
}
_STUCK_MAX: Final = 3
_ROWS_MIN: Final = 3
"""Of the columns and of the events, however low the screen is."""
_COLUMNS_FRAME, _EVENTS_FRAME, _TABLE_FRAME = 4, 1, 2
"""Lines that headings and frames take."""


def draw_watch(
    snapshot: Values,
    columns: Mapping[str, Sequence[Row]],
    events: Sequence[EventRow],
    notice: str | None,
    width: int,
    height: int,
) -> RenderableType:
    """All of it on a screen of this size. What there is no room for is counted; what is in trouble comes first."""
    now = str(snapshot["time"])
    board, pool = snapshot.get("board"), snapshot.get("pool")
    head = [Text(heading(snapshot), style="bold", no_wrap=True)]
    if notice is not None:
        head.append(Text(notice, style="bold red", no_wrap=True))
    if board is not None and board["trouble"] is not None:
        head.append(Text(f"TROUBLE: {in_one_line(board['trouble'])}", style="bold red", no_wrap=True))
    room = height - len(head)
    stuck = None if board is None else board.get("needs_attention")
    stuck_parts: list[RenderableType] = []
    if stuck is not None and stuck["count"]:
        stuck_parts.append(draw_stuck(stuck, now, _STUCK_MAX))
        room -= min(_STUCK_MAX, len(stuck["tasks"])) + _TABLE_FRAME
    others = 0 if board is None else _COLUMNS_FRAME + _EVENTS_FRAME + 2 * _ROWS_MIN
    pool_parts: list[RenderableType] = []
    if pool is not None and pool["workers"]:
        pool_parts, lines = _draw_pool(pool, now, width, room - others)
        room -= lines
    board_parts: list[RenderableType] = []
    if board is not None:
        room -= _COLUMNS_FRAME + _EVENTS_FRAME
        rows = max(_ROWS_MIN, room // 2)
        room -= min(rows, max([1, *(len(cards) for cards in columns.values())]))
        board_parts.append(draw_columns(board, columns, rows))
    event_parts = [draw_events(events[-max(_ROWS_MIN, room) :])] if events else []
    return Group(*head, *board_parts, *stuck_parts, *pool_parts, *event_parts)


def _draw_pool(pool: Values, now: str, width: int, room: int) -> tuple[list[RenderableType], int]:
    """The workers and their endpoints, and how many lines that takes: hardly more than `room`."""
    workers, endpoints = pool["workers"], pool["endpoints"]
    rows = room - 2 * _TABLE_FRAME
    if len(workers) + len(endpoints) > rows:
        rows -= 2  # for what is counted only
    fewer = max(1, rows // 3)
    shown_workers = _choose(workers, max(1, rows - min(fewer, len(endpoints))), is_notable)
    shown_endpoints = _choose(endpoints, max(1, rows - len(shown_workers)), is_in_trouble)
    parts: list[RenderableType] = [draw_workers(shown_workers, now, screen=width)]
    parts += _count_rest(workers, shown_workers, "state")
    parts.append(draw_endpoints(shown_endpoints, now, screen=width))
    parts += _count_rest(endpoints, shown_endpoints, "health")
    lines = len(shown_workers) + len(shown_endpoints) + 2 * _TABLE_FRAME + len(parts) - 2
    return parts, lines


def _choose(rows: Sequence[Values], count: int, comes_first: Callable[[Values], bool]) -> list[Values]:
    """So many of them, in their order: those that come first and, where there is room, others."""
    by_weight = sorted(range(len(rows)), key=lambda number: not comes_first(rows[number]))
    return [rows[number] for number in sorted(by_weight[:count])]


def _count_rest(rows: Sequence[Values], shown: Sequence[Values], field: str) -> list[Text]:
    if len(shown) == len(rows):
        return []
    shown_ones = {id(row) for row in shown}
    counts = Counter(str(row[field]) for row in rows if id(row) not in shown_ones)
    words = ", ".join(f"{count} {in_a_count(word)}" for word, count in counts.items())
    return [Text(f"and {len(rows) - len(shown)} more: {words}", style="dim", no_wrap=True)]


def draw_columns(board: Values, columns: Mapping[str, Sequence[Row]], rows: int) -> Table:
    """A column for each status, the newest tasks on top."""
    table = Table(expand=True)
    counts = board.get("tasks", {})
    cells = []
    for status in Status:
        table.add_column(
            Text(f"{status.value} {counts.get(status.value, '')}", style=STATUS_STYLES[status]),
            ratio=1,
            no_wrap=True,
        )
        cells.append(
            Text("\n", no_wrap=True, overflow="ellipsis").join(
                _card(row) for row in columns.get(status, ())[:rows]
            )
        )
    table.add_row(*cells)
    return table


def _card(row: Row) -> Text:
    card = Text(f"{row['task_id']} ", style="bold", no_wrap=True, overflow="ellipsis")
    if "needs_attention" in row:
        card.append("! ", style="bold red")
    elif row.get("blocked_by"):
        card.append("… ", style="dim")
    who = row.get("assignee") or row.get("assigned_to")
    if who:
        card.append(f"{in_one_line(who)}: ", style="cyan")
    return card.append(in_one_line(row["title"]), style="not bold")


def draw_events(events: Sequence[EventRow]) -> Table:
    table = make_table("What happened last (UTC)", "", "")
    table.show_header = False
    for event in events:
        table.add_row(clock_time(event), Text(describe(event), no_wrap=True, overflow="ellipsis"))
    return table

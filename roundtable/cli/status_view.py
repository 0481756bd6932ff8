"""The picture of a running program, for the terminal. All text is shown as it is: no markup, nothing a terminal obeys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from roundtable.cli.event_words import clock_time, describe
from roundtable.cli.status_words import (
    answer_of,
    board_lines,
    calls_of,
    duration,
    failure_of,
    heading,
    health_of,
    models_of,
    seconds_between,
    state_of,
    tokens_of,
    users_of,
)
from roundtable.rules.model import Status
from roundtable.rules.replies import EventRow, Row
from supervisor.rules.text import in_one_line

Values = Mapping[str, Any]

WIDTH_ELSEWHERE: Final = 160
"""Where the output is no terminal: wide enough that hardly a line is broken."""

STATUS_STYLES: Final = {
    Status.OPEN: "default",
    Status.CLAIMED: "yellow",
    Status.SUBMITTED: "cyan",
    Status.DONE: "green",
    Status.CANCELLED: "red",
}
_STATE_STYLES: Final = {
    "working": "yellow",
    "waiting": "green",
    "parked": "bold red",
    "cooling_down": "magenta",
    "backing_off": "magenta",
    "at_cap": "magenta",
    "board_away": "red",
    "restarting": "red",
}
_HEALTH_STYLES: Final = {"well": "green", "cooling_down": "magenta", "failing": "red"}

_OTHER_ROWS: Final = 14
"""Lines of the screen that headings and frames take."""


def plain_console() -> Console:
    """For output that goes elsewhere than to a terminal."""
    return Console(width=WIDTH_ELSEWHERE, no_color=True, force_terminal=False)


def as_text(picture: RenderableType) -> str:
    """The picture without colours, for elsewhere than a terminal."""
    console = plain_console()
    with console.capture() as capture:
        console.print(picture)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n"))


def draw_status(snapshot: Values) -> RenderableType:
    """Board and pool at a glance."""
    now = str(snapshot["time"])
    parts: list[RenderableType] = [Text(heading(snapshot), style="bold")]
    board, pool = snapshot.get("board"), snapshot.get("pool")
    if board is not None:
        parts += [
            Text(line, style="bold red" if line.startswith("TROUBLE") else "") for line in board_lines(board)
        ]
        parts += _lists(board, now)
    if pool is not None and pool["workers"]:
        parts += ["", draw_workers(pool["workers"], now), "", draw_endpoints(pool["endpoints"], now)]
    else:
        parts.append(Text("No worker of a pool runs in this program."))
    return Group(*parts)


def _lists(board: Values, now: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    stuck, held = board.get("needs_attention"), board.get("held")
    if stuck is not None and stuck["count"]:
        parts += ["", draw_stuck(stuck, now)]
    if held is not None and held["count"]:
        table = _table(f"Held ({held['count']:,})", "task", "title", "agent", "for", "lease ends in")
        for task in held["tasks"]:
            table.add_row(
                str(task["task_id"]),
                Text(in_one_line(task["title"])),
                Text(in_one_line(task["agent"])),
                duration(seconds_between(task["since"], now)),
                duration(seconds_between(now, task["lease_expires_at"])),
            )
        parts += ["", table]
    return parts


def draw_stuck(stuck: Values, now: str, rows: int | None = None) -> Table:
    table = _table(f"Needs the leader ({stuck['count']:,})", "task", "title", "because of", "for")
    for task in stuck["tasks"][:rows]:
        table.add_row(
            str(task["task_id"]),
            Text(in_one_line(task["title"])),
            Text(", ".join(task["reasons"]), style="red"),
            duration(seconds_between(task["since"], now)) if task["since"] else "",
        )
    return table


def draw_workers(workers: Sequence[Values], now: str) -> Table:
    table = _table("Workers", "name", "does", "calls in an hour", "tokens in 24 h", "model", "restarts")
    for worker in workers:
        table.add_row(
            Text(in_one_line(worker["name"])),
            Text(state_of(worker, now), style=_STATE_STYLES.get(worker["state"], "")),
            calls_of(worker),
            tokens_of(worker),
            Text(models_of(worker)),
            str(worker["restarts"]),
        )
    return table


def draw_endpoints(endpoints: Sequence[Values], now: str) -> Table:
    table = _table("Endpoints", "address", "health", "last answer", "last failure", "used by")
    for endpoint in endpoints:
        table.add_row(
            Text(in_one_line(endpoint["base_url"])),
            Text(health_of(endpoint, now), style=_HEALTH_STYLES.get(endpoint["health"], "")),
            answer_of(endpoint, now),
            failure_of(endpoint, now),
            Text(users_of(endpoint)),
        )
    return table


def draw_watch(
    snapshot: Values,
    columns: Mapping[str, Sequence[Row]],
    events: Sequence[EventRow],
    notice: str | None,
    height: int,
) -> RenderableType:
    """All of it on one screen of this height: the board in columns, the pool, and what happened last."""
    now = str(snapshot["time"])
    board, pool = snapshot.get("board"), snapshot.get("pool")
    fixed = _OTHER_ROWS + (len(pool["workers"]) + len(pool["endpoints"]) if pool else 0)
    rows = max(3, (height - fixed) // 2)
    parts: list[RenderableType] = [Text(heading(snapshot), style="bold", no_wrap=True)]
    if notice is not None:
        parts.append(Text(notice, style="bold red", no_wrap=True))
    if board is not None:
        if board["trouble"] is not None:
            parts.append(Text(f"TROUBLE: {in_one_line(board['trouble'])}", style="bold red", no_wrap=True))
        parts.append(draw_columns(board, columns, rows))
        stuck = board.get("needs_attention")
        if stuck is not None and stuck["count"]:
            shown = min(3, len(stuck["tasks"]))
            parts.append(draw_stuck(stuck, now, shown))
            rows = max(3, rows - shown - 2)
    if pool is not None and pool["workers"]:
        parts += [draw_workers(pool["workers"], now), draw_endpoints(pool["endpoints"], now)]
    if events:
        parts.append(draw_events(events[-rows:]))
    return Group(*parts)


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
    table = _table("What happened last (UTC)", "", "")
    table.show_header = False
    for event in events:
        table.add_row(clock_time(event), Text(describe(event), no_wrap=True, overflow="ellipsis"))
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(*headings, box=None, title=title, title_justify="left", pad_edge=False, header_style="dim")
    table.title_style = "bold"
    return table

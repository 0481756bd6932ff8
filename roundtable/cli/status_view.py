"""The picture of a running program, for the terminal. All text is shown as it is: no markup, nothing a terminal obeys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from roundtable.cli.status_words import (
    PARKED_ADVICE,
    answer_of,
    board_lines,
    calls_of,
    cost_of,
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
from supervisor.rules.text import in_one_line

Values = Mapping[str, Any]

WIDE_SCREEN: Final = 110
"""Of a narrower one each line has room for what matters most only."""
_NAME_CHARS, _OTHER_CHARS = 20, 45
"""What a narrow screen keeps for what a worker does, and for all else of it."""
WIDTH_ELSEWHERE: Final = 160
"""Where the output is no terminal: wide enough that hardly a line is broken."""

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
    if pool is None:
        parts.append(Text("No pool runs in this program."))
    elif not pool["workers"]:
        parts.append(Text("The pool has no workers: the roster names none."))
    else:
        parts += ["", draw_workers(pool["workers"], now)]
        if any(worker["state"] == "parked" for worker in pool["workers"]):
            parts.append(Text(PARKED_ADVICE))
        parts += ["", draw_endpoints(pool["endpoints"], now)]
    return Group(*parts)


def _lists(board: Values, now: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    stuck, held = board.get("needs_attention"), board.get("held")
    if stuck is not None and stuck["count"]:
        parts += ["", draw_stuck(stuck, now)]
    if held is not None and held["count"]:
        table = make_table(f"Held ({held['count']:,})", "task", "title", "agent", "for", "lease ends in")
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
    table = make_table(f"Needs the leader ({stuck['count']:,})", "task", "title", "because of", "for")
    for task in stuck["tasks"][:rows]:
        table.add_row(
            str(task["task_id"]),
            Text(in_one_line(task["title"])),
            Text(", ".join(task["reasons"]), style="red"),
            duration(seconds_between(task["since"], now)) if task["since"] else "",
        )
    return table


def draw_workers(workers: Sequence[Values], now: str, *, screen: int | None = None) -> Table:
    """`screen`: how wide it is. Then each worker takes one line of it, and what matters less is left out or cut."""
    columns = {
        "name": [Text(in_one_line(worker["name"])) for worker in workers],
        "does": [
            Text(state_of(worker, now), style=_STATE_STYLES.get(worker["state"], "")) for worker in workers
        ],
        "calls in 1 h": [Text(calls_of(worker)) for worker in workers],
        "tokens in 24 h": [Text(tokens_of(worker)) for worker in workers],
    }
    if screen is None or screen >= WIDE_SCREEN:
        if any(worker["cost_last_day"] is not None for worker in workers):
            columns["cost in 24 h"] = [Text(cost_of(worker)) for worker in workers]
        columns["model"] = [Text(models_of(worker)) for worker in workers]
    return _table_of("Workers", columns, ("name", "does", "calls in 1 h"), screen)


def draw_endpoints(endpoints: Sequence[Values], now: str, *, screen: int | None = None) -> Table:
    """`screen`: how wide it is. Then each endpoint takes one line of it, and what matters less is left out or cut."""
    columns = {
        "address": [Text(in_one_line(endpoint["base_url"])) for endpoint in endpoints],
        "health": [
            Text(health_of(endpoint, now), style=_HEALTH_STYLES.get(endpoint["health"], ""))
            for endpoint in endpoints
        ],
        "last failure": [Text(failure_of(endpoint, now)) for endpoint in endpoints],
    }
    if screen is None or screen >= WIDE_SCREEN:
        columns["last answer"] = [Text(answer_of(endpoint, now)) for endpoint in endpoints]
        columns["used by"] = [Text(users_of(endpoint)) for endpoint in endpoints]
    return _table_of("Endpoints", columns, ("health",), screen)


def _table_of(
    title: str, columns: Mapping[str, Sequence[Text]], vital: Collection[str], screen: int | None
) -> Table:
    """A table of these columns. On a screen of this width each row is one line, in which the vital columns are cut last.

    Elsewhere what is too long for its column is folded, within a word too.
    """
    table = make_table(title, *columns)
    for column, name in zip(table.columns, columns, strict=True):
        column.overflow = "fold" if screen is None else "ellipsis"
        if screen is not None:
            column.header = Text(name, no_wrap=True)
            column.no_wrap = name in vital
            column.max_width = max(_NAME_CHARS, screen - _OTHER_CHARS) if name == "does" else None
    for row in zip(*columns.values(), strict=True):
        for cell in row:
            cell.no_wrap = screen is not None
        table.add_row(*row)
    return table


def make_table(title: str, *headings: str) -> Table:
    table = Table(*headings, box=None, title=title, title_justify="left", pad_edge=False, header_style="dim")
    table.title_style = "bold"
    return table

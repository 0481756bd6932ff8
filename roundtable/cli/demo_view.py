"""How a person follows the demo: on a terminal a table of the board below the lines, elsewhere the lines alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from roundtable.cli.demo_leader import Finished
from roundtable.rules.model import Status
from supervisor.rules.text import in_one_line

_STYLES: Final = {
    Status.OPEN: "default",
    Status.CLAIMED: "yellow",
    Status.SUBMITTED: "cyan",
    Status.DONE: "green",
    Status.CANCELLED: "red",
}


class DemoConsole(Console):
    """Whoever reads the output may go (`| head`): the demo then plays on in silence, and closes everything in order."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # What is still buffered is flushed at exit, and must not fail there again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class View:
    """Lines for everybody. All text is shown as it is: no markup, nothing that a terminal obeys."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def show_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Nothing: the lines tell every change."""


class TableView(View):
    """The lines, and a table that stays below them."""

    def __init__(self, console: Console, live: Live) -> None:
        super().__init__(console)
        self._live = live

    def show_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._live.update(draw_board(rows))


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """The view that suits `console`. The table goes when the context is left: the results take its place."""
    if not console.is_terminal:
        yield View(console)
        return
    with Live(console=console, transient=True) as live:
        yield TableView(console, live)


def draw_board(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("task", "title", "status", "worker", "attempt", "waits for", title="the board")
    for row in rows:
        status = Status(row["status"])
        table.add_row(
            str(row["task_id"]),
            Text(in_one_line(row["title"])),
            Text(status.value, style=_STYLES[status]),
            Text(in_one_line(row.get("assignee", ""))),
            str(row["attempt"]),
            ", ".join(str(task_id) for task_id in row.get("blocked_by", ())),
        )
    return table


def show_results(console: Console, finished: Sequence[Finished]) -> None:
    """Every task with its accepted result, and before it what was sent back."""
    view = View(console)
    view.say("\nThe results, as the model wrote them:")
    for task in finished:
        builds = f", after tasks {', '.join(map(str, task.depends_on))}" if task.depends_on else ""
        view.say(f"\n{task.task_id}. {in_one_line(task.title)} (by {in_one_line(task.worker)}{builds})")
        for text in task.sent_back:
            _say_text(view, "sent back: ", text)
        _say_text(view, "accepted:  " if task.sent_back else "", task.result)


def _say_text(view: View, label: str, text: str) -> None:
    for number, line in enumerate(text.splitlines()):
        view.say(f"   {label if number == 0 else ' ' * len(label)}{in_one_line(line)}")

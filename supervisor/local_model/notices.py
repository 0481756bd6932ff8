"""How a person follows the fetching of the weights: a bar on a terminal, single lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn


class Notices(Protocol):
    """Where the fetching says what it does. Neither method may block or fail."""

    def say(self, line: str) -> None:
        """One thing that a person should know."""

    def show_progress(self, done_bytes: int, total_bytes: int) -> None:
        """How much has arrived; called often."""


class PlainNotices:
    """Lines only, for a log or a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show_progress(self, done_bytes: int, total_bytes: int) -> None:
        """Nothing: a bar in a log file is noise."""


class TerminalNotices(PlainNotices):
    """Lines, and below them a bar that lives as long as something arrives."""

    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(console)
        self._progress = progress
        self._bar: TaskID | None = None

    def show_progress(self, done_bytes: int, total_bytes: int) -> None:
        if self._bar is None:
            self._bar = self._progress.add_task("weights", total=total_bytes)
        self._progress.update(self._bar, completed=done_bytes)


@contextmanager
def open_notices(console: Console) -> Iterator[Notices]:
    """The notices that suit `console`; a bar is finished when the context is left."""
    if not console.is_terminal:
        yield PlainNotices(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:
        yield TerminalNotices(console, progress)

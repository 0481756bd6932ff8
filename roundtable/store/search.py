"""Full-text search in the tables: keeping the index in step, and finding the tasks that have all words, newest first.

The index has a row for each text of a task (see migration 2), and a task is found when every word stands in any of
its rows. So there is a stream of tasks for each word, and one more for the other filters; all of them run from the
newest task down and the search steps through them together. It reads no further than the page needs, and only so much
for one call, whatever the words are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Final

from roundtable.rules.limits import SEARCH_STEPS_MAX

_TASK_BITS: Final = 32
_RESULT: Final = (1 << _TASK_BITS) - 1
_BATCH_ROWS: Final = 16
"""So many rows wait before they go into the index: a few milliseconds of work at the most."""
_SEEK_STEPS: Final = 300
"""What beginning anew further down costs, in steps."""

_TASK_MAX: Final = (1 << 31) - 1
"""The largest id that the index can tell apart."""

_BY_WORD: Final = (
    "SELECT rowid >> 32 FROM words WHERE words MATCH :word AND rowid <= :end ORDER BY rowid DESC"
)


def keep_up(db: sqlite3.Connection) -> None:
    """Let waiting rows into the index once there are enough of them."""
    (waiting,) = db.execute("SELECT count(*) FROM unindexed").fetchone()
    if waiting >= _BATCH_ROWS:
        catch_up(db)


def catch_up(db: sqlite3.Connection) -> None:
    """Bring the index up to now."""
    db.execute(
        "INSERT INTO words (rowid, title, body) SELECT u.row_id, t.title, t.description "
        "FROM unindexed u JOIN tasks t ON t.task_id = u.row_id >> 32 WHERE u.row_id & :last = 0",
        {"last": _RESULT},
    )
    db.execute(
        "INSERT INTO words (rowid, body) SELECT u.row_id, t.result "
        "FROM unindexed u JOIN tasks t ON t.task_id = u.row_id >> 32 "
        "WHERE u.row_id & :last = :last AND t.result IS NOT NULL",
        {"last": _RESULT},
    )
    db.execute(
        "INSERT INTO words (rowid, body) SELECT u.row_id, m.body "
        "FROM unindexed u JOIN messages m ON m.message_id = u.row_id & :last "
        "WHERE u.row_id & :last NOT IN (0, :last)",
        {"last": _RESULT},
    )
    db.execute("DELETE FROM unindexed")


def is_behind(db: sqlite3.Connection) -> bool:
    """Whether there are texts that the index does not know yet."""
    return db.execute("SELECT 1 FROM unindexed").fetchone() is not None


@dataclass(slots=True)
class _Effort:
    steps_left: int


class Search:
    """The ids of the tasks below `below` that have all the words and are in `filtered`, newest first.

    `filtered` is SQL for the ids from `:top` down, with its values, or None for all tasks. `given_up_below` is not
    None when the search ended because it had taken enough steps: every task from there up has been looked at.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        words: Sequence[str],
        filtered: tuple[str, dict[str, object]] | None,
        below: int,
        steps: int = SEARCH_STEPS_MAX,
    ) -> None:
        self.given_up_below: int | None = None
        self._below = below
        self._effort = _Effort(steps)
        self._streams = [
            _Stream(db, self._effort, _BY_WORD, {"word": '"' + word.replace('"', '""') + '"'})
            for word in words
        ]
        if filtered is not None:
            self._streams.append(_Stream(db, self._effort, *filtered))

    def __iter__(self) -> Iterator[int]:
        with ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(closing(stream))
            top: int | None = min(self._below - 1, _TASK_MAX)
            while top is not None and top > 0:
                top = self._common(top)
                if top is not None:
                    yield top
                    top -= 1

    def _common(self, top: int) -> int | None:
        """The newest task from `top` down that is in all the streams."""
        agreed = 0
        while agreed < len(self._streams):
            for stream in self._streams:
                found = stream.newest(top)
                if found is None:
                    if self._effort.steps_left <= 0:
                        self.given_up_below = top + 1
                    return None
                agreed = agreed + 1 if found == top else 1
                top = found
                if agreed == len(self._streams):
                    break
        return top


class _Stream:
    """The tasks of one word or filter. Ask for ever older ones."""

    def __init__(self, db: sqlite3.Connection, effort: _Effort, sql: str, values: dict[str, object]) -> None:
        self._db = db
        self._effort = effort
        self._sql = sql
        self._values = values
        self._rows: sqlite3.Cursor | None = None
        self._current = 0

    def newest(self, top: int) -> int | None:
        """The newest task from `top` down, or None: there is none, or the effort is spent."""
        if self._rows is not None and self._current <= top:
            return self._current or None
        for _ in range(_SEEK_STEPS):
            if self._rows is None:
                break
            if not self._step():
                return None
            if self._current <= top:
                return self._current
        self.close()
        self._effort.steps_left -= _SEEK_STEPS
        self._rows = self._db.execute(
            self._sql, {**self._values, "top": top, "end": (top << _TASK_BITS) + _RESULT}
        )
        return self._current if self._step() else None

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _step(self) -> bool:
        self._effort.steps_left -= 1
        if self._rows is None or self._effort.steps_left <= 0:
            return False
        row = self._rows.fetchone()
        self._current = row[0] if row else 0
        return row is not None

"""A board's file as its owner's commands read it: without writing anything, whether a server runs or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from roundtable.rules import commands, replies
from roundtable.rules.agents import Directory
from roundtable.rules.limits import PAGE_ROWS_MAX
from roundtable.rules.model import Now, Status
from roundtable.store import listing, reads
from roundtable.store.database import APPLICATION_ID, BUSY_TIMEOUT_MS, board_mark, migrations
from roundtable.store.errors import StoreError
from roundtable.store.unit import Limits, Presence, Unit


@contextmanager
def open_reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The board in this file as it is at one moment. The file is not changed, and a server that writes is not held up.

    Raises StoreError, also for what SQLite finds wrong while the context lasts.
    """
    if not path.is_file():
        raise StoreError(f"there is no board at {path}; `roundtable up` makes one")
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        _refuse_others(db, path)
        db.execute("BEGIN")
        yield db
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    finally:
        db.close()


def _refuse_others(db: sqlite3.Connection, path: Path) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    newest = migrations()[-1][0]
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer Roundtable (schema {version}; this one knows {newest}): update Roundtable"
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are wanted. None means any."""

    status: Status | None = None
    assignee: str | None = None
    required_skill: str | None = None
    needs_attention: bool | None = None


class BoardReader:
    """The board as its leader sees it. `directory` is who is known now. Raises StoreError for a damaged one."""

    def __init__(self, db: sqlite3.Connection, directory: Directory, now: Now) -> None:
        self._unit = Unit(
            db=db,
            caller=directory.leader,
            now=now,
            directory=directory,
            presence=Presence(db),
            limits=Limits(claims_per_worker=0, calls_per_minute=0),
            board_id=board_mark(db),
            new_claim_id=_no_claim,
            writable=False,
        )

    def tasks(self, wanted: Filter, limit: int) -> Iterator[replies.Row]:
        """The tasks in brief, newest first, `limit` at the most."""
        command = commands.ListTasks(
            wanted.status, wanted.assignee, wanted.required_skill, wanted.needs_attention, limit=PAGE_ROWS_MAX
        )
        left = limit
        while left > 0:
            page = listing.list_tasks(self._unit, replace(command, limit=min(left, PAGE_ROWS_MAX)))
            yield from page["tasks"]
            left -= len(page["tasks"])
            if "next_cursor" not in page:
                return
            command = replace(command, cursor=page["next_cursor"])

    def task(self, task_id: int) -> replies.WholeTask:
        """All of a task, every message included. Raises BoardError `not_found`."""
        whole = reads.get_task(self._unit, commands.GetTask(task_id))
        messages = whole["messages"]
        cursor = whole.pop("message_cursor", None)
        while cursor is not None:
            older = reads.get_task(self._unit, commands.GetTask(task_id, cursor))
            messages = older["messages"] + messages
            cursor = older.get("message_cursor")
        whole["messages"] = messages
        return whole


def _no_claim() -> str:
    raise AssertionError("a reader claims nothing")

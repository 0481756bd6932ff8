"""Opening the database file.

The standard library's sqlite3, synchronous, reached from the board through one thread hop a batch. A package named
trio-sqlite was asked for and is not published; of what is, measured with one transaction of four statements,
stdlib sqlite3 in one hop took 0.8 ms, apsw's Trio mode (a hop a statement) 1.8 ms and sqlite-anyio 4.0 ms.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from importlib import resources
from pathlib import Path
from typing import Final

from roundtable.store.errors import StoreError

APPLICATION_ID: Final = 0x52544231
"""Marks the file as a Roundtable board ("RTB1")."""

BUSY_TIMEOUT_MS: Final = 5_000
"""How long a batch waits for an owner's own tool that is writing to the file."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open or create the board's file, readable by its owner only, at the newest schema version.

    The connection may be used from any thread, one at a time. Raises StoreError.
    """
    try:
        _create_private(path)
        # threads come from a pool, and the board runs one batch at a time
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    except OSError as error:
        raise StoreError(f"cannot open the database {path}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise StoreError(f"cannot open the database {path}: {error}") from error
    try:
        _configure(db)
        _refuse_foreign(db, path)
        migrate(db, path)
    except sqlite3.Error as error:
        db.close()
        raise StoreError(f"{path} cannot be used as a board: {error}") from error
    except BaseException:
        db.close()
        raise
    return db


def migrations() -> list[tuple[int, str, str]]:
    """All migrations as (version, name, SQL), in order: the files beside this module."""
    folder = resources.files("roundtable.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names]


def migrate(db: sqlite3.Connection, path: Path, up_to: int | None = None) -> None:
    """Bring the schema to this version, or the newest, each step in a transaction of its own with the record that it ran.

    Raises StoreError for a file of a newer Roundtable.
    """
    steps = migrations()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > steps[-1][0]:
        raise StoreError(
            f"{path} was written by a newer Roundtable (schema {version}; this one knows {steps[-1][0]}): update Roundtable"
        )
    for number, _, sql in steps:
        if number <= version or (up_to is not None and number > up_to):
            continue
        try:
            db.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};")
            if number == 1:
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute("INSERT INTO board (only, board_id) VALUES (1, ?)", (secrets.token_hex(4),))
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")


def board_mark(db: sqlite3.Connection) -> str:
    """What tells this board's cursors from another's. Raises StoreError where it is missing, sqlite3.Error."""
    row: tuple[str] | None = db.execute("SELECT board_id FROM board").fetchone()
    if row is None:
        raise StoreError("the database is damaged: what marks this board apart from others is missing")
    return row[0]


def _create_private(path: Path) -> None:
    """SQLite gives -wal and -shm the mode of the database, so only this one file has to be made with care."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _configure(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    db.execute("PRAGMA foreign_keys = ON")
    # FULL: what was acknowledged survives a power cut, not only the end of the process
    db.execute("PRAGMA synchronous = FULL")


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application_id != APPLICATION_ID and (application_id or tables):
        raise StoreError(f"{path} is a database of another program; choose another ROUNDTABLE_DB_PATH")
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{path} lies where SQLite cannot use its write-ahead log (a network folder?)")

"""The tables of the pool's file, and how a file of an earlier version becomes one of this."""

from __future__ import annotations

import sqlite3
from typing import Final

_STEPS: Final = (
    """
CREATE TABLE calls (
    call_id       INTEGER PRIMARY KEY,
    worker        TEXT NOT NULL,
    model         TEXT NOT NULL,
    started_at    REAL NOT NULL,               -- seconds since 1970
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    is_estimated  INTEGER NOT NULL,            -- 1: not all of it is the provider's number
    outcome       TEXT NOT NULL,               -- running, answered, a class of failure, dropped
    seconds       REAL,
    cost          REAL
) STRICT;
CREATE INDEX calls_of_worker ON calls (worker, started_at);
CREATE TABLE claims (
    claim_id TEXT PRIMARY KEY,
    worker   TEXT NOT NULL,
    task_id  INTEGER NOT NULL,
    taken_at REAL NOT NULL
) STRICT;
""",
    """
CREATE TABLE failures (
    worker    TEXT NOT NULL,
    task_id   INTEGER NOT NULL,
    failures  INTEGER NOT NULL,                -- of this worker on this task, since it last did well or asked for help
    failed_at REAL NOT NULL,
    PRIMARY KEY (worker, task_id)
) STRICT;
""",
    """
CREATE TABLE refusals (                        -- tasks that an endpoint refused since the model last answered the worker
    worker     TEXT NOT NULL,
    model      TEXT NOT NULL,
    task_id    INTEGER NOT NULL,
    setup      TEXT NOT NULL,                  -- a digest of how the worker asks: refusals of another one say nothing
    refused_at REAL NOT NULL,
    PRIMARY KEY (worker, model, task_id)
) STRICT;
""",
)
"""Step n makes version n + 1 of version n; 0 is an empty file. A step that has gone out is never changed."""


class OtherVersionError(Exception):
    """The file was written by a later version of this program."""


def bring_up_to_date(db: sqlite3.Connection) -> None:
    """Take every step that the file lacks, all in one transaction. Raises OtherVersionError, and changes nothing then."""
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= len(_STEPS):
        raise OtherVersionError
    for step in _STEPS[version:]:
        for statement in step.split(";"):
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(_STEPS)}")
    db.execute("COMMIT")

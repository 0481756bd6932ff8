"""What has been written down stays as it is, and a change by other means shows."""

from __future__ import annotations

import sqlite3

import pytest
from scripted_store import ANN, LEAD

from roundtable.rules.commands import ClaimTask, CreateTask, PostMessage, WhoAmI
from roundtable.store import audit


@pytest.fixture
def written(store):
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, PostMessage(1, "hello"))
    for _ in range(3):
        store.ask(ANN, WhoAmI())
    return store


@pytest.mark.spec("AUDIT-4", "HIST-3", "TOOL-22")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET outcome = 'ok'",
        "DELETE FROM audit_log",
        "DELETE FROM audit_log WHERE audit_id = 1",
        "UPDATE history SET agent = 'x'",
        "DELETE FROM history",
        "UPDATE messages SET body = 'x'",
    ],
)
def test_whoever_opens_the_file_cannot_change_the_record(written, statement) -> None:
    db = sqlite3.connect(written.path)
    db.execute("PRAGMA recursive_triggers = ON")
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|nobody edits"):
        db.execute(statement)
    db.close()


@pytest.mark.spec("AUDIT-4", "HIST-3")
@pytest.mark.parametrize("table", ["audit_log", "history", "messages"])
def test_replacing_a_row_is_refused_too(written, table) -> None:
    # REPLACE deletes without asking a DELETE trigger, unless the connection turned recursive triggers on
    db = written.executor.db
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|nobody edits"):
        db.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} WHERE rowid = 1")
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|nobody edits"):
        db.execute(f"UPDATE OR REPLACE {table} SET rowid = 2 WHERE rowid = 1")


def tamper(path, *statements) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TRIGGER audit_log_is_append_only_1")
    db.execute("DROP TRIGGER audit_log_is_append_only_2")
    for statement in statements:
        db.execute(statement)
    db.close()


@pytest.mark.spec("AUDIT-5")
def test_a_chain_that_nobody_touched_is_sound(written) -> None:
    assert audit.first_break(written.executor.db) is None
    head = audit.read_head(written.executor.db)
    assert head.audit_id == 6
    written.reopen()
    written.ask(ANN, WhoAmI())
    assert audit.first_break(written.executor.db) is None
    assert written.rows("SELECT previous_sha256 FROM audit_log WHERE audit_id = 7") == [(head.sha256,)]


@pytest.mark.spec("AUDIT-5")
@pytest.mark.parametrize(
    ("statement", "break_at"),
    [
        ("UPDATE audit_log SET outcome = 'forbidden' WHERE audit_id = 3", 4),
        ("UPDATE audit_log SET time = time || ' ' WHERE audit_id = 1", 2),
        ("UPDATE audit_log SET task_id = NULL WHERE audit_id = 2", 3),
        ("UPDATE audit_log SET duration_ms = duration_ms + 1 WHERE audit_id = 5", 6),
        ("DELETE FROM audit_log WHERE audit_id = 4", 5),
        ("DELETE FROM audit_log WHERE audit_id = 1", 2),
        ("UPDATE audit_log SET audit_id = 40 WHERE audit_id = 6", 40),
    ],
)
def test_a_changed_or_missing_row_breaks_the_chain_behind_it(written, statement, break_at) -> None:
    tamper(written.path, statement)
    assert audit.first_break(written.executor.db) == break_at


@pytest.mark.spec("AUDIT-5")
def test_a_changed_last_row_shows_in_the_head(written) -> None:
    before = audit.read_head(written.executor.db)
    tamper(written.path, "UPDATE audit_log SET outcome = 'gone' WHERE audit_id = 6")
    assert audit.read_head(written.executor.db).sha256 != before.sha256

"""Opening a file: what is taken as a board, and what is left alone."""

from __future__ import annotations

import sqlite3

import pytest
from scripted_store import LEAD, Store

from roundtable.rules.commands import CreateTask
from roundtable.store import database
from roundtable.store.database import APPLICATION_ID, migrations, open_database
from roundtable.store.errors import StoreError


def value(db, sql):
    [(found,)] = db.execute(sql).fetchall()
    return found


@pytest.mark.spec("STORE-1", "STORE-2")
def test_a_new_board_is_strict_durable_and_has_the_tables_an_owner_looks_for(tmp_path) -> None:
    db = open_database(tmp_path / "b.db")
    tables = {
        name: strict for _, name, kind, _, _, strict in db.execute("PRAGMA table_list") if kind == "table"
    }
    ours = {name: strict for name, strict in tables.items() if not name.startswith("sqlite_")}
    assert {"tasks", "messages", "reviews", "attention", "history", "audit_log"} <= ours.keys()
    assert all(ours.values()), ours
    assert value(db, "PRAGMA journal_mode") == "wal"
    assert value(db, "PRAGMA synchronous") == 2
    assert value(db, "PRAGMA foreign_keys") == 1
    assert value(db, "PRAGMA user_version") == migrations()[-1][0]
    db.close()


def test_opening_again_changes_nothing_and_keeps_what_is_there(tmp_path) -> None:
    store = Store(tmp_path / "b.db")
    store.ask(LEAD, CreateTask("T", "D"))
    board_id = store.rows("SELECT board_id FROM board")
    store.reopen()
    assert store.rows("SELECT title FROM tasks") == [("T",)]
    assert store.rows("SELECT board_id FROM board") == board_id
    store.close()


def test_two_boards_are_told_apart(tmp_path) -> None:
    ids = set()
    for name in ("a.db", "b.db"):
        db = open_database(tmp_path / name)
        ids.add(value(db, "SELECT board_id FROM board"))
        db.close()
    assert len(ids) == 2


@pytest.mark.spec("STORE-3")
def test_a_file_of_a_newer_program_is_refused_in_words_and_left_as_it_is(tmp_path) -> None:
    path = tmp_path / "b.db"
    open_database(path).close()
    newer = migrations()[-1][0] + 1
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {newer}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer Roundtable.*update"):
        open_database(path)
    assert path.read_bytes() == before


def make_foreign_with_tables(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()


def make_foreign_by_mark(path):
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID + 1}")
        db.execute("PRAGMA user_version = 1")
    db.close()


def make_garbage(path):
    path.write_bytes(b"this is no database, whatever its name says\n" * 200)


@pytest.mark.parametrize("make", [make_foreign_with_tables, make_foreign_by_mark, make_garbage])
def test_a_file_that_is_no_board_is_refused_and_left_as_it_is(tmp_path, make) -> None:
    path = tmp_path / "theirs.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"theirs\.db"):
        open_database(path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["theirs.db"]


def test_a_folder_and_a_missing_folder_are_refused_in_words(tmp_path) -> None:
    with pytest.raises(StoreError, match="cannot open the database"):
        open_database(tmp_path)
    with pytest.raises(StoreError, match="No such file"):
        open_database(tmp_path / "missing" / "b.db")


@pytest.mark.spec("STORE-3")
@pytest.mark.parametrize(
    "broken",
    [
        "CREATE TABLE extra (x INTEGER) STRICT; SELECT * FROM no_such_table;",
        "DROP TABLE recipients; CREATE TABLE tasks (x);",
        "CREATE TABLE extra (x INTEGER) STRICT; INSERT INTO extra VALUES ('text');",
    ],
)
def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, broken) -> None:
    store = Store(tmp_path / "b.db")
    store.ask(LEAD, CreateTask("T", "D"))
    store.close()
    known = migrations()
    next_number = known[-1][0] + 1
    monkeypatch.setattr(database, "migrations", lambda: [*known, (next_number, "broken.sql", broken)])
    schema = "SELECT name, sql FROM sqlite_schema ORDER BY name"
    before = store.rows(schema)
    with pytest.raises(StoreError):
        open_database(tmp_path / "b.db")
    assert store.rows(schema) == before
    assert store.rows("PRAGMA user_version") == [(known[-1][0],)]
    monkeypatch.undo()
    store = Store(tmp_path / "b.db")
    assert store.rows("SELECT title FROM tasks") == [("T",)]
    store.close()


def test_a_first_migration_that_fails_can_be_tried_again(tmp_path, monkeypatch) -> None:
    first = migrations()[0]
    half = (first[0], first[1], first[2] + "\nSELECT * FROM no_such_table;")
    monkeypatch.setattr(database, "migrations", lambda: [half])
    with pytest.raises(StoreError):
        open_database(tmp_path / "b.db")
    monkeypatch.undo()
    db = open_database(tmp_path / "b.db")
    assert value(db, "SELECT count(*) FROM board") == 1
    db.close()

"""A board as lines, and back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from played_board import play
from scripted_store import BOB, LEAD, Store

from roundtable.rules import commands as c
from roundtable.store import database
from roundtable.store.backup import UnsoundError
from roundtable.store.errors import StoreError
from roundtable.store.portable import LINE_BYTES_MAX, export_file, import_board
from roundtable.store.soundness import check_file


def lines_of(tmp_path) -> list[bytes]:
    play(tmp_path / "b.db").close()
    export_file(tmp_path / "b.db", tmp_path / "b.jsonl")
    return (tmp_path / "b.jsonl").read_bytes().splitlines(keepends=True)


def rows_of(path) -> dict[str, list]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {
            table: sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            for table in tables
            if not table.startswith("words") and table != "unindexed"
        }


@pytest.mark.spec("CLI-18", "AUDIT-3")
def test_every_row_comes_back_as_it_was_and_the_board_goes_on(tmp_path) -> None:
    lines = lines_of(tmp_path)
    found = import_board(lines, tmp_path / "again.db")
    assert found == check_file(tmp_path / "b.db")
    assert rows_of(tmp_path / "again.db") == rows_of(tmp_path / "b.db")
    assert (tmp_path / "again.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "b.jsonl").stat().st_mode & 0o777 == 0o600
    export_file(tmp_path / "again.db", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == b"".join(lines)
    store = Store(tmp_path / "again.db")
    assert store.executor.db.execute("SELECT count(*) FROM unindexed").fetchone() == (0,)
    assert store.ask(LEAD, c.CreateTask("next", "d"))["task_id"] == 6
    assert [row["task_id"] for row in store.ask(LEAD, c.ListTasks(query="how far"))["tasks"]] == [1]
    assert store.ask(BOB, c.PostMessage(4, "here too"))["message_id"] == 3
    store.close()
    assert check_file(tmp_path / "again.db").faults == ()


@pytest.mark.spec("CLI-18")
def test_ids_are_not_used_again_after_an_import_either(tmp_path) -> None:
    lines = lines_of(tmp_path)
    counter = next(
        number for number, line in enumerate(lines) if line.startswith(b'["sqlite_sequence","tasks"')
    )
    lines[counter] = b'["sqlite_sequence","tasks",40]\n'
    import_board(lines, tmp_path / "again.db")
    store = Store(tmp_path / "again.db")
    assert store.ask(LEAD, c.CreateTask("next", "d"))["task_id"] == 41
    store.close()


@pytest.mark.spec("CLI-18")
def test_an_export_of_an_older_schema_is_brought_up_to_this_one(tmp_path) -> None:
    lines = lines_of(tmp_path)
    header = json.loads(lines[0])
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as db:
        database.migrate(db, tmp_path / "old.db", up_to=1)
        first = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    old = {table: columns for table, columns in header["tables"].items() if table in first}
    kept = [line for line in lines[1:-1] if json.loads(line)[0] in old]
    lines = [
        json.dumps({**header, "schema": 1, "tables": old}).encode(),
        *kept,
        json.dumps({"rows": len(kept)}).encode(),
    ]
    import_board(lines, tmp_path / "again.db")
    with closing(sqlite3.connect(tmp_path / "again.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (database.migrations()[-1][0],)


def changed(**header: object):
    def change(lines: list[bytes]) -> list[bytes]:
        return [json.dumps({**json.loads(lines[0]), **header}).encode(), *lines[1:]]

    return change


def with_line(line: bytes):
    return lambda lines: [lines[0], line, *lines[1:]]


def without_tables_columns(lines: list[bytes]) -> list[bytes]:
    tables = json.loads(lines[0])["tables"]
    tables["tasks"] = [*tables["tasks"][:-1], "no_such"]
    return changed(tables=tables)(lines)


@pytest.mark.spec("CLI-18")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [], "line 1: is not JSON"),
        (lambda lines: [b"{}"], "line 1: this is no export"),
        (lambda lines: [b"[1]"], "line 1: this is no export"),
        (changed(roundtable_export=2), "of a newer Roundtable"),
        (changed(schema=999), "of a newer Roundtable"),
        (changed(schema=True), "of a newer Roundtable"),
        (changed(schema=0), "the header is damaged"),
        (changed(tables=[]), "the header is damaged"),
        (changed(tables={"tasks": ["title) VALUES (1); --"]}), "the header is damaged"),
        (changed(tables={"tasks": ["title"]}), "line 1: its tables are not those"),
        (without_tables_columns, "line 1: its tables are not those"),
        (with_line(b"\xff\n"), "line 2: is not JSON"),
        (with_line(b"[" * 100_000), "line 2: is not JSON"),
        (with_line(b'["nowhere", 1]\n'), "line 2: is no row of a board"),
        (with_line(b'[["tasks"], 1]\n'), "line 2: is no row of a board"),
        (with_line(b'["attention", 1, "help_requested"]\n'), "line 2: is no row of attention"),
        (with_line(b'["attention", 1.5, "help_requested", "x"]\n'), "line 2: is no row of attention"),
        (with_line(b'["attention", 1, "bored", "x"]\n'), "line 2: is no row of a board: CHECK"),
        (
            with_line(b'["attention", 99999999999999999999999, "help_requested", "x"]\n'),
            "line 2: is no row of a board",
        ),
        (with_line(b'["attention", "1x", "help_requested", "x"]\n'), "line 2: is no row of a board"),
        (with_line(b'["attention", 1, "\\ud800", "x"]\n'), "line 2: is no row of a board"),
        (with_line(b"5\n"), "line 2: is no row of a board"),
        (
            with_line(b'["sqlite_sequence", "tasks", 99999999999999999999999]\n'),
            "line 2: is no row of sqlite_seq",
        ),
        (with_line(b'["sqlite_sequence", "tasks", -1]\n'), "line 2: is no row of sqlite_sequence"),
        (with_line(b'["sqlite_sequence", "tasks", "x"]\n'), "line 2: is no row of sqlite_sequence"),
        (with_line(b'["sqlite_sequence", null, 1]\n'), "line 2: is no row of sqlite_sequence"),
        (with_line(b'{"rows": 0}\n'), "line 3: there is more behind"),
        (with_line(b" " * (LINE_BYTES_MAX + 1)), "line 2: is over "),
        (lambda lines: lines[:-1], "it was cut short"),
        (lambda lines: [*lines[:-2], lines[-1]], "counts other rows"),
    ],
)
def test_lines_that_are_no_board_are_refused_and_leave_no_file(tmp_path, change, told) -> None:
    lines = change(lines_of(tmp_path))
    with pytest.raises(StoreError, match=told):
        import_board(lines, tmp_path / "again.db")
    assert [path.name for path in tmp_path.iterdir() if "again" in path.name] == []


@pytest.mark.spec("CLI-18")
def test_lines_that_were_tampered_with_are_an_unsound_board_and_leave_no_file(tmp_path) -> None:
    lines = lines_of(tmp_path)
    titled = [
        line.replace(b'"two, anew"', b'"two"') if line.startswith(b'["tasks"') else line for line in lines
    ]
    with pytest.raises(UnsoundError, match="history gives another title of task 2"):
        import_board(titled, tmp_path / "again.db")
    renamed = [
        line.replace(b'"lead"', b'"bob"') if line.startswith(b'["audit_log",3,') else line for line in lines
    ]
    with pytest.raises(UnsoundError, match="the chain of the audit log breaks at row 4"):
        import_board(renamed, tmp_path / "again.db")
    assert not (tmp_path / "again.db").exists()


@pytest.mark.spec("CLI-18")
def test_a_board_that_is_there_is_left_alone(tmp_path) -> None:
    lines = lines_of(tmp_path)
    content = (tmp_path / "b.db").read_bytes()
    with pytest.raises(StoreError, match="is there already"):
        import_board(lines, tmp_path / "b.db")
    with pytest.raises(StoreError, match="is there already"):
        export_file(tmp_path / "b.db", tmp_path / "b.jsonl")
    assert (tmp_path / "b.db").read_bytes() == content

"""What `verify` finds, and that it finds nothing on a sound board."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from played_board import play
from scripted_store import LEAD

from roundtable.rules import commands as c
from roundtable.store.database import open_database
from roundtable.store.errors import StoreError
from roundtable.store.reading import open_reading
from roundtable.store.soundness import FAULTS_MAX, check_file

NO_TRIGGERS = "DROP TRIGGER history_is_append_only_1; DROP TRIGGER history_is_append_only_2;"


@pytest.mark.spec("CLI-14", "HIST-2")
def test_a_board_is_sound_while_it_is_open_and_when_it_is_closed(tmp_path) -> None:
    store = play(tmp_path / "b.db")
    before = check_file(tmp_path / "b.db")
    assert (before.faults, before.tasks, before.head) == ((), 5, store.executor.head)
    store.close()
    assert check_file(tmp_path / "b.db") == before


@pytest.mark.spec("CLI-14", "HIST-2")
@pytest.mark.parametrize(
    ("tampering", "faults"),
    [
        (
            "UPDATE tasks SET title = 'another' WHERE task_id = 4",
            ["history gives another title of task 4 than it has"],
        ),
        (
            "UPDATE tasks SET result = NULL WHERE task_id = 1",
            ["history gives another result of task 1 than it has"],
        ),
        (
            "DELETE FROM attention",
            [
                "history gives other attention of task 2 than it has",
                "needs_attention of task 2 is not the gravest of its reasons",
            ],
        ),
        (
            "UPDATE tasks SET open_dependencies = 2 WHERE task_id = 2",
            ["open_dependencies of task 2 is not their number"],
        ),
        (
            "UPDATE task_counts SET tasks = 7 WHERE status = 'done'",
            ["the count of done tasks is 7, and there are 1"],
        ),
        (
            "UPDATE claims SET agent = 'bob' WHERE ended_at IS NULL",
            ["task 2 and its present claim do not agree"],
        ),
        (
            "DELETE FROM dependencies",
            ["history gives another depends_on of task 2 than it has"],
        ),
        (
            "PRAGMA foreign_keys = OFF; DELETE FROM dependencies; DELETE FROM attention; DELETE FROM claims; "
            "DELETE FROM messages WHERE task_id = 2; DELETE FROM tasks WHERE task_id = 2",
            ["task 2 has a history and is not there"],
        ),
        (
            NO_TRIGGERS + "DELETE FROM recipients; DELETE FROM history WHERE task_id = 4",
            ["task 4 has no history"],
        ),
        (
            NO_TRIGGERS + "UPDATE history SET changes = '[]' WHERE task_id = 5 AND event = 'cancelled'",
            ["event 19 cannot be read", "history gives another status of task 5 than it has"],
        ),
        (
            NO_TRIGGERS + """UPDATE history SET changes = '{"attention":[null,["x"]]}' WHERE event_id = 18""",
            [
                "history gives other attention of task 2 than it has",
            ],
        ),
        (
            "DELETE FROM board",
            ["what marks this board apart from others is missing"],
        ),
        (
            "DELETE FROM messages WHERE message_id = 1",
            ["the messages of task 1 are not those of its history"],
        ),
        (
            "DROP TRIGGER messages_are_append_only; UPDATE messages SET agent = 'x' WHERE message_id = 2",
            ["the messages of task 2 are not those of its history"],
        ),
        (
            "INSERT INTO messages VALUES (9, 4, 'bob', 'worker', 'note', 'b', 'now')",
            ["the messages of task 4 are not those of its history"],
        ),
        (
            "UPDATE reviews SET note = 'well done' WHERE review_id = 1",
            ["the reviews of task 1 are not those of its history"],
        ),
        (
            "UPDATE reviews SET result = 'another' WHERE review_id = 2",
            ["the reviews of task 1 are not those of its history"],
        ),
        (
            "DELETE FROM reviews WHERE review_id = 2",
            ["the reviews of task 1 are not those of its history"],
        ),
        (
            "DROP TRIGGER audit_log_is_append_only_1; UPDATE audit_log SET agent = 'x' WHERE audit_id = 3",
            ["the chain of the audit log breaks at row 4"],
        ),
        (
            "DROP TRIGGER audit_log_is_append_only_2; DELETE FROM audit_log WHERE audit_id = 3",
            ["the chain of the audit log breaks at row 4"],
        ),
    ],
)
def test_each_thing_that_does_not_fit_is_told(tmp_path, tampering, faults) -> None:
    play(tmp_path / "b.db").close()
    with closing(open_database(tmp_path / "b.db")) as db:
        db.executescript(tampering)
    found = check_file(tmp_path / "b.db").faults
    if "PRAGMA" in tampering:
        found = tuple(fault for fault in found if "points to" not in fault)
    assert list(found) == faults


@pytest.mark.spec("CLI-14")
def test_a_row_that_points_nowhere_is_told(tmp_path) -> None:
    play(tmp_path / "b.db").close()
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as db:
        db.execute("INSERT INTO reviews VALUES (9, 99, 'accept', NULL, 'lead', 1, 'r', 'now')")
    assert check_file(tmp_path / "b.db").faults == (
        "a row of reviews (9) points to one of tasks that is not there",
    )


@pytest.mark.spec("CLI-14")
def test_a_page_that_is_overwritten_is_told_and_raises_nothing(tmp_path) -> None:
    path = tmp_path / "b.db"
    play(path).close()
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_task'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    content[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(content)
    assert check_file(path).faults


def test_a_file_that_is_wrong_all_over_is_told_in_so_many_sentences(tmp_path) -> None:
    play(tmp_path / "b.db").close()
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as db:
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
            "INSERT INTO tasks (task_id, title, description, priority, rank, status, attempt, failures, rejections, "
            "max_attempts, created_at, updated_at) SELECT i, 't', 'd', 0, 0, 'open', 0, 0, 0, 3, '', '' FROM n"
        )
    assert len(check_file(tmp_path / "b.db").faults) == FAULTS_MAX


@pytest.mark.parametrize("content", [b"", b"this is no database at all", b"SQLite format 3\0" + b"\1" * 200])
def test_what_is_no_board_is_said_to_be_none(tmp_path, content) -> None:
    path = tmp_path / "b.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"b\.db"):
        check_file(path)
    assert path.read_bytes() == content


def test_another_programs_database_and_a_newer_board_are_told_apart(tmp_path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE t (a)")
    with pytest.raises(StoreError, match="a database of another program"):
        check_file(tmp_path / "other.db")
    play(tmp_path / "b.db").close()
    with closing(sqlite3.connect(tmp_path / "b.db")) as db:
        db.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreError, match="written by a newer Roundtable"):
        check_file(tmp_path / "b.db")
    with pytest.raises(StoreError, match="there is no board at"):
        check_file(tmp_path)


@pytest.mark.spec("CLI-10")
def test_what_is_read_is_the_board_at_one_moment(tmp_path) -> None:
    store = play(tmp_path / "b.db")
    with open_reading(tmp_path / "b.db") as db:
        count = "SELECT count(*) FROM tasks"
        before = db.execute(count).fetchone()
        store.ask(LEAD, c.CreateTask("meanwhile", "d"))
        assert db.execute(count).fetchone() == before
    store.close()

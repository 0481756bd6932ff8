"""A disk that fails: nothing acknowledged is lost, reads go on, and it mends itself."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_store import ANN, BOB, LEAD, Store
from structlog.testing import capture_logs

from roundtable.rules.commands import (
    ClaimTask,
    CreateTask,
    GetTask,
    ListTasks,
    PostMessage,
    Probe,
    RecordRefusal,
    WhoAmI,
)
from roundtable.rules.errors import Code, invalid
from roundtable.store import audit, execute
from roundtable.store.database import open_database
from roundtable.store.errors import StoreError
from roundtable.store.execute import Executor

pytestmark = pytest.mark.spec("BOARD-8")


def codes(executed):
    return [outcome.error.code.value if outcome.error else "ok" for outcome in executed.outcomes]


class OtherWriter:
    """Somebody's own tool that writes to the file and takes its time."""

    def __init__(self, store: Store) -> None:
        store.executor.db.execute("PRAGMA busy_timeout = 20")
        self._db = sqlite3.connect(store.path, isolation_level=None)
        self._db.execute("BEGIN IMMEDIATE")

    def finish(self) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()


def check_sound(store: Store) -> None:
    assert store.rows("PRAGMA integrity_check") == [("ok",)]
    assert audit.first_break(store.executor.db) is None
    assert not store.executor.db.in_transaction


def test_while_another_writer_holds_the_file_reads_are_answered_and_writes_are_unavailable(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    other = OtherWriter(store)
    executed = store.run(
        store.call(LEAD, CreateTask("lost", "D")),
        store.call(ANN, ListTasks()),
        store.call(ANN, ClaimTask(1)),
        store.call(ANN, GetTask(99)),
        store.call(BOB, RecordRefusal(invalid("no"), 4), tool="get_task"),
        store.call(BOB, RecordRefusal(None, 1), tool="claim_task"),
        store.call(LEAD, Probe()),
    )
    assert codes(executed) == [
        "unavailable",
        "ok",
        "unavailable",
        "not_found",
        "invalid",
        "ok",
        "unavailable",
    ]
    assert [task["title"] for task in executed.outcomes[1].reply["tasks"]] == ["T"]
    assert executed.told == []
    assert "written" in (store.executor.trouble or "")
    other.finish()
    assert store.ask(LEAD, Probe()) is None
    assert store.executor.trouble is None
    assert store.rows("SELECT agent, tool, task_id, outcome FROM audit_log ORDER BY audit_id") == [
        ("lead", "create_task", 1, "ok"),
        ("lead", "create_task", None, "unavailable"),
        ("ann", "list_tasks", None, "ok"),
        ("ann", "claim_task", 1, "unavailable"),
        ("ann", "get_task", 99, "not_found"),
        ("bob", "get_task", 4, "invalid"),
        ("bob", "claim_task", 1, "gone"),
    ]
    assert store.rows("SELECT title, status FROM tasks") == [("T", "open")]
    check_sound(store)


def test_trouble_is_logged_once_when_it_comes_and_once_when_it_goes(store) -> None:
    with capture_logs() as logs:
        other = OtherWriter(store)
        for _ in range(3):
            assert store.refusal(LEAD, CreateTask("T", "D")).code is Code.UNAVAILABLE
        other.finish()
        store.ask(LEAD, CreateTask("T", "D"))
    assert [entry["event"] for entry in logs] == ["disk_trouble", "disk_recovered"]
    assert [outcome for *_, outcome in store.audit()] == ["unavailable"] * 3 + ["ok"]


def test_a_full_database_refuses_what_needs_room_and_takes_it_once_there_is_some(store) -> None:
    store.ask(LEAD, CreateTask("first", "D"))
    db = store.executor.db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + 4}")
    big = "x" * 8_000
    taken = 0
    while codes(store.run(store.call(LEAD, CreateTask(f"big {taken}", big)))) == ["ok"]:
        taken += 1
        assert taken < 100
    assert "full" in (store.executor.trouble or "")
    executed = store.run(store.call(ANN, ListTasks()), store.call(LEAD, PostMessage(1, big * 4)))
    assert codes(executed) == ["ok", "unavailable"]
    assert len(executed.outcomes[0].reply["tasks"]) == taken + 1
    db.execute("PRAGMA max_page_count = 1000000")
    assert store.ask(LEAD, CreateTask("after", big))["status"] == "open"
    assert store.executor.trouble is None
    assert store.rows("SELECT count(*) FROM tasks") == [(taken + 2,)]
    outcomes = [(tool, outcome) for _, tool, outcome in store.audit()]
    assert outcomes[-4:] == [
        ("create_task", "unavailable"),
        ("list_tasks", "ok"),
        ("post_message", "unavailable"),
        ("create_task", "ok"),
    ]
    check_sound(store)
    store.reopen()
    check_sound(store)


def test_a_disk_that_takes_no_byte_more_is_waited_for(tmp_path) -> None:
    path = tmp_path / "board.db"
    script = Path(__file__).with_name("disk_limit.py")
    done = subprocess.run(
        [sys.executable, script, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    first, broken, read, trouble, after, none = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == ["ok", "ok"]
    assert broken == ["unavailable", "unavailable", "ok", "unavailable"]
    assert read == ["ok"]
    assert "written" in trouble
    assert (after, none) == (["ok", "ok"], None)
    store = Store(path)
    assert store.rows("SELECT task_id, status FROM tasks") == [(1, "claimed"), (2, "open"), (3, "open")]
    assert [outcome for *_, outcome in store.audit()] == first + broken + read + after
    check_sound(store)
    store.close()


def test_a_fault_while_the_disk_is_broken_is_internal_and_costs_no_other_row(tmp_path) -> None:
    class Faulty(Executor):
        def _decide(self, unit, call):
            if call.tool == "faulty_tool":
                raise ZeroDivisionError
            return super()._decide(unit, call)

    store = Store(tmp_path / "b.db", make=Faulty)
    other = OtherWriter(store)
    executed = store.run(
        store.call(ANN, WhoAmI()),
        store.call(ANN, ListTasks(), tool="faulty_tool"),
        store.call(BOB, WhoAmI()),
    )
    assert codes(executed) == ["ok", "internal", "ok"]
    other.finish()
    store.ask(LEAD, WhoAmI())
    assert [outcome for *_, outcome in store.audit()] == ["ok", "internal", "ok", "ok"]
    store.close()


def test_rows_that_are_owed_at_the_end_are_written_on_closing(store) -> None:
    other = OtherWriter(store)
    assert codes(store.run(store.call(ANN, ListTasks()), store.call(BOB, WhoAmI()))) == ["ok", "ok"]
    other.finish()
    store.reopen()
    assert store.audit() == [("ann", "list_tasks", "ok"), ("bob", "who_am_i", "ok")]
    check_sound(store)


def test_rows_that_cannot_be_written_even_then_are_counted_in_the_log(tmp_path) -> None:
    store = Store(tmp_path / "b.db")
    other = OtherWriter(store)
    store.run(store.call(ANN, ListTasks()), store.call(BOB, WhoAmI()))
    with capture_logs() as logs:
        store.close()
    other.finish()
    assert [(entry["event"], entry.get("rows")) for entry in logs] == [
        ("checkpoint_failed", None),
        ("audit_rows_lost", 2),
    ]


def test_past_so_many_owed_rows_reads_are_refused_too(store, monkeypatch) -> None:
    monkeypatch.setattr(execute, "OWED_ROWS_MAX", 3)
    other = OtherWriter(store)
    with capture_logs() as logs:
        executed = store.run(*(store.call(ANN, WhoAmI()) for _ in range(5)))
    other.finish()
    assert codes(executed) == ["ok", "ok", "ok", "unavailable", "unavailable"]
    assert [entry["event"] for entry in logs].count("audit_row_lost") == 2
    store.ask(LEAD, Probe())
    assert len(store.audit()) == 3


def test_a_row_that_somebody_else_wrote_to_the_log_does_not_stop_the_board(store) -> None:
    store.ask(ANN, WhoAmI())
    other = sqlite3.connect(store.path)
    head = audit.read_head(other)
    audit.append(other, head, audit.Entry("2026-01-01T00:00:00.000Z", "owner", "tool", None, "ok", 0))
    other.commit()
    other.close()
    for _ in range(2):
        store.run(store.call(ANN, WhoAmI()))
    assert store.ask(ANN, WhoAmI())["name"] == "ann"
    assert store.executor.trouble is None
    assert [agent for agent, *_ in store.audit()] == ["ann", "owner", "ann", "ann", "ann"]
    check_sound(store)


def test_a_start_while_another_writer_holds_the_file_is_refused_in_words(tmp_path) -> None:
    store = Store(tmp_path / "b.db")
    store.close()
    holder = sqlite3.connect(tmp_path / "b.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    db = open_database(tmp_path / "b.db")
    db.execute("PRAGMA busy_timeout = 20")
    executor = Executor(db, store.executor.directory, store.executor.limits, str)
    with pytest.raises(StoreError, match="locked"):
        executor.start(store.clock())
    assert not db.in_transaction
    holder.execute("ROLLBACK")
    holder.close()
    executor.start(store.clock())
    executor.close()


def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path) -> None:
    store = Store(tmp_path / "b.db")
    for _ in range(50):
        store.ask(LEAD, CreateTask("T", "D" * 2_000))
    store.close()
    damaged = bytearray((tmp_path / "b.db").read_bytes())
    damaged[4096 : 6 * 4096] = bytes(5 * 4096)
    (tmp_path / "b.db").write_bytes(damaged)
    db = open_database(tmp_path / "b.db")
    with pytest.raises(StoreError, match="cannot be read"):
        Executor(db, store.executor.directory, store.executor.limits, str)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):  # nobody else could close it
        db.execute("SELECT 1")

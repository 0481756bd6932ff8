"""The board at a glance, read from its file beside the one that writes it."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD, START_MS, Store

from roundtable.rules.commands import CancelTask, ClaimTask, CreateTask, PostMessage, SubmitResult
from roundtable.rules.model import Kind
from roundtable.store.errors import StoreError
from roundtable.store.overview import (
    ROWS_MAX,
    HeldTask,
    StuckTask,
    events_after,
    newest_event_id,
    read_columns,
    read_overview,
)
from roundtable.store.reading import open_reading


def create(store: Store, title: str, **more) -> int:
    return store.ask(LEAD, CreateTask(title=title, description="d", **more))["task_id"]


@pytest.mark.spec("CLI-16")
def test_it_counts_says_who_holds_what_since_when_and_what_is_stuck(store):
    held, submitted, stuck, waiting = (create(store, name) for name in ("held", "submitted", "stuck", "open"))
    cancelled = create(store, "cancelled")
    store.ask(LEAD, CancelTask(cancelled, "no"))
    store.ask(BOB, ClaimTask(submitted))
    store.ask(BOB, SubmitResult(submitted, "done"))
    store.ask(ANN, ClaimTask(stuck))
    started = store.clock().text
    store.clock.pass_seconds(60)
    later = store.clock().text
    store.ask(ANN, PostMessage(stuck, "help", Kind.HELP_REQUEST))
    store.ask(BOB, ClaimTask(held))
    with open_reading(store.path) as db:
        found = read_overview(db)
        columns = read_columns(db, 5)
    assert found.counts == {"open": 1, "claimed": 2, "submitted": 1, "done": 0, "cancelled": 1}
    ends_ms = START_MS + 60_000 + 1_800_000  # the call for help renewed the older lease too
    assert found.held == (
        HeldTask(stuck, "stuck", "ann", started, 1, ends_ms),
        HeldTask(held, "held", "bob", later, 1, ends_ms),
    )
    assert found.stuck == (StuckTask(stuck, "stuck", ("help_requested",), later),)
    assert found.stuck_count == 1
    assert {name: [row["task_id"] for row in rows] for name, rows in columns.items()} == {
        "open": [waiting],
        "claimed": [stuck, held],
        "submitted": [submitted],
        "done": [],
        "cancelled": [cancelled],
    }


def test_of_several_reasons_the_gravest_is_the_first_and_the_oldest_says_since_when(store):
    first = create(store, "first")
    second = create(store, "second", depends_on=(first,), assignee="bob")
    store.ask(BOB, PostMessage(second, "help", Kind.HELP_REQUEST))
    asked_at = store.clock().text
    store.clock.pass_seconds(60)
    store.ask(LEAD, CancelTask(first, "no"))
    with open_reading(store.path) as db:
        [stuck] = read_overview(db).stuck
    assert stuck == StuckTask(second, "second", ("dependency_cancelled", "help_requested"), asked_at)


def test_lists_are_bounded_and_what_is_left_out_is_counted(store):
    for number in range(ROWS_MAX + 3):
        task_id = create(store, f"task {number}", assignee="bob")
        store.ask(BOB, PostMessage(task_id, "help", Kind.HELP_REQUEST))
    with open_reading(store.path) as db:
        found = read_overview(db)
        columns = read_columns(db, 2)
    assert (len(found.stuck), found.stuck_count) == (ROWS_MAX, ROWS_MAX + 3)
    assert [row["title"] for row in columns["open"]] == [f"task {ROWS_MAX + 2}", f"task {ROWS_MAX + 1}"]


def test_events_are_read_from_where_the_last_look_ended(store):
    with open_reading(store.path) as db:
        assert newest_event_id(db) == 0
        assert events_after(db, 0, 10) == []
    for number in range(3):
        create(store, f"task {number}")
    with open_reading(store.path) as db:
        assert newest_event_id(db) == 3
        assert [event["event_id"] for event in events_after(db, 0, 2)] == [1, 2]
        assert [event["event_id"] for event in events_after(db, 2, 2)] == [3]


def test_a_file_that_is_no_board_is_told_in_a_sentence(tmp_path):
    (tmp_path / "b.db").write_text("no database, and longer than its header would be" * 20)
    with pytest.raises(StoreError, match="cannot be read"), open_reading(tmp_path / "b.db") as db:
        read_overview(db)

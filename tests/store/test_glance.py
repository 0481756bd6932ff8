"""The counts of the board at a glance are kept, not counted: they have to agree with counting."""

from __future__ import annotations

import random
import sqlite3

from scripted_store import ANN, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimTask,
    CreateTask,
    PostMessage,
    ReadBoard,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
)
from roundtable.rules.model import Kind, Verdict
from roundtable.store import database
from roundtable.store.database import migrations, open_database


def counted(store: Store) -> dict[str, int]:
    counts = dict.fromkeys(["open", "claimed", "submitted", "done", "cancelled"], 0)
    counts.update(store.rows("SELECT status, count(*) FROM tasks GROUP BY status"))
    [(waiting,)] = store.rows("SELECT count(*) FROM tasks WHERE needs_attention IS NOT NULL")
    return {**counts, "needs_attention": waiting}


def test_whatever_is_done_or_refused_the_counts_are_those_of_counting(store) -> None:
    chance = random.Random(7)  # noqa: S311
    moves = [
        lambda task_id: (ANN, ClaimTask(task_id)),
        lambda task_id: (ANN, ReleaseTask(task_id)),
        lambda task_id: (ANN, SubmitResult(task_id, "r")),
        lambda task_id: (ANN, PostMessage(task_id, "?", Kind.HELP_REQUEST)),
        lambda task_id: (LEAD, ReviewTask(task_id, Verdict.ACCEPT)),
        lambda task_id: (LEAD, ReviewTask(task_id, Verdict.REJECT, "n")),
        lambda task_id: (LEAD, CancelTask(task_id, "r")),
        lambda _: (LEAD, CreateTask("T", "D")),
        lambda _: (LEAD, CreateTask("T", "D", assignee="nobody")),
    ]
    weights = [8, 2, 8, 1, 4, 2, 1, 2, 1]
    refused = 0
    seen: set[str] = set()
    for _ in range(60):
        chosen = chance.choices(moves, weights, k=chance.randint(1, 8))
        batch = [move(chance.randint(1, 12)) for move in chosen]
        executed = store.run(*(store.call(*one) for one in batch))
        refused += sum(outcome.error is not None for outcome in executed.outcomes)
        counts = store.ask(ANN, ReadBoard())["counts"]
        assert counts == counted(store)
        seen.update(name for name, count in counts.items() if count)
    assert refused > 20
    assert len(seen) == 6, seen


def test_an_older_board_is_counted_once_and_deleted_rows_are_no_longer_counted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database, "migrations", lambda: migrations()[:2])
    old = open_database(tmp_path / "b.db")
    for task_id, status in ((1, "open"), (2, "cancelled"), (3, "cancelled")):
        old.execute(
            "INSERT INTO tasks (task_id, title, description, priority, rank, status, attempt, failures, rejections, "
            "max_attempts, created_at, updated_at) VALUES (?, 't', 'd', 0, 0, ?, 0, 0, 0, 3, '', '')",
            (task_id, status),
        )
    old.close()
    monkeypatch.undo()
    store = Store(tmp_path / "b.db")
    assert store.ask(ANN, ReadBoard())["counts"] == counted(store)
    with sqlite3.connect(store.path) as owner:
        owner.execute("DELETE FROM tasks WHERE task_id = 2")
    owner.close()
    counts = store.ask(ANN, ReadBoard())["counts"]
    assert counts == counted(store)
    assert counts["cancelled"] == 1
    store.close()

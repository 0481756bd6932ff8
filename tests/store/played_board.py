"""A board on which something of every kind has happened."""

from __future__ import annotations

from pathlib import Path

from roundtable.rules import commands as c
from roundtable.rules.model import Kind, Verdict
from tests.store.scripted_store import ANN, BOB, LEAD, Store


def play(path: Path) -> Store:
    """The open store: tasks in every status, a dependency, attention, an expiry, a rejection, odd text."""
    store = Store(path)
    store.ask(LEAD, c.CreateTask("one ✓ 中", 'quotes " \\ and\nlines', priority=3))
    store.ask(LEAD, c.CreateTask("two", "d", depends_on=(1,), acceptance_criteria="good"))
    store.ask(LEAD, c.CreateTask("three", "d", required_skill="python", lease_seconds=60))
    store.ask(LEAD, c.CreateTask("four", "d", assignee="bob"))
    store.ask(LEAD, c.CreateTask("five", "d", idempotency_key="k"))
    store.ask(BOB, c.ClaimTask(1))
    store.ask(BOB, c.PostMessage(1, "how far? 🙂", Kind.PROGRESS))
    store.ask(BOB, c.SubmitResult(1, "first"))
    store.ask(LEAD, c.ReviewTask(1, Verdict.REJECT, "again", keep_assignee=True))
    store.ask(BOB, c.ClaimTask(1))
    store.ask(BOB, c.SubmitResult(1, "second"))
    store.ask(LEAD, c.ReviewTask(1, Verdict.ACCEPT))
    store.ask(ANN, c.ClaimTask(3))
    store.clock.pass_seconds(61)
    store.ask(LEAD, c.UpdateTask(2, priority=7, title="two, anew"))
    store.ask(ANN, c.ClaimTask(2))
    store.ask(ANN, c.PostMessage(2, "help", Kind.HELP_REQUEST))
    store.ask(LEAD, c.CancelTask(5, "not wanted"))
    assert store.refusal(ANN, c.ClaimTask(4)) is not None
    return store

"""Whom an event concerns."""

from __future__ import annotations

import pytest
from board_pieces import ANN, BOB, LEAD, NOW, TABLE, a_task

from roundtable.rules import claims, messages, news, planning, reviews, submits
from roundtable.rules.change import Change, Event
from roundtable.rules.commands import (
    CancelTask,
    CreateTask,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
)
from roundtable.rules.model import Attention, Kind, Status, Verdict


def told(change: Change, actor, last_holder: str | None = None) -> dict[str, set[str]]:
    return {
        event.value: set(news.recipients(event, change, actor, last_holder)) for event, _ in change.events()
    }


def test_a_submit_concerns_the_leader() -> None:
    change = submits.submit(
        a_task(status=Status.CLAIMED), ANN, SubmitResult(7, "x"), None, NOW, ever_held=True
    )
    assert told(change, ANN) == {"submitted": {"leader"}}


def test_a_call_for_help_concerns_the_leader_and_the_reply_the_workers_of_the_task() -> None:
    task = a_task(status=Status.CLAIMED)
    help_wanted = messages.post(task, ANN, PostMessage(7, "?", Kind.HELP_REQUEST), 1, 0, NOW, ever_held=True)
    assert told(help_wanted, ANN) == {"message_posted": set(), "attention_set": {"leader"}}
    task = a_task(assigned_to="bob", attention=frozenset({Attention.HELP_REQUESTED}))
    reply = messages.post(task, LEAD, PostMessage(7, "!", Kind.REPLY), 2, 1, NOW, ever_held=False)
    assert told(reply, LEAD, "ann") == {
        "message_posted": {"worker:ann", "worker:bob"},
        "attention_cleared": set(),
    }


@pytest.mark.parametrize("verdict", Verdict)
def test_a_review_concerns_who_did_the_work(verdict: Verdict) -> None:
    change = reviews.review(a_task(status=Status.SUBMITTED), ReviewTask(7, verdict, "n"), NOW)
    assert told(change, LEAD) == {"reviewed": {"worker:ann"}}


def test_what_is_taken_away_or_changed_concerns_its_holder() -> None:
    held = a_task(status=Status.CLAIMED)
    assert told(reviews.cancel(held, CancelTask(7, "r"), NOW), LEAD) == {"cancelled": {"worker:ann"}}
    forced = claims.release(held, LEAD, ReleaseTask(7), NOW, ever_held=False)
    assert told(forced, LEAD) == {"released": {"worker:ann"}}
    assert told(claims.release(held, ANN, ReleaseTask(7), NOW, ever_held=True), ANN) == {"released": set()}
    changed = planning.update(held, UpdateTask(7, title="x"), (), TABLE, NOW)
    assert told(changed, LEAD) == {"updated": {"worker:ann"}}


def test_a_new_assignment_concerns_the_worker_once() -> None:
    created = planning.create(CreateTask("t", "d", assignee="bob"), 1, (), TABLE, NOW)
    assert told(created, LEAD) == {"created": {"worker:bob"}}
    again = planning.update(created.after, UpdateTask(1, title="x"), (), TABLE, NOW)
    assert told(again, LEAD) == {"updated": set()}
    moved = planning.update(created.after, UpdateTask(1, assignee="ann"), (), TABLE, NOW)
    assert told(moved, LEAD) == {"updated": {"worker:ann"}}


def test_a_claim_concerns_nobody_else() -> None:
    assert told(claims.claim(a_task(), BOB, (), "c", NOW), BOB) == {"claimed": set()}


@pytest.mark.spec("HIST-1")
def test_a_change_tells_old_and_new_values_and_no_claim_id() -> None:
    change = claims.claim(a_task(), BOB, (), "secret-claim", NOW)
    [(event, changes)] = change.events()
    assert event is Event.CLAIMED
    assert changes["status"] == ("open", "claimed")
    assert changes["assignee"] == (None, "bob")
    assert changes["attempt"] == (0, 1)
    assert "secret-claim" not in repr(changes)

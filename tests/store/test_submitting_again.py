"""A submit whose answer got lost is sent again, and nothing is done twice."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD

from roundtable.rules.commands import ClaimTask, CreateTask, GetTask, ReviewTask, SubmitResult
from roundtable.rules.errors import Code
from roundtable.rules.model import Verdict

pytestmark = pytest.mark.spec("CLAIM-3")


@pytest.fixture
def submitted(store):
    """Ann has handed in the result of task 1."""
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "the result"))
    return store


def test_the_same_text_again_succeeds_and_changes_nothing(submitted) -> None:
    told = submitted.rows("SELECT count(*) FROM history")
    assert submitted.ask(ANN, SubmitResult(1, "the result")) == {"task_id": 1, "status": "submitted"}
    assert submitted.rows("SELECT count(*) FROM history") == told


def test_the_present_status_is_told_even_when_the_task_is_done(submitted) -> None:
    submitted.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))
    assert submitted.ask(ANN, SubmitResult(1, "the result")) == {"task_id": 1, "status": "done"}


def test_another_text_is_a_conflict_with_the_status_and_the_first_one_stays(submitted) -> None:
    error = submitted.refusal(ANN, SubmitResult(1, "a better result"))
    assert (error.code, error.details["status"]) == (Code.CONFLICT, "submitted")
    assert submitted.ask(LEAD, GetTask(1))["task"]["result"] == "the result"


def test_the_same_text_of_somebody_else_is_refused(submitted) -> None:
    assert submitted.refusal(BOB, SubmitResult(1, "the result")).code is Code.FORBIDDEN


def test_the_present_status_is_told_even_when_the_task_is_open_again(submitted) -> None:
    submitted.ask(LEAD, ReviewTask(1, Verdict.REJECT, "again, with sources"))
    assert submitted.ask(ANN, SubmitResult(1, "the result")) == {"task_id": 1, "status": "open"}
    assert submitted.refusal(ANN, SubmitResult(1, "another")).code is Code.STALE_CLAIM


def test_a_text_that_was_sent_back_is_new_work_when_it_comes_from_a_new_claim(submitted) -> None:
    submitted.ask(LEAD, ReviewTask(1, Verdict.REJECT, "again, with sources"))
    submitted.ask(ANN, ClaimTask(1))
    assert submitted.ask(ANN, SubmitResult(1, "the result", "claim-1")) == {"task_id": 1, "status": "claimed"}
    assert submitted.ask(ANN, SubmitResult(1, "the result"))["status"] == "submitted"
    assert submitted.ask(LEAD, GetTask(1))["task"]["attempt"] == 2

"""Work that comes too late is taken if nothing has happened since, and kept if it cannot be taken."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimTask,
    CreateTask,
    GetTask,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Clearable, Verdict

LATE = SubmitResult(1, "late work")


@pytest.fixture
def run_out(store):
    """Ann's claim-1 of task 1 has run out."""
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.clock.pass_seconds(1_800)
    return store


def kept(store: Store) -> list[str]:
    return [
        message["body"]
        for message in store.ask(LEAD, GetTask(1))["messages"]
        if message["kind"] == "late_result"
    ]


@pytest.mark.spec("CLAIM-7", "TASK-1")
@pytest.mark.parametrize("claim_id", [None, "claim-1"])
def test_late_work_is_taken_if_nothing_has_happened_since(run_out, claim_id) -> None:
    cursor, _ = run_out.told(LEAD)
    assert run_out.ask(ANN, SubmitResult(1, "late work", claim_id))["status"] == "submitted"
    task = run_out.ask(LEAD, GetTask(1))["task"]
    assert (task["result"], task["assignee"], task["attempt"], task["failures"]) == ("late work", "ann", 1, 1)
    assert run_out.told(LEAD, cursor)[1] == [("submitted", 1)]
    assert run_out.ask(ANN, LATE) == {"task_id": 1, "status": "submitted"}
    assert kept(run_out) == []


@pytest.mark.spec("CLAIM-7", "ATTN-10")
def test_late_work_that_is_taken_settles_the_attention_that_its_lateness_set(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", max_attempts=1))
    store.ask(ANN, ClaimTask(1))
    store.clock.pass_seconds(1_800)
    assert store.ask(LEAD, GetTask(1))["task"]["attention"] == ["attempts_exhausted"]
    assert store.ask(ANN, LATE)["status"] == "submitted"
    assert "attention" not in store.ask(LEAD, GetTask(1))["task"]


def another_claim(store: Store) -> None:
    store.ask(BOB, ClaimTask(1))


def another_claim_that_ended(store: Store) -> None:
    store.ask(BOB, ClaimTask(1))
    store.ask(BOB, ReleaseTask(1))


def an_update(store: Store) -> None:
    store.ask(LEAD, UpdateTask(1, priority=1))


def a_reassignment(store: Store) -> None:
    store.ask(LEAD, UpdateTask(1, assignee="bob"))


def an_assignment_to_the_same(store: Store) -> None:
    store.ask(LEAD, UpdateTask(1, assignee="ann"))


def a_clear(store: Store) -> None:
    store.ask(LEAD, UpdateTask(1, clear=(Clearable.LEASE_SECONDS,)))


@pytest.mark.spec("CLAIM-7", "CLAIM-8")
@pytest.mark.parametrize(
    "happened",
    [
        another_claim,
        another_claim_that_ended,
        an_update,
        a_reassignment,
        an_assignment_to_the_same,
        a_clear,
    ],
)
def test_late_work_is_refused_and_kept_once_something_has_happened(run_out, happened) -> None:
    happened(run_out)
    cursor, _ = run_out.told(LEAD)
    error = run_out.refusal(ANN, LATE)
    assert error.code is Code.STALE_CLAIM
    assert "late_result" in error.message
    assert kept(run_out) == ["late work"]
    assert run_out.told(LEAD, cursor)[1] == [("message_posted", 1)]


@pytest.mark.spec("CLAIM-7", "CLAIM-8")
def test_work_of_a_claim_that_ended_in_any_other_way_is_not_taken_late(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=0))
    assert store.refusal(ANN, LATE).code is Code.STALE_CLAIM
    store.ask(ANN, ClaimTask(1))
    store.ask(LEAD, ReleaseTask(1))
    assert store.refusal(ANN, LATE).code is Code.STALE_CLAIM
    assert kept(store) == ["late work"]


@pytest.mark.spec("CLAIM-7")
def test_an_old_claim_brings_nothing_late_though_the_last_one_could(run_out) -> None:
    run_out.ask(ANN, ClaimTask(1))
    run_out.clock.pass_seconds(1_800)
    assert run_out.refusal(ANN, SubmitResult(1, "late work", "claim-1")).code is Code.STALE_CLAIM
    assert run_out.ask(ANN, SubmitResult(1, "late work", "claim-2"))["status"] == "submitted"


@pytest.mark.spec("CLAIM-8")
@pytest.mark.parametrize("verdict", ["done", "cancelled"])
def test_late_work_is_kept_on_a_final_task_too(run_out, verdict) -> None:
    if verdict == "cancelled":
        run_out.ask(LEAD, CancelTask(1, "r"))
    else:
        run_out.ask(BOB, ClaimTask(1))
        run_out.ask(BOB, SubmitResult(1, "bob's"))
        run_out.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))
    cursor, _ = run_out.told(LEAD)
    error = run_out.refusal(ANN, LATE)
    assert (error.code, error.details["status"]) == (Code.CONFLICT, verdict)
    assert kept(run_out) == ["late work"]
    assert run_out.rows("SELECT status FROM tasks") == [(verdict,)]
    assert run_out.told(LEAD, cursor)[1] == [("message_posted", 1)]


@pytest.mark.spec("CLAIM-8")
def test_the_same_text_is_kept_once_and_three_texts_at_most_of_each_agent(run_out) -> None:
    run_out.ask(BOB, ClaimTask(1))
    run_out.ask(BOB, ReleaseTask(1))
    for text in ("one", "one", "two", "x" * 20_000):
        assert "late_result" in run_out.refusal(ANN, SubmitResult(1, text)).message
    assert "late_result" not in run_out.refusal(ANN, SubmitResult(1, "four")).message
    assert "late_result" in run_out.refusal(ANN, SubmitResult(1, "two")).message
    assert "late_result" in run_out.refusal(BOB, SubmitResult(1, "one")).message
    assert kept(run_out) == ["one", "two", "x" * 20_000, "one"]
    assert run_out.rows("SELECT role FROM messages GROUP BY role") == [("worker",)]


@pytest.mark.spec("CLAIM-8")
def test_nothing_is_kept_of_who_never_held_it_or_shows_nothing(run_out) -> None:
    assert "late_result" not in run_out.refusal(BOB, LATE).message
    run_out.ask(BOB, ClaimTask(1))
    assert run_out.refusal(ANN, SubmitResult(1, " \n")).code is Code.INVALID
    assert kept(run_out) == []


@pytest.mark.spec("CLAIM-8")
def test_a_holder_that_names_an_old_claim_has_its_text_kept(run_out) -> None:
    run_out.ask(ANN, ClaimTask(1))
    assert run_out.refusal(ANN, SubmitResult(1, "from before", "claim-1")).code is Code.STALE_CLAIM
    assert kept(run_out) == ["from before"]
    assert run_out.rows("SELECT status, assignee FROM tasks") == [("claimed", "ann")]


@pytest.mark.spec("CLAIM-7")
@pytest.mark.parametrize("keep_assignee", [False, True])
def test_late_work_is_taken_once_and_after_a_reject_the_task_has_to_be_claimed_again(
    run_out, keep_assignee
) -> None:
    run_out.ask(ANN, LATE)
    run_out.ask(LEAD, ReviewTask(1, Verdict.REJECT, "no", keep_assignee))
    assert run_out.refusal(ANN, SubmitResult(1, "another")).code is Code.STALE_CLAIM
    assert kept(run_out) == ["another"]
    assert run_out.ask(ANN, LATE) == {"task_id": 1, "status": "open"}

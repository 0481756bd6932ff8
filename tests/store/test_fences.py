"""claim_id is a fence: who may still hand in, renew or give back, and what anybody else is told."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, CY, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimTask,
    CreateTask,
    GetTask,
    ReleaseTask,
    RenewClaim,
    ReviewTask,
    SubmitResult,
    UndoClaim,
    WhoAmI,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Verdict

COMMANDS = {
    "submit": lambda claim_id: SubmitResult(1, "other work", claim_id),
    "renew": lambda claim_id: RenewClaim(1, claim_id),
    "release": lambda claim_id: ReleaseTask(1, claim_id=claim_id),
}


def claimed_again(store: Store) -> None:
    """Ann held it by claim-1 and holds it now by claim-2."""
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1))
    store.ask(ANN, ClaimTask(1))


def claimed_by_bob(store: Store) -> None:
    """Ann held it by claim-1, Bob holds it by claim-2."""
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1))
    store.ask(BOB, ClaimTask(1))


def open_again(store: Store) -> None:
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1))


def submitted(store: Store) -> None:
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "the work"))


def submitted_by_bob(store: Store) -> None:
    claimed_by_bob(store)
    store.ask(BOB, SubmitResult(1, "the work"))


def done(store: Store) -> None:
    submitted(store)
    store.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))


def cancelled_after_another(store: Store) -> None:
    """Ann held it, then Bob did, then it was cancelled."""
    claimed_by_bob(store)
    store.ask(LEAD, CancelTask(1, "no need"))


TABLE = [
    # never held it: whatever claim is named, and whatever became of the task
    (claimed_again, CY, None, Code.FORBIDDEN),
    (claimed_again, CY, "claim-2", Code.FORBIDDEN),
    (open_again, CY, None, Code.FORBIDDEN),
    (submitted, CY, None, Code.FORBIDDEN),
    (done, CY, "claim-1", Code.FORBIDDEN),
    (cancelled_after_another, CY, None, Code.FORBIDDEN),
    # final, or submitted by the caller
    (done, ANN, None, Code.CONFLICT),
    (done, ANN, "claim-1", Code.CONFLICT),
    (done, ANN, "claim-9", Code.CONFLICT),
    (cancelled_after_another, ANN, None, Code.CONFLICT),
    (cancelled_after_another, ANN, "claim-1", Code.CONFLICT),
    (submitted, ANN, None, Code.CONFLICT),
    (submitted, ANN, "claim-1", Code.CONFLICT),
    (submitted, ANN, "claim-9", Code.CONFLICT),
    # held it before
    (open_again, ANN, None, Code.STALE_CLAIM),
    (open_again, ANN, "claim-1", Code.STALE_CLAIM),
    (claimed_by_bob, ANN, None, Code.STALE_CLAIM),
    (claimed_by_bob, ANN, "claim-1", Code.STALE_CLAIM),
    (claimed_by_bob, ANN, "claim-2", Code.STALE_CLAIM),
    (submitted_by_bob, ANN, None, Code.STALE_CLAIM),
    # holds it, by another claim than the one named
    (claimed_again, ANN, "claim-1", Code.STALE_CLAIM),
    (claimed_again, ANN, "claim-9", Code.STALE_CLAIM),
    # holds it
    (claimed_again, ANN, None, None),
    (claimed_again, ANN, "claim-2", None),
]


@pytest.mark.spec("CLAIM-2", "CLAIM-5")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("situation", "caller", "claim_id", "code"), TABLE)
def test_who_is_told_what(store, situation, caller, claim_id, code, name) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    situation(store)
    before = store.rows("SELECT status, assignee, claim_id, attempt, failures FROM tasks")
    [outcome] = store.run(store.call(caller, COMMANDS[name](claim_id))).outcomes
    assert (outcome.error.code if outcome.error else None) == code
    if outcome.error is not None:
        assert store.rows("SELECT status, assignee, claim_id, attempt, failures FROM tasks") == before
        assert "claim-" not in outcome.error.message
        if code is not Code.FORBIDDEN:
            assert outcome.error.details["status"] == before[0][0]


@pytest.mark.spec("CLAIM-5")
def test_the_leader_too_may_name_the_claim_that_it_takes_away(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    claimed_again(store)
    assert store.refusal(LEAD, ReleaseTask(1, claim_id="claim-1")).code is Code.STALE_CLAIM
    assert store.ask(LEAD, ReleaseTask(1, claim_id="claim-2"))["status"] == "open"
    assert store.refusal(LEAD, ReleaseTask(1, claim_id="claim-2")).code is Code.CONFLICT


@pytest.mark.spec("LEASE-3")
@pytest.mark.parametrize("claim_id", [None, "claim-1"])
def test_the_last_holder_of_a_cancelled_task_learns_why_it_was(store, claim_id) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(LEAD, CancelTask(1, "no longer wanted"))
    assert store.ask(ANN, RenewClaim(1, claim_id)) == {
        "task_id": 1,
        "status": "cancelled",
        "reason": "no longer wanted",
    }
    assert store.refusal(ANN, RenewClaim(1, "claim-9")).code is Code.CONFLICT
    assert store.refusal(BOB, RenewClaim(1)).code is Code.FORBIDDEN


@pytest.mark.spec("CLAIM-6")
def test_who_loses_a_claim_hears_of_it(store) -> None:
    for _ in range(3):
        store.ask(LEAD, CreateTask("T", "D"))
    for task_id in (1, 2, 3):
        store.ask(ANN, ClaimTask(task_id))
    cursor, _ = store.told(ANN)
    store.ask(LEAD, ReleaseTask(1))
    store.ask(LEAD, CancelTask(2, "r"))
    store.clock.pass_seconds(1_800)
    store.ask(BOB, WhoAmI())
    assert store.told(ANN, cursor)[1] == [("released", 1), ("cancelled", 2), ("expired", 3)]


@pytest.mark.spec("CLAIM-9")
def test_a_claim_that_is_undone_is_as_good_as_never_made(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.run(store.call(ANN, UndoClaim(1, "claim-1"), "claim_next"))
    task = store.ask(LEAD, GetTask(1))["task"]
    assert (task["status"], task["failures"], task["attempt"]) == ("open", 0, 1)
    assert store.rows("SELECT * FROM cooldowns") == []
    assert store.audit()[-1] == ("lead", "get_task", "ok")
    assert len(store.audit()) == 3


@pytest.mark.spec("CLAIM-9")
def test_only_that_very_claim_is_undone(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    claimed_again(store)
    store.run(store.call(ANN, UndoClaim(1, "claim-1"), "claim_next"))
    assert store.rows("SELECT status, claim_id FROM tasks") == [("claimed", "claim-2")]

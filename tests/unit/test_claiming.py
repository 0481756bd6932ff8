"""The worker's side of the table, decided without a database."""

from __future__ import annotations

import pytest
from board_pieces import ANN, BOB, LEAD, NOW, a_task, refusal_of

from roundtable.rules import claims, submits
from roundtable.rules.commands import ReleaseTask, SubmitResult
from roundtable.rules.errors import Code
from roundtable.rules.model import Attention, ClaimEnd, Status


@pytest.mark.spec("TOOL-16", "TASK-5", "TASK-6")
def test_a_claim_gives_the_task_a_holder_and_counts_an_attempt() -> None:
    task = a_task(attempt=4, failures=2, rejections=1, assigned_to="ann")
    new = claims.claim(task, ANN, (), "fresh", NOW).after
    assert (new.status, new.assignee, new.claim_id, new.claimed_at) == ("claimed", "ann", "fresh", NOW.text)
    assert (new.attempt, new.failures, new.rejections, new.assigned_to) == (5, 2, 1, "ann")


@pytest.mark.spec("TOOL-19")
@pytest.mark.parametrize(
    "task",
    [
        a_task(assigned_to="ann"),
        a_task(assigned_to="ann", required_skill="python"),
        a_task(required_skill="python"),
    ],
)
def test_bob_may_not_claim_what_is_anothers_or_asks_a_skill(task) -> None:
    assert refusal_of(claims.claim, task, BOB, (), "x", NOW).code is Code.FORBIDDEN
    assert claims.claim(task, ANN, (), "x", NOW).after.assignee == "ann"


@pytest.mark.spec("TOOL-17")
def test_whoever_the_leader_assigned_needs_no_skill() -> None:
    task = a_task(assigned_to="bob", required_skill="python")
    assert claims.claim(task, BOB, (), "x", NOW).after.assignee == "bob"


@pytest.mark.spec("ATTN-2")
@pytest.mark.parametrize("reason", Attention)
def test_a_task_that_waits_for_the_leader_cannot_be_claimed(reason: Attention) -> None:
    error = refusal_of(claims.claim, a_task(attention=frozenset({reason})), ANN, (), "x", NOW)
    assert (error.code, reason.value in error.message) == (Code.NEEDS_ATTENTION, True)


@pytest.mark.spec("DEP-2", "ERR-2")
def test_a_blocked_task_names_what_it_waits_for() -> None:
    error = refusal_of(claims.claim, a_task(depends_on=(3, 4)), ANN, (4,), "x", NOW)
    assert (error.code, error.details) == (Code.BLOCKED, {"blocked_by": [4]})


@pytest.mark.spec("CLAIM-1")
def test_one_task_more_than_allowed_is_refused_with_the_list() -> None:
    claims.refuse_one_more([1, 2], 3)
    error = refusal_of(claims.refuse_one_more, [1, 2, 5], 3)
    assert (error.code, error.details["held"]) == (Code.CONFLICT, [1, 2, 5])


NOT_HOLDERS = [
    (a_task(status=Status.CLAIMED), BOB, False, Code.FORBIDDEN),
    (a_task(status=Status.OPEN), BOB, False, Code.FORBIDDEN),
    (a_task(status=Status.DONE), BOB, False, Code.FORBIDDEN),
    (a_task(status=Status.SUBMITTED), BOB, False, Code.FORBIDDEN),
    (a_task(status=Status.DONE), BOB, True, Code.CONFLICT),
    (a_task(status=Status.CANCELLED), BOB, True, Code.CONFLICT),
    (a_task(status=Status.SUBMITTED), ANN, True, Code.CONFLICT),
    (a_task(status=Status.SUBMITTED), BOB, True, Code.STALE_CLAIM),
    (a_task(status=Status.CLAIMED), BOB, True, Code.STALE_CLAIM),
    (a_task(status=Status.OPEN), BOB, True, Code.STALE_CLAIM),
]


@pytest.mark.spec("CLAIM-2", "ERR-2")
@pytest.mark.parametrize(("task", "caller", "ever_held", "code"), NOT_HOLDERS)
def test_who_does_not_hold_the_task_is_told_so_in_this_order(task, caller, ever_held, code) -> None:
    for refused in (
        refusal_of(submits.submit, task, caller, SubmitResult(7, "late"), None, NOW, ever_held=ever_held),
        refusal_of(claims.release, task, caller, ReleaseTask(7), NOW, ever_held=ever_held),
    ):
        assert refused.code is code
        if code is Code.CONFLICT:
            assert refused.details["status"] == task.status.value


@pytest.mark.spec("TOOL-20", "TASK-4", "TASK-6")
@pytest.mark.parametrize(("failed", "failures"), [(False, 2), (True, 3)])
def test_a_release_gives_the_task_back_and_counts_only_a_failure(failed: bool, failures: int) -> None:
    task = a_task(status=Status.CLAIMED, attempt=4, failures=2, assigned_to="ann")
    change = claims.release(task, ANN, ReleaseTask(7, "why", failed=failed), NOW, ever_held=True)
    new = change.after
    assert (new.status, new.assignee, new.claim_id, new.claimed_at) == ("open", None, None, None)
    assert (new.attempt, new.failures, new.assigned_to) == (4, failures, "ann")
    assert change.ends is (ClaimEnd.FAILED if failed else ClaimEnd.RELEASED)


@pytest.mark.spec("TOOL-21")
def test_the_leader_takes_a_task_away_without_a_failure() -> None:
    change = claims.release(a_task(status=Status.CLAIMED), LEAD, ReleaseTask(7), NOW, ever_held=False)
    assert (change.after.status, change.after.failures, change.ends) == ("open", 0, ClaimEnd.FORCED)
    failed = ReleaseTask(7, failed=True)
    error = refusal_of(claims.release, a_task(status=Status.CLAIMED), LEAD, failed, NOW, ever_held=False)
    assert error.code is Code.INVALID


@pytest.mark.spec("TOOL-20", "TOOL-21")
@pytest.mark.parametrize(
    ("command", "caller", "seconds"),
    [
        (ReleaseTask(7), ANN, 0),
        (ReleaseTask(7, cooldown_seconds=60), ANN, 0),
        (ReleaseTask(7, failed=True), ANN, 900),
        (ReleaseTask(7, failed=True, cooldown_seconds=60), ANN, 60),
        (ReleaseTask(7, failed=True, cooldown_seconds=0), ANN, 0),
        (ReleaseTask(7), LEAD, 900),
    ],
)
def test_only_a_failure_or_the_leader_cools_a_task_down(command, caller, seconds) -> None:
    assert claims.cooldown_seconds(command, caller) == seconds


@pytest.mark.spec("TOOL-23", "ATTN-6", "TASK-5")
def test_a_submit_keeps_who_did_it_and_settles_the_call_for_help() -> None:
    task = a_task(status=Status.CLAIMED, attention=frozenset(Attention))
    new = submits.submit(task, ANN, SubmitResult(7, "done"), None, NOW, ever_held=True).after
    assert (new.status, new.assignee, new.result, new.claim_id) == ("submitted", "ann", "done", None)
    assert not new.attention & {Attention.HELP_REQUESTED, Attention.ATTEMPTS_EXHAUSTED}
    assert Attention.REJECTED_REPEATEDLY in new.attention


@pytest.mark.spec("TOOL-23")
@pytest.mark.parametrize(
    "text", ["", " ", "\n\t ", "\u200b\u2060", "\u00a0\ufeff", "\u2800", "\u3164", "\u00ad"]
)
def test_a_result_in_which_nothing_can_be_seen_is_refused(text: str) -> None:
    task = a_task(status=Status.CLAIMED)
    assert (
        refusal_of(submits.submit, task, ANN, SubmitResult(7, text), None, NOW, ever_held=True).code
        is Code.INVALID
    )


@pytest.mark.spec("CLAIM-3")
def test_the_same_text_from_the_same_claim_is_known_as_a_repeat_and_another_is_not() -> None:
    assert submits.is_repeat(SubmitResult(7, "text"), "text")
    assert not submits.is_repeat(SubmitResult(7, "another"), "text")
    assert not submits.is_repeat(SubmitResult(7, "text"), None)

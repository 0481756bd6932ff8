"""The state machine, walked: every status with every action."""

from __future__ import annotations

import pytest
from board_pieces import ANN, LEAD, NOW, a_task, refusal_of

from roundtable.rules import claims, planning, reviews, submits
from roundtable.rules.commands import CancelTask, ReleaseTask, ReviewTask, SubmitResult, UpdateTask
from roundtable.rules.errors import Code
from roundtable.rules.lifecycle import Action, after, is_final, refuse_final
from roundtable.rules.model import Attention, Claim, ClaimEnd, Status, Verdict, rank_of

FOLLOWS = {
    (Status.OPEN, Action.CLAIM): Status.CLAIMED,
    (Status.OPEN, Action.CANCEL): Status.CANCELLED,
    (Status.OPEN, Action.SUBMIT_LATE): Status.SUBMITTED,
    (Status.CLAIMED, Action.RELEASE): Status.OPEN,
    (Status.CLAIMED, Action.EXPIRE): Status.OPEN,
    (Status.CLAIMED, Action.SUBMIT): Status.SUBMITTED,
    (Status.CLAIMED, Action.CANCEL): Status.CANCELLED,
    (Status.SUBMITTED, Action.ACCEPT): Status.DONE,
    (Status.SUBMITTED, Action.REJECT): Status.OPEN,
    (Status.SUBMITTED, Action.CANCEL): Status.CANCELLED,
}

EXPIRED = Claim("c1", 7, "ann", 1, 0, 0, ClaimEnd.EXPIRED, superseded=False)

DECIDE = {
    Action.CLAIM: lambda task: claims.claim(task, ANN, (), "new", NOW),
    Action.RELEASE: lambda task: claims.release(task, LEAD, ReleaseTask(7), NOW, ever_held=False),
    Action.EXPIRE: lambda task: claims.expire(task, NOW),
    Action.SUBMIT: lambda task: submits.submit(task, ANN, SubmitResult(7, "text"), None, NOW, ever_held=True),
    Action.SUBMIT_LATE: lambda task: submits.submit(
        task, ANN, SubmitResult(7, "text"), EXPIRED, NOW, ever_held=True
    ),
    Action.ACCEPT: lambda task: reviews.review(task, ReviewTask(7, Verdict.ACCEPT), NOW),
    Action.REJECT: lambda task: reviews.review(task, ReviewTask(7, Verdict.REJECT, "no"), NOW),
    Action.CANCEL: lambda task: reviews.cancel(task, CancelTask(7, "why"), NOW),
}


@pytest.mark.spec("TASK-1")
@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("status", Status)
def test_a_move_leads_where_the_table_says_or_is_refused_with_the_status(
    status: Status, action: Action
) -> None:
    task = a_task(status=status)
    following = FOLLOWS.get((status, action))
    if following is not None:
        assert after(task, action) is following
        assert DECIDE[action](task).after.status is following
        return
    error = refusal_of(after, task, action)
    assert error.code is Code.CONFLICT
    assert error.details["status"] == status.value
    # one who submits what is open and was held before has a stale claim; every other refused move is a conflict
    stale = (status, action) == (Status.OPEN, Action.SUBMIT)
    if (status, action) == (Status.CLAIMED, Action.SUBMIT_LATE):
        return  # nobody has run out: to submit this is to submit it in time
    assert refusal_of(DECIDE[action], task).code is (Code.STALE_CLAIM if stale else Code.CONFLICT)


@pytest.mark.spec("TASK-1")
def test_done_and_cancelled_are_final_and_nothing_else_is() -> None:
    assert {status for status in Status if is_final(status)} == {Status.DONE, Status.CANCELLED}


@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELLED])
def test_a_final_task_refuses_what_moves_nothing_too(status: Status) -> None:
    assert refusal_of(refuse_final, a_task(status=status), "so").code is Code.CONFLICT
    update = UpdateTask(7, title="other")
    error = refusal_of(planning.update, a_task(status=status), update, (), None, NOW)
    assert error.details["status"] == status.value


@pytest.mark.spec("ATTN-5")
def test_the_gravest_reason_is_the_one_shown() -> None:
    gravest_first = [
        "attempts_exhausted",
        "rejected_repeatedly",
        "dependency_cancelled",
        "assignee_gone",
        "help_requested",
    ]
    assert a_task().needs_attention is None
    for position, reason in enumerate(gravest_first):
        lighter = frozenset(Attention(name) for name in gravest_first[position:])
        assert a_task(attention=lighter).needs_attention == reason


@pytest.mark.spec("TOOL-18")
def test_a_level_of_priority_weighs_as_much_as_an_hour_of_waiting() -> None:
    def rank(created: str, priority: int) -> int:
        return rank_of(a_task(created_at=f"2026-11-29T{created}Z", priority=priority))

    assert rank("10:00:00.000", 0) == rank("10:59:59.999", 0)
    assert rank("10:59:59.999", 0) + 1 == rank("11:00:00.000", 0)
    assert rank("10:00:00.000", 0) == rank("13:00:00.000", 3)
    assert rank("10:00:00.000", 1) < rank("10:00:00.000", 0) < rank("10:00:00.000", -1)

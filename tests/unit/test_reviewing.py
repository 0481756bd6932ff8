"""Reviews, cancels and messages, decided without a database."""

from __future__ import annotations

import pytest
from board_pieces import ANN, BOB, LEAD, NOW, a_task, refusal_of

from roundtable.rules import messages, reviews
from roundtable.rules.commands import CancelTask, PostMessage, ReviewTask
from roundtable.rules.errors import Code
from roundtable.rules.model import Attention, ClaimEnd, Kind, Status, Verdict

HELP = frozenset({Attention.HELP_REQUESTED})


@pytest.mark.spec("TOOL-24", "TASK-5")
def test_an_accepted_result_stays_with_who_did_it() -> None:
    new = reviews.review(a_task(status=Status.SUBMITTED), ReviewTask(7, Verdict.ACCEPT), NOW).after
    assert (new.status, new.assignee, new.result) == ("done", "ann", "the result")


@pytest.mark.spec("TOOL-24", "TASK-4", "TASK-6")
@pytest.mark.parametrize(("keep", "assigned_to"), [(False, "bob"), (True, "ann")])
def test_a_rejected_task_is_open_again_and_counts_it(keep: bool, assigned_to: str) -> None:
    task = a_task(status=Status.SUBMITTED, assigned_to="bob", rejections=1, failures=1)
    new = reviews.review(task, ReviewTask(7, Verdict.REJECT, "why", keep), NOW).after
    assert (new.status, new.assignee, new.assigned_to) == ("open", None, assigned_to)
    assert (new.rejections, new.failures, new.attempt) == (2, 1, 1)


@pytest.mark.spec("TOOL-24")
def test_a_reject_without_a_note_is_refused() -> None:
    error = refusal_of(reviews.review, a_task(status=Status.SUBMITTED), ReviewTask(7, Verdict.REJECT), NOW)
    assert error.code is Code.INVALID


@pytest.mark.spec("TOOL-25")
@pytest.mark.parametrize("status", [Status.OPEN, Status.CLAIMED, Status.SUBMITTED])
def test_a_cancel_ends_a_claim_and_keeps_the_reason(status: Status) -> None:
    change = reviews.cancel(a_task(status=status), CancelTask(7, "no need"), NOW)
    assert (change.after.status, change.after.claim_id) == ("cancelled", None)
    assert change.facts["reason"] == "no need"
    assert change.ends is (ClaimEnd.CANCELLED if status is Status.CLAIMED else None)


def posted(task, caller, kind, *, held=False, count=0):
    return messages.post(task, caller, PostMessage(7, "text", kind), 1, count, NOW, ever_held=held).after


@pytest.mark.spec("ATTN-1")
@pytest.mark.parametrize(
    ("task", "caller", "held", "calls"),
    [
        (a_task(status=Status.CLAIMED), ANN, True, True),
        (a_task(assigned_to="ann"), ANN, False, True),
        (a_task(), ANN, True, True),
        (a_task(status=Status.CLAIMED), BOB, True, True),
        (a_task(), ANN, False, False),
        (a_task(status=Status.CLAIMED), BOB, False, False),
        (a_task(), LEAD, False, False),
    ],
)
def test_help_is_asked_by_whom_the_task_concerns_and_is_a_message_by_others(
    task, caller, held, calls
) -> None:
    assert posted(task, caller, Kind.HELP_REQUEST, held=held).attention == (HELP if calls else frozenset())


@pytest.mark.spec("ATTN-1")
@pytest.mark.parametrize("kind", [Kind.NOTE, Kind.PROGRESS, Kind.REPLY])
def test_no_other_kind_of_message_calls_the_leader(kind: Kind) -> None:
    assert not posted(a_task(status=Status.CLAIMED), ANN, kind, held=True).attention


@pytest.mark.spec("ATTN-3")
def test_the_leaders_reply_settles_help_and_help_alone() -> None:
    everything = a_task(attention=frozenset(Attention))
    assert posted(everything, LEAD, Kind.REPLY).attention == frozenset(Attention) - HELP
    assert posted(everything, LEAD, Kind.NOTE).attention == frozenset(Attention)
    assert posted(everything, ANN, Kind.REPLY, held=True).attention == frozenset(Attention)


@pytest.mark.spec("TOOL-22")
@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELLED])
def test_nothing_is_posted_on_a_final_task(status: Status) -> None:
    assert refusal_of(posted, a_task(status=status), LEAD, Kind.NOTE).code is Code.CONFLICT


@pytest.mark.spec("ERR-3", "LIMIT-1")
def test_the_message_after_the_last_is_too_large() -> None:
    posted(a_task(), LEAD, Kind.NOTE, count=499)
    assert refusal_of(posted, a_task(), LEAD, Kind.NOTE, count=500).code is Code.TOO_LARGE

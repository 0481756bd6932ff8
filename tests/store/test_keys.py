"""An idempotency_key makes a call that may be sent again: the first answer is given once more, and nothing is done twice."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD

from roundtable.rules.commands import (
    ClaimNext,
    ClaimTask,
    CreateTask,
    PostMessage,
    ReleaseTask,
    SubmitResult,
    UndoClaim,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Kind

DAY = 24 * 3_600
CREATE = CreateTask("T", "D", idempotency_key="k")


@pytest.mark.spec("IDEM-1")
def test_a_task_is_created_once_and_a_message_posted_once(store) -> None:
    first = store.ask(LEAD, CREATE)
    assert store.ask(LEAD, CREATE) == first
    posted = store.ask(ANN, PostMessage(1, "m", idempotency_key="k"))
    assert store.ask(ANN, PostMessage(1, "m", idempotency_key="k")) == posted
    assert store.rows("SELECT count(*) FROM tasks") == [(1,)]
    assert store.rows("SELECT count(*) FROM messages") == [(1,)]
    assert [outcome for *_, outcome in store.audit()] == ["ok"] * 4


@pytest.mark.spec("IDEM-1")
def test_within_one_batch_too(store) -> None:
    executed = store.run(store.call(LEAD, CREATE), store.call(LEAD, CREATE))
    assert [outcome.reply["task_id"] for outcome in executed.outcomes] == [1, 1]
    assert [outcome.is_replay for outcome in executed.outcomes] == [False, True]


@pytest.mark.spec("IDEM-1")
@pytest.mark.parametrize(
    "other",
    [
        CreateTask("T2", "D", idempotency_key="k"),
        CreateTask("T", "D", priority=1, idempotency_key="k"),
        CreateTask("T", "D", max_attempts=2, idempotency_key="k"),
        CreateTask("T", "D", acceptance_criteria="A", idempotency_key="k"),
    ],
)
def test_other_arguments_under_a_used_key_are_a_conflict(store, other) -> None:
    store.ask(LEAD, CREATE)
    assert store.refusal(LEAD, other).code is Code.CONFLICT
    assert store.rows("SELECT count(*) FROM tasks") == [(1,)]


@pytest.mark.spec("IDEM-1")
def test_a_key_is_its_agents_and_its_tools_own(store) -> None:
    store.ask(LEAD, CREATE)
    store.ask(LEAD, PostMessage(1, "m", idempotency_key="k"))
    store.ask(ANN, PostMessage(1, "m", idempotency_key="k"))
    store.ask(ANN, ClaimNext(idempotency_key="k"))
    assert store.rows("SELECT count(*) FROM messages") == [(2,)]


@pytest.mark.spec("IDEM-2")
def test_a_key_is_known_for_a_day_and_across_restarts(store) -> None:
    store.ask(LEAD, CREATE)
    store.clock.pass_seconds(DAY - 0.001)
    store.reopen()
    assert store.ask(LEAD, CREATE)["task_id"] == 1
    store.clock.pass_seconds(0.001)
    assert store.ask(LEAD, CREATE)["task_id"] == 2
    assert store.ask(LEAD, CREATE)["task_id"] == 2
    assert store.rows("SELECT count(*) FROM idempotency") == [(1,)]


@pytest.mark.spec("IDEM-2")
def test_refusals_and_empty_answers_are_not_kept(store) -> None:
    assert store.ask(ANN, ClaimNext("k")) == {"task": None}
    dependent = CreateTask("T", "D", depends_on=(1,), idempotency_key="j")
    assert store.refusal(LEAD, dependent).code is Code.NOT_FOUND
    store.ask(LEAD, CreateTask("T", "D"))
    assert store.ask(LEAD, dependent)["task_id"] == 2
    assert store.ask(ANN, ClaimNext("k"))["task_id"] == 1


@pytest.mark.spec("IDEM-1", "IDEM-3")
def test_a_claim_is_given_again_as_long_as_it_is_current(store) -> None:
    for _ in range(2):
        store.ask(LEAD, CreateTask("T", "D"))
    first = store.ask(ANN, ClaimNext("k", wait_seconds=20))
    assert store.ask(ANN, ClaimNext("k")) == first
    store.reopen()
    assert store.ask(ANN, ClaimNext("k", wait_seconds=5)) == first
    store.ask(ANN, SubmitResult(1, "r"))
    error = store.refusal(ANN, ClaimNext("k"))
    assert (error.code, error.details["status"]) == (Code.STALE_CLAIM, "submitted")
    assert store.ask(ANN, ClaimNext("another"))["task_id"] == 2


@pytest.mark.spec("IDEM-3")
def test_a_claim_of_the_same_task_by_another_way_is_not_the_one_that_the_key_brought(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimNext("k"))
    store.ask(ANN, ReleaseTask(1))
    store.ask(ANN, ClaimTask(1))
    assert store.refusal(ANN, ClaimNext("k")).code is Code.STALE_CLAIM


@pytest.mark.spec("CLAIM-9")
def test_the_key_of_a_claim_that_is_undone_may_bring_another(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimNext("k"))
    store.run(store.call(ANN, UndoClaim(1, "claim-1"), "claim_next"))
    assert store.ask(ANN, ClaimNext("k"))["claim_id"] == "claim-2"


@pytest.mark.spec("IDEM-1")
def test_a_message_is_told_again_although_nothing_more_may_be_posted(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    asked = PostMessage(1, "?", Kind.HELP_REQUEST, "k")
    first = store.ask(ANN, asked)
    store.ask(LEAD, PostMessage(1, "!", Kind.REPLY))
    assert store.ask(ANN, asked) == first
    assert store.rows("SELECT needs_attention FROM tasks") == [(None,)]
    assert store.refusal(BOB, PostMessage(9, "?", idempotency_key="k")).code is Code.NOT_FOUND

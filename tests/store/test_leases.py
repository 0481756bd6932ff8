"""A claim is a lease: it lasts as long as its holder is heard of, whatever the wall clock says."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD, START_MS, Store

from roundtable.rules.commands import (
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetHistory,
    GetTask,
    PostMessage,
    RecordRefusal,
    ReleaseTask,
    RenewClaim,
    ReviewTask,
    SubmitResult,
    UpdateTask,
    WhoAmI,
)
from roundtable.rules.errors import Code, invalid
from roundtable.rules.model import Clearable, Verdict, utc_text

LEASE = 1_800


def status_of(store: Store, task_id: int = 1) -> str:
    return store.rows("SELECT status FROM tasks WHERE task_id = ?", (task_id,))[0][0]


@pytest.fixture
def held(store):
    """Ann has just claimed task 1, by claim-1."""
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    return store


@pytest.mark.spec("LEASE-1")
def test_every_answer_that_shows_a_claim_says_when_it_ends(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    ends = utc_text(START_MS + LEASE * 1000)
    assert store.ask(ANN, ClaimNext())["lease_expires_at"] == ends
    assert store.ask(ANN, ClaimTask(1))["lease_expires_at"] == ends
    assert store.ask(ANN, WhoAmI())["tasks"][0]["lease_expires_at"] == ends
    assert store.ask(ANN, GetTask(1))["task"]["lease_expires_at"] == ends
    assert store.ask(ANN, RenewClaim(1))["lease_expires_at"] == ends


@pytest.mark.spec("LEASE-1")
@pytest.mark.parametrize("seconds", [30, 86_400])
def test_a_task_may_have_a_lease_of_its_own(store, seconds) -> None:
    store.ask(LEAD, CreateTask("T", "D", lease_seconds=seconds))
    brief = store.ask(ANN, ClaimTask(1))
    assert brief["lease_expires_at"] == utc_text(START_MS + seconds * 1000)
    assert brief["task"]["lease_seconds"] == seconds
    store.clock.pass_seconds(seconds - 0.001)
    store.ask(BOB, WhoAmI())
    assert status_of(store) == "claimed"
    store.clock.pass_seconds(0.001)
    store.ask(BOB, WhoAmI())
    assert status_of(store) == "open"


@pytest.mark.spec("LEASE-1")
def test_a_new_lease_length_holds_from_the_holders_next_word_on(held) -> None:
    held.ask(LEAD, UpdateTask(1, lease_seconds=60))
    assert held.executor.next_end_ms == START_MS + LEASE * 1000
    assert held.ask(ANN, RenewClaim(1))["lease_expires_at"] == utc_text(START_MS + 60_000)
    held.ask(LEAD, UpdateTask(1, clear=(Clearable.LEASE_SECONDS,)))
    assert held.ask(ANN, RenewClaim(1))["lease_expires_at"] == utc_text(START_MS + LEASE * 1000)


@pytest.mark.spec("LEASE-2")
@pytest.mark.parametrize(
    "command",
    [
        GetTask(1),
        GetHistory(task_id=1),
        ClaimTask(1),
        RenewClaim(1),
        RenewClaim(1, "claim-1"),
        PostMessage(1, "half done"),
        # refused, and a word from the holder all the same
        UpdateTask(1, title="mine now"),
        SubmitResult(1, " "),
        RecordRefusal(invalid("no"), 1),
        RecordRefusal(invalid("no"), 1, "claim-1"),
    ],
    ids=repr,
)
def test_every_call_of_the_holder_that_names_the_task_renews(held, command) -> None:
    held.clock.pass_seconds(1_000)
    held.run(held.call(ANN, command))
    assert held.executor.next_end_ms == START_MS + 1_000_000 + LEASE * 1000


@pytest.mark.spec("LEASE-2")
@pytest.mark.parametrize(
    ("caller", "command"),
    [
        (ANN, WhoAmI()),
        (ANN, ClaimNext()),
        (ANN, GetTask(2)),
        (ANN, RenewClaim(1, "claim-0")),
        (ANN, SubmitResult(1, "r", "claim-0")),
        (ANN, RecordRefusal(invalid("no"), 1, "claim-0")),
        (ANN, RecordRefusal(None, 1)),
        (BOB, GetTask(1)),
        (LEAD, UpdateTask(1, title="X")),
    ],
    ids=repr,
)
def test_no_other_call_renews(held, caller, command) -> None:
    held.clock.pass_seconds(1_000)
    held.run(held.call(caller, command))
    assert held.executor.next_end_ms == START_MS + LEASE * 1000


@pytest.mark.spec("LEASE-4", "LEASE-7", "TASK-6")
def test_a_lease_that_runs_out_counts_a_failure_and_tells_leader_and_holder_once(held) -> None:
    leaders, _ = held.told(LEAD)
    anns, _ = held.told(ANN)
    held.clock.pass_seconds(LEASE)
    held.run(held.call(BOB, WhoAmI()), held.call(BOB, WhoAmI()))
    task = held.ask(LEAD, GetTask(1))["task"]
    assert (task["status"], task["failures"], task["attempt"]) == ("open", 1, 1)
    assert "assignee" not in task
    assert held.events(1)[-1] == ("board", "expired")
    leaders, told = held.told(LEAD, leaders)
    assert told == [("expired", 1)]
    assert held.told(ANN, anns)[1] == [("expired", 1)]
    held.ask(BOB, WhoAmI())
    assert held.told(LEAD, leaders)[1] == []
    assert [event for _, event in held.events(1)].count("expired") == 1


@pytest.mark.spec("LEASE-7")
def test_no_command_of_a_batch_sees_a_claim_that_has_run_out(held) -> None:
    held.clock.pass_seconds(LEASE)
    executed = held.run(
        held.call(ANN, RenewClaim(1)),
        held.call(ANN, ReleaseTask(1)),
        held.call(BOB, ClaimTask(1)),
    )
    assert [outcome.error.code if outcome.error else None for outcome in executed.outcomes] == [
        Code.STALE_CLAIM,
        Code.STALE_CLAIM,
        None,
    ]


@pytest.mark.spec("LEASE-4")
def test_after_a_lease_ran_out_claim_next_passes_the_task_over_for_its_holder_for_900_seconds(held) -> None:
    held.clock.pass_seconds(LEASE)
    assert held.ask(ANN, ClaimNext()) == {"task": None}
    held.clock.pass_seconds(899.999)
    assert held.ask(ANN, ClaimNext()) == {"task": None}
    held.clock.pass_seconds(0.001)
    assert held.ask(ANN, ClaimNext())["task_id"] == 1


@pytest.mark.spec("LEASE-5")
def test_leases_that_ran_out_while_the_server_was_down_end_at_its_start_once_each(store) -> None:
    for _ in range(3):
        store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(BOB, ClaimTask(2))
    store.clock.pass_seconds(60)
    store.ask(BOB, ClaimTask(3))
    cursor, _ = store.told(LEAD)
    store.clock.pass_seconds(LEASE - 30)
    store.reopen()
    assert store.rows("SELECT task_id, status, failures FROM tasks") == [
        (1, "open", 1),
        (2, "open", 1),
        (3, "claimed", 0),
    ]
    store.reopen()
    cursor, told = store.told(LEAD, cursor)
    assert told == [("expired", 1), ("expired", 2)]
    assert store.ask(BOB, RenewClaim(3))["status"] == "claimed"


@pytest.mark.spec("LEASE-6")
def test_setting_the_wall_clock_neither_ends_nor_prolongs_a_lease(held) -> None:
    held.clock.pass_seconds(800)
    for jump_ms in (86_400_000, -2 * 86_400_000):
        held.clock.utc_ms += jump_ms
        held.ask(BOB, WhoAmI())
        assert status_of(held) == "claimed"
        assert held.executor.next_end_ms - held.clock.board_ms == 1_000_000
        # true by the clock on the wall, as it is now
        told = held.ask(BOB, GetTask(1))["task"]["lease_expires_at"]
        assert told == utc_text(held.clock.utc_ms + 1_000_000)
    held.clock.pass_seconds(1_000)
    held.ask(BOB, WhoAmI())
    assert status_of(held) == "open"


@pytest.mark.spec("LEASE-6")
@pytest.mark.parametrize(
    ("jump_seconds", "left_seconds"), [(0, 1_000), (-10, 1_010), (-10 * 86_400, LEASE), (500, 500)]
)
def test_at_a_start_what_remains_is_between_nothing_and_the_whole_lease(
    held, jump_seconds, left_seconds
) -> None:
    """The board's clock begins anew at the wall clock, which may have been set in either direction."""
    held.clock.pass_seconds(800)
    held.clock.utc_ms += jump_seconds * 1000
    held.clock.board_ms = held.clock.utc_ms
    held.reopen()
    assert status_of(held) == "claimed"
    assert held.executor.next_end_ms - held.clock.board_ms == left_seconds * 1000
    assert held.ask(BOB, GetTask(1))["task"]["lease_expires_at"] == utc_text(
        held.clock.utc_ms + left_seconds * 1000
    )


@pytest.mark.spec("LEASE-5", "LEASE-6")
def test_a_wall_clock_set_far_ahead_ends_at_the_start_what_would_have_ended_by_then(held) -> None:
    held.clock.utc_ms += 86_400_000
    held.clock.board_ms = held.clock.utc_ms
    held.reopen()
    assert status_of(held) == "open"


@pytest.mark.spec("LEASE-6", "TOOL-20")
def test_a_cool_down_too_is_bounded_at_a_start_and_outlives_it(held) -> None:
    held.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=600))
    held.clock.utc_ms -= 86_400_000
    held.clock.board_ms = held.clock.utc_ms
    held.reopen()
    assert held.ask(ANN, ClaimNext()) == {"task": None}
    held.clock.pass_seconds(600)
    assert held.ask(ANN, ClaimNext())["task_id"] == 1


@pytest.mark.spec("LEASE-3")
def test_a_renewal_tells_whether_the_task_was_changed_until_it_is_read_again(held) -> None:
    assert held.ask(ANN, RenewClaim(1)) == {
        "task_id": 1,
        "status": "claimed",
        "lease_expires_at": utc_text(START_MS + LEASE * 1000),
        "changed": False,
    }
    held.ask(LEAD, UpdateTask(1, description="Something else"))
    assert held.ask(ANN, RenewClaim(1))["changed"]
    held.ask(BOB, GetTask(1))
    assert held.ask(ANN, RenewClaim(1))["changed"]
    held.ask(ANN, GetTask(1))
    assert not held.ask(ANN, RenewClaim(1))["changed"]
    held.ask(LEAD, UpdateTask(1, priority=3))
    assert held.ask(ANN, ClaimTask(1))["task"]["priority"] == 3
    assert not held.ask(ANN, RenewClaim(1))["changed"]


@pytest.mark.spec("LEASE-3")
def test_a_renewal_tells_the_id_of_the_last_message(held) -> None:
    held.ask(LEAD, CreateTask("Other", "D"))
    for task_id in (1, 1, 2):
        held.ask(LEAD, PostMessage(task_id, "m"))
    assert held.ask(ANN, RenewClaim(1))["last_message_id"] == 2


@pytest.mark.spec("LEASE-4", "TASK-6")
def test_a_task_that_is_submitted_or_released_has_no_lease_to_run_out(held) -> None:
    held.ask(ANN, SubmitResult(1, "r"))
    assert held.executor.next_end_ms is None
    held.clock.pass_seconds(10 * LEASE)
    assert held.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))["status"] == "done"
    assert held.rows("SELECT failures FROM tasks") == [(0,)]

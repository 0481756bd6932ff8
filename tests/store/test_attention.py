"""Why a task waits for its leader: how each reason comes, what it holds up, and how it goes."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, CY, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetTask,
    ListTasks,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
    WhoAmI,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Clearable, Kind, Verdict


def reasons(store: Store, task_id: int = 1) -> list[str]:
    return store.ask(LEAD, GetTask(task_id))["task"].get("attention", [])


def fail(store: Store, task_id: int = 1, agent=ANN) -> None:
    store.ask(agent, ClaimTask(task_id))
    store.ask(agent, ReleaseTask(task_id, failed=True, cooldown_seconds=0))


def run_out(store: Store, task_id: int = 1) -> None:
    store.ask(ANN, ClaimTask(task_id))
    store.clock.pass_seconds(1_800)
    store.ask(BOB, WhoAmI())


def reject(store: Store, task_id: int = 1) -> None:
    store.ask(ANN, ClaimTask(task_id))
    store.ask(ANN, SubmitResult(task_id, "r"))
    store.ask(LEAD, ReviewTask(task_id, Verdict.REJECT, "no"))


@pytest.mark.spec("ATTN-7", "TASK-6")
@pytest.mark.parametrize("ways", [(fail, fail, fail), (run_out, run_out, run_out), (fail, run_out, fail)])
def test_the_third_failure_is_one_too_many(store, ways) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    cursor, _ = store.told(LEAD)
    for number, way in enumerate(ways, start=1):
        assert reasons(store) == []
        way(store)
        assert store.ask(LEAD, GetTask(1))["task"]["failures"] == number
    assert reasons(store) == ["attempts_exhausted"]
    assert [told for told in store.told(LEAD, cursor)[1] if told[0] == "attention_set"] == [
        ("attention_set", 1)
    ]
    assert store.refusal(BOB, ClaimTask(1)).code is Code.NEEDS_ATTENTION
    assert store.ask(BOB, ClaimNext()) == {"task": None}


@pytest.mark.spec("ATTN-7", "TASK-6")
def test_a_release_without_failure_and_one_by_the_leader_count_nothing(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", max_attempts=1))
    for _ in range(3):
        store.ask(ANN, ClaimTask(1))
        store.ask(ANN, ReleaseTask(1))
        store.ask(ANN, ClaimTask(1))
        store.ask(LEAD, ReleaseTask(1))
    assert store.ask(LEAD, GetTask(1))["task"]["failures"] == 0
    assert reasons(store) == []


@pytest.mark.spec("ATTN-7")
def test_the_leader_may_say_how_many_failures_are_too_many(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", max_attempts=1))
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(LEAD, UpdateTask(2, max_attempts=2))
    fail(store, 1)
    fail(store, 2)
    assert (reasons(store, 1), reasons(store, 2)) == (["attempts_exhausted"], [])
    fail(store, 2)
    assert reasons(store, 2) == ["attempts_exhausted"]


@pytest.mark.spec("ATTN-7", "ATTN-10")
def test_the_third_reject_waits_for_an_update_and_then_all_counts_begin_anew(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    cursor, _ = store.told(LEAD)
    for _ in range(3):
        assert reasons(store) == []
        reject(store)
    assert reasons(store) == ["rejected_repeatedly"]
    # it follows from the leader's own act, and is news to the leader all the same
    assert store.told(LEAD, cursor)[1][-1] == ("attention_set", 1)
    store.ask(LEAD, PostMessage(1, "go on", Kind.REPLY))
    assert reasons(store) == ["rejected_repeatedly"]
    store.ask(LEAD, UpdateTask(1, description="clearer"))
    task = store.ask(LEAD, GetTask(1))["task"]
    assert (task["rejections"], task["attempt"]) == (0, 3)
    assert reasons(store) == []
    reject(store)
    assert reasons(store) == []


@pytest.mark.spec("ATTN-10", "ATTN-3", "ATTN-5", "ATTN-9")
def test_a_reply_settles_the_call_for_help_alone_and_an_update_all_that_a_leader_can(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", max_attempts=1))
    fail(store)
    store.ask(ANN, PostMessage(1, "stuck", Kind.HELP_REQUEST))
    assert reasons(store) == ["attempts_exhausted", "help_requested"]
    assert store.ask(LEAD, GetTask(1))["task"]["needs_attention"] == "attempts_exhausted"
    store.ask(LEAD, PostMessage(1, "like this", Kind.REPLY))
    assert reasons(store) == ["attempts_exhausted"]
    store.ask(ANN, PostMessage(1, "stuck again", Kind.HELP_REQUEST))
    store.ask(LEAD, UpdateTask(1, title="Simpler"))
    assert reasons(store) == []
    assert store.ask(LEAD, GetTask(1))["task"]["failures"] == 0


@pytest.mark.spec("ATTN-8")
def test_a_cancelled_dependency_holds_up_what_waits_for_it_until_it_is_planned_anew(store) -> None:
    for depends_on in ((), (), (1, 2)):
        store.ask(LEAD, CreateTask("T", "D", depends_on=depends_on))
    cursor, _ = store.told(LEAD)
    store.ask(LEAD, CancelTask(1, "r"))
    assert reasons(store, 3) == ["dependency_cancelled"]
    assert store.told(LEAD, cursor)[1] == [("attention_set", 3)]
    store.ask(LEAD, UpdateTask(3, title="Another"))
    store.ask(LEAD, PostMessage(3, "go", Kind.REPLY))
    assert reasons(store, 3) == ["dependency_cancelled"]
    store.ask(LEAD, UpdateTask(3, depends_on=(2,)))
    assert reasons(store, 3) == []
    store.ask(LEAD, CancelTask(2, "r"))
    assert reasons(store, 3) == ["dependency_cancelled"]
    store.ask(LEAD, UpdateTask(3, clear=(Clearable.DEPENDS_ON,)))
    assert store.ask(ANN, ClaimNext())["task_id"] == 3


@pytest.mark.spec("ATTN-8", "CLAIM-10")
def test_an_assignee_that_is_gone_holds_up_its_open_tasks_until_it_is_back_or_another_is_named(store) -> None:
    for _ in range(3):
        store.ask(LEAD, CreateTask("T", "D", assignee="bob"))
    store.replace_agents(LEAD, ANN, CY)
    assert [reasons(store, task_id) for task_id in (1, 2, 3)] == [["assignee_gone"]] * 3
    store.ask(LEAD, UpdateTask(1, assignee="ann"))
    store.ask(LEAD, UpdateTask(2, clear=(Clearable.ASSIGNEE,)))
    store.ask(LEAD, UpdateTask(3, title="X"))
    assert [reasons(store, task_id) for task_id in (1, 2, 3)] == [[], [], ["assignee_gone"]]
    store.reopen()
    assert reasons(store, 3) == ["assignee_gone"]
    store.replace_agents(LEAD, ANN, BOB, CY)
    assert reasons(store, 3) == []
    assert store.ask(BOB, ClaimTask(3))["task_id"] == 3


@pytest.mark.spec("ATTN-8")
def test_a_task_that_comes_back_to_an_assignee_that_is_gone_waits_too(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", assignee="bob"))
    store.ask(BOB, ClaimTask(1))
    store.ask(BOB, SubmitResult(1, "r"))
    store.replace_agents(LEAD, ANN)
    assert reasons(store) == []
    store.ask(LEAD, ReviewTask(1, Verdict.REJECT, "no"))
    assert reasons(store) == ["assignee_gone"]


@pytest.mark.spec("CLAIM-10")
def test_an_agent_that_is_gone_loses_its_claims_at_once_and_without_a_failure(store) -> None:
    for _ in range(2):
        store.ask(LEAD, CreateTask("T", "D", max_attempts=1))
    store.ask(BOB, ClaimTask(1))
    store.ask(ANN, ClaimTask(2))
    cursor, _ = store.told(LEAD)
    store.replace_agents(LEAD, ANN, CY)
    assert store.rows("SELECT task_id, status, failures FROM tasks") == [(1, "open", 0), (2, "claimed", 0)]
    assert store.events(1)[-1] == ("board", "agent_removed")
    assert store.told(LEAD, cursor)[1] == [("agent_removed", 1)]
    assert store.refusal(BOB, ClaimNext()).code is Code.FORBIDDEN
    assert store.ask(CY, ClaimNext())["task_id"] == 1


@pytest.mark.spec("CLAIM-10")
def test_agents_that_are_gone_at_a_start_lose_their_claims_then(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(BOB, ClaimTask(1))
    store._directory = type(store._directory)([LEAD, ANN])
    store.reopen()
    assert store.rows("SELECT status, assignee FROM tasks") == [("open", None)]


@pytest.mark.spec("CLAIM-10")
def test_changed_skills_keep_claims_and_count_from_the_next_call_on(store) -> None:
    store.ask(LEAD, CreateTask("T", "D", required_skill="sql"))
    store.ask(LEAD, CreateTask("T", "D", required_skill="sql"))
    store.ask(CY, ClaimTask(1))
    store.replace_agents(LEAD, ANN, type(CY)("cy", CY.role, ("prose",)))
    assert [held["task_id"] for held in store.ask(CY, WhoAmI())["tasks"]] == [1]
    assert store.refusal(CY, ClaimTask(2)).code is Code.FORBIDDEN


@pytest.mark.spec("CLAIM-10", "BOARD-8")
def test_who_is_known_does_not_wait_for_a_broken_disk(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(BOB, ClaimTask(1))
    store.executor.db.execute("PRAGMA query_only = ON")
    store.replace_agents(LEAD, ANN)
    assert store.refusal(BOB, WhoAmI()).code is Code.FORBIDDEN
    store.executor.db.execute("PRAGMA query_only = OFF")
    store.ask(ANN, WhoAmI())
    assert store.rows("SELECT status FROM tasks") == [("open",)]


@pytest.mark.spec("TOOL-27")
def test_clear_unsets_optional_fields_and_nothing_else(store) -> None:
    store.ask(LEAD, CreateTask("one", "D"))
    store.ask(LEAD, CreateTask("two", "D", "A", "python", "ann", 3, (1,), 60, 2))
    store.ask(LEAD, UpdateTask(2, clear=tuple(Clearable)))
    assert store.rows(
        "SELECT title, description, acceptance_criteria, required_skill, assigned_to, priority, lease_seconds, "
        "max_attempts, open_dependencies FROM tasks WHERE task_id = 2"
    ) == [("two", "D", None, None, None, 3, None, 2, 0)]
    assert store.ask(BOB, ClaimTask(2))["task_id"] == 2
    both = UpdateTask(2, acceptance_criteria="B", clear=(Clearable.ACCEPTANCE_CRITERIA,))
    assert store.refusal(LEAD, both).code is Code.INVALID
    # what may change only while the task is open may be unset only then
    assert store.refusal(LEAD, UpdateTask(2, clear=(Clearable.ASSIGNEE,))).code is Code.CONFLICT
    assert store.ask(LEAD, UpdateTask(2, clear=(Clearable.LEASE_SECONDS,)))["status"] == "claimed"


@pytest.mark.spec("TOOL-29")
def test_get_task_says_in_one_sentence_why_it_cannot_be_claimed(store) -> None:
    def why(caller, task_id) -> str | None:
        return store.ask(caller, GetTask(task_id)).get("why_not_claimable")

    store.ask(LEAD, CreateTask("free", "D"))
    store.ask(LEAD, CreateTask("skilled", "D", required_skill="sql"))
    store.ask(LEAD, CreateTask("assigned", "D", assignee="bob"))
    store.ask(LEAD, CreateTask("blocked", "D", depends_on=(1,)))
    store.ask(LEAD, CreateTask("nobody's", "D", required_skill="zig"))
    store.ask(LEAD, CreateTask("helpless", "D", assignee="ann"))
    store.ask(ANN, PostMessage(6, "?", Kind.HELP_REQUEST))
    assert why(LEAD, 1) is why(BOB, 1) is why(ANN, 2) is why(LEAD, 2) is why(BOB, 3) is None
    assert "skill" in (why(BOB, 2) or "")
    assert "assigned" in (why(ANN, 3) or "")
    assert "not done" in (why(ANN, 4) or "")
    assert "No worker" in (why(LEAD, 5) or "")
    assert "help_requested" in (why(ANN, 6) or "")
    assert "help_requested" in (why(LEAD, 6) or "")
    store.ask(ANN, ClaimTask(1))
    assert "claimed" in (why(BOB, 1) or "")
    assert "claimed" in (why(LEAD, 1) or "")


@pytest.mark.spec("ATTN-11")
def test_a_task_that_is_done_waits_for_nobody(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "r"))
    store.ask(ANN, PostMessage(1, "Is it enough?", Kind.HELP_REQUEST))
    assert store.ask(LEAD, GetTask(1))["task"]["needs_attention"] == "help_requested"
    store.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))
    assert "needs_attention" not in store.ask(LEAD, GetTask(1))["task"]
    assert store.events(1)[-1] == ("lead", "attention_cleared")


@pytest.mark.spec("CLAIM-10", "ATTN-8")
def test_a_worker_that_becomes_the_leader_holds_nothing_and_is_assigned_nothing(store) -> None:
    store.ask(LEAD, CreateTask("Held", "D"))
    store.ask(LEAD, CreateTask("Assigned", "D", assignee="bob"))
    store.ask(BOB, ClaimTask(1))
    store.replace_agents(type(LEAD)("lead", BOB.role), ANN, type(BOB)("bob", LEAD.role), CY)
    assert [row["status"] for row in store.ask(ANN, ListTasks())["tasks"]] == ["open", "open"]
    assert store.ask(ANN, GetTask(2))["task"]["needs_attention"] == "assignee_gone"

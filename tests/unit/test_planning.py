"""What the leader plans: creating and updating, decided without a database."""

from __future__ import annotations

import pytest
from board_pieces import ANN, BOB, LEAD, NOW, TABLE, a_task, refusal_of

from roundtable.rules import planning
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import CreateTask, UpdateTask
from roundtable.rules.errors import Code
from roundtable.rules.model import Attention, Dependency, Status


def create(**named):
    return planning.create(CreateTask("T", "D", **named), 9, (), TABLE, NOW)


@pytest.mark.spec("TOOL-10", "TASK-6")
def test_a_new_task_is_open_with_all_counters_at_nothing() -> None:
    task = create().after
    assert (task.task_id, task.status, task.priority) == (9, Status.OPEN, 0)
    assert (task.attempt, task.failures, task.rejections) == (0, 0, 0)
    assert (task.assignee, task.claim_id, task.result, task.attention) == (None, None, None, frozenset())
    assert task.created_at == task.updated_at == NOW.text


@pytest.mark.spec("TOOL-10", "TASK-4", "TASK-5")
def test_the_leaders_choice_is_no_holder() -> None:
    task = create(assignee="ann").after
    assert (task.assigned_to, task.assignee) == ("ann", None)


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize(("name", "code"), [("nobody", Code.NOT_FOUND), ("lead", Code.INVALID)])
def test_only_a_worker_can_be_assigned(name: str, code: Code) -> None:
    assert refusal_of(create, assignee=name).code is code
    update = UpdateTask(7, assignee=name)
    assert refusal_of(planning.update, a_task(), update, (), TABLE, NOW).code is code


@pytest.mark.spec("DEP-1")
def test_dependencies_must_exist_and_not_be_cancelled() -> None:
    found = [Dependency(1, "a", Status.DONE), Dependency(2, "b", Status.CANCELLED)]
    unknown = refusal_of(planning.refuse_dependencies, (1, 3, 2), found)
    assert (unknown.code, "3" in unknown.message) == (Code.NOT_FOUND, True)
    cancelled = refusal_of(planning.refuse_dependencies, (1, 2), found)
    assert (cancelled.code, cancelled.details["status"]) == (Code.CONFLICT, "cancelled")
    planning.refuse_dependencies((1,), found[:1])


@pytest.mark.spec("TOOL-11")
def test_what_an_update_does_not_name_stays() -> None:
    task = a_task(
        acceptance_criteria="c", required_skill="sql", priority=4, assigned_to="ann", depends_on=(1,)
    )
    new = planning.update(task, UpdateTask(7, title="New"), (), TABLE, NOW).after
    kept = ("description", "acceptance_criteria", "required_skill", "priority", "assigned_to", "depends_on")
    assert [getattr(new, name) for name in kept] == [getattr(task, name) for name in kept]
    assert (new.title, new.updated_at, new.created_at) == ("New", NOW.text, task.created_at)


@pytest.mark.spec("TOOL-11")
@pytest.mark.parametrize("status", [Status.CLAIMED, Status.SUBMITTED])
@pytest.mark.parametrize("field", [{"assignee": "bob"}, {"required_skill": "sql"}, {"depends_on": ()}])
def test_who_and_after_what_change_only_while_open(status: Status, field: dict[str, object]) -> None:
    error = refusal_of(planning.update, a_task(status=status), UpdateTask(7, **field), (), TABLE, NOW)
    assert (error.code, error.details["status"]) == (Code.CONFLICT, status.value)
    assert next(iter(field)) in error.message


@pytest.mark.spec("TOOL-11")
@pytest.mark.parametrize("status", [Status.OPEN, Status.CLAIMED, Status.SUBMITTED])
def test_texts_and_priority_change_in_any_state_that_is_not_final(status: Status) -> None:
    command = UpdateTask(7, title="t", description="d", acceptance_criteria="a", priority=-5)
    task = a_task(status=status)
    new = planning.update(task, command, (), TABLE, NOW).after
    assert (new.title, new.description, new.acceptance_criteria, new.priority) == ("t", "d", "a", -5)
    assert (new.status, new.assignee, new.claim_id) == (task.status, task.assignee, task.claim_id)


@pytest.mark.spec("ATTN-4", "TASK-6")
def test_an_update_settles_help_and_the_counters_but_not_what_has_another_cause() -> None:
    task = a_task(attempt=5, failures=2, rejections=1, attention=frozenset(Attention))
    new = planning.update(task, UpdateTask(7), (), TABLE, NOW).after
    assert new.attention == {Attention.DEPENDENCY_CANCELLED, Attention.ASSIGNEE_GONE}
    assert (new.attempt, new.failures, new.rejections) == (5, 0, 0)


def notice(skill: str | None, assigned: str | None, *, seen: bool) -> str | None:
    return planning.notice_of(a_task(required_skill=skill, assigned_to=assigned), TABLE, assignee_seen=seen)


@pytest.mark.spec("TOOL-12", "TRUST-3")
def test_a_notice_states_what_stands_in_the_way_and_nothing_else() -> None:
    assert notice("sql", None, seen=False) is None
    assert notice(None, "ann", seen=True) is None
    assert "cobol" in (notice("cobol", None, seen=False) or "")
    both = notice("cobol", "ann", seen=False) or ""
    assert "cobol" in both
    assert "ann" in both


def test_a_directory_needs_one_leader_and_unique_names() -> None:
    with pytest.raises(ValueError, match="one leader"):
        Directory([ANN, BOB])
    with pytest.raises(ValueError, match="one leader"):
        Directory([LEAD, Agent("second", Role.LEADER)])
    with pytest.raises(ValueError, match="same name"):
        Directory([LEAD, ANN, Agent("ann", Role.WORKER)])
    # a leader's skill is nobody's who could take a task
    assert not Directory([Agent("lead", Role.LEADER, ("zig",)), ANN]).has_skill("zig")

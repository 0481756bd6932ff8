"""What the tools do, as an agent sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog
from mcp_story import tell
from mcp_table import Seat, Table


async def next_id(seat: Seat) -> int | None:
    """The task that claim_next gives, submitted at once so that the next one can be asked for."""
    brief = await seat.did("claim_next")
    if brief["task"] is None:
        return None
    await seat.did("submit_result", task_id=brief["task_id"], result="r")
    return brief["task_id"]


async def fields(table: Table, task_id: int) -> dict[str, Any]:
    return (await table.lead.did("get_task", task_id=task_id))["task"]


@pytest.mark.spec("TOOL-17")
async def test_claim_next_gives_only_what_the_caller_may_work_on(table: Table):
    await table.task("Theirs", assignee="anna", priority=100)
    await table.task("Skilled", required_skill="python", priority=100)
    await table.task("Blocked", depends_on=[1], priority=100)
    asked = await table.task("Asked about", priority=100)
    await table.bert.did("claim_task", task_id=asked)
    await table.bert.did("post_message", task_id=asked, body="?", kind="help_request")
    await table.bert.did("release_task", task_id=asked)
    assert await next_id(table.bert) is None
    anybodys = await table.task("Anybody's", priority=-100)
    assert await next_id(table.bert) == anybodys
    assert await next_id(table.bert) is None
    assert {await next_id(table.anna) for _ in range(3)} == {1, 2, None}


@pytest.mark.spec("TOOL-18")
async def test_claim_next_weighs_a_level_of_priority_as_much_as_an_hour_of_waiting(table: Table):
    old = await table.task("Old", priority=0)
    table.clock.advance(2 * 3600)
    low = await table.task("Newer and a level higher", priority=1)
    same = await table.task("As far by priority as the old one by age", priority=2)
    mine = await table.task("The same, and hers", priority=2, assignee="anna")
    high = await table.task("Higher still", priority=3)
    assert [await next_id(table.anna) for _ in range(6)] == [high, mine, old, same, low, None]


@pytest.mark.spec("TOOL-18")
async def test_an_update_of_the_priority_moves_a_task_in_line(table: Table):
    first, second = await table.task(), await table.task()
    await table.lead.did("update_task", task_id=second, priority=1)
    assert [await next_id(table.bert) for _ in range(2)] == [second, first]


@pytest.mark.spec("TOOL-20")
async def test_a_failed_release_counts_and_keeps_the_task_from_this_worker_for_its_cooldown(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.anna.did("release_task", task_id=task_id, failed=True, cooldown_seconds=60)
    assert (await fields(table, task_id))["failures"] == 1
    assert await table.anna.did("claim_next") == {"task": None}
    table.clock.advance(59.999)
    assert await table.anna.did("claim_next") == {"task": None}
    table.clock.advance(0.001)
    assert (await table.anna.did("claim_next"))["task_id"] == task_id


@pytest.mark.spec("TOOL-19", "TOOL-20")
async def test_a_cooldown_binds_neither_claim_task_nor_other_workers(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.anna.did("release_task", task_id=task_id, failed=True)
    assert await table.anna.did("claim_next") == {"task": None}
    await table.anna.did("claim_task", task_id=task_id)
    await table.anna.did("release_task", task_id=task_id)
    assert (await table.bert.did("claim_next"))["task_id"] == task_id


@pytest.mark.spec("TOOL-20")
async def test_a_release_without_failure_counts_none_and_cools_nothing_down(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.anna.did("release_task", task_id=task_id, cooldown_seconds=86_400)
    assert (await fields(table, task_id))["failures"] == 0
    assert (await table.anna.did("claim_next"))["task_id"] == task_id


@pytest.mark.spec("TOOL-21")
async def test_a_leaders_release_cools_down_for_fifteen_minutes_and_counts_no_failure(table: Table):
    task_id = await table.task(assignee="anna")
    await table.anna.did("claim_next")
    await table.lead.did("release_task", task_id=task_id, reason="Stop.", cooldown_seconds=5)
    task = await fields(table, task_id)
    assert (task["status"], task["failures"], task["assigned_to"]) == ("open", 0, "anna")
    table.clock.advance(899)
    assert await table.anna.did("claim_next") == {"task": None}
    table.clock.advance(1)
    assert (await table.anna.did("claim_next"))["task_id"] == task_id


@pytest.mark.spec("TOOL-11", "ATTN-4")
async def test_an_update_leaves_what_is_absent_and_settles_what_waited_for_the_leader(table: Table):
    task_id = await table.task(acceptance_criteria="a", required_skill="python", priority=4, depends_on=[])
    await table.anna.did("claim_next")
    await table.anna.did("release_task", task_id=task_id, failed=True)
    await table.anna.did("post_message", task_id=task_id, body="?", kind="help_request")
    before = await fields(table, task_id)
    assert (before["failures"], before["needs_attention"], before["attention"]) == (
        1,
        "help_requested",
        ["help_requested"],
    )
    await table.lead.did("update_task", task_id=task_id, title="New")
    after = await fields(table, task_id)
    assert after["title"] == "New"
    assert after["failures"] == 0
    assert "attention" not in after
    kept = {
        "description",
        "acceptance_criteria",
        "required_skill",
        "priority",
        "status",
        "attempt",
        "created_at",
    }
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.spec("TOOL-11")
async def test_a_claimed_task_may_change_its_texts_and_priority_but_not_whose_it_is(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.lead.did("update_task", task_id=task_id, title="t", description="d", priority=9)
    for more in ({"assignee": "bert"}, {"required_skill": "python"}, {"depends_on": []}):
        refused = await table.lead.call("update_task", {"task_id": task_id, "title": "other", **more})
        assert (refused.code, refused.error["status"]) == ("conflict", "claimed")
        assert next(iter(more)) in refused.error["message"]
    assert (await fields(table, task_id))["title"] == "t"


@pytest.mark.spec("TOOL-11")
async def test_an_empty_list_of_dependencies_is_a_value_and_frees_the_task(table: Table):
    first = await table.task()
    second = await table.task(depends_on=[first])
    await table.lead.did("update_task", task_id=second, depends_on=None)
    assert (await fields(table, second))["depends_on"] == [first]
    await table.lead.did("update_task", task_id=second, depends_on=[])
    assert "depends_on" not in await fields(table, second)
    assert (await table.anna.did("claim_task", task_id=second))["dependencies"] == []


@pytest.mark.spec("TOOL-14")
async def test_tasks_of_an_assignee_are_those_it_holds_and_the_open_ones_assigned_to_it(table: Table):
    held = await table.task()
    await table.anna.did("claim_task", task_id=held)
    waiting = await table.task(assignee="anna")
    done = await table.task(assignee="anna")
    await table.anna.did("claim_task", task_id=done)
    await table.anna.did("submit_result", task_id=done, result="r")
    await table.lead.did("review_task", task_id=done, verdict="reject", note="n")
    gone = await table.task(assignee="anna")
    await table.lead.did("cancel_task", task_id=gone, reason="r")
    await table.task(assignee="bert")
    rows = (await table.bert.did("list_tasks", assignee="anna"))["tasks"]
    assert [row["task_id"] for row in rows] == [done, waiting, held]
    assert (await table.bert.did("list_tasks", assignee="nobody"))["tasks"] == []


@pytest.mark.spec("TOOL-24", "TASK-4", "TASK-5")
async def test_a_reject_clears_the_assignee_and_keep_assignee_gives_it_back_to_the_same_worker(table: Table):
    for keep in (False, True):
        task_id = await table.task()
        await table.anna.did("claim_task", task_id=task_id)
        await table.anna.did("submit_result", task_id=task_id, result="r")
        assert (await fields(table, task_id))["assignee"] == "anna"
        await table.lead.did("review_task", task_id=task_id, verdict="reject", note="n", keep_assignee=keep)
        task = await fields(table, task_id)
        assert "assignee" not in task
        assert task.get("assigned_to") == ("anna" if keep else None)
        assert task["rejections"] == 1
        await table.lead.did("cancel_task", task_id=task_id, reason="r")


@pytest.mark.spec("TOOL-24")
async def test_a_reject_without_a_note_is_invalid_and_an_accept_needs_none(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.anna.did("submit_result", task_id=task_id, result="r")
    for note in (None, ""):
        refused = await table.lead.call("review_task", task_id=task_id, verdict="reject", note=note)
        assert refused.code == "invalid"
        assert "note" in refused.error["message"]
    assert (await fields(table, task_id))["status"] == "submitted"
    await table.lead.did("review_task", task_id=task_id, verdict="accept")


@pytest.mark.spec("ATTN-1", "ATTN-2", "ATTN-3")
async def test_a_help_request_of_one_it_concerns_holds_back_claims_until_the_leader_replies(table: Table):
    strangers = await table.task()
    await table.bert.did("post_message", task_id=strangers, body="?", kind="help_request")
    assert "needs_attention" not in await fields(table, strangers)
    assigned = await table.task(assignee="bert")
    await table.bert.did("post_message", task_id=assigned, body="?", kind="help_request")
    assert (await table.bert.call("claim_task", task_id=assigned)).code == "needs_attention"
    for kind in ("note", "progress"):
        await table.lead.did("post_message", task_id=assigned, body="!", kind=kind)
    await table.anna.did("post_message", task_id=assigned, body="!", kind="reply")
    assert (await table.bert.call("claim_task", task_id=assigned)).code == "needs_attention"
    await table.lead.did("post_message", task_id=assigned, body="!", kind="reply")
    await table.bert.did("claim_task", task_id=assigned)


@pytest.mark.spec("ATTN-6")
async def test_an_accepted_submit_settles_the_holders_own_help_request(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.anna.did("post_message", task_id=task_id, body="?", kind="help_request")
    await table.anna.did("submit_result", task_id=task_id, result="r")
    assert "needs_attention" not in await fields(table, task_id)


@pytest.mark.spec("TOOL-25", "TOOL-22")
async def test_a_cancelled_task_keeps_its_reason_and_takes_no_more_messages(table: Table):
    task_id = await table.task()
    await table.anna.did("claim_next")
    await table.lead.did("cancel_task", task_id=task_id, reason="Not wanted.")
    assert (await table.anna.call("post_message", task_id=task_id, body="b")).code == "conflict"
    (event,) = (await table.anna.did("get_history", newest_first=True, limit=1))["events"]
    assert (event["event"], event["changes"]["reason"]) == ("cancelled", [None, "Not wanted."])
    assert (await table.anna.did("whoami"))["tasks"] == []


@pytest.mark.spec("HIST-2")
async def test_the_history_of_a_day_replayed_gives_every_field_of_every_task(table: Table):
    with structlog.testing.capture_logs():
        await tell(table)
    replayed: dict[int, dict[str, Any]] = {}
    for task_id, event, changes in table.rows(
        "SELECT task_id, event, changes FROM history ORDER BY event_id"
    ):
        task = replayed.setdefault(task_id, {"attention": set(), "depends_on": []})
        for name, (old, new) in json.loads(changes).items():
            if event == "attention_set":
                task["attention"].add(new)
            elif event == "attention_cleared":
                task["attention"].remove(old)
            else:
                task[name] = new
    names = [
        column
        for (column,) in table.rows("SELECT name FROM pragma_table_info('tasks')")
        if column
        not in {
            "claim_id",
            "updated_at",
            "task_id",
            "needs_attention",
            "open_dependencies",
            "rank",
            "revision",
        }
    ]
    for task_id, *values in table.rows(f"SELECT task_id, {', '.join(names)} FROM tasks"):
        told = replayed.pop(task_id)
        assert {name: told.get(name) for name in names} == dict(zip(names, values, strict=True))
        assert told["depends_on"] == [
            cause
            for (cause,) in table.rows(
                f"SELECT depends_on FROM dependencies WHERE task_id = {task_id} ORDER BY position"
            )
        ]
        assert told["attention"] == {
            reason for (reason,) in table.rows(f"SELECT reason FROM attention WHERE task_id = {task_id}")
        }
    assert replayed == {}

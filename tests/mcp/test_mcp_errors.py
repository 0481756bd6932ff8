"""Refusals: every code by a real call, in both generations, with what it carries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from mcp_table import (
    AGENTS,
    ANNA,
    BERT,
    CODES,
    GENERATIONS,
    LEAD,
    MODERN,
    Answer,
    HandSetClock,
    Table,
    laid_table,
    token_of,
)

from roundtable.board.actor import BoardStopped
from roundtable.rules.commands import PostMessage

SECRET = "what only the traceback may say"


async def claimed(table: Table) -> int:
    task_id = await table.task()
    await table.anna.did("claim_task", task_id=task_id)
    return task_id


async def invalid(table: Table, generation: str) -> Answer:
    return await table.anna.call("get_task", {"task_id": "1"}, generation)


async def too_large(table: Table, generation: str) -> Answer:
    return await table.lead.call("create_task", {"title": "x" * 201, "description": "d"}, generation)


async def not_found(table: Table, generation: str) -> Answer:
    return await table.anna.call("get_task", {"task_id": 99}, generation)


async def forbidden(table: Table, generation: str) -> Answer:
    return await table.anna.call("cancel_task", {"task_id": 1, "reason": "r"}, generation)


async def conflict(table: Table, generation: str) -> Answer:
    task_id = await claimed(table)
    return await table.bert.call("claim_task", {"task_id": task_id}, generation)


async def stale_claim(table: Table, generation: str) -> Answer:
    task_id = await claimed(table)
    await table.lead.did("release_task", task_id=task_id)
    return await table.anna.call("submit_result", {"task_id": task_id, "result": "r"}, generation)


async def blocked(table: Table, generation: str) -> Answer:
    first, second = await table.task(), await table.task()
    third = await table.task(depends_on=[second, first])
    return await table.anna.call("claim_task", {"task_id": third}, generation)


async def needs_attention(table: Table, generation: str) -> Answer:
    task_id = await claimed(table)
    await table.anna.did("post_message", task_id=task_id, body="Help.", kind="help_request")
    await table.anna.did("release_task", task_id=task_id)
    return await table.bert.call("claim_task", {"task_id": task_id}, generation)


async def unavailable(table: Table, generation: str) -> Answer:
    task_id = await table.task()
    table.board.close_claims()
    return await table.anna.call("claim_task", {"task_id": task_id}, generation)


async def internal(table: Table, generation: str) -> Answer:
    task_id = await table.task()
    table.claim_ids.fault = RuntimeError(SECRET)
    return await table.anna.call("claim_task", {"task_id": task_id}, generation)


BY_CODE = {
    made.__name__: made
    for made in (
        invalid,
        too_large,
        not_found,
        forbidden,
        conflict,
        stale_claim,
        blocked,
        needs_attention,
        unavailable,
        internal,
    )
}


def test_every_code_is_produced_here_but_rate_limited_which_has_a_file_of_its_own():
    assert BY_CODE.keys() | {"rate_limited"} == CODES


@pytest.mark.spec("ERR-1", "ERR-2", "REPLY-2")
@pytest.mark.parametrize("code", BY_CODE)
async def test_a_refusal_is_the_same_object_as_text_and_as_structured_content(
    table: Table, generation: str, code: str
):
    answer = await BY_CODE[code](table, generation)
    assert answer.status == 200
    assert answer.result["isError"] is True
    assert answer.content.keys() == {"error"}
    assert answer.error["code"] == code
    assert answer.error["message"]
    # the whole text, without anything before or behind
    assert answer.text.startswith('{"error":{"code":"')
    assert json.loads(answer.text) == answer.content


REPEATABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "invalid": ("get_task", {"task_id": "1"}),
    "too_large": ("create_task", {"title": "x" * 201, "description": "d"}),
    "not_found": ("get_task", {"task_id": 99}),
    "forbidden": ("cancel_task", {"task_id": 1, "reason": "r"}),
    "unavailable": ("claim_task", {"task_id": 1}),
}
"""Those whose call says the same when it is made twice."""


@pytest.mark.spec("ERR-1", "HTTP-2")
@pytest.mark.parametrize("code", REPEATABLE)
async def test_the_sdks_client_is_told_the_same(table: Table, generation: str, code: str):
    direct = await BY_CODE[code](table, generation)
    tool, arguments = REPEATABLE[code]
    seat = table.lead if tool == "create_task" else table.anna
    async with seat.sdk(generation) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.structured_content == direct.content
    assert [block.text for block in result.content] == [direct.text]


@pytest.mark.spec("ERR-2")
async def test_a_conflict_carries_the_status(table: Table, generation: str):
    assert (await conflict(table, generation)).error["status"] == "claimed"
    await table.lead.did("cancel_task", task_id=1, reason="r")
    for tool, arguments in (
        ("update_task", {"title": "new"}),
        ("cancel_task", {"reason": "r"}),
        ("review_task", {"verdict": "accept"}),
        ("post_message", {"body": "late"}),
        ("release_task", {}),
    ):
        refused = await table.lead.call(tool, {"task_id": 1, **arguments}, generation)
        assert (refused.code, refused.error["status"]) == ("conflict", "cancelled"), tool


@pytest.mark.spec("ERR-2", "DEP-2")
async def test_blocked_names_every_dependency_that_is_not_done(table: Table, generation: str):
    assert sorted((await blocked(table, generation)).error["blocked_by"]) == [1, 2]
    await table.anna.did("claim_task", task_id=1)
    await table.anna.did("submit_result", task_id=1, result="r")
    assert sorted((await table.anna.call("claim_task", task_id=3)).error["blocked_by"]) == [1, 2]
    await table.lead.did("review_task", task_id=1, verdict="accept")
    assert (await table.anna.call("claim_task", task_id=3)).error["blocked_by"] == [2]


@pytest.mark.spec("CLAIM-2")
async def test_who_is_not_the_holder_is_told_which_kind_of_not(table: Table):
    task_id = await claimed(table)
    for arguments in ({"tool": "submit_result", "result": "r"}, {"tool": "release_task"}):
        tool = arguments.pop("tool")
        assert (await table.bert.call(tool, {"task_id": task_id, **arguments})).code == "forbidden"
    await table.anna.did("submit_result", task_id=task_id, result="r")
    again = await table.anna.call("release_task", task_id=task_id)
    assert (again.code, again.error["status"]) == ("conflict", "submitted")
    await table.lead.did("review_task", task_id=task_id, verdict="reject", note="n")
    assert (await table.anna.call("submit_result", task_id=task_id, result="r2")).code == "stale_claim"
    await table.bert.did("claim_task", task_id=task_id)
    assert (await table.anna.call("submit_result", task_id=task_id, result="r2")).code == "stale_claim"
    await table.lead.did("cancel_task", task_id=task_id, reason="r")
    final = await table.anna.call("submit_result", task_id=task_id, result="r2")
    assert (final.code, final.error["status"]) == ("conflict", "cancelled")


@pytest.mark.spec("TOOL-1")
@pytest.mark.parametrize("tool", ["create_task", "update_task", "review_task", "cancel_task"])
async def test_a_leaders_tool_is_forbidden_to_a_worker_whatever_the_arguments(
    table: Table, generation: str, tool: str
):
    for arguments in ({}, {"task_id": 1}, {"nonsense": True}):
        answer = await table.anna.call(tool, arguments, generation)
        assert answer.code == "forbidden"
        assert "leader" in answer.error["message"]


@pytest.mark.spec("TOOL-1")
@pytest.mark.parametrize("tool", ["claim_task", "claim_next", "submit_result"])
async def test_a_workers_tool_is_forbidden_to_the_leader_whatever_the_arguments(
    table: Table, generation: str, tool: str
):
    await table.task()
    for arguments in ({}, {"task_id": 1}, {"nonsense": True}):
        answer = await table.lead.call(tool, arguments, generation)
        assert answer.code == "forbidden"
        assert "worker" in answer.error["message"]
    assert table.rows("SELECT status FROM tasks") == [("open",)]


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize(
    "name", ["nope", "Whoami", "whoami ", "renew", "wait_for_update", "", "é" * 500, "é" * 101, "a\nb"]
)
async def test_an_unknown_tool_is_not_found_with_at_most_a_hundred_characters_of_its_name(
    table: Table, name: str
):
    answer = await table.anna.call(name, {})
    assert answer.code == "not_found"
    assert answer.error["message"].count("é") <= 100
    assert "\n" not in answer.error["message"]
    assert "tools/list" in answer.error["message"]


@pytest.mark.spec("ERR-3")
async def test_an_unknown_tool_is_not_found_in_the_newest_generation_too(table: Table):
    for name in ("nope", "renew", "wait_for_update"):
        assert (await table.anna.call(name, {}, MODERN)).code == "not_found"


@pytest.mark.spec("ERR-3", "TOOL-10")
async def test_an_assignee_has_to_be_a_worker_that_there_is(table: Table):
    for tool, more in (("create_task", {"title": "t", "description": "d"}), ("update_task", {"task_id": 1})):
        await table.task()
        assert (await table.lead.call(tool, {**more, "assignee": "nobody"})).code == "not_found"
        assert (await table.lead.call(tool, {**more, "assignee": "lead"})).code == "invalid"
        assert (await table.lead.call(tool, {**more, "assignee": "Anna"})).code == "not_found"


@pytest.mark.spec("ERR-3", "LIMIT-1")
async def test_the_five_hundred_and_first_message_is_too_large(table: Table):
    task_id = await table.task()
    for number in range(499):
        await table.board.ask(BERT, "post_message", PostMessage(task_id, f"{number}"))
    await table.bert.did("post_message", task_id=task_id, body="the last")
    assert (await table.bert.call("post_message", task_id=task_id, body="one more")).code == "too_large"
    assert table.rows("SELECT count(*) FROM messages") == [(500,)]


@pytest.mark.spec("DEP-1", "ERR-2")
async def test_dependencies_that_cannot_be_are_refused_by_their_kind(table: Table):
    first = await table.task()
    second = await table.task(depends_on=[first])
    gone = await table.task()
    await table.lead.did("cancel_task", task_id=gone, reason="r")
    for tool, more in (
        ("create_task", {"title": "t", "description": "d"}),
        ("update_task", {"task_id": first}),
    ):
        assert (await table.lead.call(tool, {**more, "depends_on": [99]})).code == "not_found"
        assert (await table.lead.call(tool, {**more, "depends_on": [gone]})).code == "conflict"
    circle = await table.lead.call("update_task", task_id=first, depends_on=[second])
    assert (circle.code, circle.error["status"]) == ("conflict", "open")
    assert (await table.lead.call("update_task", task_id=first, depends_on=[first])).code == "conflict"


@pytest.mark.spec("TOOL-19")
async def test_a_claim_without_the_skill_or_of_anothers_task_is_forbidden(table: Table):
    skilled = await table.task(required_skill="python")
    theirs = await table.task(assignee="anna")
    assert (await table.bert.call("claim_task", task_id=skilled)).code == "forbidden"
    assert (await table.bert.call("claim_task", task_id=theirs)).code == "forbidden"


@pytest.mark.spec("CLAIM-1")
async def test_one_claim_too_many_is_a_conflict_that_lists_what_is_held(tmp_path: Path):
    async with laid_table(tmp_path, claims_per_worker=2) as table:
        ids = [await table.task() for _ in range(3)]
        for task_id in ids[:2]:
            await table.anna.did("claim_task", task_id=task_id)
        for tool, arguments in (("claim_task", {"task_id": ids[2]}), ("claim_next", {})):
            refused = await table.anna.call(tool, arguments)
            assert (refused.code, refused.error["held"]) == ("conflict", ids[:2])
            assert "status" in refused.error
        assert (await table.anna.did("whoami"))["limits"]["tasks_held"] == 2


@pytest.mark.spec("HTTP-13")
@pytest.mark.parametrize(
    "params",
    [
        {"name": 5},
        {"name": None},
        {"arguments": {}},
        {"name": "whoami", "arguments": [1]},
        {"name": "whoami", "arguments": "x"},
    ],
)
async def test_malformed_params_are_a_json_rpc_error_and_quote_nothing(
    table: Table, generation: str, params: dict[str, Any]
):
    status, message = await table.anna.request("tools/call", params, generation)
    assert status in {200, 400}
    # a name that is none cannot agree with its header either, and that is looked at first
    assert message["error"]["code"] == (
        -32020 if generation == MODERN and params.get("name") == 5 else -32602
    )
    assert "pydantic" not in json.dumps(message)


@pytest.mark.spec("HTTP-13", "ERR-4")
@pytest.mark.parametrize("params", [[1], "x", 5, True, [], "", 0, False])
async def test_params_that_are_no_object_are_a_json_rpc_error_that_quotes_nothing(
    table: Table, generation: str, params: object
):
    status, message = await table.anna.request("tools/call", params, generation)
    assert status == 400 if generation == MODERN else status in {200, 400}
    assert message["error"]["code"] == -32602
    assert message["id"] == 7
    assert "pydantic" not in json.dumps(message)
    # in the newest generation nothing is a call before its envelope has been read
    assert table.audit() == ([] if generation == MODERN else [("anna", "(malformed)", None, "invalid")])


@pytest.mark.spec("ERR-5")
async def test_a_fault_answers_a_fixed_text_leaves_nothing_half_done_and_is_logged(
    table: Table, generation: str
):
    with structlog.testing.capture_logs() as logged:
        answer = await internal(table, generation)
    assert answer.error == {
        "code": "internal",
        "message": "The board met an unexpected fault. Nothing was changed; the owner's log has the details.",
    }
    (told,) = (line for line in logged if line["log_level"] == "error")
    assert told["exc_info"]
    assert told["tool"] == "claim_task"
    assert SECRET not in json.dumps(table.rows("SELECT * FROM audit_log"))
    assert table.rows("SELECT status, attempt FROM tasks") == [("open", 0)]
    assert table.rows("SELECT event FROM history") == [("created",)]
    assert table.audit()[-1] == ("anna", "claim_task", 1, "internal")
    # and it was one call's fault alone
    assert not (await table.anna.call("claim_task", task_id=1)).is_error


class FaultyBoard:
    """A board whose every answer is this exception."""

    def __init__(self, clock: HandSetClock, fault: Exception) -> None:
        self.clock = clock
        self.fault = fault

    async def ask(self, *_call: object) -> Any:
        raise self.fault

    decide = ask


@pytest.fixture
async def broken(tmp_path: Path) -> AsyncIterator[Table]:
    async with laid_table(
        tmp_path, wrap=lambda board: FaultyBoard(board.clock, RuntimeError(SECRET))
    ) as laid:
        yield laid


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("whoami", {}),
        ("get_task", {"task_id": 1}),
        ("get_task", {"task_id": "1"}),
        ("nope", {}),
        ("cancel_task", {}),
    ],
    ids=["reads", "reads one", "bad arguments", "unknown tool", "forbidden"],
)
async def test_a_fault_on_any_road_through_the_tools_answers_the_fixed_text(
    broken: Table, generation: str, tool: str, arguments: dict[str, Any]
):
    with structlog.testing.capture_logs() as logged:
        answer = await broken.anna.call(tool, arguments, generation)
    assert answer.code == "internal"
    assert SECRET not in answer.text
    assert "unexpected fault" in answer.error["message"]
    assert [line["log_level"] for line in logged] == ["error"]
    assert logged[0]["exc_info"]


@pytest.mark.spec("ERR-5", "HTTP-13")
async def test_a_fault_while_malformed_params_are_noted_is_no_server_error(broken: Table, generation: str):
    with structlog.testing.capture_logs() as logged:
        status, message = await broken.anna.request("tools/call", {"arguments": {}}, generation)
    assert status in {200, 400}
    assert SECRET not in json.dumps(message)
    assert "error" in message or message["result"]["isError"]
    assert any(line["log_level"] == "error" for line in logged)


@pytest.mark.spec("ERR-2", "BOARD-7")
async def test_a_stopped_board_answers_unavailable_whatever_is_asked(tmp_path: Path, generation: str):
    async with laid_table(tmp_path, wrap=lambda board: FaultyBoard(board.clock, BoardStopped())) as table:
        for tool, arguments in (("whoami", {}), ("get_task", {"task_id": 1}), ("claim_next", {})):
            assert (await table.anna.call(tool, arguments, generation)).code == "unavailable"


@pytest.mark.spec("BOARD-8")
async def test_while_the_disk_cannot_be_written_reads_are_answered_and_writes_are_unavailable(
    table: Table, generation: str
):
    await table.task()
    table.executor.db.execute("PRAGMA query_only = ON")
    with structlog.testing.capture_logs():
        for tool, arguments in (("claim_task", {"task_id": 1}), ("claim_next", {})):
            assert (await table.anna.call(tool, arguments, generation)).code == "unavailable"
        assert (await table.anna.call("get_task", {"task_id": 1}, generation)).code is None
        assert (await table.anna.call("get_task", {"task_id": "1"}, generation)).code == "invalid"
        assert (await table.anna.call("nope", {}, generation)).code == "not_found"
    table.executor.db.execute("PRAGMA query_only = OFF")
    assert (await table.anna.call("claim_task", {"task_id": 1}, generation)).code is None
    assert [row[3] for row in table.audit()] == [
        "ok",
        "unavailable",
        "unavailable",
        "ok",
        "invalid",
        "not_found",
        "ok",
    ]


@pytest.mark.spec("STOP-3")
async def test_while_no_claims_are_given_claim_next_is_empty_and_everything_else_goes_on(table: Table):
    held, other = await table.task(), await table.task()
    await table.anna.did("claim_task", task_id=held)
    table.board.close_claims()
    assert await table.anna.did("claim_next") == {"task": None}
    assert (await table.anna.call("claim_task", task_id=other)).code == "unavailable"
    # what one holds may be asked for again, and be handed in
    assert (await table.anna.did("claim_task", task_id=held))["task_id"] == held
    assert (await table.anna.did("submit_result", task_id=held, result="r"))["status"] == "submitted"


@pytest.mark.spec("ERR-4")
async def test_no_refusal_quotes_a_token_or_orders_something_destructive(table: Table):
    for code in sorted(BY_CODE):
        for generation in GENERATIONS:
            answer = await BY_CODE[code](table, generation)
            table.executor.accepts_claims = True
            for agent in AGENTS:
                assert token_of(agent) not in answer.text
            words = answer.error["message"].lower()
            assert not [
                word for word in ("delete", "cancel the", "cancel it", "force", "restart") if word in words
            ]
            await clean(table)


async def clean(table: Table) -> None:
    for agent in (ANNA, BERT):
        for held in (await table.seats[agent.name].did("whoami"))["tasks"]:
            await table.seats[agent.name].did("release_task", task_id=held["task_id"])


@pytest.mark.spec("ERR-4")
async def test_what_a_caller_sent_is_echoed_up_to_a_hundred_characters_and_printable(table: Table):
    token = token_of(LEAD)
    for arguments in ({"assignee": "ü" * 100}, {"assignee": "a\u202eb\u2028c"}, {"assignee": token}):
        answer = await table.lead.call("create_task", {"title": "t", "description": "d", **arguments})
        assert answer.code == "not_found"
        message = answer.error["message"]
        assert message.count("ü") <= 100
        assert "\u202e" not in message
        assert "\u2028" not in message

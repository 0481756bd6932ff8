"""The board as resources: what can be read, and that reading is a call like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog
from mcp.shared.exceptions import MCPError
from mcp_story import STRANGE, tell
from mcp_table import HandSetClock, Seat, Table, laid_table

from roundtable.rules.limits import NEEDS_NOW_MAX, REPLY_BYTES
from roundtable.tools.answers import WARNING

BOARD = "roundtable://board"
UNKNOWN = (
    "roundtable://",
    "roundtable://boards",
    "roundtable://board/",
    "roundtable://board?x=1",
    "ROUNDTABLE://BOARD",
    "roundtable://tasks",
    "roundtable://tasks/",
    "roundtable://tasks/0",
    "roundtable://tasks/01",
    "roundtable://tasks/-1",
    "roundtable://tasks/1/",
    "roundtable://tasks/1#x",
    "roundtable://tasks/1%20",
    "roundtable://tasks/ 1",
    "roundtable://tasks/+1",
    "roundtable://tasks/1.0",
    f"roundtable://tasks/{2**63}",
    "roundtable://tasks/" + "9" * 5_000,
    "roundtable://tasks/{id}",
    "roundtable://agents",
    "file:///etc/passwd",
    "https://example.org/",
    "../../etc/passwd",
    "nonsense",
    "",
)


async def read(seat: Seat, uri: str, generation: str = "2025-11-25") -> dict[str, Any]:
    """The JSON of the one text that the resource consists of."""
    status, message = await seat.request("resources/read", {"uri": uri}, generation)
    assert status == 200
    (content,) = message["result"]["contents"]
    assert content["uri"] == uri
    assert content["mimeType"] == "application/json"
    return json.loads(content["text"])


async def refused(seat: Seat, params: object, generation: str = "2025-11-25") -> dict[str, Any]:
    status, message = await seat.request("resources/read", params, generation)
    assert status < 500
    return message["error"]


@pytest.mark.spec("MCP-1")
async def test_both_resources_are_listed_for_everybody(table: Table, generation: str):
    for seat in (table.lead, table.anna):
        _, message = await seat.request("resources/list", {}, generation)
        assert [one["uri"] for one in message["result"]["resources"]] == [BOARD]
        _, message = await seat.request("resources/templates/list", {}, generation)
        assert [one["uriTemplate"] for one in message["result"]["resourceTemplates"]] == [
            "roundtable://tasks/{id}"
        ]
    assert table.audit() == []


@pytest.mark.spec("MCP-1")
async def test_the_board_counts_its_tasks_and_shows_what_needs_attention(table: Table, generation: str):
    for seat in (table.lead, table.anna):
        board = await read(seat, BOARD, generation)
        assert board == {
            "counts": dict.fromkeys(
                ["open", "claimed", "submitted", "done", "cancelled", "needs_attention"], 0
            ),
            "needs_attention": [],
        }
    for number in range(8):
        await table.task(f"Task {number}")
    await table.anna.did("claim_task", task_id=1)
    await table.anna.did("claim_task", task_id=2)
    await table.anna.did("submit_result", task_id=2, result="r")
    for task_id in (3, 4):
        await table.bert.did("claim_task", task_id=task_id)
        await table.bert.did("submit_result", task_id=task_id, result="r")
        await table.lead.did("review_task", task_id=task_id, verdict="accept")
    await table.lead.did("cancel_task", task_id=5, reason="r")
    await table.anna.did("post_message", task_id=1, body="?", kind="help_request")
    await table.anna.did("claim_task", task_id=6)
    await table.anna.did("release_task", task_id=6)
    board = await read(table.anna, BOARD, generation)
    assert board["counts"] == {
        "open": 3,
        "claimed": 1,
        "submitted": 1,
        "done": 2,
        "cancelled": 1,
        "needs_attention": 1,
    }
    listed = await table.lead.did("list_tasks", needs_attention=True)
    assert board["needs_attention"] == listed["tasks"]
    assert board["untrusted_content_warning"] == WARNING


@pytest.mark.spec("MCP-1", "REPLY-7")
async def test_the_board_shows_the_oldest_that_need_attention_as_far_as_one_answer_goes(table: Table):
    for _ in range(NEEDS_NOW_MAX + 5):
        task_id = await table.task("a" + "\u2028" * 199, assignee="anna")
        await table.anna.did("post_message", task_id=task_id, body="?", kind="help_request")
    _, message = await table.lead.request("resources/read", {"uri": BOARD})
    text = message["result"]["contents"][0]["text"]
    assert len(text.encode()) <= REPLY_BYTES
    board = json.loads(text)
    shown = [task["task_id"] for task in board["needs_attention"]]
    assert shown == list(range(1, len(shown) + 1))
    assert 10 < len(shown) <= NEEDS_NOW_MAX
    assert board["counts"]["needs_attention"] == NEEDS_NOW_MAX + 5


@pytest.mark.spec("MCP-1")
async def test_a_task_is_what_get_task_answers_for_the_same_caller(table: Table, generation: str):
    task_id = await table.task(STRANGE, acceptance_criteria=STRANGE)
    await table.anna.did("claim_task", task_id=task_id)
    await table.anna.did("post_message", task_id=task_id, body=STRANGE)
    for seat in (table.lead, table.anna, table.bert):
        task = await read(seat, f"roundtable://tasks/{task_id}", generation)
        assert task == await seat.did("get_task", task_id=task_id)
        assert task["untrusted_content_warning"] == WARNING
        assert ("claim_id" in task["task"]) == (seat is table.anna)


@pytest.mark.spec("MCP-1")
async def test_the_text_is_compact_and_plain_like_that_of_a_tool(table: Table):
    task_id = await table.task(STRANGE)
    _, message = await table.lead.request("resources/read", {"uri": f"roundtable://tasks/{task_id}"})
    assert (
        message["result"]["contents"][0]["text"] == (await table.lead.call("get_task", task_id=task_id)).text
    )


@pytest.mark.spec("MCP-1", "LEASE-2")
async def test_a_holder_that_reads_its_task_renews_its_claim(table: Table):
    task_id = await table.task(lease_seconds=60)
    await table.anna.did("claim_task", task_id=task_id)
    for _ in range(3):
        table.clock.advance(50)
        task = await read(table.anna, f"roundtable://tasks/{task_id}")
    assert task["task"]["status"] == "claimed"
    table.clock.advance(50)
    await read(table.anna, BOARD)
    table.clock.advance(11)
    assert (await read(table.anna, f"roundtable://tasks/{task_id}"))["task"]["status"] == "open"


@pytest.mark.spec("MCP-1", "AUDIT-1")
async def test_reading_leaves_a_row_named_resources_read(table: Table, generation: str):
    task_id = await table.task()
    await read(table.anna, BOARD, generation)
    await read(table.lead, f"roundtable://tasks/{task_id}", generation)
    await refused(table.anna, {"uri": "roundtable://tasks/77"}, generation)
    await refused(table.anna, {"uri": "roundtable://nothing"}, generation)
    assert table.audit()[1:] == [
        ("anna", "resources/read", None, "ok"),
        ("lead", "resources/read", task_id, "ok"),
        ("anna", "resources/read", 77, "not_found"),
        ("anna", "resources/read", None, "not_found"),
    ]


@pytest.mark.spec("MCP-1", "ERR-4")
@pytest.mark.parametrize("uri", UNKNOWN)
async def test_an_unknown_resource_is_refused_in_words(table: Table, generation: str, uri: str):
    await table.task()
    error = await refused(table.anna, {"uri": uri}, generation)
    assert error["code"] == -32602
    assert error["data"]["error"]["code"] == "not_found"
    assert error["message"] == error["data"]["error"]["message"]
    assert BOARD in error["message"]
    assert len(error["message"]) < 300
    assert table.audit()[-1] == ("anna", "resources/read", None, "not_found")


@pytest.mark.spec("MCP-1")
async def test_malformed_params_are_refused_and_counted(tmp_path: Path):
    async with laid_table(tmp_path, calls_per_minute=5) as table:
        for params in ({"uri": 5}, {"uri": None}, {}, [1], "x"):
            assert (await refused(table.anna, params))["code"] == -32602
        assert [row[1:] for row in table.audit()] == [("resources/read", None, "invalid")] * 5
        assert (await refused(table.anna, {"uri": BOARD}))["data"]["error"]["code"] == "rate_limited"


@pytest.mark.spec("MCP-1", "RATE-1")
async def test_reading_counts_as_a_call_and_calls_as_reading(tmp_path: Path, generation: str):
    async with laid_table(tmp_path, calls_per_minute=3) as table:
        task_id = await table.task()
        await table.anna.did("whoami")
        await read(table.anna, BOARD, generation)
        await read(table.anna, f"roundtable://tasks/{task_id}", generation)
        error = await refused(table.anna, {"uri": f"roundtable://tasks/{task_id}"}, generation)
        assert error["data"]["error"]["code"] == "rate_limited"
        assert error["data"]["error"]["retry_after_seconds"] == 60
        assert table.audit()[-1] == ("anna", "resources/read", task_id, "rate_limited")
        assert (await table.anna.call("whoami")).code == "rate_limited"
        assert isinstance(table.clock, HandSetClock)
        table.clock.advance(60)
        await read(table.anna, BOARD, generation)


@pytest.mark.spec("MCP-1", "ERR-5")
async def test_a_fault_while_reading_is_told_as_one_and_logged(tmp_path: Path, generation: str):
    async with laid_table(tmp_path, wrap=FaultyBoard) as table:
        with structlog.testing.capture_logs() as logged:
            error = await refused(table.anna, {"uri": BOARD}, generation)
        assert error["code"] == -32603
        assert error["data"]["error"]["code"] == "internal"
        assert "secret" not in json.dumps(error)
        assert [entry["event"] for entry in logged] == ["fault"]


class FaultyBoard:
    def __init__(self, board: Any) -> None:
        self.clock = board.clock
        self.waits = board.waits

    async def ask(self, *call: Any) -> Any:
        raise RuntimeError("a secret of the board's")


@pytest.mark.spec("MCP-1", "HTTP-2")
async def test_the_sdks_client_reads_in_either_generation(table: Table, generation: str):
    await tell(table)
    async with table.anna.sdk(generation) as client:
        assert [str(one.uri) for one in (await client.list_resources()).resources] == [BOARD]
        assert len((await client.list_resource_templates()).resource_templates) == 1
        answer = await client.read_resource("roundtable://tasks/1")
        assert json.loads(answer.contents[0].text)["task"]["title"] == STRANGE
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("roundtable://nothing")

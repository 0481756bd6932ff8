"""The audit log as calls write it: one row each, of every kind, and no text of anybody in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from mcp_story import STRANGE, tell
from mcp_table import AGENTS, ANNA, MODERN, Table, laid_table, token_of

from roundtable.board.actor import Board
from roundtable.store import audit

MARK = "marked-by-the-client"


@pytest.mark.spec("AUDIT-1")
async def test_every_kind_of_call_leaves_one_row_in_both_generations(table: Table, generation: str):
    async def call(tool: str, **arguments: Any) -> None:
        await table.anna.call(tool, arguments, generation)

    await table.lead.call("create_task", {"title": "t", "description": "d"}, generation)
    await call("whoami")
    await call("claim_task", task_id=1)
    await call("get_task", task_id=2)
    await call("get_task", task_id=1, nonsense=1)
    await call("get_task", task_id="1")
    await call("cancel_task", task_id=1, reason="r")
    await call("nope", task_id=1)
    await call("nope", task_id=True)
    await call("post_message", task_id=1, body="x" * 4_001)
    await table.anna.request("tools/call", {"arguments": {}}, generation)
    await table.anna.request("tools/call", {"name": "get_task", "arguments": [1]}, generation)
    assert table.audit() == [
        ("lead", "create_task", 1, "ok"),
        ("anna", "whoami", None, "ok"),
        ("anna", "claim_task", 1, "ok"),
        ("anna", "get_task", 2, "not_found"),
        ("anna", "get_task", 1, "invalid"),
        ("anna", "get_task", None, "invalid"),
        ("anna", "cancel_task", 1, "forbidden"),
        ("anna", "(unknown)", 1, "not_found"),
        ("anna", "(unknown)", None, "not_found"),
        ("anna", "post_message", 1, "too_large"),
        ("anna", "(malformed)", None, "invalid"),
        ("anna", "(malformed)", None, "invalid"),
    ]


@pytest.mark.spec("AUDIT-1")
async def test_the_sdks_client_leaves_one_row_a_call_and_none_for_anything_else(
    table: Table, generation: str
):
    async with table.anna.sdk(generation) as client:
        await client.list_tools()
        await client.call_tool("whoami")
        await client.list_tools()
        await client.call_tool("get_task", {"task_id": 5})
    assert table.audit() == [("anna", "whoami", None, "ok"), ("anna", "get_task", 5, "not_found")]


@pytest.mark.spec("AUDIT-1")
async def test_what_is_no_tool_call_leaves_no_row(table: Table, generation: str):
    for method in ("tools/list", "prompts/list", "resources/list", "ping", "server/discover", "nonsense"):
        await table.anna.request(method, {}, generation)
    await table.anna.post(b"{")
    await table.anna.post(b"[]")
    assert table.audit() == []


@pytest.mark.spec("AUDIT-1", "LIMIT-1")
async def test_a_mentioned_task_is_noted_only_if_it_can_be_one(table: Table):
    for task_id in (0, -1, 2**63, 10**30, "1", None, [1], {}, True, 1.5):
        await table.anna.call("nope", {"task_id": task_id})
    await table.anna.call("nope", {"task_id": 2**63 - 1})
    assert {row[2] for row in table.audit()} == {None, 2**63 - 1}


@pytest.mark.spec("AUDIT-1")
async def test_a_row_tells_the_time_of_arrival_and_how_long_the_decision_took(tmp_path: Path):
    async with laid_table(tmp_path, wrap=SlowBoard) as table:
        arrived = table.clock().text
        await table.anna.call("whoami")
        await table.anna.call("get_task", {"task_id": "1"})
        first, second = table.rows("SELECT time, duration_ms FROM audit_log ORDER BY audit_id")
        assert first == (arrived, 1_500)
        assert second[1] == 1_500


class SlowBoard:
    """A board before which a second and a half goes by."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.clock = board.clock

    async def ask(self, *call: Any) -> Any:
        self.clock.advance(1.5)
        return await self._board.ask(*call)


@pytest.mark.spec("AUDIT-1", "LOG-1")
async def test_no_name_or_text_or_token_of_a_client_stands_in_any_row(table: Table, generation: str):
    with structlog.testing.capture_logs() as logged:
        await tell(table)
        await table.anna.call(MARK, {MARK: MARK}, "2025-11-25")
        await table.lead.call("create_task", {"title": MARK, "description": MARK, MARK: MARK}, generation)
        await table.lead.call(
            "create_task", {"title": MARK, "description": MARK, "assignee": MARK}, generation
        )
        await table.lead.call(
            "create_task", {"title": MARK, "description": MARK, "required_skill": MARK}, generation
        )
        await table.anna.call("get_task", {"task_id": MARK}, generation)
        await table.anna.request("tools/call", {"name": [MARK], "arguments": MARK}, "2025-11-25")
        await table.anna.request("tools/call", {"name": "whoami", "arguments": MARK}, generation)
    rows = json.dumps(table.rows("SELECT * FROM audit_log"), ensure_ascii=False)
    lines = json.dumps(logged, ensure_ascii=False, default=str)
    for text in (
        MARK,
        STRANGE[:5],
        "Which way",
        *(token_of(agent) for agent in AGENTS),
        *table.claim_ids.given,
    ):
        assert text not in rows
        assert text not in lines
    tools = {row[1] for row in table.audit()}
    assert {"(unknown)", "(malformed)"} <= tools


@pytest.mark.spec("AUDIT-5")
async def test_the_chain_of_a_day_is_whole(table: Table):
    with structlog.testing.capture_logs():
        await tell(table)
    assert len(table.audit()) == len(table.answers)
    assert audit.first_break(table.executor.db) is None


@pytest.mark.spec("AUDIT-3", "BOARD-2")
async def test_a_client_that_goes_while_its_call_is_queued_leaves_gone_and_no_effect(
    tmp_path: Path, generation: str
):
    made: list[HeldBoard] = []

    def hold(board: Board) -> HeldBoard:
        made.append(HeldBoard(board))
        return made[0]

    async with laid_table(tmp_path, wrap=hold) as table:
        (held,) = made
        await table.task()
        held.holds = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(table.anna.call, "claim_task", {"task_id": 1}, generation)
            with trio.fail_after(5):
                await held.reached.wait()
            nursery.cancel_scope.cancel()
        held.holds = False
        with trio.fail_after(5):
            while len(table.audit()) < 2:
                await trio.lowlevel.checkpoint()
        assert table.audit()[1:] == [("anna", "claim_task", 1, "gone")]
        assert table.rows("SELECT status FROM tasks") == [("open",)]


class HeldBoard:
    """A board whose way in can be held: whoever asks then is cancelled in the queue."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.clock = board.clock
        self.holds = False
        self.reached = trio.Event()

    async def ask(self, *call: Any) -> Any:
        if self.holds:
            self.reached.set()
            with trio.CancelScope() as queued:
                queued.cancel()
                return await self._board.ask(*call)
            await trio.sleep_forever()
        return await self._board.ask(*call)


@pytest.mark.spec("HIST-3", "AUDIT-4")
async def test_no_tool_changes_a_row_of_the_past(table: Table):
    with structlog.testing.capture_logs():
        await tell(table)
        before = table.rows("SELECT * FROM history"), table.rows("SELECT * FROM audit_log")
        table.executor.accepts_claims = True
        await tell(table)
    after = table.rows("SELECT * FROM history"), table.rows("SELECT * FROM audit_log")
    for old, new in zip(before, after, strict=True):
        assert new[: len(old)] == old
        assert len(new) > len(old)


@pytest.mark.spec("AUDIT-1", "AUTH-5")
async def test_the_row_names_the_agent_of_the_token_whatever_the_client_says(table: Table):
    meta = {"io.modelcontextprotocol/clientInfo": {"name": "lead", "version": "1"}, "agent": "lead"}
    await table.anna.request("tools/call", {"name": "whoami", "_meta": meta})
    assert table.audit() == [(ANNA.name, "whoami", None, "ok")]


@pytest.mark.spec("AUDIT-1")
async def test_a_call_that_fails_the_sdks_header_checks_is_no_call(table: Table):
    status, message = await table.anna.request(
        "tools/call", {"name": "whoami"}, MODERN, **{"Mcp-Name": "list_agents"}
    )
    assert (status, message["error"]["code"]) == (400, -32020)
    assert table.audit() == []

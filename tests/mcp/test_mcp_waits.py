"""Calls that wait, as a client sees them: answered in time, ended by a stop, and taken back when it has gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from mcp_table import LEFT_TO_THE_SDK, MODERN, URL, Seat, Table, laid_table

WAITING = {"wait_seconds": 25}
Headers = tuple[tuple[str, str], ...]
BOTH_WAYS = pytest.mark.parametrize("more", [(), (LEFT_TO_THE_SDK,)], ids=["short", "sdk"])
"""By the short way, and by the SDK's, which takes what is not plainly right."""


class Waiting:
    """A call in a task of its own."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.content: dict[str, Any] | None = None
        self.ended = trio.Event()

    async def run(
        self, seat: Seat, tool: str, arguments: dict[str, Any], generation: str, *more: tuple[str, str]
    ) -> None:
        try:
            with self.scope:
                # no deadline of the client's: the clock jumps
                status, message = await request(seat, tool, arguments, generation, *more)
                assert status == 200
                self.content = message["result"]["structuredContent"]
        finally:
            self.ended.set()


async def request(
    seat: Seat, tool: str, arguments: dict[str, Any], generation: str, *more: tuple[str, str]
) -> tuple[int, dict[str, Any]]:
    params = {"name": tool, "arguments": arguments}
    return await seat.request("tools/call", params, generation, **dict(more))


async def start(
    nursery, seat: Seat, tool: str, generation: str, *more: tuple[str, str], **arguments: Any
) -> Waiting:
    waiting = Waiting()
    nursery.start_soon(waiting.run, seat, tool, arguments, generation, *more)
    await trio.testing.wait_all_tasks_blocked()
    return waiting


@pytest.mark.spec("WAIT-1", "WAIT-2", "TOOL-4")
@BOTH_WAYS
async def test_a_waiting_claim_next_is_answered_when_there_is_a_task(
    table: Table, nursery, generation: str, more: Headers
) -> None:
    waiting = await start(nursery, table.anna, "claim_next", generation, *more, **WAITING)
    assert not waiting.ended.is_set()
    await table.task()
    await waiting.ended.wait()
    assert waiting.content is not None
    assert waiting.content["task_id"] == 1
    assert table.rows("SELECT assignee FROM tasks") == [("anna",)]
    await table.anna.did("renew_claim", task_id=1, claim_id=waiting.content["claim_id"])


@pytest.mark.spec("HTTP-14", "AUDIT-3")
@BOTH_WAYS
async def test_a_client_that_goes_away_cancels_its_wait(
    table: Table, nursery, generation: str, more: Headers
) -> None:
    cursor = await cursor_of(table)
    waits = [
        await start(nursery, table.anna, "claim_next", generation, *more, **WAITING),
        await start(nursery, table.bert, "wait_for_updates", generation, *more, cursor=cursor),
    ]
    assert len(table.board.waits) == 2
    for waiting in waits:
        waiting.scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert len(table.board.waits) == 0
    assert sorted(row for row in table.audit() if row[3] == "gone") == [
        ("anna", "claim_next", None, "gone"),
        ("bert", "wait_for_updates", None, "gone"),
    ]
    await table.task()
    assert table.rows("SELECT status FROM tasks") == [("open",)]


async def cursor_of(table: Table) -> str:
    return (await table.bert.did("wait_for_updates"))["cursor"]


async def hang_up(
    seat: Seat, table: Table, generation: str, moment: str, key: str | None, *more: tuple[str, str]
) -> None:
    """Ask for a task and be gone just before the answer goes out, just behind it, or when it ends."""
    scope_of_client = trio.CancelScope()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def watched(message: Any) -> None:
            is_answer = b"claim_id" in message.get("body", b"")
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if (moment == "before" and is_answer) or (moment == "end" and is_last):
                scope_of_client.cancel()
                await trio.lowlevel.checkpoint()
            await send(message)
            if moment == "behind" and is_answer:
                scope_of_client.cancel()

        await table.app(scope, receive, watched)

    arguments = {"wait_seconds": 5, "idempotency_key": key}
    params: dict[str, Any] = {"name": "claim_next", "arguments": arguments}
    headers = {
        "Authorization": f"Bearer {seat._token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": generation,
        "Content-Type": "application/json",
    }
    if generation == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "claim_next"}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    with scope_of_client:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as client:
            await client.post(URL, content=body, headers={**headers, **dict(more)})


@pytest.mark.spec("CLAIM-9")
@BOTH_WAYS
async def test_a_claim_whose_client_had_gone_before_the_answer_was_handed_over_is_taken_back(
    table: Table, generation: str, more: Headers
) -> None:
    await table.task()
    await hang_up(table.anna, table, generation, "before", "k", *more)
    await trio.testing.wait_all_tasks_blocked()
    assert table.rows("SELECT count(*) FROM claims") == [(1,)]
    assert table.rows("SELECT status, failures, attempt FROM tasks") == [("open", 0, 1)]
    assert table.rows("SELECT * FROM cooldowns") == []
    assert (await table.anna.did("claim_next", idempotency_key="k"))["attempt"] == 2


@pytest.mark.spec("CLAIM-9", "CLAIM-4")
@pytest.mark.parametrize("moment", ["behind", "end"])
@BOTH_WAYS
async def test_a_claim_whose_answer_was_handed_over_stays_though_it_may_get_lost_on_its_way(
    table: Table, generation: str, moment: str, more: Headers
) -> None:
    await table.task()
    await hang_up(table.anna, table, generation, moment, "k", *more)
    await trio.testing.wait_all_tasks_blocked()
    assert table.rows("SELECT status, assignee FROM tasks") == [("claimed", "anna")]
    (held,) = (await table.anna.did("whoami"))["tasks"]
    assert (await table.anna.did("claim_next", idempotency_key="k"))["claim_id"] == held["claim_id"]


@pytest.mark.spec("STOP-5")
async def test_a_stop_ends_all_waits_with_their_empty_answer(
    tmp_path: Path, nursery, generation: str
) -> None:
    async with laid_table(tmp_path) as table:
        cursor = await cursor_of(table)
        waits = [
            await start(nursery, table.anna, "claim_next", generation, **WAITING),
            await start(nursery, table.bert, "wait_for_updates", generation, cursor=cursor, **WAITING),
        ]
        table.stopping.set()
        for waiting in waits:
            await waiting.ended.wait()
        assert [waiting.content for waiting in waits] == [{"task": None}, {"cursor": cursor, "updates": []}]


@pytest.mark.spec("WAIT-4", "TRUST-1")
async def test_news_carry_the_warning_and_no_news_are_nothing_but_a_cursor(
    table: Table, generation: str
) -> None:
    await table.task(assignee="bert")
    answer = await table.bert.call("wait_for_updates", {}, generation)
    assert [event["event"] for event in answer.content["updates"]] == ["created"]
    assert "untrusted_content_warning" in answer.content
    cursor = answer.content["cursor"]
    empty = await table.bert.call("wait_for_updates", {"cursor": cursor, "wait_seconds": 0}, generation)
    assert empty.content == {"cursor": cursor, "updates": []}


@pytest.mark.spec("WAIT-7", "RATE-1", "LEASE-8", "RATE-3")
async def test_a_wait_counts_once_and_renewals_have_calls_in_reserve(tmp_path: Path, nursery) -> None:
    async with laid_table(tmp_path, calls_per_minute=3) as table:
        await table.task()
        await table.anna.did("claim_task", task_id=1)
        waiting = await start(nursery, table.anna, "claim_next", MODERN, **WAITING)
        for _ in range(2):
            # each looks at the line anew, and counts for nobody but its leader
            await table.lead.did("update_task", task_id=1, priority=1)
        assert (await table.anna.call("whoami")).code is None
        assert (await table.anna.call("whoami")).code == "rate_limited"
        for _ in range(10):
            assert (await table.anna.call("renew_claim", task_id=1)).code is None
        assert (await table.anna.call("renew_claim", task_id=1)).code == "rate_limited"
        waiting.scope.cancel()


@pytest.mark.spec("LEASE-2")
async def test_a_call_that_is_refused_before_it_reaches_the_board_renews_too(table: Table) -> None:
    await table.task(lease_seconds=100)
    claim = await table.anna.did("claim_task", task_id=1)
    for arguments in (
        {"task_id": 1, "result": "x" * 20_001},
        {"task_id": 1, "result": 7, "claim_id": claim["claim_id"]},
    ):
        table.clock.advance(60)
        assert (await table.anna.call("submit_result", arguments)).is_error
    table.clock.advance(60)
    for stale in ("claim0009", 7):
        await table.anna.call("submit_result", {"task_id": 1, "result": 7, "claim_id": stale})
    assert (await table.anna.did("renew_claim", task_id=1))["status"] == "claimed"
    table.clock.advance(60)
    await table.anna.call("submit_result", {"task_id": 1, "result": 7, "claim_id": "claim0009"})
    table.clock.advance(60)
    assert (await table.anna.call("renew_claim", task_id=1)).code == "stale_claim"


@pytest.mark.spec("IDEM-1", "TOOL-6")
async def test_the_same_arguments_are_the_same_after_defaults_nulls_and_line_ends(
    table: Table, generation: str
) -> None:
    spellings: list[dict[str, Any]] = [
        {"title": "T", "description": "a\nb"},
        {"title": "T", "description": "a\r\nb", "priority": 0},
        {"title": "T", "description": "a\rb", "priority": 0.0, "required_skill": None, "assignee": ""},
        {"title": "T", "description": "a\nb", "depends_on": [], "max_attempts": 3},
    ]
    for spelling in spellings:
        answer = await table.lead.call("create_task", {**spelling, "idempotency_key": "k"}, generation)
        assert answer.content["task_id"] == 1
    other = await table.lead.call("create_task", title="T", description="a\nb ", idempotency_key="k")
    assert other.code == "conflict"
    assert table.rows("SELECT count(*) FROM tasks") == [(1,)]

"""The rate limit at the tool call: sixty in any sixty seconds, and ten more for finished work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_table import ANNA, MODERN, HandSetClock, Seat, Table, laid_table

from roundtable.rules.errors import BoardError
from roundtable.tools.rates import CallRates


@pytest.fixture
async def rated(tmp_path: Path) -> AsyncIterator[Table]:
    async with laid_table(tmp_path, calls_per_minute=60) as laid:
        yield laid


async def spend(seat: Seat, calls: int) -> None:
    for _ in range(calls):
        assert (await seat.call("whoami")).code is None


@pytest.mark.spec("RATE-1", "ERR-2")
async def test_the_sixty_first_call_within_a_minute_is_refused_and_told_when_to_come_back(
    rated: Table, generation: str
):
    await spend(rated.anna, 59)
    rated.clock.advance(20)
    await spend(rated.anna, 1)
    rated.clock.advance(1.5)
    answer = await rated.anna.call("whoami", generation=generation)
    assert (answer.status, answer.code, answer.error["retry_after_seconds"]) == (200, "rate_limited", 39)
    # half a second before that it is too early still
    rated.clock.advance(38)
    assert (await rated.anna.call("whoami", generation=generation)).error["retry_after_seconds"] == 1
    rated.clock.advance(0.5)
    assert (await rated.anna.call("whoami", generation=generation)).code is None


@pytest.mark.spec("RATE-1")
async def test_it_is_any_sixty_seconds_and_not_a_minute_on_the_clock(rated: Table):
    await spend(rated.anna, 30)
    rated.clock.advance(59)
    await spend(rated.anna, 30)
    assert (await rated.anna.call("whoami")).code == "rate_limited"
    rated.clock.advance(1)
    await spend(rated.anna, 30)
    assert (await rated.anna.call("whoami")).error["retry_after_seconds"] == 59


@pytest.mark.spec("RATE-1")
async def test_each_agent_has_a_limit_of_its_own(rated: Table):
    await spend(rated.anna, 60)
    assert (await rated.anna.call("whoami")).code == "rate_limited"
    assert (await rated.bert.call("whoami")).code is None
    assert (await rated.lead.call("whoami")).code is None


@pytest.mark.spec("RATE-1")
async def test_the_sdks_clients_of_both_generations_draw_on_the_same_sixty(rated: Table):
    for generation in ("2025-11-25", MODERN):
        async with rated.anna.sdk(generation) as client:
            for _ in range(30):
                assert not (await client.call_tool("whoami")).is_error
    for generation in ("2025-11-25", MODERN):
        async with rated.anna.sdk(generation) as client:
            refused = await client.call_tool("whoami")
            assert refused.is_error
            assert refused.structured_content["error"]["code"] == "rate_limited"


@pytest.mark.spec("RATE-2")
async def test_refused_unknown_and_ill_formed_calls_count(rated: Table):
    for _ in range(12):
        assert (await rated.anna.call("nope")).code == "not_found"
        assert (await rated.anna.call("get_task", task_id="1")).code == "invalid"
        assert (await rated.anna.call("cancel_task")).code == "forbidden"
        assert (await rated.anna.call("get_task", task_id=1)).code == "not_found"
        _, message = await rated.anna.request("tools/call", {"arguments": {}})
        assert message["error"]["code"] == -32602
    assert (await rated.anna.call("whoami")).code == "rate_limited"


@pytest.mark.spec("RATE-2")
async def test_calls_refused_by_the_rate_do_not_count(rated: Table):
    await spend(rated.anna, 60)
    for _ in range(100):
        rated.clock.advance(0.5)
        assert (await rated.anna.call("whoami")).code == "rate_limited"
    rated.clock.advance(10)
    await spend(rated.anna, 60)


@pytest.mark.spec("RATE-2")
async def test_what_is_no_tool_call_does_not_count(rated: Table, generation: str):
    for _ in range(70):
        await rated.anna.request("tools/list", generation=generation)
        await rated.anna.request("prompts/list", {}, generation)
    await spend(rated.anna, 60)


@pytest.mark.spec("RATE-2", "AUDIT-1")
async def test_a_notification_is_no_call_whatever_its_method(rated: Table):
    for _ in range(70):
        await rated.anna.post(b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"whoami"}}')
    assert rated.audit() == []
    await spend(rated.anna, 60)


@pytest.mark.spec("RATE-3")
async def test_ten_more_are_kept_for_submitting_and_releasing(rated: Table):
    for number in range(5):
        await rated.task(f"{number}")
        await rated.anna.did("claim_next")
    await spend(rated.anna, 55)
    assert (await rated.anna.call("whoami")).code == "rate_limited"
    for task_id in (1, 2, 3, 4, 5):
        tool, more = ("submit_result", {"result": "r"}) if task_id % 2 else ("release_task", {})
        await rated.anna.did(tool, task_id=task_id, **more)
        assert (await rated.anna.call("post_message", task_id=task_id, body="b")).code == "rate_limited"
    for _ in range(5):
        assert (await rated.anna.call("submit_result", task_id=1, result="r")).code is None
    spent = await rated.anna.call("submit_result", task_id=1, result="r")
    assert (spent.code, spent.error["retry_after_seconds"]) == ("rate_limited", 60)


@pytest.mark.spec("RATE-3")
async def test_what_the_reserve_took_counts_so_that_ordinary_calls_wait_for_it(rated: Table):
    await rated.task()
    await rated.anna.did("claim_next")
    await spend(rated.anna, 59)
    rated.clock.advance(30)
    for _ in range(10):
        await rated.anna.did("submit_result", task_id=1, result="r")
    rated.clock.advance(30)
    # the sixty of the beginning have gone, the ten of the reserve have not
    await spend(rated.anna, 50)
    assert (await rated.anna.call("whoami")).error["retry_after_seconds"] == 30


@pytest.mark.spec("RATE-3")
async def test_a_made_up_name_does_not_reach_the_reserve(rated: Table):
    await spend(rated.anna, 60)
    for name in ("submit_result ", "renew_claims", "Submit_result"):
        assert (await rated.anna.call(name)).code == "rate_limited"


@pytest.mark.spec("RATE-1")
async def test_zero_turns_the_limit_off(tmp_path: Path):
    async with laid_table(tmp_path, calls_per_minute=0) as table:
        await spend(table.anna, 100)
        assert "calls_per_minute" not in (await table.anna.did("whoami"))["limits"]


@pytest.mark.spec("RATE-1", "AUDIT-1")
async def test_calls_refused_by_the_rate_have_their_audit_rows_with_tool_and_task(
    tmp_path: Path, generation: str
):
    async with laid_table(tmp_path, calls_per_minute=1) as table:
        await table.anna.call("whoami")
        await table.anna.call("get_task", {"task_id": 7}, generation)
        await table.anna.call("whatever it is called", {"task_id": 8})
        await table.anna.call("get_task", {"task_id": "8"}, generation)
        assert table.audit() == [
            ("anna", "whoami", None, "ok"),
            ("anna", "get_task", 7, "rate_limited"),
            ("anna", "(unknown)", 8, "rate_limited"),
            ("anna", "get_task", None, "rate_limited"),
        ]


@pytest.mark.spec("RATE-1")
async def test_setting_the_wall_clock_neither_locks_out_nor_lets_in(rated: Table):
    await spend(rated.anna, 60)
    rated.clock.wall_ahead_ms = 3_600_000
    assert (await rated.anna.call("whoami")).code == "rate_limited"
    rated.clock.wall_ahead_ms = -3_600_000
    rated.clock.advance(60)
    await spend(rated.anna, 60)


@pytest.mark.spec("RATE-1")
@settings(deadline=None)
@given(st.integers(0, 10**9), st.lists(st.integers(0, 30_000), min_size=1, max_size=12))
def test_whoever_comes_back_after_just_so_many_seconds_is_served_and_before_is_not(
    start_ms: int, gaps_ms: list[int]
):
    clock, rates = HandSetClock(), CallRates(3)
    clock.ms += start_ms

    def wait_seconds() -> int | None:
        try:
            rates.count(ANNA, "whoami", clock())
        except BoardError as error:
            return error.details["retry_after_seconds"]
        return None

    for gap in gaps_ms:
        clock.ms += gap
        told = wait_seconds()
        if told is None:
            continue
        assert 1 <= told <= 60
        clock.ms += (told - 1) * 1000
        assert wait_seconds() is not None
        clock.ms += 1000
        assert wait_seconds() is None

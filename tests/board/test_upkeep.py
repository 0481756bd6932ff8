"""What the board does with nobody calling: it ends leases at their time, tells who waits for news, and else keeps still."""

from __future__ import annotations

import hashlib
import sqlite3

import pytest
import structlog
import trio
import trio.testing
from waiting_table import ANN, BOB, LEAD, START_MS, Table, laid_table

from roundtable.board.actor import SWEEP_LOOK_SECONDS, SWEEP_RETRY_SECONDS
from roundtable.rules.agents import Agent, Role
from roundtable.rules.commands import (
    ClaimNext,
    ClaimTask,
    CreateTask,
    ListTasks,
    PostMessage,
    RenewClaim,
    SubmitResult,
    WaitForUpdates,
    WhoAmI,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Kind, utc_text


@pytest.fixture
async def table(tmp_path, nursery, autojump_clock):
    async with laid_table(tmp_path, nursery) as laid:
        yield laid


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked()


def expired(table) -> list[tuple[int, str]]:
    return table.rows("SELECT task_id, time FROM history WHERE event = 'expired' ORDER BY event_id")


def after(seconds: float) -> str:
    return utc_text(START_MS + round(seconds * 1000))


@pytest.mark.spec("LEASE-4")
async def test_a_lease_ends_at_its_time_although_nobody_calls(table, autojump_clock) -> None:
    for seconds in (90, 30, 60):
        await table.ask(LEAD, CreateTask("T", "D", lease_seconds=seconds))
    for task_id in (1, 2, 3):
        await table.ask(ANN, ClaimTask(task_id))
    before = table.executor.asked.copy()
    await trio.sleep(1_000)
    assert expired(table) == [(2, after(30)), (3, after(60)), (1, after(90))]
    # and three cool-downs have ended
    assert table.commands_since(before) == {"Sweep": 6}


@pytest.mark.spec("LEASE-4", "LEASE-2")
async def test_the_board_wakes_for_an_earlier_end_and_not_for_one_that_was_put_off(
    table, autojump_clock
) -> None:
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=600))
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=40))
    await table.ask(ANN, ClaimTask(1))
    await trio.sleep(10)
    await table.ask(ANN, ClaimTask(2))
    await trio.sleep(30)
    await table.ask(ANN, RenewClaim(2))
    before = table.executor.asked.copy()
    await trio.sleep(39)
    assert expired(table) == []
    assert table.commands_since(before) == {}
    await trio.sleep(2)
    assert expired(table) == [(2, after(80))]


@pytest.mark.spec("LEASE-6", "LEASE-4")
async def test_setting_the_wall_clock_wakes_nobody(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=600))
    await table.ask(ANN, ClaimTask(1))
    for ahead_ms in (10**9, -(10**9)):
        table.wall_ahead_ms = ahead_ms
        await trio.sleep(250)
        assert expired(table) == []
    await trio.sleep(101)
    assert len(expired(table)) == 1


@pytest.mark.spec("LEASE-6", "LEASE-4")
async def test_a_lease_that_ran_out_while_the_machine_slept_ends_soon_after_it_wakes(
    table, autojump_clock
) -> None:
    """Then the board's clock is ahead of the one that timers run on."""
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=3_600))
    await table.ask(ANN, ClaimTask(1))
    await trio.sleep(1)
    table.epoch -= 4_000
    await trio.sleep(SWEEP_LOOK_SECONDS)
    assert len(expired(table)) == 1


@pytest.mark.spec("LEASE-4", "BOARD-8")
async def test_while_the_disk_is_broken_the_end_of_a_lease_is_tried_now_and_then(
    table, autojump_clock
) -> None:
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=30))
    await table.ask(ANN, ClaimTask(1))
    table.executor.db.execute("PRAGMA query_only = ON")
    await trio.sleep(30)
    before = table.executor.asked.copy()
    await trio.sleep(10 * SWEEP_RETRY_SECONDS)
    assert 8 <= table.commands_since(before)["Sweep"] <= 11
    table.executor.db.execute("PRAGMA query_only = OFF")
    await trio.sleep(SWEEP_RETRY_SECONDS)
    assert len(expired(table)) == 1
    assert table.board.trouble is None


@pytest.mark.spec("LEASE-5")
async def test_a_board_that_comes_back_goes_on_with_the_leases_that_it_left(
    tmp_path, nursery, autojump_clock
) -> None:
    table = Table(tmp_path / "b.db", (LEAD, ANN, BOB), nursery)
    async with table.serving():
        for seconds in (30, 300):
            await table.ask(LEAD, CreateTask("T", "D", lease_seconds=seconds))
        for task_id in (1, 2):
            await table.ask(ANN, ClaimTask(task_id))
    await trio.sleep(100)
    async with table.serving():
        assert expired(table) == [(1, after(100))]
        await trio.sleep(250)
        assert expired(table)[1:] == [(2, after(300))]


@pytest.mark.spec("WAIT-3", "LEASE-4")
async def test_who_waits_for_news_is_told_at_once(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=30))
    await table.ask(ANN, ClaimTask(1))
    leaders = (await table.ask(LEAD, WaitForUpdates()))["cursor"]
    anns = (await table.ask(ANN, WaitForUpdates()))["cursor"]
    await trio.sleep(20)
    waits = [await table.waiting(LEAD, WaitForUpdates(leaders, 25)) for _ in range(2)]
    own = await table.waiting(ANN, WaitForUpdates(anns, 25))
    others = await table.waiting(BOB, WaitForUpdates(leaders, 25))
    for wait in (*waits, own):
        await wait.ended.wait()
        assert [event["event"] for event in wait.reply["updates"]] == ["expired"]
        assert wait.at == 30
    assert not others.ended.is_set()
    await others.ended.wait()
    assert (others.reply["updates"], others.at) == ([], 45)
    assert others.reply == {"cursor": leaders, "updates": []}
    table.check_nothing_is_left()


@pytest.mark.spec("WAIT-3", "WAIT-5")
async def test_news_between_two_waits_are_in_the_second(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D"))
    await table.ask(ANN, ClaimTask(1))
    cursor = (await table.ask(LEAD, WaitForUpdates()))["cursor"]
    await table.ask(ANN, PostMessage(1, "?", Kind.HELP_REQUEST))
    news = await table.ask(LEAD, WaitForUpdates(cursor, 25))
    assert [event["event"] for event in news["updates"]] == ["attention_set"]
    waiting = await table.waiting(LEAD, WaitForUpdates(news["cursor"], 25))
    await table.ask(ANN, SubmitResult(1, "r"))
    await waiting.ended.wait()
    assert "submitted" in [event["event"] for event in waiting.reply["updates"]]
    assert table.seconds == 0


@pytest.mark.spec("WAIT-4", "WAIT-6")
async def test_a_call_that_does_not_wait_takes_no_place_of_one_that_does(table, autojump_clock) -> None:
    cursor = (await table.ask(ANN, WaitForUpdates()))["cursor"]
    waits = [await table.waiting(ANN, WaitForUpdates(cursor, 20)) for _ in range(4)]
    assert await table.ask(ANN, WaitForUpdates(cursor, 0)) == {"cursor": cursor, "updates": []}
    assert (await table.ask(ANN, WaitForUpdates()))["updates"] == []
    assert await table.ask(ANN, ClaimNext()) == {"task": None}
    assert not any(wait.ended.is_set() for wait in waits)


@pytest.mark.spec("STOP-5")
async def test_a_stop_ends_waits_for_news_with_their_empty_answer(table, autojump_clock) -> None:
    cursor = (await table.ask(ANN, WaitForUpdates()))["cursor"]
    wait = await table.waiting(ANN, WaitForUpdates(cursor, 20))
    table.board.waits.end_all()
    await wait.ended.wait()
    assert (wait.reply, wait.at) == ({"cursor": cursor, "updates": []}, 0)
    late = await table.waiting(ANN, WaitForUpdates(cursor, 20))
    assert (late.reply["updates"], late.at) == ([], 0)


@pytest.mark.spec("WAIT-5")
async def test_a_foreign_cursor_is_refused_at_once_although_the_call_would_wait(
    table, autojump_clock
) -> None:
    wait = await table.waiting(ANN, WaitForUpdates("updates-0-0", 25))
    assert (wait.error.code, wait.at) == (Code.INVALID, 0)
    table.check_nothing_is_left()


@pytest.mark.spec("AUDIT-3", "HTTP-14")
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_waiter_that_hangs_up_leaves_a_row_and_nothing_else(table, keyed, autojump_clock) -> None:
    cursor = (await table.ask(ANN, WaitForUpdates()))["cursor"]
    waits = [
        await table.waiting(ANN, ClaimNext("k" if keyed else None, 25)),
        await table.waiting(ANN, ClaimNext("k" if keyed else None, 25)),
        await table.waiting(ANN, WaitForUpdates(cursor, 25)),
    ]
    for wait in waits:
        wait.scope.cancel()
    await still()
    assert all(wait.cancelled for wait in waits)
    assert sorted(table.rows("SELECT agent, tool, outcome FROM audit_log WHERE outcome = 'gone'")) == [
        ("ann", "claim_next", "gone"),
        ("ann", "claim_next", "gone"),
        ("ann", "wait_for_updates", "gone"),
    ]
    table.check_nothing_is_left()
    await table.ask(LEAD, CreateTask("T", "D"))
    assert table.rows("SELECT status FROM tasks") == [("open",)]


def bytes_of(path) -> list[str]:
    return [
        hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (path, path.with_name(path.name + "-wal"))
        if file.exists()
    ]


@pytest.mark.spec("WAIT-8")
async def test_an_idle_board_with_fifty_waiters_writes_nothing(tmp_path, nursery, autojump_clock) -> None:
    """For an hour everybody waits, gets nothing, and asks again."""
    workers = [Agent(f"worker-{number}", Role.WORKER) for number in range(50)]
    async with laid_table(tmp_path, nursery, agents=(LEAD, *workers)) as table:
        await table.ask(LEAD, CreateTask("T", "D", required_skill="of nobody"))
        cursors = [(await table.ask(worker, WaitForUpdates()))["cursor"] for worker in workers]
        reader = sqlite3.connect(f"file:{table.path}?mode=ro", uri=True)
        before = (reader.execute("PRAGMA data_version").fetchone(), bytes_of(table.path))
        asked = table.executor.asked.copy()
        ended = table.seconds + 3_600

        async def idle(worker, cursor) -> None:
            while table.seconds < ended:
                await table.ask(worker, ClaimNext(wait_seconds=20))
                await table.ask(worker, WaitForUpdates(cursor, 20))

        async with trio.open_nursery() as idlers:
            for worker, cursor in zip(workers, cursors, strict=True):
                idlers.start_soon(idle, worker, cursor)
        assert sum(table.commands_since(asked).values()) >= 50 * 3_600 / 20
        assert (reader.execute("PRAGMA data_version").fetchone(), bytes_of(table.path)) == before
        reader.close()
        table.check_nothing_is_left()
        [(rows,)] = table.rows("SELECT count(*) FROM audit_log")
        for worker in workers:
            await table.ask(worker, WhoAmI())
        assert table.rows("SELECT count(*), sum(empty_waits) FROM audit_log WHERE tool = 'WhoAmI'") == [
            (50, table.calls - rows - 50)
        ]


@pytest.mark.spec("WAIT-8", "AUDIT-1")
async def test_waits_that_ended_empty_are_counted_across_a_stop(tmp_path, nursery, autojump_clock) -> None:
    table = Table(tmp_path / "b.db", (LEAD, ANN, BOB), nursery)
    async with table.serving():
        await table.ask(ANN, ClaimNext(wait_seconds=1))
        await table.waiting(ANN, ClaimNext(wait_seconds=25))
        await table.waiting(BOB, ClaimNext(wait_seconds=25))
        table.board.waits.end_all()
        await still()
    async with table.serving():
        await table.ask(ANN, WhoAmI())
        assert table.rows("SELECT agent, empty_waits FROM audit_log") == [("ann", 2)]
        assert table.counted() == table.calls
    async with table.serving():
        for worker in (ANN, BOB):
            await table.ask(worker, WhoAmI())
        assert table.rows("SELECT agent, empty_waits FROM audit_log") == [("ann", 2), ("ann", 0), ("bob", 1)]
        table.check_nothing_is_left()


@pytest.mark.spec("WAIT-8")
async def test_empty_waits_stand_in_the_next_row_of_their_agent_whatever_it_is(table, autojump_clock) -> None:
    await table.ask(ANN, ClaimNext(wait_seconds=1))
    await table.ask(BOB, ListTasks())
    # a wait that is not over takes none along
    await table.ask(ANN, ClaimNext(wait_seconds=1))
    hung_up = await table.waiting(ANN, ClaimNext(wait_seconds=25))
    hung_up.scope.cancel()
    await still()
    await table.ask(ANN, ClaimNext())
    assert table.rows("SELECT agent, outcome, empty_waits FROM audit_log") == [
        ("bob", "ok", 0),
        ("ann", "gone", 2),
        ("ann", "ok", 0),
    ]
    table.check_nothing_is_left()


@pytest.mark.spec("AUDIT-6")
async def test_the_head_of_the_audit_chain_is_logged_at_the_start_and_once_a_day(
    tmp_path, nursery, autojump_clock
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with laid_table(tmp_path, nursery) as table:
            await table.ask(LEAD, WhoAmI())
            head = table.executor.head
            await trio.sleep(3 * 86_400 - 1)
    told = [entry for entry in logs if entry["event"] == "audit_head"]
    assert [entry["audit_id"] for entry in told] == [0, 1, 1]
    assert told[-1]["sha256"] == head.sha256


@pytest.mark.spec("LEASE-4")
async def test_a_stop_waits_for_no_lease(tmp_path, nursery, autojump_clock) -> None:
    async with laid_table(tmp_path, nursery) as table:
        await table.ask(LEAD, CreateTask("T", "D"))
        await table.ask(ANN, ClaimTask(1))
    assert table.seconds == 0

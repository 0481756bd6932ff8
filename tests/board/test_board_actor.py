"""The board actor: one order for everybody, and a clear answer to whoever is cancelled, stopped or caught in a crash."""

from __future__ import annotations

import random
import sqlite3
import threading

import pytest
import trio
import trio.testing
from board_room import (
    ANN,
    LEAD,
    WORKERS,
    Asked,
    FakeExecutor,
    Gate,
    outcome_of,
    real_board,
    start_asking,
    still_clock,
)

from roundtable.board.actor import BATCH_CALLS, BoardStopped, open_board
from roundtable.rules.commands import (
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetTask,
    ListTasks,
    Probe,
    RecordRefusal,
    SubmitResult,
    WhoAmI,
)
from roundtable.rules.errors import INTERNAL_MESSAGE, BoardError, Code, invalid
from roundtable.store import audit
from roundtable.store.execute import Executed
from roundtable.store.unit import BOARD


class Crash(BaseException):
    """What no boundary catches."""


@pytest.fixture
def executor():
    return FakeExecutor()


@pytest.fixture
def gate():
    with Gate() as made:
        yield made


def rows(path, sql):
    db = sqlite3.connect(path)
    found = db.execute(sql).fetchall()
    db.close()
    return found


AUDIT = "SELECT agent, tool, task_id, outcome FROM audit_log ORDER BY audit_id"


@pytest.mark.spec("BOARD-2", "AUDIT-3")
async def test_a_command_whose_caller_is_cancelled_while_queued_never_runs_and_leaves_one_row(
    executor, gate, nursery
) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        first = await start_asking(nursery, board, LEAD, WhoAmI())
        queued = await start_asking(nursery, board, ANN, ClaimTask(7), "claim_task")
        queued.scope.cancel()
        await queued.ended.wait()
        assert queued.cancelled
        assert not first.ended.is_set()
        gate.open()
        await first.ended.wait()
    assert first.reply == WhoAmI()
    assert ClaimTask(7) not in executor.commands
    assert executor.gone == [(ANN.name, "claim_task", 7)]


@pytest.mark.spec("BOARD-2", "AUDIT-3")
async def test_a_caller_that_was_cancelled_before_it_asked_is_gone_too(executor, gate, nursery) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        with trio.CancelScope() as scope:
            scope.cancel()
            await board.ask(ANN, "claim_task", ClaimTask(7))
        assert scope.cancelled_caught
        gate.open()
    assert [type(command) for command in executor.commands] == [RecordRefusal]
    assert executor.gone == [(ANN.name, "claim_task", 7)]


@pytest.mark.spec("AUDIT-3")
async def test_the_row_of_a_caller_that_had_gone_is_on_the_disk(tmp_path, gate, nursery) -> None:
    async with real_board(tmp_path / "b.db", gate.run) as (board, _):
        await start_asking(nursery, board, LEAD, CreateTask("T", "D"), "create_task")
        queued = await start_asking(nursery, board, ANN, ClaimTask(1), "claim_task")
        queued.scope.cancel()
        await queued.ended.wait()
        gate.open()
    assert rows(tmp_path / "b.db", AUDIT) == [
        ("lead", "create_task", 1, "ok"),
        (ANN.name, "claim_task", 1, "gone"),
    ]
    assert rows(tmp_path / "b.db", "SELECT status FROM tasks") == [("open",)]


@pytest.mark.spec("AUDIT-3", "BOARD-7")
async def test_the_row_of_a_caller_that_had_gone_is_written_although_the_board_stops(
    executor, gate, nursery
) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        first = await start_asking(nursery, board, LEAD, WhoAmI())
        queued = await start_asking(nursery, board, ANN, ClaimTask(7), "claim_task")
        queued.scope.cancel()
        await queued.ended.wait()
        nursery.start_soon(open_when_all_is_still, gate)
    await first.ended.wait()
    assert first.reply == WhoAmI()
    assert executor.gone == [(ANN.name, "claim_task", 7)]


async def test_a_probe_that_is_cancelled_leaves_no_row(executor, gate, nursery) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        await start_asking(nursery, board, LEAD, WhoAmI())
        probe = await start_asking(nursery, board, BOARD, Probe())
        probe.scope.cancel()
        await probe.ended.wait()
        gate.open()
    assert executor.commands == [WhoAmI()]


async def open_when_all_is_still(gate: Gate) -> None:
    await trio.testing.wait_all_tasks_blocked()
    gate.open()


@pytest.mark.spec("BOARD-3")
async def test_a_command_that_was_taken_commits_and_its_cancelled_caller_gets_the_reply(
    tmp_path, gate, nursery
) -> None:
    async with real_board(tmp_path / "b.db", gate.run) as (board, _):
        taken = await start_asking(nursery, board, LEAD, CreateTask("T", "D"), "create_task")
        taken.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not taken.ended.is_set()
        gate.open()
        await taken.ended.wait()
    assert taken.reply == {"task_id": 1, "status": "open"}
    assert not taken.cancelled
    assert rows(tmp_path / "b.db", "SELECT title FROM tasks") == [("T",)]
    assert rows(tmp_path / "b.db", AUDIT) == [("lead", "create_task", 1, "ok")]


@pytest.mark.spec("BOARD-3")
async def test_a_cancel_in_the_moment_in_which_the_command_was_taken_comes_too_late(
    executor, nursery
) -> None:
    asked = Asked()

    async def run(work):
        # the actor has it, and its caller has not been scheduled since
        asked.scope.cancel()
        await trio.lowlevel.checkpoint()
        return work()

    async with open_board(executor, still_clock, run) as board:
        nursery.start_soon(asked.run, board, ANN, ClaimTask(7))
        await asked.ended.wait()
    assert (asked.reply, asked.cancelled) == (ClaimTask(7), False)
    assert executor.gone == []


@pytest.mark.spec("BOARD-4")
async def test_no_reply_before_the_commit(tmp_path, nursery) -> None:
    on_disk = trio.Event()
    may_answer = trio.Event()

    async def run(work):
        executed = work()
        on_disk.set()
        await may_answer.wait()
        return executed

    async with real_board(tmp_path / "b.db", run) as (board, _):
        asked = await start_asking(nursery, board, LEAD, CreateTask("T", "D"))
        await on_disk.wait()
        assert rows(tmp_path / "b.db", "SELECT title FROM tasks") == [("T",)]
        assert not asked.ended.is_set()
        may_answer.set()
        await asked.ended.wait()
    assert asked.reply["task_id"] == 1


@pytest.mark.spec("BOARD-5")
async def test_what_queues_while_a_batch_runs_goes_together_and_in_order(executor, gate, nursery) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        asked = [await start_asking(nursery, board, ANN, GetTask(number)) for number in range(6)]
        assert executor.batches == []
        gate.open()
        for one in asked:
            await one.ended.wait()
    assert [[call.command.task_id for call in batch] for batch in executor.batches] == [[0], [1, 2, 3, 4, 5]]
    assert [one.reply for one in asked] == [GetTask(number) for number in range(6)]


@pytest.mark.spec("BOARD-5")
async def test_a_batch_has_a_largest_size(executor, gate, nursery) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        first = await start_asking(nursery, board, ANN, GetTask(0))
        asked = [Asked() for _ in range(BATCH_CALLS + 10)]
        for one in asked:
            nursery.start_soon(one.run, board, ANN, ListTasks())
        await trio.testing.wait_all_tasks_blocked()
        gate.open()
        for one in (first, *asked):
            await one.ended.wait()
    assert [len(batch) for batch in executor.batches] == [1, BATCH_CALLS, 10]


@pytest.mark.spec("BOARD-1")
async def test_of_twenty_that_race_one_wins(tmp_path, gate, nursery) -> None:
    async with real_board(tmp_path / "b.db", gate.run) as (board, _):
        created = await start_asking(nursery, board, LEAD, CreateTask("T", "D"))
        racers = {worker.name: Asked() for worker in WORKERS}
        for worker in WORKERS:
            nursery.start_soon(racers[worker.name].run, board, worker, ClaimTask(1), "claim_task")
        await trio.testing.wait_all_tasks_blocked()
        assert not any(racer.ended.is_set() for racer in racers.values())
        gate.open()
        for racer in (created, *racers.values()):
            await racer.ended.wait()
    winners = [name for name, racer in racers.items() if racer.reply is not None]
    assert len(winners) == 1
    refused = [racer.error for racer in racers.values() if racer.error is not None]
    assert [(error.code, error.details["status"]) for error in refused] == [(Code.CONFLICT, "claimed")] * 19
    assert rows(tmp_path / "b.db", "SELECT assignee, attempt FROM tasks") == [(winners[0], 1)]
    assert rows(tmp_path / "b.db", "SELECT count(*) FROM claims") == [(1,)]


@pytest.mark.spec("BOARD-7")
async def test_a_board_that_stops_answers_what_it_took_and_turns_away_who_is_queued(
    executor, gate, nursery
) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        taken = await start_asking(nursery, board, ANN, GetTask(1))
        queued = [await start_asking(nursery, board, ANN, ClaimTask(number)) for number in (2, 3)]
        nursery.start_soon(open_when_all_is_still, gate)
    await taken.ended.wait()
    assert taken.reply == GetTask(1)
    for one in queued:
        await one.ended.wait()
        assert one.stopped
    assert executor.commands == [GetTask(1)]


@pytest.mark.spec("BOARD-7")
async def test_whoever_asks_a_stopped_board_is_told_so(executor) -> None:
    async with open_board(executor, still_clock, Gate(is_open=True).run) as board:
        await board.ask(ANN, "tool", WhoAmI())
    with pytest.raises(BoardStopped) as caught:
        await board.ask(ANN, "tool", WhoAmI())
    assert caught.value.code is Code.UNAVAILABLE
    with trio.move_on_after(0):
        await board.ask(ANN, "tool", WhoAmI())
    assert executor.commands == [WhoAmI()]


@pytest.mark.spec("ERR-5")
async def test_an_executor_that_fails_answers_internal_and_the_board_goes_on(executor, gate, nursery) -> None:
    async with open_board(executor, still_clock, gate.run) as board:
        await start_asking(nursery, board, LEAD, WhoAmI())
        failing = [await start_asking(nursery, board, ANN, ClaimTask(number)) for number in (1, 2)]
        work = executor.execute

        def execute(batch, now):
            if len(batch) == 2:
                raise ZeroDivisionError("secret")
            return work(batch, now)

        executor.execute = execute
        gate.open()
        for one in failing:
            await one.ended.wait()
            assert one.error is not None
            assert (one.error.code, one.error.message) == (Code.INTERNAL, INTERNAL_MESSAGE)
        assert await board.ask(ANN, "tool", ListTasks()) == ListTasks()


@pytest.mark.spec("BOARD-7")
async def test_a_crash_comes_out_and_nobody_hangs(executor, gate, nursery) -> None:
    executor.fail_with = Crash()
    with pytest.RaisesGroup(Crash):
        async with open_board(executor, still_clock, gate.run) as board:
            taken = await start_asking(nursery, board, ANN, ClaimTask(1))
            queued = await start_asking(nursery, board, ANN, ClaimTask(2))
            gate.open()
            await trio.sleep_forever()
    for one in (taken, queued):
        await one.ended.wait()
        assert one.stopped
    with pytest.raises(BoardStopped):
        await board.ask(ANN, "tool", WhoAmI())


@pytest.mark.spec("BOARD-7")
async def test_an_executor_that_forgets_an_outcome_leaves_nobody_waiting(executor, gate, nursery) -> None:
    def execute(batch, now):
        del now
        return Executed([outcome_of(call.command) for call in batch[:-1]], [])

    executor.execute = execute
    with pytest.RaisesGroup(ValueError):
        async with open_board(executor, still_clock, gate.run) as board:
            asked = await start_asking(nursery, board, ANN, ClaimTask(1))
            gate.open()
            await trio.sleep_forever()
    await asked.ended.wait()
    assert asked.stopped


async def test_the_bodys_own_exception_comes_out_as_it_is(executor) -> None:
    gate = Gate(is_open=True)
    mine = KeyError("mine")

    async def fail() -> None:
        async with open_board(executor, still_clock, gate.run) as board:
            await board.ask(ANN, "tool", WhoAmI())
            raise mine

    with pytest.raises(KeyError) as caught:
        await fail()
    assert caught.value is mine
    with trio.CancelScope() as scope:
        async with open_board(executor, still_clock, gate.run) as board:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    refusal = invalid("no")
    with pytest.raises(BoardError) as refused:
        async with open_board(executor, still_clock, gate.run) as board:
            await board.ask(ANN, "tool", RecordRefusal(refusal))
    assert refused.value is refusal


@pytest.mark.spec("BOARD-3", "BOARD-7")
async def test_a_body_that_is_cancelled_still_has_what_was_taken_carried_out(tmp_path, gate, nursery) -> None:
    with trio.CancelScope() as scope:
        async with real_board(tmp_path / "b.db", gate.run) as (board, _):
            taken = await start_asking(nursery, board, LEAD, CreateTask("T", "D"))
            nursery.start_soon(open_when_all_is_still, gate)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    await taken.ended.wait()
    assert taken.reply == {"task_id": 1, "status": "open"}
    assert rows(tmp_path / "b.db", "SELECT title FROM tasks") == [("T",)]


@pytest.mark.spec("STOP-3")
async def test_once_claims_are_closed_nobody_gets_a_new_one(tmp_path) -> None:
    async with real_board(tmp_path / "b.db", Gate(is_open=True).run) as (board, _):
        for title in ("held", "free"):
            await board.ask(LEAD, "create_task", CreateTask(title, "D"))
        held = await board.ask(ANN, "claim_task", ClaimTask(1))
        board.close_claims()
        assert await board.ask(WORKERS[1], "claim_next", ClaimNext()) == {"task": None}
        with pytest.raises(BoardError) as refused:
            await board.ask(WORKERS[1], "claim_task", ClaimTask(2))
        assert refused.value.code is Code.UNAVAILABLE
        assert await board.ask(ANN, "claim_task", ClaimTask(1)) == held
        assert (await board.ask(ANN, "submit_result", SubmitResult(1, "r")))["status"] == "submitted"


@pytest.mark.spec("BOARD-8")
async def test_the_boards_trouble_is_its_executors(executor) -> None:
    async with open_board(executor, still_clock, Gate(is_open=True).run) as board:
        assert board.trouble is None
        executor.trouble = "full"
        assert board.trouble == "full"


@pytest.mark.spec("HTTP-6", "BOARD-8")
async def test_a_probe_tells_the_trouble_and_nothing_while_there_is_none(executor) -> None:
    async with open_board(executor, still_clock, Gate(is_open=True).run) as board:
        assert await board.probe() is None
        executor.refusal = BoardError(Code.UNAVAILABLE, "The board cannot write.")
        assert await board.probe() == "The board cannot write."
        executor.trouble = "the disk is full"
        assert await board.probe() == "the disk is full"


@pytest.mark.spec("ARCH-4")
async def test_a_batch_is_one_hop_into_a_thread_and_there_is_one_at_a_time(executor, nursery) -> None:
    threads: list[int] = []
    running = 0
    work = executor.execute

    def execute(batch, now):
        nonlocal running
        running += 1
        assert running == 1
        threads.append(threading.get_ident())
        executed = work(batch, now)
        running -= 1
        return executed

    executor.execute = execute
    async with open_board(executor, still_clock) as board:
        asked = [Asked() for _ in range(50)]
        for one in asked:
            nursery.start_soon(one.run, board, ANN, ListTasks())
        for one in asked:
            await one.ended.wait()
    assert threading.get_ident() not in threads
    assert len(threads) == len(executor.batches)
    assert len(executor.commands) == 50


@pytest.mark.spec("BOARD-2", "BOARD-3", "AUDIT-1", "AUDIT-3")
@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_cancelled_when_each_call_ran_once_or_was_gone(tmp_path, seed) -> None:
    chance = random.Random(seed)  # noqa: S311
    ended: dict[str, Asked] = {}

    async def run(work):
        for _ in range(chance.randrange(4)):
            await trio.lowlevel.checkpoint()
        executed = work()
        for _ in range(chance.randrange(4)):
            await trio.lowlevel.checkpoint()
        return executed

    async def caller(board, number) -> None:
        asked = ended[f"task {number}"] = Asked()
        await asked.run(board, LEAD, CreateTask(f"task {number}", "D"), f"tool {number}")

    async def canceller() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            if ended and chance.random() < 0.4:
                chance.choice(list(ended.values())).scope.cancel()

    async with real_board(tmp_path / "b.db", run) as (board, executor), trio.open_nursery() as others:
        others.start_soon(canceller)
        async with trio.open_nursery() as callers:
            for number in range(60):
                callers.start_soon(caller, board, number)
                for _ in range(chance.randrange(3)):
                    await trio.lowlevel.checkpoint()
        others.cancel_scope.cancel()
        assert audit.first_break(executor.db) is None
    created = {title for (title,) in rows(tmp_path / "b.db", "SELECT title FROM tasks")}
    assert created == {title for title, asked in ended.items() if asked.reply is not None}
    outcomes = rows(tmp_path / "b.db", "SELECT tool, outcome FROM audit_log")
    assert len(outcomes) == len(ended) == 60
    assert dict(outcomes) == {
        title.replace("task", "tool"): "gone" if asked.cancelled else "ok" for title, asked in ended.items()
    }

"""claim_next waits inside the server: one task wakes one waiter, nobody starves, and who has gone leaves no trace."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing
from waiting_table import ANN, BOB, CY, LEAD, laid_table

from roundtable.board.waits import Offer, Waits
from roundtable.rules.agents import Agent, Role
from roundtable.rules.commands import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CreateTask,
    ListTasks,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
    WhoAmI,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Kind, Verdict
from roundtable.store.unit import Ready

WAIT = ClaimNext(wait_seconds=25)
NOTHING = {"task": None}


@pytest.fixture
async def table(tmp_path, nursery, autojump_clock):
    async with laid_table(tmp_path, nursery) as laid:
        yield laid


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.spec("WAIT-1")
async def test_a_task_that_is_there_is_given_at_once_and_nothing_is_waited_for(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D"))
    assert (await table.ask(ANN, WAIT))["task_id"] == 1
    assert table.seconds == 0
    table.check_nothing_is_left()


@pytest.mark.spec("WAIT-1", "WAIT-8")
@pytest.mark.parametrize("seconds", [1, 25])
async def test_without_a_task_the_answer_is_empty_after_just_that_time(
    table, seconds, autojump_clock
) -> None:
    assert await table.ask(ANN, ClaimNext(wait_seconds=seconds)) == NOTHING
    assert table.seconds == pytest.approx(seconds)
    assert table.rows("SELECT count(*) FROM audit_log") == [(0,)]
    await table.ask(ANN, WhoAmI())
    assert table.rows("SELECT tool, empty_waits FROM audit_log") == [("WhoAmI", 1)]
    table.check_nothing_is_left()


BECOMES_CLAIMABLE = {
    "created": [(LEAD, CreateTask("T", "D"))],
    "released": [(LEAD, CreateTask("T", "D")), (BOB, ClaimTask(1)), (BOB, ReleaseTask(1))],
    "failed": [(LEAD, CreateTask("T", "D")), (BOB, ClaimTask(1)), (BOB, ReleaseTask(1, failed=True))],
    "taken away": [(LEAD, CreateTask("T", "D")), (BOB, ClaimTask(1)), (LEAD, ReleaseTask(1))],
    "rejected": [
        (LEAD, CreateTask("T", "D")),
        (BOB, ClaimTask(1)),
        (BOB, SubmitResult(1, "r")),
        (LEAD, ReviewTask(1, Verdict.REJECT, "n")),
    ],
    "unblocked": [
        (LEAD, CreateTask("cause", "D", assignee="bob")),
        (LEAD, CreateTask("T", "D", depends_on=(1,))),
        (BOB, ClaimTask(1)),
        (BOB, SubmitResult(1, "r")),
        (LEAD, ReviewTask(1, Verdict.ACCEPT)),
    ],
    "helped": [
        (LEAD, CreateTask("T", "D", assignee="bob")),
        (BOB, PostMessage(1, "?", Kind.HELP_REQUEST)),
        (LEAD, UpdateTask(1, assignee="ann")),
    ],
    "assigned to it": [(LEAD, CreateTask("T", "D", assignee="bob")), (LEAD, UpdateTask(1, assignee="ann"))],
    "asking for its skill": [
        (LEAD, CreateTask("T", "D", required_skill="sql")),
        (LEAD, UpdateTask(1, required_skill="python")),
    ],
}


@pytest.mark.spec("WAIT-2")
@pytest.mark.parametrize("how", BECOMES_CLAIMABLE)
async def test_whatever_makes_a_task_claimable_wakes_who_can_take_it(table, how, autojump_clock) -> None:
    *before, (caller, command) = BECOMES_CLAIMABLE[how]
    # nobody takes it meanwhile
    for one, earlier in before:
        await table.ask(one, earlier)
    waiter = await table.waiting(ANN, WAIT)
    assert not waiter.ended.is_set()
    await table.ask(caller, command)
    await waiter.ended.wait()
    assert waiter.reply["task"]["assignee"] == "ann"
    assert waiter.at == 0
    table.check_nothing_is_left()


@pytest.mark.spec("WAIT-2", "LEASE-4", "CLAIM-10")
async def test_a_lease_that_runs_out_and_an_agent_that_goes_wake_too(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D", lease_seconds=30))
    await table.ask(BOB, ClaimTask(1))
    await trio.sleep(20)
    waiter = await table.waiting(ANN, WAIT)
    await waiter.ended.wait()
    assert (waiter.task_id, waiter.at) == (1, 30)
    second = await table.waiting(CY, WAIT)
    await table.replace_agents(LEAD, CY)
    await second.ended.wait()
    assert (second.task_id, second.at) == (1, 30)


@pytest.mark.spec("WAIT-2")
async def test_one_of_a_thousand_waiters_is_woken_and_a_task_costs_two_commands(
    tmp_path, nursery, autojump_clock
) -> None:
    workers = [Agent(f"worker-{number}", Role.WORKER) for number in range(1_000)]
    async with laid_table(tmp_path, nursery, agents=(LEAD, *workers)) as table:
        waiters = [table.start(worker, WAIT) for worker in workers]
        await still()
        assert len(table.board.waits) == 1_000
        for _ in range(3):
            before = table.executor.asked.copy()
            await table.ask(LEAD, CreateTask("T", "D"))
            await still()
            assert table.commands_since(before) == {"CreateTask": 1, "ClaimNext": 1}
        assert sum(waiter.ended.is_set() for waiter in waiters) == 3
        for waiter in waiters:
            await waiter.ended.wait()
        table.check_nothing_is_left()


@pytest.mark.spec("WAIT-2")
async def test_tasks_go_to_waiters_in_the_order_in_which_they_came(table, autojump_clock) -> None:
    line = [await table.waiting(worker, WAIT) for worker in (CY, ANN, BOB, CY)]
    for number, waiter in enumerate(line, start=1):
        await table.ask(LEAD, CreateTask("T", "D"))
        await still()
        assert [one.task_id for one in line if one.ended.is_set()] == list(range(1, number + 1))
        assert waiter.ended.is_set()


@pytest.mark.spec("WAIT-2")
async def test_of_those_in_line_the_first_that_can_take_it_is_woken(table, autojump_clock) -> None:
    cy, ann, bob = [await table.waiting(worker, WAIT) for worker in (CY, ANN, BOB)]
    before = table.executor.asked.copy()
    await table.ask(LEAD, CreateTask("T", "D", required_skill="sql"))
    await bob.ended.wait()
    await table.ask(LEAD, CreateTask("T", "D", assignee="ann"))
    await ann.ended.wait()
    assert (bob.task_id, ann.task_id) == (1, 2)
    assert not cy.ended.is_set()
    assert table.commands_since(before) == {"CreateTask": 2, "ClaimNext": 2}


@pytest.mark.spec("WAIT-2")
async def test_several_tasks_of_one_batch_wake_as_many(table, nursery, autojump_clock) -> None:
    line = [await table.waiting(worker, WAIT) for worker in (ANN, BOB, CY, CY)]
    before = table.executor.asked.copy()
    for _ in range(3):
        table.start(LEAD, CreateTask("T", "D"))
    await still()
    assert sorted(one.task_id for one in line if one.ended.is_set()) == [1, 2, 3]
    assert table.commands_since(before) == {"CreateTask": 3, "ClaimNext": 3}


@pytest.mark.spec("WAIT-2")
def test_a_task_is_offered_to_who_is_busy_with_another_rather_than_to_nobody() -> None:
    """It may have asked before the second one came, and find the first one gone."""
    waits = Waits(4)
    with waits.claimant(ANN) as ann, waits.claimant(CY) as cy:
        for task_id in (1, 2, 3):
            waits.offer(Ready(task_id, "ann", None))
        waits.offer(Ready(4, None, None))
        assert [offer.ready.task_id for offer in ann.offers] == [1, 2, 3]
        assert [offer.ready.task_id for offer in cy.offers] == [4]
        waits.offer(Ready(5, None, None))
        assert [offer.ready.task_id for offer in cy.offers] == [4, 5]


@pytest.mark.spec("WAIT-2")
def test_who_leaves_hands_on_what_it_was_offered() -> None:
    waits = Waits(4)
    with waits.claimant(BOB) as bob:
        with waits.claimant(ANN):
            bob.offers.append(Offer(Ready(9, None, None)))
            waits.offer(Ready(1, None, None))
        assert [offer.ready.task_id for offer in bob.offers] == [9, 1]
        waits.passed(bob, bob.offers[0], is_there=True)
        assert [offer.ready.task_id for offer in bob.offers] == [1]


@pytest.mark.spec("WAIT-2")
async def test_two_in_cool_down_do_not_pass_a_task_to_and_fro(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D", assignee="cy"))
    await table.ask(CY, ClaimTask(1))
    await table.ask(LEAD, UpdateTask(1, max_attempts=50))
    await table.ask(CY, ReleaseTask(1))
    await table.ask(LEAD, UpdateTask(1, assignee="ann"))
    for worker in (ANN, BOB):
        await table.ask(LEAD, UpdateTask(1, assignee=worker.name))
        await table.ask(worker, ClaimTask(1))
        await table.ask(worker, ReleaseTask(1, failed=True))
    waiters = [await table.waiting(worker, WAIT) for worker in (ANN, BOB, ANN, BOB)]
    before = table.executor.asked.copy()
    await table.ask(LEAD, UpdateTask(1, required_skill="python"))
    await table.ask(LEAD, UpdateTask(1, assignee="cy"))
    await still()
    assert table.commands_since(before) == {"UpdateTask": 2}
    for waiter in waiters:
        await waiter.ended.wait()
        assert waiter.reply == NOTHING


@pytest.mark.spec("WAIT-2")
async def test_who_begins_to_cool_down_while_woken_passes_the_task_on_once(
    tmp_path, nursery, autojump_clock
) -> None:
    async with laid_table(tmp_path, nursery) as table:
        first, second = [await table.waiting(worker, WAIT) for worker in (ANN, BOB)]
        table.start(LEAD, CreateTask("T", "D"))
        # within one batch behind it: Ann takes it by name and fails, Bob too
        for worker in (ANN, BOB):
            table.start(worker, ClaimTask(1))
            table.start(worker, ReleaseTask(1, failed=True))
        before = table.executor.asked.copy()
        await still()
        asked = table.commands_since(before)
        assert asked.get("ClaimNext", 0) <= 2
        assert asked.get("IsReady", 0) <= 2
        await table.ask(LEAD, ListTasks())
        for one in (first, second):
            await one.ended.wait()


@pytest.mark.spec("WAIT-2", "TOOL-20")
async def test_the_end_of_a_cool_down_wakes_who_waits_for_it(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D"))
    await table.ask(ANN, ClaimTask(1))
    await table.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=60))
    await trio.sleep(50)
    waiter = await table.waiting(ANN, WAIT)
    await waiter.ended.wait()
    assert (waiter.task_id, waiter.at) == (1, 60)


@pytest.mark.spec("WAIT-2")
async def test_somebody_faster_costs_the_woken_one_its_turn_and_not_its_place(table, autojump_clock) -> None:
    first, second = [await table.waiting(worker, WAIT) for worker in (ANN, CY)]
    table.start(LEAD, CreateTask("T", "D"))
    faster = table.start(BOB, ClaimNext())
    await faster.ended.wait()
    await still()
    await table.ask(LEAD, CreateTask("T", "D"))
    await still()
    ended = [one for one in (first, second) if one.ended.is_set()]
    assert len(ended) == (1 if faster.task_id else 2)
    assert first in ended


@pytest.mark.spec("CLAIM-1")
async def test_a_waiter_whose_hands_have_filled_meanwhile_hands_the_task_on(
    tmp_path, nursery, autojump_clock
) -> None:
    async with laid_table(tmp_path, nursery, claims_per_worker=1) as table:
        await table.ask(LEAD, CreateTask("T", "D", assignee="ann"))
        # in cool-down, so that it is not given now
        await table.ask(ANN, ClaimTask(1))
        await table.ask(ANN, ReleaseTask(1, failed=True))
        first, second = [await table.waiting(worker, WAIT) for worker in (ANN, BOB)]
        await table.ask(ANN, ClaimTask(1))
        await table.ask(LEAD, CreateTask("T", "D"))
        await still()
        assert first.error.code is Code.CONFLICT
        assert second.task_id == 2


@pytest.mark.spec("WAIT-6")
async def test_a_fifth_wait_ends_the_callers_oldest(table, autojump_clock) -> None:
    other = await table.waiting(BOB, WAIT)
    waits = [await table.waiting(ANN, WAIT) for _ in range(4)]
    assert not any(wait.ended.is_set() for wait in waits)
    await trio.sleep(1)
    waits.append(await table.waiting(ANN, WAIT))
    assert (waits[0].reply, waits[0].at) == (NOTHING, 1)
    assert not any(wait.ended.is_set() for wait in (*waits[1:], other))
    waits.append(await table.waiting(ANN, WAIT))
    assert waits[1].reply == NOTHING
    for wait in (*waits, other):
        await wait.ended.wait()
    table.check_nothing_is_left()


@pytest.mark.spec("STOP-5", "STOP-3")
async def test_a_stop_ends_all_waits_and_later_ones_at_once(table, autojump_clock) -> None:
    waits = [await table.waiting(worker, WAIT) for worker in (ANN, BOB)]
    joined = [await table.waiting(CY, ClaimNext("k", 25)) for _ in range(2)]
    await trio.sleep(3)
    table.board.waits.end_all()
    await still()
    late = await table.waiting(ANN, WAIT)
    for wait in (*waits, *joined, late):
        assert (wait.reply, wait.at) == (NOTHING, 3)
    table.check_nothing_is_left()


@pytest.mark.spec("STOP-3", "STOP-5")
async def test_once_claims_are_closed_waits_for_tasks_end_and_give_nothing(table, autojump_clock) -> None:
    waiter = await table.waiting(ANN, WAIT)
    table.board.close_claims()
    await still()
    assert waiter.reply == NOTHING
    await table.ask(LEAD, CreateTask("T", "D"))
    late = await table.waiting(ANN, WAIT)
    assert (late.reply, late.at) == (NOTHING, 0)


@pytest.mark.spec("CLAIM-10")
async def test_the_waits_of_an_agent_that_is_gone_end_and_others_go_on(table, autojump_clock) -> None:
    gone, stays = [await table.waiting(worker, WAIT) for worker in (ANN, BOB)]
    await table.replace_agents(LEAD, BOB, CY)
    assert gone.reply == NOTHING
    assert not stays.ended.is_set()
    late = await table.waiting(ANN, WAIT)
    assert late.error.code is Code.FORBIDDEN


@pytest.mark.spec("CLAIM-10", "WAIT-2")
async def test_a_waiter_that_is_given_a_skill_looks_again(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D", required_skill="sql"))
    waiter = await table.waiting(CY, WAIT)
    await table.replace_agents(LEAD, ANN, BOB, Agent("cy", Role.WORKER, ("sql",)))
    assert waiter.task_id == 1
    second = await table.waiting(BOB, WAIT)
    await table.replace_agents(LEAD, ANN, Agent("bob", Role.WORKER, ("prose",)))
    await table.ask(LEAD, CreateTask("T", "D", required_skill="prose"))
    await still()
    assert second.task_id == 2


@pytest.mark.spec("IDEM-3")
async def test_a_second_call_with_the_key_joins_the_first_and_both_get_the_claim(
    table, autojump_clock
) -> None:
    first, second = [await table.waiting(ANN, ClaimNext("k", 25)) for _ in range(2)]
    for _ in range(2):
        await table.ask(LEAD, CreateTask("T", "D"))
    await still()
    assert first.reply == second.reply
    assert first.task_id == 1
    assert table.rows("SELECT count(*) FROM claims") == [(1,)]
    assert table.rows("SELECT outcome FROM audit_log WHERE tool = 'claim_next'") == [("ok",), ("ok",)]
    table.check_nothing_is_left()


@pytest.mark.spec("IDEM-3", "WAIT-1")
async def test_who_has_joined_waits_no_longer_than_it_said_and_goes_on_when_the_first_ends(
    table, autojump_clock
) -> None:
    first = await table.waiting(ANN, ClaimNext("k", 5))
    short = await table.waiting(ANN, ClaimNext("k", 2))
    long = await table.waiting(ANN, ClaimNext("k", 20))
    at_once = await table.waiting(ANN, ClaimNext("k"))
    assert (at_once.reply, at_once.at) == (NOTHING, 0)
    await trio.sleep(10)
    assert (short.reply, short.at) == (NOTHING, 2)
    assert (first.reply, first.at) == (NOTHING, 5)
    await table.ask(LEAD, CreateTask("T", "D"))
    await long.ended.wait()
    assert (long.task_id, long.at) == (1, 10)
    table.check_nothing_is_left()


@pytest.mark.spec("IDEM-3", "WAIT-6")
async def test_who_has_joined_counts_as_a_wait(table, autojump_clock) -> None:
    oldest = await table.waiting(ANN, WAIT)
    joined = [await table.waiting(ANN, ClaimNext("k", 25)) for _ in range(4)]
    assert oldest.reply == NOTHING
    assert not any(one.ended.is_set() for one in joined)


@pytest.mark.spec("CLAIM-9")
async def test_a_claim_whose_client_had_gone_is_undone_and_its_key_forgotten(table, autojump_clock) -> None:
    await table.ask(LEAD, CreateTask("T", "D"))
    gone = await table.waiting(ANN, ClaimNext("k", 25), takes=False)
    assert gone.task_id == 1
    assert table.rows("SELECT status, failures FROM tasks") == [("open", 0)]
    assert table.rows("SELECT * FROM cooldowns") == []
    again = await table.ask(ANN, ClaimNext("k"))
    assert again["claim_id"] != gone.reply["claim_id"]
    table.check_nothing_is_left()


@pytest.mark.spec("CLAIM-9", "WAIT-2")
async def test_what_is_undone_goes_to_the_next_in_line(table, autojump_clock) -> None:
    gone = await table.waiting(ANN, WAIT, takes=False)
    line = await table.waiting(BOB, WAIT)
    await table.ask(LEAD, CreateTask("T", "D"))
    await still()
    assert (gone.task_id, line.task_id) == (1, 1)
    assert table.rows("SELECT assignee FROM tasks") == [("bob",)]
    table.check_nothing_is_left()


@pytest.mark.spec("CLAIM-9", "IDEM-3")
@pytest.mark.parametrize("takers", [(True, False), (False, True)])
async def test_a_claim_that_one_of_two_answers_brought_home_stays(table, takers, autojump_clock) -> None:
    both = [await table.waiting(ANN, ClaimNext("k", 25), takes=takes) for takes in takers]
    await table.ask(LEAD, CreateTask("T", "D"))
    await still()
    assert [one.task_id for one in both] == [1, 1]
    assert table.rows("SELECT assignee FROM tasks") == [("ann",)]
    table.check_nothing_is_left()


@pytest.mark.spec("CLAIM-9", "IDEM-1")
async def test_a_call_that_is_repeated_while_the_first_answer_gets_lost_keeps_what_it_was_told(
    tmp_path, nursery, autojump_clock
) -> None:
    """However the repeated call and the taking back fall together, an answer that arrives holds a claim that holds."""
    for gap in range(12):
        folder = tmp_path / str(gap)
        folder.mkdir()
        async with laid_table(folder, nursery) as table:
            await table.ask(LEAD, CreateTask("T", "D"))
            gone = table.start(ANN, ClaimNext("k", 25), takes=False)
            for _ in range(gap):
                await trio.lowlevel.checkpoint()
            again = table.start(ANN, ClaimNext("k", 25))
            await still()
            assert gone.ended.is_set()
            assert again.reply["task"] is not None
            assert table.rows("SELECT claim_id FROM tasks") == [(again.reply["claim_id"],)]
            table.check_nothing_is_left()


async def check_a_cancel_at(folder, nursery, step: int, keyed: bool) -> bool:
    """Cancel the first in line so many steps after the task was created. Whether it had its answer by then."""
    async with laid_table(folder, nursery) as table:
        first = await table.waiting(ANN, ClaimNext("k" if keyed else None, 25))
        twin = await table.waiting(ANN, ClaimNext("k", 25)) if keyed else None
        second = await table.waiting(BOB, WAIT)
        table.start(LEAD, CreateTask("T", "D"))
        for _ in range(step):
            await trio.lowlevel.checkpoint()
        first.scope.cancel()
        await still()
        taken = [one for one in (first, twin, second) if one is not None and one.task_id]
        [(holder, claim_id)] = table.rows("SELECT assignee, claim_id FROM tasks")
        assert taken, f"step {step}: the task lies open while somebody waits"
        assert {one.reply["claim_id"] for one in taken} == {claim_id}, f"step {step}"
        assert holder == ("bob" if second in taken else "ann")
        for one in (first, twin, second):
            if one is not None:
                await one.ended.wait()
        await table.ask(LEAD, ListTasks())
        table.check_nothing_is_left()
        return first.task_id is not None


@pytest.mark.spec("WAIT-2", "CLAIM-9", "AUDIT-3")
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_cancel_at_any_moment_leaves_the_task_to_who_waits(
    tmp_path, nursery, keyed, autojump_clock
) -> None:
    outcomes = set()
    for step in range(24):
        folder = tmp_path / str(step)
        folder.mkdir()
        outcomes.add(await check_a_cancel_at(folder, nursery, step, keyed))
    assert outcomes == {False, True}


@pytest.mark.spec("WAIT-2", "CLAIM-9", "AUDIT-1", "AUDIT-3", "WAIT-8")
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_is_cancelled_when_no_task_lies_open_while_one_waits_that_could_take_it(
    tmp_path, nursery, seed, autojump_clock
) -> None:
    chance = random.Random(seed)  # noqa: S311
    workers = [
        Agent(f"w{number}", Role.WORKER, ("sql",) if number % 2 else ("python",)) for number in range(6)
    ]

    async def run(work):
        for _ in range(chance.randrange(4)):
            await trio.lowlevel.checkpoint()
        executed = work()
        for _ in range(chance.randrange(3)):
            await trio.lowlevel.checkpoint()
        return executed

    async with laid_table(tmp_path, nursery, agents=(LEAD, *workers), run=run) as table:
        calls = []
        made = 0
        for _ in range(60):
            for _ in range(chance.randrange(1, 6)):
                worker = chance.choice(workers)
                kind = chance.random()
                if kind < 0.45:
                    key = chance.choice([None, None, "k1", "k2"])
                    calls.append(
                        (
                            worker,
                            table.start(
                                worker, ClaimNext(key, chance.randrange(26)), takes=chance.random() < 0.7
                            ),
                        )
                    )
                elif kind < 0.65:
                    made += 1
                    skill = chance.choice([None, "sql", "python"])
                    assignee = chance.choice([None, None, None, worker.name])
                    table.start(LEAD, CreateTask("T", "D", required_skill=skill, assignee=assignee))
                elif kind < 0.8:
                    held = table.rows("SELECT task_id, assignee FROM tasks WHERE status = 'claimed'")
                    if held:
                        task_id, name = chance.choice(held)
                        holder = next(one for one in workers if one.name == name)
                        table.start(
                            holder,
                            ReleaseTask(
                                task_id,
                                failed=chance.random() < 0.3,
                                cooldown_seconds=chance.choice([0, 5, 900]),
                            ),
                        )
                elif kind < 0.85:
                    table.start(LEAD, UpdateTask(chance.randrange(1, made + 2), priority=made % 5))
                elif kind < 0.88:
                    table.start(LEAD, CancelTask(chance.randrange(1, made + 2), "r"))
                elif calls:
                    chance.choice(calls)[1].scope.cancel()
                for _ in range(chance.randrange(5)):
                    await trio.lowlevel.checkpoint()
            await still()
            check_nobody_waits_in_vain(table)
            if chance.random() < 0.2:
                await trio.sleep(chance.randrange(1, 6))
        await trio.sleep(30)
        for _, call in calls:
            assert call.ended.is_set()
        table.check_nothing_is_left()


def check_nobody_waits_in_vain(table) -> None:
    ready = table.rows(
        "SELECT task_id, assigned_to, required_skill FROM tasks "
        "WHERE status = 'open' AND needs_attention IS NULL AND open_dependencies = 0"
    )
    cooling = set(table.rows("SELECT agent, task_id FROM cooldowns"))
    for wait in table.board.waits._claimants:
        assert not wait.offers
        for task_id, assigned_to, skill in ready:
            suits = (
                assigned_to == wait.agent.name if assigned_to else skill is None or skill in wait.agent.skills
            )
            assert not suits or (wait.agent.name, task_id) in cooling, (wait.agent.name, task_id)

"""An endpoint in trouble: what one worker finds out, all who share it know."""

from __future__ import annotations

import pytest
import trio
from fake_board import CHANCE, FakeBoard, ScriptedModel, connections
from test_pool_worker import failure

from supervisor.config.roster import Roster, Worker, parse_roster
from supervisor.model.endpoint import Endpoint
from supervisor.pool import Setup, open_pool
from supervisor.rules.failures import FailureClass
from supervisor.work.context import Chance

URL = "http://127.0.0.1:1/v1"
OTHER_URL = "http://127.0.0.1:2/v1"


def pool_of(board: FakeBoard, models: dict[str, ScriptedModel], *, chance: Chance = CHANCE, **fields: object):
    """Each worker at URL, but those whose name begins with `far`."""
    workers = tuple(
        Worker(name, "m", OTHER_URL if name.startswith("far") else URL, max_calls_per_hour=1_000, **fields)
        for name in models
    )

    def connections_of(setup: Setup):
        return connections(board, models[setup.worker.name], setup.worker.name)

    return open_pool(
        Roster(workers), url="", tokens={}, keys={}, connections_of=connections_of, chance=chance
    )


def cool(endpoint: Endpoint, kind: str = "network", asked_at: float | None = None, wait: float | None = None):
    endpoint.cool_down(
        FailureClass(kind),
        asked_at=trio.current_time() if asked_at is None else asked_at,
        retry_after_seconds=wait,
        jitter=0.0,
    )


@pytest.mark.spec("POOL-24")
@pytest.mark.parametrize("kind", ["rate_limited", "quota", "network"])
async def test_a_cool_down_holds_for_all_who_share_the_endpoint_and_nobody_else(autojump_clock, kind: str):
    board = FakeBoard()
    board.add(free_for={"b": 1e9, "far": 1e9})
    models = {"a": ScriptedModel(failure(kind, 300)), "b": ScriptedModel(), "far": ScriptedModel()}
    with trio.fail_after(10_000):
        async with pool_of(board, models) as pool:
            await trio.sleep(1)
            states = {worker.name: worker.state for worker in pool.status().workers}
            for _ in range(2):
                board.add()
            await trio.sleep(250)
    assert states == {"a": "cooling_down", "b": "cooling_down", "far": "waiting"}
    assert {name: len(model.calls) for name, model in models.items()} == {"a": 1, "b": 0, "far": 2}


@pytest.mark.spec("POOL-24")
async def test_who_waits_for_a_task_stops_waiting_when_another_finds_the_endpoint_down(autojump_clock):
    board = FakeBoard()
    board.add(free_for={"b": 1e9})
    models = {"a": ScriptedModel(failure("network", 300), "fine"), "b": ScriptedModel()}
    with trio.fail_after(10_000):
        async with pool_of(board, models):
            await trio.sleep(5)
            board.add()
            await trio.sleep(280)
            assert board.waiting == 0
            assert board.tasks[2].claims == 0
            await trio.sleep(100)
    assert board.tasks[2].status == "submitted"


@pytest.mark.spec("POOL-24")
async def test_after_an_outage_one_finds_out_and_the_others_do_not_come_all_at_once(autojump_clock):
    draws = iter(range(100_000))
    chance = Chance(mark=CHANCE.mark, jitter=lambda: (next(draws) * 7 % 20) / 20)
    board = FakeBoard(tasks=200)
    down_until = 500.0

    async def endpoint() -> str:
        if trio.current_time() < down_until:
            raise failure("network")
        await trio.sleep(5)
        return "fine"

    models = {f"w{number}": ScriptedModel(endpoint) for number in range(20)}
    with trio.fail_after(10_000):
        async with pool_of(board, models, chance=chance):
            await trio.sleep(2_000)
    vain = [call for model in models.values() for call in model.calls if 1 < call < down_until]
    assert len(vain) <= 20
    first = [min(call for call in model.calls if call >= down_until) for model in models.values()]
    assert max(sum(moment <= call < moment + 1 for call in first) for moment in first) <= 5
    assert {task.status for task in board.tasks.values()} == {"submitted"}


@pytest.mark.spec("POOL-24")
async def test_an_endpoint_that_is_spelled_in_two_ways_in_a_roster_is_one_that_all_leave_alone(
    autojump_clock,
):
    roster = parse_roster(
        """
        [[workers]]
        name = "a"
        model = "m"
        base_url = "http://localhost:80/v1"
        [[workers]]
        name = "b"
        model = "m"
        base_url = "HTTP://LOCALHOST/v1/"
        """
    )
    board = FakeBoard()
    board.add(free_for={"b": 1e9})
    models = {"a": ScriptedModel(failure("rate_limited", 300)), "b": ScriptedModel()}
    with trio.fail_after(10_000):
        async with open_pool(
            roster,
            url="",
            tokens={},
            keys={},
            connections_of=lambda setup: connections(board, models[setup.worker.name], setup.worker.name),
            chance=CHANCE,
        ) as pool:
            await trio.sleep(1)
            assert {worker.state for worker in pool.status().workers} == {"cooling_down"}
            (endpoint,) = pool.status().endpoints
    assert endpoint.base_url == "http://localhost/v1"


@pytest.mark.spec("POOL-24")
async def test_calls_that_failed_together_are_one_trouble(autojump_clock):
    endpoint = Endpoint(URL)
    await trio.sleep(1)
    for _ in range(20):
        cool(endpoint, asked_at=0.5)
    assert (endpoint.troubles, endpoint.free_at) == (1, 3)
    await trio.sleep(2)
    cool(endpoint)
    assert (endpoint.troubles, endpoint.free_at) == (2, 7)


async def test_a_shorter_wait_does_not_end_a_longer_one(autojump_clock):
    endpoint = Endpoint(URL)
    cool(endpoint, "rate_limited", wait=600)
    cool(endpoint, "network")
    assert endpoint.free_at == 600


async def test_an_answer_ends_the_trouble_but_not_the_wait_that_was_asked_for(autojump_clock):
    endpoint = Endpoint(URL)
    cool(endpoint, "rate_limited", wait=600)
    endpoint.note_answer()
    assert (endpoint.troubles, endpoint.free_at) == (0, 600)


async def test_a_worker_alone_comes_back_when_the_wait_is_over_and_several_spread(autojump_clock):
    endpoint = Endpoint(URL)
    endpoint.workers = 1
    cool(endpoint, "rate_limited", wait=20)
    assert endpoint.free_for("a", lambda: 0.5) == 20
    endpoint.workers = 2
    assert endpoint.free_for("a", lambda: 0.5) == 25
    assert endpoint.free_for("a", lambda: 0.9) == 25
    assert endpoint.free_for("b", lambda: 1.0) == 30
    cool(endpoint, "rate_limited", wait=900)
    assert endpoint.free_for("b", lambda: 1.0) == 930


async def test_while_an_endpoint_is_in_trouble_a_worker_tries_one_task_at_a_time(autojump_clock):
    board, down_until = FakeBoard(tasks=8), 1.0

    async def endpoint() -> str:
        if trio.current_time() < down_until:
            raise failure("network")
        await trio.sleep(10)
        return "fine"

    model = ScriptedModel(endpoint)
    with trio.fail_after(10_000):
        async with pool_of(board, {"a": model}, concurrency=4):
            await trio.sleep(200)
    assert [call for call in model.calls if call > 1] == [2, 12, 12, 12, 12, 22, 22, 22]


@pytest.mark.parametrize("kind", ["timeout", "server"])
async def test_a_timeout_or_a_fault_keeps_only_the_worker_back(autojump_clock, kind: str):
    board = FakeBoard()
    models = {"a": ScriptedModel(failure(kind)), "b": ScriptedModel()}
    board.add(free_for={"b": 1e9})
    with trio.fail_after(10_000):
        async with pool_of(board, models) as pool:
            await trio.sleep(1)
            states = {worker.name: worker.state for worker in pool.status().workers}
    assert states == {"a": "backing_off", "b": "waiting"}

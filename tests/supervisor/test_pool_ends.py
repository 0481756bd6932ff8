"""However a task ends, each counted call was one HTTP request, and each request is counted; over real sockets."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from fake_board import CHANCE, FakeBoard
from scripted_endpoint import Request, completion, open_endpoint, response

from supervisor.board.errors import BoardAwayError, CallRefusedError
from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import open_ledger
from supervisor.memory.record import WorkerRecord
from supervisor.model.client import open_model
from supervisor.model.endpoint import Endpoint
from supervisor.nursery.stop import Stop
from supervisor.work.context import WorkerContext
from supervisor.work.worker import Connections, WorkerLoop

FINE = response(200, completion("fine"))
EMPTY = response(200, completion(""))
DOWN = response(500, b"{}")
HANGING = b""
HANGS_SECONDS = 30.0
"""Until a renewal is due. The clock goes as fast as a real one, but for this jump."""


@dataclass(frozen=True)
class End:
    """How a task ends: what the endpoint answers call by call, what happens during the first, and how that is kept."""

    replies: Sequence[bytes]
    outcomes: Sequence[str]
    status: str
    meanwhile: Callable[[FakeBoard, Stop], None] = lambda board, stop: None
    faults: dict[str, list[Exception]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)


def cancel(board: FakeBoard, stop: Stop) -> None:
    board.tasks[1].status = "cancelled"


def hand_over(board: FakeBoard, stop: Stop) -> None:
    board.claim(1, "another")


def cut(board: FakeBoard, stop: Stop) -> None:
    stop.cut()


ENDS = {
    "submitted": End([FINE], ["answered"], "submitted"),
    "submitted while the board is away": End(
        [FINE],
        ["answered"],
        "submitted",
        faults={"submit_result": [BoardAwayError("x"), BoardAwayError("x")]},
    ),
    "submitted by a fallback": End(
        [DOWN, FINE], ["server", "answered"], "submitted", fields={"fallback_models": ("second",)}
    ),
    "given back by all models": End(
        [DOWN, EMPTY, EMPTY], ["server", "content", "content"], "open", fields={"fallback_models": ("b", "c")}
    ),
    "given back at the cap, though a model is left": End(
        [EMPTY], ["content"], "open", fields={"fallback_models": ("second",), "max_calls_per_hour": 1}
    ),
    "given back with a call for help": End([EMPTY], ["content"], "open", fields={"max_failures": 1}),
    "given back at the deadline": End([HANGING], ["timeout"], "open", fields={"timeout_seconds": 20.0}),
    "given back without a call": End([], [], "open", fields={"max_tokens_per_day": 20}),
    "given back at the stop": End([HANGING], ["dropped"], "open", meanwhile=cut),
    "refused by the board": End(
        [FINE], ["answered"], "open", faults={"submit_result": [CallRefusedError("invalid")]}
    ),
    "lost when it was to be submitted": End([FINE], ["answered"], "claimed", meanwhile=hand_over),
    "cancelled": End([HANGING], ["dropped"], "cancelled", meanwhile=cancel),
    "held by another": End([HANGING], ["dropped"], "claimed", meanwhile=hand_over),
}


@pytest.mark.spec("MODEL-3", "POOL-12", "POOL-20")
@pytest.mark.parametrize("name", ENDS)
async def test_each_counted_call_was_one_request(mock_clock, tmp_path: Path, name: str):
    end, board, stop, asked = ENDS[name], FakeBoard(tasks=1), Stop(), 0
    board.faults.update({tool: list(faults) for tool, faults in end.faults.items()})
    mock_clock.rate = 1.0

    async def script(request: Request, stream: trio.SocketStream) -> None:
        nonlocal asked
        reply = end.replies[asked]
        asked += 1
        stop.request()  # with this task the worker comes to its end
        end.meanwhile(board, stop)
        if reply == HANGING:
            mock_clock.jump(HANGS_SECONDS)
            await stream.receive_some()
        else:
            await stream.send_all(reply)

    path = tmp_path / "pool.db"
    async with open_endpoint(script) as endpoint:
        worker = Worker("w", "m", endpoint.url, **end.fields)
        clock = DayClock()
        with open_ledger(path, clock.now()) as ledger:
            context = WorkerContext(
                worker, WorkerRecord(), stop, CHANCE, Endpoint(worker.base_url), ledger, clock
            )
            connections = Connections(lambda: board.connect("w"), partial(open_model, worker, None))
            with trio.fail_after(3_000):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(WorkerLoop(context, connections, 1.0).run)
                    if not end.replies:
                        await board.changed()
                        stop.request()
        assert len(endpoint.requests) == len(end.outcomes)
    assert board.tasks[1].status == end.status
    with closing(sqlite3.connect(path)) as kept:
        assert [outcome for (outcome,) in kept.execute("SELECT outcome FROM calls")] == list(end.outcomes)

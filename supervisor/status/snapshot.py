"""What there is to see of a running pool: a snapshot, frozen and made of plain values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.record import State
from supervisor.model.endpoint import Endpoint
from supervisor.work.context import WorkerContext

_WAITS_UNTIL = frozenset(
    {State.COOLING_DOWN, State.BACKING_OFF, State.AT_CAP, State.BOARD_AWAY, State.RESTARTING}
)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    task_id: int
    since: str


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Times are RFC 3339 in UTC.

    `state` is a word of record.State; `until` stands with those that end by themselves; `reason` says more where there is
    more: the cap, why the board is thought away, why the worker is parked. `parked_since` is when its last task in hand was
    over. Tokens and cost are of the last 24 hours; without a price in the roster there is no cost. `unusable_models` are
    those that cannot be used there, which are passed over.
    """

    name: str
    model: str
    fallback_models: tuple[str, ...]
    unusable_models: tuple[str, ...]
    base_url: str
    concurrency: int
    state: str
    tasks: tuple[TaskStatus, ...]
    until: str | None
    reason: str | None
    parked_since: str | None
    calls_last_hour: int
    max_calls_per_hour: int
    tokens_last_day: int
    max_tokens_per_day: int | None
    tokens_are_estimated: bool
    price_input: float | None
    price_output: float | None
    cost_last_day: float | None
    restarts: int

    @property
    def held(self) -> tuple[int, ...]:
        return tuple(task.task_id for task in self.tasks)

    @property
    def parked(self) -> str | None:
        return self.reason if self.state == State.PARKED else None


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """An endpoint and the names of the workers that use it, parked ones too.

    `health`: `unknown` while nothing has come back from it, `well`, `cooling_down` until a time, or else `failing`, which is
    since the first failure after the last answer. The last failure stays when an answer has come since. `troubles` are
    cool-downs since the last answer.
    """

    base_url: str
    workers: tuple[str, ...]
    health: str
    until: str | None
    failing_since: str | None
    last_call_at: str | None
    last_answer_at: str | None
    last_failure: str | None
    last_failure_at: str | None
    troubles: int


@dataclass(frozen=True, slots=True)
class PoolStatus:
    time: str
    workers: tuple[WorkerStatus, ...] = ()
    endpoints: tuple[EndpointStatus, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Objects, lists, texts, numbers and nulls."""
        return asdict(self)


def snapshot_of(pool: PoolStatus, board_url: str) -> dict[str, Any]:
    """What a pool that runs alone tells at its socket: in the form that a program with a board has too."""
    return {
        "time": pool.time,
        "process": os.getpid(),
        "board_url": board_url,
        "board": None,
        "pool": pool.as_json(),
    }


def worker_status(context: WorkerContext, *, ended_at: float | None) -> WorkerStatus:
    """`ended_at`: when the worker's last task and last release were over, None while it runs."""
    record, worker, clock = context.record, context.worker, context.clock
    state = record.state
    spent = context.ledger.spent(worker.name, clock.now())
    tasks = tuple(
        TaskStatus(task.task_id, clock.text(task.since))
        for task in sorted(record.held.values(), key=lambda task: task.task_id)
    )
    until, reason = record.until, record.reason
    if state not in {State.PARKED, State.STOPPED}:
        if context.stop.is_requested:
            state = State.DRAINING
        elif record.untold:
            state = State.BOARD_AWAY
            until, reason = min((wait.until, wait.reason) for wait in record.untold.values())
        elif tasks and state in {
            State.WAITING,
            State.STARTING,
            State.COOLING_DOWN,
            State.AT_CAP,
            State.BACKING_OFF,
        }:
            state = State.WORKING
    if state not in _WAITS_UNTIL:
        until = None
    if state in {State.WORKING, State.DRAINING}:
        reason = None
    return WorkerStatus(
        name=worker.name,
        model=worker.model,
        fallback_models=worker.fallback_models,
        unusable_models=tuple(sorted(record.unusable)),
        base_url=worker.base_url,
        concurrency=worker.concurrency,
        state=state.value,
        tasks=tasks,
        until=_text(clock, until),
        reason=None if reason is None else str(reason),
        parked_since=_text(clock, ended_at) if state is State.PARKED else None,
        calls_last_hour=spent.calls,
        max_calls_per_hour=worker.max_calls_per_hour,
        tokens_last_day=spent.tokens,
        max_tokens_per_day=worker.max_tokens_per_day,
        tokens_are_estimated=spent.is_estimated,
        price_input=worker.price_input,
        price_output=worker.price_output,
        cost_last_day=0.0 if spent.cost is None and _has_price(worker) else spent.cost,
        restarts=record.restart_count,
    )


def endpoint_status(endpoint: Endpoint, workers: Iterable[str], clock: DayClock) -> EndpointStatus:
    if endpoint.is_cooling:
        health = "cooling_down"
    elif endpoint.failing_since is not None:
        health = "failing"
    elif endpoint.last_answer_at is not None:
        health = "well"
    else:
        health = "unknown"
    return EndpointStatus(
        base_url=endpoint.base_url,
        workers=tuple(workers),
        health=health,
        until=_text(clock, endpoint.free_at if endpoint.is_cooling else None),
        failing_since=_text(clock, endpoint.failing_since),
        last_call_at=_text(clock, endpoint.last_call_at),
        last_answer_at=_text(clock, endpoint.last_answer_at),
        last_failure=None if endpoint.last_failure is None else endpoint.last_failure.value,
        last_failure_at=_text(clock, endpoint.last_failure_at),
        troubles=endpoint.troubles,
    )


def _has_price(worker: Worker) -> bool:
    return worker.price_input is not None or worker.price_output is not None


def _text(clock: DayClock, moment: float | None) -> str | None:
    return None if moment is None else clock.text(moment)

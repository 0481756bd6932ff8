"""What there is to see of a running pool: a snapshot, frozen and made of plain values."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

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
    more: the cap, why the board is thought away, why the worker is parked. Tokens and cost are of the last 24 hours.
    """

    name: str
    model: str
    base_url: str
    state: str
    tasks: tuple[TaskStatus, ...]
    until: str | None
    reason: str | None
    calls_last_hour: int
    max_calls_per_hour: int
    tokens_last_day: int
    max_tokens_per_day: int | None
    tokens_are_estimated: bool
    cost_last_day: float | None
    restarts: int
    unusable_models: tuple[str, ...]

    @property
    def held(self) -> tuple[int, ...]:
        return tuple(task.task_id for task in self.tasks)

    @property
    def parked(self) -> str | None:
        return self.reason if self.state == State.PARKED else None


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """`health`: `unknown` until something was heard of it, `well`, `cooling_down` until a time, then `in_doubt`."""

    base_url: str
    workers: int
    health: str
    until: str | None
    last_failure: str | None
    troubles: int
    last_answer_at: str | None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    time: str
    workers: tuple[WorkerStatus, ...] = ()
    endpoints: tuple[EndpointStatus, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Objects, lists, texts, numbers and nulls."""
        return asdict(self)


def snapshot_of(pool: PoolStatus) -> dict[str, Any]:
    """What a pool that runs alone tells at its socket: in the form that a program with a board has too."""
    return {"time": pool.time, "process": os.getpid(), "board": None, "pool": pool.as_json()}


def worker_status(context: WorkerContext, *, state: State, is_draining: bool) -> WorkerStatus:
    record, worker, clock = context.record, context.worker, context.clock
    spent = context.ledger.spent(worker.name, clock.now())
    tasks = tuple(
        TaskStatus(task.task_id, clock.text(task.since))
        for task in sorted(record.held.values(), key=lambda task: task.task_id)
    )
    until, reason = record.until, record.reason
    if state not in {State.PARKED, State.STOPPED}:
        if is_draining:
            state = State.DRAINING
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
        base_url=worker.base_url,
        state=state.value,
        tasks=tasks,
        until=None if until is None else clock.text(until),
        reason=None if reason is None else str(reason),
        calls_last_hour=spent.calls,
        max_calls_per_hour=worker.max_calls_per_hour,
        tokens_last_day=spent.tokens,
        max_tokens_per_day=worker.max_tokens_per_day,
        tokens_are_estimated=spent.is_estimated,
        cost_last_day=spent.cost,
        restarts=record.restart_count,
        unusable_models=tuple(sorted(record.unusable)),
    )


def endpoint_status(endpoint: Endpoint, clock: DayClock) -> EndpointStatus:
    if endpoint.is_cooling:
        health = "cooling_down"
    elif endpoint.troubles:
        health = "in_doubt"
    elif endpoint.last_answer_at is not None:
        health = "well"
    else:
        health = "unknown"
    return EndpointStatus(
        base_url=endpoint.base_url,
        workers=endpoint.workers,
        health=health,
        until=clock.text(endpoint.free_at) if endpoint.is_cooling else None,
        last_failure=None if endpoint.last_failure is None else endpoint.last_failure.value,
        troubles=endpoint.troubles,
        last_answer_at=None if endpoint.last_answer_at is None else clock.text(endpoint.last_answer_at),
    )

"""Keeping one child alive: run again after each failure, within its budget, touching nobody else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from supervisor.board.errors import BoardError
from supervisor.memory.record import State
from supervisor.nursery.child import run_guarded
from supervisor.rules.restart import after_failure
from supervisor.work.context import WorkerContext

log = structlog.get_logger(__name__)

RETURNED = "it returned without being told to"
PARKED_FOR_FAILING = "it failed too often; the log says how"


async def supervise(
    context: WorkerContext, *, run: Callable[[], Awaitable[None]], release: Callable[[], Awaitable[None]]
) -> None:
    """Run the child until the stop is requested or it is parked; raises nothing that the child raised.

    `release` lets go of what a crashed child still holds; it is called before the child is left alone for good.
    """
    name, record = context.name, context.record
    while not context.told_to_leave():
        started_at = trio.current_time()
        log.info("worker_started", worker=name)
        crash = await run_guarded(run)
        if crash is None and context.told_to_leave():
            break
        now = trio.current_time()
        record.restarts, delay = after_failure(
            record.restarts, started_at=started_at, now=now, jitter=context.chance.jitter()
        )
        seconds = None if delay is None else round(delay, 1)
        error = RETURNED if crash is None else crash.description
        log.error("worker_failed", worker=name, error=error, restart_in_seconds=seconds)
        if delay is None:
            record.park(PARKED_FOR_FAILING)
        else:
            record.restart_count += 1
            record.note(State.RESTARTING, until=now + delay)
            await context.stop.pause(delay)
    if record.parked is not None:
        log.error("worker_parked", worker=name, reason=record.parked)
    if record.held:
        await _release_last(name, release)


async def _release_last(name: str, release: Callable[[], Awaitable[None]]) -> None:
    async def try_to_release() -> None:
        try:
            await release()
        except BoardError as error:
            log.warning("leftovers_not_released", worker=name, reason=str(error))

    crash = await run_guarded(try_to_release)
    if crash is not None:
        log.error("leftovers_not_released", worker=name, reason=crash.description)

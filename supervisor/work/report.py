"""The message that tells the board what an attempt took. It stands in nothing's way: the attempt ends beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from supervisor.board.errors import BoardError
from supervisor.board.protocol import BoardClient, Claim
from supervisor.nursery.child import Crash, run_guarded
from supervisor.rules.limits import REPORT_SECONDS
from supervisor.work.context import WorkerContext

log = structlog.get_logger(__name__)


async def end_with_report(
    end: Callable[[], Awaitable[None]], body: str, *, context: WorkerContext, board: BoardClient, claim: Claim
) -> None:
    """Do what ends the attempt, and post the message meanwhile; returns REPORT_SECONDS after the end at the latest.

    A message that does not get through is tried once more after the end. Its key is the claim's, so that there is one
    for each attempt, whatever is said of it first. Raises what `end` raises; else what a fault of this program raised
    in the message, but not that the board refused it. The second phase of the stop drops the message.
    """
    has_ended = trio.Event()
    fault: Crash | None = None

    async def post() -> bool:
        try:
            await board.report_progress(claim.task_id, body, idempotency_key=f"progress-{claim.claim_id}")
        except BoardError as refused:
            # It may come too late, after the review; whatever else is wrong, `end` meets it and says so.
            log.debug(
                "progress_not_reported", worker=context.name, task_id=claim.task_id, reason=str(refused)
            )
            return False
        return True

    async def report() -> None:
        if not await post():
            await has_ended.wait()
            await post()

    async def report_guarded() -> None:
        nonlocal fault
        with context.stop.until_cut():
            fault = await run_guarded(report)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_guarded)
        # The message goes out with the result and not after it, or a quick review would shut it out.
        await trio.lowlevel.checkpoint()
        failure = await run_guarded(end)
        has_ended.set()
        nursery.cancel_scope.deadline = trio.current_time() + REPORT_SECONDS
    failure = failure or fault
    if failure is not None:
        raise failure.error

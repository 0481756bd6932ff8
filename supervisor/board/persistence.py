"""A call to the board that has to be made, however long the board is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from supervisor.board.errors import BoardAwayError, BoardBusyError
from supervisor.nursery.stop import Stop
from supervisor.rules.limits import BOARD_BACKOFF_FIRST_SECONDS, BOARD_BACKOFF_MAX_SECONDS
from supervisor.rules.restart import backoff_seconds

_STOPPING_WAIT_SECONDS = 0.5
"""Between attempts while the pool stops: the whole stop is bounded, so there is no time for more."""

log = structlog.get_logger(__name__)


async def persist(
    call: Callable[[], Awaitable[None]],
    *,
    again: Callable[[], Awaitable[None]] | None = None,
    stop: Stop,
    worker: str,
    jitter: Callable[[], float],
    note_wait: Callable[[str, float], None],
) -> None:
    """Make the call until the board has answered it; `again` takes its place once a reply was lost.

    `note_wait` hears why the board is thought away, and at what moment of Trio's clock it is asked again. Raises what the
    call raises but for BoardAwayError and BoardBusyError, which are waited out.
    """
    attempt = 0
    while True:
        try:
            await call()
        except BoardBusyError as busy:
            wait = busy.retry_after_seconds
        except BoardAwayError as away:
            attempt += 1
            call = again or call
            wait = backoff_seconds(
                attempt,
                jitter=jitter(),
                first=BOARD_BACKOFF_FIRST_SECONDS,
                maximum=BOARD_BACKOFF_MAX_SECONDS,
            )
            log.warning("board_away", worker=worker, reason=str(away), wait_seconds=round(wait, 1))
            note_wait(str(away), trio.current_time() + wait)
        else:
            return
        if stop.is_requested:
            await trio.sleep(min(wait, _STOPPING_WAIT_SECONDS))
        else:
            await stop.pause(wait)

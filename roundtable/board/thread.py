"""The hop into a thread in which the board's batches are carried out: one hop a batch, however many statements it has.

Why not a hop for each statement is told where the store opens its file (roundtable/store/database.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

import trio

from roundtable.store.outcomes import Executed

if TYPE_CHECKING:
    from outcome import Outcome

Run = Callable[[Callable[[], Executed]], Awaitable[Executed]]
"""How a batch is run: in a thread; in tests inline, where a mock clock cannot see threads."""


async def in_a_thread(work: Callable[[], Executed]) -> Executed:
    """Do the work in one of the threads that `trio.to_thread` uses. Returns what it returns, or raises what it raises.

    Never cancelled: the work is short, and its outcome is somebody's answer. What is left out of `to_thread` the board
    does not need, since its actor makes one hop at a time, and pays for with every batch: a limit on threads, context
    variables, and two system calls that name the thread.
    """
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

    def deliver(result: Outcome[Executed]) -> None:
        token.run_sync_soon(trio.lowlevel.reschedule, task, result)

    trio.lowlevel.start_thread_soon(work, deliver)
    return cast(Executed, await trio.lowlevel.wait_task_rescheduled(never_abort))


def never_abort(_raise_cancel: object) -> trio.lowlevel.Abort:
    """What a wait says to a cancel that has to take effect after it."""
    return trio.lowlevel.Abort.FAILED

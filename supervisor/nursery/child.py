"""The one boundary behind which a worker may fail in any way without touching another."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

_FRAMES_SHOWN = 6
_DESCRIPTION_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Crash:
    """How a child failed. `description`: types and places, never an exception's own words, which may quote tasks or keys."""

    description: str
    error: BaseException = field(repr=False)


async def run_guarded(child: Callable[[], Awaitable[None]]) -> Crash | None:
    """Run the child; None if it returned, else how it failed, whatever it raised.

    Being cancelled goes through, also out of a group, whose other errors are then dropped: raised on, they would end
    the siblings. KeyboardInterrupt is a crash like any other: Ctrl-C is a signal that the program receives, so one that
    comes out of a child is the child's doing.
    """
    try:
        await child()
    except BaseException as error:
        passing = _passing(error)
        if passing is not None:
            raise passing from None
        return Crash(_described(error)[:_DESCRIPTION_CHARS], error)
    return None


def _passing(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(trio.Cancelled)
    return error if isinstance(error, trio.Cancelled) else None


def _described(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_described(part) for part in error.exceptions)
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_SHOWN:]
    places = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}" if places else type(error).__name__

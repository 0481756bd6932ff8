"""Every test here ends: a board that leaves somebody waiting fails the test instead of holding up the run."""

from __future__ import annotations

import functools
import inspect

import pytest
import trio
from board_room import PATIENCE_SECONDS

MOCK_PATIENCE_SECONDS = 1e7
"""On a clock that jumps when nobody has anything left to do, a test that hangs fails at once whatever its bound."""


def pytest_itemcollected(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(test):
        jumps = "autojump_clock" in getattr(item, "fixturenames", ())
        item.obj = within(test, MOCK_PATIENCE_SECONDS if jumps else PATIENCE_SECONDS)


def within(test, seconds: float):
    @functools.wraps(test)
    async def bounded(**fixtures):
        with trio.fail_after(seconds):
            await test(**fixtures)

    return bounded

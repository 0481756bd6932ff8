"""Every test here ends: a board that leaves somebody waiting fails the test instead of holding up the run."""

from __future__ import annotations

import functools
import inspect

import pytest
import trio
from board_room import PATIENCE_SECONDS


def pytest_itemcollected(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(test):
        item.obj = within_patience(test)


def within_patience(test):
    @functools.wraps(test)
    async def bounded(**fixtures):
        with trio.fail_after(PATIENCE_SECONDS):
            await test(**fixtures)

    return bounded

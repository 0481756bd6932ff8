"""A stop in two phases: no new claims first, then no model calls; the connections to the board stay open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from supervisor.nursery.scopes import open_scope


class Stop:
    """Shared by all workers of a pool. Setting it cancels waits for tasks, then model calls, and nothing else."""

    def __init__(self) -> None:
        self._requested = trio.Event()
        self._is_cut = False
        self._calls: set[trio.CancelScope] = set()
        self._waits: set[trio.CancelScope] = set()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """First phase: nobody claims any more, and waits for a task end."""
        self._requested.set()
        for scope in self._waits:
            scope.cancel()

    def cut(self) -> None:
        """Second phase: model calls that run are cancelled, and later ones end as they begin."""
        self.request()
        self._is_cut = True
        for scope in self._calls:
            scope.cancel()

    async def wait_requested(self) -> None:
        await self._requested.wait()

    async def pause(self, seconds: float) -> None:
        """Sleep so long, or until the first phase begins."""
        with trio.move_on_after(seconds):
            await self._requested.wait()

    @contextmanager
    def until_requested(self) -> Iterator[trio.CancelScope]:
        """A scope for one wait for a task, cancelled by the first phase."""
        with open_scope(self._waits, is_over=self._requested.is_set()) as scope:
            yield scope

    @contextmanager
    def until_cut(self) -> Iterator[trio.CancelScope]:
        """A scope for one model call, cancelled by the second phase."""
        with open_scope(self._calls, is_over=self._is_cut) as scope:
            yield scope

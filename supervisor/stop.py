"""A stop in two phases: no new claims first, then no model calls; the connections to the board stay open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Stop:
    """Shared by all workers of a pool. Setting it neither waits nor cancels anything but model calls."""

    def __init__(self) -> None:
        self._requested = trio.Event()
        self._is_cut = False
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """First phase: nobody claims any more."""
        self._requested.set()

    def cut(self) -> None:
        """Second phase: model calls that run are cancelled, and later ones end as they begin."""
        self.request()
        self._is_cut = True
        for scope in self._scopes:
            scope.cancel()

    async def wait_requested(self) -> None:
        await self._requested.wait()

    async def pause(self, seconds: float) -> None:
        """Sleep so long, or until the first phase begins."""
        with trio.move_on_after(seconds):
            await self._requested.wait()

    @contextmanager
    def until_cut(self) -> Iterator[trio.CancelScope]:
        """A scope for one model call, cancelled by the second phase."""
        with trio.CancelScope() as scope:
            if self._is_cut:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

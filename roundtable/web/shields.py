"""Waits that a cancel does not end: what is being sent, and a farewell. Each has its deadline all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import trio


class Shields:
    """The shielded waits of one connection, which a stop shortens and its end cuts."""

    __slots__ = ("_is_cut", "_longest_seconds", "_scopes", "_stop_seconds")

    def __init__(self, stop_seconds: float) -> None:
        """`stop_seconds` is how long each may last once the server stops."""
        self._stop_seconds = stop_seconds
        self._longest_seconds = inf
        self._is_cut = False
        self._scopes: set[trio.CancelScope] = set()

    def begin_stop(self) -> None:
        """From now on none lasts longer than a stop allows, those that have begun included."""
        self._longest_seconds = self._stop_seconds
        ends_at = trio.current_time() + self._stop_seconds
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, ends_at)

    def cut(self) -> None:
        """End every one now and let none begin."""
        self._is_cut = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """A wait that its deadline ends, or the server's stop, and nothing else."""
        deadline = -inf if self._is_cut else trio.current_time() + min(seconds, self._longest_seconds)
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

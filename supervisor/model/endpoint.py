"""What is known of an endpoint, shared by all workers that call it: one finds out that it is down, all leave it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from supervisor.nursery.scopes import open_scope
from supervisor.rules.failures import FailureClass
from supervisor.rules.limits import ENDPOINT_SPREAD_MAX_SECONDS, ENDPOINT_SPREAD_PART
from supervisor.rules.policy import endpoint_wait_seconds


class Endpoint:
    """One base_url. Moments are of Trio's clock."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.workers = 0
        """How many share it."""
        self.troubles = 0
        """Cool-downs since the last answer."""
        self.free_at = float("-inf")
        self.last_call_at: float | None = None
        self.last_answer_at: float | None = None
        self.last_failure: FailureClass | None = None
        """Of the last call that failed, whether that was the endpoint's fault or not."""
        self.last_failure_at: float | None = None
        self.failing_since: float | None = None
        """The first failure after the last answer."""
        self._cooled_at = float("-inf")
        self._spread_seconds = 0.0
        self._resume: dict[str, float] = {}
        self._waits: set[trio.CancelScope] = set()

    def cool_down(
        self, kind: FailureClass, *, asked_at: float, retry_after_seconds: float | None, jitter: float
    ) -> None:
        """Leave it alone for a while: longer each time, and at least as long as it asked for.

        Waits for tasks end. Calls that were under way together when it went down (`asked_at` before the last cool-down)
        are one trouble, not many.
        """
        now = trio.current_time()
        if asked_at > self._cooled_at or not self.troubles:
            self.troubles += 1
        wait = endpoint_wait_seconds(
            kind, retry_after_seconds=retry_after_seconds, troubles=self.troubles, jitter=jitter
        )
        self._cooled_at = now
        if now + wait > self.free_at:
            self.free_at = now + wait
            self._spread_seconds = min(wait * ENDPOINT_SPREAD_PART, ENDPOINT_SPREAD_MAX_SECONDS)
            self._resume.clear()
        for scope in self._waits:
            scope.cancel()

    def note_call(self) -> None:
        """A call begins."""
        self.last_call_at = trio.current_time()

    def note_failure(self, kind: FailureClass) -> None:
        """A call failed. Where the endpoint works all the same, `note_answer` comes next."""
        self.last_failure, self.last_failure_at = kind, trio.current_time()
        if self.failing_since is None:
            self.failing_since = self.last_failure_at

    def note_answer(self) -> None:
        """It works. What the others still wait is a few seconds, which keeps them from coming all at once."""
        self.troubles = 0
        self.failing_since = None
        self.last_answer_at = trio.current_time()

    def free_for(self, worker: str, jitter: Callable[[], float]) -> float:
        """From when this worker may call it: each of several at its own moment, so that the first finds out for all."""
        if self.workers <= 1:
            return self.free_at
        if worker not in self._resume:
            self._resume[worker] = self.free_at + jitter() * self._spread_seconds
        return self._resume[worker]

    @property
    def is_cooling(self) -> bool:
        return self.free_at > trio.current_time()

    @contextmanager
    def until_trouble(self) -> Iterator[trio.CancelScope]:
        """A scope for one wait for a task, cancelled when the endpoint is to be left alone."""
        with open_scope(self._waits, is_over=self.is_cooling) as scope:
            yield scope


class Endpoints:
    """All endpoints of a pool, by their address."""

    def __init__(self) -> None:
        self._known: dict[str, Endpoint] = {}

    def join(self, base_url: str) -> Endpoint:
        """The endpoint, shared by one worker more. One that leaves takes itself off `workers`."""
        endpoint = self._known.setdefault(base_url, Endpoint(base_url))
        endpoint.workers += 1
        return endpoint

    def all(self) -> tuple[Endpoint, ...]:
        return tuple(self._known.values())

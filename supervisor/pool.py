"""All workers of a roster, each a child that is restarted alone; stopped in two phases that leave nothing claimed."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog
import trio
from pydantic import SecretStr

from supervisor.board_client import open_board_client
from supervisor.limits import RELEASE_SECONDS
from supervisor.model_client import open_model
from supervisor.record import WorkerRecord
from supervisor.roster import Roster, Worker
from supervisor.stop import Stop
from supervisor.supervision import supervise
from supervisor.task_run import Chance
from supervisor.worker import Connections, WorkerLoop

log = structlog.get_logger(__name__)

ConnectionsOf = Callable[[Worker], Connections]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What there is to see of one worker. `parked` says why it takes no more tasks."""

    name: str
    state: str
    parked: str | None
    held: tuple[int, ...]


@asynccontextmanager
async def open_pool(
    roster: Roster,
    *,
    url: str,
    tokens: Mapping[str, str],
    keys: Mapping[str, SecretStr | None],
    connections_of: ConnectionsOf | None = None,
    chance: Chance | None = None,
) -> AsyncIterator[Pool]:
    """The roster at work on the board at `url`, each worker with its own token.

    Leaving the block drains the pool (Pool.drain), also when the body raised; an error of the body comes out inside an
    exception group. Cancelled from outside, it ends at once and may leave tasks claimed, which the next start of
    the same workers releases.
    """
    if connections_of is None:
        masked = {name: SecretStr(token) for name, token in tokens.items()}
        connections_of = partial(_real_connections, url, masked, keys)
    if chance is None:
        chance = Chance(mark=partial(secrets.token_hex, 12), jitter=random.random)
    async with trio.open_nursery() as nursery:
        pool = Pool(roster, connections_of, chance, nursery.cancel_scope)
        for worker in roster.workers:
            nursery.start_soon(pool.keep_running, worker)
        try:
            yield pool
        finally:
            # In a cancelled scope the children are dying already, and an await here would hide the body's error.
            if trio.current_effective_deadline() != float("-inf"):
                await pool.drain()


class Pool:
    """The running workers. Made by open_pool."""

    def __init__(
        self, roster: Roster, connections_of: ConnectionsOf, chance: Chance, scope: trio.CancelScope
    ) -> None:
        self._roster = roster
        self._connections_of = connections_of
        self._chance = chance
        self._scope = scope
        self._stop = Stop()
        self._records = {worker.name: WorkerRecord() for worker in roster.workers}
        self._running = len(roster.workers)
        self._all_ended = trio.Event()
        if not self._running:
            self._all_ended.set()

    def status(self) -> tuple[WorkerStatus, ...]:
        return tuple(
            WorkerStatus(name, record.state, record.parked, tuple(sorted(record.held.values())))
            for name, record in self._records.items()
        )

    async def wait_ended(self) -> None:
        """Until no worker runs any more: each is parked, or the pool was drained."""
        await self._all_ended.wait()

    async def drain(self) -> None:
        """Stop: no new claims; model calls get grace_seconds, then are cancelled and their tasks released.

        Returns within grace_seconds and RELEASE_SECONDS, however board and endpoints behave; whatever could not be
        released then is named in the log. May be called again, and while it runs.
        """
        self._stop.request()
        with trio.move_on_after(self._roster.grace_seconds):
            await self._all_ended.wait()
        if not self._all_ended.is_set():
            self._stop.cut()
            with trio.move_on_after(RELEASE_SECONDS):
                await self._all_ended.wait()
        if not self._all_ended.is_set():
            self._scope.cancel()
        for status in self.status():
            if status.held:
                log.error("left_claimed", worker=status.name, task_ids=list(status.held))

    async def keep_running(self, worker: Worker) -> None:
        """Run one worker until it is parked or the pool stops. Raises nothing but being cancelled from outside."""
        record = self._records[worker.name]
        jitter = self._chance.jitter

        # Each life gets a loop of its own: what outlives it is in the record.
        async def run() -> None:
            await self._loop(worker, record).run()

        async def release() -> None:
            await self._loop(worker, record).release_leftovers()

        try:
            await supervise(worker.name, record, self._stop, run=run, release=release, jitter=jitter)
        finally:
            record.state = "parked" if record.parked else "stopped"
            self._running -= 1
            if not self._running:
                self._all_ended.set()

    def _loop(self, worker: Worker, record: WorkerRecord) -> WorkerLoop:
        connections = self._connections_of(worker)
        return WorkerLoop(worker, record, self._stop, connections, self._chance, self._roster.poll_interval)


def _real_connections(
    url: str, tokens: Mapping[str, SecretStr], keys: Mapping[str, SecretStr | None], worker: Worker
) -> Connections:
    return Connections(
        board=partial(open_board_client, url, tokens[worker.name]),
        model=partial(open_model, worker, keys[worker.name]),
    )

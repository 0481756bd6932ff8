"""All workers of a roster, each a child that is restarted alone; stopped in two phases that leave nothing claimed."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
import trio
from pydantic import SecretStr

from supervisor.board.client import open_board_client
from supervisor.config.authorities import Authorities
from supervisor.config.roster import Roster, Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import Ledger, open_ledger
from supervisor.memory.record import State, WorkerRecord
from supervisor.model.client import open_model
from supervisor.model.endpoint import Endpoint, Endpoints
from supervisor.nursery.stop import Stop
from supervisor.nursery.supervision import supervise
from supervisor.rules.limits import RELEASE_SECONDS
from supervisor.status.snapshot import PoolStatus, WorkerStatus, endpoint_status, worker_status
from supervisor.work.context import Chance, WorkerContext
from supervisor.work.worker import Connections, WorkerLoop

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """A worker as the roster has it, with its secrets. Two that are equal are the same worker, unchanged."""

    worker: Worker
    token: SecretStr | None
    key: SecretStr | None
    board_ca_file: Authorities | None = None


ConnectionsOf = Callable[[Setup], Connections]


@asynccontextmanager
async def open_pool(
    roster: Roster,
    *,
    url: str,
    tokens: Mapping[str, str],
    keys: Mapping[str, SecretStr | None],
    ledger_path: Path | None = None,
    connections_of: ConnectionsOf | None = None,
    chance: Chance | None = None,
    clock: DayClock | None = None,
    tells_tasks: bool = True,
) -> AsyncIterator[Pool]:
    """The roster at work on the board at `url`, each worker with its own token.

    `tells_tasks`: the log is told of each claim, submit and release; False where the board of the same program tells it.
    What calls took is kept in the file at `ledger_path`, or in memory for this run only. Leaving the block drains the
    pool (Pool.drain), also when the body raised; an error of the body comes out inside an exception group. Cancelled
    from outside, it ends at once and may leave tasks claimed, which the next start with the same file releases.
    Raises LedgerError.
    """
    connections_of = connections_of or partial(_real_connections, url)
    chance = chance or Chance(mark=partial(secrets.token_hex, 12), jitter=random.random)
    clock = clock or DayClock()
    with open_ledger(ledger_path, clock.now()) as ledger:
        async with trio.open_nursery() as nursery:
            pool = Pool(roster, connections_of, chance, clock, ledger, nursery, tells_tasks)
            pool.replace_roster(roster, tokens, keys)
            try:
                yield pool
            finally:
                # In a cancelled scope the children are dying already, and an await here would hide the body's error.
                if trio.current_effective_deadline() != float("-inf"):
                    await pool.drain()


@dataclass(slots=True)
class _Post:
    """One name of the roster: who works under it now, and who comes after when that one is told to leave."""

    context: WorkerContext
    setup: Setup
    is_leaving: bool = False
    successor: Setup | None = None
    ended: trio.Event = field(default_factory=trio.Event)
    ended_at: float | None = None

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set()

    def end(self) -> None:
        self.ended.set()
        self.ended_at = trio.current_time()

    def status(self) -> WorkerStatus:
        return worker_status(self.context, ended_at=self.ended_at)


class Pool:
    """The running workers. Made by open_pool."""

    def __init__(
        self,
        roster: Roster,
        connections_of: ConnectionsOf,
        chance: Chance,
        clock: DayClock,
        ledger: Ledger,
        nursery: trio.Nursery,
        tells_tasks: bool,
    ) -> None:
        self._tells_tasks = tells_tasks
        self._roster = roster
        self._connections_of = connections_of
        self._chance = chance
        self._clock = clock
        self._ledger = ledger
        self._nursery = nursery
        self._endpoints = Endpoints()
        self._records: dict[str, WorkerRecord] = {}
        self._posts: dict[str, _Post] = {}
        self._is_draining = False
        self._all_ended = trio.Event()

    def status(self) -> PoolStatus:
        """Of every worker of the roster, of those removed from it that still have a task in hand, and of their endpoints."""
        workers = tuple(post.status() for post in self._posts.values())
        users: dict[Endpoint, list[str]] = {}
        for name, post in self._posts.items():
            users.setdefault(post.context.endpoint, []).append(name)
        endpoints = tuple(endpoint_status(endpoint, names, self._clock) for endpoint, names in users.items())
        return PoolStatus(self._clock.text(trio.current_time()), workers, endpoints)

    async def wait_ended(self) -> None:
        """Until no worker runs any more: each is parked, or the pool was drained."""
        await self._all_ended.wait()

    def replace_roster(
        self, roster: Roster, tokens: Mapping[str, str], keys: Mapping[str, SecretStr | None]
    ) -> None:
        """Work by this roster from now on.

        New workers start; those that are gone claim nothing more and end with their running tasks; changed ones do so too
        and then start as they are now; all others go on untouched, parked ones as well. Nobody starts while another one
        still works with its token: each would release what the other holds. What a name has used up stays used up. Does
        nothing once the pool drains.
        """
        if self._is_draining:
            return
        self._roster = roster
        setups = {
            worker.name: Setup(
                worker, _masked(tokens.get(worker.name)), keys.get(worker.name), roster.ca_file
            )
            for worker in roster.workers
        }
        for name, post in list(self._posts.items()):
            self._change(post, setups.get(name))
        for name, setup in setups.items():
            if name not in self._posts:
                self._start(setup)
        self._note_end()

    def _change(self, post: _Post, setup: Setup | None) -> None:
        if post.is_leaving:
            post.successor = setup
        elif setup != post.setup:
            log.info("worker_leaves", worker=post.context.name, returns=setup is not None)
            post.successor = setup
            post.is_leaving = True
            post.context.stop.request()
            if not post.is_running:
                self._succeed(post)

    def _start(self, setup: Setup) -> None:
        name = setup.worker.name
        record = self._records.setdefault(name, WorkerRecord())
        record.begin_anew()
        endpoint = self._endpoints.join(setup.worker.base_url)
        context = WorkerContext(
            setup.worker, record, Stop(), self._chance, endpoint, self._ledger, self._clock, self._tells_tasks
        )
        former = [
            post
            for post in self._posts.values()
            if post.is_running and setup.token is not None and post.setup.token == setup.token
        ]
        post = _Post(context, setup)
        self._posts[name] = post
        self._all_ended = trio.Event() if self._all_ended.is_set() else self._all_ended
        self._nursery.start_soon(self._keep_running, post, former)

    async def _keep_running(self, post: _Post, former: Sequence[_Post]) -> None:
        """Run one worker, once the former ones have ended, until it is parked or told to leave.

        Raises nothing but being cancelled from outside.
        """
        context = post.context

        # Each life gets a loop of its own: what outlives it is in the record.
        def loop() -> WorkerLoop:
            connections = self._connections_of(post.setup)
            return WorkerLoop(context, connections, self._roster.poll_interval)

        async def run() -> None:
            await loop().run()

        async def release() -> None:
            await loop().release_leftovers()

        if former:
            names = [other.context.name for other in former]
            log.info("worker_waits", worker=context.name, cause="token_in_use", by=names)
        try:
            with context.stop.until_requested():
                for other in former:
                    await other.ended.wait()
            await supervise(context, run=run, release=release)
        finally:
            context.record.note(
                State.PARKED if context.record.parked else State.STOPPED, reason=context.record.parked
            )
            context.endpoint.workers -= 1
            post.end()
            if post.is_leaving and not self._is_draining:
                self._succeed(post)
            self._note_end()

    def _succeed(self, post: _Post) -> None:
        del self._posts[post.context.name]
        if post.successor is not None:
            self._start(post.successor)

    def _note_end(self) -> None:
        if not any(post.is_running for post in self._posts.values()):
            self._all_ended.set()

    async def drain(self) -> None:
        """Stop: no new claims; model calls get grace_seconds, then are cancelled and their tasks released.

        Returns within grace_seconds and RELEASE_SECONDS, however board and endpoints behave; whatever could not be
        released then is named in the log. May be called again, and while it runs.
        """
        self._is_draining = True
        for post in self._posts.values():
            post.context.stop.request()
        with trio.move_on_after(self._roster.grace_seconds):
            await self._all_ended.wait()
        if not self._all_ended.is_set():
            for post in list(self._posts.values()):
                post.context.stop.cut()
            with trio.move_on_after(RELEASE_SECONDS):
                await self._all_ended.wait()
        if not self._all_ended.is_set():
            self._nursery.cancel_scope.cancel()
        for status in self.status().workers:
            if status.held:
                log.error("left_claimed", worker=status.name, task_ids=list(status.held))


def _masked(token: str | None) -> SecretStr | None:
    return None if token is None else SecretStr(token)


def _real_connections(url: str, setup: Setup) -> Connections:
    if setup.token is None:
        raise AssertionError("every worker has a token")
    return Connections(
        board=partial(open_board_client, url, setup.token, setup.board_ca_file),
        model=partial(open_model, setup.worker, setup.key),
    )

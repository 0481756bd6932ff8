"""Taking changed configuration files into a program that runs.

House rules: a file that is wrong changes nothing, and never keeps the other one from being taken. Whoever is let in is so
at all three places in one step, without a pause between them: at the door, on the board, in the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import structlog
import trio

from roundtable.board.actor import Board
from roundtable.cli.owners_files import NO_POOL, OwnersFiles, PoolFile, merge_files
from roundtable.cli.running import Signals
from roundtable.cli.server import by_digest
from roundtable.config.agents import AgentsFile
from roundtable.config.errors import ConfigError
from roundtable.config.tokens import new_token
from roundtable.rules.agents import Agent, Directory
from roundtable.web.tokens import TokenTable
from supervisor.config.roster import Roster

if TYPE_CHECKING:  # what a pool needs takes a third of a second to load, and `serve` has none
    from supervisor.pool import Pool

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often it is looked whether workers that are leaving have done their last task."""


@dataclass(slots=True)
class PoolSeats:
    """The pool's side: its roster, read from the file at `path`, the tokens minted for it, and where they are let in."""

    pool: Pool
    tokens: TokenTable
    minted: dict[str, str]
    path: Path
    file: PoolFile
    agents: tuple[Agent, ...]
    leaving: tuple[Agent, ...] = ()
    """Off the roster, with a last task in hand: until that is done the board still knows them."""


@dataclass(slots=True)
class Seats:
    """Who may call the running board: the agents of agents.json, by `tokens`, and the workers of the pool.

    `read` gives what the files say now, told which roster is in force.
    """

    read: Callable[[Roster], OwnersFiles]
    tokens: TokenTable
    board: Board
    file: AgentsFile
    pool: PoolSeats | None = None

    def reload(self) -> None:
        """Let in those whom the files name now. What is wrong is refused, each problem in the log; the old ones stay."""
        pool_in_force = self._pool_in_force()
        found = self.read(pool_in_force.roster)
        _refuse("agents", found.agents_problems)
        _refuse("roster", found.pool_problems)
        if found.agents is None or found.pool is None:
            _refuse("agents" if found.agents is None else "roster", found.clashes)
        file, pool = found.agents or self.file, found.pool or pool_in_force
        problems: tuple[str, ...] = ()
        for some_file, some_pool in ((file, pool), (file, pool_in_force), (self.file, pool)):
            try:
                workers = self._merged(some_file, some_pool)
            except ConfigError as error:
                problems = problems or error.problems
                continue
            if some_file is not file:
                _refuse("agents", problems)
            if some_pool is not pool:
                _refuse("roster", problems)
            self._tell(some_file, some_pool)
            self.file = some_file
            self._seat(workers, some_pool)
            return
        _refuse("agents", problems)
        _refuse("roster", problems)

    def let_go(self) -> None:
        """Forget the workers that were leaving and have gone."""
        if (seats := self.pool) is None:
            return
        here = self._still_leaving(seats)
        gone = [agent.name for agent in seats.leaving if agent not in here]
        if gone:
            self._seat(seats.agents, seats.file)
            log.info("workers_left", workers=gone)

    def _pool_in_force(self) -> PoolFile:
        return NO_POOL if self.pool is None else self.pool.file

    def _merged(self, file: AgentsFile, pool: PoolFile) -> tuple[Agent, ...]:
        """The pool's workers as agents beside those of the file. Raises ConfigError."""
        return () if self.pool is None else merge_files(file, pool.roster, self.pool.path).pool

    def _tell(self, file: AgentsFile, pool: PoolFile) -> None:
        if file is not self.file:
            for warning in file.warnings:
                log.warning("configuration", advice=warning)
            log.info("agents_reloaded", agents=len(file.agents))
        if pool != self._pool_in_force():
            log.info("roster_reloaded", workers=len(pool.roster.workers))

    def _seat(self, workers: tuple[Agent, ...], pool: PoolFile) -> None:
        """Who is gone is turned away at the door before the board takes its claims; who is new is let in before it works."""
        known = [*self.file.agents.values(), *workers]
        self.tokens.replace(self.file.agents)
        if (seats := self.pool) is not None:
            names = {agent.name for agent in known}
            former = (*seats.agents, *seats.leaving)
            seats.agents, seats.file = workers, pool
            seats.leaving = tuple(agent for agent in former if agent.name not in names)
            seats.leaving = self._still_leaving(seats)
            known += seats.leaving
            for agent in workers:
                seats.minted.setdefault(agent.name, new_token())
            seats.tokens.replace(by_digest(seats.minted, (*workers, *seats.leaving)))
        self.board.replace_agents(Directory(known))
        if seats is not None:
            seats.pool.replace_roster(pool.roster, seats.minted, pool.keys)

    def _still_leaving(self, seats: PoolSeats) -> tuple[Agent, ...]:
        here = {status.name for status in seats.pool.status().workers}
        return tuple(agent for agent in seats.leaving if agent.name in here)


async def keep_reloading(signals: Signals, seats: Seats) -> None:
    """Reload at each hang-up, until this is cancelled."""
    while True:
        is_one_leaving = seats.pool is not None and seats.pool.leaving
        with trio.move_on_after(LOOK_SECONDS if is_one_leaving else inf) as pause:
            await signals.next_hang_up()
        if pause.cancelled_caught:
            seats.let_go()
        else:
            seats.reload()


def _refuse(file: Literal["agents", "roster"], problems: Iterable[str]) -> None:
    """Put into the log why this file changes nothing."""
    for problem in problems:
        log.error(f"{file}_refused", problem=problem)

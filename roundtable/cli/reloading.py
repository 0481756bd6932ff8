"""Taking changed configuration files into a program that runs.

House rules: a file that is wrong changes nothing, and never keeps the other one from being taken. Whoever is let in is so
at all three places in one step, without a pause between them: at the door, on the board, in the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final, TypeVar

import structlog
import trio
from pydantic import SecretStr

from roundtable.board.actor import Board
from roundtable.cli.running import Signals
from roundtable.cli.server import by_digest
from roundtable.config.agents import AgentsFile, load_agents
from roundtable.config.errors import ConfigError
from roundtable.config.roster import merge_roster
from roundtable.config.tokens import new_token
from roundtable.rules.agents import Agent, Directory
from roundtable.web.tokens import TokenTable
from supervisor.config.roster import Roster, RosterError
from supervisor.pool import Pool

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often it is looked whether workers that are leaving have done their last task."""

Keys = Mapping[str, SecretStr | None]
T = TypeVar("T")


@dataclass(slots=True)
class PoolSeats:
    """The pool's side: its roster, the tokens minted for it, and where they are let in.

    `read` gives the roster and the keys as they are now, told which roster is in force; it raises RosterError, OSError.
    """

    pool: Pool
    tokens: TokenTable
    minted: dict[str, str]
    roster: Roster
    keys: Keys
    agents: tuple[Agent, ...]
    read: Callable[[Roster], tuple[Roster, Keys]]
    leaving: tuple[Agent, ...] = ()
    """Off the roster, with a last task in hand: until that is done the board still knows them."""


@dataclass(slots=True)
class Seats:
    """Who may call the running board: the agents of the file at `path`, by `tokens`, and the workers of the pool."""

    path: Path
    tokens: TokenTable
    board: Board
    file: AgentsFile
    pool: PoolSeats | None = None
    _empty: Roster = field(default_factory=lambda: Roster(()))

    def reload(self) -> None:
        """Let in those whom the files name now. What is wrong is refused, each problem in the log; the old ones stay."""
        file = _read("agents_refused", lambda: load_agents(self.path)) or self.file
        roster, keys = self._read_roster()
        problems: tuple[str, ...] = ()
        for some_file, some_roster, some_keys in (
            (file, roster, keys),
            (file, *self._roster_in_force()),
            (self.file, roster, keys),
        ):
            try:
                everybody = merge_roster(some_file, some_roster.workers)
            except ConfigError as error:
                problems = problems or error.problems
                continue
            self._tell(problems, file, some_file, roster, some_roster)
            self.file = some_file
            self._seat(everybody.pool, some_roster, some_keys)
            return
        self._tell(problems, file, self.file, roster, self._roster_in_force()[0])

    def let_go(self) -> None:
        """Forget the workers that were leaving and have gone."""
        if (seats := self.pool) is None:
            return
        here = self._still_leaving(seats)
        gone = [agent.name for agent in seats.leaving if agent not in here]
        if gone:
            self._seat(seats.agents, seats.roster, seats.keys)
            log.info("workers_left", workers=gone)

    def _read_roster(self) -> tuple[Roster, Keys]:
        if (seats := self.pool) is None:
            return self._roster_in_force()
        return _read("roster_refused", lambda: seats.read(seats.roster)) or self._roster_in_force()

    def _roster_in_force(self) -> tuple[Roster, Keys]:
        return (self._empty, {}) if self.pool is None else (self.pool.roster, self.pool.keys)

    def _tell(
        self,
        problems: tuple[str, ...],
        file: AgentsFile,
        taken_file: AgentsFile,
        roster: Roster,
        taken_roster: Roster,
    ) -> None:
        for problem in problems:
            if taken_file is not file:
                log.error("agents_refused", problem=problem)
            if taken_roster is not roster:
                log.error("roster_refused", problem=problem)
        if taken_file is not self.file:
            for warning in taken_file.warnings:
                log.warning("configuration", advice=warning)
            log.info("agents_reloaded", agents=len(taken_file.agents))
        if taken_roster != self._roster_in_force()[0]:
            log.info("roster_reloaded", workers=len(taken_roster.workers))

    def _seat(self, workers: tuple[Agent, ...], roster: Roster, keys: Keys) -> None:
        """Who is gone is turned away at the door before the board takes its claims; who is new is let in before it works."""
        known = [*self.file.agents.values(), *workers]
        self.tokens.replace(self.file.agents)
        if (seats := self.pool) is not None:
            names = {agent.name for agent in known}
            former = (*seats.agents, *seats.leaving)
            seats.agents, seats.roster, seats.keys = workers, roster, keys
            seats.leaving = tuple(agent for agent in former if agent.name not in names)
            seats.leaving = self._still_leaving(seats)
            known += seats.leaving
            for agent in workers:
                seats.minted.setdefault(agent.name, new_token())
            seats.tokens.replace(by_digest(seats.minted, (*workers, *seats.leaving)))
        self.board.replace_agents(Directory(known))
        if seats is not None:
            seats.pool.replace_roster(roster, seats.minted, keys)

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


def _read(event: str, read: Callable[[], T]) -> T | None:
    """What is read, or None with each problem in the log."""
    try:
        return read()
    except (ConfigError, RosterError) as error:
        for problem in error.problems:
            log.error(event, problem=problem)
    except OSError as error:
        log.error(event, problem=str(error))
    return None

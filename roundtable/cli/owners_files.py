"""agents.json and the roster as the owner has written them, read together: each problem of both is told at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roundtable.config.agents import AgentsError, AgentsFile, load_agents
from roundtable.config.environment import read_environment
from roundtable.config.errors import ConfigError
from roundtable.config.roster import Roster as Everybody
from roundtable.config.roster import merge_roster, problems_together, worker_problems
from roundtable.config.settings import Settings
from supervisor.config.fields import in_file
from supervisor.config.keys import Keys, read_keys
from supervisor.config.roster import Draft, Roster, gone, read_draft


@dataclass(frozen=True, slots=True)
class PoolFile:
    """The roster, with the keys that it names in the environment."""

    roster: Roster
    keys: Keys


NO_POOL = PoolFile(Roster(()), {})


@dataclass(frozen=True, slots=True)
class OwnersFiles:
    """What the files say. One that is wrong by itself is None. `clashes` are what keeps the two from being used together."""

    agents: AgentsFile | None
    pool: PoolFile | None
    agents_problems: tuple[str, ...] = ()
    pool_problems: tuple[str, ...] = ()
    clashes: tuple[str, ...] = ()

    def sound(self) -> tuple[AgentsFile, PoolFile]:
        """Both. Raises ConfigError with every problem."""
        problems = [*self.agents_problems, *self.pool_problems, *self.clashes]
        if problems or self.agents is None or self.pool is None:
            raise ConfigError(problems)
        return self.agents, self.pool


def merge_files(agents: AgentsFile, roster: Roster, path: Path) -> Everybody:
    """Everybody who may call the board, by agents.json and the roster in the file at this path.

    Raises ConfigError if the two cannot be used together.
    """
    try:
        return merge_roster(agents, roster.workers)
    except ConfigError as error:
        raise ConfigError(in_file(path, error.problems)) from None


def read_agents_file(path: Path) -> OwnersFiles:
    """agents.json alone, for a program without a pool."""
    agents, _, problems = _read_agents(path)
    return OwnersFiles(agents, NO_POOL, problems)


def read_owners_files(settings: Settings, directory: Path, in_force: Roster) -> OwnersFiles:
    """Both files, and the keys from the environment and the .env of this directory.

    The pool is optional, so no roster file is a roster without workers, unless workers of one are at work (`in_force`).
    """
    agents, names, agents_problems = _read_agents(settings.agents_config)
    path = settings.workers_config
    try:
        draft = read_draft(path)
    except FileNotFoundError:
        if in_force.workers:
            return OwnersFiles(agents, None, agents_problems, gone(path))
        return OwnersFiles(agents, NO_POOL, agents_problems)
    environment = read_environment(os.environ, directory)
    keys, problems = _checked(draft, environment.values)
    pool_problems = (*in_file(path, problems), *environment.problems)
    return OwnersFiles(
        agents,
        None if pool_problems else PoolFile(draft.roster, keys),
        agents_problems,
        pool_problems,
        in_file(path, problems_together(agents, names, draft.roster.workers, draft.unfinished)),
    )


def _read_agents(path: Path) -> tuple[AgentsFile | None, frozenset[str], tuple[str, ...]]:
    """The file, the names in it as far as they can be read, and what is wrong with it."""
    try:
        file = load_agents(path)
    except AgentsError as error:
        return None, error.names, error.problems
    return file, frozenset(agent.name for agent in file.agents.values()), ()


def _checked(draft: Draft, environment: Mapping[str, str]) -> tuple[Keys, list[str]]:
    keys, key_problems = read_keys(draft, environment)
    return keys, [*draft.problems, *worker_problems(draft.roster.workers), *key_problems]

"""The agents of agents.json together with the workers that the program itself runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from roundtable.config.agents import AgentsFile
from roundtable.config.errors import ConfigError, shown
from roundtable.config.labels import directory_problems, name_problem, skills_problems
from roundtable.rules.agents import Agent, Directory, Role


class RosterWorker(Protocol):
    """What the board has to know of a worker of the pool."""

    @property
    def name(self) -> str: ...
    @property
    def skills(self) -> Sequence[str]: ...
    @property
    def concurrency(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Roster:
    """`directory` is everybody, `pool` those of them that need a token minted for this run."""

    directory: Directory
    pool: tuple[Agent, ...]


def merge_roster(agents_file: AgentsFile, roster_workers: Iterable[RosterWorker]) -> Roster:
    """Everybody who may call the board. A worker of the pool may hold as many tasks as it does at once.

    Raises ConfigError with one line for each problem: a name that is in both files or twice in one, names or skills
    that the board does not take, more agents than one list of them holds.
    """
    named = list(agents_file.agents.values())
    workers = list(roster_workers)
    taken = {agent.name for agent in named}
    problems: list[str] = []
    for number, worker in enumerate(workers, start=1):
        place = f"pool worker {number}"
        if problem := name_problem(worker.name):
            problems.append(f"{place}: {problem}")
        elif worker.name in taken:
            problems.append(
                f"{place}: the name {shown(worker.name)} is in the agents file too; one of them must change"
            )
        problems += [f"{place}: {problem}" for problem in skills_problems(worker.skills)]
    counts = Counter(worker.name for worker in workers)
    problems += [
        f"{count} pool workers are named {shown(name)}" for name, count in counts.items() if count > 1
    ]
    if problems:
        raise ConfigError(problems)
    pool = tuple(
        Agent(worker.name, Role.WORKER, tuple(worker.skills), max_claims=worker.concurrency)
        for worker in workers
    )
    everybody = [*named, *pool]
    if too_many := directory_problems(everybody):
        raise ConfigError(too_many)
    return Roster(Directory(everybody), pool)

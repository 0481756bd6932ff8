"""The agents of agents.json together with the workers that the program itself runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from roundtable.config.agents import AgentsFile
from roundtable.config.errors import ConfigError
from roundtable.config.labels import directory_problems, name_problem, skills_problems
from roundtable.rules.agents import Agent, Directory, Role


class NamedTable(Protocol):
    """A worker's table in the roster, perhaps one that is wrong: then its name may be None."""

    @property
    def name(self) -> str | None: ...
    @property
    def place(self) -> str:
        """Where its owner finds it in the roster."""


class RosterWorker(NamedTable, Protocol):
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


def merge_roster(agents_file: AgentsFile, workers: Sequence[RosterWorker]) -> Roster:
    """Everybody who may call the board. A worker of the pool may hold as many tasks as it does at once.

    The workers' names differ from each other. Raises ConfigError with what `worker_problems` and `problems_together` find.
    """
    named = list(agents_file.agents.values())
    names = {agent.name for agent in named}
    if problems := [*worker_problems(workers), *problems_together(agents_file, names, workers)]:
        raise ConfigError(problems)
    pool = _agents(workers)
    return Roster(Directory([*named, *pool]), pool)


def worker_problems(workers: Iterable[RosterWorker]) -> list[str]:
    """Names and skills that the board does not take, each with its place in the roster."""
    problems = []
    for worker in workers:
        if problem := name_problem(worker.name):
            problems.append(f"{worker.place}: name: {problem}")
        problems += [f"{worker.place}: skills: {problem}" for problem in skills_problems(worker.skills)]
    return problems


def problems_together(
    agents_file: AgentsFile | None,
    names: Collection[str],
    workers: Sequence[RosterWorker],
    unfinished: Sequence[NamedTable] = (),
) -> list[str]:
    """What keeps the agents file from being used with this roster: names that are in both, more agents than fit.

    `names` are those in the agents file, which may be None: wrong for other reasons. `unfinished`: workers that are so.
    """
    problems = [
        f"{table.place}: name: is in the agents file too; one of them must change"
        for table in (*workers, *unfinished)
        if table.name in names
    ]
    if agents_file is not None:
        everybody = [*agents_file.agents.values(), *_agents(workers)]
        problems += [f"with the agents file: {problem}" for problem in directory_problems(everybody)]
    return problems


def _agents(workers: Iterable[RosterWorker]) -> tuple[Agent, ...]:
    return tuple(
        Agent(worker.name, Role.WORKER, tuple(worker.skills), max_claims=worker.concurrency)
        for worker in workers
    )

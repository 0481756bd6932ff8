"""Who sits at the table: the agents that the owner's files name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

BOARD_NAME = "board"
"""Who acts in the history when the board itself does something. No agent has this name."""


class Role(StrEnum):
    LEADER = "leader"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. `max_claims` is how many tasks it may hold at a time (None: the board's default)."""

    name: str
    role: Role
    skills: tuple[str, ...] = ()
    max_claims: int | None = None

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER


class Directory:
    """All agents known now, by name. Immutable: a reload makes a new one.

    Raises ValueError unless there is exactly one leader and every name is unique.
    """

    def __init__(self, agents: Iterable[Agent]) -> None:
        everyone = tuple(agents)
        self._by_name = {agent.name: agent for agent in everyone}
        if len(self._by_name) != len(everyone):
            raise ValueError("two agents have the same name")
        leaders = [agent for agent in everyone if agent.is_leader]
        if len(leaders) != 1:
            raise ValueError(f"there must be exactly one leader, not {len(leaders)}")
        self.leader = leaders[0]
        self.workers = tuple(agent for agent in everyone if not agent.is_leader)
        self._skills = frozenset(skill for worker in self.workers for skill in worker.skills)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._by_name.values())

    def find(self, name: str) -> Agent | None:
        return self._by_name.get(name)

    def is_worker(self, name: str) -> bool:
        """Whether it is known, and one of those that can hold a task."""
        agent = self._by_name.get(name)
        return agent is not None and not agent.is_leader

    def has_skill(self, skill: str) -> bool:
        """Whether any worker has it."""
        return skill in self._skills

"""What one command sees while it is carried out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from roundtable.rules.agents import BOARD_NAME, Agent, Directory, Role
from roundtable.rules.change import Event
from roundtable.rules.limits import LEASE_SECONDS_DEFAULT, LIVE_SECONDS, WAITS_PER_TOKEN
from roundtable.rules.model import Now


@dataclass(frozen=True, slots=True)
class Limits:
    """The owner's bounds. `calls_per_minute` 0 is no bound."""

    claims_per_worker: int
    calls_per_minute: int
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    waits_per_token: int = WAITS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Told:
    """One event as the program's log shows it: no text of any agent in it."""

    event: Event
    task_id: int
    agent: str
    details: dict[str, object]


@dataclass(frozen=True, slots=True)
class Ready:
    """A task that somebody can claim since this batch: one worker if it is assigned, else whoever has the skill.

    `cooling` are those whose claim_next passes over it for now.
    """

    task_id: int
    assigned_to: str | None
    required_skill: str | None
    cooling: frozenset[str] = frozenset()

    def suits(self, agent: Agent) -> bool:
        """Whether the agent is one of those."""
        if agent.name in self.cooling:
            return False
        if self.assigned_to is not None:
            return self.assigned_to == agent.name
        return self.required_skill is None or self.required_skill in agent.skills


class Presence:
    """When each agent was last seen: in memory while the server lives, from the audit log before that."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._seen: dict[str, tuple[int, str] | None] = {}

    def note(self, agent: Agent, arrived: Now) -> None:
        self._seen[agent.name] = (arrived.utc_ms, arrived.text)

    def last_seen(self, name: str) -> str | None:
        """RFC 3339, or None for never."""
        seen = self._find(name)
        return seen[1] if seen else None

    def word(self, name: str, now: Now) -> str:
        """`live`, `idle` or `never`."""
        seen = self._find(name)
        if seen is None:
            return "never"
        return "live" if now.utc_ms - seen[0] < LIVE_SECONDS * 1000 else "idle"

    def _find(self, name: str) -> tuple[int, str] | None:
        if name not in self._seen:
            row = self._db.execute(
                "SELECT time FROM audit_log WHERE agent = ? ORDER BY audit_id DESC LIMIT 1", (name,)
            ).fetchone()
            self._seen[name] = (
                (int(datetime.fromisoformat(row[0]).timestamp() * 1000), row[0]) if row else None
            )
        return self._seen[name]


BOARD = Agent(BOARD_NAME, Role.WORKER)
"""The board itself, where it acts on its own."""


@dataclass(slots=True)
class Unit:
    """The surroundings of one command: who asks, when, and the board it is asked of."""

    db: sqlite3.Connection
    caller: Agent
    now: Now
    directory: Directory
    presence: Presence
    limits: Limits
    board_id: str
    new_claim_id: Callable[[], str]
    accepts_claims: bool = True
    writable: bool = True
    told: list[Told] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    concerned: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """Begin to note anew what happened."""
        self.told.clear()
        self.ready.clear()
        self.concerned.clear()

    @property
    def as_board(self) -> Unit:
        """The same surroundings, with the board itself as the one who acts."""
        return replace(self, caller=BOARD)

    @property
    def claims_allowed(self) -> int:
        """How many tasks the caller may hold at a time."""
        return self.caller.max_claims or self.limits.claims_per_worker

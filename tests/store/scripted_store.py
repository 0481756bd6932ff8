"""A board's store for tests: a real file, a clock that only the test moves, claim ids in order."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roundtable.board.clock import reading
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import Call, Command, ReplaceAgents, WaitForUpdates
from roundtable.rules.errors import BoardError
from roundtable.rules.model import Now
from roundtable.store.database import open_database
from roundtable.store.execute import Executed, Executor
from roundtable.store.unit import BOARD, Limits

LEAD = Agent("lead", Role.LEADER)
ANN = Agent("ann", Role.WORKER, ("python", "sql"))
BOB = Agent("bob", Role.WORKER)
CY = Agent("cy", Role.WORKER, ("sql",))
TABLE = Directory([LEAD, ANN, BOB, CY])

START_MS = 1_796_000_400_000
"""A full hour."""


class ScriptedClock:
    """Wall time and board time, side by side until a test sets the wall clock."""

    def __init__(self) -> None:
        self.utc_ms = START_MS
        self.board_ms = START_MS

    def __call__(self) -> Now:
        return reading(self.utc_ms, self.board_ms)

    def pass_seconds(self, seconds: float) -> None:
        self.utc_ms += int(seconds * 1000)
        self.board_ms += int(seconds * 1000)


class Store:
    """The executor of one file, asked without an event loop. `reopen` is a stop and a start."""

    def __init__(
        self,
        path: Path,
        make: type[Executor] = Executor,
        claims_per_worker: int = 5,
        directory: Directory = TABLE,
    ) -> None:
        self.path = path
        self.clock = ScriptedClock()
        self._make = make
        self._limits = Limits(claims_per_worker, 60)
        self._directory = directory
        self._claim_ids = (f"claim-{number}" for number in itertools.count(1))
        self.executor = self._open()

    def _open(self) -> Executor:
        db = open_database(self.path)
        executor = self._make(db, self._directory, self._limits, lambda: next(self._claim_ids))
        executor.start(self.clock())
        return executor

    def reopen(self) -> None:
        self.executor.close()
        self.executor = self._open()

    def replace_agents(self, *agents: Agent) -> None:
        """From now on these are the agents, after a restart too."""
        self._directory = Directory(agents)
        self.run(Call(BOARD, "agents", ReplaceAgents(self._directory), self.clock()))

    def events(self, task_id: int) -> list[tuple[str, str]]:
        """What happened to the task: who did it, and what."""
        return self.rows("SELECT agent, event FROM history WHERE task_id = ? ORDER BY event_id", (task_id,))

    def told(self, caller: Agent, cursor: str | None = None) -> tuple[str, list[tuple[str, int]]]:
        """A cursor to go on with, and what the caller is told: event and task."""
        news = self.ask(caller, WaitForUpdates(cursor, 0))
        return news["cursor"], [(event["event"], event["task_id"]) for event in news["updates"]]

    def close(self) -> None:
        self.executor.close()

    def call(self, caller: Agent, command: Command[Any], tool: str | None = None) -> Call[Any]:
        return Call(caller, tool or tool_of(command), command, self.clock())

    def run(self, *calls: Call[Any]) -> Executed:
        """One batch."""
        return self.executor.execute(calls, self.clock())

    def ask(self, caller: Agent, command: Command[Any]) -> Any:
        """One command in a batch of its own: its reply, or its BoardError raised."""
        [outcome] = self.run(self.call(caller, command)).outcomes
        return outcome.unwrap()

    def refusal(self, caller: Agent, command: Command[Any]) -> BoardError:
        [outcome] = self.run(self.call(caller, command)).outcomes
        assert outcome.error is not None, f"{command} was not refused"
        return outcome.error

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a reader of the file sees, over a connection of its own."""
        with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True) as db:
            found = db.execute(sql, values).fetchall()
        db.close()
        return found

    def audit(self) -> list[tuple[str, str, str]]:
        return self.rows("SELECT agent, tool, outcome FROM audit_log ORDER BY audit_id")


def tool_of(command: Command[Any]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()

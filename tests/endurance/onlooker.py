"""A board and its pool looked at from outside, through their files and as their leader, while they are killed again and again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import trio

from supervisor.memory.ledger import pool_ledger_path
from tests.acceptance.seats import HttpSeat
from tests.endurance.soundness import faults_of, open_readonly

OPEN_TASKS: Final = 60
LOOK_SECONDS: Final = 0.05


@contextmanager
def _open_where_there(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The file, or None where a kill came before it was made or had its tables."""
    if not path.exists():
        yield None
        return
    with open_readonly(path) as db:
        has_tables = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'claims'").fetchone()
        yield db if has_tables else None


@dataclass
class Onlooker:
    """One folder of `roundtable up`, dead or alive."""

    folder: Path
    token: str
    created: dict[str, bool] = field(default_factory=dict)
    """By title: whether the board has said that it has the task."""

    @property
    def database(self) -> Path:
        return self.folder / "roundtable.db"

    @property
    def pool_file(self) -> Path:
        return pool_ledger_path(self.database)

    def held(self) -> dict[str, int]:
        """The claims that last: claim_id and task."""
        with _open_where_there(self.database) as db:
            if db is None:
                return {}
            return dict(db.execute("SELECT claim_id, task_id FROM claims WHERE ended_at IS NULL"))

    def faults(self) -> list[str]:
        with _open_where_there(self.database) as db:
            return [] if db is None else faults_of(db, calls_are_repeated=True)

    def known_to_pool(self) -> set[str]:
        """The claims that the pool has noted. It must not run: its file has one owner."""
        with _open_where_there(self.pool_file) as db:
            if db is None:
                return set()
            return {claim_id for (claim_id,) in db.execute("SELECT claim_id FROM claims")}

    async def lead(self, url: str) -> None:
        """Keep OPEN_TASKS tasks open, until the board dies."""
        seat = HttpSeat(self.token)
        try:
            with suppress(httpx.TransportError):
                while True:
                    if self.count("status = 'open'") < OPEN_TASKS:
                        title = f"Task number {len(self.created) + 1}"
                        self.created[title] = False
                        await seat.call(url, "create_task", title=title, description="d", max_attempts=100)
                        self.created[title] = True
                    else:
                        await trio.sleep(LOOK_SECONDS)
        finally:  # whoever ends this by a cancel, too
            with trio.CancelScope(shield=True):
                await seat.aclose()

    def count(self, condition: str) -> int:
        with open_readonly(self.database) as db:
            (count,) = db.execute(f"SELECT count(*) FROM tasks WHERE {condition}").fetchone()
        return int(count)

    async def wait_ended(self, claims: set[str], seconds: float) -> float | None:
        """How long it took until none of these claims lasted any more; None: longer than this."""
        started = trio.current_time()
        with trio.move_on_after(seconds):
            while True:
                if not claims & self.held().keys():
                    return trio.current_time() - started
                await trio.sleep(LOOK_SECONDS)
        return None

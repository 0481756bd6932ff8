"""How the running program stands, as it tells `status` and `watch` at its socket: plain values, no text but titles."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from roundtable import __version__
from roundtable.board.actor import Board
from roundtable.cli.server import Server
from roundtable.rules.model import Now, utc_text
from roundtable.store.errors import StoreError
from roundtable.store.overview import Overview, read_overview
from roundtable.store.reading import open_reading
from supervisor.rules.text import in_one_line
from supervisor.status.snapshot import PoolStatus
from supervisor.status.socket import open_status_socket

READ_SECONDS: Final = 3.0
"""Less than whoever asks is given: what is known without the file is told in any case."""


@asynccontextmanager
async def open_standing(
    database: Path, server: Server, pool_status: Callable[[], PoolStatus | None]
) -> AsyncIterator[None]:
    """Tell at the socket of this database how server and pool stand, for as long as the context lasts.

    If there can be no socket, or the file cannot be read, the program goes on all the same.
    """
    standing = Standing(database, server, pool_status)
    async with open_status_socket(database, standing.snapshot):
        yield


@dataclass(frozen=True, slots=True)
class Standing:
    """`snapshot` gives it as of now. The file is read in a thread that no stop waits for, never by the board itself."""

    database: Path
    server: Server
    pool_status: Callable[[], PoolStatus | None]
    _one_at_a_time: trio.CapacityLimiter = field(default_factory=partial(trio.CapacityLimiter, 1))

    async def snapshot(self) -> dict[str, Any]:
        overview, problem = None, f"the database file could not be read within {READ_SECONDS:g} s"
        with trio.move_on_after(READ_SECONDS):
            overview, problem = await trio.to_thread.run_sync(
                partial(_read, self.database), abandon_on_cancel=True, limiter=self._one_at_a_time
            )
        board = self.server.board
        now = board.clock()
        pool = self.pool_status()
        return {
            "time": now.text,
            "version": __version__,
            "process": os.getpid(),
            "url": self.server.urls[0],
            "board": {
                **({"problem": in_one_line(problem)} if overview is None else _seen(overview, now)),
                **self._known(board),
            },
            "pool": None if pool is None else pool.as_json(),
        }

    def _known(self, board: Board) -> dict[str, Any]:
        connections, head = self.server.connections(), board.audit_head
        return {
            "waits": {"for_tasks": board.waits.claimants, "for_news": board.waits.listeners},
            "connections": {"trusted": connections.trusted, "unknown": connections.unknown},
            "trouble": None if board.trouble is None else in_one_line(board.trouble),
            "audit_head": {"audit_id": head.audit_id, "sha256": head.sha256},
        }


def _read(database: Path) -> tuple[Overview | None, str]:
    """The board, or None and why not."""
    try:
        with open_reading(database) as db:
            return read_overview(db), ""
    except StoreError as error:
        return None, str(error)


def _seen(overview: Overview, now: Now) -> dict[str, Any]:
    return {
        "tasks": overview.counts,
        "needs_attention": {
            "count": overview.stuck_count,
            "tasks": [
                {
                    "task_id": task.task_id,
                    "title": in_one_line(task.title),
                    "reasons": list(task.reasons),
                    "since": task.since,
                }
                for task in overview.stuck
            ],
        },
        "held": {
            "count": overview.counts["claimed"],
            "tasks": [
                {
                    "task_id": task.task_id,
                    "title": in_one_line(task.title),
                    "agent": task.agent,
                    "since": task.since,
                    "attempt": task.attempt,
                    "lease_expires_at": utc_text(now.utc_ms + task.lease_until_ms - now.board_ms),
                }
                for task in overview.held
            ],
        },
    }

"""`roundtable up`: board server and worker pool in one program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import structlog
import trio

from roundtable.cli.init import Written, describe_files, initialise
from roundtable.cli.owners_files import PoolFile, read_owners_files
from roundtable.cli.reloading import PoolSeats, Seats, keep_reloading
from roundtable.cli.running import Signals, run, settle
from roundtable.cli.serve import announce, start_settings, warn
from roundtable.cli.server import Server, open_server, pool_listener, public_listener
from roundtable.cli.standing import open_standing
from roundtable.config.agents import AgentsFile
from roundtable.config.roster import merge_roster
from roundtable.config.settings import Settings
from roundtable.config.tokens import new_token
from supervisor.config.keys import Keys
from supervisor.config.roster import Roster
from supervisor.memory.ledger import pool_ledger_path
from supervisor.pool import Pool, open_pool

log = structlog.get_logger(__name__)


@click.command("up")
def up_command() -> None:
    """Run the board server and the worker pool, until told to stop (Ctrl-C).

    Without a configuration it makes one first, as `roundtable init` does. SIGHUP makes it read agents.json and the
    roster again.
    """
    run(up, reloads=True)


async def up(signals: Signals) -> int:
    """Run board and pool until told to stop. Raises ConfigError, StoreError, OSError."""
    settings = start_settings()
    if not settings.agents_config.exists():
        initialise(settings, _first_words)
    file, pool = read_owners_files(settings, Path.cwd(), Roster(())).sound()
    warn(file.warnings)
    async with (
        open_roundtable(settings, file, pool.roster, pool.keys) as roundtable,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(keep_reloading, signals, roundtable.seats)
        announce(
            settings,
            roundtable.server.urls[0],
            f"{len(file.agents)} agents, {len(pool.roster.workers)} pool workers",
        )
        if not pool.roster.workers:
            log.info("no_pool_workers", advice=_why_no_workers(settings))
        settle()
        await signals.stop.wait()
        nursery.cancel_scope.cancel()
    return 0


@dataclass(frozen=True, slots=True)
class Roundtable:
    """Board and pool that run. The owner's agents come in at the server's first URL."""

    server: Server
    seats: Seats


@asynccontextmanager
async def open_roundtable(
    settings: Settings, file: AgentsFile, roster: Roster, keys: Keys
) -> AsyncIterator[Roundtable]:
    """Board and pool for as long as the context lasts.

    On leaving: nobody gets a new claim, the pool drains and releases while everything else is answered, then the
    server stops. Raises ConfigError, StoreError, OSError.
    """
    everybody = merge_roster(file, roster.workers)
    tokens = {agent.name: new_token() for agent in everybody.pool}
    # The pool's way in is there even for an empty roster, which the owner may fill while the program runs.
    public, inner = public_listener(settings, file.agents), pool_listener(tokens, everybody.pool)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_server(settings, everybody.directory, [public, inner]))
        pool: Pool | None = None
        # Outside the pool, so that it tells how the pool drains.
        await stack.enter_async_context(
            open_standing(settings.db_path, server, lambda: None if pool is None else pool.status())
        )
        pool = await stack.enter_async_context(
            open_pool(
                roster,
                url=server.urls[1],
                tokens=tokens,
                keys=keys,
                ledger_path=pool_ledger_path(settings.db_path),
                tells_tasks=False,  # the board does
            )
        )
        pool_seats = PoolSeats(
            pool, inner.tokens, tokens, settings.workers_config, PoolFile(roster, keys), everybody.pool
        )
        read = partial(read_owners_files, settings, Path.cwd())
        seats = Seats(read, public.tokens, server.board, file, pool_seats)
        try:
            yield Roundtable(server, seats)
        finally:
            server.board.close_claims()


def _why_no_workers(settings: Settings) -> str:
    what = "names none" if settings.workers_config.exists() else "is not there"
    return f"the roster {settings.workers_config} {what}"


def _first_words(written: Written, settings: Settings) -> str:
    return f"There is no configuration here yet, so `roundtable init` runs first.\n\n{describe_files(written, settings)}\n"

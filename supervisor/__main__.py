"""`python -m supervisor`: the worker pool without the board, on this machine or another."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import structlog
import trio

from supervisor.config.fields import ConfigurationError
from supervisor.config.settings import (
    LEDGER,
    LogSettings,
    PoolSettings,
    read_environment,
    read_log_settings,
    read_pool_settings,
)
from supervisor.log.setup import configure_logging
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import LedgerError
from supervisor.pool import Pool, open_pool
from supervisor.status.snapshot import PoolStatus, snapshot_of
from supervisor.status.socket import open_status_socket

EXIT_FINE, EXIT_NOTHING_TO_DO, EXIT_WRONG_CONFIGURATION = 0, 1, 2

log = structlog.get_logger(__name__)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run until SIGINT or SIGTERM. Exits with 0, 1 when every worker is parked, 2 for a wrong configuration."""
    parser = argparse.ArgumentParser(
        prog="python -m supervisor",
        description="Run model workers on a Roundtable board that runs elsewhere.",
        epilog="Reads config/workers.toml (ROUNDTABLE_WORKERS_CONFIG), where each worker names its token_env; without "
        "that file runs one worker from ROUNDTABLE_URL, ROUNDTABLE_TOKEN, WORKER_MODEL_BASE_URL, WORKER_MODEL_NAME, "
        "WORKER_API_KEY, WORKER_MAX_TASKS_PER_HOUR, WORKER_MODEL_TIMEOUT, WORKER_COOLDOWN_SECONDS, "
        "WORKER_MAX_FAILURES and WORKER_POLL_INTERVAL, from the environment or .env. Keeps what the workers have used up "
        f"in {LEDGER}, in the folder where it is started. SIGHUP makes it read all of this again.",
    )
    parser.parse_args(arguments)
    try:
        logs, settings = _read_start()
    except ConfigurationError as error:
        sys.exit(_wrong(error.problems))
    configure_logging(logs.format, logs.level)
    # What the receiver puts back when it closes: a late SIGHUP must not turn a clean end into a death.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        sys.exit(trio.run(_run, settings))
    except LedgerError as error:
        sys.exit(_wrong(error.problems))


def _read_start() -> tuple[LogSettings, PoolSettings]:
    """Raises ConfigurationError with the problems of both."""
    environment = read_environment(os.environ, Path(".env"))
    problems: list[str] = []
    logs, settings = None, None
    try:
        logs = read_log_settings(environment)
    except ConfigurationError as error:
        problems += error.problems
    try:
        settings = read_pool_settings(environment, Path())
    except ConfigurationError as error:
        problems += error.problems
    if logs is None or settings is None:
        raise ConfigurationError(problems)
    return logs, settings


def _read_settings(in_force: PoolSettings) -> PoolSettings:
    """Raises ConfigurationError."""
    return read_pool_settings(read_environment(os.environ, Path(".env")), Path(), in_force)


def _wrong(problems: list[str] | tuple[str, ...]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    return EXIT_WRONG_CONFIGURATION


async def _run(settings: PoolSettings) -> int:
    """The first signal drains the pool; a second one ends the process at once, whatever is still claimed.

    Raises LedgerError.
    """
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        stopping = trio.Event()
        ledger_error: LedgerError | None = None
        async with trio.open_nursery() as nursery:
            hang_ups, next_hang_up = trio.open_memory_channel[None](1)

            async def obey_signals() -> None:
                async for number in signals:
                    if number == signal.SIGHUP:
                        with suppress(trio.WouldBlock):  # Those that come together are one.
                            hang_ups.send_nowait(None)
                        continue
                    if stopping.is_set():
                        os._exit(128 + number)
                    log.info("pool_stopping", signal=signal.Signals(number).name)
                    stopping.set()

            nursery.start_soon(obey_signals)
            log.info(
                "pool_started",
                workers=[worker.name for worker in settings.roster.workers],
                source="the environment" if settings.path is None else str(settings.path),
            )
            pool: Pool | None = None

            async def snapshot() -> dict[str, Any]:
                # Nothing to tell yet, or how the pool is or ends.
                status = PoolStatus(DayClock().text(trio.current_time())) if pool is None else pool.status()
                return snapshot_of(status, settings.url)

            try:
                async with (
                    # Outside the pool, so that it tells how the pool drains.
                    open_status_socket(Path(LEDGER), snapshot),
                    open_pool(
                        settings.roster,
                        url=settings.url,
                        tokens=settings.tokens,
                        keys=settings.keys,
                        ledger_path=Path(LEDGER),
                    ) as opened,
                    trio.open_nursery() as waiting,
                ):
                    pool = opened

                    async def leave_when(wait: Callable[[], Awaitable[None]]) -> None:
                        await wait()
                        waiting.cancel_scope.cancel()

                    async def reload() -> None:
                        in_force = settings
                        async for _ in next_hang_up:
                            in_force = _replace_roster(opened, in_force)

                    waiting.start_soon(leave_when, stopping.wait)
                    waiting.start_soon(leave_when, opened.wait_ended)
                    waiting.start_soon(reload)
            except LedgerError as error:
                ledger_error = error
            nursery.cancel_scope.cancel()
        if ledger_error is not None:
            raise ledger_error
    if stopping.is_set():
        log.info("pool_stopped")
        return EXIT_FINE
    log.error("all_workers_parked")
    return EXIT_NOTHING_TO_DO


def _replace_roster(pool: Pool, in_force: PoolSettings) -> PoolSettings:
    """Work by what the owner has written since. What is wrong is told, and changes nothing. Returns what is in force now."""
    try:
        settings = _read_settings(in_force)
    except ConfigurationError as error:
        for problem in error.problems:
            log.error("roster_refused", problem=problem)
        return in_force
    if settings.url != in_force.url:
        log.error("roster_refused", problem="the board's url has changed, which takes a restart")
        return in_force
    pool.replace_roster(settings.roster, settings.tokens, settings.keys)
    log.info("roster_replaced", workers=[worker.name for worker in settings.roster.workers])
    return settings


if __name__ == "__main__":
    main()

"""`python -m supervisor`: the worker pool without the board, on this machine or another."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import structlog
import trio

from supervisor.fields import ConfigurationError
from supervisor.logs import configure_logging
from supervisor.pool import open_pool
from supervisor.settings import PoolSettings, read_environment, read_log_settings, read_pool_settings

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
        "WORKER_MAX_FAILURES and WORKER_POLL_INTERVAL, from the environment or .env.",
    )
    parser.parse_args(arguments)
    try:
        environment = read_environment(os.environ, Path(".env"))
        logs = read_log_settings(environment)
        settings = read_pool_settings(environment, Path())
    except ConfigurationError as error:
        sys.exit(_wrong(error.problems))
    except OSError as error:
        sys.exit(_wrong([f"{error.filename}: {error.strerror}"]))
    configure_logging(logs.format, logs.level)
    sys.exit(trio.run(_run, settings))


def _wrong(problems: list[str] | tuple[str, ...]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    return EXIT_WRONG_CONFIGURATION


async def _run(settings: PoolSettings) -> int:
    """The first signal drains the pool; a second one ends the process at once, whatever is still claimed."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            stopping = trio.Event()

            async def obey_signals() -> None:
                async for number in signals:
                    if stopping.is_set():
                        os._exit(128 + number)
                    log.info("pool_stopping", signal=signal.Signals(number).name)
                    stopping.set()

            nursery.start_soon(obey_signals)
            log.info(
                "pool_started",
                workers=[worker.name for worker in settings.roster.workers],
                source=settings.source,
            )
            async with (
                open_pool(
                    settings.roster, url=settings.url, tokens=settings.tokens, keys=settings.keys
                ) as pool,
                trio.open_nursery() as waiting,
            ):

                async def leave_when(wait: Callable[[], Awaitable[None]]) -> None:
                    await wait()
                    waiting.cancel_scope.cancel()

                waiting.start_soon(leave_when, stopping.wait)
                waiting.start_soon(leave_when, pool.wait_ended)
            nursery.cancel_scope.cancel()
    if stopping.is_set():
        log.info("pool_stopped")
        return EXIT_FINE
    log.error("all_workers_parked")
    return EXIT_NOTHING_TO_DO


if __name__ == "__main__":
    main()

"""Running a program until it is told to stop: signals, exit codes, and what is said when something is wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

import click
import structlog
import trio

from roundtable.config.errors import ConfigError
from roundtable.store.errors import StoreError
from supervisor.local_model.errors import LocalModelError
from supervisor.roster import RosterError

log = structlog.get_logger(__name__)

EXIT_FAULT = 1
EXIT_CONFIGURATION = 2

Work = Callable[[trio.Event], Awaitable[int]]
"""A program: takes the event that tells it to stop, and returns its exit code."""


def run(work: Work) -> None:
    """Run the program and exit the process with its code.

    The first SIGINT or SIGTERM sets the event, the second ends the process at once. What the owner has to put right
    is printed, one line each, with exit code 2; a fault of ours is logged with its traceback.
    """
    try:
        code = trio.run(_with_signals, work, strict_exception_groups=True)
    except Exception as error:
        code = _tell(error)
    if sys.stdout is not None:  # it is where the program was started with a closed one
        with suppress(OSError, ValueError):
            sys.stdout.flush()
    raise SystemExit(code)


async def _with_signals(work: Work) -> int:
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, signals, stop)
            code = await work(stop)
            nursery.cancel_scope.cancel()
    return code


async def _watch(signals: AsyncIterator[int], stop: trio.Event) -> None:
    async for number in signals:
        if stop.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=signal.Signals(number).name)
        stop.set()


def _tell(error: Exception) -> int:
    problems = [line for cause in _causes(error) for line in _problems(cause)]
    if not problems:
        log.error("fault", exc_info=error)
        return EXIT_FAULT
    for line in problems:
        click.echo(line, err=True)
    return EXIT_CONFIGURATION


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _problems(error: BaseException) -> tuple[str, ...]:
    """What the owner is told of an error, or nothing if the fault is ours."""
    match error:
        case ConfigError() | RosterError():
            return error.problems
        case StoreError() | LocalModelError():
            return (str(error),)
        case OSError():
            return (str(error),)
        case _:
            return ()

"""Running a program until it is told to stop: signals, exit codes, and what is said when something is wrong."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import click
import structlog
import trio

from roundtable.config.errors import ConfigError
from roundtable.store.errors import StoreError
from supervisor.config.fields import ConfigurationError
from supervisor.local_model.errors import LocalModelError

log = structlog.get_logger(__name__)

EXIT_FAULT = 1
EXIT_CONFIGURATION = 2


class Signals:
    """What the owner tells a running program: `stop` once, and any number of hang-ups."""

    def __init__(self) -> None:
        self.stop = trio.Event()
        self._hung_up = trio.Event()

    def hang_up(self) -> None:
        self._hung_up.set()

    async def next_hang_up(self) -> None:
        """Wait for one. Those that come while the last one is being dealt with are one together, and none is lost."""
        await self._hung_up.wait()
        self._hung_up = trio.Event()


Work = Callable[[Signals], Awaitable[int]]
"""A program: takes what the owner tells it, and returns its exit code."""


def run(work: Work, *, reloads: bool) -> None:
    """Run the program and exit the process with its code.

    The first SIGINT or SIGTERM sets `stop`, the second ends the process at once. SIGHUP is a hang-up for a program
    that reloads something, and never ends it; for any other it is a stop. What the owner has to put right is printed,
    one line each, with exit code 2; a fault of ours is logged with its traceback.
    """
    if reloads:
        # What the receiver puts back when it closes: a late SIGHUP must not turn a clean end into a death.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = trio.run(partial(_with_signals, work, reloads), strict_exception_groups=True)
    except Exception as error:
        code = _tell(error)
    if sys.stdout is not None:  # it is where the program was started with a closed one
        with suppress(OSError, ValueError):
            sys.stdout.flush()
    raise SystemExit(code)


def settle() -> None:
    """To be called when the program has started: what it has loaded stays as long as it does.

    A full garbage collection walks through everything else from now on. Through all modules it took 90 ms, in which
    nobody was answered.
    """
    gc.freeze()


async def _with_signals(work: Work, reloads: bool) -> int:
    signals = Signals()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, received, signals, reloads)
            code = await work(signals)
            nursery.cancel_scope.cancel()
    return code


async def _watch(received: AsyncIterator[int], signals: Signals, reloads: bool) -> None:
    async for number in received:
        if reloads and number == signal.SIGHUP:
            signals.hang_up()
            continue
        if signals.stop.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=signal.Signals(number).name)
        signals.stop.set()


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
        case ConfigError() | ConfigurationError():
            return error.problems
        case StoreError() | LocalModelError():
            return (str(error),)
        case OSError():
            return (str(error),)
        case _:
            return ()

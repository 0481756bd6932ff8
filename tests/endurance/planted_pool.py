"""A pool as a process of its own, some of whose workers have a bug; when it strikes, and as what, the model's answers say.

    python -m tests.endurance.planted_pool NAME ...

It is set up like `python -m supervisor`, and is the same pool but for what stands between these workers and their
board. It prints one line each time that the bug strikes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from supervisor.board.client import open_board_client
from supervisor.board.protocol import BoardClient, Claim
from supervisor.config.settings import LEDGER, read_environment, read_log_settings, read_pool_settings
from supervisor.log.setup import configure_logging
from supervisor.model.client import ModelClient, open_model
from supervisor.model.completion import Answer
from supervisor.model.prompt import Message
from supervisor.pool import Setup, open_pool
from supervisor.status.snapshot import snapshot_of
from supervisor.status.socket import open_status_socket
from supervisor.work.worker import Connections


class OutOfTheOrdinaryError(BaseException):
    """Nothing that `except Exception` sees."""


ERRORS: Final[dict[str, Callable[[], BaseException]]] = {
    "AttributeError": AttributeError,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "OutOfTheOrdinaryError": OutOfTheOrdinaryError,
    "ExceptionGroup": lambda: ExceptionGroup("two at once", [KeyError(), OSError()]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two at once", [KeyError(), SystemExit()]),
}
BEFORE_THE_SUBMIT: Final = ("answer", "submit")
MOMENTS: Final = (*BEFORE_THE_SUBMIT, "progress", "submitted", "claim")
"""With the answer in hand, before it is submitted, in the report that goes out beside it, after it was submitted, and with
the next claim in hand."""

_PLANT = re.compile(r"\[bug: (\w+) (\w+)\]")


def plant(moment: str, error: str) -> str:
    """What an answer holds to make the bug of the worker that gets it strike at this moment."""
    return f"[bug: {moment} {error}]"


@dataclass
class Bug:
    """Of one worker, through all its lives."""

    worker: str
    _due: tuple[str, str] | None = None

    def read(self, answer: str) -> None:
        found = _PLANT.search(answer)
        self._due = (found[1], found[2]) if found else self._due

    def strike(self, moment: str) -> None:
        if self._due is None or self._due[0] != moment:
            return
        error, self._due = self._due[1], None
        sys.stdout.write(f"struck {self.worker} {moment} {error}\n")
        sys.stdout.flush()
        raise ERRORS[error]()


class _BuggyModel:
    def __init__(self, model: ModelClient, bug: Bug) -> None:
        self._model = model
        self._bug = bug

    async def ask(self, messages: Sequence[Message], *, model: str) -> Answer:
        answer = await self._model.ask(messages, model=model)
        self._bug.read(answer.text)
        self._bug.strike("answer")
        return answer


class _BuggyBoard:
    def __init__(self, board: BoardClient, bug: Bug) -> None:
        self._board = board
        self._bug = bug

    def __getattr__(self, name: str) -> Any:
        return getattr(self._board, name)

    async def claim_next(self, *, wait_seconds: int, idempotency_key: str) -> Claim | None:
        claim = await self._board.claim_next(wait_seconds=wait_seconds, idempotency_key=idempotency_key)
        if claim is not None:
            self._bug.strike("claim")
        return claim

    async def report_progress(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        await self._board.report_progress(task_id, body, idempotency_key=idempotency_key)
        self._bug.strike("progress")

    async def submit_result(self, task_id: int, claim_id: str, result: str) -> None:
        self._bug.strike("submit")
        await self._board.submit_result(task_id, claim_id, result)
        self._bug.strike("submitted")


def connections_with(bugs: Collection[str], url: str) -> Callable[[Setup], Connections]:
    """How the workers of this pool come to their board and model; those of these names meet their bug on the way."""
    met = {name: Bug(name) for name in bugs}

    def connections_of(setup: Setup) -> Connections:
        assert setup.token is not None
        board = partial(open_board_client, url, setup.token)
        model = partial(open_model, setup.worker, setup.key)
        bug = met.get(setup.worker.name)
        if bug is None:
            return Connections(board, model)

        @asynccontextmanager
        async def buggy_board() -> AsyncIterator[BoardClient]:
            async with board() as opened:
                yield _BuggyBoard(opened, bug)

        @asynccontextmanager
        async def buggy_model() -> AsyncIterator[ModelClient]:
            async with model() as opened:
                yield _BuggyModel(opened, bug)

        return Connections(buggy_board, buggy_model)

    return connections_of


async def run(buggy: Sequence[str]) -> None:
    environment = read_environment(os.environ, Path(".env"))
    logs = read_log_settings(environment)
    configure_logging(logs.format, logs.level)
    settings = read_pool_settings(environment, Path())
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with open_pool(
            settings.roster,
            url=settings.url,
            tokens=settings.tokens,
            keys=settings.keys,
            ledger_path=Path(LEDGER),
            connections_of=connections_with(buggy, settings.url),
        ) as pool:

            async def snapshot() -> dict[str, Any]:
                return snapshot_of(pool.status(), settings.url)

            async with open_status_socket(Path(LEDGER), snapshot):
                async for _ in signals:
                    break


if __name__ == "__main__":
    trio.run(run, sys.argv[1:])

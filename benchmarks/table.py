"""A board's table for benchmarks: the agents, the texts that they write, and an executor on a file of its own."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import structlog

from roundtable.board.clock import Clock, system_clock
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import Call, Command, CreateTask
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.unit import Limits
from supervisor.log.setup import configure_logging

LEAD = Agent("lead", Role.LEADER)
SKILLS = ("python", "prose", "review", "sql", "translation")
BRIEF_CHARS = 1_000
CLAIMS_PER_WORKER = 5

_SENTENCES = (
    "Read the chapter on the harbour and note each date that stands in it.",
    "Where two sources disagree, name both and say which of them you believe.",
    "Keep the tone plain; the readers are pupils of about fifteen years.",
    "A table at the end lists the ships with tonnage, year and owner.",
    "Do not repeat what the introduction says already.",
)


def text(chars: int, seed: int = 0) -> str:
    """Prose of exactly so many characters."""
    sentences = " ".join(_SENTENCES[(seed + step) % len(_SENTENCES)] for step in range(chars // 60 + 1))
    return sentences[:chars]


def workers(count: int) -> tuple[Agent, ...]:
    """Workers without a skill or with one or two."""
    return tuple(
        Agent(f"worker-{number}", Role.WORKER, SKILLS[number % 6 : number % 6 + 2]) for number in range(count)
    )


E = TypeVar("E", bound=Executor)


def open_executor(path: Path, agents: tuple[Agent, ...], make: type[E]) -> E:
    """The store's executor as `serve` makes it."""
    executor = make(
        open_database(path),
        Directory([LEAD, *agents]),
        Limits(CLAIMS_PER_WORKER, 0),
        lambda: secrets.token_urlsafe(12),
    )
    executor.start(system_clock()())
    return executor


@contextmanager
def server_log() -> Iterator[None]:
    """Log as the server does, and let the lines go nowhere."""
    with Path(os.devnull).open("w") as nowhere:
        configure_logging("json", "info", nowhere)
        try:
            yield
        finally:
            logging.getLogger().handlers.clear()
            structlog.reset_defaults()


def new_task(number: int) -> CreateTask:
    return CreateTask(f"Chapter {number}", text(BRIEF_CHARS, number), priority=number % 5)


def calls(clock: Clock, asked: list[tuple[Agent, str, Command[object]]]) -> list[Call[object]]:
    return [Call(agent, tool, command, clock()) for agent, tool, command in asked]

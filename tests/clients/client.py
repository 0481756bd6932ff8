"""What the runner knows of a client, and what it notes about one run of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.installing import Workshop
from tests.clients.table import Table


@dataclass
class Outcome:
    """The version that ran, what was remarkable, and what was wrong: nothing, if the client works."""

    version: str = ""
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


Prepare = Callable[[Workshop], Awaitable[object]]
"""Install what a run needs. Raises MissingError where that cannot be."""
Drive = Callable[[Workshop, Table, Path], Awaitable[Outcome]]
"""Run an installed client against a table, in a folder of its own."""


@dataclass(frozen=True)
class Client:
    """A client by the name that the command line knows it by."""

    name: str
    prepare: Prepare
    drive: Drive
    seconds: float = 180.0
    """How long a run may take, without the installing."""
    plays_story: bool = True
    """Whether the board has to show afterwards that the story was played."""

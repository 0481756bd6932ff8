"""`roundtable status`: how the running program stands, asked of the program itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import trio
from rich.console import Console

from roundtable.cli.output import EXIT_UNREACHABLE, as_json, fail, show
from roundtable.cli.settings import read_settings
from roundtable.cli.status_view import as_text, draw_status
from roundtable.store.lock import find_owner
from supervisor.config.settings import LEDGER
from supervisor.status.client import NoAnswerError, NobodyThereError, ask_status
from supervisor.status.path import status_path


@click.command("status")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def status_command(wants_json: bool) -> None:
    """Show how the running program stands: the board, each worker of the pool, and the endpoints of their models."""
    database = read_settings().db_path
    try:
        snapshot = trio.run(ask, database)
    except (NoAnswerError, NobodyThereError) as error:
        fail(EXIT_UNREACHABLE, why_not(database, error))
    console = Console()
    if wants_json:
        show(as_json(snapshot))
    elif console.is_terminal:
        console.print(draw_status(snapshot))
    else:
        show(as_text(draw_status(snapshot)))


async def ask(database: Path) -> dict[str, Any]:
    """The snapshot of the program that owns the database; or else of the pool that runs alone in this folder.

    Raises NobodyThereError, NoAnswerError.
    """
    try:
        return await ask_status(status_path(database))
    except NobodyThereError:
        return await ask_status(status_path(Path(LEDGER)))


def why_not(database: Path, error: NoAnswerError | NobodyThereError) -> str:
    """One sentence for the owner."""
    if isinstance(error, NoAnswerError):
        return f"The program on {database} {error}."
    try:
        owner = find_owner(database)
    except OSError:
        owner = None
    if owner is None:
        return f"Nothing runs on {database}: `roundtable up` starts board and pool."
    return f"Process {owner} holds {database} and cannot be asked yet, or not at all: then its log says why (no_status)."

"""`roundtable backup | verify`: a copy of the board, and whether a board is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from roundtable.cli.output import EXIT_CONFIGURATION, EXIT_REFUSED, as_json, fail, show
from roundtable.cli.settings import read_settings
from roundtable.store.backup import UnsoundError, back_up
from roundtable.store.errors import StoreError
from roundtable.store.soundness import Soundness, check_file

_FILE = click.Path(path_type=Path)


@click.command("backup")
@click.argument("file", type=_FILE)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def backup_command(file: Path, wants_json: bool) -> None:
    """Copy the board into a new FILE while its server runs, and check the copy.

    The copy is a board itself: to go back to it, stop the server, move the database with its -wal and -shm away, and put the
    copy in its place.
    """
    settings = read_settings()
    try:
        found = back_up(settings.db_path, file)
    except UnsoundError as error:
        fail(EXIT_REFUSED, str(error), *error.faults[1:])
    except StoreError as error:
        fail(EXIT_CONFIGURATION, str(error))
    show(
        as_json(facts_of(file, found))
        if wants_json
        else f"Wrote {file}, and it is sound: {sentence_of(found)}"
    )


@click.command("verify")
@click.argument("file", type=_FILE, required=False)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def verify_command(file: Path | None, wants_json: bool) -> None:
    """Check a board: the file itself, the chain of its audit log, and that its history leads to its present state.

    Without FILE the board of this configuration, while its server runs or not. The head of the chain, kept elsewhere,
    shows later whether the log was made anew: the server's log has it once a day.
    """
    path = file or read_settings().db_path
    try:
        found = check_file(path)
    except StoreError as error:
        fail(EXIT_CONFIGURATION, str(error))
    if wants_json:
        show(as_json(facts_of(path, found)))
    elif not found.faults:
        show(f"{path} is sound: {sentence_of(found)}")
    if found.faults:
        if wants_json:
            raise SystemExit(EXIT_REFUSED)
        fail(EXIT_REFUSED, f"{path} is damaged:", *found.faults)


def sentence_of(found: Soundness) -> str:
    return (
        f"{found.tasks} tasks, {found.events} events, {found.head.audit_id} audit rows.\n"
        f"Head of the audit chain: {found.head.audit_id} {found.head.sha256}"
    )


def facts_of(path: Path, found: Soundness) -> dict[str, Any]:
    return {
        "path": str(path),
        "sound": not found.faults,
        "faults": found.faults,
        "tasks": found.tasks,
        "events": found.events,
        "audit_head": {"audit_id": found.head.audit_id, "sha256": found.head.sha256},
    }

"""`roundtable export | import`: a whole board as lines of JSON, out and in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import click

from roundtable.cli.keeping import facts_of, sentence_of
from roundtable.cli.output import (
    EXIT_CONFIGURATION,
    EXIT_REFUSED,
    OutputError,
    as_json,
    fail,
    say,
    show,
)
from roundtable.cli.settings import advise, read_settings
from roundtable.config.errors import shown
from roundtable.store.backup import UnsoundError
from roundtable.store.errors import StoreError
from roundtable.store.portable import LINE_BYTES_MAX, export_file, export_lines, import_board
from roundtable.store.reading import open_reading

_FILE: Final = click.Path(path_type=Path)
_LINES_AT_ONCE: Final = 500


@click.command("export")
@click.argument("file", type=_FILE, required=False)
def export_command(file: Path | None) -> None:
    """Write the whole board as lines of JSON into a new FILE, or to the standard output.

    It reads the database file, whether a server runs or not. The lines hold every text on the board: keep them to yourself.
    """
    settings = read_settings()
    try:
        if file is not None:
            advise(f"Wrote {file}: {export_file(settings.db_path, file)} rows.")
            return
        with open_reading(settings.db_path) as db:
            lines = export_lines(db)
            while some := list(islice(lines, _LINES_AT_ONCE)):
                say("\n".join(some))
    except StoreError as error:
        fail(EXIT_CONFIGURATION, str(error))
    except OutputError:
        fail(EXIT_CONFIGURATION, "the output cannot be written")


@click.command("import")
@click.argument("file", type=_FILE)
@click.option("--into", type=_FILE, help="The new database. [default: ROUNDTABLE_DB_PATH]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def import_command(file: Path, into: Path | None, wants_json: bool) -> None:
    """Make a new board of the lines that `export` wrote, and check it. FILE - reads the standard input.

    It never touches a board that is there. History and audit log come along as they are, so the chain stays valid.
    """
    target = into or read_settings().db_path
    try:
        with _open(file) as source:
            found = import_board(_lines(source), target)
    except UnsoundError as error:
        fail(EXIT_REFUSED, str(error), *error.faults[1:])
    except StoreError as error:
        fail(
            EXIT_CONFIGURATION,
            f"{shown(str(file))}, {error}" if str(error).startswith("line ") else str(error),
        )
    except OSError as error:
        fail(EXIT_CONFIGURATION, f"{shown(str(file))} cannot be read: {error.strerror}")
    show(
        as_json(facts_of(target, found))
        if wants_json
        else f"Made {target}, and it is sound: {sentence_of(found)}"
    )


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    if str(file) != "-":
        with file.open("rb") as source:
            yield source
    elif sys.stdin is None:
        fail(EXIT_CONFIGURATION, "the standard input is closed")
    else:
        yield sys.stdin.buffer


def _lines(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline(LINE_BYTES_MAX + 1):
        yield line

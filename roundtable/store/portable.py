"""A whole board as lines of JSON, and back: every row of every table as it is, so that history and audit chain stay valid.

The first line is a header, the last one counts the rows, so that a file that was cut short is known as such. What can be
made from the rest (the index of words, the counts) is left out and made anew.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roundtable.store import search
from roundtable.store.backup import UnsoundError
from roundtable.store.database import migrate, migrations
from roundtable.store.drafts import open_board_draft, open_draft
from roundtable.store.errors import StoreError
from roundtable.store.reading import open_reading
from roundtable.store.soundness import Soundness, check_file

FORMAT: Final = 1
LINE_BYTES_MAX: Final = 16 << 20
"""A row is far smaller; without it a file of another kind would be read into memory whole."""

_MADE_ANEW: Final = frozenset({"unindexed", "task_counts"})
"""Filled by triggers, as the rows come in that they are made from."""
_COUNTERS: Final = "sqlite_sequence"
_NAME: Final = re.compile(r"[a-z0-9_]+")

Tables = Mapping[str, tuple[str, ...]]
"""Table -> its columns, in the order in which their values are written."""


def export_lines(db: sqlite3.Connection) -> Iterator[str]:
    """The board, line by line. Raises sqlite3.Error."""
    tables = _tables_of(db)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    yield _line({"roundtable_export": FORMAT, "schema": version, "tables": tables})
    rows = 0
    for table, columns in tables.items():
        order = "1" if table == _COUNTERS else _key_of(db, table)
        names = ", ".join(columns)
        for row in db.execute(f"SELECT {names} FROM {table} ORDER BY {order}"):  # noqa: S608 - names of the schema
            rows += 1
            yield _line([table, *row])
    yield _line({"rows": rows})


def export_file(board: Path, target: Path) -> int:
    """Write the lines into a new file for its owner's eyes only, and return how many rows they hold. Raises StoreError."""
    with open_draft(target) as draft, open_reading(board) as db, draft.open("w", encoding="ascii") as file:
        lines = 0
        for line in export_lines(db):
            file.write(f"{line}\n")
            lines += 1
    return lines - 2  # header and count


def import_board(lines: Iterable[bytes], target: Path) -> Soundness:
    """Make a new board of the lines, and look whether it is sound. Nobody sees the file before.

    Raises StoreError, which names the line, and then there is no file.
    """
    with open_board_draft(target) as draft:
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                # nobody acknowledges anything before the draft is whole and synced as such
                db.execute("PRAGMA synchronous = OFF")
                _fill(db, iter(lines), target)
        except sqlite3.Error as error:
            raise StoreError(f"{target} cannot be written: {error}") from error
        found = check_file(draft)
        if found.faults:
            raise UnsoundError(found.faults)
    return found


@dataclass(frozen=True, slots=True)
class _Header:
    schema: int
    tables: Tables


def _fill(db: sqlite3.Connection, lines: Iterator[bytes], target: Path) -> None:
    header = _read_header(next(lines, b""))
    migrate(db, target, up_to=header.schema)
    known = _tables_of(db)
    if {table: set(columns) for table, columns in header.tables.items()} != {
        table: set(columns) for table, columns in known.items()
    }:
        raise StoreError("line 1: its tables are not those of a board of this schema")
    db.execute("BEGIN")
    # what a new board begins with; the counters are set by the rows, and at the end by what was exported
    db.execute("DELETE FROM board")
    inserts = {
        table: f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        for table, columns in header.tables.items()
    }
    counters: list[list[Any]] = []
    rows, number, is_whole = 0, 1, False
    for number, line in enumerate(lines, start=2):
        content = _read_line(line, number)
        if is_whole:
            raise StoreError(f"line {number}: there is more behind the last line")
        if isinstance(content, dict):
            if content != {"rows": rows}:
                raise StoreError(f"line {number}: counts other rows than the {rows} that there are")
            is_whole = True
            continue
        table, row = _row_in(content, header.tables, number)
        rows += 1
        if table == _COUNTERS:
            if not _is_counter(dict(zip(header.tables[table], row, strict=True)), header.tables):
                raise StoreError(f"line {number}: is no row of {table}")
            counters.append(row)
            continue
        try:
            db.execute(inserts[table], row)
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise StoreError(f"line {number}: is no row of a board: {error}") from error
    if not is_whole:
        raise StoreError(f"the file ends after line {number}, before its last line: it was cut short")
    db.execute(f"DELETE FROM {_COUNTERS}")  # noqa: S608
    db.executemany(inserts[_COUNTERS], counters)
    db.execute("COMMIT")
    migrate(db, target)
    db.execute("BEGIN")
    search.catch_up(db)
    db.execute("COMMIT")


def _read_header(line: bytes) -> _Header:
    content = _read_line(line, 1)
    if not isinstance(content, dict) or "roundtable_export" not in content:
        raise StoreError("line 1: this is no export of a board")
    newest = migrations()[-1][0]
    schema, tables = content.get("schema"), content.get("tables")
    if content["roundtable_export"] != FORMAT or type(schema) is not int or schema > newest:
        raise StoreError("line 1: the export is of a newer Roundtable: update Roundtable")
    if schema < 1 or not isinstance(tables, dict) or not all(map(_is_names, tables.values())):
        raise StoreError("line 1: the header is damaged")
    return _Header(schema, {str(table): tuple(columns) for table, columns in tables.items()})


def _is_names(columns: object) -> bool:
    """Whether these can be columns; that they are those of the table is looked at later."""
    return isinstance(columns, list) and all(
        isinstance(column, str) and _NAME.fullmatch(column) for column in columns
    )


def _row_in(content: Any, tables: Tables, number: int) -> tuple[str, list[Any]]:
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        raise StoreError(f"line {number}: is no row of a board")
    if content[0] not in tables:
        raise StoreError(f"line {number}: is no row of a board")
    table, *row = content
    if len(row) != len(tables[table]) or any(type(value) not in {str, int, type(None)} for value in row):
        raise StoreError(f"line {number}: is no row of {table}")
    return table, row


def _is_counter(row: Mapping[str, Any], tables: Tables) -> bool:
    """SQLite itself takes anything for a counter."""
    return row["name"] in tables and type(row["seq"]) is int and 0 <= row["seq"] < 1 << 63


def _read_line(line: bytes, number: int) -> Any:
    if len(line) > LINE_BYTES_MAX:
        raise StoreError(f"line {number}: is over {LINE_BYTES_MAX:,} bytes")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise StoreError(f"line {number}: is not JSON") from None


def _tables_of(db: sqlite3.Connection) -> Tables:
    """The tables that hold something of their own, the counters of their ids last."""
    names = [
        name
        for (name,) in db.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        if name not in _MADE_ANEW
    ]
    return {table: _columns_of(db, table) for table in [*names, _COUNTERS]}


def _columns_of(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def _key_of(db: sqlite3.Connection, table: str) -> str:
    keys = db.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,))
    return ", ".join(name for (name,) in keys)


def _line(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))

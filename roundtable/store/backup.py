"""A copy of a board while its server runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from roundtable.store.drafts import open_board_draft
from roundtable.store.errors import StoreError
from roundtable.store.reading import open_reading
from roundtable.store.soundness import Soundness, check_file


class UnsoundError(StoreError):
    """The copy is not whole, so it was not kept. `faults` has one sentence for each."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__(f"the board is damaged, and no file was made: {faults[0]}")


def back_up(board: Path, target: Path) -> Soundness:
    """Copy the board as it is at one moment into a new file of its own, and look whether the copy is sound.

    A server that writes meanwhile is not held up. Nobody sees the file before it is whole. Raises StoreError.
    """
    with open_board_draft(target) as draft:
        with open_reading(board) as source:
            try:
                with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                    # all in one step: in between, a write to the board would have it begin anew
                    source.backup(copy)
                    # one file that is complete in itself, also where nobody may write beside it
                    copy.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.Error as error:
                raise StoreError(f"{target} cannot be written: {error}") from error
        found = check_file(draft)
        if found.faults:
            raise UnsoundError(found.faults)
    return found

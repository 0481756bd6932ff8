"""New files of the owner's: made under another name, and there only when they are whole; never in the place of another."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roundtable.store.errors import StoreError


@contextmanager
def open_draft(target: Path) -> Iterator[Path]:
    """An empty file for its owner's eyes only, which becomes `target` when the body ends well, and goes otherwise.

    Raises StoreError if there is something at `target` already, or if it cannot be written.
    """
    if target.is_symlink() or target.exists():
        raise StoreError(f"{target} is there already, and is left as it is")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    try:
        yield draft
        _sync(draft)
        _publish(draft, target)
        _sync(target.parent)
    except FileExistsError:
        raise StoreError(f"{target} is there already, and is left as it is") from None
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()


@contextmanager
def open_board_draft(target: Path) -> Iterator[Path]:
    """The same for a database. Also refused where the log of one that is gone lies beside: SQLite would play it into this one."""
    with open_draft(target) as draft:
        for suffix in ("-wal", "-journal"):
            left = target.with_name(target.name + suffix)
            if left.is_symlink() or left.exists():
                raise StoreError(
                    f"{left} is there, left by a database that is gone, and would change the new one: move it away"
                )
        yield draft


def _publish(draft: Path, target: Path) -> None:
    try:
        # Unlike a rename, a link never takes the place of what is there.
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: take the name first, then what has it is ours to replace.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        draft.replace(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

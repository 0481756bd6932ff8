"""Where a running program can be asked how it stands: decided here for the one that answers and for those that ask."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

SOCKET_PATH_BYTES: Final = 103
"""What every system takes as the address of a socket; Linux would take four bytes more."""

RUNTIME_PARENT: Final = Path("/tmp")  # noqa: S108 - the folder in it is checked before it is used
"""Not by an environment variable: a service and its owner's shell have different ones, and would miss each other."""


def status_path(database: Path, runtime_parent: Path = RUNTIME_PARENT) -> Path:
    """The socket of the program that owns this database file: beside it, or where that is too long a path, in a folder of
    the user's own under `runtime_parent`, which `make_runtime_folder` makes. A symbolic link is no second way in."""
    target = database.resolve()
    beside = target.with_name(f"{target.name}.status")
    if len(os.fsencode(beside)) <= SOCKET_PATH_BYTES:
        return beside
    digest = hashlib.sha256(os.fsencode(target)).hexdigest()[:32]
    return runtime_parent / f"roundtable-{os.getuid()}" / f"{digest}.status"


def make_runtime_folder(folder: Path) -> None:
    """Make the folder, or see that the one that is there is ours alone: anybody may write to its parent.

    Raises OSError.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise PermissionError(f"{folder} is there and does not belong to this user alone") from None


def is_beside(path: Path, database: Path) -> bool:
    """Whether the socket lies in the database's own folder."""
    return path.parent == database.resolve().parent

"""One owner process per database file, by a lock that dies with the process.

The lock is a file of its own beside the database: closing any descriptor of the database file itself would drop
the locks that SQLite holds on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from roundtable.store.errors import StoreError


class OwnerLock:
    """Held from construction until `release` or the end of the process, however it ends.

    Raises StoreError, which says who holds it, if another process does, or if the lock file cannot be made.
    """

    def __init__(self, database: Path) -> None:
        self.path = _lock_path(database)
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot create the lock file {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 200, 0).decode(errors="replace").strip()
            os.close(self._fd)
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise StoreError(f"cannot lock {self.path}: {error.strerror}") from error
            raise StoreError(
                f"{database} is already served by {holder or 'another process'}; "
                "stop that one first, or choose another ROUNDTABLE_DB_PATH"
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Give the database up. The file stays, empty: removing it would let two processes lock two files of one name."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def __enter__(self) -> OwnerLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def find_owner(database: Path) -> int | None:
    """The id of the process on this machine that holds the database now, or None if there is none.

    What an old lock file says is not believed: the lock has to be held, and, where the system tells, by that process.
    Raises OSError if the lock file cannot be read.
    """
    path = _lock_path(database)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        said = _SAID.fullmatch(os.pread(descriptor, 400, 0).decode(errors="replace"))
        # Only if somebody says so: taking the lock, even for a moment, could keep a server from its start.
        if not said or said["host"] != socket.gethostname() or not _is_held(descriptor):
            return None
        process = int(said["process"])
        return process if _has_open(process, path) else None
    finally:
        os.close(descriptor)


_SAID = re.compile(r"process (?P<process>[1-9][0-9]{0,9}) on (?P<host>[^\n]*)\n")


def _lock_path(database: Path) -> Path:
    # beside the file itself, so that a symbolic link is no second way in
    target = database.resolve()
    return target.with_name(target.name + ".lock")


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return True
        raise
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _has_open(process: int, path: Path) -> bool:
    """Whether the process has the file open. True where the system does not tell."""
    if not Path("/proc/self/fd").is_dir():
        return True
    facts = path.stat()
    try:
        entries = list(Path(f"/proc/{process}/fd").iterdir())
    except PermissionError:
        return True
    except OSError:
        return False
    for entry in entries:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(entry.stat(), facts):
                return True
    return False

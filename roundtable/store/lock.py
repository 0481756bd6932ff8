"""One owner process per database file, by locks that die with the process.

One lock is a file of its own beside the database, which says who holds it. Whoever removes that file, or comes to the
database by another name of it, meets the second: a lock on the database file itself. On Linux that one is apart from
the byte ranges that SQLite locks; elsewhere the two could meet, and the first has to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import sys
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
        self._fd = _open_lock_file(self.path)
        self._database_fd: int | None = None
        try:
            _take(self._fd, database, self.path)
            if sys.platform == "linux":
                self._database_fd = _open_database_file(database)
                _take(self._database_fd, database, self.path)
        except BaseException:
            self._close()
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Give the database up, which must be closed by now: closing a descriptor of it drops what SQLite has locked.

        The lock file stays, empty: removing it would let two processes lock two files of one name.
        """
        os.ftruncate(self._fd, 0)
        self._close()

    def _close(self) -> None:
        if self._database_fd is not None:
            os.close(self._database_fd)
        os.close(self._fd)

    def __enter__(self) -> OwnerLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _open_lock_file(path: Path) -> int:
    """The lock file, made if need be. Never a link, nor a file that somebody else keeps there: it will be written over."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise StoreError(f"cannot use the lock file {path}: {reason}") from error
    said = os.pread(descriptor, 400, 0).decode(errors="replace")
    if said and not _SAID.fullmatch(said):
        os.close(descriptor)
        raise StoreError(f"cannot use the lock file {path}: it holds something else; move it away")
    return descriptor


def _open_database_file(database: Path) -> int:
    try:
        return os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open the database {database}: {error.strerror}") from error


def _take(descriptor: int, database: Path, lock_file: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise StoreError(f"cannot lock {database}: {error.strerror}") from error
        try:
            holder = lock_file.read_text("utf-8", errors="replace").strip()
        except OSError:
            holder = ""
        raise StoreError(
            f"{database} is already served by {holder or 'another process'}; "
            "stop that one first, or choose another ROUNDTABLE_DB_PATH"
        ) from error


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
    finally:
        os.close(descriptor)
    # With our own descriptor closed: in a container we may have the number that a server of another one has there.
    process = int(said["process"])
    return process if _has_open(process, path) else None


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

"""One owner process per database file, by a lock that dies with the process.

The lock is a file of its own beside the database: closing any descriptor of the database file itself would drop
the locks that SQLite holds on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType

from roundtable.store.errors import StoreError


class OwnerLock:
    """Held from construction until `release` or the end of the process, however it ends.

    Raises StoreError, which says who holds it, if another process does, or if the lock file cannot be made.
    """

    def __init__(self, database: Path) -> None:
        # beside the file itself, so that a symbolic link is no second way in
        target = database.resolve()
        self.path = target.with_name(target.name + ".lock")
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

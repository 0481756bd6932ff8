"""A Unix socket at which a running program says how it stands: one line asked, one line of JSON answered.

House rules: whoever asks has a deadline, there are only so many of them, and nothing that they do or that the answer brings
with it reaches the program. If there can be no socket the program runs without one, and the log says why.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import structlog
import trio

from supervisor.status.path import is_beside, make_runtime_folder, status_path

REQUEST: Final = b"status\n"
CLIENTS_MAX: Final = 8
"""Who comes while so many are being answered is turned away."""
CLIENT_SECONDS: Final = 5.0
"""From the connection to the last byte of the answer: a client that stands still holds its place no longer."""
FOLDER_LOCK_ATTEMPTS: Final = 20
FOLDER_LOCK_PAUSE_SECONDS: Final = 0.05

Snapshot = Callable[[], Awaitable[dict[str, Any]]]
"""How the program stands now, in values that JSON has."""

log = structlog.get_logger(__name__)


class _TakenError(OSError):
    """Somebody else's, or no socket at all."""


@asynccontextmanager
async def open_status_socket(
    database: Path, snapshot: Snapshot, *, path: Path | None = None
) -> AsyncIterator[Path | None]:
    """Answer at the socket of this database, `status_path(database)`, for as long as the context lasts.

    What a killed program left there is replaced; a program that still answers there is left alone. Gives None, after a
    warning in the log, if there can be no socket. On leaving, who is being answered is cut off and the socket is removed.
    """
    path = path or status_path(database)
    listener, reason = None, ""
    try:
        if not is_beside(path, database):
            make_runtime_folder(path.parent)
        listener = await _listen(path)
    except OSError as error:
        reason = error.strerror or str(error)
    if listener is None:
        log.warning(
            "no_status", reason=reason, path=str(path), advice="`roundtable status` cannot ask this program"
        )
        yield None
        return
    mark = _mark(path)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve, listener, _Desk(snapshot))
            try:
                yield path
            except BaseException as error:
                failure = error  # raised again outside the nursery, which would wrap it
            nursery.cancel_scope.cancel()
    finally:
        listener.socket.close()
        if mark is not None and _mark(path) == mark:
            with suppress(OSError):
                path.unlink()
    if failure is not None:
        raise failure


class _Desk:
    """Answers whoever comes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._one_at_a_time = trio.Lock()
        self._clients = 0
        self._has_failed = False

    async def serve(self, stream: trio.SocketStream) -> None:
        if self._clients >= CLIENTS_MAX:
            return  # which closes it
        self._clients += 1
        try:
            with trio.move_on_after(CLIENT_SECONDS):
                if await _read_line(stream) == REQUEST:
                    await stream.send_all(await self._line())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it has gone
        finally:
            self._clients -= 1

    async def _line(self) -> bytes:
        async with self._one_at_a_time:
            try:
                return json.dumps(await self._snapshot()).encode() + b"\n"
            except Exception:  # the boundary: a fault in looking must not end what is looked at
                if not self._has_failed:
                    log.exception("status_fault")
                self._has_failed = True
                return b'{"error": "the program cannot say how it stands; its log says why"}\n'


async def _serve(listener: trio.SocketListener, desk: _Desk) -> None:
    try:
        await trio.serve_listeners(desk.serve, [listener])
    except* OSError as errors:
        log.warning("no_status", reason=str(errors.exceptions[0]))


async def _read_line(stream: trio.SocketStream) -> bytes:
    """At most a few bytes more than a request has."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= len(REQUEST):
        received = await stream.receive_some(len(REQUEST) + 1 - len(line))
        if not received:
            break
        line += received
    return line


async def _listen(path: Path) -> trio.SocketListener:
    """Raises OSError."""
    for attempt in range(FOLDER_LOCK_ATTEMPTS):
        if attempt:
            await trio.sleep(FOLDER_LOCK_PAUSE_SECONDS)
        with _folder_lock(path.parent) as is_ours:
            if is_ours:
                return _bind(path)
    raise _TakenError(errno.EAGAIN, f"{path.parent} is locked by another program")


@contextmanager
def _folder_lock(folder: Path) -> Iterator[bool]:
    """Only who has it looks at what is there and puts its own in its place: two that do so at once would both think
    themselves the one. Not waited for, since anybody who may read the folder may lock it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _bind(path: Path) -> trio.SocketListener:
    """Listen at the path, readable and writable for its owner only. Raises OSError."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.setblocking(False)
        try:
            door.bind(os.fspath(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _refuse_living(path)
            path.unlink()
            door.bind(os.fspath(path))
        # Nobody can connect before `listen`, so there is no moment at which others may.
        path.chmod(0o600)
        door.listen(CLIENTS_MAX)
    except BaseException:
        door.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(door))


def _refuse_living(path: Path) -> None:
    """Raises OSError unless what lies at the path is a socket that nobody listens at any more."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise _TakenError(errno.EEXIST, f"{path} is there and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.setblocking(False)
        try:
            knock.connect(os.fspath(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:
            pass  # it has so many clients that there is a queue
    raise _TakenError(errno.EADDRINUSE, f"another program answers at {path}")


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells this socket from another one of the same name."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino

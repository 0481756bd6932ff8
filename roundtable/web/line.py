"""The way to one client, and whether it still leads there as far as the system knows."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

_ENDED = select.POLLHUP | select.POLLERR | select.POLLNVAL
_EVENTS = _ENDED | getattr(select, "POLLRDHUP", 0)
"""Where there is no POLLRDHUP (it is Linux's), a client that has ended its side is known by reading alone."""


def has_hung_up(socket: trio.socket.SocketType) -> bool:
    """Whether the other side has ended its half of the connection or reset all of it, read or not. Never blocks."""
    file = socket.fileno()
    if file < 0:
        return True
    poll = select.poll()
    poll.register(file, _EVENTS)
    return bool(poll.poll(0))


class Line:
    """One connection as far as answers are concerned: `scope["state"]["line"]`.

    `is_ended`: the client's end has been read. `is_broken`: bytes for it were not taken, so an answer may be missing
    from there on.
    """

    __slots__ = ("_hands_over", "_has_hung_up", "is_broken", "is_ended")

    def __init__(self, has_hung_up: Callable[[], bool]) -> None:
        self._has_hung_up = has_hung_up
        self._hands_over = False
        self.is_ended = False
        self.is_broken = False

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """What is sent inside goes to a client that is there, or it is not sent and the line is broken."""
        self._hands_over = True
        try:
            yield
        finally:
            self._hands_over = False

    @property
    def takes_bytes(self) -> bool:
        """Whether what is to be sent now may go. Asked at the last moment: the system hears of an end before anybody reads it."""
        return not self._hands_over or not (self.is_ended or self._has_hung_up())

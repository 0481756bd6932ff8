"""The way out of log lines: one renderer and one stream, for events of our own and for what libraries log.

Events of our own do not pass through the standard library: its records and handlers cost more than the line itself,
and a board writes a line for every change. Where nobody can read the log there is nobody to tell, so nothing here raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from structlog.typing import EventDict, WrappedLogger

from supervisor.log.lines import Line
from supervisor.log.traceback import format_traceback

Renderer = Callable[[Line], str]

UNREADABLE: Final = "a log line could not be put together"


class LineOutput:
    """Puts each line on the stream in one piece, whichever thread it comes from. None: nowhere."""

    def __init__(self, stream: TextIO | None, renderer: Renderer) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._renderer = renderer
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        if self._stream is None:
            return
        if not text.isascii():
            text = text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        with suppress(OSError, ValueError), self._lock:
            self._stream.write(text + "\n")
            self._stream.flush()

    def text_of(
        self,
        facts: tuple[float, str, str, object],
        fields: MutableMapping[str, Any],
        exc_info: object,
        *,
        with_words: bool,
    ) -> str:
        """The line for an event: facts are its time in seconds of the epoch, level, logger and event."""
        seconds, level, logger, event = facts
        try:
            traceback = format_traceback(exc_info, with_words=with_words)
            return self._renderer(Line(_utc_text(seconds), level, logger, event, fields, traceback))
        except Exception:  # the boundary of logging: the caller's own work must not end for a line about it
            return self._renderer(Line(_utc_text(seconds), level, logger, UNREADABLE, {}, None))


class EventWriter:
    """What a logger of structlog ends in: the name that it was asked for by, and a method for each level."""

    def __init__(self, name: str, output: LineOutput) -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = output.write


class EventLine:
    """The last of structlog's processors: from an event to its line."""

    def __init__(self, output: LineOutput) -> None:
        self._output = output

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        exc_info = event.pop("exc_info", None)
        facts = (time.time(), method, logger.name, event.pop("event", ""))
        return self._output.text_of(facts, event, exc_info, with_words=True)


class RecordLines(logging.Handler):
    """The records of libraries on the same way out. `is_own` says of a logger's name whether it may quote exceptions."""

    def __init__(self, output: LineOutput, is_own: Callable[[str], bool]) -> None:
        super().__init__()
        self._output = output
        self._is_own = is_own

    def emit(self, record: logging.LogRecord) -> None:
        facts = (record.created, record.levelname.lower(), record.name, _message_of(record))
        with_words = self._is_own(record.name)
        self._output.write(self._output.text_of(facts, {}, record.exc_info, with_words=with_words))


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # what a library meant to say cannot be put together
        return UNREADABLE


def _utc_text(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")

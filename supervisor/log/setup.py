"""Log lines: one for each event, with nothing in them that a terminal or a parser could take for something else.

This module is in the supervisor's package, although the server uses it as well: the pool may import nothing of the
server, both need it, and where both run in one program there is one log.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, TextIO, TypeAlias

import structlog
from structlog.typing import EventDict, WrappedLogger

from supervisor.log.lines import ConsoleLine, JsonLine
from supervisor.log.traceback import format_traceback

LogFormat: TypeAlias = Literal["console", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

OWN_PACKAGES: Final = frozenset(
    {"roundtable", "supervisor", "__main__"}
)  # the last is what `python -m` calls its module
"""Only they know what may stand in a log. Others write headers, bodies or arguments below WARNING, and quote in their
exceptions what they were given."""

CAPPED_LIBRARIES: Final = frozenset(
    {"h11", "httpx", "httpcore", "httpx2", "httpcore2", "openai", "mcp", "hypercorn", "sse_starlette"}
)
"""Those of them that write much: at their own loggers they are stopped before a line is put together."""


def configure_logging(
    format: LogFormat,
    level: LogLevel,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Route structlog and the standard library's loggers through one renderer to the stream (default: stderr).

    Replaces what was configured before. Logging afterwards raises nothing: not when the stream is closed or cannot
    encode the text, not when a value cannot be shown. Lines of a library are let through from WARNING on, whatever
    the level, and their tracebacks come without the exceptions' words. Colours only on a terminal, and not when
    NO_COLOR is set.
    """
    target = sys.stderr if stream is None else stream
    colours = _is_terminal(target) and not environ.get("NO_COLOR")
    renderer = JsonLine() if format == "json" else ConsoleLine(colours=colours)
    handler = _LineHandler(target)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[_add_facts, renderer]))
    handler.addFilter(_is_wanted)
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for library in CAPPED_LIBRARIES:
        logging.getLogger(library).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _is_our_own(logger_name: str) -> bool:
    return logger_name.partition(".")[0] in OWN_PACKAGES


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or _is_our_own(record.name)


def _add_facts(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """When, how grave, who and what, taken from the record, and the traceback as text."""
    record: logging.LogRecord = event.pop("_record")
    event.pop("_from_structlog")
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": event.pop("event", ""),
    }
    traceback = format_traceback(event.pop("exc_info", None), with_words=_is_our_own(record.name))
    return {"facts": facts, "traceback": traceback, "fields": event}


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


class _LineHandler(logging.Handler):
    """Writes each record in one piece. Where nobody can read the log there is nobody to tell, so it goes on."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        if self._stream is None:
            return
        text = self._text_of(record)
        with suppress(OSError, ValueError):
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self._stream.flush()

    def _text_of(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception:  # the boundary of logging: the caller's own work must not end for a line about it
            text = "a log line could not be put together"
            return self.format(
                logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, (), None)
            )

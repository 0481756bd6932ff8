"""Log lines: one for each event, with nothing in them that a terminal or a parser could take for something else.

This module is in the supervisor's package, although the server uses it as well: the pool may import nothing of the
server, both need it, and where both run in one program there is one log.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final, Literal, TextIO, TypeAlias

import structlog

from supervisor.log.lines import ConsoleLine, JsonLine
from supervisor.log.output import EventLine, EventWriter, LineOutput, RecordLines

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
    output = LineOutput(target, JsonLine() if format == "json" else ConsoleLine(colours=colours))
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = RecordLines(output, _is_our_own)
    handler.addFilter(_is_wanted)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for library in CAPPED_LIBRARIES:
        logging.getLogger(library).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[EventLine(output)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda name="": EventWriter(name, output),
        cache_logger_on_first_use=False,
    )


def _is_our_own(logger_name: str) -> bool:
    return logger_name.partition(".")[0] in OWN_PACKAGES


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or _is_our_own(record.name)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False

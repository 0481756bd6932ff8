"""From one event to one line, as text for people or as JSON.

House rule: whatever stands in an event, who ever wrote it, the line holds printable characters only. The colours are the one
exception, and they are put round text that is already escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

_MAX_VALUE_CHARS: Final = 2_000
"""A line that holds a whole document would bury the lines round it."""

_MAX_DEPTH: Final = 5
_MAX_ITEMS: Final = 100
_MAX_NUMBER_BITS: Final = 256

_BARE_VALUE = re.compile(r"[^\s\"'=\\]+\Z")
_FACTS = ("time", "level", "logger", "event")
_RESET: Final = "\x1b[0m"
_BRIGHT: Final = "\x1b[1m"
_KEY_COLOUR: Final = "\x1b[36m"
_LEVEL_COLOURS: Final[Mapping[str, str]] = {
    "debug": "\x1b[2m",
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[1;31m",
}


@dataclass(frozen=True, slots=True)
class Line:
    """What one line tells: its facts (time as RFC 3339 in UTC), further fields, and the traceback if there is one."""

    time: str
    level: str
    logger: str
    event: object
    fields: Mapping[str, object]
    traceback: str | None


def escape(text: str) -> str:
    """The text with every character that is not printable as \\n, \\x1b, \\u202e and the like."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


class JsonLine:
    """Renders one JSON object on one line, in ASCII; a traceback is one string in it."""

    def __call__(self, line: Line) -> str:
        content = _ordered(line)
        if line.traceback is not None:
            content["exception"] = line.traceback
        # The one character that is neither printable nor escaped by the json module.
        return json.dumps(content, allow_nan=False).replace("\x7f", "\\u007f")


class ConsoleLine:
    """Renders `time level event key=value ...`, and a traceback as the lines below it."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, line: Line) -> str:
        content = _ordered(line)
        time, level, logger, message = (content.pop(fact, "") for fact in _FACTS)
        parts = [
            escape(str(time)),
            self._coloured(escape(f"{level!s:<8}"), _LEVEL_COLOURS.get(str(level), "")),
            self._coloured(escape(message if isinstance(message, str) else _compact(message)), _BRIGHT),
        ]
        parts += [
            f"{self._coloured(_bare(key), _KEY_COLOUR)}={_bare(value)}" for key, value in content.items()
        ]
        if logger:
            parts.append(f"{self._coloured('logger', _KEY_COLOUR)}={_bare(logger)}")
        text = " ".join(parts)
        if line.traceback is None:
            return text
        # Indented, so that a line end in an exception's words cannot begin what looks like an event of its own.
        return "\n".join([text, *(f"  {escape(row)}".rstrip() for row in line.traceback.split("\n"))])

    def _coloured(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colours and colour else text


def _ordered(line: Line) -> dict[str, object]:
    """The line in values that JSON has, its facts first. A value named as a fact, but not one, gets an underscore."""
    facts = zip(_FACTS, (line.time, line.level, line.logger, line.event), strict=True)
    content = {name: _plain(value) for name, value in facts if value}
    for key, value in line.fields.items():
        name = _short(str(key))
        content[f"{name}_" if name in (*_FACTS, "exception") else name] = _plain(value)
    return content


def _plain(value: object, depth: int = 0) -> object:
    if isinstance(value, str):
        return _short(str.__str__(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_NUMBER_BITS:
        return int(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return float(value)
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in list(value)[:_MAX_ITEMS]]
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {_text_of(key, str): _plain(item, depth + 1) for key, item in list(value.items())[:_MAX_ITEMS]}
    return _text_of(value, repr)


def _text_of(value: object, show: Callable[[object], str]) -> str:
    try:
        return _short(show(value))
    except Exception:  # whatever an object's own code raises, the line it stands in must still come out
        return f"<{type(value).__name__} that cannot be shown>"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}... ({len(text)} characters)"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bare(value: object) -> str:
    """The value so that it reads as one: quoted where it could be taken for more than one, or for another key."""
    text = value if isinstance(value, str) else _compact(value)
    if isinstance(value, str) and not (text.isprintable() and _BARE_VALUE.match(text)):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escape(quoted)}"'
    return escape(text)

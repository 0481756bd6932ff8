"""What the commands print: for people or as JSON, and nothing that a terminal obeys."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

EXIT_REFUSED = 1
EXIT_CONFIGURATION = 2
EXIT_UNREACHABLE = 3

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and line feed, what turns the direction of writing, and what no terminal can show."""


class OutputError(Exception):
    """The output cannot be written."""


def printable(text: str) -> str:
    """The text with its line ends, and everything that a terminal would obey shown as an escape."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def as_json(value: Any) -> str:
    """One JSON value for programs: ASCII, so that no terminal obeys anything in it."""
    return json.dumps(value, indent=2)


def say(text: str) -> None:
    """Print it. Raises OutputError unless all of it got out."""
    if sys.stdout is None:  # the program was started with a closed one
        raise OutputError
    encoding = sys.stdout.encoding or "utf-8"
    try:
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
    except (OSError, ValueError):
        # What is left in the buffer would fail once more when the interpreter ends.
        with suppress(OSError, ValueError):
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, sys.stdout.fileno())
            os.close(sink)
        raise OutputError from None


def show(text: str) -> None:
    """Print what a command is there for, made harmless; ends the program where that is not possible."""
    try:
        say(printable(text))
    except OutputError:
        fail(EXIT_CONFIGURATION, "the output cannot be written")


def fail(code: int, *sentences: str) -> NoReturn:
    """End with this code, having said why, one line each."""
    for sentence in sentences:
        with suppress(OSError, ValueError):
            click.echo(printable(sentence), err=True)
    raise SystemExit(code)

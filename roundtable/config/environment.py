"""The environment of this process, filled up from a .env file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from roundtable.config.files import UnreadableFileError, read_text

DOTENV_NAME = ".env"


@dataclass(frozen=True, slots=True)
class Environment:
    """`values` is what can be read, `problems` one line for each part of the file that cannot."""

    values: Mapping[str, str]
    problems: tuple[str, ...] = ()


def read_environment(real: Mapping[str, str], directory: Path) -> Environment:
    """The real environment, and what `.env` in the directory adds to it. No file is no problem.

    A name that is in both keeps its real value, even an empty one, so that a setting of the file can be turned off for
    one start. Values are taken as they stand: `${NAME}` is not expanded. A problem names the line and never quotes it,
    for it may hold a key. Raises nothing.
    """
    try:
        text = read_text(directory / DOTENV_NAME).text
    except FileNotFoundError:
        return Environment(dict(real))
    except UnreadableFileError as error:
        return Environment(dict(real), (f"{DOTENV_NAME} {error}",))
    added: dict[str, str] = {}
    problems: list[str] = []
    for binding in parse_stream(StringIO(text, newline="")):
        if binding.error or (binding.key is not None and binding.value is None):
            problems.append(f"{DOTENV_NAME} line {_line(binding)}: must be NAME=value, empty, or a # comment")
        elif binding.key is not None and binding.value is not None:
            added[binding.key] = binding.value
    return Environment({**added, **real}, tuple(problems))


def _line(binding: Binding) -> int:
    # The parser counts from the blank lines that it skipped before the binding.
    piece = binding.original.string
    return binding.original.line + piece[: len(piece) - len(piece.lstrip())].count("\n")

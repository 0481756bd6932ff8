"""Kinds of values that the owner writes, and what is told when one is wrong: its place, never the value."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from supervisor.config.authorities import Authorities, read_authorities
from supervisor.config.urls import UrlError, checked_url
from supervisor.rules.text import in_one_line

NAME_SHOWN_CHARS: Final = 23
"""A longer name is not told with a problem: tokens have more characters, and so have nearly all keys."""


class ConfigurationError(Exception):
    """What the owner wrote is wrong. `problems` has one line each, with its place and without the value found there."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def _url(text: str) -> str:
    try:
        return checked_url(text)
    except UrlError as error:
        raise ValueError(f"the address {error}") from None


def _readable(text: str) -> str:
    if not text.isprintable() or text != text.strip() or not text:
        raise ValueError("must be printable, and not start or end with a space")
    return text


def _prompt(text: str) -> str:
    if any(not char.isprintable() and char not in "\t\r\n" for char in text):
        raise ValueError("holds a control character")
    return text


def _authorities(path: object) -> Authorities:
    if not isinstance(path, str):
        raise ValueError("must be the path of a file")
    return read_authorities(path)


def place_of(table: str, name: object) -> str:
    """The table as its owner finds it again, with the name that stands in it, unless that may be a secret in the wrong place."""
    is_shown = isinstance(name, str) and 0 < len(name) <= NAME_SHOWN_CHARS and name.isprintable()
    return f'{table} ("{name}")' if is_shown else table


def in_file(path: Path, problems: Iterable[str]) -> tuple[str, ...]:
    """The problems, each with the file that it is in."""
    return tuple(f"{in_one_line(str(path))}: {problem}" for problem in problems)


Url = Annotated[str, AfterValidator(_url)]
Name = Annotated[str, Field(max_length=100), AfterValidator(_readable)]
Prompt = Annotated[str, Field(max_length=20_000), AfterValidator(_prompt)]
Variable = Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]{0,99}$")]
"""Capital letters only: most keys, pasted here by mistake, have others and are refused."""

CaFile = Annotated[Authorities, BeforeValidator(_authorities)]
"""Written as the path of a file."""

Calls = Annotated[int, Field(ge=1, le=1_000_000)]
TimeoutSeconds = Annotated[float, Field(gt=0, le=3_600)]
CooldownSeconds = Annotated[int, Field(ge=0, le=86_400)]
Failures = Annotated[int, Field(ge=1, le=1_000)]
PollSeconds = Annotated[float, Field(ge=0.05, le=3_600)]

_MESSAGES: Final = {
    "missing": "is missing",
    "extra_forbidden": "no such field",
    "string_pattern_mismatch": "must be the NAME of a variable of the environment: capital letters, digits and _",
}


class Table(BaseModel):
    """A table whose errors do not repeat what it holds."""

    model_config = ConfigDict(allow_inf_nan=False, hide_input_in_errors=True, frozen=True)


def message_of(kind: str, pydantics_words: str) -> str:
    """What to tell about one error of pydantic's."""
    return _MESSAGES.get(kind, pydantics_words.removeprefix("Value error, "))

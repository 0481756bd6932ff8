"""config/workers.toml: which models work at the board, and within which bounds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from supervisor.config.authorities import Authorities
from supervisor.config.fields import (
    CaFile,
    Calls,
    ConfigurationError,
    CooldownSeconds,
    Failures,
    Name,
    PollSeconds,
    Prompt,
    Table,
    TimeoutSeconds,
    Url,
    Variable,
    in_file,
    message_of,
    place_of,
)
from supervisor.rules.text import in_one_line

DEFAULT_BOARD_URL: Final = "http://127.0.0.1:8000/mcp"

_QUOTED_NAME = re.compile(r"""(['"]).{4,}\1""")
_LOOKS_LIKE_A_FIELD = re.compile(r"[a-z_]{1,40}")
_SECRET_FIELDS = frozenset({"api_key", "apikey", "key", "token", "secret", "password", "authorization"})


class RosterError(ConfigurationError):
    """The roster is wrong, or what it names in the environment."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One roster worker, complete and checked. Where it stands in the file makes it no other worker."""

    name: str
    model: str
    base_url: str
    skills: tuple[str, ...] = ()
    api_key_env: str | None = None
    token_env: str | None = None
    concurrency: int = 1
    max_calls_per_hour: int = 10
    timeout_seconds: float = 120.0
    max_output_tokens: int | None = None
    temperature: float | None = None
    system_prompt: str = ""
    fallback_models: tuple[str, ...] = ()
    max_tokens_per_day: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    cooldown_seconds: int = 900
    max_failures: int = 3
    ca_file: Authorities | None = None
    number: int = field(default=0, compare=False)
    """Which of the file's [[workers]] it is, counted from 1; 0 where it comes from elsewhere."""

    @property
    def place(self) -> str:
        """Where its owner finds it, for a problem with it."""
        return place_of(f"workers[{self.number}]", self.name)


@dataclass(frozen=True, slots=True)
class Roster:
    """The workers, perhaps none, and what they share. `url` is None where the file names no board; `ca_file` is for it."""

    workers: tuple[Worker, ...]
    grace_seconds: float = 5.0
    poll_interval: float = 10.0
    url: str | None = None
    ca_file: Authorities | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A [[workers]] table that is wrong somewhere: what others check of it, each field None unless that is right itself."""

    place: str
    name: str | None
    base_url: str | None
    api_key_env: str | None
    token_env: str | None
    wrong: frozenset[str]
    """The fields with which a fault was found."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A roster as far as it is right, and what is wrong with the rest: other checks need not wait until that is mended."""

    roster: Roster
    problems: tuple[str, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()


def read_roster(path: Path) -> Roster:
    """The roster in the file. Raises RosterError with every problem, FileNotFoundError."""
    draft = read_draft(path)
    if draft.problems:
        raise RosterError(in_file(path, draft.problems))
    return draft.roster


def read_draft(path: Path) -> Draft:
    """The roster in the file, as far as it is right. Raises FileNotFoundError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return Draft(Roster(()), ("is not UTF-8",))
    except FileNotFoundError:
        raise
    except OSError as error:
        return Draft(Roster(()), (f"cannot be read: {error.strerror}",))
    return draft_roster(text)


def gone(path: Path) -> tuple[str, ...]:
    """What is wrong where workers have come from a file that is no longer there: it may just be being written anew."""
    return in_file(path, ["is not there any more; the workers go on as they are"])


def parse_roster(text: str) -> Roster:
    """The roster in the text. Raises RosterError with every problem at once."""
    draft = draft_roster(text)
    if draft.problems:
        raise RosterError(draft.problems)
    return draft.roster


def draft_roster(text: str) -> Draft:
    """The roster in the text, as far as it is right."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Draft(Roster(()), (f"is not TOML: {_without_quotes(str(error))}",))
    except RecursionError:
        return Draft(Roster(()), ("is not TOML: nested too deep",))
    problems: list[str] = [
        f"{_named(name)}: no such table" for name in document if name not in {"workers", "defaults", "pool"}
    ]
    pool = _checked(_PoolTable, document.get("pool", {}), "pool", problems)
    defaults = document.get("defaults", {})
    _checked(_WorkerFields, defaults, "defaults", problems)
    entries = document.get("workers", [])
    if not isinstance(entries, list):
        problems.append("workers: each worker begins with a line [[workers]]")
        entries = []
    workers = []
    unfinished = []
    first_of: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        place = f"workers[{number}]"
        reported = defaults if isinstance(defaults, Mapping) else ()
        filled = _with_defaults(entry, defaults)
        table = _checked(_WorkerTable, filled, place, problems, reported=reported)
        if table is None and isinstance(filled, Mapping):
            unfinished.append(_unfinished(filled, place))
        elif table is not None:
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in table
                if value is not None
            }
            workers.append(Worker(**fields, number=number))
        given = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(given, str) and (first := first_of.setdefault(given, number)) != number:
            problems.append(f"{place_of(place, given)}: name: is that of workers[{first}] too")
    pool = pool or _PoolTable()
    roster = Roster(tuple(workers), pool.grace_seconds, pool.poll_interval, pool.url, pool.ca_file)
    return Draft(roster, tuple(problems), tuple(unfinished))


def _unique(items: list[str]) -> list[str]:
    if len(set(items)) != len(items):
        raise ValueError("names one twice")
    return items


class _Table(Table):
    model_config = ConfigDict(strict=True, extra="forbid")


class _PoolTable(_Table):
    grace_seconds: float = Field(default=5.0, ge=0, le=600)
    poll_interval: PollSeconds = 10.0
    url: Url | None = None
    ca_file: CaFile | None = None


class _WorkerFields(_Table):
    """What [defaults] may hold: everything but the name and the token, which are one worker's own."""

    skills: Annotated[list[Name], AfterValidator(_unique)] | None = None
    model: Name | None = None
    base_url: Url | None = None
    api_key_env: Variable | None = None
    concurrency: int | None = Field(default=None, ge=1, le=64)
    max_calls_per_hour: Calls | None = None
    timeout_seconds: TimeoutSeconds | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    system_prompt: Prompt | None = None
    fallback_models: Annotated[list[Name], AfterValidator(_unique)] | None = None
    max_tokens_per_day: int | None = Field(default=None, ge=1, le=1_000_000_000_000)
    price_input: float | None = Field(default=None, ge=0, le=1_000_000)
    price_output: float | None = Field(default=None, ge=0, le=1_000_000)
    cooldown_seconds: CooldownSeconds | None = None
    max_failures: Failures | None = None
    ca_file: CaFile | None = None


class _WorkerTable(_WorkerFields):
    name: Name
    model: Name
    base_url: Url
    token_env: Variable | None = None


class _CheckedElsewhere(_Table):
    """What of a worker's table has to do with the environment and other files, each by itself."""

    name: Name | None = None
    base_url: Url | None = None
    api_key_env: Variable | None = None
    token_env: Variable | None = None


def _unfinished(values: Mapping[str, Any], place: str) -> Unfinished:
    names = _CheckedElsewhere.model_fields.keys() & values.keys()
    right = _right(_CheckedElsewhere, {name: values[name] for name in names})
    fields = _CheckedElsewhere.model_validate(right)
    return Unfinished(
        place_of(place, values.get("name")),
        fields.name,
        fields.base_url,
        fields.api_key_env,
        fields.token_env,
        frozenset(names - right.keys()),
    )


def _with_defaults(entry: Any, defaults: Any) -> Any:
    """The worker's table filled up with those defaults that are right: a wrong one has been reported at its own place."""
    if not isinstance(entry, Mapping) or not isinstance(defaults, Mapping):
        return entry
    return {**_right(_WorkerFields, defaults), **entry}


def _right(table: type[_Table], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are right by themselves."""
    right = {}
    for name, value in values.items():
        try:
            table.model_validate({name: value})
        except ValidationError:
            continue
        right[name] = value
    return right


_T = TypeVar("_T", bound=_Table)


def _checked(
    table: type[_T], value: Any, place: str, problems: list[str], *, reported: Collection[str] = ()
) -> _T | None:
    """The table as a model, or None with its problems appended; fields in `reported` may lack without a word."""
    if not isinstance(value, Mapping):
        problems.append(f"{place}: must be a table")
        return None
    try:
        return table.model_validate(dict(value))
    except ValidationError as error:
        problems.extend(_described(error, place_of(place, value.get("name")), reported))
        return None


def _without_quotes(tomls_words: str) -> str:
    """What the parser says, without the names that it quotes: one may be a secret in the wrong place."""
    return _QUOTED_NAME.sub("…", tomls_words)


def _named(unknown: str) -> str:
    """An unknown name as it may be told: a slip of the pen. Anything else could be a key that was put in its place."""
    return unknown if _LOOKS_LIKE_A_FIELD.fullmatch(unknown) else "(a name that is not shown)"


def _described(error: ValidationError, place: str, reported: Collection[str]) -> Iterator[str]:
    for detail in error.errors(include_input=False, include_context=False, include_url=False):
        path = ".".join(str(part) for part in detail["loc"])
        path = _named(path) if detail["type"] == "extra_forbidden" else in_one_line(path)
        field = str(detail["loc"][0])
        if detail["type"] == "missing" and field in reported:
            continue
        message = message_of(detail["type"], detail["msg"])
        if detail["type"] == "extra_forbidden" and field.lower().replace("-", "_") in _SECRET_FIELDS:
            message = "a secret does not belong in this file; name a variable that holds it (api_key_env, token_env)"
        yield f"{place}: {path}: {message}"

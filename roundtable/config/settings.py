"""The ROUNDTABLE_ variables, parsed once. Nothing else in the server reads the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from roundtable.config import limits, values
from roundtable.config.environment import read_environment
from roundtable.config.errors import ConfigError, shown
from roundtable.rules.limits import (
    CALLS_PER_MINUTE,
    CLAIMS_PER_WORKER,
    LEASE_SECONDS_DEFAULT,
    LEASE_SECONDS_MAX,
    LEASE_SECONDS_MIN,
    WAITS_PER_TOKEN,
)

PREFIX: Final = "ROUNDTABLE_"

OTHER_PROGRAMS_NAMES: Final = frozenset({"ROUNDTABLE_URL", "ROUNDTABLE_TOKEN"})
"""Read by the worker pool on its own and by the owner's commands. The server does not look at them."""

LogFormat: TypeAlias = Literal["console", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

_LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("console", "json")
_LOG_LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the owner set. A field is named as its variable, in lower case and without ROUNDTABLE_.

    `warnings` are sentences for the owner about what is probably not meant; they stop nothing.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    """0 means any free port."""
    db_path: Path = Path("roundtable.db")
    agents_config: Path = Path("agents.json")
    workers_config: Path = Path("config/workers.toml")
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    allowed_hosts: tuple[values.AllowedHost, ...] = ()
    tls_cert: Path | None = None
    """Set exactly if tls_key is."""
    tls_key: Path | None = None
    unknown_connections: int = 256
    max_connections: int = 1024
    rate_limit_per_minute: int = CALLS_PER_MINUTE
    """0 means no limit."""
    claims_per_worker: int = CLAIMS_PER_WORKER
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    waits_per_token: int = WAITS_PER_TOKEN
    warnings: tuple[str, ...] = ()


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "host": values.parse_bind_host,
    "port": partial(values.parse_whole_number, smallest=0, largest=limits.MAX_PORT),
    "db_path": values.parse_database_path,
    "agents_config": values.parse_path,
    "workers_config": values.parse_path,
    "log_format": partial(values.parse_choice, choices=_LOG_FORMATS),
    "log_level": partial(values.parse_choice, choices=_LOG_LEVELS),
    "allowed_hosts": values.parse_allowed_hosts,
    "tls_cert": values.parse_path,
    "tls_key": values.parse_path,
    "unknown_connections": partial(
        values.parse_whole_number, smallest=limits.MIN_UNKNOWN_CONNECTIONS, largest=limits.MAX_CONNECTIONS
    ),
    "max_connections": partial(values.parse_whole_number, smallest=1, largest=limits.MAX_CONNECTIONS),
    "rate_limit_per_minute": partial(
        values.parse_whole_number, smallest=0, largest=limits.MAX_RATE_LIMIT_PER_MINUTE
    ),
    "lease_seconds": partial(
        values.parse_whole_number, smallest=LEASE_SECONDS_MIN, largest=LEASE_SECONDS_MAX
    ),
    "waits_per_token": partial(values.parse_whole_number, smallest=1, largest=limits.MAX_WAITS_PER_TOKEN),
    "claims_per_worker": partial(values.parse_whole_number, smallest=1, largest=limits.MAX_CLAIMS_PER_WORKER),
}

VARIABLES: Final[Mapping[str, str]] = {PREFIX + field.upper(): field for field in _PARSERS}
"""Every variable of the server and the field of Settings that it fills."""


def load_settings(real_environment: Mapping[str, str], directory: Path) -> Settings:
    """The settings from the environment and from `.env` in the directory.

    An empty value means the default. Raises ConfigError with one line for each problem, all at once.
    """
    environment = read_environment(real_environment, directory)
    return parse_settings(environment.values, environment.problems)


def parse_settings(environment: Mapping[str, str], problems_before: Iterable[str] = ()) -> Settings:
    """The settings from an environment that is already complete.

    Raises ConfigError with one line for each problem, those that were found before first.
    """
    parsed: dict[str, Any] = {}
    problems = list(problems_before)
    for name, field in VARIABLES.items():
        text = environment.get(name, "").strip(" \t")
        if not text:
            continue
        try:
            parsed[field] = _PARSERS[field](text)
        except ValueError as error:
            problems.append(f"{name} must be {error}, not {shown(text)}")
    problems += _tls_problems(environment, parsed)
    if problems:
        raise ConfigError(problems)
    return Settings(**parsed, warnings=tuple(_unknown_names(environment)))


def default_of(field: str) -> object:
    """The value of a field of Settings whose variable is not set."""
    return next(known.default for known in fields(Settings) if known.name == field)


def _tls_problems(environment: Mapping[str, str], parsed: Mapping[str, object]) -> list[str]:
    names = {"tls_cert": "ROUNDTABLE_TLS_CERT", "tls_key": "ROUNDTABLE_TLS_KEY"}
    is_set = {field: bool(environment.get(name, "").strip(" \t")) for field, name in names.items()}
    problems = []
    if any(is_set.values()) and not all(is_set.values()):
        there, missing = sorted(names.values(), key=lambda name: not environment.get(name, "").strip(" \t"))
        problems.append(f"{missing} must be set too, since {there} is: both or none")
    for field, name in names.items():
        path = parsed.get(field)
        if isinstance(path, Path) and not (path.is_file() and os.access(path, os.R_OK)):
            problems.append(f"{name} must be a file that this program can read, not {shown(str(path))}")
    return problems


def _unknown_names(environment: Mapping[str, str]) -> list[str]:
    known = [*VARIABLES, *sorted(OTHER_PROGRAMS_NAMES)]
    warnings = []
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name[:100].upper(), known, n=1, cutoff=0.0)[0]
            warnings.append(
                f"{shown(name)} is not a known setting and is ignored; the nearest known one is {nearest}"
            )
    return warnings

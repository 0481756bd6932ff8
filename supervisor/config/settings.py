"""What a pool that runs apart from its board takes from the environment, .env and the roster file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from dotenv import dotenv_values
from pydantic import ConfigDict, Field, SecretStr, ValidationError

from supervisor.config.fields import (
    Calls,
    ConfigurationError,
    CooldownSeconds,
    Failures,
    Name,
    PollSeconds,
    Table,
    TimeoutSeconds,
    Url,
    in_file,
    message_of,
)
from supervisor.config.keys import Keys, read_keys, read_tokens
from supervisor.config.roster import DEFAULT_BOARD_URL, Draft, Roster, Worker, gone, read_draft
from supervisor.config.urls import is_loopback

DEFAULT_ROSTER: Final = "config/workers.toml"
LEDGER: Final = "roundtable-pool.db"
"""Where a pool that runs alone keeps what its workers have used up, in the folder where it is started."""
ONLY_WORKER: Final = "worker"
"""The name, in this program's log, of the one worker that the environment describes."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Everything that open_pool needs. `path` is that of the roster file, None where the environment took its place."""

    roster: Roster
    url: str
    tokens: Mapping[str, str] = field(repr=False)
    keys: Keys
    path: Path | None


def read_environment(real: Mapping[str, str], dotenv: Path) -> dict[str, str]:
    """The environment, filled up from the file where there is one; what is set really is never overridden.

    An empty value counts as unset. Raises ConfigurationError if the file cannot be read.
    """
    try:
        written = dotenv_values(dotenv, interpolate=False, encoding="utf-8-sig") if dotenv.is_file() else {}
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError([f"{dotenv.name}: cannot be read as UTF-8"]) from None
    return {name: value for name, value in {**written, **real}.items() if value}


class LogSettings(Table):
    """How the log is written."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["console", "json"] = Field(default="console", alias="ROUNDTABLE_LOG_FORMAT")
    level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", alias="ROUNDTABLE_LOG_LEVEL"
    )


def read_log_settings(environment: Mapping[str, str]) -> LogSettings:
    """Raises ConfigurationError."""
    return _checked(LogSettings, environment)


def read_pool_settings(
    environment: Mapping[str, str], folder: Path, in_force: PoolSettings | None = None
) -> PoolSettings:
    """The workers of the roster file if there is one in the folder, else the one of the WORKER_ variables.

    A program that works by a roster (`in_force`) does not change over to the variables when its file is gone. Raises
    ConfigurationError with one line for each problem.
    """
    path = folder / environment.get("ROUNDTABLE_WORKERS_CONFIG", DEFAULT_ROSTER)
    try:
        return _from_roster(read_draft(path), path, environment)
    except FileNotFoundError:
        if in_force is not None and in_force.path is not None:
            raise ConfigurationError(gone(path)) from None
    if "ROUNDTABLE_WORKERS_CONFIG" in environment:
        raise ConfigurationError(["ROUNDTABLE_WORKERS_CONFIG: there is no such file"])
    return _from_variables(_checked(_WorkerVariables, environment))


class _BoardVariable(Table):
    model_config = ConfigDict(extra="ignore")

    url: Url = Field(default=DEFAULT_BOARD_URL, alias="ROUNDTABLE_URL")


_Secret = Annotated[str, Field(max_length=10_000, pattern=r"^[!-~]+$")]


class _WorkerVariables(_BoardVariable):
    token: _Secret = Field(alias="ROUNDTABLE_TOKEN")
    base_url: Url = Field(alias="WORKER_MODEL_BASE_URL")
    model: Name = Field(alias="WORKER_MODEL_NAME")
    api_key: _Secret | None = Field(default=None, alias="WORKER_API_KEY")
    max_tasks_per_hour: Calls = Field(default=10, alias="WORKER_MAX_TASKS_PER_HOUR")
    model_timeout: TimeoutSeconds = Field(default=120, alias="WORKER_MODEL_TIMEOUT")
    cooldown_seconds: CooldownSeconds = Field(default=900, alias="WORKER_COOLDOWN_SECONDS")
    max_failures: Failures = Field(default=3, alias="WORKER_MAX_FAILURES")
    poll_interval: PollSeconds = Field(default=10, alias="WORKER_POLL_INTERVAL")


def _from_roster(draft: Draft, path: Path, environment: Mapping[str, str]) -> PoolSettings:
    roster = draft.roster
    keys, key_problems = read_keys(draft, environment)
    tokens, token_problems = read_tokens(draft, environment)
    nobody = [] if roster.workers or draft.problems else ["names no worker"]
    problems = [*in_file(path, [*draft.problems, *nobody, *key_problems, *token_problems])]
    url = roster.url or ""
    if roster.url is None:
        try:
            url = _checked(_BoardVariable, environment).url
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    return PoolSettings(roster, url, tokens, keys, path)


def _from_variables(variables: _WorkerVariables) -> PoolSettings:
    if variables.api_key is None and not is_loopback(variables.base_url):
        raise ConfigurationError(["WORKER_API_KEY: is missing, and the endpoint is not on this machine"])
    worker = Worker(
        name=ONLY_WORKER,
        model=variables.model,
        base_url=variables.base_url,
        max_calls_per_hour=variables.max_tasks_per_hour,
        timeout_seconds=variables.model_timeout,
        cooldown_seconds=variables.cooldown_seconds,
        max_failures=variables.max_failures,
    )
    return PoolSettings(
        Roster((worker,), poll_interval=variables.poll_interval),
        variables.url,
        {ONLY_WORKER: variables.token},
        {ONLY_WORKER: None if variables.api_key is None else SecretStr(variables.api_key)},
        None,
    )


_T = TypeVar("_T", bound=Table)


def _checked(model: type[_T], environment: Mapping[str, str]) -> _T:
    try:
        return model.model_validate(dict(environment))
    except ValidationError as error:
        problems = []
        for detail in error.errors(include_input=False, include_context=False, include_url=False):
            message = message_of(detail["type"], detail["msg"])
            if detail["type"] == "string_pattern_mismatch":
                message = "holds a space or is not ASCII"
            problems.append(f"{detail['loc'][0]}: {message}")
        raise ConfigurationError(problems) from None

"""The secrets that the roster names, taken from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import SecretStr

from supervisor.config.roster import Draft, Unfinished, Worker
from supervisor.config.urls import is_loopback

_HEADER_SAFE = re.compile(r"[!-~]+")


Keys = Mapping[str, SecretStr | None]
"""Each worker's API key by its name; None for an endpoint on this machine that needs none."""


def read_keys(draft: Draft, environment: Mapping[str, str]) -> tuple[Keys, list[str]]:
    """The keys that could be read, and every variable that is missing, or whose value cannot stand in a header."""
    problems: list[str] = []
    keys = {worker.name: _read_key(worker, environment, problems) for worker in draft.roster.workers}
    for table in draft.unfinished:
        if "api_key_env" not in table.wrong:
            _read_key(table, environment, problems)
    return keys, problems


def read_tokens(draft: Draft, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Each worker's board token by its name, for a pool that runs apart from the board, as far as they could be read.

    The problems: every worker that names none, and every variable that is missing or unusable. Two workers
    with one token are refused: each would release what the other holds.
    """
    problems: list[str] = []
    tokens: dict[str, str] = {}
    owners: dict[str, str] = {}
    for worker in draft.roster.workers:
        token = _read_token(worker, environment, problems)
        if token is None:
            continue
        if token in owners:
            problems.append(
                f"{worker.place}: token_env: has the same token as {owners[token]}; one token, one worker"
            )
        owners[token] = worker.place
        tokens[worker.name] = token
    for table in draft.unfinished:
        if "token_env" not in table.wrong:
            _read_token(table, environment, problems)
    return tokens, problems


def _read_key(
    table: Worker | Unfinished, environment: Mapping[str, str], problems: list[str]
) -> SecretStr | None:
    if table.api_key_env is not None:
        return _secret(table, "api_key_env", table.api_key_env, environment, problems)
    if table.base_url is not None and not is_loopback(table.base_url):
        problems.append(f"{table.place}: api_key_env: is missing, and its endpoint is not on this machine")
    return None


def _read_token(
    table: Worker | Unfinished, environment: Mapping[str, str], problems: list[str]
) -> str | None:
    if table.token_env is None:
        problems.append(f"{table.place}: token_env: is missing; a pool apart from the board needs it")
        return None
    secret = _secret(table, "token_env", table.token_env, environment, problems)
    return None if secret is None else secret.get_secret_value()


def _secret(
    table: Worker | Unfinished,
    field: str,
    variable: str,
    environment: Mapping[str, str],
    problems: list[str],
) -> SecretStr | None:
    # The variable's name is not repeated: a key that somebody pasted there by mistake may look like a name.
    value = environment.get(variable, "").strip()
    if not value:
        problems.append(f"{table.place}: {field}: the variable it names is not set")
        return None
    if not _HEADER_SAFE.fullmatch(value):
        problems.append(f"{table.place}: {field}: the value of the variable holds a space or is not ASCII")
        return None
    return SecretStr(value)

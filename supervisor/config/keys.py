"""The secrets that the roster names, taken from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import SecretStr

from supervisor.config.roster import Roster, Worker
from supervisor.config.urls import is_loopback

_HEADER_SAFE = re.compile(r"[!-~]+")


Keys = Mapping[str, SecretStr | None]
"""Each worker's API key by its name; None for an endpoint on this machine that needs none."""


def read_keys(roster: Roster, environment: Mapping[str, str]) -> tuple[Keys, list[str]]:
    """The keys that could be read, and every variable that is missing, or whose value cannot stand in a header."""
    problems: list[str] = []
    keys: dict[str, SecretStr | None] = {}
    for worker in roster.workers:
        if worker.api_key_env is None:
            if not is_loopback(worker.base_url):
                problems.append(
                    f"{worker.place}: api_key_env: is missing, and its endpoint is not on this machine"
                )
            keys[worker.name] = None
        else:
            keys[worker.name] = _secret(worker, "api_key_env", worker.api_key_env, environment, problems)
    return keys, problems


def read_tokens(roster: Roster, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Each worker's board token by its name, for a pool that runs apart from the board, as far as they could be read.

    The problems: every worker that names none, and every variable that is missing or unusable. Two workers
    with one token are refused: each would release what the other holds.
    """
    problems: list[str] = []
    tokens: dict[str, str] = {}
    owners: dict[str, str] = {}
    for worker in roster.workers:
        if worker.token_env is None:
            problems.append(f"{worker.place}: token_env: is missing; a pool apart from the board needs it")
            continue
        secret = _secret(worker, "token_env", worker.token_env, environment, problems)
        if secret is None:
            continue
        token = secret.get_secret_value()
        if token in owners:
            problems.append(
                f"{worker.place}: token_env: has the same token as {owners[token]}; one token, one worker"
            )
        owners[token] = worker.place
        tokens[worker.name] = token
    return tokens, problems


def _secret(
    worker: Worker, field: str, variable: str, environment: Mapping[str, str], problems: list[str]
) -> SecretStr | None:
    # The variable's name is not repeated: a key that somebody pasted there by mistake may look like a name.
    value = environment.get(variable, "").strip()
    if not value:
        problems.append(f"{worker.place}: {field}: the variable it names is not set")
        return None
    if not _HEADER_SAFE.fullmatch(value):
        problems.append(f"{worker.place}: {field}: the value of the variable holds a space or is not ASCII")
        return None
    return SecretStr(value)

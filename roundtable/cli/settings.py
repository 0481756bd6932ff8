"""The settings as a command that is soon over reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from roundtable.cli.connecting import TOKEN_VARIABLE, board_url
from roundtable.cli.output import EXIT_CONFIGURATION, fail, printable
from roundtable.config.agent_entries import is_plain_token
from roundtable.config.environment import read_environment
from roundtable.config.errors import ConfigError, shown
from roundtable.config.settings import Settings, load_settings
from supervisor.config.urls import LOOPBACK_HOSTS

URL_VARIABLE: Final = "ROUNDTABLE_URL"


def read_settings() -> Settings:
    """The settings, their warnings told on stderr. Ends the program with exit code 2 if they are wrong."""
    try:
        settings = load_settings(os.environ, Path())
    except ConfigError as error:
        fail(EXIT_CONFIGURATION, *error.problems)
    for warning in settings.warnings:
        advise(f"warning: {warning}")
    return settings


@dataclass(frozen=True, slots=True)
class Client:
    """What a client of the board needs to know. `token` is None where ROUNDTABLE_TOKEN is not set."""

    settings: Settings
    url: str
    token: str | None


def read_client(url: str | None) -> Client:
    """Where the board is, by `url`, ROUNDTABLE_URL or the settings in this order, and the caller's token.

    Ends the program with exit code 2 if one of them cannot be used.
    """
    settings = read_settings()
    environment = read_environment(os.environ, Path()).values
    address = checked_address(url, settings, environment)
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if token and not is_plain_token(token):
        fail(
            EXIT_CONFIGURATION,
            f"{TOKEN_VARIABLE} holds no token: 24 to 512 printable ASCII characters without spaces",
        )
    return Client(settings, address, token or None)


def checked_address(given: str | None, settings: Settings, environment: Mapping[str, str]) -> str:
    name, text = (
        ("--url", given) if given is not None else (URL_VARIABLE, environment.get(URL_VARIABLE, "").strip())
    )
    if not text:
        if not settings.port:
            fail(
                EXIT_CONFIGURATION,
                f"ROUNDTABLE_PORT is 0, so where the board listens is not known: set {URL_VARIABLE}",
            )
        return board_url(settings)
    problem = _url_problem(text)
    if problem is not None:
        fail(EXIT_CONFIGURATION, f"{name} {problem}")
    parts = urlsplit(text)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        advise(
            f"warning: {name} is plain http:// to another machine: whoever listens on the way can read the token"
        )
    return text


def advise(sentence: str) -> None:
    """Say something beside the output itself."""
    click.echo(printable(sentence), err=True)


def _url_problem(text: str) -> str | None:
    """Why the text is no address of a board; it is not repeated where it may hold a secret."""
    if not text.isascii() or not text.isprintable() or set(text) & set(" \\"):
        return "holds a space, a backslash or a character that is not ASCII"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return (
            f"must be like http://127.0.0.1:8000/mcp, not {shown(text)}"
            if "@" not in text
            else "is not a URL"
        )
    if "@" in parts.netloc or "?" in text or "#" in text:
        return "holds user info, a query or a fragment; the token goes into ROUNDTABLE_TOKEN"
    return None

"""The settings as a command that is soon over reads them."""

from __future__ import annotations

import os
from pathlib import Path

import click

from roundtable.cli.output import EXIT_CONFIGURATION, fail, printable
from roundtable.config.errors import ConfigError
from roundtable.config.settings import Settings, load_settings


def read_settings() -> Settings:
    """The settings, their warnings told on stderr. Ends the program with exit code 2 if they are wrong."""
    try:
        settings = load_settings(os.environ, Path())
    except ConfigError as error:
        fail(EXIT_CONFIGURATION, *error.problems)
    for warning in settings.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    return settings

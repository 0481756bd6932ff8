"""`roundtable serve`: the board server alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import structlog
import trio

from roundtable.cli.owners_files import read_agents_file
from roundtable.cli.reloading import Seats, keep_reloading
from roundtable.cli.running import Signals, run, settle
from roundtable.cli.server import open_server, public_listener
from roundtable.cli.standing import open_standing
from roundtable.config.agents import load_agents
from roundtable.config.settings import Settings, load_settings
from roundtable.rules.agents import Directory
from supervisor.log.setup import configure_logging

log = structlog.get_logger(__name__)


@click.command("serve")
def serve_command() -> None:
    """Run the board server alone, until it is told to stop (Ctrl-C). SIGHUP makes it read agents.json again."""
    run(serve, reloads=True)


async def serve(signals: Signals) -> int:
    """Serve until told to stop. Raises ConfigError, StoreError, OSError."""
    settings = start_settings()
    file = load_agents(settings.agents_config)
    warn(file.warnings)
    listener = public_listener(settings, file.agents)
    async with (
        open_server(settings, Directory(file.agents.values()), [listener]) as server,
        open_standing(settings.db_path, server, lambda: None),
        trio.open_nursery() as nursery,
    ):
        seats = Seats(lambda _: read_agents_file(settings.agents_config), listener.tokens, server.board, file)
        nursery.start_soon(keep_reloading, signals, seats)
        announce(settings, server.urls[0], f"{len(file.agents)} agents")
        settle()
        await signals.stop.wait()
        nursery.cancel_scope.cancel()
    return 0


def start_settings() -> Settings:
    """The settings, with logging set up by them and their warnings told. Raises ConfigError."""
    settings = load_settings(os.environ, Path.cwd())
    configure_logging(settings.log_format, settings.log_level)
    warn(settings.warnings)
    return settings


def warn(sentences: tuple[str, ...]) -> None:
    """Put what the owner should know about the configuration into the log."""
    for sentence in sentences:
        log.warning("configuration", advice=sentence)


def announce(settings: Settings, url: str, who: str) -> None:
    """The one line that says where the program listens, whatever the log level."""
    if settings.log_format == "json":
        click.echo(json.dumps({"event": "listening", "url": url, "who": who}))
    else:
        click.echo(f"Roundtable listens on {url} ({who}). Ctrl-C stops it.")

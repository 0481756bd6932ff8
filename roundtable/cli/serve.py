"""`roundtable serve`: the board server alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import structlog
import trio

from roundtable.cli.running import run
from roundtable.cli.server import open_server, public_listener
from roundtable.config.agents import load_agents
from roundtable.config.settings import Settings, load_settings
from roundtable.rules.agents import Directory
from supervisor.logs import configure_logging

log = structlog.get_logger(__name__)


@click.command("serve")
def serve_command() -> None:
    """Run the board server alone, until it is told to stop (Ctrl-C)."""
    run(serve)


async def serve(stop: trio.Event) -> int:
    """Serve until `stop` is set. Raises ConfigError, StoreError, OSError."""
    settings = start_settings()
    file = load_agents(settings.agents_config)
    warn(file.warnings)
    directory = Directory(file.agents.values())
    async with open_server(settings, directory, [public_listener(settings, file.agents)]) as server:
        announce(settings, server.urls[0], f"{len(file.agents)} agents")
        await stop.wait()
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

"""`roundtable init`: a working configuration from nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from roundtable.cli.connecting import agent_json, agent_lines, board_url, is_wildcard
from roundtable.cli.new_files import create_file
from roundtable.cli.output import OutputError, say
from roundtable.config.errors import ConfigError, shown
from roundtable.config.samples import sample_roster
from roundtable.config.settings import Settings, load_settings
from roundtable.config.tokens import digest_key, new_token
from roundtable.rules.agents import Agent, Role

FIRST_AGENTS: Final = (
    Agent("leader", Role.LEADER),
    Agent("worker-1", Role.WORKER, ("code", "review")),
    Agent("worker-2", Role.WORKER, ("research", "writing")),
)

_SECRET_MODE: Final = 0o600
_PLAIN_MODE: Final = 0o644


class InitError(ConfigError):
    """The configuration could not be made; nothing of this run is left behind. Its one problem is a sentence."""


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent and its token, which from here on stands nowhere else."""

    agent: Agent
    token: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a run made: each path is None where a file was there already and stayed; then there are no tokens either."""

    agents_path: Path | None
    workers_path: Path | None
    agents: tuple[NewAgent, ...] = ()

    def undo(self) -> None:
        """Take the files of this run away again. Raises nothing."""
        for path in (self.agents_path, self.workers_path):
            if path is not None:
                with suppress(OSError):
                    path.unlink()


def write_configuration(settings: Settings, mint: Callable[[], str] = new_token) -> Written:
    """Make agents.json and the roster where the settings want them, unless they are there.

    Raises InitError; then neither file is new.
    """
    workers_path = _create(settings.workers_config, sample_roster(), _PLAIN_MODE)
    agents = tuple(NewAgent(agent, mint()) for agent in FIRST_AGENTS)
    try:
        agents_path = _create(settings.agents_config, _agents_json(agents), _SECRET_MODE)
    except InitError:
        Written(None, workers_path).undo()
        raise
    return Written(agents_path, workers_path, agents if agents_path else ())


def describe(written: Written, settings: Settings) -> str:
    """For people: what was made, the commands that connect each new agent, with each token once, and what to do next."""
    text = describe_files(written, settings)
    return f"{text}\n\nThen start the board: roundtable up" if written.agents else text


def describe_files(written: Written, settings: Settings) -> str:
    """The same without what to do next."""
    lines = [
        _file_line(settings.agents_config, written.agents_path, "the agents, readable by you alone"),
        _file_line(settings.workers_config, written.workers_path, "a sample roster with comments"),
    ]
    if written.agents:
        lines += ["", "Each token is shown here and never again. In a terminal of the agent's own:"]
    for new in written.agents:
        lines += ["", *agent_lines(new.agent, new.token, board_url(settings))]
    if written.agents and (notes := _notes(settings)):
        lines += ["", *notes]
    return "\n".join(lines)


def as_json(written: Written, settings: Settings) -> str:
    """The same for programs: one JSON object."""
    url = board_url(settings)
    content = {
        "agents_config": {"path": str(settings.agents_config), "written": written.agents_path is not None},
        "workers_config": {"path": str(settings.workers_config), "written": written.workers_path is not None},
        "url": url,
        "agents": [agent_json(new.agent, new.token, url) for new in written.agents],
    }
    return json.dumps(content, indent=2)


def initialise(settings: Settings, wording: Callable[[Written, Settings], str] = describe) -> None:
    """Make what is missing and print it in these words.

    Raises InitError; then no file is new.
    """
    written = write_configuration(settings)
    try:
        say(wording(written, settings))
    except OutputError:
        # The tokens stand nowhere else, so files that nobody can use any more would be all that is left.
        written.undo()
        raise InitError(["the output cannot be written, so no file was made"]) from None


@click.command("init")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def init_command(wants_json: bool) -> None:
    """Write agents.json and a sample roster, and print how to connect each agent.

    Asks nothing and overwrites nothing. Each token is printed once; the file holds digests only.
    """
    try:
        settings = load_settings(os.environ, Path())
        for warning in settings.warnings:
            click.echo(f"warning: {warning}", err=True)
        initialise(settings, as_json if wants_json else describe)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        raise SystemExit(2) from None


def _create(path: Path, content: str, mode: int) -> Path | None:
    try:
        return path if create_file(path, content, mode) else None
    except FileExistsError as error:
        obstacle = error.filename2 or error.filename
        raise InitError(
            [f"{shown(str(obstacle))} is in the way of {shown(str(path))}; move it away"]
        ) from None
    except OSError as error:
        raise InitError([f"{shown(str(path))} cannot be written: {error.strerror}"]) from None


def _agents_json(agents: tuple[NewAgent, ...]) -> str:
    content = {
        digest_key(new.token): {"name": new.agent.name, "role": new.agent.role, "skills": new.agent.skills}
        for new in agents
    }
    return json.dumps(content, indent=2) + "\n"


def _file_line(path: Path, made: Path | None, what: str) -> str:
    return (
        f"Wrote {shown(str(path))}: {what}."
        if made
        else f"{shown(str(path))} is there already; left as it is."
    )


def _notes(settings: Settings) -> list[str]:
    notes = []
    if not settings.port:
        notes.append("PORT above is the one that `roundtable up` prints: ROUNDTABLE_PORT is 0.")
    if is_wildcard(settings.host):
        notes.append(
            "From another machine put this one's name into the address, and the name into ROUNDTABLE_ALLOWED_HOSTS."
        )
    return notes

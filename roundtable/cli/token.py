"""`roundtable token`: one agent's token made, replaced or taken away, without a restart of the server."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Final

import click

from roundtable.cli.connecting import agent_json, agent_lines, board_url
from roundtable.cli.output import EXIT_CONFIGURATION, OutputError, as_json, fail, say
from roundtable.cli.owners_files import merge_files
from roundtable.cli.settings import read_settings
from roundtable.config.agents import AgentsFile
from roundtable.config.agents_edit import Edit, add_agent, edit_agents, remove_agent, replace_token
from roundtable.config.errors import ConfigError, shown
from roundtable.config.settings import Settings
from roundtable.config.tokens import digest_of, new_token
from roundtable.rules.agents import Agent, Role
from roundtable.store.lock import find_owner
from supervisor.config.roster import RosterError, read_roster

_JSON: Final = click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")


@click.group("token")
def token_command() -> None:
    """Change who may call the board, one agent at a time, without a restart.

    The file agents.json is replaced in one step and keeps its other entries; a server that runs on this configuration's
    database is told to read it again.
    """


@token_command.command("new")
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in Role]), default="worker", show_default=True)
@click.option("--skills", default="", help="What it can be asked for, separated by commas.")
@_JSON
def new_command(name: str, role: str, skills: str, wants_json: bool) -> None:
    """Let a new agent in, and print how to connect it."""
    agent = Agent(name, Role(role), tuple(skill.strip() for skill in skills.split(",") if skill.strip()))
    token = new_token()
    _change(add_agent(agent, token), token, wants_json)


@token_command.command("rotate")
@click.argument("name")
@_JSON
def rotate_command(name: str, wants_json: bool) -> None:
    """Give an agent another token, and print how to connect it. The old one is refused from then on; claims stay."""
    token = new_token()
    _change(replace_token(name, token), token, wants_json)


@token_command.command("revoke")
@click.argument("name")
@_JSON
def revoke_command(name: str, wants_json: bool) -> None:
    """Let an agent in no longer. What it holds goes back to the board."""
    settings = read_settings()
    try:
        edit_agents(settings.agents_config, remove_agent(name), lambda file: None)
    except ConfigError as error:
        fail(EXIT_CONFIGURATION, *error.problems)
    owner = _owner(settings)
    with suppress(OutputError):
        say(
            as_json({"revoked": name, "server_process": owner})
            if wants_json
            else f"{shown(name)} is let in no longer."
        )
    _tell(owner, settings)


def _change(edit: Edit, token: str, wants_json: bool) -> None:
    """Make the change and print the token. Without somebody who reads it nothing has changed."""
    settings = read_settings()
    agents: dict[bytes, Agent] = {}

    def check(file: AgentsFile) -> None:
        agents.update(file.agents)
        # `up` would refuse a name that is in the pool's roster too; a roster that is wrong itself is not looked at
        with suppress(OSError, RosterError):
            merge_files(file, read_roster(settings.workers_config), settings.workers_config)

    try:
        undo = edit_agents(settings.agents_config, edit, check)
        agent, url = agents[digest_of(token)], board_url(settings)
        owner = _owner(settings)
        try:
            say(
                as_json({**agent_json(agent, token, url), "server_process": owner})
                if wants_json
                else _wording(agent, token, url)
            )
        except OutputError:
            undo()
            raise ConfigError(["the output cannot be written, so nothing was changed"]) from None
    except ConfigError as error:
        fail(EXIT_CONFIGURATION, *error.problems)
    _tell(owner, settings)


def _wording(agent: Agent, token: str, url: str) -> str:
    lines = [
        "The token is shown here and never again. In a terminal of the agent's own:",
        "",
        *agent_lines(agent, token, url),
    ]
    return "\n".join(lines)


def _owner(settings: Settings) -> int | None:
    try:
        return find_owner(settings.db_path)
    except OSError:
        return None


def _tell(owner: int | None, settings: Settings) -> None:
    """Have the server read the file again, and say on stderr what came of it."""
    database = shown(str(settings.db_path))
    if owner is None:
        sentence = f"No server runs on {database} on this machine; the next start reads the file."
    else:
        try:
            os.kill(owner, signal.SIGHUP)
            sentence = f"The server on {database} (process {owner}) was told to read the file again."
        except OSError as error:
            fail(
                EXIT_CONFIGURATION,
                f"The file is changed, but the server on {database} (process {owner}) could not be told: {error.strerror}. "
                "Send it SIGHUP.",
            )
    with suppress(OSError, ValueError):
        click.echo(sentence, err=True)

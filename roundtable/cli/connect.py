"""`roundtable connect`: what connects one agent's app to the board."""

from __future__ import annotations

import click

from roundtable.cli.connecting import CLIENTS, TOKEN_VARIABLE, way_for
from roundtable.cli.output import EXIT_CONFIGURATION, as_json, fail, show
from roundtable.cli.settings import advise, read_client
from roundtable.config.agents import load_agents
from roundtable.config.errors import ConfigError, shown
from roundtable.config.tokens import digest_of


@click.command("connect")
@click.argument("agent")
@click.option(
    "--client", type=click.Choice(CLIENTS), required=True, help="The agent's app; json is for any other."
)
@click.option("--url", help="Where the app finds the board. [default: ROUNDTABLE_URL, or this machine]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def connect_command(agent: str, client: str, url: str | None, wants_json: bool) -> None:
    """Print the command, or the configuration, that connects an agent's app.

    The token comes from ROUNDTABLE_TOKEN: agents.json holds digests only. Without it the output names the variable.
    """
    here = read_client(url)
    try:
        agents = load_agents(here.settings.agents_config).agents
    except ConfigError as error:
        fail(EXIT_CONFIGURATION, *error.problems)
    names = [known.name for known in agents.values()]
    if agent not in names:
        known_names = ", ".join(shown(name) for name in names)
        fail(EXIT_CONFIGURATION, f"there is no agent {shown(agent)}; there are {known_names}")
    if here.token is None:
        advise(f"{TOKEN_VARIABLE} is not set: set it to the token of {shown(agent)} where this is used")
    else:
        owner = agents.get(digest_of(here.token))
        if owner is None:
            fail(EXIT_CONFIGURATION, f"{TOKEN_VARIABLE} is the token of no agent of this board")
        if owner.name != agent:
            fail(
                EXIT_CONFIGURATION,
                f"{TOKEN_VARIABLE} is the token of {shown(owner.name)}, not of {shown(agent)}",
            )
    way = way_for(client, here.url, here.token)
    if way.place is not None:
        advise(f"for {way.place}:")
    kind = "command" if way.place is None else "configuration"
    show(
        as_json({"agent": agent, "client": client, "url": here.url, kind: way.text})
        if wants_json
        else way.text
    )

"""What an owner types to connect an agent's app to the board."""

from __future__ import annotations

import ipaddress
import json
import shlex
from collections.abc import Mapping
from typing import Final

from roundtable.config.settings import Settings
from roundtable.rules.agents import Agent

TOKEN_VARIABLE: Final = "ROUNDTABLE_TOKEN"  # noqa: S105 - the name of a variable
_MCP_PATH: Final = "/mcp"
_UNKNOWN_PORT: Final = "PORT"


def board_url(settings: Settings) -> str:
    """Where a client on this machine finds the board; `PORT` stands for a port that is only known once it runs."""
    scheme = "https" if settings.tls_cert else "http"
    port = settings.port or _UNKNOWN_PORT
    return f"{scheme}://{_reachable(settings.host)}:{port}{_MCP_PATH}"


def connect_commands(url: str) -> Mapping[str, str]:
    """For each usual app the command that connects it, once the shell has the token in ROUNDTABLE_TOKEN.

    `json` prints the form that most other apps take.
    """
    server = {"type": "http", "url": url, "headers": {"Authorization": "Bearer "}}
    # The token is put in by the shell, between the two single-quoted pieces.
    form = json.dumps({"mcpServers": {"roundtable": server}}).replace(
        '"Bearer "', f'"Bearer \'"${TOKEN_VARIABLE}"\'"'
    )
    place = shlex.quote(url)
    return {
        "claude": (
            f"claude mcp add --transport http --scope user roundtable {place} "
            f'--header "Authorization: Bearer ${TOKEN_VARIABLE}"'
        ),
        "codex": f"codex mcp add roundtable --url {place} --bearer-token-env-var {TOKEN_VARIABLE}",
        "json": f"printf '%s\\n' '{form}'",
    }


def export_command(token: str) -> str:
    return f"export {TOKEN_VARIABLE}={shlex.quote(token)}"


def agent_lines(agent: Agent, token: str, url: str) -> list[str]:
    """For people: who the agent is, and what connects it, with its token once."""
    commands = connect_commands(url)
    return [
        f"# {agent.name} ({', '.join([agent.role.value, *agent.skills])})",
        export_command(token),
        "#   Claude Code:",
        commands["claude"],
        "#   Codex (reads the variable at each start, so keep the export line in its shell's profile):",
        commands["codex"],
        "#   any other app, as JSON for its settings:",
        commands["json"],
    ]


def agent_json(agent: Agent, token: str, url: str) -> dict[str, object]:
    """The same for programs."""
    return {
        "name": agent.name,
        "role": agent.role,
        "skills": agent.skills,
        "token": token,
        "connect": dict(connect_commands(url)),
    }


def is_wildcard(host: str) -> bool:
    """Whether listening there means listening on every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _reachable(host: str) -> str:
    if is_wildcard(host):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host

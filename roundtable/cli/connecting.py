"""What an owner types to connect an agent's app to the board."""

from __future__ import annotations

import ipaddress
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Way:
    """How one app is connected: a command for the shell, or the content of the file at `place`."""

    text: str
    place: str | None = None


CLIENTS: Final = ("claude", "codex", "gemini", "opencode", "copilot", "json")


def way_for(client: str, url: str, token: str | None) -> Way:
    """How this app is connected to the board at `url`.

    A command takes the token from ROUNDTABLE_TOKEN, so that it stands in no history of a shell; a configuration holds
    it, or, without one, the name of that variable in the app's own form.
    """
    place, variable = shlex.quote(url), f'"Authorization: Bearer ${TOKEN_VARIABLE}"'
    match client:
        case "claude":
            command = f"claude mcp add --transport http --scope user roundtable {place} --header {variable}"
            return Way(command)
        case "codex":
            return Way(f"codex mcp add roundtable --url {place} --bearer-token-env-var {TOKEN_VARIABLE}")
        case "gemini":
            command = f"gemini mcp add --scope user --transport http --header {variable} roundtable {place}"
            return Way(command)
        case "copilot":
            return Way(f"copilot mcp add --transport http roundtable {place} --header {variable}")
        case "opencode":
            server = _server("remote", url, token or f"{{env:{TOKEN_VARIABLE}}}")
            # Without that it takes a refused token for an invitation to log in elsewhere.
            content: object = {"mcp": {"roundtable": {**server, "oauth": False}}}
            return Way(json.dumps(content, indent=2), "opencode.json")
        case "json":
            content = {"mcpServers": {"roundtable": _server("http", url, token or f"${{{TOKEN_VARIABLE}}}")}}
            return Way(json.dumps(content, indent=2), "the app's settings")
        case _:
            raise AssertionError(client)


def connect_commands(url: str) -> Mapping[str, str]:
    """For each usual app the command that connects it, once the shell has the token in ROUNDTABLE_TOKEN.

    `json` prints the form that most other apps take.
    """
    form = json.dumps({"mcpServers": {"roundtable": _server("http", url, "")}})
    # The token is put in by the shell, between the two single-quoted pieces.
    form = form.replace('"Bearer "', f'"Bearer \'"${TOKEN_VARIABLE}"\'"')
    return {
        **{client: way_for(client, url, None).text for client in ("claude", "codex")},
        "json": f"printf '%s\\n' '{form}'",
    }


def _server(kind: str, url: str, token: str) -> dict[str, object]:
    return {"type": kind, "url": url, "headers": {"Authorization": f"Bearer {token}"}}


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

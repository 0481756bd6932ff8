"""The playbooks as prompts, which apps show their users as commands.

Each caller sees the one of its role: the other's names tools that it may not call.
"""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    Prompt,
    PromptMessage,
    TextContent,
)

from roundtable.rules.agents import Agent
from roundtable.rules.errors import echo
from roundtable.tools.playbooks import PLAYBOOKS


def prompts_of(agent: Agent) -> list[Prompt]:
    """What prompts/list tells this caller."""
    return [
        Prompt(name=playbook.name, title=playbook.title, description=playbook.description)
        for playbook in PLAYBOOKS
        if playbook.role is agent.role
    ]


def prompt(agent: Agent, params: GetPromptRequestParams) -> GetPromptResult:
    """The prompt asked for. Raises MCPError for one that is not there for this caller, and for arguments."""
    own = [playbook.name for playbook in PLAYBOOKS if playbook.role is agent.role]
    for playbook in PLAYBOOKS:
        if playbook.name != params.name or playbook.name not in own:
            continue
        if params.arguments:
            raise MCPError(code=INVALID_PARAMS, message=f"The prompt {playbook.name} takes no arguments.")
        message = PromptMessage(role="user", content=TextContent(type="text", text=playbook.text))
        return GetPromptResult(description=playbook.description, messages=[message])
    raise MCPError(
        code=INVALID_PARAMS,
        message=f"There is no prompt {echo(params.name)} for a {agent.role}. There is: {', '.join(own)}.",
    )

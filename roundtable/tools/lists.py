"""What is listed for a caller: tools and prompts by its role, resources for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp_types import Tool as WireTool
from starlette.requests import Request

from roundtable.rules.agents import Agent
from roundtable.tools.catalogue import TOOLS, Tool
from roundtable.tools.prompts import prompts_of
from roundtable.tools.resources import RESOURCES, TEMPLATES

Context = ServerRequestContext[Any, Request]
Paging = PaginatedRequestParams | None
"""Taken and not looked at: each list is one page."""


def caller_of(ctx: Context) -> Agent:
    """Whose token this request carries."""
    if ctx.request is None:
        raise AssertionError("served over HTTP only")
    agent: Agent = ctx.request.scope["agent"]
    return agent


async def list_tools(ctx: Context, params: Paging) -> ListToolsResult:
    del params
    role = caller_of(ctx).role
    return ListToolsResult(tools=[_WIRE[tool.name] for tool in TOOLS if role in tool.roles])


async def list_resources(ctx: Context, params: Paging) -> ListResourcesResult:
    del ctx, params
    return ListResourcesResult(resources=list(RESOURCES))


async def list_templates(ctx: Context, params: Paging) -> ListResourceTemplatesResult:
    del ctx, params
    return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))


async def list_prompts(ctx: Context, params: Paging) -> ListPromptsResult:
    del params
    return ListPromptsResult(prompts=prompts_of(caller_of(ctx)))


def _wire(tool: Tool) -> WireTool:
    return WireTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeats_safely,
            open_world_hint=False,
        ),
    )


_WIRE: Final[Mapping[str, WireTool]] = {tool.name: _wire(tool) for tool in TOOLS}

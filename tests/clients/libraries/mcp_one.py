"""The mcp SDK 1.x."""

import sys

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from telling import HEADERS, URL, play, say


async def main() -> None:
    async with (
        streamablehttp_client(URL, headers=HEADERS) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        started = await session.initialize()

        async def list_tools() -> list[str]:
            return [tool.name for tool in (await session.list_tools()).tools]

        async def call(tool: str, arguments: dict) -> tuple[str, bool]:
            result = await session.call_tool(tool, arguments)
            return "".join(block.text for block in result.content), bool(result.isError)

        await play(list_tools, call)
        say(note=f"speaks {started.protocolVersion}")


anyio.run(main, backend=sys.argv[1])

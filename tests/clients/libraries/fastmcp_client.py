"""fastmcp's client, which raises what a tool refuses."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from telling import HEADERS, URL, play


async def main() -> None:
    async with Client(StreamableHttpTransport(URL, headers=HEADERS)) as client:

        async def list_tools() -> list[str]:
            return [tool.name for tool in await client.list_tools()]

        async def call(tool: str, arguments: dict) -> tuple[str, bool]:
            try:
                result = await client.call_tool(tool, arguments)
            except ToolError as error:
                return str(error), True
            return "".join(block.text for block in result.content), False

        await play(list_tools, call)


asyncio.run(main())

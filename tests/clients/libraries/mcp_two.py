"""The mcp SDK 2.x: `mcp_two.py asyncio|trio MODE`, where MODE is a protocol version, `legacy` or `auto`."""

import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from telling import HEADERS, URL, play, say


async def main(mode: str) -> None:
    async with (
        httpx2.AsyncClient(headers=HEADERS, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(URL, http_client=http), mode=mode) as client,
    ):

        async def list_tools() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        async def call(tool: str, arguments: dict) -> tuple[str, bool]:
            result = await client.call_tool(tool, arguments)
            return "".join(block.text for block in result.content), bool(result.is_error)

        await play(list_tools, call)
        say(note=f"speaks {client.protocol_version}")


anyio.run(main, sys.argv[2], backend=sys.argv[1])

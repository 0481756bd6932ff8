"""An agent of openai-agents, which is given its prompt and left to work."""

import asyncio
import os
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp

HEADERS = {"Authorization": f"Bearer {os.environ['ROUNDTABLE_TOKEN']}"}


async def main() -> None:
    parameters = {"url": os.environ["ROUNDTABLE_URL"], "headers": HEADERS}
    async with MCPServerStreamableHttp(
        parameters, name="roundtable", client_session_timeout_seconds=30
    ) as server:
        agent = Agent(name="anna", model="scripted", mcp_servers=[server])
        sys.stdout.write(str((await Runner.run(agent, sys.argv[1])).final_output) + "\n")


asyncio.run(main())

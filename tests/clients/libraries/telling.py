"""The client's side of the story, for libraries: plays it and says, a JSON line each, what the library showed.

It runs in the environment of a library, where nothing of Roundtable is installed.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable

import anyio.to_thread

URL = os.environ["CLIENT_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['CLIENT_TOKEN']}"}
BEFORE, AFTER = json.loads(os.environ["CLIENT_PLAN"])


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def play(
    list_tools: Callable[[], Awaitable[list[str]]],
    call: Callable[[str, dict], Awaitable[tuple[str, bool | None]]],
) -> None:
    """Play all of it. `call` returns what the library shows of the answer, and whether it says that it is an error."""
    say(tools=await list_tools())
    for tool, arguments in BEFORE:
        text, is_error = await call(tool, arguments)
        say(shown=text, is_error=is_error)
    say(restart=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)
    for tool, arguments in AFTER:
        text, is_error = await call(tool, arguments)
        say(shown=text, is_error=is_error)
    say(tools=await list_tools())

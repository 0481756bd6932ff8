"""A board over HTTP, in the older of the two protocol generations, with no rules but those that a test needs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from scripted_endpoint import Endpoint, Request, open_endpoint, response

Tool = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | bytes]]
TOKEN = "t" * 32


class hangs_up(bytes):  # noqa: N801 - reads as a verb in tables of replies
    """Bytes after which the board closes the connection."""


def error(code: str, **details: object) -> dict[str, Any]:
    return {"error": {"code": code, "message": "words of the board", **details}}


@asynccontextmanager
async def open_board_endpoint(tools: dict[str, Tool]) -> AsyncIterator[Endpoint]:
    """Each tool answers an object (with `error` in it: a refusal), or bytes that go out as they are."""

    async def script(request: Request, stream: trio.SocketStream) -> None:
        if request.header("authorization") != [f"Bearer {TOKEN}"]:
            await stream.send_all(response(401, b'{"error": "unauthorized"}', www_authenticate="Bearer"))
            return
        message = request.json
        if "id" not in message:
            await stream.send_all(response(202))
            return
        reply = await _answer(message)
        if isinstance(reply, hangs_up):
            await stream.send_all(reply)
            await stream.aclose()
            return
        await stream.send_all(
            reply if isinstance(reply, bytes) else response(200, json.dumps(reply).encode())
        )

    async def _answer(message: dict[str, Any]) -> dict[str, Any] | bytes:
        method, params = message["method"], message.get("params", {})
        result: dict[str, Any]
        if method == "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "board", "version": "0"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
        elif method == "tools/call":
            content = await tools[params["name"]](params.get("arguments") or {})
            if isinstance(content, bytes):
                return content
            result = {
                "content": [{"type": "text", "text": json.dumps(content)}],
                "structuredContent": content,
                "isError": "error" in content,
            }
        else:
            missing = {"code": -32601, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": missing}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    async with open_endpoint(script) as endpoint:
        yield endpoint


def tool(*replies: dict[str, Any] | bytes) -> Tool:
    """Answers the next of these; the last one serves for all that follow."""
    left = list(replies)

    async def answer(arguments: dict[str, Any]) -> dict[str, Any] | bytes:
        await trio.lowlevel.checkpoint()
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def board_url(endpoint: Endpoint) -> str:
    return f"http://127.0.0.1:{endpoint.port}/mcp"

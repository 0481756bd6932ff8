"""Agents at a board that is reached over HTTP: through the official SDK, or with bare requests."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


class RefusedError(Exception):
    """The board said no."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.error = error


class SdkSeat:
    """One agent, through the SDK's client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool answers. Raises RefusedError."""
        result = await self.client.call_tool(tool, arguments)
        return _told(bool(result.is_error), result.structured_content or {})


@asynccontextmanager
async def sdk_seat(
    url: str, token: str, mode: str = "auto", trust: ssl.SSLContext | bool = True
) -> AsyncIterator[SdkSeat]:
    headers = {"Authorization": f"Bearer {token}"}
    failure: BaseException | None = None
    async with (
        httpx2.AsyncClient(headers=headers, verify=trust, trust_env=False, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        try:
            yield SdkSeat(client)
        except BaseException as error:
            failure = error  # raised again outside the SDK's task groups, which would wrap it
    if failure is not None:
        raise failure


class HttpSeat:
    """One agent that posts its calls without a session, and goes on through a server that dies."""

    def __init__(self, token: str, *, timeout_seconds: float = 20.0) -> None:
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        self._timeout_seconds = timeout_seconds
        self._http = self._new_client()
        self._number = 0

    def _new_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(headers=self._headers, trust_env=False, timeout=self._timeout_seconds)

    async def call(self, url: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool answers. Raises RefusedError, and httpx.TransportError if there was no whole answer."""
        self._number += 1
        message = {
            "jsonrpc": "2.0",
            "id": self._number,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        response = await self._http.post(url, json=message)
        if response.status_code != 200:
            raise AssertionError(f"{tool}: HTTP {response.status_code} {response.text[:200]}")
        reply = _message_in(response)
        if "result" not in reply:
            raise AssertionError(f"{tool}: {response.text[:200]}")
        return _told(reply["result"].get("isError", False), reply["result"]["structuredContent"])

    async def aclose(self) -> None:
        await self._http.aclose()


def _message_in(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC message, as JSON or as an event stream, in which calls that may wait are answered."""
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        (text,) = (line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {"))
    message: dict[str, Any] = json.loads(text)
    return message


def _told(is_error: bool, content: dict[str, Any]) -> dict[str, Any]:
    if is_error:
        raise RefusedError(content["error"])
    return content

"""MCP requests as bytes, in either generation, and a client that does no more than send them and read the answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

LEGACY, MODERN = "2025-11-25", "2026-07-28"
GENERATIONS = {"legacy": LEGACY, "2026": MODERN}

ANSWER_SECONDS = 60.0


def tool_call(name: str, arguments: Mapping[str, Any], version: str) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of one tools/call."""
    params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
    }
    if version == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "benchmarks", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(body).encode(), headers


class Caller:
    """One connection that is kept alive. Raises RuntimeError for an answer that is none."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

    def call(
        self, name: str, arguments: Mapping[str, Any], version: str, token: str | None = None
    ) -> dict[str, Any]:
        """The structured content of the answer."""
        return content_of(self.send(*tool_call(name, arguments, version), token))

    def send(self, body: bytes, headers: Mapping[str, str], token: str | None = None) -> bytes:
        own = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request("POST", "/mcp", body, {**headers, **own})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"HTTP {response.status}: {answer[:200]!r}")
        return answer

    def close(self) -> None:
        self._connection.close()


def content_of(answer: bytes) -> dict[str, Any]:
    """What a tool has answered, from a JSON body or an event stream. Raises RuntimeError if it was refused."""
    if answer.startswith(b"{"):
        message = json.loads(answer)
    else:
        lines = [line for line in answer.splitlines() if line.startswith(b"data:")]
        message = json.loads(lines[-1].removeprefix(b"data:"))
    result = message.get("result")
    if result is None or result.get("isError"):
        raise RuntimeError(f"refused: {answer[:300]!r}")
    content: dict[str, Any] = result.get("structuredContent") or {}
    return content

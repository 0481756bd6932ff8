"""What an MCP client says first, in both generations of the protocol, and what has to come back."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
import trio

from roundtable import __version__
from roundtable.cli.answers import code_for, sentence_for
from roundtable.cli.output import EXIT_REFUSED, EXIT_UNREACHABLE
from roundtable.cli.reaching import Trouble, speaks_tls
from roundtable.config.errors import shown
from supervisor.rules.text import in_one_line

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
ANSWER_SECONDS: Final = 15.0
"""For one whole answer, however it arrives."""
ANSWER_BYTES_MAX: Final = 1 << 20
_SAID_CHARS: Final = 500

_NO_MCP: Final = "What answers there is no MCP server: check host, port and path."
_CLIENT: Final = {"name": "roundtable-doctor", "version": __version__}
_ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Agent:
    """Who the token is at the board."""

    name: str
    role: str
    tools: int


class Handshake:
    """Requests as a client sends them. Every method raises Trouble; `close` does not."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._http = httpx.AsyncClient(
            trust_env=False,
            timeout=None,  # noqa: S113 - each answer has a deadline as a whole
            verify=ssl.create_default_context() if url.startswith("https") else False,
        )
        self.server_time: float | None = None
        """The server's clock by its last answer, in seconds since 1970."""

    async def close(self) -> None:
        await self._http.aclose()

    async def legacy(self) -> None:
        """The handshake of the clients of up to 2025-11-25."""
        opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
        answer = await self._ask("initialize", opening, {})
        server = answer.get("serverInfo")
        name = server.get("name") if isinstance(server, Mapping) else None
        if name != "roundtable":
            raise Trouble(
                EXIT_UNREACHABLE,
                f"What answers there is an MCP server, but no Roundtable: it is {shown(str(name))}.",
            )
        spoken = {"MCP-Protocol-Version": str(answer.get("protocolVersion", LEGACY))}
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, spoken)
        self._tools(await self._ask("tools/list", {}, spoken))

    async def modern(self) -> Agent:
        """The requests of the clients of 2026-07-28, and who the token is."""
        tools = self._tools(await self._ask_modern("tools/list", {}))
        answer = await self._ask_modern(
            "tools/call", {"name": "whoami", "arguments": {}}, {"Mcp-Name": "whoami"}
        )
        content = answer.get("structuredContent")
        if not isinstance(content, Mapping):
            raise Trouble(EXIT_UNREACHABLE, _NO_MCP)
        if answer.get("isError"):
            raise Trouble(EXIT_REFUSED, f"The board refuses the call: {_reason(content.get('error'))}")
        return Agent(_line(content.get("name")), _line(content.get("role")), tools)

    async def _ask_modern(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        spoken = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **(headers or {})}
        return await self._ask(method, {"_meta": _ENVELOPE, **params}, spoken)

    async def _ask(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Mapping[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = _message_in(await self._post(message, headers))
        result = answer.get("result")
        if isinstance(result, Mapping):
            return result
        error = answer.get("error")
        if isinstance(error, Mapping):
            raise Trouble(EXIT_REFUSED, f"The server refuses {method}: {_reason(error)}")
        raise Trouble(EXIT_UNREACHABLE, _NO_MCP)

    def _tools(self, listed: Mapping[str, Any]) -> int:
        tools = listed.get("tools")
        if not isinstance(tools, list) or not tools:
            raise Trouble(EXIT_UNREACHABLE, "The server lists no tools: it is no Roundtable.")
        return len(tools)

    async def _post(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        sent = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        try:
            with trio.fail_after(ANSWER_SECONDS):
                async with self._http.stream("POST", self._url, json=message, headers=sent) as response:
                    self._note_time(response)
                    body = b""
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > ANSWER_BYTES_MAX:
                            raise Trouble(EXIT_UNREACHABLE, _NO_MCP)
                    if not response.is_success:
                        raise Trouble(code_for(response.status_code), _refusal(response.status_code, body))
                    return body
        except trio.TooSlowError:
            sentence = (
                f"It takes the connection and gives no answer within {ANSWER_SECONDS:.0f} s: "
                "something else listens there, or hangs."
            )
        except httpx.HTTPError:
            sentence = "It closes the connection without an answer in HTTP: something else listens there."
            if self._url.startswith("http://") and speaks_tls(self._url):
                sentence = "The port speaks TLS: the address has to begin with https://."
        raise Trouble(EXIT_UNREACHABLE, sentence)

    def _note_time(self, response: httpx.Response) -> None:
        try:
            self.server_time = parsedate_to_datetime(response.headers["date"]).timestamp()
        except (KeyError, ValueError, OverflowError):
            self.server_time = None


def _refusal(status: int, body: bytes) -> str:
    """The status in words; for a name that the board does not know, also what it says itself."""
    sentence = sentence_for(status)
    if status == httpx.codes.MISDIRECTED_REQUEST:
        try:
            said = json.loads(body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            return sentence
        return f"{sentence} It says: {_line(said)}"
    return sentence


def _message_in(body: bytes) -> Mapping[str, Any]:
    """The one JSON-RPC message, in JSON or as an event stream. Raises Trouble."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith(("event:", "data:", ":", "id:", "retry:")):
        data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data: {")]
        text = data[-1] if data else ""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, Mapping) or message.get("jsonrpc") != "2.0":
        raise Trouble(EXIT_UNREACHABLE, _NO_MCP)
    return message


def _reason(error: object) -> str:
    said = error.get("message") if isinstance(error, Mapping) else None
    return _line(said) if isinstance(said, str) and said else "it does not say why"


def _line(text: object) -> str:
    return in_one_line(str(text))[:_SAID_CHARS]

"""The HTTP under a worker's MCP client: whole replies, bounded, and no failure that ends the client.

The SDK's client dies with its whole context when a request fails below HTTP, and tells no status from another. A
model call may be running then, so here every such failure becomes a JSON-RPC error with its meaning in `data`, and
the client lives through a board that is away.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import trio
from pydantic import SecretStr

from supervisor.config.authorities import Authorities, is_untrusted, tls_context
from supervisor.model.bounded_body import read_body, without_framing
from supervisor.rules.limits import BOARD_CALL_SECONDS, BOARD_REPLY_BYTES

DOOR_ERROR: Final = -32_090
"""The code of errors made here, from the range that JSON-RPC leaves to implementations."""


@asynccontextmanager
async def open_board_http(
    url: str, token: SecretStr, authorities: Authorities | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client for this address that carries the token, reads no proxy variable and follows no redirect."""
    inner = httpx2.AsyncHTTPTransport(verify=tls_context(url, authorities), trust_env=False, retries=0)
    transport = _BoardTransport(inner, token)
    async with httpx2.AsyncClient(
        transport=transport,
        headers={"accept-encoding": "identity"},
        trust_env=False,
        follow_redirects=False,
        timeout=None,
    ) as client:
        yield client


class _BoardTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, token: SecretStr) -> None:
        self._inner = inner
        self._token = token

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = await request.aread()
        request.headers["authorization"] = f"Bearer {self._token.get_secret_value()}"
        content: bytes | None = None
        try:
            with trio.move_on_after(BOARD_CALL_SECONDS) as deadline:
                response = await self._inner.handle_async_request(request)
                content = await read_body(response, max_bytes=BOARD_REPLY_BYTES)
        except httpx2.TransportError as error:
            return _door_error(asked, {"reply": "untrusted" if is_untrusted(error) else "none"})
        if deadline.cancelled_caught:
            return _door_error(asked, {"reply": "late"})
        if content is None:
            return _door_error(asked, {"reply": "too_long"})
        if response.is_success or _is_rpc_error(content):
            headers = without_framing(response.headers)
            return httpx2.Response(response.status_code, headers=headers, content=content)
        facts: dict[str, object] = {"status": response.status_code}
        if "retry-after" in response.headers:
            facts["retry_after"] = response.headers["retry-after"]
        return _door_error(asked, facts)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _parsed(body: bytes) -> dict[str, object]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _is_rpc_error(body: bytes) -> bool:
    message = _parsed(body)
    return message.get("jsonrpc") == "2.0" and isinstance(message.get("error"), dict)


def _door_error(request_body: bytes, facts: dict[str, object]) -> httpx2.Response:
    error = {"code": DOOR_ERROR, "message": "the board did not answer the call", "data": facts}
    reply = {"jsonrpc": "2.0", "id": _parsed(request_body).get("id"), "error": error}
    return httpx2.Response(
        400, headers={"content-type": "application/json"}, content=json.dumps(reply).encode()
    )

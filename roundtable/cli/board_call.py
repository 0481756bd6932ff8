"""Tools of a running board, called over MCP as any agent calls them: with a token and the rights it has."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

import httpx2
import trio
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from roundtable.cli.answers import code_for, sentence_for
from roundtable.cli.output import EXIT_REFUSED
from supervisor.model.bounded_body import read_body, without_framing
from supervisor.rules.text import in_one_line

CALL_SECONDS: Final = 30.0
REPLY_BYTES_MAX: Final = 4 << 20
"""A reply of the board has 64 KiB, and one task's own bodies at the most a few hundred."""
_SAID_CHARS: Final = 2_000


class RefusedError(Exception):
    """The board said no. The message is one line of printable characters."""


class UnreachableError(Exception):
    """There was no answer of a board. The message is one line of printable characters."""


class Call(Protocol):
    """A tool call at the board. Raises RefusedError."""

    def __call__(self, tool: str, arguments: Mapping[str, Any]) -> Awaitable[Mapping[str, Any]]: ...


@asynccontextmanager
async def open_call(url: str, token: str, transport: BoardTransport | None = None) -> AsyncIterator[Call]:
    """The official SDK's client at the board at `url`, as the agent of this token."""
    http = httpx2.AsyncClient(
        transport=transport or BoardTransport(),
        headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
        trust_env=False,
        timeout=CALL_SECONDS,
    )
    async with http, Client(streamable_http_client(url, http_client=http)) as mcp:

        async def call(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            reply = await mcp.call_tool(tool, dict(arguments))
            content: Mapping[str, Any] = reply.structured_content or {}
            if reply.is_error:
                error = content.get("error", {})
                raise RefusedError(
                    in_one_line(str(error.get("message", "")))[:_SAID_CHARS] or "it did not say why"
                )
            return content

        yield call


class BoardTransport(httpx2.AsyncBaseTransport):
    """Whole replies of bounded length. `refusal` is the last HTTP status that was one: the SDK tells none from another."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context(), trust_env=False, retries=0
        )
        self.refusal: int | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            self.refusal = response.status_code
        content = await read_body(response, max_bytes=REPLY_BYTES_MAX)
        if content is None:
            raise httpx2.RemoteProtocolError("the answer is longer than any of a board")
        return httpx2.Response(
            response.status_code, headers=without_framing(response.headers), content=content
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def ask_board(url: str, token: str, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """One call, from a program that does nothing else. Raises RefusedError, UnreachableError."""
    return trio.run(partial(_ask, url, token, tool, arguments))


async def _ask(url: str, token: str, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    # The SDK logs a traceback for an answer that is none; without a handler that would land on the terminal.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    transport = BoardTransport()
    answer: Mapping[str, Any] | None = None
    try:
        with trio.fail_after(CALL_SECONDS):
            async with open_call(url, token, transport) as call:
                answer = await call(tool, arguments)
    except Exception as error:  # the boundary of the SDK, whose own errors are many and come in groups
        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, RefusedError):
                raise cause from None
        if answer is None:
            if (status := transport.refusal) is not None:
                sentence = sentence_for(status)
                if code_for(status) == EXIT_REFUSED:
                    raise RefusedError(sentence) from None
                raise UnreachableError(sentence.removesuffix(".")) from None
            raise UnreachableError(_sentence_for_causes(causes)) from None
    if answer is None:
        raise UnreachableError("it ended without an answer")
    return answer


def _sentence_for_causes(causes: list[BaseException]) -> str:
    for cause in causes:
        if isinstance(cause, trio.TooSlowError | httpx2.TimeoutException):
            return f"no answer within {CALL_SECONDS:.0f} s"
        if isinstance(cause, httpx2.TransportError):
            return in_one_line(str(cause)) or type(cause).__name__
    return "what answers there is no board"


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error

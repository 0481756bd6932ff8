"""A proxy on loopback that adds the bearer, for a client that cannot send one. It changes nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.clients.loopback import open_http

OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
TIMEOUT_SECONDS = 60.0


@asynccontextmanager
async def open_proxy(url: str, token: str) -> AsyncIterator[str]:
    """Where a client reaches the server at `url` as the agent of this token. Host and Origin arrive as the client sent them."""
    target = urlsplit(url)

    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as http:

        async def forward(request: Request) -> Response:
            headers = [
                (name, value)
                for name, value in request.headers.items()
                if name not in OF_ONE_CONNECTION | {"authorization"}
            ]
            outgoing = http.build_request(
                request.method,
                f"http://{target.netloc}{request.url.path}",
                headers=[*headers, ("authorization", f"Bearer {token}")],
                content=await request.body(),
            )
            answer = await http.send(outgoing, stream=True)
            kept = {name: value for name, value in answer.headers.items() if name not in OF_ONE_CONNECTION}

            async def body() -> AsyncIterator[bytes]:
                try:
                    async for part in answer.aiter_raw():
                        yield part
                finally:
                    await answer.aclose()

            return StreamingResponse(body(), answer.status_code, kept)

        methods = ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"]
        app = Starlette(routes=[Route("/{path:path}", forward, methods=methods)])
        async with open_http(app) as own:
            yield own + target.path

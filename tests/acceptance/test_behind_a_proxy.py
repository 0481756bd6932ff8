"""The samples of a reverse proxy in front of the real server, where nginx or Caddy is installed."""

from __future__ import annotations

import gc
import json
import os
import shutil
import socket
import sqlite3
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trio
import trustme

from roundtable.rules.limits import BODY_BYTES
from tests.acceptance.programs import ROOT, START_SECONDS, Program, open_program, write_agents
from tests.acceptance.seats import sdk_seat

NAME = "board.example.org"
"""What the samples call the board."""

PATIENCE_SECONDS = 120.0
GONE_WITHIN_SECONDS = 15.0
"""Well before the 25 s after which a wait ends by itself."""
ACCEPTS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
WAITING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "claim_next", "arguments": {"wait_seconds": 25}},
}
WHO = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}


class AllHere(trio.abc.HostnameResolver):
    """Every name is this machine."""

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", int(port)))]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise OSError("no test asks for a name")


@dataclass(frozen=True, slots=True)
class Front:
    """A board behind a proxy: the proxy's URL, whom to trust, the agents' tokens, and the board's file."""

    url: str
    trust: ssl.SSLContext
    tokens: dict[str, str]
    database: Path

    def http(self, agent: str | None = None) -> httpx.AsyncClient:
        headers = ACCEPTS | ({"Authorization": f"Bearer {self.tokens[agent]}"} if agent else {})
        return httpx.AsyncClient(headers=headers, verify=self.trust, trust_env=False, timeout=20)

    def audited(self, agent: str) -> list[tuple[str, str]]:
        """Tool and outcome of this agent's calls."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as db:
            return db.execute("SELECT tool, outcome FROM audit_log WHERE agent = ?", (agent,)).fetchall()


def nginx(sample: str, folder: Path, port: int, board: str) -> str:
    """The sample within what nginx has around its sites."""
    site = changed(
        sample,
        ("    listen [::]:443 ssl;\n", ""),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("server 127.0.0.1:8000;", f"server {board};"),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", f"{folder}/chain.pem"),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", f"{folder}/key.pem"),
    )
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # one process, so that the end of it is the end of nginx
    around = (
        f"daemon off;\nmaster_process off;\nuser root;\npid {folder}/pid;\nevents {{}}\nhttp {{\n{temporary}"
    )
    return f"{around}{site}}}\n"


def caddy(sample: str, folder: Path, port: int, board: str) -> str:
    """The sample with a certificate that is there already."""
    site = changed(
        sample,
        (
            f"\n{NAME} {{\n",
            f"\n{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {folder}/chain.pem {folder}/key.pem\n",
        ),
        ("reverse_proxy 127.0.0.1:8000", f"reverse_proxy {board}"),
    )
    return f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}"


PROXIES = {
    "nginx": ("nginx.conf", nginx, ("-e", "stderr", "-p", ".", "-c")),
    "caddy": ("Caddyfile", caddy, ("run", "--adapter", "caddyfile", "--config")),
}
"""Of each: its sample, what makes it fit a test, and how it is told where to read it."""


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def installed(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@asynccontextmanager
async def open_front(kind: str, folder: Path) -> AsyncIterator[Front]:
    """Board and proxy, for PATIENCE_SECONDS at most."""
    tokens = write_agents(folder, lead="leader", anna="worker")
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME)
    certificate.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    port = free_port()
    settings = {"ROUNDTABLE_ALLOWED_HOSTS": NAME, "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0"}
    trio.socket.set_custom_hostname_resolver(AllHere())
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=folder, settings=settings) as serve:
            board = urlsplit(await serve.url()).netloc
            file, prepare, arguments = PROXIES[kind]
            sample = (ROOT / "config" / file).read_text(encoding="utf-8")
            (folder / file).write_text(prepare(sample, folder, port, board), encoding="utf-8")
            program = installed(kind)
            assert program is not None
            async with open_program(*arguments, file, folder=folder, command=[program]) as proxy:
                await listening(port, proxy)
                yield Front(f"https://{NAME}:{port}/mcp", trust, tokens, folder / "roundtable.db")


async def listening(port: int, proxy: Program) -> None:
    """Return when somebody listens there. Fails if this program has ended."""
    with trio.fail_after(START_SECONDS):
        while True:
            try:
                return await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            except OSError:
                assert proxy.process.poll() is None, proxy.err.text
            await trio.sleep(0.05)


@pytest.fixture(params=["nginx", "caddy"])
def kind(request) -> str:
    if installed(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_that_waits_gets_its_answer_through_the_proxy(kind, mode, tmp_path) -> None:
    claims = []
    async with (
        open_front(kind, tmp_path) as front,
        sdk_seat(front.url, front.tokens["lead"], mode=mode, trust=front.trust) as lead,
        sdk_seat(front.url + "/", front.tokens["anna"], mode=mode, trust=front.trust) as anna,
    ):

        async def wait() -> None:
            claims.append(await anna.call("claim_next", wait_seconds=25))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            made = await lead.call("create_task", title="t", description="d" * 8_000)
    [claim] = claims
    assert claim["task_id"] == made["task_id"]
    assert claim["task"]["description"] == "d" * 8_000
    gc.collect()  # the SDK's client leaves the generators of its streams to the collector, which would blame a later test


async def test_the_board_hears_that_a_client_has_gone(kind, tmp_path) -> None:
    async with open_front(kind, tmp_path) as front:
        async with front.http("anna") as http, http.stream("POST", front.url, json=WAITING) as response:
            assert response.status_code == 200  # the head comes at once, then nothing for 25 s
        with trio.fail_after(GONE_WITHIN_SECONDS):
            while not front.audited("anna"):  # noqa: ASYNC110 - another process writes it
                await trio.sleep(0.05)
        assert front.audited("anna") == [("claim_next", "gone")]


async def test_the_doors_answer_through_the_proxy(kind, tmp_path) -> None:
    async with open_front(kind, tmp_path) as front, front.http() as http, front.http("anna") as known:
        root = front.url.removesuffix("/mcp")
        for path in ("/mcp", "/mcp/"):
            assert (await known.post(root + path, json=WHO)).status_code == 200
            refused = await http.post(root + path, json=WHO)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await http.post(f"{front.url}?token={front.tokens['anna']}", json=WHO)).status_code == 401
        for origin, status in ((f"https://{NAME}", 200), ("https://evil.example", 403)):
            reply = await known.post(front.url, json=WHO, headers={"Origin": origin})
            assert reply.status_code == status
        get = await known.get(front.url)
        assert (get.status_code, get.headers["allow"]) == (405, "POST")
        looked = await http.get(f"{root}/.well-known/oauth-protected-resource/mcp")
        assert (looked.status_code, looked.json()["error"]["code"]) == (404, "not_found")
        for path in ("/healthz", "/readyz", "/", "/mcp/x"):
            assert (await http.get(root + path)).status_code == 404


async def test_a_body_of_a_mebibyte_passes_and_a_longer_one_is_refused(kind, tmp_path) -> None:
    fitting = json.dumps(WHO).encode().ljust(BODY_BYTES)
    headers = {"Content-Type": "application/json"}
    async with open_front(kind, tmp_path) as front, front.http("anna") as known:
        assert (await known.post(front.url, content=fitting, headers=headers)).status_code == 200
        try:
            refused = await known.post(front.url, content=fitting + b" ", headers=headers)
        except httpx.TransportError:
            # the answer comes before the body's end, and Go may close on a client that is still sending
            assert kind == "caddy"
        else:
            assert refused.status_code == 413

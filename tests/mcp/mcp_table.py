"""A whole board in one process: a real database, board and endpoint behind the real doors, and agents that call it.

Nothing is replaced but the clock, which is set by hand, and the thread, which is this one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import trio
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from roundtable.board.actor import Board, open_board
from roundtable.board.clock import reading
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.errors import Code
from roundtable.rules.model import Now
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.unit import Limits
from roundtable.tools.catalogue import BY_NAME
from roundtable.tools.endpoint import Endpoint
from roundtable.web.doors import Doors
from roundtable.web.limits import WebLimits
from roundtable.web.line import Line
from roundtable.web.peers import Admission, Peer
from roundtable.web.tokens import TokenTable, digest

LEAD = Agent("lead", Role.LEADER)
ANNA = Agent("anna", Role.WORKER, ("python", "prose"))
BERT = Agent("bert", Role.WORKER)
AGENTS = (LEAD, ANNA, BERT)

HANDSHAKE = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
GENERATIONS = ("2025-11-25", MODERN)
"""The newest of the handshake, and the one without."""

LEFT_TO_THE_SDK = ("Mcp-Param-Unused", "1")
"""A header that means nothing here; a request with it does not take the short way."""

CODES = frozenset(code.value for code in Code)
URL = "http://127.0.0.1:8000/mcp"
MORNING_MS = 1_780_000_000_000
ABSENT = object()


class HandSetClock:
    """Both clocks of the board: they go on only when told to. `wall_ahead_ms` is how wrong the wall clock is."""

    def __init__(self) -> None:
        self.ms = MORNING_MS
        self.wall_ahead_ms = 0

    def __call__(self) -> Now:
        return reading(self.ms + self.wall_ahead_ms, self.ms)

    def advance(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@dataclass
class ClaimIds:
    """The board's source of claim ids; `fault` is raised in place of the next one."""

    given: list[str] = field(default_factory=list)
    fault: Exception | None = None

    def __call__(self) -> str:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.given.append(f"claim{len(self.given):04d}secret")
        return self.given[-1]


@dataclass(frozen=True)
class Answer:
    """One answer of tools/call: the JSON-RPC result as it came, and the HTTP status."""

    tool: str
    result: dict[str, Any]
    status: int = 200

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError", False))

    @cached_property
    def text(self) -> str:
        (block,) = self.result["content"]
        assert block["type"] == "text"
        return block["text"]

    @property
    def content(self) -> dict[str, Any]:
        return self.result["structuredContent"]

    @property
    def error(self) -> dict[str, Any]:
        assert self.is_error, self.content
        return self.content["error"]

    @property
    def code(self) -> str | None:
        """The error's code, or None for a success."""
        return self.error["code"] if self.is_error else None

    def faults(self) -> list[str]:
        """What is wrong with it by the rules for every answer, whatever the tool and the outcome."""
        found = []
        if json.loads(self.text) != self.content:
            found.append("the text block says something else than structuredContent")
        if self.text != _compact(self.content):
            found.append("the text block is not the compact JSON")
        if self.is_error != ("error" in self.content):
            found.append("isError and the error object disagree")
        if self.is_error and self.code not in CODES:
            found.append(f"no such code: {self.code}")
        tool = BY_NAME.get(self.tool)
        if tool is not None:
            found += [
                str(error.message)
                for error in Draft202012Validator(tool.output_schema).iter_errors(self.content)
            ]
        return found


def _compact(value: Any) -> str:
    """Compact JSON with only C0, U+0085, U+2028 and U+2029 escaped, written from the rule, character by character."""
    if isinstance(value, str):
        return '"' + "".join(map(_character, value)) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{_compact(key)}:{_compact(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    return json.dumps(value)


def _character(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char in "\n\r\t\b\f":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}[char]
    if char < " " or char in "\u0085\u2028\u2029":
        return f"\\u{ord(char):04x}"
    return char


class Seat:
    """One agent at the table, with its token. What it is answered is kept in the table's `answers`."""

    def __init__(self, table: Table, agent: Agent, token: str) -> None:
        self.agent = agent
        self._table = table
        self._token = token

    def __repr__(self) -> str:
        return f"<Seat {self.agent.name}>"

    @asynccontextmanager
    async def http(self) -> AsyncIterator[httpx2.AsyncClient]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json, text/event-stream"}
        transport = httpx2.ASGITransport(app=self._table.app)
        async with httpx2.AsyncClient(transport=transport, headers=headers) as client:
            yield client

    @asynccontextmanager
    async def sdk(self, generation: str) -> AsyncIterator[Client]:
        """The official SDK's client, speaking this generation."""
        mode = MODERN if generation == MODERN else "legacy"
        async with (
            self.http() as http,
            Client(streamable_http_client(URL, http_client=http), mode=mode) as client,
        ):
            yield client

    async def post(self, body: bytes, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Send these bytes as they are."""
        with trio.fail_after(10):
            async with self.http() as http:
                return await http.post(
                    URL, content=body, headers={"Content-Type": "application/json", **(headers or {})}
                )

    async def request(
        self, method: str, params: object = ABSENT, generation: str = "2025-11-25", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """One JSON-RPC request: the HTTP status and the message that came back."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method}
        sent = {"MCP-Protocol-Version": generation}
        if generation == MODERN:
            sent["Mcp-Method"] = method
            params = {} if params is ABSENT else params
            if isinstance(params, dict):
                params = {"_meta": _ENVELOPE, **params}
                name = params.get("uri" if method == "resources/read" else "name")
                if method in _NAMED and isinstance(name, str) and name.isascii() and name.isprintable():
                    sent["Mcp-Name"] = name
        if params is not ABSENT:
            message["params"] = params
        response = await self.post(json.dumps(message).encode(), {**sent, **headers})
        return response.status_code, message_in(response)

    async def call(
        self, tool: str, arguments: object = ABSENT, generation: str = "2025-11-25", **named: Any
    ) -> Answer:
        """Call a tool. The answer has been held against the rules for every answer."""
        params: dict[str, Any] = {"name": tool}
        if arguments is not ABSENT or named:
            params["arguments"] = named if arguments is ABSENT else arguments
        status, message = await self.request("tools/call", params, generation)
        assert "result" in message, message
        return self._table.taken(self, Answer(tool, message["result"], status))

    async def did(self, tool: str, **named: Any) -> dict[str, Any]:
        """Call a tool that has to succeed, and return what it says."""
        answer = await self.call(tool, named)
        assert not answer.is_error, answer.text
        return answer.content


_NAMED = ("tools/call", "prompts/get", "resources/read")
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def message_in(response: httpx2.Response) -> dict[str, Any]:
    """The one JSON-RPC message of a response, in JSON or as an event stream; {} for an empty body."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        (data,) = (line[6:] for line in response.text.split("\n") if line.startswith("data: {"))
        return json.loads(data)
    return response.json() if response.content else {}


class Table:
    """The board with its agents seated."""

    def __init__(
        self, board: Board, clock: HandSetClock, claim_ids: ClaimIds, executor: Executor, app: Any
    ) -> None:
        self.board = board
        self.clock = clock
        self.claim_ids = claim_ids
        self.executor = executor
        self.app = app
        self.stopping = trio.Event()
        self.answers: list[tuple[Agent, Answer]] = []
        self.seats: dict[str, Seat] = {}

    @property
    def lead(self) -> Seat:
        return self.seats["lead"]

    @property
    def anna(self) -> Seat:
        return self.seats["anna"]

    @property
    def bert(self) -> Seat:
        return self.seats["bert"]

    def taken(self, seat: Seat, answer: Answer) -> Answer:
        assert not answer.faults(), f"{answer.tool}: {answer.faults()}\n{answer.text}"
        self.answers.append((seat.agent, answer))
        return answer

    async def task(self, title: str = "A task", **more: Any) -> int:
        """Create a task, as the leader, and return its id."""
        return (await self.lead.did("create_task", title=title, description="Do it.", **more))["task_id"]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What the database says; the tests' own eye on it."""
        return self.executor.db.execute(sql).fetchall()

    def audit(self) -> list[tuple[str, str, int | None, str]]:
        """(agent, tool, task_id, outcome) of each row, in order."""
        return self.rows("SELECT agent, tool, task_id, outcome FROM audit_log ORDER BY audit_id")


def token_of(agent: Agent) -> str:
    return f"token-of-{agent.name}-that-nobody-else-knows"


@asynccontextmanager
async def laid_table(
    folder: Path,
    *,
    agents: Iterable[Agent] = AGENTS,
    calls_per_minute: int = 0,
    claims_per_worker: int = 5,
    wrap: Callable[[Board], Any] | None = None,
) -> AsyncIterator[Table]:
    """A running board on a file in this folder. `wrap` may put something of a test's own between endpoint and board."""
    everyone = tuple(agents)
    clock, claim_ids = HandSetClock(), ClaimIds()
    db = open_database(folder / "board.db")
    executor = Executor(db, Directory(everyone), Limits(claims_per_worker, calls_per_minute), claim_ids)
    executor.start(clock())
    try:
        async with open_board(executor, clock, run=_here) as board:
            stopping = trio.Event()
            endpoint = Endpoint(wrap(board) if wrap else board, calls_per_minute, stopping)
            async with endpoint.run():
                app = _behind_doors(endpoint, everyone)
                table = Table(board, clock, claim_ids, executor, app)
                table.stopping = stopping
                for agent in everyone:
                    table.seats[agent.name] = Seat(table, agent, token_of(agent))
                yield table
    finally:
        executor.close()


async def _here(work: Callable[[], Any]) -> Any:
    await trio.lowlevel.checkpoint()
    return work()


def _behind_doors(endpoint: Endpoint, agents: Iterable[Agent]) -> Any:
    async def ready() -> str | None:
        return None

    # the doors' own limit is not what is looked at here
    limits = WebLimits(rate_limit_per_minute=0)
    doors = Doors(endpoint, limits, ready=ready, stopping=trio.Event(), has_stopped=lambda: False)
    tokens = TokenTable({digest(token_of(agent).encode()): agent for agent in agents})
    admission = Admission(limits)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert admission.enter("127.0.0.1")
        peer = Peer("127.0.0.1", tokens, admission)
        scope["state"] = {"peer": peer, "line": Line(lambda: False)}
        try:
            await doors(scope, receive, send)
        finally:
            peer.leave()

    return app

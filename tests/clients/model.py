"""A model that follows the story instead of thinking: an endpoint on loopback for the apps that want a model behind them.

It asks the app for the next call of the story, and notes what the app hands it as the answer of the last one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from roundtable.tools.playbooks import INSTRUCTIONS, PLAYBOOKS
from tests.clients.loopback import open_http
from tests.clients.story import BEFORE, STEPS, Seen, Shown
from tests.clients.table import Table

SERVER_NAME = "roundtable"
"""What the apps are told to call the server."""


PLAYBOOK = "work"
"""The prompt of MCP that the server has for a worker."""
CALL = "call_"
"""How the ids of the calls begin that belong to the story."""


@dataclass(frozen=True)
class Turn:
    """What the model says: a call of a tool that was offered, or, without one, that it is done."""

    number: int
    tool: Any = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def call_id(self) -> str:
        return f"{CALL}{self.number:02}"

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Search(Turn):
    """A search for tools."""

    @property
    def call_id(self) -> str:
        return "search_1"


class Dialect(Protocol):
    """One vendor's API for models."""

    path: str

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tools of the board that this request offers: bare name, and what `answer` needs to ask for it."""

    def search(self, body: Mapping[str, Any]) -> Search | None:
        """The call that makes the app offer the tools of the board, if it has put them off until they are searched for."""

    def results(self, body: Mapping[str, Any]) -> Sequence[tuple[str, Shown]]:
        """The id of each call, and what the app shows of its answer."""

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        """The turn, as a stream if the body's `stream` says so."""


PREFIXES = (
    f"mcp__{SERVER_NAME}__",
    f"mcp_{SERVER_NAME}_",
    f"{SERVER_NAME}__",
    f"{SERVER_NAME}_",
    f"{SERVER_NAME}-",
)
"""What apps put before the name of a tool."""


def bare(name: str, prefixes: Sequence[str] = PREFIXES) -> str | None:
    """The name of a tool of the board without what the app puts before it. None if it is another's."""
    return next((name[len(prefix) :] for prefix in prefixes if name.startswith(prefix)), None)


@dataclass
class ScriptedModel:
    """The endpoint's state over one run."""

    dialect: Dialect
    table: Table
    log: Path
    url: str = ""
    seen: Seen = field(default_factory=Seen)

    async def take(self, request: Request) -> Response:
        """One request for a completion."""
        body = await request.json()
        body.setdefault("stream", ":stream" in request.url.path)
        with self.log.open("a") as log:
            log.write(json.dumps(body) + "\n")
        offered = self.dialect.offered(body)
        self._note_what_is_told(json.dumps(body, ensure_ascii=False))
        answers = self.dialect.results(body)
        results = [shown for call_id, shown in answers if call_id.startswith(CALL)]
        if not offered:
            search = self.dialect.search(body) if not answers else None
            if search is not None:
                self.seen.notes.append(f"searches for the tools with {search.tool}")
            return self.dialect.answer(body, search or Turn(0))
        self.seen.tools = sorted(offered)
        self.seen.shown = results
        done = len(results)
        if done == len(BEFORE) and not self.table.restarts:
            await self.table.restart()
        if done >= len(STEPS):
            return self.dialect.answer(body, Turn(done))
        step = STEPS[done]
        if step.tool not in offered:
            self.seen.notes.append(f"{step.tool} was not offered when it was wanted")
            return self.dialect.answer(body, Turn(done))
        return self.dialect.answer(body, Turn(done, offered[step.tool], step.arguments))

    def _note_what_is_told(self, body: str) -> None:
        """The server's own words to the model, by how each of them begins."""
        (playbook,) = (each.text for each in PLAYBOOKS if each.name == PLAYBOOK)
        for name, words in (
            ("the server's instructions", INSTRUCTIONS),
            (f"the prompt {PLAYBOOK}", playbook),
        ):
            note = f"its model is told {name}"
            if words.split(".")[0] in body and note not in self.seen.notes:
                self.seen.notes.append(note)


async def _elsewhere(request: Request) -> Response:
    """Apps look around before they start: at lists of models, token counts and the like."""
    if request.url.path.endswith("/count_tokens"):
        return JSONResponse({"input_tokens": 1_000})
    return JSONResponse({"error": {"type": "not_found_error", "message": "not here"}}, status_code=404)


@asynccontextmanager
async def open_model(dialect: Dialect, table: Table, folder: Path) -> AsyncIterator[ScriptedModel]:
    """The endpoint on a free port of loopback. Every request body goes into `requests.jsonl` in the folder."""
    model = ScriptedModel(dialect, table, folder / "requests.jsonl")
    app = Starlette(
        routes=[
            Route(dialect.path, model.take, methods=["POST"]),
            Route("/{path:path}", _elsewhere, methods=["GET", "HEAD", "POST"]),
        ]
    )
    async with open_http(app) as url:
        model.url = url
        yield model


def events(*parts: tuple[str | None, Mapping[str, Any] | str]) -> Response:
    """A whole event stream: name, if there is one, and data of each event."""
    lines = []
    for name, data in parts:
        lines += [f"event: {name}"] if name else []
        lines += [f"data: {data if isinstance(data, str) else json.dumps(data)}", ""]
    return Response("\n".join(lines) + "\n", media_type="text/event-stream")


def text_of(content: object) -> str:
    """The text of an answer, given as text or as blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
    return ""

"""The short way and the SDK's own way give the same answers, and the short way takes nothing that is not plainly right.

Each request is sent to two tables that are alike: to one as it is, to the other with a header that means nothing here
and that the short way leaves to the SDK.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp_table import HANDSHAKE, LEFT_TO_THE_SDK, MODERN, URL, Seat, Table, laid_table

from roundtable.tools.answers import Told
from roundtable.tools.catalogue import BY_NAME
from roundtable.tools.fast_path import NESTING_MAX, FastPath

VERSIONS = (*HANDSHAKE, MODERN)
STRANGE = 'a"b\\c\td\ne\u2028f\u2029g é 中文 \u202e <b>'

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_BOARD_OF_A_CURSOR = re.compile("updates-[0-9a-f]{8}-")
BARE = object()
"""In place of a value: leave the field out."""


@dataclass(frozen=True)
class Sent:
    """One request: a plain call, but for what is said here. `taken`: by the short way."""

    tool: object = "whoami"
    arguments: object = BARE
    seat: str = "anna"
    taken: bool = True
    message: dict[str, object] = field(default_factory=dict)
    params: object = None
    meta: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    more_headers: tuple[tuple[str, str], ...] = ()
    text: tuple[str, str] | None = None
    encoding: str = "utf-8"
    only: tuple[str, ...] = VERSIONS

    def body(self, version: str) -> bytes:
        meta = {**(ENVELOPE if version == MODERN else {}), **self.meta}
        params: dict[str, object] = {"name": self.tool, "arguments": self.arguments}
        if meta:
            params["_meta"] = bare(meta)
        message = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": bare(params) if self.params is None else self.params,
            **self.message,
        }
        encoded = json.dumps(bare(message))
        if self.text is not None:
            assert self.text[0] in encoded
            encoded = encoded.replace(*self.text)
        return encoded.encode(self.encoding, "surrogatepass")

    def header_lines(self, version: str) -> list[tuple[str, str]]:
        lines: dict[str, str | None] = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": version,
        }
        if version == MODERN:
            lines |= {"Mcp-Method": "tools/call", "Mcp-Name": str(self.tool)}
        lines |= self.headers
        return [(name, value) for name, value in lines.items() if value is not None] + list(self.more_headers)


def bare(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not BARE}


def nested(levels: int) -> Any:
    value: Any = "in"
    for _ in range(levels):
        value = [value]
    return value


TASK = {"title": "T", "description": "D"}
CASES: dict[str, Sent] = {
    "no arguments": Sent(),
    "empty arguments": Sent(arguments={}),
    "a task": Sent("create_task", {**TASK, "priority": 3, "required_skill": "python"}, "lead"),
    "a task with a notice": Sent("create_task", {**TASK, "required_skill": "cobol"}, "lead"),
    "strange text": Sent("create_task", {"title": "T", "description": STRANGE}, "lead"),
    "nulls": Sent("create_task", {**TASK, "assignee": None, "depends_on": None}, "lead"),
    "a list": Sent("list_tasks", {"limit": 2}),
    "a whole task": Sent("get_task", {"task_id": 1}),
    "a claim": Sent("claim_task", {"task_id": 1}),
    "a float that is whole": Sent("get_task", {"task_id": 1.0}),
    "history": Sent("get_history", {"limit": 5}),
    "agents": Sent("list_agents", {}, "lead"),
    "another role's tool": Sent("create_task", TASK),
    "an unknown argument": Sent("whoami", {"nonsense": 1}),
    "a wrong type": Sent("get_task", {"task_id": "1"}),
    "a truth for a number": Sent("get_task", {"task_id": True}),
    "a missing argument": Sent("get_task", {}),
    "too much text": Sent("post_message", {"task_id": 1, "body": "x" * 4_001}),
    "a control character": Sent("post_message", {"task_id": 1, "body": "a\x07b"}),
    "no such task": Sent("get_task", {"task_id": 99}),
    "not one's own": Sent("submit_result", {"task_id": 1, "result": "r"}, "bert"),
    "a string as id": Sent(message={"id": "seven"}),
    "an empty string as id": Sent(message={"id": ""}),
    "a negative id": Sent(message={"id": -7}),
    "progress": Sent(meta={"progressToken": 5}),
    "progress by name": Sent(meta={"progressToken": "five", "an.app/of-its-own": {"x": [1]}}),
    "a session of old": Sent(more_headers=(("Mcp-Session-Id", "0123456789abcdef"),)),
    "anything accepted": Sent(headers={"Accept": "*/*"}),
    "JSON alone accepted": Sent(headers={"Accept": "application/json"}),
    "no client named": Sent(meta={"io.modelcontextprotocol/clientInfo": BARE}, only=(MODERN,)),
    "no version": Sent(headers={"MCP-Protocol-Version": None}, only=HANDSHAKE),
    "the same field twice": Sent(text=('"id": 7', '"id": 8, "id": 7')),
    "nothing accepted that there is": Sent(headers={"Accept": "text/html"}, taken=False),
    "a task that is there": Sent("claim_next", {}),
    "a task that is there, if need be later": Sent(
        "claim_next", {"wait_seconds": 25, "idempotency_key": "é"}
    ),
    "no task": Sent("claim_next", {"wait_seconds": 0}, "bert"),
    "no wait for a leader": Sent("claim_next", {"wait_seconds": 1}, "lead"),
    "a wait that is too long": Sent("claim_next", {"wait_seconds": 26}),
    "news": Sent("wait_for_updates", {}),
    "a cursor from elsewhere": Sent("wait_for_updates", {"cursor": "x"}),
    "a wait, anything accepted": Sent("claim_next", {}, headers={"Accept": "*/*"}),
    "a wait, any text accepted": Sent("claim_next", {}, headers={"Accept": "application/json, text/*"}),
    "a wait, JSON alone accepted": Sent(
        "claim_next", {}, headers={"Accept": "application/json"}, taken=False
    ),
    "a wait, a stream alone accepted": Sent(
        "claim_next", {}, headers={"Accept": "text/event-stream"}, taken=False
    ),
    "an unknown tool": Sent("nonsense", {}, taken=False),
    "an emoji": Sent("create_task", {"title": "😀", "description": "D"}, "lead", taken=False),
    "null for arguments": Sent(arguments=None, taken=False),
    "a list for arguments": Sent(arguments=[1], taken=False),
    "no name": Sent(tool=BARE, headers={"Mcp-Name": None}, taken=False),
    "a number for a name": Sent(tool=5, taken=False),
    "no params": Sent(message={"params": BARE}, taken=False),
    "a list of params": Sent(params=[1], taken=False),
    "a field more in params": Sent(params={"name": "whoami", "task": {}}, taken=False),
    "a field more": Sent(message={"extra": 1}, taken=False),
    "a result as well": Sent(message={"result": {}}, taken=False),
    "no version of JSON-RPC": Sent(message={"jsonrpc": BARE}, taken=False),
    "another JSON-RPC": Sent(message={"jsonrpc": "1.0"}, taken=False),
    "null as id": Sent(message={"id": None}, taken=False),
    "a truth as id": Sent(message={"id": True}, taken=False),
    "half an id": Sent(message={"id": 7.5}, taken=False),
    "an id that is too large": Sent(message={"id": 2**70}, taken=False),
    "a notification": Sent(message={"id": BARE}, taken=False),
    "deep nesting": Sent("whoami", {"x": nested(NESTING_MAX)}, taken=False),
    "very deep nesting": Sent("whoami", {"x": nested(300)}, taken=False),
    "half a surrogate pair": Sent("get_task", {"task_id": "\ud800"}, taken=False),
    "the same in capitals": Sent("get_task", {"task_id": "x"}, text=('"x"', '"\\uD800"'), taken=False),
    "half of one, raw": Sent("get_task", {"task_id": "x"}, text=('"x"', '"\ud800"'), taken=False),
    "not a number": Sent("get_task", {"task_id": 1}, text=('"task_id": 1', '"task_id": NaN')),
    "something behind it": Sent(text=('"id": 7', '"id": 7}, {"id": 7'), taken=False),
    "another encoding": Sent(encoding="utf-16", taken=False),
    "a byte order mark": Sent(encoding="utf-8-sig", taken=False),
    "progress by a list": Sent(meta={"progressToken": [5]}, taken=False),
    "progress by a truth": Sent(meta={"progressToken": True}, taken=False),
    "no object for _meta": Sent(params={"name": "whoami", "_meta": 5}, taken=False),
    "a very long _meta": Sent(meta={"an.app/of-its-own": "x" * 3_000}, taken=False),
    "an unknown version": Sent(headers={"MCP-Protocol-Version": "2031-01-01"}, taken=False),
    "two versions": Sent(more_headers=(("MCP-Protocol-Version", "2025-06-18"),), taken=False),
    "another method in the header": Sent(headers={"Mcp-Method": "tools/list"}, only=(MODERN,), taken=False),
    "no method in the header": Sent(headers={"Mcp-Method": None}, only=(MODERN,), taken=False),
    "another name in the header": Sent(headers={"Mcp-Name": "get_task"}, only=(MODERN,), taken=False),
    "no name in the header": Sent(headers={"Mcp-Name": None}, only=(MODERN,), taken=False),
    "two names": Sent(more_headers=(("Mcp-Name", "whoami"),), only=(MODERN,), taken=False),
    "no envelope": Sent(params={"name": "whoami"}, only=(MODERN,), taken=False),
    "another version in the envelope": Sent(
        meta={"io.modelcontextprotocol/protocolVersion": "2025-11-25"}, only=(MODERN,), taken=False
    ),
    "no capabilities": Sent(
        meta={"io.modelcontextprotocol/clientCapabilities": BARE}, only=(MODERN,), taken=False
    ),
    "capabilities that are none": Sent(
        meta={"io.modelcontextprotocol/clientCapabilities": {"roots": 5}}, only=(MODERN,), taken=False
    ),
    "a client that is none": Sent(
        meta={"io.modelcontextprotocol/clientInfo": {"name": 5}}, only=(MODERN,), taken=False
    ),
}
REQUESTS = [
    pytest.param(sent, version, id=f"{name}, {version}")
    for name, sent in CASES.items()
    for version in sent.only
]


async def posted(seat: Seat, sent: Sent, version: str, *more: tuple[str, str]) -> tuple[int, str, str]:
    async with seat.http() as http:
        headers = [*sent.header_lines(version), *more]
        if "Accept" not in dict(headers):
            http.headers.pop("accept", None)
        response = await http.post(URL, content=sent.body(version), headers=headers)
    return response.status_code, response.headers.get("content-type", ""), response.text


def without_layout(answer: tuple[int, str, str]) -> tuple[int, str, object]:
    status, media_type, text = answer
    if media_type.startswith("text/event-stream"):
        begin, _, end = text.partition("data: ")
        assert (begin, end[-4:]) == ("event: message\r\n", "\r\n\r\n"), text
        text = end
    text = _BOARD_OF_A_CURSOR.sub("updates-of-this-board-", text)
    return status, media_type.partition(";")[0], json.loads(text) if text.startswith("{") else text


@pytest.mark.parametrize(("sent", "version"), REQUESTS)
async def test_both_ways_answer_the_same_and_leave_the_same_behind(tmp_path: Path, sent: Sent, version: str):
    answers, rows = [], []
    for folder, more in (("plain", ()), ("sdk", (LEFT_TO_THE_SDK,))):
        (tmp_path / folder).mkdir()
        async with laid_table(tmp_path / folder) as table:
            await table.task("First")
            answers.append(without_layout(await posted(table.seats[sent.seat], sent, version, *more)))
            rows.append(
                (
                    table.audit(),
                    table.rows("SELECT task_id, title, description, status, assignee FROM tasks"),
                    table.rows("SELECT task_id, agent, event, changes FROM history"),
                )
            )
    assert answers[0] == answers[1]
    assert rows[0] == rows[1]
    assert answers[0][0] < 500


@pytest.mark.parametrize(("sent", "version"), REQUESTS)
@pytest.mark.parametrize("more", [(), (LEFT_TO_THE_SDK,)], ids=["plain", "marked"])
async def test_the_short_way_takes_what_is_plainly_right_and_nothing_else(
    sent: Sent, version: str, more: tuple[tuple[str, str], ...]
):
    calls, messages = [], []

    async def call(scope: Any, name: str, arguments: dict[str, Any]) -> Told:
        calls.append((name, arguments))
        return Told({}, is_error=False)

    async def send(message: Any) -> None:
        messages.append(message)

    body = sent.body(version)
    try:
        message = json.loads(body)
    except ValueError:
        assert not sent.taken
        return
    if not isinstance(message, dict):
        assert not sent.taken
        return
    lines = [*sent.header_lines(version), *more]
    scope = {"body": body, "headers": [(name.lower().encode(), value.encode()) for name, value in lines]}
    way = FastPath(BY_NAME.keys(), ("claim_next", "wait_for_updates"), call, {"name": "tests"})
    taken = await way.answer(message, scope, trio.sleep_forever, send)
    assert taken == (sent.taken and not more)
    assert bool(calls) == bool(messages) == taken


async def test_a_call_over_the_rate_is_refused_alike(tmp_path: Path):
    answers = []
    for folder, more in (("plain", ()), ("sdk", (LEFT_TO_THE_SDK,))):
        (tmp_path / folder).mkdir()
        async with laid_table(tmp_path / folder, calls_per_minute=2) as table:
            told = [await posted(table.anna, Sent(), version, *more) for version in VERSIONS]
            answers.append(([without_layout(each) for each in told], table.audit()))
    assert answers[0] == answers[1]
    assert '"rate_limited"' in json.dumps(answers[0][0][-1])


async def test_a_fault_of_ours_is_told_alike(tmp_path: Path):
    answers = []
    for folder, more in (("plain", ()), ("sdk", (LEFT_TO_THE_SDK,))):
        (tmp_path / folder).mkdir()
        async with laid_table(tmp_path / folder, wrap=Broken) as table:
            told = [await posted(table.anna, Sent(), version, *more) for version in VERSIONS]
            answers.append([without_layout(each) for each in told])
    assert answers[0] == answers[1]
    assert '"internal"' in json.dumps(answers[0])


class Broken:
    """A board with a fault of ours in its way in."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def __getattr__(self, name: str) -> Any:
        return getattr(self._board, name)

    async def ask(self, *asked: object) -> object:
        raise RuntimeError("a fault")


def test_mcp_is_of_the_line_that_the_short_way_was_held_against():
    assert version("mcp").startswith("2.3.")


async def test_the_servers_name_stands_in_each_answer_of_the_2026_generation(table: Table):
    _, _, text = await posted(table.anna, Sent(), MODERN)
    assert json.loads(text)["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "roundtable"

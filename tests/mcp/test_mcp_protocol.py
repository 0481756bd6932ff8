"""Both generations of the protocol, and what clients probe for."""

from __future__ import annotations

import json

import pytest
import structlog
from mcp_story import tell
from mcp_table import HANDSHAKE, MODERN, Table, message_in

INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "tests", "version": "0"}}


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize("version", HANDSHAKE)
async def test_each_handshake_version_is_agreed_and_serves_calls(table: Table, version: str):
    status, message = await table.anna.request(
        "initialize", {"protocolVersion": version, **INITIALIZE}, version
    )
    assert status == 200
    assert message["result"]["protocolVersion"] == version
    assert message["result"]["serverInfo"]["name"] == "roundtable"
    assert message["result"]["instructions"].startswith("Roundtable is a task board")
    response = await table.anna.post(
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}', {"MCP-Protocol-Version": version}
    )
    assert response.status_code == 202
    assert (await table.anna.call("whoami", {}, version)).content["name"] == "anna"


@pytest.mark.spec("HTTP-2")
async def test_a_client_that_sends_no_version_after_the_handshake_is_served(table: Table):
    response = await table.anna.post(
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"whoami"}}'
    )
    assert response.status_code == 200
    assert message_in(response)["id"] == "a"


@pytest.mark.spec("HTTP-2")
async def test_an_unknown_version_is_offered_one_that_there_is(table: Table):
    _, message = await table.anna.request("initialize", {"protocolVersion": "1999-01-01", **INITIALIZE})
    assert message["result"]["protocolVersion"] == HANDSHAKE[-1]
    status, message = await table.anna.request("tools/list", {}, "2031-01-01")
    assert status == 400
    assert "error" in message


@pytest.mark.spec("HTTP-3")
async def test_an_unknown_session_strands_nobody(table: Table, generation: str):
    for session in ("0123456789abcdef", "x" * 1_000):
        status, message = await table.anna.request(
            "tools/call", {"name": "whoami"}, generation, **{"Mcp-Session-Id": session}
        )
        assert status == 200
        assert message["result"]["structuredContent"]["name"] == "anna"


@pytest.mark.spec("HTTP-3")
async def test_the_server_gives_out_no_session(table: Table):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", **INITIALIZE},
    }
    response = await table.anna.post(json.dumps(body).encode())
    assert "mcp-session-id" not in response.headers


@pytest.mark.spec("HTTP-2")
async def test_the_sdks_client_speaks_either_generation(table: Table, generation: str):
    async with table.lead.sdk(generation) as leader, table.anna.sdk(generation) as worker:
        assert leader.protocol_version == generation
        made = await leader.call_tool("create_task", {"title": "Tïtle", "description": "d"})
        assert made.structured_content == {"task_id": 1, "status": "open"}
        brief = await worker.call_tool("claim_next")
        assert brief.structured_content["task"]["title"] == "Tïtle"
        assert json.loads(brief.content[0].text) == brief.structured_content
        await worker.call_tool("submit_result", {"task_id": 1, "result": "r"})
        done = await leader.call_tool("review_task", {"task_id": 1, "verdict": "accept"})
        assert done.structured_content == {"task_id": 1, "status": "done"}
        empty = await worker.call_tool("claim_next")
        assert empty.structured_content == {"task": None}
        assert empty.content[0].text == '{"task":null}'


@pytest.mark.spec("HTTP-7")
@pytest.mark.parametrize(
    "method",
    ["completion/complete", "logging/setLevel", "resources/subscribe", "tasks/list", "nonsense"],
)
async def test_what_is_not_offered_is_said_to_be_missing_and_is_no_server_error(
    table: Table, generation: str, method: str
):
    known = {
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "lead"},
            "argument": {"name": "a", "value": "b"},
        },
        "logging/setLevel": {"level": "info"},
        "resources/subscribe": {"uri": "roundtable://board"},
    }
    status, message = await table.anna.request(method, known.get(method, {}), generation)
    assert message["error"]["code"] == -32601
    assert status == (404 if generation == MODERN else 200)


@pytest.mark.spec("MCP-4")
async def test_subscriptions_are_not_offered(table: Table, generation: str):
    status, message = await table.anna.request("subscriptions/listen", {"notifications": {}}, generation)
    assert status < 500
    assert message["error"]["code"] == -32601
    _, message = await table.anna.request("resources/subscribe", {"uri": "roundtable://board"})
    assert message["error"]["code"] == -32601


@pytest.mark.spec("MCP-4")
async def test_what_is_offered_is_said_to_be_there_and_nothing_else(table: Table):
    offers = {"tools", "resources", "prompts"}
    _, message = await table.anna.request("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE})
    offered = {name: what for name, what in message["result"]["capabilities"].items() if what is not None}
    assert offered.keys() - {"experimental"} == offers
    assert not any(what.get("listChanged") or what.get("subscribe") for what in offered.values())
    status, message = await table.anna.request("server/discover", {}, MODERN)
    assert status == 200
    assert message["result"]["capabilities"].keys() - {"experimental"} == offers
    assert MODERN in message["result"]["supportedVersions"]


@pytest.mark.spec("HTTP-13", "HTTP-7")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"5",
        b'"x"',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}]',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"whoami"}}',
        b'{"id":1,"method":"tools/call","params":{"name":"whoami"}}',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":{"name":"whoami"}}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"whoami"}}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
        b'\xff\xfe{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 300 + b"1" + b"}" * 301,
    ],
    ids=range(15),
)
async def test_what_is_no_request_is_refused_without_a_server_error(
    table: Table, generation: str, body: bytes
):
    headers = {"MCP-Protocol-Version": generation}
    if generation == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
    response = await table.anna.post(body, headers)
    assert 200 <= response.status_code < 500
    if response.status_code == 200:
        assert "error" in message_in(response)
    assert not (await table.anna.call("whoami")).is_error


@pytest.mark.spec("HTTP-7")
async def test_a_call_sent_as_a_notification_changes_nothing_and_breaks_nothing(
    table: Table, generation: str, caplog: pytest.LogCaptureFixture
):
    body = (
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"create_task",'
        b'"arguments":{"title":"t","description":"d"},"_meta":{'
        b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
    )
    headers = {"MCP-Protocol-Version": generation}
    if generation == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "create_task"}
    with structlog.testing.capture_logs() as logged:
        response = await table.lead.post(body, headers)
        assert response.status_code == 202
        assert not (await table.lead.call("whoami")).is_error
    assert logged == []
    assert [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}] == []
    assert table.rows("SELECT count(*) FROM tasks") == [(0,)]
    assert table.audit() == [("lead", "whoami", None, "ok")]


@pytest.mark.spec("HTTP-1")
async def test_an_answer_carries_the_id_of_its_request(table: Table, generation: str):
    for request_id in (0, 7, "seven", "7", 2**53):
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": "tools/call",
            "params": {"name": "whoami", "_meta": meta if generation == MODERN else {}},
        }
        headers = {"MCP-Protocol-Version": generation}
        if generation == MODERN:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
        response = await table.anna.post(json.dumps(body).encode(), headers)
        assert message_in(response)["id"] == request_id
        assert type(message_in(response)["id"]) is type(request_id)


@pytest.mark.spec("HTTP-7")
async def test_a_day_at_the_table_makes_no_server_error(table: Table):
    with structlog.testing.capture_logs():
        await tell(table)
    assert {answer.status for _, answer in table.answers} == {200}

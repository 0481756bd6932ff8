"""`roundtable add | reply | review | cancel` at the real server."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from cli_folder import run
from click.testing import Result

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import SdkSeat, sdk_seat
from tests.supervisor.scripted_endpoint import Request, Script, answers, open_endpoint, response

PATIENCE_SECONDS = 60.0


class Hand:
    """The owner's commands, run in this process: they read nothing but the folder and these variables."""

    def __init__(self, **environment: str) -> None:
        self.environment = environment

    async def do(self, *words: str, stdin: bytes = b"") -> Result:
        return await trio.to_thread.run_sync(partial(run, *words, input=stdin, **self.environment))

    async def told(self, *words: str, stdin: bytes = b"") -> dict[str, Any]:
        """What a command that has to succeed says as JSON."""
        done = await self.do(*words, "--json", stdin=stdin)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)


@asynccontextmanager
async def open_table(folder: Path) -> AsyncIterator[tuple[Hand, SdkSeat, dict[str, str]]]:
    tokens = write_agents(folder, lead="leader", anna="worker")
    async with open_program("serve", folder=folder) as serve:
        url = await serve.url()
        async with sdk_seat(url, tokens["anna"]) as anna:
            yield Hand(ROUNDTABLE_URL=url, ROUNDTABLE_TOKEN=tokens["lead"]), anna, tokens


@pytest.mark.spec("CLI-9")
async def test_the_owner_leads_a_task_from_the_shell_to_its_end(folder) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_table(folder) as (owner, anna, _):
            first = await owner.told("add", "first", "-d", "one")
            assert first == {"task_id": 1, "status": "open"}
            words = (
                "add",
                "naïve 中",
                "-d",
                "-",
                "--criteria",
                "c",
                "--assignee",
                "anna",
                "--priority",
                "-5",
            )
            second = await owner.do(
                *words, "--depends-on", "1", "--lease-seconds", "60", stdin="zwei 🙂\n".encode()
            )
            assert (second.exit_code, second.stdout) == (0, "Task 2 is open.\n"), second.stderr
            task = (await anna.call("get_task", task_id=2))["task"]
            assert (task["title"], task["description"], task["acceptance_criteria"]) == (
                "naïve 中",
                "zwei 🙂\n",
                "c",
            )
            assert (task["assigned_to"], task["priority"], task["depends_on"]) == ("anna", -5, [1])
            assert task["lease_seconds"] == 60

            await anna.call("claim_next")
            await anna.call("post_message", task_id=1, kind="help_request", body="how?")
            assert (await owner.told("reply", "1", "so"))["status"] == "claimed"
            whole = await anna.call("get_task", task_id=1)
            assert [(each["kind"], each["body"]) for each in whole["messages"]][-1] == ("reply", "so")
            assert "needs_attention" not in whole["task"]

            await anna.call("submit_result", task_id=1, result="r")
            rejected = await owner.told("review", "1", "reject", "--note", "not yet", "--keep-assignee")
            assert rejected["status"] == "open"
            task = (await anna.call("claim_next"))["task"]
            assert (task["task_id"], task["assigned_to"]) == (1, "anna")
            await anna.call("submit_result", task_id=1, result="better")
            assert (await owner.told("review", "1", "accept"))["status"] == "done"
            assert (await owner.told("cancel", "2", "no longer wanted"))["status"] == "cancelled"


@pytest.mark.spec("CLI-9", "CLI-2")
async def test_a_no_of_the_board_is_its_reason_and_exit_code_1(folder) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_table(folder) as (owner, _, tokens):
            for words, reason in (
                (("cancel", "99", "r"), "no task 99"),
                (("add", "t" * 201, "-d", "d"), "200"),
                (("add", "t", "-d", "d\x07"), "control"),
                (("add", "t", "-d", "d", "--assignee", "x\x1b[2J"), ""),
            ):
                done = await owner.do(*words)
                assert (done.exit_code, done.stdout) == (1, ""), words
                assert reason in done.stderr
                assert done.stderr.count("\n") == 1
                assert "\x1b" not in done.stderr
                assert "Traceback" not in done.stderr
            noticed = await owner.do("add", "t", "-d", "d", "--skill", "zig")
            assert (noticed.exit_code, "zig" in noticed.stderr) == (0, True)

            anna = Hand(**{**owner.environment, "ROUNDTABLE_TOKEN": tokens["anna"]})
            assert (await anna.do("add", "t", "-d", "d")).exit_code == 1
            stranger = Hand(**{**owner.environment, "ROUNDTABLE_TOKEN": "z" * 30})
            done = await stranger.do("add", "t", "-d", "d")
            assert (done.exit_code, "401" in done.stderr) == (1, True)
            assert "z" * 30 not in done.stderr


@pytest.mark.spec("CLI-2")
async def test_what_cannot_be_asked_is_said_in_a_sentence_and_asks_nobody(folder) -> None:
    owner = Hand(ROUNDTABLE_TOKEN="t" * 30, ROUNDTABLE_URL="http://127.0.0.1:1/mcp")
    with trio.fail_after(PATIENCE_SECONDS):
        for words, stdin in (
            (("cancel", "0", "r"), b""),
            (("add", "t"), b""),
            (("review", "1", "perhaps"), b""),
            (("reply", "1", "-"), b"\xff"),
            (("reply", "1", "\udcff"), b""),
            (("reply", "1", "-"), b"x" * ((1 << 20) + 1)),
        ):
            done = await owner.do(*words, stdin=stdin)
            assert (done.exit_code, done.stdout) == (2, ""), words
            assert "Traceback" not in done.stderr
        done = await Hand(ROUNDTABLE_URL="http://127.0.0.1:1/mcp").do("cancel", "1", "r")
        assert (done.exit_code, "ROUNDTABLE_TOKEN is not set" in done.stderr) == (2, True)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("url", "told"),
    [
        (lambda: f"http://127.0.0.1:{closed_port()}/mcp", "cannot be reached"),
        (lambda: "http://nowhere.invalid/mcp", "cannot be reached"),
    ],
)
async def test_where_no_server_answers_the_exit_code_is_3(
    tmp_path, url: Callable[[], str], told: str
) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        done = await Hand(ROUNDTABLE_TOKEN="t" * 30, ROUNDTABLE_URL=url()).do("cancel", "1", "r")
    assert (done.exit_code, done.stdout) == (3, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def mcp_server(result: object) -> Script:
    """A server that speaks MCP and answers every tool with this."""

    async def script(request: Request, stream: trio.SocketStream) -> None:
        message = request.json
        if "id" not in message:
            await stream.send_all(response(202))
            return
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "other", "version": "1"},
        }
        known = {"initialize": opening, "tools/list": {"tools": []}, "tools/call": result}
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in known:
            reply["result"] = known[message["method"]]
        else:
            reply["error"] = {"code": -32601, "message": "no \x1b[2J"}
        await stream.send_all(response(200, json.dumps(reply).encode()))

    return script


def tool_result(content: object, *, is_error: bool = False) -> dict[str, object]:
    return {"content": [], "structuredContent": content, "isError": is_error}


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("script", "code"),
    [
        (answers(response(200, b"<html>\x1b[2J</html>")), 3),
        (answers(response(200, b"{}")), 3),
        (answers(response(200, b"x" * ((4 << 20) + 1))), 3),
        (answers(response(302, location="https://elsewhere.example/")), 3),
        (answers(response(500, b"\x1b[2J")), 3),
        (answers(response(502, b"bad gateway")), 3),
        (answers(response(403, b"no")), 1),
        (answers(b"SSH-2.0-x\r\n\r\n"), 3),
        (mcp_server(tool_result({})), 3),
        (mcp_server(tool_result({"task_id": "\x1b[2J", "status": ["\x1b"]})), 0),
        (mcp_server(tool_result({"error": "\x1b[2J"}, is_error=True)), 3),
        (mcp_server(tool_result({"error": {"message": "\x1b[2J\nno"}}, is_error=True)), 1),
        (mcp_server("nothing"), 3),
    ],
)
async def test_a_server_of_another_kind_is_a_sentence_and_no_traceback(folder, script, code) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(script) as endpoint:
            done = await Hand(ROUNDTABLE_TOKEN="t" * 30, ROUNDTABLE_URL=endpoint.url).do("cancel", "1", "r")
    assert done.exit_code == code, (done.stdout, done.stderr)
    assert len((done.stdout + done.stderr).splitlines()) == 1
    assert "\x1b" not in done.stdout + done.stderr

"""The real `roundtable serve` on a real port: clients, doors, stop, and who owns the database."""

from __future__ import annotations

import errno
import gc
import os
import signal
from urllib.parse import urlsplit

import httpx
import pytest
import trio

from roundtable.cli.main import COMMANDS
from tests.acceptance.programs import COMMAND, MODULE, event_of, open_program, write_agents
from tests.acceptance.seats import sdk_seat

PATIENCE_SECONDS = 60.0


@pytest.mark.spec("CLI-7", "CONF-9", "HTTP-1", "HTTP-2")
@pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning")
async def test_python_m_roundtable_is_serve_and_clients_of_both_generations_work_at_once(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program(folder=tmp_path, command=MODULE) as serve:
            url = await serve.url()
            async with (
                sdk_seat(url, tokens["lead"], mode="legacy") as lead,
                sdk_seat(url + "/", tokens["anna"], mode="2026-07-28") as anna,
            ):
                made = await lead.call("create_task", title="naïve 中 🙂", description="d")
                claim = await anna.call("claim_next")
                assert claim["task"]["title"] == "naïve 中 🙂"
                await anna.call("submit_result", task_id=made["task_id"], result="r")
                assert (await lead.call("get_task", task_id=1))["task"]["result"] == "r"
                seen = [{tool.name for tool in (await one.client.list_tools()).tools} for one in (lead, anna)]
            assert "create_task" in seen[0]
            assert "claim_next" in seen[1]
            assert "create_task" not in seen[1]
    gc.collect()  # the SDK's client leaves the generators of its streams to the collector, which would blame a later test


@pytest.mark.spec(
    "HTTP-4", "HTTP-5", "HTTP-6", "HTTP-8", "AUTH-1", "AUTH-2", "DOOR-2", "DOOR-5", "DOOR-7", "DOOR-8"
)
async def test_the_doors_stand_on_the_real_port(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    good = {"Authorization": f"Bearer {tokens['lead']}"}
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            url = await serve.url()
            root = url.removesuffix("/mcp")
            async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
                for method in ("GET", "DELETE"):
                    reply = await http.request(method, url, headers=good)
                    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
                for headers in (
                    {},
                    {"Authorization": "Bearer " + "x" * 40},
                    {"Authorization": tokens["lead"]},
                ):
                    reply = await http.post(url, headers=headers, json={})
                    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
                assert (await http.post(f"{url}?token={tokens['lead']}", json={})).status_code == 401
                for headers, status in (
                    ({"Host": "evil.example"}, 421),
                    ({"Host": "localhost@evil.example"}, 421),
                    ({"Origin": "https://evil.example"}, 403),
                    ({"Content-Type": "text/plain"}, 415),
                ):
                    assert (await http.post(url, headers=good | headers, content=b"{}")).status_code == status
                reply = await http.get(f"{root}/.well-known/oauth-protected-resource")
                assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
                for path in ("/healthz", "/readyz"):
                    assert (await http.get(root + path, headers={"Host": "10.0.0.7"})).status_code == 200
            assert tokens["lead"] not in serve.out.text + serve.err.text


@pytest.mark.spec("STOP-1")
async def test_serve_ends_with_0_while_connections_are_open_and_leaves_a_whole_database(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            url = await serve.url()
            port = urlsplit(url).port
            async with (
                sdk_seat(url, tokens["lead"]) as lead,
                await trio.open_tcp_stream("127.0.0.1", port) as silent,
                await trio.open_tcp_stream("127.0.0.1", port) as half,
            ):
                await half.send_all(
                    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 100\r\nAuthorization: Bearer %b\r\n\r\n{" % tokens["lead"].encode()
                )
                await lead.call("create_task", title="t", description="d")
                serve.process.send_signal(signal.SIGTERM)
                assert await serve.ended(5) == 0
                assert await silent.receive_some() == b""
    assert not (tmp_path / "roundtable.db-wal").exists(), "the log was not brought into the database"
    assert (tmp_path / "roundtable.db").stat().st_size > 0


@pytest.mark.spec("STORE-4", "CLI-2")
async def test_a_second_server_on_the_same_file_ends_with_2_and_says_who_holds_it(tmp_path) -> None:
    write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as first:
            await first.url()
            for command in ("serve", "up"):
                async with open_program(command, folder=tmp_path) as second:
                    assert await second.ended(20) == 2
                (said,) = second.err.lines
                assert f"is already served by process {first.process.pid} on " in said
                assert "ROUNDTABLE_DB_PATH" in said
            first.process.kill()
            assert await first.ended(5) == -signal.SIGKILL
        async with open_program("serve", folder=tmp_path) as third:  # the lock died with its process
            await third.url()


@pytest.mark.spec("CLI-2")
async def test_serve_without_agents_ends_with_2_and_names_the_command_that_makes_them(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as serve:
            assert await serve.ended(20) == 2
    (said,) = serve.err.lines
    assert "agents.json" in said
    assert "`roundtable init`" in said
    assert serve.out.text == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("CONF-3", "CONF-7", "CLI-2")
async def test_a_broken_configuration_ends_with_2_and_one_line_for_each_problem(tmp_path) -> None:
    secret = "short-secret-token"
    (tmp_path / "agents.json").write_text(
        f'{{"{secret}": {{"name": "a", "role": "boss"}}, "{"y" * 30}": {{"role": "worker", "colour": 1}}}}'
    )
    (tmp_path / "agents.json").chmod(0o600)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as agents:
            assert await agents.ended(20) == 2
        settings = {"ROUNDTABLE_PORT": "http", "ROUNDTABLE_LOG_LEVEL": "loud"}
        async with open_program("up", folder=tmp_path, settings=settings) as environment:
            assert await environment.ended(20) == 2
    problems = agents.err.lines
    assert len(problems) == 4
    assert all(line.startswith('"agents.json": agent ') for line in problems)
    assert [line.split()[0] for line in environment.err.lines] == ["ROUNDTABLE_PORT", "ROUNDTABLE_LOG_LEVEL"]
    said = "\n".join([*problems, *environment.err.lines, agents.out.text, environment.out.text])
    assert "Traceback" not in said
    assert secret not in said
    assert not (tmp_path / "roundtable.db").exists()


@pytest.mark.spec("CLI-2")
async def test_a_port_in_use_ends_with_2_and_one_sentence(tmp_path) -> None:
    write_agents(tmp_path, lead="leader")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as first:
            port = str(urlsplit(await first.url()).port)
            settings = {"ROUNDTABLE_PORT": port, "ROUNDTABLE_DB_PATH": "other.db"}
            async with open_program("serve", folder=tmp_path, settings=settings) as second:
                assert await second.ended(20) == 2
    # the board is there before the port is, and logs the end of its audit chain
    (said,) = [line for line in second.err.lines if event_of(line) != "audit_head"]
    assert port in said
    assert os.strerror(errno.EADDRINUSE) in said
    assert second.out.text == ""


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS), ("token", "new")])
async def test_each_command_explains_itself(tmp_path, words) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program(*words, "--help", folder=tmp_path, command=COMMAND) as program:
            assert await program.ended(20) == 0, program.err.text
    assert program.out.text.startswith("Usage: roundtable " + " ".join(words))
    if not words:
        listed = [line.split()[0] for line in program.out.lines if line.startswith("  ")]
        assert set(listed) >= set(COMMANDS)
    assert program.err.text == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("CLI-2")
async def test_python_m_roundtable_refuses_words_that_serve_does_not_know(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("up", folder=tmp_path, command=MODULE) as program:
            assert await program.ended(20) == 2
    assert "up" in program.err.text
    assert list(tmp_path.iterdir()) == []

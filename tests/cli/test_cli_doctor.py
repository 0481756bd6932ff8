"""`roundtable doctor`: each thing that can be wrong between an app and the board, provoked and told in one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from cli_folder import run
from click.testing import Result

from roundtable.cli import handshake
from roundtable.cli.doctor import Diagnosis, diagnose
from tests.acceptance.programs import Program, open_program, write_agents
from tests.supervisor.scripted_endpoint import answers, open_endpoint, response

PATIENCE_SECONDS = 60.0
TOKEN = "a-token-that-nobody-has-ever-seen"


async def doctor(url: str, *words: str, token: str = TOKEN, **environment: str) -> Result:
    return await trio.to_thread.run_sync(
        partial(run, "doctor", "--url", url, *words, ROUNDTABLE_TOKEN=token, **environment)
    )


def trouble(result: Result, code: int) -> str:
    """The one sentence on stderr."""
    assert result.exit_code == code, (result.stdout, result.stderr)
    (sentence,) = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert TOKEN not in result.stdout + result.stderr
    return sentence


@asynccontextmanager
async def open_serve(folder: Path, **settings: str) -> AsyncIterator[tuple[Program, str, dict[str, str]]]:
    tokens = write_agents(folder, lead="leader", anna="worker")
    async with open_program("serve", folder=folder, settings=settings) as serve:
        with trio.fail_after(PATIENCE_SECONDS):
            line = await serve.out.line(lambda line: line.startswith("Roundtable listens on "))
        yield serve, line.split()[3], tokens


@pytest.mark.spec("CLI-12", "CLI-8")
async def test_where_nothing_is_wrong_it_says_who_the_token_is(folder) -> None:
    async with open_serve(folder) as (_, url, tokens):
        result = await doctor(url, token=tokens["anna"])
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()
        assert lines[0] == f"fine: {url} can be reached."
        assert [
            year in line for year, line in zip(("2025-11-25", "2026-07-28"), lines[1:3], strict=True)
        ] == [True] * 2
        assert lines[3].startswith("fine: The token is that of anna (worker), who has ")
        told = json.loads((await doctor(url, "--json", token=tokens["lead"])).stdout)
        assert (told["ok"], told["trouble"], told["advice"], len(told["fine"])) == (True, None, [], 4)


@pytest.mark.spec("CLI-12", "CLI-2")
async def test_a_token_that_is_refused_missing_or_none(folder) -> None:
    async with open_serve(folder) as (_, url, _tokens):
        assert "401" in trouble(await doctor(url), 1)
        missing = await doctor(url, token="")
        assert (missing.exit_code, missing.stdout) == (2, f"fine: {url} can be reached.\n")
        assert missing.stderr == "ROUNDTABLE_TOKEN is not set: it has to be the token of the agent.\n"
        assert "holds no token" in trouble(await doctor(url, token="with space and ünicode, long enough"), 2)


@pytest.mark.spec("CLI-12")
async def test_a_name_that_the_board_does_not_know_itself_by(folder) -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - so that the machine answers to another name too
    async with open_serve(folder, ROUNDTABLE_HOST=everywhere) as (_, url, tokens):
        other = url.replace(everywhere, "127.0.0.2")
        assert other != url
        sentence = trouble(await doctor(other, token=tokens["anna"]), 1)
    assert "421" in sentence
    assert "ROUNDTABLE_ALLOWED_HOSTS" in sentence


@pytest.mark.spec("CLI-12")
async def test_a_path_at_which_there_is_no_board(folder) -> None:
    async with open_serve(folder) as (_, url, tokens):
        sentence = trouble(await doctor(url.removesuffix("/mcp"), token=tokens["anna"]), 1)
    assert sentence == "There is no board at this path (404): the address ends in /mcp."


@pytest.mark.spec("CLI-12")
async def test_too_many_refused_attempts_are_told_from_one(folder) -> None:
    async with open_serve(folder) as (_, url, _tokens):
        found = [await doctor(url) for _ in range(21)]
    assert "401" in trouble(found[0], 1)
    assert "429" in trouble(found[-1], 1)


@pytest.mark.spec("CLI-12", "CLI-2")
async def test_a_port_on_which_nothing_listens_and_a_name_that_nobody_knows(folder) -> None:
    async with open_serve(folder) as (serve, url, _tokens):
        serve.process.terminate()
        await serve.ended(10)
    assert trouble(await doctor(url), 3).startswith('Nothing listens on "127.0.0.1" port ')
    assert trouble(await doctor("http://nowhere.invalid/mcp"), 3).startswith(
        'The name "nowhere.invalid" is not known on this machine (DNS)'
    )


@pytest.mark.spec("CLI-12")
@pytest.mark.parametrize(("ahead", "word"), [(3_600, "behind"), (-3_600, "ahead of")])
async def test_clocks_that_differ_are_told_and_stop_nothing(folder, ahead, word) -> None:
    async with open_serve(folder) as (_, url, tokens):

        def ask(now: float) -> Diagnosis:
            return diagnose(url, tokens["anna"], lambda: now)

        (advice,) = (await trio.to_thread.run_sync(ask, time.time() + ahead)).advice
        assert f"s {word} this machine's" in advice
        assert (await trio.to_thread.run_sync(ask, time.time() + 20)).advice == []
        # a token that is refused is told beside it
        refused = await trio.to_thread.run_sync(partial(diagnose, url, TOKEN, lambda: time.time() + ahead))
        assert (len(refused.advice), refused.trouble is not None) == (1, True)


AUTHORITY = trustme.CA()


def tls_files(folder: Path, *names: str, **more: Any) -> dict[str, str]:
    certificate = AUTHORITY.issue_cert(*names, **more)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for number, part in enumerate(certificate.cert_chain_pems):
        part.write_to_path(folder / "cert.pem", append=number > 0)
    AUTHORITY.cert_pem.write_to_path(folder / "authority.pem")
    return {"ROUNDTABLE_TLS_CERT": "cert.pem", "ROUNDTABLE_TLS_KEY": "key.pem"}


@pytest.mark.spec("CLI-12")
async def test_tls_that_is_right_and_tls_that_nobody_vouches_for(folder) -> None:
    async with open_serve(folder, **tls_files(folder, "127.0.0.1")) as (_, url, tokens):
        assert url.startswith("https://")
        right = await doctor(url, token=tokens["anna"], SSL_CERT_FILE=str(folder / "authority.pem"))
        assert right.exit_code == 0, right.stderr
        assert "nobody that this machine knows has signed it" in trouble(await doctor(url), 3)
        plain = url.replace("https://", "http://")
        assert (
            trouble(await doctor(plain), 3) == "The port speaks TLS: the address has to begin with https://."
        )


@pytest.mark.spec("CLI-12")
async def test_tls_with_another_name_or_out_of_its_time(folder) -> None:
    trusted = {"SSL_CERT_FILE": str(folder / "authority.pem")}
    async with open_serve(folder, **tls_files(folder, "board.example")) as (_, url, _tokens):
        assert "127.0.0.1" in trouble(await doctor(url, **trusted), 3).partition("is not accepted: ")[2]
    yesterday = datetime.now(UTC) - timedelta(days=1)
    old = tls_files(folder, "127.0.0.1", not_before=yesterday - timedelta(days=9), not_after=yesterday)
    async with open_serve(folder, **old) as (_, url, _tokens):
        assert "it has expired, or the clock of this machine is wrong" in trouble(
            await doctor(url, **trusted), 3
        )


@pytest.mark.spec("CLI-12")
async def test_https_at_a_port_that_speaks_plain_http(folder) -> None:
    async with open_serve(folder) as (_, url, _tokens):
        assert "speaks plain HTTP" in trouble(await doctor(url.replace("http://", "https://")), 3)


def rpc(result: object) -> bytes:
    return response(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())


def rpc_error(error: object) -> bytes:
    return response(200, json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode())


@pytest.mark.spec("CLI-12", "CLI-2")
@pytest.mark.parametrize(
    ("reply", "told", "code"),
    [
        (response(200, b"<html>hello</html>"), "is no MCP server", 3),
        (response(200, b"{}"), "is no MCP server", 3),
        (response(200, b"\xff\xfe"), "is no MCP server", 3),
        (response(200, b"[" * 100_000), "is no MCP server", 3),
        (rpc({"serverInfo": {"name": "files\x1b[2J"}}), "no Roundtable: it is ", 3),
        (rpc({"serverInfo": 5}), "no Roundtable", 3),
        (rpc({"serverInfo": {"name": "roundtable"}}), "lists no tools", 3),
        (rpc_error({"message": "not \x1b[2J you"}), "refuses initialize: not  [2J you", 1),
        (rpc_error({"code": 1}), "refuses initialize: it does not say why", 1),
        (response(302, b"", location="https://elsewhere.example/"), "sends elsewhere (302)", 3),
        (response(502, b"bad gateway"), "A proxy answers", 3),
        (response(503, b""), "stopping", 3),
        (response(418, b""), "HTTP status 418", 1),
        (response(200, b"{}", date="nonsense"), "is no MCP server", 3),
    ],
)
async def test_an_answer_that_no_board_gives(folder, reply, told, code) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(reply)) as endpoint:
            sentence = trouble(await doctor(endpoint.url), code)
    assert told in sentence
    assert sentence.isprintable()


@pytest.mark.spec("CLI-12")
async def test_something_that_does_not_speak_http_or_says_nothing_or_never_ends(folder, monkeypatch) -> None:
    monkeypatch.setattr(handshake, "ANSWER_SECONDS", 0.3)

    async def hang(request, stream) -> None:
        await trio.sleep_forever()

    async def drip(start: bytes, part: bytes, request, stream) -> None:
        await stream.send_all(start)
        while True:
            await stream.send_all(part)
            await trio.sleep(0.05)

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(b"SSH-2.0-x\r\n\r\n")) as endpoint:
            assert "without an answer in HTTP" in trouble(await doctor(endpoint.url), 3)
        async with open_endpoint(hang) as endpoint:
            assert "gives no answer within" in trouble(await doctor(endpoint.url), 3)
        for start, part in (
            (b"HTTP/1.1 200 X\r\ncontent-length: 1000\r\n\r\n", b"x"),
            (b"HTTP/1.1 200 X\r\n", b"a: b\r\n"),
            (b"", b"HTTP/1.1 100 C\r\n\r\n"),
        ):
            async with open_endpoint(partial(drip, start, part)) as endpoint:
                assert "gives no answer within" in trouble(await doctor(endpoint.url), 3)


def test_the_default_address_is_the_one_of_the_settings(folder) -> None:
    result = run("doctor", ROUNDTABLE_PORT="1", ROUNDTABLE_TOKEN=TOKEN)
    assert (result.exit_code, '"127.0.0.1" port 1' in result.stderr) == (3, True)

"""ca_file: a board and endpoints whose certificates an authority of the owner's has signed."""

from __future__ import annotations

import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from pydantic import SecretStr
from scripted_endpoint import completion, open_endpoint, response
from test_pool_process import SUPERVISOR, pool_folder

from supervisor.board.client import open_board_client
from supervisor.board.errors import BoardAwayError
from supervisor.config.authorities import Authorities, read_authorities, tls_context
from supervisor.config.roster import Worker, draft_roster, parse_roster
from supervisor.model.client import open_model
from supervisor.rules.failures import FailureClass, ModelCallError
from tests.acceptance.programs import open_program, write_agents, write_roster
from tests.acceptance.seats import sdk_seat

PATIENCE_SECONDS = 60.0
AUTHORITY, OTHER = trustme.CA(), trustme.CA()
PEM = AUTHORITY.cert_pem.bytes().decode()
ROSTER = """
[pool]
ca_file = {pool!r}
[defaults]
ca_file = {default!r}
model = "m"
base_url = "https://localhost/v1"
[[workers]]
name = "a"
[[workers]]
name = "b"
ca_file = {own!r}
"""


@pytest.fixture
def authority_file(tmp_path: Path) -> Path:
    path = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return path


@pytest.mark.spec("POOL-28")
def test_each_table_may_name_a_file_and_what_is_in_it_is_what_counts(tmp_path: Path, authority_file: Path):
    other = tmp_path / "other.pem"
    other.write_text("# from the müller authority\n" + OTHER.cert_pem.bytes().decode())
    text = ROSTER.format(pool=str(authority_file), default=str(other), own=str(authority_file))
    before = parse_roster(text)
    first, second = before.workers
    assert first.ca_file == read_authorities(str(other))
    assert before.ca_file == second.ca_file == read_authorities(str(authority_file))
    assert PEM not in repr(before)
    authority_file.write_text(PEM + OTHER.cert_pem.bytes().decode())
    after = parse_roster(text)
    assert [new == old for new, old in zip(after.workers, before.workers, strict=True)] == [True, False]
    assert after.ca_file != before.ca_file


@pytest.mark.spec("POOL-28", "POOL-1")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "the file cannot be read: No such file or directory"),
        ("", "the file holds no certificates"),
        ("secret words", "the file holds no certificates"),
        (PEM[: len(PEM) // 2], "the file holds no certificates"),
        (
            PEM + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "the file holds no certificates",
        ),
        (AUTHORITY.private_key_pem.bytes().decode(), "the file holds no certificates"),
        ("x" * 1_048_577, "the file is over 1,048,576 bytes"),
    ],
    ids=["none", "empty", "garbled", "cut off", "one damaged", "a key", "huge"],
)
def test_a_file_that_cannot_be_used_is_a_problem_at_its_place_and_not_repeated(tmp_path: Path, content, told):
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content)
    draft = draft_roster(ROSTER.format(pool=str(path), default=str(path), own=str(path)))
    places = ["pool: ca_file", "defaults: ca_file", 'workers[2] ("b"): ca_file']
    assert [problem.partition(f": {told}")[0] for problem in draft.problems] == places
    assert not any(str(path) in problem or "secret" in problem for problem in draft.problems)


@pytest.mark.parametrize("value", ["1", "''", "'a\\u0000b'", "['x']"])
def test_what_is_no_path_is_a_problem(value: str):
    text = f'[[workers]]\nname = "a"\nmodel = "m"\nbase_url = "https://localhost/v1"\nca_file = {value}\n'
    [problem] = draft_roster(text.replace("'a\\u0000b'", '"a\\u0000b"')).problems
    assert problem.startswith('workers[1] ("a"): ca_file: ')


def test_where_there_is_no_tls_the_authorities_of_the_machine_are_not_read():
    assert tls_context("http://127.0.0.1:1/v1", None).cert_store_stats()["x509"] == 0
    usual = tls_context("https://localhost/v1", None).cert_store_stats()["x509"]
    both = tls_context("https://localhost/v1", Authorities("", PEM)).cert_store_stats()["x509"]
    assert both == usual + 1


@asynccontextmanager
async def open_tls_endpoint(authority: trustme.CA) -> AsyncIterator[str]:
    """The address of an endpoint whose certificate this authority has signed, which answers one call a connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def serve(stream: trio.SSLStream) -> None:
        try:
            received = b""
            while b'"messages"' not in received:
                received += await stream.receive_some()
            await stream.send_all(response(200, completion("fine")))
        except trio.BrokenResourceError:
            pass  # whoever called does not believe the certificate

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True)
        )
        yield f"https://127.0.0.1:{listener.transport_listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def ask(url: str, authorities: Authorities | None) -> str:
    worker = Worker("a", "m", f"{url}/v1", ca_file=authorities)
    async with open_model(worker, SecretStr("key")) as model:
        return (await model.ask([{"role": "user", "content": "Hello"}], model="m")).text


@pytest.mark.spec("POOL-28")
async def test_an_endpoint_is_believed_where_the_file_has_its_authority_and_not_without(
    authority_file: Path, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority_file))  # which has no say in it
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_tls_endpoint(AUTHORITY) as url:
            assert await ask(url, read_authorities(str(authority_file))) == "fine"
            with pytest.raises(ModelCallError, match="the endpoint's certificate is not accepted") as caught:
                await ask(url, None)
            assert caught.value.kind is FailureClass.NETWORK
        async with open_tls_endpoint(OTHER) as url:
            with pytest.raises(ModelCallError, match="certificate is not accepted"):
                await ask(url, read_authorities(str(authority_file)))


@pytest.mark.spec("POOL-28")
async def test_a_board_that_is_not_believed_is_away_and_the_sentence_says_what_helps():
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_tls_endpoint(AUTHORITY) as url:
            with pytest.raises(BoardAwayError, match=r"certificate is not accepted; ca_file under \[pool\]"):
                async with open_board_client(f"{url}/mcp", SecretStr("t" * 30)):
                    pass


@pytest.mark.spec("POOL-28", "POOL-4")
async def test_a_pool_apart_works_on_a_board_behind_a_private_authority(tmp_path: Path, authority_file: Path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    certificate = AUTHORITY.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    tls = {"ROUNDTABLE_TLS_CERT": "server.pem", "ROUNDTABLE_TLS_KEY": "server.pem"}
    folder = pool_folder(tmp_path)

    async def script(request, stream) -> None:
        await stream.send_all(response(200, completion("done")))

    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as board:
            async with sdk_seat(await board.url(), tokens["lead"]) as lead:
                await lead.call("create_task", title="t", description="d")
            board.process.send_signal(signal.SIGTERM)
            assert await board.ended(10) == 0
        async with (
            open_endpoint(script) as endpoint,
            open_program("serve", folder=tmp_path, settings=tls) as board,
        ):
            said = await board.out.line(lambda line: line.startswith("Roundtable listens on "))
            url = said.split()[3]
            assert url.startswith("https://")
            worker = {"name": "anna", "model": "m", "base_url": endpoint.url, "token_env": "ANNA_TOKEN"}
            pool = {"url": url, "poll_interval": 0.05}
            write_roster(folder, pool, worker)
            settings = {"ANNA_TOKEN": tokens["anna"]}
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as supervisor:
                away = await supervisor.events("board_away")
                assert "certificate is not accepted" in away
                write_roster(folder, {**pool, "ca_file": "../authority.pem"}, worker)
                supervisor.process.send_signal(signal.SIGHUP)
                await supervisor.events("roster_replaced")
                await supervisor.events("task_submitted")
                supervisor.process.send_signal(signal.SIGTERM)
                assert await supervisor.ended(10) == 0

"""`python -m supervisor` as a process of its own, at a real board."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from tests.acceptance.programs import open_program, write_agents, write_roster
from tests.acceptance.seats import sdk_seat
from tests.supervisor.scripted_endpoint import Request, answers, completion, open_endpoint, response

SUPERVISOR = (sys.executable, "-m", "supervisor")
KEY = "sk-endpoint-key-that-nobody-may-see"
TITLE, DESCRIPTION, ANSWER = "Zephyr title", "Quagmire description", "Ombrelle answer"
PATIENCE_SECONDS = 60.0


def variables(url: str, token: str, endpoint_url: str, **more: str) -> dict[str, str]:
    return {
        "ROUNDTABLE_URL": url,
        "ROUNDTABLE_TOKEN": token,
        "WORKER_MODEL_BASE_URL": endpoint_url,
        "WORKER_MODEL_NAME": "m",
        "WORKER_API_KEY": KEY,
        "WORKER_POLL_INTERVAL": "0.05",
        **more,
    }


def statuses(folder: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{folder / 'roundtable.db'}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("SELECT status FROM tasks ORDER BY task_id")]


async def hang(request: Request, stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


def pool_folder(tmp_path: Path) -> Path:
    """Apart from the board's, as on another machine."""
    folder = tmp_path / "pool"
    folder.mkdir()
    return folder


@pytest.mark.spec("POOL-5", "POOL-9", "POOL-14", "LOG-1")
async def test_one_worker_from_the_environment_works_and_stops_on_a_signal(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answers(response(200, completion(ANSWER)))) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            settings = variables(
                await board.url(), tokens["anna"], endpoint.url, ROUNDTABLE_LOG_LEVEL="debug"
            )
            async with open_program(
                folder=pool_folder(tmp_path), command=SUPERVISOR, settings=settings
            ) as pool:
                await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_submitted")
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 0
            assert (await lead.call("get_task", task_id=1))["task"]["result"] == ANSWER
    said = pool.out.text + pool.err.text
    assert pool.count("pool_stopped") == 1
    assert [word for word in (KEY, TITLE, DESCRIPTION, ANSWER, *tokens.values()) if word in said] == []


@pytest.mark.spec("POOL-4", "SUP-4", "SUP-5", "SUP-6")
async def test_a_roster_apart_gives_back_what_it_holds_when_it_stops(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker", bert="worker")
    folder = pool_folder(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(hang) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            workers = [
                {"name": name, "model": "m", "base_url": endpoint.url, "token_env": f"{name.upper()}_TOKEN"}
                for name in ("anna", "bert")
            ]
            write_roster(
                folder, {"grace_seconds": 0.2, "poll_interval": 0.05, "url": await board.url()}, *workers
            )
            settings = {"ANNA_TOKEN": tokens["anna"], "BERT_TOKEN": tokens["bert"]}
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                for _ in range(2):
                    await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_claimed", number=2)
                pool.process.send_signal(signal.SIGINT)
                assert await pool.ended(10) == 0
            assert pool.count("task_released") == 2
    assert statuses(tmp_path) == ["open", "open"]


async def test_a_second_signal_ends_the_pool_at_once(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(hang) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            settings = variables(await board.url(), tokens["anna"], endpoint.url)
            folder = pool_folder(tmp_path)
            worker = {"name": "anna", "model": "m", "base_url": endpoint.url, "token_env": "ROUNDTABLE_TOKEN"}
            write_roster(folder, {"grace_seconds": 600, "poll_interval": 0.05}, worker)
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_claimed")
                pool.process.send_signal(signal.SIGTERM)
                await pool.events("pool_stopping")
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 128 + signal.SIGTERM
    assert statuses(tmp_path) == ["claimed"]


async def test_a_token_that_the_board_does_not_know_ends_a_pool_of_one_with_a_sentence(tmp_path):
    write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as board:
            settings = variables(await board.url(), "t" * 40, "http://127.0.0.1:1/v1")
            async with open_program(
                folder=pool_folder(tmp_path), command=SUPERVISOR, settings=settings
            ) as pool:
                assert await pool.ended(20) == 1
    assert "the board does not know this worker's token (401)" in pool.err.text
    assert "t" * 40 not in pool.err.text


async def test_a_leaders_token_is_refused_with_a_sentence(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as board:
            settings = variables(await board.url(), tokens["lead"], "http://127.0.0.1:1/v1")
            async with open_program(
                folder=pool_folder(tmp_path), command=SUPERVISOR, settings=settings
            ) as pool:
                assert await pool.ended(20) == 1
    assert "the token is not a worker's" in pool.err.text


async def test_the_pool_waits_for_a_board_that_was_killed_and_works_on(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answers(response(200, completion(ANSWER)))) as endpoint,
            open_program("serve", folder=tmp_path) as first,
        ):
            url = await first.url()
            settings = variables(url, tokens["anna"], endpoint.url)
            async with open_program(
                folder=pool_folder(tmp_path), command=SUPERVISOR, settings=settings
            ) as pool:
                await pool.events("worker_started")
                first.process.kill()
                await pool.events("board_away")
                again = {"ROUNDTABLE_PORT": str(urlsplit(url).port)}
                async with open_program("serve", folder=tmp_path, settings=again) as second:
                    async with sdk_seat(await second.url(), tokens["lead"]) as lead:
                        await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                        await pool.events("task_submitted")
                    pool.process.send_signal(signal.SIGTERM)
                    assert await pool.ended(10) == 0
    assert pool.count("worker_failed") == 0


@pytest.mark.spec("POOL-5", "CLI-2")
async def test_a_wrong_configuration_is_told_in_full_and_ends_with_2(tmp_path):
    settings = {
        "ROUNDTABLE_TOKEN": "t" * 40,
        "WORKER_MODEL_BASE_URL": "http://far.example/v1",
        "WORKER_API_KEY": KEY,
        "ROUNDTABLE_LOG_LEVEL": "loud",
    }
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program(folder=tmp_path, command=SUPERVISOR, settings=settings) as pool:
            assert await pool.ended(20) == 2
    assert [line.partition(":")[0] for line in pool.err.lines] == [
        "ROUNDTABLE_LOG_LEVEL",
        "WORKER_MODEL_BASE_URL",
        "WORKER_MODEL_NAME",
    ]
    assert KEY not in pool.err.text
    assert "far.example" not in pool.err.text


async def test_the_help_names_every_variable(tmp_path):
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("--help", folder=tmp_path, command=SUPERVISOR) as pool:
            assert await pool.ended(20) == 0
    for name in variables("", "", ""):
        assert name in pool.out.text


@pytest.mark.spec("SUP-8")
async def test_a_hang_up_brings_a_new_roster_in_and_a_broken_one_changes_nothing(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker", bert="worker")
    folder = pool_folder(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answers(response(200, completion(ANSWER)))) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            anna, bert = (
                {"name": name, "model": "m", "base_url": endpoint.url, "token_env": f"{name.upper()}_TOKEN"}
                for name in ("anna", "bert")
            )
            table = {"url": await board.url()}
            write_roster(folder, table, anna)
            settings = {"ANNA_TOKEN": tokens["anna"], "BERT_TOKEN": tokens["bert"]}
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                await pool.events("worker_started")
                write_roster(folder, table, {**anna, "concurrency": 0}, {**bert, "token_env": "NO_SUCH"})
                pool.process.send_signal(signal.SIGHUP)
                refused = await pool.events("roster_refused")
                assert "concurrency: Input should be greater than or equal to 1" in refused
                write_roster(folder, table, bert)
                pool.process.send_signal(signal.SIGHUP)
                await pool.events("roster_replaced")
                await pool.events("worker_started", number=2)
                await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_submitted")
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 0
            assert (await lead.call("get_task", task_id=1))["task"]["assignee"] == "bert"
    assert pool.count("worker_failed") == 0


@pytest.mark.spec("SUP-8", "POOL-5")
async def test_a_roster_that_is_gone_is_refused_and_one_that_appears_is_taken_up(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker", bert="worker")
    folder = pool_folder(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(answers(response(200, completion(ANSWER)))) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            # All that one worker from the environment takes is there, and yet it must not take the roster's place.
            settings = variables(await board.url(), tokens["anna"], endpoint.url, BERT_TOKEN=tokens["bert"])
            bert = {"name": "bert", "model": "m", "base_url": endpoint.url, "token_env": "BERT_TOKEN"}
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_submitted")
                write_roster(folder, {}, bert)
                pool.process.send_signal(signal.SIGHUP)
                await pool.events("roster_replaced")
                await pool.events("worker_started", number=2)
                (folder / "config" / "workers.toml").unlink()
                pool.process.send_signal(signal.SIGHUP)
                assert "workers.toml: is not there any more" in await pool.events("roster_refused")
                await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                await pool.events("task_submitted", number=2)
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 0
            done_by = [(await lead.call("get_task", task_id=number))["task"]["assignee"] for number in (1, 2)]
            assert done_by == ["anna", "bert"]
    assert pool.count("worker_started") == 2


@pytest.mark.spec("POOL-22", "POOL-23")
async def test_a_pool_that_was_killed_knows_its_calls_and_its_claims(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    folder = pool_folder(tmp_path)
    called = trio.Event()

    async def hang_after_telling(request: Request, stream: trio.SocketStream) -> None:
        called.set()
        await trio.sleep_forever()

    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_endpoint(hang_after_telling) as endpoint,
            open_program("serve", folder=tmp_path) as board,
            sdk_seat(await board.url(), tokens["lead"]) as lead,
        ):
            settings = variables(
                await board.url(), tokens["anna"], endpoint.url, WORKER_MAX_TASKS_PER_HOUR="1"
            )
            await lead.call("create_task", title=TITLE, description=DESCRIPTION)
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                await called.wait()
                pool.process.kill()
                await pool.ended(10)
            assert statuses(tmp_path) == ["claimed"]
            async with open_program(folder=folder, command=SUPERVISOR, settings=settings) as pool:
                assert "cause=hourly_cap" in await pool.events("worker_waits")
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 0
    assert (folder / "roundtable-pool.db").stat().st_mode & 0o777 == 0o600
    assert pool.count("task_claimed") == 0


@pytest.mark.spec("POOL-22")
async def test_a_second_pool_in_the_same_folder_is_refused_in_words(tmp_path):
    tokens = write_agents(tmp_path, lead="leader", anna="worker", bert="worker")
    folder = pool_folder(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_program("serve", folder=tmp_path) as board:
            url = await board.url()
            first = variables(url, tokens["anna"], "http://127.0.0.1:1/v1")
            second = variables(url, tokens["bert"], "http://127.0.0.1:1/v1")
            async with open_program(folder=folder, command=SUPERVISOR, settings=first) as pool:
                await pool.events("worker_started")
                async with open_program(folder=folder, command=SUPERVISOR, settings=second) as other:
                    assert await other.ended(20) == 2
                assert "roundtable-pool.db: another pool is using it" in other.err.text
                pool.process.send_signal(signal.SIGTERM)
                assert await pool.ended(10) == 0

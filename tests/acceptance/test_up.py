"""The main job on the real program: `roundtable up`, a leader outside it, a model at an endpoint of ours."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.acceptance.programs import open_program, write_agents, write_roster
from tests.acceptance.seats import RefusedError, sdk_seat
from tests.supervisor.scripted_endpoint import answers, completion, open_endpoint, response

KEY = "sk-endpoint-key-that-nobody-may-see"
TITLE = "Zephyr title"
DESCRIPTION = "Quagmire description"
FIRST, SECOND = "Ombrelle answer", "Parapluie answer"
NOTE = "Velocity is missing"
PATIENCE_SECONDS = 60.0
SETTINGS = {"POET_KEY": KEY, "ROUNDTABLE_LOG_LEVEL": "debug"}
"""The log tells what the pool does with a task: a little later than what the board does."""


def seat_pool(folder: Path, url: str, **pool: object) -> dict[str, str]:
    """Agents lead and anna, and a roster worker poet that asks the model at this address."""
    poet = {"name": "poet", "model": "m", "base_url": url, "api_key_env": "POET_KEY", "cooldown_seconds": 0}
    write_roster(folder, {"poll_interval": 0.05, **pool}, poet)
    return write_agents(folder, lead="leader", anna="worker")


def rows(folder: Path, sql: str) -> list[tuple]:
    """What the owner reads in the database file."""
    with closing(sqlite3.connect(f"file:{folder / 'roundtable.db'}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


async def hang(request, stream) -> None:
    await trio.sleep_forever()


@pytest.mark.spec("CLI-5", "CLI-6", "POOL-3", "POOL-9", "POOL-14", "REPLY-5", "MODEL-2", "LOG-1", "STOP-2")
async def test_a_leader_has_a_task_done_by_a_worker_of_the_pool_and_its_note_reaches_the_model(
    tmp_path,
) -> None:
    replies = [response(200, completion(text)) for text in ("", FIRST, SECOND)]
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(*replies)) as endpoint:
            tokens = seat_pool(tmp_path, endpoint.url)
            async with open_program("up", folder=tmp_path, settings={"POET_KEY": KEY}) as up:
                async with sdk_seat(await up.url(), tokens["lead"]) as lead:
                    made = await lead.call("create_task", title=TITLE, description=DESCRIPTION)
                    task_id = made["task_id"]
                    await up.events("submitted")
                    assert (await lead.call("get_task", task_id=task_id))["task"]["result"] == FIRST
                    await lead.call("review_task", task_id=task_id, verdict="reject", note=NOTE)
                    await up.events("submitted", number=2)
                    assert (await lead.call("get_task", task_id=task_id))["task"]["result"] == SECOND
                    accepted = await lead.call("review_task", task_id=task_id, verdict="accept")
                    assert accepted["status"] == "done"
                    await up.events("reviewed", number=2)
                up.process.send_signal(signal.SIGTERM)
                assert await up.ended(10) == 0
    bodies = [request.body.decode() for request in endpoint.requests]
    assert [NOTE in body for body in bodies] == [False, False, True]
    assert all(DESCRIPTION in body for body in bodies)
    assert [request.header("authorization") for request in endpoint.requests] == [[f"Bearer {KEY}"]] * 3
    # the empty answer was a failure: claimed three times, released once
    shown = {
        name: up.count(name) for name in ("claimed", "released", "submitted", "reviewed", "model_call_failed")
    }
    assert shown == {"claimed": 3, "released": 1, "submitted": 2, "reviewed": 2, "model_call_failed": 1}
    assert not any(up.count(name) for name in ("task_claimed", "task_submitted", "task_released")), (
        "said twice"
    )
    said = up.out.text + up.err.text
    secrets = [KEY, TITLE, DESCRIPTION, FIRST, SECOND, NOTE, *tokens.values()]
    assert [secret for secret in secrets if secret in said] == []
    assert not re.search(r"rt_[\w-]{20}", said), "a token that was minted for the pool"


@pytest.mark.spec("STOP-2", "STOP-3", "SUP-4", "SUP-5", "SUP-6", "POOL-18")
async def test_up_that_is_told_to_stop_during_a_model_call_gives_the_task_back_and_answers_meanwhile(
    tmp_path,
) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(hang) as endpoint:
            tokens = seat_pool(tmp_path, endpoint.url, grace_seconds=3)
            async with open_program("up", folder=tmp_path, settings=SETTINGS) as up:
                url = await up.url()
                async with sdk_seat(url, tokens["lead"]) as lead, sdk_seat(url, tokens["anna"]) as anna:
                    held = (await lead.call("create_task", title="held", description="d"))["task_id"]
                    await up.events("task_claimed")
                    free = (await lead.call("create_task", title="free", description="d"))["task_id"]
                    up.process.send_signal(signal.SIGTERM)
                    stopped_at = trio.current_time()
                    await up.events("stopping")
                    # once it says so everybody is answered, and nobody gets a new claim
                    assert (await anna.call("claim_next")) == {"task": None}
                    with pytest.raises(RefusedError, match="unavailable"):
                        await anna.call("claim_task", task_id=free)
                    assert (await lead.call("get_task", task_id=held))["task"]["status"] == "claimed"
                    assert (await anna.call("post_message", task_id=free, body="hello"))["message_id"] == 1
                assert await up.ended(stopped_at + 8 - trio.current_time()) == 0
    assert rows(tmp_path, "SELECT task_id, status, failures FROM tasks") == [
        (held, "open", 0),
        (free, "open", 0),
    ]
    assert rows(tmp_path, "SELECT ended_by FROM claims") == [("released",)]
    assert len(endpoint.requests) == 1


@pytest.mark.spec("STOP-4", "POOL-8")
async def test_a_second_signal_ends_up_at_once_and_the_next_start_lets_go_of_what_that_left(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(hang) as endpoint:
            tokens = seat_pool(tmp_path, endpoint.url, grace_seconds=600)
            async with open_program("up", folder=tmp_path, settings=SETTINGS) as up:
                async with sdk_seat(await up.url(), tokens["lead"]) as lead:
                    await lead.call("create_task", title="held", description="d")
                await up.events("task_claimed")
                up.process.send_signal(signal.SIGINT)
                await up.events("stopping")
                up.process.send_signal(signal.SIGTERM)
                assert await up.ended(5) == 128 + signal.SIGTERM
            assert rows(tmp_path, "SELECT status FROM tasks") == [("claimed",)]
            async with open_program("up", folder=tmp_path, settings=SETTINGS) as up:
                assert "task_ids=[1]" in await up.err.line(lambda line: "left" in line and "task_ids" in line)
                await up.events("released")
                await up.events("claimed")

"""The two ways in of `roundtable up`, each with its own tokens. In one process, since the pool's are told to nobody."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import trio

from roundtable.cli.server import open_server, pool_listener, public_listener
from roundtable.cli.up import open_roundtable
from roundtable.config.agents import load_agents
from roundtable.config.settings import Settings
from roundtable.rules.agents import Agent, Directory, Role
from supervisor.config.roster import Roster, Worker
from tests.acceptance.programs import write_agents
from tests.acceptance.seats import sdk_seat
from tests.supervisor.scripted_endpoint import answers, completion, open_endpoint, response

PATIENCE_SECONDS = 60.0


def settings_in(folder: Path) -> Settings:
    return Settings(port=0, db_path=folder / "roundtable.db", agents_config=folder / "agents.json")


async def status(url: str, token: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
        return (await http.post(url, headers={"Authorization": f"Bearer {token}"}, json={})).status_code


@pytest.mark.spec("HTTP-12", "POOL-3")
async def test_each_listener_takes_its_own_tokens_only(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader", anna="worker")
    settings = settings_in(tmp_path)
    agents = load_agents(settings.agents_config).agents
    poet = Agent("poet", Role.WORKER, max_claims=1)
    minted = {"poet": "a-token-that-was-minted-for-this-run"}
    listeners = [public_listener(settings, agents), pool_listener(minted, [poet])]
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_server(settings, Directory([*agents.values(), poet]), listeners) as server:
            public, pool = server.urls
            assert pool.startswith("http://127.0.0.1:")
            async with sdk_seat(pool, minted["poet"]) as seat:
                assert (await seat.call("whoami"))["name"] == "poet"
            async with sdk_seat(public, tokens["anna"]) as seat:
                assert (await seat.call("whoami"))["name"] == "anna"
            assert await status(public, minted["poet"]) == 401
            assert [await status(pool, token) for token in tokens.values()] == [401, 401]


@pytest.mark.spec("HTTP-12", "POOL-3")
async def test_the_pool_of_up_works_through_a_listener_that_no_agent_of_the_owners_passes(tmp_path) -> None:
    tokens = write_agents(tmp_path, lead="leader")
    settings = settings_in(tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_endpoint(answers(response(200, completion("done")))) as endpoint:
            roster = Roster((Worker("poet", "m", endpoint.url),), poll_interval=0.05)
            file = load_agents(settings.agents_config)
            async with open_roundtable(settings, file, roster, {}) as roundtable:
                public, pool = roundtable.server.urls
                assert await status(pool, tokens["lead"]) == 401
                async with sdk_seat(public, tokens["lead"]) as lead:
                    await lead.call("create_task", title="t", description="d")
                    while (await lead.call("list_tasks"))["tasks"][0]["status"] != "submitted":
                        await trio.lowlevel.checkpoint()

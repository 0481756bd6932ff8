"""agents.json and the roster read together: each problem of both in one listing, and what a hang-up makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_folder import LEADER_TOKEN, write_agents_file

from roundtable.cli.owners_files import NO_POOL, OwnersFiles, read_owners_files
from roundtable.config.errors import ConfigError
from roundtable.config.settings import Settings
from supervisor.config.roster import Roster, Worker

POET = '[[workers]]\nname = "poet"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
FAR = POET.replace("http://127.0.0.1:1", "https://models.example").replace("poet", "far")


def read(
    folder: Path, agents: object = None, roster: str | None = None, in_force: Roster = NO_POOL.roster
) -> OwnersFiles:
    settings = Settings(agents_config=folder / "agents.json", workers_config=folder / "workers.toml")
    write_agents_file(folder, agents)
    if roster is not None:
        settings.workers_config.write_text(roster)
    return read_owners_files(settings, folder, in_force)


def problems_of(found: OwnersFiles, folder: Path) -> list[str]:
    """All of them, without the folder's own name."""
    with pytest.raises(ConfigError) as caught:
        found.sound()
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.spec("POOL-1", "POOL-3", "CONF-3")
def test_every_problem_of_both_files_and_between_them_is_in_one_listing_of_one_form(folder):
    agents = {LEADER_TOKEN: {"name": "poet", "role": "leader"}, "b" * 40: {"name": "far", "role": "chief"}}
    roster = (
        "[pool]\ngrace_seconds = -1\n" + POET + FAR + POET + POET.replace("poet", "board") + "[[workers]]\n"
    )
    found = read(folder, agents, roster)
    assert problems_of(found, folder) == [
        '"agents.json": agent 2 ("far"): role must be leader or worker',
        "workers.toml: pool: grace_seconds: Input should be greater than or equal to 0",
        'workers.toml: workers[3] ("poet"): name: is that of workers[1] too',
        "workers.toml: workers[5]: model: is missing",
        "workers.toml: workers[5]: base_url: is missing",
        "workers.toml: workers[5]: name: is missing",
        'workers.toml: workers[4] ("board"): name: the name board is taken: the history calls the board itself by it',
        'workers.toml: workers[2] ("far"): api_key_env: is missing, and its endpoint is not on this machine',
        'workers.toml: workers[1] ("poet"): name: is in the agents file too; one of them must change',
        'workers.toml: workers[2] ("far"): name: is in the agents file too; one of them must change',
        'workers.toml: workers[3] ("poet"): name: is in the agents file too; one of them must change',
    ]
    assert (found.agents, found.pool) == (None, None)


@pytest.mark.spec("POOL-1", "POOL-3")
def test_a_worker_that_is_wrong_otherwise_is_checked_against_agents_and_environment_too(folder):
    found = read(folder, None, FAR.replace('"far"', '"anna"') + "concurrency = 0\n")
    assert problems_of(found, folder) == [
        'workers.toml: workers[1] ("anna"): concurrency: Input should be greater than or equal to 1',
        'workers.toml: workers[1] ("anna"): api_key_env: is missing, and its endpoint is not on this machine',
        'workers.toml: workers[1] ("anna"): name: is in the agents file too; one of them must change',
    ]


@pytest.mark.spec("POOL-3")
def test_two_files_that_are_right_by_themselves_may_clash(folder):
    found = read(folder, None, POET.replace("poet", "anna"))
    assert found.agents is not None
    assert found.pool is not None
    assert problems_of(found, folder) == [
        'workers.toml: workers[1] ("anna"): name: is in the agents file too; one of them must change'
    ]


def test_a_wrong_line_of_the_environment_file_is_among_them(folder):
    (folder / ".env").write_text("POET_KEY\n")
    found = read(folder, None, POET + 'api_key_env = "POET_KEY"\n')
    assert problems_of(found, folder) == [
        'workers.toml: workers[1] ("poet"): api_key_env: the variable it names is not set',
        ".env line 1: must be NAME=value, empty, or a # comment",
    ]


@pytest.mark.spec("POOL-3")
def test_without_a_roster_file_there_is_no_pool_unless_workers_have_come_from_it(folder):
    _, pool = read(folder).sound()
    assert pool == NO_POOL
    at_work = Roster((Worker("poet", "m", "http://127.0.0.1:1/v1"),))
    [problem] = problems_of(read(folder, in_force=at_work), folder)
    assert problem.startswith("workers.toml: is not there any more")


def test_keys_come_along_and_show_themselves_masked(folder, monkeypatch):
    monkeypatch.setenv("FAR_KEY", "sk-very-secret")
    _, pool = read(folder, None, POET + FAR + 'api_key_env = "FAR_KEY"\n').sound()
    assert pool.keys["poet"] is None
    assert pool.keys["far"].get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in repr(pool)

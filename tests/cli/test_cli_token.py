"""`roundtable token`: what it makes of agents.json, and what it refuses."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_folder import ANNA_TOKEN, LEADER_TOKEN, run, write_agents_file

from roundtable.config import agents_edit
from roundtable.config.agents import load_agents
from roundtable.config.tokens import digest_key, digest_of
from roundtable.rules.agents import Agent, Role

ROOT = Path(__file__).resolve().parents[2]


def content_of(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.spec("CLI-13", "CONF-10")
def test_a_new_agent_stands_behind_the_others_which_stay_as_they_were(folder):
    path = write_agents_file(folder)
    before = content_of(path)
    result = run("token", "new", "ben", "--skills", "review, sql", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["name"], told["role"], told["skills"]) == ("ben", "worker", ["review", "sql"])
    entry = {"name": "ben", "role": "worker", "skills": ["review", "sql"]}
    assert list(content_of(path).items()) == [*before.items(), (digest_key(told["token"]), entry)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_agents(path).agents[digest_of(told["token"])] == Agent("ben", Role.WORKER, ("review", "sql"))
    assert told["server_process"] is None
    assert "No server runs" in result.stderr


@pytest.mark.spec("CLI-13", "CLI-4")
def test_the_token_is_told_once_in_the_commands_that_connect(folder):
    path = write_agents_file(folder)
    result = run("token", "new", "ben")
    token = next(line.split("=")[1] for line in result.stdout.splitlines() if line.startswith("export "))
    assert result.stdout.count(token) == 1
    assert token not in path.read_text() + result.stderr
    assert "claude mcp add " in result.stdout
    assert "codex mcp add " in result.stdout


@pytest.mark.spec("CLI-13")
def test_a_rotated_agent_keeps_its_place_role_and_skills(folder):
    path = write_agents_file(folder)
    told = json.loads(run("token", "rotate", "anna", "--json").stdout)
    assert list(content_of(path)) == [digest_key(LEADER_TOKEN), digest_key(told["token"])]
    agents = load_agents(path).agents
    assert agents[digest_of(told["token"])] == Agent("anna", Role.WORKER, ("code",))
    assert digest_of(ANNA_TOKEN) not in agents


@pytest.mark.spec("CLI-13")
def test_a_revoked_agent_is_gone_and_the_others_stay(folder):
    path = write_agents_file(folder)
    result = run("token", "revoke", "anna")
    assert (result.exit_code, result.stdout) == (0, '"anna" is let in no longer.\n')
    assert list(content_of(path)) == [digest_key(LEADER_TOKEN)]


@pytest.mark.spec("CLI-13", "CLI-2")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("revoke", "lead"), "must have exactly one agent with the role leader, not 0"),
        (("new", "second", "--role", "leader"), "must have exactly one agent with the role leader, not 2"),
        (("new", "anna"), "agents 2 and 3 have the same name"),
        (("new", "board"), "the name board is taken"),
        (("new", " x"), "name must be 1 to 100 printable characters"),
        (("new", "x\x1b[2J"), "name must be 1 to 100 printable characters"),
        (("new", "x", "--skills", "a,a"), "has the same skill twice"),
        (("rotate", "nobody"), 'there is no agent "nobody"; there are "lead", "anna"'),
        (("revoke", "nobody\x1b[2J"), "there is no agent "),
    ],
)
def test_what_would_leave_the_file_wrong_is_refused_in_the_loaders_words(folder, words, told):
    path = write_agents_file(folder)
    before = path.read_bytes()
    result = run("token", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "\x1b" not in result.stderr
    assert result.stdout == ""
    assert path.read_bytes() == before
    assert list(folder.iterdir()) == [path]


@pytest.mark.spec("CLI-13", "CLI-2")
def test_a_name_of_the_pools_roster_is_refused(folder):
    path = write_agents_file(folder)
    before = path.read_bytes()
    (folder / "config").mkdir()
    roster = folder / "config" / "workers.toml"
    roster.write_text('[[workers]]\nname = "poet"\nmodel = "m"\nbase_url = "https://models.example"\n')
    result = run("token", "new", "poet")
    assert result.exit_code == 2
    assert 'workers[1] ("poet"): name: is in the agents file too' in result.stderr
    assert path.read_bytes() == before
    roster.write_text("this is no roster")
    assert run("token", "new", "poet").exit_code == 0


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("content", [None, "{", '{"short": {"name": "a", "role": "leader"}}'])
def test_a_file_that_is_not_right_before_is_left_alone(folder, content):
    path = folder / "agents.json"
    if content is not None:
        path.write_text(content)
    result = run("token", "new", "ben")
    assert result.exit_code == 2
    assert result.stderr.startswith('"agents.json"')
    assert (path.read_text() if path.exists() else None) == content


def test_a_file_that_others_could_read_is_the_owners_alone_afterwards(folder):
    path = write_agents_file(folder)
    path.chmod(0o644)
    assert run("token", "rotate", "anna").exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(folder):
    path = write_agents_file(folder)
    (folder / "elsewhere").mkdir()
    target = folder / "elsewhere" / "real.json"
    path.rename(target)
    path.symlink_to(target)
    assert run("token", "revoke", "anna").exit_code == 0
    assert path.is_symlink()
    assert list(content_of(target)) == [digest_key(LEADER_TOKEN)]


@pytest.mark.spec("CLI-13")
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_a_token_that_nobody_can_read_changes_nothing(folder, redirection):
    path = write_agents_file(folder)
    before = path.read_bytes()
    command = [
        sys.executable,
        "-c",
        "from roundtable.cli.main import main; main()",
        "token",
        "rotate",
        "anna",
    ]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "the output cannot be written, so nothing was changed\n")
    assert path.read_bytes() == before


def test_two_at_once_do_not_lose_each_others_change(folder, monkeypatch):
    path = write_agents_file(folder)
    monkeypatch.setattr(agents_edit, "_LOCK_PAUSE_SECONDS", 0.0)
    holder = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        result = run("token", "revoke", "anna")
        assert (result.exit_code, "being changed by another command" in result.stderr) == (2, True)
    finally:
        os.close(holder)
    assert run("token", "revoke", "anna").exit_code == 0
    assert list(content_of(path)) == [digest_key(LEADER_TOKEN)]

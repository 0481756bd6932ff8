"""`roundtable init`: what it makes, what it leaves alone, and that no token is lost or told twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from roundtable.cli.connecting import board_url, connect_commands, export_command
from roundtable.cli.init import FIRST_AGENTS, InitError, describe, init_command, write_configuration
from roundtable.config.agents import load_agents
from roundtable.config.samples import sample_roster
from roundtable.config.settings import Settings
from roundtable.config.tokens import digest_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ROUNDTABLE_")]:
        monkeypatch.delenv(name)
    return tmp_path


def run(*arguments, **environment):
    return CliRunner().invoke(init_command, arguments, env=environment)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.spec("CLI-3", "CONF-10")
def test_it_leaves_a_configuration_that_loads(folder):
    assert run().exit_code == 0
    assert files_in(folder) == ["agents.json", "config/workers.toml"]
    assert (folder / "agents.json").stat().st_mode & 0o777 == 0o600
    read = load_agents(folder / "agents.json")
    assert tuple(read.agents.values()) == FIRST_AGENTS
    assert read.warnings == ()
    assert (folder / "config/workers.toml").read_text() == sample_roster()


@pytest.mark.spec("CLI-3", "CLI-4")
def test_each_token_is_told_once_and_the_file_holds_its_digest_only(folder):
    result = run("--json")
    told = json.loads(result.stdout)
    content = (folder / "agents.json").read_text()
    agents = load_agents(folder / "agents.json").agents
    for new in told["agents"]:
        assert agents[digest_of(new["token"])].name == new["name"]
        assert result.stdout.count(new["token"]) == 1
        assert new["token"] not in content
    assert [new["name"] for new in told["agents"]] == ["leader", "worker-1", "worker-2"]


@pytest.mark.spec("CLI-4")
def test_people_are_told_each_token_once_too_in_commands(folder):
    settings = Settings()
    written = write_configuration(settings, mint=iter(["rt_one", "rt_two", "rt_three"]).__next__)
    text = describe(written, settings)
    for new in written.agents:
        assert text.count(new.token) == 1
        assert f"export ROUNDTABLE_TOKEN={new.token}\n" in text
    assert (
        text.count("\nclaude mcp add --transport http --scope user roundtable http://127.0.0.1:8000/mcp") == 3
    )
    assert (
        text.count("\ncodex mcp add roundtable --url http://127.0.0.1:8000/mcp --bearer-token-env-var") == 3
    )


@pytest.mark.spec("CLI-3")
def test_a_second_run_changes_nothing_and_says_so(folder):
    run()
    before = {name: (folder / name).read_bytes() for name in files_in(folder)}
    result = run()
    assert result.exit_code == 0
    assert {name: (folder / name).read_bytes() for name in files_in(folder)} == before
    assert result.stdout == (
        '"agents.json" is there already; left as it is.\n"config/workers.toml" is there already; left as it is.\n'
    )
    assert json.loads(run("--json").stdout)["agents"] == []


@pytest.mark.spec("CLI-3")
def test_what_is_missing_is_made_beside_what_is_there(folder):
    (folder / "agents.json").write_text("mine")
    result = run()
    assert result.exit_code == 0
    assert (folder / "agents.json").read_text() == "mine"
    assert files_in(folder) == ["agents.json", "config/workers.toml"]
    assert "export" not in result.stdout


def test_the_settings_say_where_and_how(folder):
    (folder / ".env").write_text("ROUNDTABLE_AGENTS_CONFIG=who/may.json\nROUNDTABLE_PORT=1\n")
    result = run("--json", ROUNDTABLE_WORKERS_CONFIG="pool.toml", ROUNDTABLE_HOST="::1", ROUNDTABLE_PROT="2")
    assert files_in(folder) == [".env", "pool.toml", "who/may.json"]
    assert json.loads(result.stdout)["url"] == "http://[::1]:1/mcp"
    assert "nearest known one is ROUNDTABLE_PORT" in result.stderr


def test_a_wrong_setting_is_exit_2_and_no_file(folder):
    result = run(ROUNDTABLE_PORT="x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("ROUNDTABLE_PORT must be")
    assert files_in(folder) == []


@pytest.mark.parametrize("obstacle", ["agents.json", "config/workers.toml"])
def test_a_folder_in_the_way_is_one_sentence_and_nothing_is_left(folder, obstacle):
    (folder / obstacle).mkdir(parents=True)
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f'"{obstacle}" is in the way of "{obstacle}"; move it away\n'
    assert files_in(folder) == []


def test_a_link_that_leads_nowhere_is_not_followed(folder):
    (folder / "agents.json").symlink_to("elsewhere.json")
    assert run().exit_code == 2
    assert files_in(folder) == []


def test_a_file_where_a_folder_must_be_is_one_sentence(folder):
    (folder / "config").write_text("")
    result = run()
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert files_in(folder) == ["config"]


def test_a_place_that_cannot_be_written_leaves_nothing(folder):
    settings = Settings(agents_config=folder / ("x" * 300))
    with pytest.raises(InitError, match="cannot be written: File name too long"):
        write_configuration(settings)
    assert files_in(folder) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")  # noqa: PTH110
def test_tokens_that_could_not_be_told_are_not_left_in_a_file(folder):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        code = "from roundtable.cli.init import init_command; init_command([])"
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr == b"the output cannot be written, so no file was made\n"
    assert files_in(folder) == []


def test_the_commands_are_what_a_shell_takes():
    token = "rt_-_09azAZ"
    commands = connect_commands("http://[::1]:8000/mcp")
    script = "\n".join(
        ["claude() { printf '%s\\n' \"$@\"; }", export_command(token), commands["json"], commands["claude"]]
    )
    done = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, timeout=60, check=True, text=True)
    form, _, arguments = done.stdout.partition("\n")
    server = json.loads(form)["mcpServers"]["roundtable"]
    assert server["headers"] == {"Authorization": f"Bearer {token}"}
    assert server["url"] == "http://[::1]:8000/mcp"
    assert arguments.splitlines()[-3:] == [
        "http://[::1]:8000/mcp",
        "--header",
        f"Authorization: Bearer {token}",
    ]


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (Settings(), "http://127.0.0.1:8000/mcp"),
        (Settings(host="0.0.0.0", port=0), "http://127.0.0.1:PORT/mcp"),  # noqa: S104
        (Settings(host="::"), "http://127.0.0.1:8000/mcp"),
        (Settings(host="board.example", tls_cert="c", tls_key="k"), "https://board.example:8000/mcp"),
    ],
)
def test_the_address_is_one_that_a_client_can_reach(settings, url):
    assert board_url(settings) == url

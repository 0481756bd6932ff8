"""`roundtable connect`: the exact command or configuration for each app."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from cli_folder import ANNA_TOKEN, LEADER_TOKEN, run, write_agents_file

URL = "http://127.0.0.1:8000/mcp"
HEADER = f"Authorization: Bearer {ANNA_TOKEN}"
COMMANDS = {
    "claude": [
        *shlex.split("claude mcp add --transport http --scope user roundtable"),
        URL,
        "--header",
        HEADER,
    ],
    "codex": [
        *shlex.split("codex mcp add roundtable --url"),
        URL,
        "--bearer-token-env-var",
        "ROUNDTABLE_TOKEN",
    ],
    "gemini": [
        *shlex.split("gemini mcp add --scope user --transport http --header"),
        HEADER,
        "roundtable",
        URL,
    ],
    "copilot": [*shlex.split("copilot mcp add --transport http roundtable"), URL, "--header", HEADER],
}


@pytest.mark.spec("CLI-11")
@pytest.mark.parametrize("client", COMMANDS)
def test_a_command_is_one_line_that_the_shell_completes_with_the_token(folder, client):
    write_agents_file(folder)
    result = run("connect", "anna", "--client", client, ROUNDTABLE_TOKEN=ANNA_TOKEN)
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    assert ANNA_TOKEN not in line
    words = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line}"],
        env={"ROUNDTABLE_TOKEN": ANNA_TOKEN},
        capture_output=True,
        text=True,
        check=True,
    )
    assert words.stdout.split("\0")[:-1] == COMMANDS[client]


@pytest.mark.spec("CLI-11")
@pytest.mark.parametrize(("token", "bearer"), [(ANNA_TOKEN, ANNA_TOKEN), ("", "{env:ROUNDTABLE_TOKEN}")])
def test_opencode_gets_its_configuration_and_looks_for_no_login(folder, token, bearer):
    write_agents_file(folder)
    result = run("connect", "anna", "--client", "opencode", ROUNDTABLE_TOKEN=token)
    assert json.loads(result.stdout)["mcp"]["roundtable"] == {
        "type": "remote",
        "url": URL,
        "headers": {"Authorization": f"Bearer {bearer}"},
        "oauth": False,
    }
    assert "opencode.json" in result.stderr


@pytest.mark.spec("CLI-11")
@pytest.mark.parametrize(("token", "bearer"), [(ANNA_TOKEN, ANNA_TOKEN), ("", "${ROUNDTABLE_TOKEN}")])
def test_any_other_app_gets_the_usual_form(folder, token, bearer):
    write_agents_file(folder)
    result = run("connect", "anna", "--client", "json", ROUNDTABLE_TOKEN=token)
    server = json.loads(result.stdout)["mcpServers"]["roundtable"]
    assert server == {"type": "http", "url": URL, "headers": {"Authorization": f"Bearer {bearer}"}}
    assert ("ROUNDTABLE_TOKEN is not set" in result.stderr) == (not token)


@pytest.mark.spec("CLI-11")
def test_as_json_it_says_what_it_is_for(folder):
    write_agents_file(folder)
    told = json.loads(
        run("connect", "anna", "--client", "codex", "--json", ROUNDTABLE_TOKEN=ANNA_TOKEN).stdout
    )
    assert told == {"agent": "anna", "client": "codex", "url": URL, "command": shlex.join(COMMANDS["codex"])}


@pytest.mark.spec("CLI-11")
@pytest.mark.parametrize(
    ("words", "environment", "url"),
    [
        ((), {"ROUNDTABLE_PORT": "9000"}, "http://127.0.0.1:9000/mcp"),
        ((), {"ROUNDTABLE_URL": "https://board.example/mcp"}, "https://board.example/mcp"),
        (
            ("--url", "https://a.example/mcp"),
            {"ROUNDTABLE_URL": "https://board.example/mcp"},
            "https://a.example/mcp",
        ),
    ],
)
def test_the_address_is_the_nearest_one_that_is_given(folder, words, environment, url):
    write_agents_file(folder)
    result = run("connect", "anna", "--client", "json", *words, ROUNDTABLE_TOKEN=ANNA_TOKEN, **environment)
    assert json.loads(result.stdout)["mcpServers"]["roundtable"]["url"] == url
    assert result.stderr == "for the app's settings:\n"


@pytest.mark.spec("CLI-2", "CLI-11")
@pytest.mark.parametrize(
    ("words", "environment", "told"),
    [
        (("nobody",), {}, 'there is no agent "nobody"; there are "lead", "anna"'),
        (("x\x1b[2J",), {}, "there is no agent "),
        (
            ("anna",),
            {"ROUNDTABLE_TOKEN": LEADER_TOKEN},
            'ROUNDTABLE_TOKEN is the token of "lead", not of "anna"',
        ),
        (
            ("anna",),
            {"ROUNDTABLE_TOKEN": "z" * 30},
            "ROUNDTABLE_TOKEN is the token of no agent of this board",
        ),
        (("anna",), {"ROUNDTABLE_TOKEN": "too short"}, "ROUNDTABLE_TOKEN holds no token"),
        (("anna",), {"ROUNDTABLE_PORT": "0"}, "ROUNDTABLE_PORT is 0"),
        (("anna", "--url", "ftp://x"), {}, "--url must be like http://127.0.0.1:8000/mcp"),
        (("anna", "--url", "https://user:pass@x/mcp"), {}, "--url holds user info"),
        (("anna", "--url", "https://x\x1b/mcp"), {}, "--url holds a space"),
    ],
)
def test_what_cannot_be_connected_is_said_in_one_line(folder, words, environment, told):
    write_agents_file(folder)
    result = run("connect", *words, "--client", "json", **environment)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr
    assert "pass" not in result.stderr


def test_plain_http_to_another_machine_is_warned_of(folder):
    write_agents_file(folder)
    result = run("connect", "anna", "--client", "json", "--url", "http://board.example/mcp")
    assert result.exit_code == 0
    assert "can read the token" in result.stderr

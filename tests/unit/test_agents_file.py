"""agents.json: who is let in, and how every problem of the file is told without telling a token."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roundtable.config.agent_entries import SAMPLE_TOKENS
from roundtable.config.agents import load_agents
from roundtable.config.errors import ConfigError
from roundtable.config.limits import MAX_AGENTS, MAX_FILE_BYTES
from roundtable.config.roster import merge_roster
from roundtable.config.tokens import digest_key, digest_of, new_token
from roundtable.rules.agents import Agent, Role

ROOT = Path(__file__).parents[2]
LEADER_TOKEN = "leader-token-0123456789abcdef"
WORKER_TOKEN = "worker-token-0123456789abcdef"
LEADER = {"name": "ada", "role": "leader", "skills": []}
WORKER = {"name": "bob", "role": "worker", "skills": ["code"]}


@dataclass
class PoolWorker:
    name: str
    skills: list = field(default_factory=list)
    concurrency: int = 1
    place: str = "here"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agents.json"


def write(path, content, mode=0o600):
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    path.chmod(mode)


def problems_of(path, content):
    write(path, content)
    with pytest.raises(ConfigError) as caught:
        load_agents(path)
    assert LEADER_TOKEN not in str(caught.value)
    assert WORKER_TOKEN not in str(caught.value)
    prefix = f'"{path}"'[:100]
    assert all(problem.startswith(prefix[:20]) for problem in caught.value.problems)
    assert all(problem.isprintable() for problem in caught.value.problems)
    return [problem.split("agents.json", 1)[-1].lstrip('": ') for problem in caught.value.problems]


@pytest.mark.spec("CONF-1")
def test_a_token_and_its_digest_name_the_same_agent(path):
    write(path, {LEADER_TOKEN: LEADER, digest_key(WORKER_TOKEN): WORKER})
    read = load_agents(path)
    assert read.agents == {
        hashlib.sha256(LEADER_TOKEN.encode()).digest(): Agent("ada", Role.LEADER),
        hashlib.sha256(WORKER_TOKEN.encode()).digest(): Agent("bob", Role.WORKER, ("code",)),
    }
    assert read.warnings == ()


def test_the_digits_of_a_digest_may_be_capital(path):
    write(path, {"sha256:" + digest_of(LEADER_TOKEN).hex().upper(): LEADER})
    assert digest_of(LEADER_TOKEN) in load_agents(path).agents


def test_skills_may_be_left_out(path):
    write(path, {LEADER_TOKEN: {"name": "ada", "role": "leader"}})
    assert list(load_agents(path).agents.values()) == [Agent("ada", Role.LEADER)]


@pytest.mark.spec("CONF-4")
def test_a_byte_order_mark_is_accepted(path):
    write(path, b"\xef\xbb\xbf" + json.dumps({LEADER_TOKEN: LEADER}).encode())
    assert len(load_agents(path).agents) == 1


@pytest.mark.spec("CONF-5")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_open_is_a_warning_with_the_cure(path, mode):
    write(path, {LEADER_TOKEN: LEADER}, mode)
    [warning] = load_agents(path).warnings
    assert warning.endswith(f"chmod 600 {path}")


@pytest.mark.spec("CONF-2")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "must have exactly one agent with the role leader, not 0"),
        ({WORKER_TOKEN: WORKER}, "must have exactly one agent with the role leader, not 0"),
        (
            {LEADER_TOKEN: LEADER, WORKER_TOKEN: {"name": "eve", "role": "leader"}},
            "must have exactly one agent with the role leader, not 2",
        ),
        (
            {LEADER_TOKEN: LEADER, WORKER_TOKEN: {**WORKER, "name": "ada"}},
            "agents 1 and 2 have the same name",
        ),
        (
            {"x" * 23: LEADER},
            'agent 1 ("ada"): its token must be 24 to 512 printable ASCII characters without spaces',
        ),
        (
            {"Bearer " + LEADER_TOKEN: LEADER},
            'agent 1 ("ada"): its token must be 24 to 512 printable ASCII characters without spaces',
        ),
        (
            {"\u00e9" * 30: LEADER},
            'agent 1 ("ada"): its token must be 24 to 512 printable ASCII characters without spaces',
        ),
        (
            {"sha256:" + "0" * 63: LEADER},
            'agent 1 ("ada"): sha256: must be followed by the 64 hexadecimal digits of the token\'s SHA-256',
        ),
    ],
)
def test_a_leader_names_and_tokens_are_as_they_must_be(path, content, problem):
    assert problems_of(path, content) == [problem]


@pytest.mark.spec("CONF-2")
@pytest.mark.parametrize(
    "key", [*SAMPLE_TOKENS, digest_key(SAMPLE_TOKENS[0]), "replace-me-with-something-else"]
)
def test_a_token_of_the_sample_is_refused(path, key):
    [problem] = problems_of(path, {key: LEADER})
    assert "that of the sample" in problem


def test_the_sample_in_the_project_is_refused_and_otherwise_right():
    sample = ROOT / "agents.example.json"
    assert tuple(json.loads(sample.read_text())) == SAMPLE_TOKENS
    with pytest.raises(ConfigError) as caught:
        load_agents(sample)
    assert len(caught.value.problems) == len(SAMPLE_TOKENS)
    assert all("that of the sample" in problem for problem in caught.value.problems)


@pytest.mark.spec("CONF-3")
def test_every_problem_is_listed_at_once_with_its_place(path):
    text = """{
        "%s": {"name": "ada", "role": "boss", "role": "chief", "skills": "code"},
        "short": {"role": "worker", "skills": ["a", "a"], "tags": 1, "skils": 2},
        "%s": 7,
        "%s": {"name": " bob", "role": "worker", "skills": ["ok", "", 3]}
    }"""
    assert problems_of(path, text % (LEADER_TOKEN, LEADER_TOKEN, WORKER_TOKEN)) == [
        'agent 1 ("ada"): role is given 2 times',
        'agent 1 ("ada"): role must be leader or worker',
        'agent 1 ("ada"): skills must be a list of texts',
        "agent 2: its token must be 24 to 512 printable ASCII characters without spaces",
        "agent 2: name is missing",
        "agent 2: has fields other than name, role, skills, by place in the object: 3, 4 (meant: skills?)",
        "agent 2: has the same skill twice",
        "agent 3: must be an object with name, role and skills",
        "agent 4: name must be 1 to 100 printable characters without spaces at its ends",
        "agent 4: skill 2 must be 1 to 100 printable characters without spaces at its ends",
        "agent 4: skill 3 must be 1 to 100 printable characters without spaces at its ends",
        "agents 1 and 3 have the same token",
    ]


@pytest.mark.spec("CONF-3")
def test_one_token_in_both_its_forms_is_there_twice(path):
    content = {WORKER_TOKEN: LEADER, digest_key(WORKER_TOKEN): WORKER}
    assert problems_of(path, content) == ["agents 1 and 2 have the same token"]


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a\nb", "a\u202eb", "a\x1bb", "\ud800", "x" * 101, 5, None, ["a"], {}]
)
def test_a_name_is_a_label_of_one_printable_line(path, name):
    [problem] = problems_of(path, {LEADER_TOKEN: {"name": name, "role": "leader"}})
    assert problem == "agent 1: name must be 1 to 100 printable characters without spaces at its ends"


@pytest.mark.parametrize("name", ["board", "Board"])
def test_nobody_is_called_as_the_history_calls_the_board(path, name):
    [problem] = problems_of(path, {LEADER_TOKEN: {"name": name, "role": "leader"}})
    assert "the history calls the board itself by it" in problem


def test_a_token_where_a_name_belongs_is_not_told(path):
    write(path, {"ada": {"name": LEADER_TOKEN, "role": "leader"}})
    with pytest.raises(ConfigError) as caught:
        load_agents(path)
    assert LEADER_TOKEN not in str(caught.value)


def test_a_token_where_a_field_belongs_is_not_told(path):
    write(path, {"agents": {LEADER_TOKEN: LEADER}})
    with pytest.raises(ConfigError) as caught:
        load_agents(path)
    assert LEADER_TOKEN not in str(caught.value)


@pytest.mark.spec("CONF-3")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "line 1, column 1: is not JSON (Expecting value)"),
        ('{"a": 1,\n"b"}', "line 2, column 4: is not JSON (Expecting ':' delimiter)"),
        ("[]", "must be an object from token to agent"),
        ("NaN", "holds a number that JSON or this program does not have"),
        ('{"a": ' + "9" * 5000 + "}", "holds a number that JSON or this program does not have"),
        ("[" * 100_000, "is nested too deeply"),
        (b'{"\xff": 1}', "is not UTF-8 (byte 3)"),
        (json.dumps(LEADER).encode("utf-16"), "is not UTF-8 (byte 1)"),
        (b" " * (MAX_FILE_BYTES + 1), "is over 1,048,576 bytes"),
    ],
)
def test_what_is_no_json_object_is_one_problem(path, content, problem):
    [said] = problems_of(path, content)
    assert said.startswith(problem)


def problem_at(path):
    with pytest.raises(ConfigError) as caught:
        load_agents(path)
    [problem] = caught.value.problems
    return problem


def test_a_missing_file_says_how_to_get_one(path):
    assert problem_at(path).endswith("is not there; `roundtable init` writes one")


def test_a_folder_a_pipe_and_a_device_are_no_file(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert problem_at(place).endswith("is not a regular file")
    assert problem_at(path / "a\x00b").endswith("cannot be read: its name is no file name")


def test_more_agents_than_one_list_holds_are_refused(path):
    many = {new_token(): {"name": f"w{number}", "role": "worker"} for number in range(MAX_AGENTS)}
    assert problems_of(path, many | {LEADER_TOKEN: LEADER}) == ["has 201 agents; at most 200 are allowed"]


def test_more_text_than_one_list_holds_is_refused(path):
    skills = ["\u4e2d" * 90 + str(number) for number in range(20)]
    many = {new_token(): {"name": f"w{number}", "role": "worker", "skills": skills} for number in range(9)}
    [problem] = problems_of(path, many | {LEADER_TOKEN: LEADER})
    assert problem.startswith("names and skills take ")


def said_by(path):
    """What the owner is told: warnings, or at least one problem."""
    try:
        return load_agents(path).warnings
    except ConfigError as error:
        return error.problems or ["\x00 refused without a problem"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=30)
    | st.sampled_from(["leader", "worker"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "role", "skills", "x"]), inner)
    ),
    max_leaves=8,
)
tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=24, max_size=60)


@given(st.dictionaries(tokens, json_values, max_size=4), st.lists(tokens, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_token_of_the_file_is_in_any_message(tmp_path, content, misplaced):
    path = tmp_path / "agents.json"
    content = dict(content)
    for token in misplaced:
        content[f"key of {token[:3]}"] = {"name": token, "role": token, "skills": [token], token: 1}
    write(path, content)
    said = said_by(path)
    assert all(line.isprintable() for line in said)
    for token in [*content, *misplaced]:
        assert len(token) < 24 or not any(token in line for line in said)


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_are_agents_or_problems(tmp_path, content):
    path = tmp_path / "agents.json"
    write(path, content)
    assert all(line.isprintable() for line in said_by(path))


@pytest.fixture
def table(path):
    write(path, {LEADER_TOKEN: LEADER, WORKER_TOKEN: WORKER})
    return load_agents(path)


def test_a_pool_worker_joins_and_holds_as_many_tasks_as_it_does_at_once(table):
    roster = merge_roster(table, [PoolWorker("deepseek", ["code"], concurrency=3)])
    assert [agent.name for agent in roster.directory] == ["ada", "bob", "deepseek"]
    assert roster.pool == (Agent("deepseek", Role.WORKER, ("code",), max_claims=3),)
    assert roster.directory.find("bob").max_claims is None


def test_without_a_pool_the_file_is_everybody(table):
    assert merge_roster(table, []).pool == ()


@pytest.mark.parametrize(
    ("workers", "problem"),
    [
        ([PoolWorker("bob")], "here: name: is in the agents file too; one of them must change"),
        ([PoolWorker("board")], "here: name: the name board is taken"),
        ([PoolWorker("a", ["x", "x"])], "here: skills: has the same skill twice"),
        (
            [PoolWorker(f"w{number}") for number in range(199)],
            "with the agents file: has 201 agents; at most 200 are allowed",
        ),
    ],
)
def test_a_pool_that_does_not_fit_is_refused(table, workers, problem):
    with pytest.raises(ConfigError) as caught:
        merge_roster(table, workers)
    [said] = caught.value.problems
    assert said.startswith(problem)


def test_all_that_keeps_a_pool_from_fitting_is_told_at_once(table):
    workers = [PoolWorker(f"w{number}") for number in range(197)]
    workers += [PoolWorker("bob", place="there"), PoolWorker("board", ["x", "x"])]
    with pytest.raises(ConfigError) as caught:
        merge_roster(table, workers)
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        "here",
        "here",
        "there",
        "with the agents file",
    ]


def test_tokens_differ_and_pass_for_tokens(path):
    made = {new_token() for _ in range(20)}
    assert len(made) == 20
    write(path, {made.pop(): LEADER})
    assert len(load_agents(path).agents) == 1

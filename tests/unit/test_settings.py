"""Settings: from the environment and .env to values, with every problem said at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roundtable.config.environment import read_environment
from roundtable.config.errors import ConfigError, shown
from roundtable.config.limits import MAX_FILE_BYTES
from roundtable.config.settings import (
    OTHER_PROGRAMS_NAMES,
    VARIABLES,
    Settings,
    default_of,
    load_settings,
    parse_settings,
)
from roundtable.config.values import AllowedHost

ROOT = Path(__file__).parents[2]
WRONG = {
    "ROUNDTABLE_HOST": ["a b", "localhost:80", "[::1", "[127.0.0.1]", "http://x", "1.2.3", "-x", "fe80::1%a'b", "\udcff"],
    "ROUNDTABLE_PORT": ["65536", "-1", "8000.0", "8_000", "+1", "\u0663", "9" * 5000, "http", "1\x00"],
    "ROUNDTABLE_DB_PATH": [":memory:", "file:x?mode=memory", "a\x00b", "a\nb", "x" * 5000],
    "ROUNDTABLE_AGENTS_CONFIG": ["a\x00b", "~nobody-has-this-name/x"],
    "ROUNDTABLE_WORKERS_CONFIG": ["a\x1b[31m"],
    "ROUNDTABLE_LOG_FORMAT": ["xml", "jsonl"],
    "ROUNDTABLE_LOG_LEVEL": ["loud", "20"],
    "ROUNDTABLE_ALLOWED_HOSTS": [
        "a,", ",", "*", "*.x.org", "http://a", "a:0", "a:65536", "a:", "::1", "[::1", "u@h",
        "a b", "1.2.3.400", "a/b", "[fe80::1%x]",
    ],
    "ROUNDTABLE_TLS_CERT": ["/nowhere/cert.pem"],
    "ROUNDTABLE_TLS_KEY": ["/nowhere/key.pem"],
    "ROUNDTABLE_UNKNOWN_CONNECTIONS": ["3", "0", "65537"],
    "ROUNDTABLE_MAX_CONNECTIONS": ["0", "65537"],
    "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": ["-1", "100001"],
    "ROUNDTABLE_CLAIMS_PER_WORKER": ["0", "101"],
}  # fmt: skip


def problems_of(environment):
    with pytest.raises(ConfigError) as caught:
        parse_settings(environment)
    return caught.value.problems


def write_dotenv(folder, content):
    (folder / ".env").write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.spec("CONF-7")
def test_without_any_variable_the_defaults_hold():
    assert parse_settings({}) == Settings()
    assert (Settings().host, Settings().port, Settings().db_path) == (
        "127.0.0.1",
        8000,
        Path("roundtable.db"),
    )
    assert (Settings().unknown_connections, Settings().max_connections) == (256, 1024)
    assert (Settings().rate_limit_per_minute, Settings().claims_per_worker) == (60, 5)


def test_every_variable_is_read(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.touch()
    key.touch()
    read = parse_settings(
        {
            "ROUNDTABLE_HOST": "[::1]",
            "ROUNDTABLE_PORT": "0",
            "ROUNDTABLE_DB_PATH": "/srv/board.db",
            "ROUNDTABLE_AGENTS_CONFIG": "~/agents.json",
            "ROUNDTABLE_WORKERS_CONFIG": "w.toml",
            "ROUNDTABLE_LOG_FORMAT": "JSON",
            "ROUNDTABLE_LOG_LEVEL": "Debug",
            "ROUNDTABLE_ALLOWED_HOSTS": "Board.Example, 10.0.0.1:8443,[2001:DB8::0]:1,my_service",
            "ROUNDTABLE_TLS_CERT": str(cert),
            "ROUNDTABLE_TLS_KEY": str(key),
            "ROUNDTABLE_UNKNOWN_CONNECTIONS": "4",
            "ROUNDTABLE_MAX_CONNECTIONS": "1",
            "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0",
            "ROUNDTABLE_CLAIMS_PER_WORKER": "1",
        }
    )
    assert read == Settings(
        host="::1",
        port=0,
        db_path=Path("/srv/board.db"),
        agents_config=Path.home() / "agents.json",
        workers_config=Path("w.toml"),
        log_format="json",
        log_level="debug",
        allowed_hosts=(
            AllowedHost("board.example"),
            AllowedHost("10.0.0.1", 8443),
            AllowedHost("[2001:db8::]", 1),
            AllowedHost("my_service"),
        ),
        tls_cert=cert,
        tls_key=key,
        unknown_connections=4,
        max_connections=1,
        rate_limit_per_minute=0,
        claims_per_worker=1,
    )


@pytest.mark.spec("CONF-7")
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_value_that_does_not_parse_is_named_with_what_it_must_be(name, value):
    problems = [problem for problem in problems_of({name: value}) if problem.startswith(f"{name} must be ")]
    assert len(problems) == 1
    assert problems[0].isprintable()
    assert len(problems[0]) < 350


@pytest.mark.spec("CONF-7")
def test_all_problems_are_said_at_once(tmp_path):
    write_dotenv(tmp_path, "no assignment\nROUNDTABLE_LOG_LEVEL=loud\n")
    with pytest.raises(ConfigError) as caught:
        load_settings({"ROUNDTABLE_PORT": "x", "ROUNDTABLE_HOST": "a b"}, tmp_path)
    starts = [problem.split(" must")[0] for problem in caught.value.problems]
    assert starts == [".env line 1:", "ROUNDTABLE_HOST", "ROUNDTABLE_PORT", "ROUNDTABLE_LOG_LEVEL"]


@pytest.mark.parametrize("value", ["", "  ", "\t"])
def test_an_empty_value_means_the_default(value):
    assert parse_settings(dict.fromkeys(VARIABLES, value)) == Settings()


def test_a_certificate_without_a_key_is_half_of_something(tmp_path):
    cert = tmp_path / "cert.pem"
    cert.touch()
    [problem] = problems_of({"ROUNDTABLE_TLS_CERT": str(cert)})
    assert problem == "ROUNDTABLE_TLS_KEY must be set too, since ROUNDTABLE_TLS_CERT is: both or none"
    [problem] = problems_of({"ROUNDTABLE_TLS_KEY": str(cert), "ROUNDTABLE_TLS_CERT": ""})
    assert problem.startswith("ROUNDTABLE_TLS_CERT must be set too")


@pytest.mark.spec("CONF-8")
@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("ROUNDTABLE_PROT", "ROUNDTABLE_PORT"),
        ("roundtable_host", "ROUNDTABLE_HOST"),
        ("ROUNDTABLE_ALLOWED_HOST", "ROUNDTABLE_ALLOWED_HOSTS"),
    ],
)
def test_an_unknown_name_is_a_warning_with_the_nearest_known_one(name, nearest):
    [warning] = parse_settings({name: "rt_its-value-may-be-a-secret"}).warnings
    assert shown(name) in warning
    assert warning.endswith(nearest)
    assert "secret" not in warning


def test_names_of_later_and_of_other_programs_are_not_taken_for_settings():
    assert parse_settings(dict.fromkeys(OTHER_PROGRAMS_NAMES, "x")).warnings == ()
    assert parse_settings({"WORKER_API_KEY": "x", "PATH": "x"}).warnings == ()
    assert len(parse_settings({"ROUNDTABLE_BACKUP_SECONDS": "60"}).warnings) == 1


def test_an_unknown_name_is_shown_in_printable_characters():
    [warning] = parse_settings({"ROUNDTABLE_\x1b[31m\n" + "x" * 1000: "1"}).warnings
    assert warning.isprintable()
    assert len(warning) < 300


@pytest.mark.spec("CONF-6")
def test_dotenv_fills_up_and_never_overrides(tmp_path):
    write_dotenv(
        tmp_path,
        "\ufeff# mine\nexport ROUNDTABLE_PORT='81'\r\nROUNDTABLE_HOST=0.0.0.0\nROUNDTABLE_LOG_LEVEL=debug # x\n",
    )
    read = load_settings({"ROUNDTABLE_HOST": "10.0.0.1", "ROUNDTABLE_LOG_LEVEL": ""}, tmp_path)
    assert (read.port, read.host, read.log_level) == (81, "10.0.0.1", "info")


def test_dotenv_also_carries_what_other_parts_ask_for(tmp_path):
    write_dotenv(tmp_path, "MODEL_KEY=k\nHERE=no\nPLAIN=${HERE}\n")
    read = read_environment({"HERE": "real"}, tmp_path)
    assert read.values == {"MODEL_KEY": "k", "HERE": "real", "PLAIN": "${HERE}"}
    assert read.problems == ()


def dotenv_problem(folder):
    with pytest.raises(ConfigError) as caught:
        load_settings({}, folder)
    [problem] = caught.value.problems
    return problem


def test_a_dotenv_that_is_no_text_is_a_problem_and_no_traceback(tmp_path):
    write_dotenv(tmp_path, b"ROUNDTABLE_PORT=\xff")
    assert dotenv_problem(tmp_path) == ".env is not UTF-8 (byte 17)"


def test_a_dotenv_that_is_a_folder_is_a_problem(tmp_path):
    (tmp_path / ".env").mkdir()
    assert dotenv_problem(tmp_path) == ".env is not a regular file"


def test_a_dotenv_that_is_a_pipe_is_a_problem_and_no_wait(tmp_path):
    os.mkfifo(tmp_path / ".env")
    assert dotenv_problem(tmp_path) == ".env is not a regular file"


def test_a_dotenv_that_leads_round_in_a_circle_is_a_problem(tmp_path):
    (tmp_path / ".env").symlink_to(".env")
    assert dotenv_problem(tmp_path).startswith(".env cannot be read: ")


def test_a_huge_dotenv_is_a_problem(tmp_path):
    write_dotenv(tmp_path, b"#" * (MAX_FILE_BYTES + 1))
    assert dotenv_problem(tmp_path) == ".env is over 1,048,576 bytes"


def test_a_line_of_dotenv_that_is_wrong_is_named_and_not_quoted(tmp_path):
    write_dotenv(tmp_path, 'A=1\n\n\nrt_a-token-in-the-wrong-place\nB="open\n')
    with pytest.raises(ConfigError) as caught:
        load_settings({}, tmp_path)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [".env line 4", ".env line 5"]
    assert "wrong-place" not in str(caught.value)


def said_by(load):
    """What the owner is told: warnings, or at least one problem."""
    try:
        return load().warnings
    except ConfigError as error:
        return error.problems or ["\x00 refused without a problem"]


lines = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda name, value: f"{name}={value}".encode("utf-8", "replace"),
        st.sampled_from(sorted(VARIABLES)),
        st.text(max_size=40),
    ),
)


@given(st.lists(lines, max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_dotenv_there_is_an_answer_in_printable_lines(tmp_path, content, end):
    write_dotenv(tmp_path, end.join(content))
    assert all(line.isprintable() for line in said_by(lambda: load_settings({}, tmp_path)))


@given(st.dictionaries(st.sampled_from(sorted(VARIABLES)), st.text(st.characters(categories=None))))
def test_whatever_stands_in_the_environment_there_is_an_answer_in_printable_lines(environment):
    assert all(line.isprintable() for line in said_by(lambda: parse_settings(environment)))


def test_the_sample_names_every_variable_with_its_default_and_no_other():
    sample = dict(re.findall(r"^#(ROUNDTABLE_\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert sample.keys() == VARIABLES.keys()
    for name, value in sample.items():
        default = default_of(VARIABLES[name])
        assert value == ("" if default in (None, ()) else str(default)), name


def test_the_sample_changes_nothing_as_it_stands(tmp_path):
    write_dotenv(tmp_path, (ROOT / ".env.example").read_text())
    assert load_settings({}, tmp_path) == Settings()
    write_dotenv(
        tmp_path, re.sub(r"^#(?=ROUNDTABLE_)", "", (ROOT / ".env.example").read_text(), flags=re.MULTILINE)
    )
    assert load_settings({}, tmp_path) == Settings()

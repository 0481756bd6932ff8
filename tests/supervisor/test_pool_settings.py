"""What `python -m supervisor` takes from the environment, .env and the roster file."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config.fields import ConfigurationError
from supervisor.config.roster import Roster, Worker
from supervisor.config.settings import read_environment, read_log_settings, read_pool_settings

REQUIRED = {
    "ROUNDTABLE_TOKEN": "t" * 30,
    "WORKER_MODEL_BASE_URL": "https://models.example/v1",
    "WORKER_MODEL_NAME": "small",
    "WORKER_API_KEY": "sk-very-secret",
}

ROSTER = """
[[workers]]
name = "far"
model = "m"
base_url = "https://models.example/v1"
api_key_env = "FAR_KEY"
token_env = "FAR_TOKEN"
"""


def problems_of(environment: dict[str, str], folder: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read_pool_settings(environment, folder)
    return list(caught.value.problems)


@pytest.mark.spec("POOL-5")
def test_without_a_roster_file_the_environment_describes_one_worker(tmp_path: Path):
    settings = read_pool_settings(REQUIRED, tmp_path)
    worker = Worker(name="worker", model="small", base_url="https://models.example/v1")
    assert settings.roster == Roster((worker,))
    assert settings.url == "http://127.0.0.1:8000/mcp"
    assert settings.tokens == {"worker": "t" * 30}
    assert settings.keys["worker"].get_secret_value() == "sk-very-secret"


@pytest.mark.spec("POOL-5")
def test_each_variable_sets_its_bound(tmp_path: Path):
    settings = read_pool_settings(
        {
            **REQUIRED,
            "ROUNDTABLE_URL": "https://board.example/mcp/",
            "WORKER_MAX_TASKS_PER_HOUR": "5",
            "WORKER_MODEL_TIMEOUT": "1.5",
            "WORKER_COOLDOWN_SECONDS": "0",
            "WORKER_MAX_FAILURES": "1",
            "WORKER_POLL_INTERVAL": "0.2",
        },
        tmp_path,
    )
    (worker,) = settings.roster.workers
    assert settings.url == "https://board.example/mcp"
    assert (worker.max_calls_per_hour, worker.timeout_seconds) == (5, 1.5)
    assert (worker.cooldown_seconds, worker.max_failures, settings.roster.poll_interval) == (0, 1, 0.2)


@pytest.mark.spec("POOL-5", "POOL-6")
def test_every_problem_is_one_line_that_names_the_variable_and_not_its_value(tmp_path: Path):
    assert problems_of(
        {
            "ROUNDTABLE_URL": "http://secret.example/mcp",
            "ROUNDTABLE_TOKEN": "secret token",
            "WORKER_MODEL_BASE_URL": "https://user:secret@models.example/v1",
            "WORKER_MAX_TASKS_PER_HOUR": "secret",
            "WORKER_MODEL_TIMEOUT": "inf",
            "WORKER_COOLDOWN_SECONDS": "-1",
            "WORKER_MAX_FAILURES": "1.5",
            "WORKER_POLL_INTERVAL": "0",
        },
        tmp_path,
    ) == [
        "ROUNDTABLE_URL: the address is http:// to a host that is not 127.0.0.1, [::1] or localhost; use https://",
        "ROUNDTABLE_TOKEN: holds a space or is not ASCII",
        "WORKER_MODEL_BASE_URL: the address holds user info",
        "WORKER_MODEL_NAME: is missing",
        "WORKER_MAX_TASKS_PER_HOUR: Input should be a valid integer, unable to parse string as an integer",
        "WORKER_MODEL_TIMEOUT: Input should be a finite number",
        "WORKER_COOLDOWN_SECONDS: Input should be greater than or equal to 0",
        "WORKER_MAX_FAILURES: Input should be a valid integer, unable to parse string as an integer",
        "WORKER_POLL_INTERVAL: Input should be greater than or equal to 0.05",
    ]


def test_a_key_is_needed_unless_the_endpoint_is_on_this_machine(tmp_path: Path):
    environment = {name: value for name, value in REQUIRED.items() if name != "WORKER_API_KEY"}
    assert problems_of(environment, tmp_path) == [
        "WORKER_API_KEY: is missing, and the endpoint is not on this machine"
    ]
    environment["WORKER_MODEL_BASE_URL"] = "http://127.0.0.1:8080/v1"
    assert read_pool_settings(environment, tmp_path).keys == {"worker": None}


@pytest.mark.spec("POOL-4")
def test_a_roster_file_takes_the_place_of_the_variables(tmp_path: Path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "workers.toml").write_text(ROSTER)
    environment = {
        **REQUIRED,
        "FAR_KEY": "k",
        "FAR_TOKEN": "f" * 30,
        "ROUNDTABLE_URL": "https://board.example/mcp",
    }
    settings = read_pool_settings(environment, tmp_path)
    assert settings.tokens == {"far": "f" * 30}
    assert settings.url == "https://board.example/mcp"
    (tmp_path / "config" / "workers.toml").write_text('[pool]\nurl = "https://other.example/mcp"\n' + ROSTER)
    assert read_pool_settings(environment, tmp_path).url == "https://other.example/mcp"


@pytest.mark.spec("POOL-4")
def test_what_a_roster_lacks_in_the_environment_is_told_at_once(tmp_path: Path):
    path = tmp_path / "my.toml"
    path.write_text(ROSTER + "[[workers]]\nname = 'far'\n" + ROSTER.replace('"far"', '"near"'))
    environment = {"ROUNDTABLE_WORKERS_CONFIG": "my.toml", "ROUNDTABLE_URL": "ftp://x"}
    assert problems_of(environment, tmp_path) == [
        f'{path}: workers[2] ("far"): model: is missing',
        f'{path}: workers[2] ("far"): base_url: is missing',
        f'{path}: workers[2] ("far"): name: is that of workers[1] too',
        f'{path}: workers[1] ("far"): api_key_env: the variable it names is not set',
        f'{path}: workers[3] ("near"): api_key_env: the variable it names is not set',
        f'{path}: workers[1] ("far"): token_env: the variable it names is not set',
        f'{path}: workers[3] ("near"): token_env: the variable it names is not set',
        f'{path}: workers[2] ("far"): token_env: is missing; a pool apart from the board needs it',
        "ROUNDTABLE_URL: the address is neither https:// nor http:// to this machine",
    ]


def test_a_pool_apart_without_a_worker_is_a_problem(tmp_path: Path):
    (tmp_path / "my.toml").write_text("# nothing\n")
    assert problems_of({"ROUNDTABLE_WORKERS_CONFIG": "my.toml"}, tmp_path) == [
        f"{tmp_path / 'my.toml'}: names no worker"
    ]


def test_a_roster_that_is_named_and_not_there_is_a_problem(tmp_path: Path):
    assert problems_of({**REQUIRED, "ROUNDTABLE_WORKERS_CONFIG": "my.toml"}, tmp_path) == [
        "ROUNDTABLE_WORKERS_CONFIG: there is no such file"
    ]


def test_the_file_fills_up_the_environment_and_never_overrides_it(tmp_path: Path):
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbfA=file\nB=file\nC='$A'\nD=\n")
    assert read_environment({"A": "real", "E": ""}, path) == {"A": "real", "B": "file", "C": "$A"}
    assert read_environment({"A": "real"}, tmp_path / "none") == {"A": "real"}


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path):
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"\.env: cannot be read as UTF-8"):
        read_environment({}, tmp_path / ".env")


def test_a_wrong_log_setting_is_a_problem():
    assert read_log_settings({}).format == "console"
    with pytest.raises(
        ConfigurationError, match="ROUNDTABLE_LOG_FORMAT: Input should be 'console' or 'json'"
    ):
        read_log_settings({"ROUNDTABLE_LOG_FORMAT": "xml"})


def test_secrets_show_themselves_masked(tmp_path: Path):
    assert "sk-very-secret" not in repr(read_pool_settings(REQUIRED, tmp_path))
    assert "t" * 30 not in repr(read_pool_settings(REQUIRED, tmp_path))

"""config/workers.toml, and the secrets that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from supervisor.config.keys import read_keys, read_tokens
from supervisor.config.roster import Roster, RosterError, Worker, draft_roster, parse_roster, read_roster

MINIMAL = """
[[workers]]
name = "local"
model = "small"
base_url = "http://127.0.0.1:8080/v1"
"""

SAMPLE = Path(__file__).parents[2] / "config" / "workers.example.toml"


def problems_of(text: str) -> list[str]:
    with pytest.raises(RosterError) as caught:
        parse_roster(text)
    return list(caught.value.problems)


@pytest.mark.spec("POOL-1")
def test_a_worker_that_names_only_what_it_must_gets_the_defaults():
    assert parse_roster(MINIMAL) == Roster(
        workers=(
            Worker(
                name="local",
                model="small",
                base_url="http://127.0.0.1:8080/v1",
                skills=(),
                api_key_env=None,
                token_env=None,
                concurrency=1,
                max_calls_per_hour=10,
                timeout_seconds=120.0,
                max_output_tokens=None,
                temperature=None,
                system_prompt="",
                cooldown_seconds=900,
                max_failures=3,
            ),
        ),
        grace_seconds=5.0,
        poll_interval=10.0,
        url=None,
    )


@pytest.mark.spec("POOL-1")
def test_every_field_is_taken_over():
    roster = parse_roster("""
[pool]
url = "https://board.example/mcp/"
grace_seconds = 1
poll_interval = 0.2

[[workers]]
name = "deepseek"
skills = ["python", "prose"]
model = "deepseek-chat"
base_url = "https://api.deepseek.com/v1"
api_key_env = "DEEPSEEK_API_KEY"
token_env = "DEEPSEEK_TOKEN"
concurrency = 2
max_calls_per_hour = 5
timeout_seconds = 30
max_output_tokens = 1000
temperature = 0
system_prompt = "Be brief."
fallback_models = ["deepseek-reasoner"]
max_tokens_per_day = 200000
price_input = 0.27
price_output = 1
cooldown_seconds = 0
max_failures = 1
""")
    assert roster == Roster(
        workers=(
            Worker(
                name="deepseek",
                skills=("python", "prose"),
                model="deepseek-chat",
                base_url="https://api.deepseek.com/v1",
                api_key_env="DEEPSEEK_API_KEY",
                token_env="DEEPSEEK_TOKEN",
                concurrency=2,
                max_calls_per_hour=5,
                timeout_seconds=30.0,
                max_output_tokens=1000,
                temperature=0.0,
                system_prompt="Be brief.",
                fallback_models=("deepseek-reasoner",),
                max_tokens_per_day=200_000,
                price_input=0.27,
                price_output=1.0,
                cooldown_seconds=0,
                max_failures=1,
            ),
        ),
        grace_seconds=1.0,
        poll_interval=0.2,
        url="https://board.example/mcp",
    )


@pytest.mark.spec("POOL-1")
def test_defaults_fill_what_a_worker_leaves_out_and_nothing_else():
    roster = parse_roster("""
[defaults]
model = "common"
base_url = "http://localhost:1/v1"
max_failures = 7

[[workers]]
name = "a"

[[workers]]
name = "b"
model = "own"
max_failures = 1
""")
    assert [(worker.model, worker.max_failures) for worker in roster.workers] == [("common", 7), ("own", 1)]


@pytest.mark.spec("POOL-1")
def test_every_problem_is_listed_at_once_with_its_table_and_key():
    assert problems_of("""
[wrong]
[pool]
grace_seconds = "5"
[defaults]
max_failures = 0
name = "everybody"
[[workers]]
name = "a"
model = "m"
base_url = "http://127.0.0.1/v1"
nonsense = ["x"]
timeout_seconds = inf
[[workers]]
name = "a"
base_url = "ftp://127.0.0.1/v1"
concurrency = true
""") == [
        "wrong: no such table",
        "pool: grace_seconds: Input should be a valid number",
        'defaults ("everybody"): max_failures: Input should be greater than or equal to 1',
        'defaults ("everybody"): name: no such field',
        'workers[1] ("a"): timeout_seconds: Input should be a finite number',
        'workers[1] ("a"): nonsense: no such field',
        'workers[2] ("a"): model: is missing',
        'workers[2] ("a"): base_url: the address is neither https:// nor http:// to this machine',
        'workers[2] ("a"): concurrency: Input should be a valid integer',
        'workers[2] ("a"): name: is that of workers[1] too',
    ]


@pytest.mark.spec("POOL-1")
def test_what_is_right_in_a_wrong_roster_is_there_for_other_checks():
    draft = draft_roster("[pool]\nurl = 1\n[[workers]]\nname = 'a'\n" + MINIMAL + MINIMAL)
    assert [(worker.name, worker.place) for worker in draft.roster.workers] == [
        ("local", 'workers[2] ("local")'),
        ("local", 'workers[3] ("local")'),
    ]
    assert [problem.partition(": ")[0] for problem in draft.problems] == [
        "pool",
        'workers[1] ("a")',
        'workers[1] ("a")',
        'workers[3] ("local")',
    ]


@pytest.mark.parametrize("name", ["rt_0123456789abcdef0123456789", "sk-proj-0123456789abcdef0123"])
def test_a_name_that_is_as_long_as_a_token_is_not_told_with_a_problem(name: str):
    roster = MINIMAL.replace("local", name)
    problems = problems_of(f"{roster}concurrency = 0\n{roster}max_failures = 0\n")
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["workers[1]", "concurrency"],
        ["workers[2]", "max_failures"],
        ["workers[2]", "name"],
    ]
    assert name not in str(problems)


def test_a_worker_that_stands_elsewhere_in_the_file_is_the_same_worker():
    other = MINIMAL.replace("local", "other")
    first, second = parse_roster(MINIMAL + other), parse_roster(other + MINIMAL)
    assert first.workers == second.workers[::-1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('fallback_models = ["a", "a"]', "fallback_models: names one twice"),
        ("fallback_models = []\nmax_tokens_per_day = 0", "max_tokens_per_day: Input should be greater"),
        ("price_input = -1", "price_input: Input should be greater"),
        ("price_output = nan", "price_output: Input should be a finite number"),
    ],
)
@pytest.mark.spec("POOL-1")
def test_a_budget_or_fallback_out_of_its_range_is_refused(line: str, told: str):
    (problem,) = problems_of(f"{MINIMAL}{line}\n")
    assert problem.startswith(f'workers[1] ("local"): {told}')


def test_a_wrong_default_is_told_once_and_not_again_for_every_worker():
    assert problems_of(
        '[defaults]\nmodel = 3\nbase_url = "http://localhost:1"\n[[workers]]\nname = "a"\n'
    ) == ["defaults: model: Input should be a valid string"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[pool]\n[defaults]\n", "workers = []"])
def test_a_roster_may_name_no_worker(text: str):
    assert parse_roster(text).workers == ()


@pytest.mark.parametrize(
    "text", ["[[workers]]", "workers = 3", "workers = [1]", "[workers]", "= 1", "[" * 5000]
)
def test_a_file_without_a_usable_worker_is_refused(text: str):
    assert problems_of(text)


@pytest.mark.spec("POOL-1")
@pytest.mark.parametrize("field", ["max_tokens_per_month", "price", "fallback_urls", "nonsense"])
def test_a_field_that_is_not_honoured_is_refused(field: str):
    assert problems_of(f"{MINIMAL}{field} = 1\n") == [f'workers[1] ("local"): {field}: no such field']


@pytest.mark.spec("POOL-2")
@pytest.mark.parametrize("field", ["api_key", "api-key", "key", "token", "API_KEY"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(field: str):
    (problem,) = problems_of(f'{MINIMAL}{field} = "sk-very-secret"\n')
    assert "secret" in problem
    assert "sk-very-secret" not in problem


@pytest.mark.spec("POOL-2")
@pytest.mark.parametrize("value", ["sk-abcdef", "gsk_abcDEF0123", "MY KEY", "", "1A", "A" * 200])
def test_an_api_key_env_that_is_no_name_of_a_variable_is_refused_and_not_repeated(value: str):
    (problem,) = problems_of(f'{MINIMAL}api_key_env = "{value}"\n')
    assert "the NAME of a variable" in problem or "at most" in problem
    assert not value or value not in problem


@pytest.mark.spec("POOL-6")
def test_a_refused_address_is_named_by_its_field_and_not_repeated():
    (problem,) = problems_of(MINIMAL.replace("http://127.0.0.1:8080/v1", "http://user:hunter2@127.0.0.1/v1"))
    assert problem == 'workers[1] ("local"): base_url: the address holds user info'


def test_a_byte_order_mark_is_accepted(tmp_path: Path):
    path = tmp_path / "workers.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert read_roster(path).workers[0].name == "local"


def test_problems_of_a_file_name_the_file(tmp_path: Path):
    path = tmp_path / "workers.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(RosterError) as caught:
        read_roster(path)
    assert caught.value.problems == (f"{path}: is not UTF-8",)


def test_a_file_that_cannot_be_read_is_a_problem_and_none_at_all_is_another_thing(tmp_path: Path):
    with pytest.raises(RosterError, match="cannot be read: Is a directory"):
        read_roster(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_roster(tmp_path / "none")


@pytest.mark.parametrize("name", ["a\\nb", " a", "", "a" * 101, "\\u001b[31m"])
def test_a_name_that_would_break_a_log_line_is_refused(name: str):
    assert problems_of(MINIMAL.replace('"local"', f'"{name}"'))


def test_the_sample_parses_as_it_stands_and_with_every_comment_of_a_field_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trustme.CA().cert_pem.write_to_path("private-authority.pem")
    text = SAMPLE.read_text(encoding="utf-8")
    assert parse_roster(text) == Roster(())
    uncommented = "\n".join(
        line.removeprefix("#") if line.startswith("#") and line[1:2] not in {" ", ""} else line
        for line in text.splitlines()
    )
    assert uncommented != text
    roster = parse_roster(uncommented)
    assert len(roster.workers) > 1
    assert {
        field
        for worker in roster.workers
        for field in Worker.__slots__
        if getattr(worker, field) not in (None, (), "")
    } == set(Worker.__slots__)


WITH_KEY = """
[[workers]]
name = "far"
model = "m"
base_url = "https://models.example/v1"
api_key_env = "FAR_KEY"
token_env = "FAR_TOKEN"
"""


def test_keys_are_taken_from_the_named_variables_and_show_themselves_masked():
    keys, problems = read_keys(draft_roster(WITH_KEY + MINIMAL), {"FAR_KEY": "sk-very-secret"})
    assert problems == []
    assert keys["local"] is None
    assert keys["far"].get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in repr(keys)


@pytest.mark.parametrize("value", [None, "", "  ", "two words", "né", "a\nb"])
def test_a_key_that_is_missing_or_cannot_stand_in_a_header_is_a_problem_that_repeats_neither_name_nor_value(
    value,
):
    _, [problem] = read_keys(draft_roster(WITH_KEY), {} if value is None else {"FAR_KEY": value})
    assert problem.startswith('workers[1] ("far"): api_key_env: ')
    assert "FAR_KEY" not in problem
    assert not value or value not in problem


def test_an_endpoint_elsewhere_needs_a_key():
    _, [problem] = read_keys(draft_roster(WITH_KEY.replace('api_key_env = "FAR_KEY"', "")), {})
    assert problem.startswith('workers[1] ("far"): api_key_env: is missing')


@pytest.mark.spec("POOL-4")
def test_a_pool_apart_from_the_board_needs_a_token_for_each_worker():
    draft = draft_roster(WITH_KEY + MINIMAL)
    _, [problem] = read_tokens(draft, {"FAR_TOKEN": "t" * 30})
    assert problem.startswith('workers[2] ("local"): token_env: is missing')
    assert read_tokens(draft_roster(WITH_KEY), {"FAR_TOKEN": "t" * 30}) == ({"far": "t" * 30}, [])


def test_two_workers_with_one_token_are_refused():
    other = WITH_KEY.replace('"far"', '"other"').replace("FAR_TOKEN", "OTHER_TOKEN")
    both = {"FAR_TOKEN": "t" * 30, "OTHER_TOKEN": "t" * 30}
    _, [problem] = read_tokens(draft_roster(WITH_KEY + other), both)
    assert problem.startswith('workers[2] ("other"): token_env: has the same token as workers[1] ("far")')


@pytest.mark.spec("POOL-1")
@pytest.mark.parametrize(
    ("table", "told"),
    [
        (WITH_KEY, {"api_key_env", "token_env"}),
        (WITH_KEY.replace('"FAR_KEY"', '"sk-key"'), {"token_env"}),
        (MINIMAL, {"token_env"}),
        (MINIMAL.replace("http://127.0.0.1:8080", "https://far.example"), {"api_key_env", "token_env"}),
        (MINIMAL.replace("http://127.0.0.1:8080", "http://far.example"), {"token_env"}),
        ('[defaults]\napi_key_env = "FAR_KEY"\n' + MINIMAL, {"api_key_env", "token_env"}),
    ],
)
def test_what_a_table_lacks_in_the_environment_is_told_although_the_table_is_wrong_elsewhere(
    table: str, told: set[str]
):
    draft = draft_roster(table + "concurrency = 0\n")
    assert draft.roster.workers == ()
    problems = read_keys(draft, {})[1] + read_tokens(draft, {})[1]
    assert {problem.split(": ")[1] for problem in problems} == told


@pytest.mark.parametrize(
    "text",
    [
        "a = {{'{key}' = 1, '{key}' = 2}}",
        "['{key}']\n['{key}']",
        "a = 1\n['a'.'{key}']",
        "'{key}' = 1\n'{key}' = 2",
        "a = '{key}",
        "a = {key}",
    ],
)
def test_what_is_no_toml_is_told_by_its_place_alone(text: str) -> None:
    key = "sk-abcDEF123456"
    (problem,) = problems_of(text.format(key=key))
    assert problem.startswith("is not TOML: ")
    assert problem.endswith(")")
    assert "abc" not in problem


@pytest.mark.parametrize("key", ["sk-abcDEF123456", "AKIA0000EXAMPLE", "k" * 41])
def test_a_key_that_was_put_where_a_name_belongs_is_not_told(key: str) -> None:
    problems = problems_of(f'"{key}" = "x"\n{MINIMAL}"{key}" = 1\n')
    assert len(problems) == 2
    assert key not in " ".join(problems)

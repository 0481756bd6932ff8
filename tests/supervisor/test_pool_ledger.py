"""What the pool keeps on disk."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.memory.ledger import LedgerError, Spent, open_ledger
from supervisor.model.usage import Usage

NOW = 1_800_000_000.0
NONE = Usage(0, 0, is_estimated=False)


def call(ledger, at: float, tokens: int = 0, *, worker: str = "w", cost: float | None = None) -> None:
    call_id = ledger.begin_call(worker, "m", NONE, at)
    usage = Usage(tokens, 0, is_estimated=False)
    ledger.end_call(call_id, outcome="answered", usage=usage, seconds=1.0, cost=cost)


@pytest.mark.spec("POOL-22")
def test_calls_tokens_and_claims_are_there_after_the_file_is_opened_again(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        call(ledger, NOW, 100, cost=0.5)
        ledger.take_claim("c1", "w", 7, NOW)
        ledger.take_claim("c2", "w", 8, NOW)
        ledger.end_claim("c2")
    with open_ledger(path, NOW + 60) as ledger:
        assert ledger.spent("w", NOW + 60) == Spent(1, 100, is_estimated=False, cost=0.5)
        assert ledger.claims_of("w") == {"c1": 7}
        assert ledger.spent("other", NOW + 60) == Spent(0, 0, is_estimated=False, cost=None)


@pytest.mark.spec("POOL-22")
def test_a_process_that_is_killed_leaves_its_calls_and_claims(tmp_path):
    path = tmp_path / "pool.db"
    program = (
        "import os, sys; from pathlib import Path; from supervisor.memory.ledger import open_ledger\n"
        "from supervisor.model.usage import Usage\n"
        f"with open_ledger(Path(sys.argv[1]), {NOW}) as ledger:\n"
        f"    ledger.begin_call('w', 'm', Usage(5, 6, True), {NOW}); ledger.take_claim('c', 'w', 1, {NOW})\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=60).returncode == -9
    )
    with open_ledger(path, NOW) as ledger:
        assert ledger.spent("w", NOW) == Spent(1, 11, is_estimated=True, cost=None)
        assert ledger.claims_of("w") == {"c": 1}


def test_the_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        call(ledger, NOW)
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o600}


def test_a_second_owner_is_refused_in_words(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        with (
            pytest.raises(
                LedgerError, match=r"^pool\.db: another pool is using it, or somebody looks into it$"
            ),
            open_ledger(path, NOW),
        ):
            raise AssertionError("let in")
        call(ledger, NOW)
    with open_ledger(path, NOW):
        pass


def test_somebody_who_looks_into_the_file_of_a_killed_pool_is_no_other_pool(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        call(ledger, NOW)
    with closing(sqlite3.connect(path)) as onlooker:
        onlooker.execute("SELECT * FROM calls").fetchall()
        with pytest.raises(LedgerError, match=r", or somebody looks into it$"), open_ledger(path, NOW):
            raise AssertionError("let in")
    with open_ledger(path, NOW) as ledger:
        assert ledger.spent("w", NOW).calls == 1


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\x00" + b"x" * 4_096])
def test_a_file_that_is_no_ledger_is_refused_in_words(tmp_path, content: bytes):
    path = tmp_path / "pool.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"^pool\.db: "), open_ledger(path, NOW):
        raise AssertionError("let in")
    assert path.read_bytes() == content


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "pool.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="another version"), open_ledger(path, NOW):
        raise AssertionError("let in")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(LedgerError, match="No such file"), open_ledger(tmp_path / "x" / "pool.db", NOW):
        raise AssertionError("let in")


@pytest.mark.spec("POOL-21")
def test_the_longest_answer_of_the_day_is_one_that_came(ledger):
    assert ledger.longest_answer("w", NOW) == 0
    for at, outcome, tokens in [
        (NOW - 86_400, "answered", 9),
        (NOW - 5, "answered", 5),
        (NOW - 4, "answered", 3),
        (NOW - 3, "dropped", 7),
        (NOW - 2, "content", 8),
    ]:
        call_id = ledger.begin_call("w", "m", Usage(100, 100, is_estimated=True), at)
        usage = Usage(50, tokens, is_estimated=False)
        ledger.end_call(call_id, outcome=outcome, usage=usage, seconds=1.0, cost=None)
    ledger.begin_call("w", "m", Usage(100, 100, is_estimated=True), NOW)
    assert ledger.longest_answer("w", NOW) == 5
    assert ledger.longest_answer("another", NOW) == 0


@pytest.mark.spec("POOL-12")
@given(st.lists(st.integers(0, 20_000).map(float), max_size=60), st.integers(1, 10))
def test_no_hour_holds_more_calls_than_the_cap(wishes, cap):
    made = []
    now = NOW
    with open_ledger(None, NOW) as ledger:
        for wish in sorted(wishes):
            now = max(now, NOW + wish)
            now = ledger.call_allowed_at("w", cap, now)
            call(ledger, now)
            made.append(now)
    for first, last in zip(made, made[cap:], strict=False):
        assert last - first >= 3_600


@pytest.mark.spec("POOL-21")
@given(st.lists(st.tuples(st.integers(0, 500_000), st.integers(1, 400)), max_size=40))
def test_no_24_hours_hold_more_tokens_than_the_cap(wishes):
    cap = 1_000
    made: list[tuple[float, int]] = []
    now = NOW
    with open_ledger(None, NOW) as ledger:
        for wish, tokens in sorted(wishes):
            now = max(now, NOW + wish)
            now = ledger.tokens_allowed_at("w", cap, tokens, now)
            call(ledger, now, tokens)
            made.append((now, tokens))
    for end, _ in made:
        assert sum(tokens for at, tokens in made if end - 86_400 < at <= end) <= cap


def test_tokens_beyond_the_cap_are_allowed_when_nothing_else_counts():
    with open_ledger(None, NOW) as ledger:
        assert ledger.tokens_allowed_at("w", 100, 500, NOW) == NOW
        call(ledger, NOW, 10)
        assert ledger.tokens_allowed_at("w", 100, 500, NOW + 1) == NOW + 86_400


def test_a_call_counts_from_its_beginning_with_what_it_may_take():
    with open_ledger(None, NOW) as ledger:
        call_id = ledger.begin_call("w", "m", Usage(10, 500, is_estimated=True), NOW)
        assert ledger.spent("w", NOW) == Spent(1, 510, is_estimated=True, cost=None)
        usage = Usage(12, 30, is_estimated=False)
        ledger.end_call(call_id, outcome="answered", usage=usage, seconds=1.0, cost=0.1)
        assert ledger.spent("w", NOW) == Spent(1, 42, is_estimated=False, cost=0.1)


def test_a_clock_that_was_set_back_does_not_lock_a_worker_out_for_long(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        call(ledger, NOW)
    earlier = NOW - 86_400 * 365
    with open_ledger(path, earlier) as ledger:
        assert ledger.call_allowed_at("w", 1, earlier) == earlier + 3_600


def test_what_is_older_than_a_month_is_forgotten_at_the_start(tmp_path):
    path = tmp_path / "pool.db"
    with open_ledger(path, NOW) as ledger:
        call(ledger, NOW - 86_400 * 40)
        call(ledger, NOW - 86_400 * 20)
    with open_ledger(path, NOW):
        pass
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (1,)


@pytest.mark.spec("POOL-11", "POOL-22")
def test_failures_on_a_task_are_there_after_the_file_is_opened_again_until_they_are_forgotten(tmp_path):
    path = tmp_path / "pool.db"
    for expected in (1, 2, 3):
        with open_ledger(path, NOW) as ledger:
            assert ledger.count_failure("w", 7, NOW) == expected
    with open_ledger(path, NOW) as ledger:
        assert ledger.count_failure("other", 7, NOW) == 1
        assert ledger.count_failure("w", 8, NOW) == 1
        ledger.forget_failures("w", 7)
    with open_ledger(path, NOW) as ledger:
        assert (ledger.failures_of("w"), ledger.failures_of("other")) == ({8: 1}, {7: 1})


@pytest.mark.spec("POOL-11")
def test_more_failures_than_the_board_knows_of_are_from_before_an_update(ledger):
    for _ in range(2):
        ledger.count_failure("w", 7, NOW)
    assert ledger.count_failure("w", 7, NOW, at_most=5) == 3
    assert ledger.count_failure("w", 7, NOW, at_most=0) == 1
    assert ledger.count_failure("w", 8, NOW, at_most=0) == 1


@pytest.mark.spec("POOL-22")
def test_failures_older_than_a_month_are_forgotten_while_the_pool_runs_and_at_its_start(tmp_path):
    path = tmp_path / "pool.db"
    month = 86_400 * 31
    with open_ledger(path, NOW) as ledger:
        for day in range(400):
            ledger.count_failure("w", day, NOW + 86_400 * day)
        assert len(ledger.failures_of("w")) == 32
    with open_ledger(path, NOW + 86_400 * 399 + month) as ledger:
        assert ledger.failures_of("w") == {399: 1}


def test_a_clock_that_was_set_back_does_not_keep_failures_for_ever(tmp_path):
    path, earlier = tmp_path / "pool.db", NOW - 86_400 * 365
    with open_ledger(path, NOW) as ledger:
        ledger.count_failure("w", 7, NOW)
    with open_ledger(path, earlier):
        pass
    with open_ledger(path, earlier + 86_400 * 32) as ledger:
        assert ledger.failures_of("w") == {}


FIRST_VERSION = """
CREATE TABLE calls (call_id INTEGER PRIMARY KEY, worker TEXT NOT NULL, model TEXT NOT NULL, started_at REAL NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, is_estimated INTEGER NOT NULL, outcome TEXT NOT NULL,
    seconds REAL, cost REAL) STRICT;
CREATE INDEX calls_of_worker ON calls (worker, started_at);
CREATE TABLE claims (claim_id TEXT PRIMARY KEY, worker TEXT NOT NULL, task_id INTEGER NOT NULL,
    taken_at REAL NOT NULL) STRICT;
PRAGMA user_version = 1;
"""


@pytest.mark.spec("POOL-22")
def test_a_file_of_the_first_version_keeps_what_it_holds_and_takes_what_is_new(tmp_path):
    path = tmp_path / "pool.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(FIRST_VERSION)
        db.execute("INSERT INTO calls VALUES (1, 'w', 'm', ?, 5, 6, 0, 'answered', 1.0, NULL)", (NOW,))
        db.execute("INSERT INTO claims VALUES ('c1', 'w', 7, ?)", (NOW,))
        db.commit()
    for failures in (1, 2):
        with open_ledger(path, NOW) as ledger:
            assert ledger.spent("w", NOW) == Spent(1, 11, is_estimated=False, cost=None)
            assert ledger.claims_of("w") == {"c1": 7}
            assert ledger.count_failure("w", 7, NOW) == failures


def test_a_file_that_cannot_take_a_step_is_left_as_it_was(tmp_path):
    path = tmp_path / "pool.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(FIRST_VERSION + "CREATE TABLE failures (x);")
    with pytest.raises(LedgerError, match=r"^pool\.db: cannot be opened"), open_ledger(path, NOW):
        raise AssertionError("let in")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)

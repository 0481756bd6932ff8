"""What follows from failures, when calls are allowed, and when a child starts again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.memory.record import WorkerRecord
from supervisor.model.retry_after import retry_after_seconds
from supervisor.rules.failures import FailureClass
from supervisor.rules.policy import (
    CONSEQUENCES,
    Consequence,
    Move,
    endpoint_wait_seconds,
    gives_up,
)
from supervisor.rules.restart import RestartHistory, after_failure, backoff_seconds

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.spec("POOL-19")
def test_every_class_that_is_settled_has_its_consequence():
    assert set(CONSEQUENCES) == set(FailureClass) - {FailureClass.REFUSED_REQUEST}


def test_a_worker_gives_up_at_max_failures_or_at_once_where_trying_again_is_vain():
    counting = Consequence(counts=True, move=Move.GO_ON, falls_back=False)
    assert [gives_up(counting, failures=n, max_failures=3) for n in (1, 2, 3, 4)] == [
        False,
        False,
        True,
        True,
    ]
    assert gives_up(CONSEQUENCES[FailureClass.CONTEXT_LENGTH], failures=1, max_failures=3)
    assert not gives_up(CONSEQUENCES[FailureClass.NETWORK], failures=0, max_failures=1)


@pytest.mark.spec("POOL-19")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("7.5", 7.5),
        ("-5", 0),
        ("899", 899),
        ("99999999999", 900),
        ("inf", 900),
        ("1e300", 900),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 500, None),
        ("Sun, 29 Nov 2026 12:00:30 GMT", 30),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0),
        ("Fri, 29 Nov 2999 12:00:00 GMT", 900),
        ("Sun, 29 Nov 99999999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_bounded(header, seconds):
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text())
def test_no_retry_after_header_breaks_the_reader(header: str):
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or 0 <= seconds <= 900


@given(
    st.sampled_from(list(FailureClass)),
    st.none() | st.floats(0, 900),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_the_wait_for_an_endpoint_is_at_least_what_it_asked_for_and_bounded(kind, asked, troubles, jitter):
    wait = endpoint_wait_seconds(kind, retry_after_seconds=asked, troubles=troubles, jitter=jitter)
    assert (asked or 0) <= wait <= 900
    assert wait >= 2


@pytest.mark.spec("SUP-2")
@given(st.integers(0, 10**9), st.floats(0, 1))
def test_the_back_off_of_a_restart_lies_between_one_and_sixty_seconds(attempt, jitter):
    assert 1 <= backoff_seconds(attempt, jitter=jitter, first=1.0, maximum=60.0) <= 60


@pytest.mark.spec("SUP-2")
def test_the_back_off_doubles_and_jitter_spreads_each_step_over_the_whole_of_it():
    def waits(jitter: float) -> list[float]:
        return [backoff_seconds(n, jitter=jitter, first=1.0, maximum=60.0) for n in (1, 2, 3, 5, 6, 7, 8)]

    assert waits(0.0) == [1, 2, 4, 16, 30, 30, 30]
    assert waits(0.5) == [1.5, 3, 6, 24, 45, 45, 45]
    assert waits(1.0) == [2, 4, 8, 32, 60, 60, 60]


@pytest.mark.spec("SUP-2")
def test_only_five_quiet_minutes_reset_the_back_off():
    history = RestartHistory(failures=4)
    short, delay = after_failure(history, started_at=0.0, now=299.0, jitter=0.0)
    assert (short.failures, delay) == (5, 16.0)
    quiet, delay = after_failure(history, started_at=0.0, now=300.0, jitter=0.0)
    assert (quiet.failures, delay) == (1, 1.0)


@pytest.mark.spec("SUP-7")
def test_the_sixth_restart_within_five_minutes_is_refused():
    history = RestartHistory()
    now = 0.0
    for _ in range(5):
        history, delay = after_failure(history, started_at=now, now=now, jitter=0.5)
        assert delay is not None
        now += delay
    assert after_failure(history, started_at=now, now=now, jitter=0.5)[1] is None
    assert after_failure(history, started_at=now, now=299.0, jitter=0.5)[1] is None
    assert after_failure(history, started_at=now, now=302.0, jitter=0.5)[1] is not None


def test_now_is_taken_as_an_argument_and_not_from_the_clock():
    later = NOW + timedelta(seconds=10)
    assert retry_after_seconds("Sun, 29 Nov 2026 12:00:30 GMT", later) == 20


def test_the_first_reason_to_park_a_worker_stays():
    record = WorkerRecord()
    record.park("first")
    record.park("second")
    assert (record.parked, record.state) == ("first", "parked")

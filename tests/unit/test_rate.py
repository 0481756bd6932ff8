import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable.rules.rate import RateWindow, RateWindows


def test_as_many_as_the_limit_pass_and_the_next_is_told_when_one_is_free():
    window = RateWindow(3, 60)
    assert [window.allow(now) for now in (0, 10, 20)] == [None, None, None]
    assert window.allow(25) == 35
    assert window.allow(59) == 1


def test_what_is_refused_does_not_count():
    window = RateWindow(1, 60)
    assert window.allow(0) is None
    for now in range(1, 60):
        assert window.allow(now) == 60 - now
    assert window.allow(60) is None


def test_waiting_as_long_as_told_is_enough():
    window = RateWindow(2, 60)
    window.allow(0.25)
    window.allow(7.5)
    wait = window.allow(31.125)
    assert window.allow(31.125 + wait) is None


def test_events_with_a_reserve_go_over_the_limit_and_count_for_those_without():
    window = RateWindow(2, 60)
    assert [window.allow(0), window.allow(1)] == [None, None]
    assert window.allow(2) == 58
    assert [window.allow(3, reserve=2), window.allow(4, reserve=2)] == [None, None]
    assert window.allow(5, reserve=2) == 55
    assert window.allow(5) == 58  # until the third of the four has left, at 63
    assert window.allow(62.5) == 0.5
    assert window.allow(62.5, reserve=2) is None
    assert window.allow(63) == 1


@given(
    st.integers(1, 5),
    st.integers(0, 3),
    st.lists(st.tuples(st.floats(0, 30, allow_nan=False), st.booleans()), max_size=60),
)
def test_no_stretch_of_a_window_holds_more_than_the_limit_and_its_reserve(limit, reserve, steps):
    window, now = RateWindow(limit, 60), 0.0
    passed = []
    for step, reserved in steps:
        now += step
        counting = [time for time in passed if now - time < 60]
        wait = window.allow(now, reserve=reserve if reserved else 0)
        if len(counting) < limit + (reserve if reserved else 0):
            assert wait is None
            passed.append(now)
        else:
            assert 0 < wait <= 60


@pytest.mark.parametrize(("limit", "seconds"), [(0, 60), (-1, 60), (1, 0)])
def test_a_window_that_lets_nothing_through_or_lasts_no_time_is_refused(limit, seconds):
    with pytest.raises(ValueError):
        RateWindow(limit, seconds)
    with pytest.raises(ValueError):
        RateWindows(limit, seconds, 10)


def test_keys_do_not_share_a_window():
    windows = RateWindows(1, 60, 10)
    assert windows.allow("a", 0) is None
    assert windows.allow("b", 0) is None
    assert windows.allow("a", 1) == 59


def test_a_flood_of_keys_is_bounded_and_forgets_the_one_not_asked_about_for_longest():
    windows = RateWindows(1, 60, 3)
    for key in ("a", "b", "c", "a"):
        windows.allow(key, 0)
    windows.allow("d", 1)
    assert len(windows) == 3
    assert windows.allow("a", 2) == 58
    assert windows.allow("b", 2) is None


def test_windows_that_count_nothing_any_more_make_way():
    windows = RateWindows(1, 60, 100)
    for number in range(50):
        windows.allow(f"old {number}", 0)
    for number in range(50):
        windows.allow(f"new {number}", 100)
    assert len(windows) == 50


def test_no_room_for_a_single_key_is_refused():
    with pytest.raises(ValueError):
        RateWindows(1, 60, 0)

"""How much goes into one reply, and what a cursor is worth."""

from __future__ import annotations

import pytest
from board_pieces import refusal_of
from hypothesis import example, given
from hypothesis import strategies as st

from roundtable.rules import cursor, paging
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.limits import BRIEF_RESULTS_CHARS, EVENT_VALUE_CHARS, PAGE_BYTES, TASK_ID_MAX
from roundtable.tools.answers import compact

BOARD = "a1b2c3d4"


@pytest.mark.spec("REPLY-7")
@given(st.lists(st.text(max_size=40_000), max_size=12), st.integers(1, 12))
def test_a_page_holds_what_fits_and_loses_no_row(texts: list[str], limit: int) -> None:
    rows = [{"n": n, "text": text} for n, text in enumerate(texts)]
    page, more = paging.fill(iter(rows), limit)
    assert page == rows[: len(page)]
    assert more == (len(page) < len(rows))
    assert len(page) <= limit
    assert bool(page) == bool(rows)
    size = sum(paging.size_bytes(row) for row in page)
    assert size <= PAGE_BYTES or len(page) == 1
    if more and len(page) < limit:
        assert size + paging.size_bytes(rows[len(page)]) > PAGE_BYTES


@pytest.mark.spec("REPLY-7")
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
@example("\u2028\u2029" * 50)
def test_a_rows_size_is_at_least_what_it_takes_in_the_text_that_apps_show(text: str) -> None:
    row = {"title": text}
    assert paging.size_bytes(row) > len(compact(row).encode())


@pytest.mark.spec("REPLY-4")
@given(
    st.lists(st.tuples(st.integers(0, BRIEF_RESULTS_CHARS + 1), st.sampled_from("xé漢😀")), max_size=20),
    st.integers(0, PAGE_BYTES),
)
def test_the_texts_of_a_brief_never_exceed_its_room(pieces: list[tuple[int, str]], room_bytes: int) -> None:
    texts = [count * char for count, char in pieces]
    fits = paging.texts_that_fit(texts, room_bytes)
    assert len(fits) == len(texts)
    shown = [text for text, fit in zip(texts, fits, strict=True) if fit]
    assert sum(map(len, shown)) <= BRIEF_RESULTS_CHARS
    assert sum(map(paging.size_bytes, shown)) <= room_bytes
    if sum(map(len, texts)) <= BRIEF_RESULTS_CHARS and sum(map(paging.size_bytes, texts)) <= room_bytes:
        assert all(fits)


@pytest.mark.spec("REPLY-6")
def test_a_long_value_of_an_event_is_shown_as_its_length() -> None:
    assert paging.shown_value("x" * EVENT_VALUE_CHARS) == "x" * EVENT_VALUE_CHARS
    assert paging.shown_value("x" * (EVENT_VALUE_CHARS + 1)) == {"length": EVENT_VALUE_CHARS + 1}
    assert paging.shown_value(None) is None
    assert paging.shown_value([1, 2]) == [1, 2]


@given(st.integers(0, TASK_ID_MAX))
def test_a_cursor_leads_back_to_its_position(position: int) -> None:
    assert cursor.decode(cursor.encode(BOARD, "tasks", position), BOARD, "tasks") == position


@pytest.mark.parametrize(("board", "of"), [("00000000", "tasks"), (BOARD, "history")])
def test_a_cursor_from_elsewhere_is_invalid_and_says_what_to_do(board: str, of: str) -> None:
    error = refusal_of(cursor.decode, cursor.encode(board, of, 5), BOARD, "tasks")
    assert error.code is Code.INVALID
    assert "without cursor" in error.message


HEAD = f"tasks-{BOARD}-"


@given(st.one_of(st.text(), st.text("0123456789abcdefABCDEFxX-_+. ٣").map(HEAD.__add__)))
@example(HEAD + "0x1f")
@example(HEAD + "001f")
@example(HEAD + "1F")
@example(HEAD + "8" + "0" * 15)
@example(HEAD)
@example("tasks-\x00")
def test_whatever_a_cursor_is_it_is_one_of_ours_or_refused(text: str) -> None:
    try:
        position = cursor.decode(text, BOARD, "tasks")
    except BoardError:
        return
    assert cursor.encode(BOARD, "tasks", position) == text

"""What counts as text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roundtable.rules.errors import echo
from roundtable.rules.limits import ECHO_CHARS
from roundtable.rules.text import TextError, is_invisible, normalised

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
"""Surrogates too, which Hypothesis leaves out by default."""


def is_refused(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t"


@pytest.mark.spec("LIMIT-2", "LIMIT-3")
@given(ANY_TEXT)
@example("a\r\nb\rc\n\rd\r\r\n")
@example("\ud83d\ude00")
def test_line_ends_become_lf_and_control_characters_are_refused(text: str) -> None:
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    refused = [position for position, char in enumerate(unified) if is_refused(char)]
    if refused:
        with pytest.raises(TextError, match=rf"position {refused[0]}$"):
            normalised(text)
        return
    once = normalised(text)
    assert once == unified
    assert normalised(once) == once
    once.encode("utf-8")


@pytest.mark.spec("LIMIT-3")
@pytest.mark.parametrize("char", ["\x00", "\x07", "\x0b", "\x0c", "\x1b", "\x7f", "\x85", "\x9f", "\ud800"])
def test_a_character_that_is_refused_is_named_by_number_and_not_repeated(char: str) -> None:
    with pytest.raises(TextError) as caught:
        normalised(f"ab{char}")
    assert f"U+{ord(char):04X} at position 2" in str(caught.value)
    assert char not in str(caught.value)


@pytest.mark.spec("LIMIT-3")
@pytest.mark.parametrize(
    "text", ["", "tab\there", "\u2028\u2029", "\U0010ffff", "🧑‍🚀", "e\u0301", "\ufeff\ufffe"]
)
def test_any_other_scalar_value_passes_as_it_is(text: str) -> None:
    assert normalised(text) == text


@given(ANY_TEXT)
def test_a_text_with_a_letter_or_a_digit_is_never_invisible(text: str) -> None:
    shown = any(unicodedata.category(char) in {"Lu", "Ll", "Nd", "Po"} for char in text)
    assert not (shown and is_invisible(text))


@pytest.mark.spec("ERR-4")
@given(ANY_TEXT)
def test_an_echo_is_bounded_and_printable(text: str) -> None:
    shown = echo(text)
    assert len(shown) <= ECHO_CHARS + 2
    assert all(char.isprintable() for char in shown)
    assert len(text) > ECHO_CHARS or len(shown) == len(text) + 2

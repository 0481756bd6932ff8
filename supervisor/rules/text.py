"""What the board takes as text, known here too, so that an answer it would refuse is found out first."""

from __future__ import annotations

import re
import unicodedata

_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def has_refused_characters(text: str) -> bool:
    """Whether it holds control characters other than tab and LF, NUL, or an unpaired surrogate."""
    return _REFUSED.search(text) is not None


def is_invisible(text: str) -> bool:
    """Whether a reader would see nothing."""
    return not any(unicodedata.category(char)[0] in "LNPS" and char not in _BLANK_LETTERS for char in text)


def in_one_line(text: str) -> str:
    """The text as one line of printable characters, for a place where a line end would forge structure."""
    return "".join(char if char.isprintable() else " " for char in text).strip()

"""What counts as text: any Unicode scalar value but control characters, with LF as the only line end."""

from __future__ import annotations

import re
import unicodedata

_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class TextError(ValueError):
    """The text holds a character that is refused; the message names it by number."""


def normalised(text: str) -> str:
    """The text with CRLF and CR as LF.

    Raises TextError for other control characters (tab and LF are fine), NUL and unpaired surrogates.
    """
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    refused = _REFUSED.search(unified)
    if refused:
        raise TextError(f"character U+{ord(refused[0]):04X} at position {refused.start()}")
    return unified


def is_invisible(text: str) -> bool:
    """Whether a reader would see nothing: only spaces, format characters, and the blanks among the letters."""
    return all(
        unicodedata.category(char) in {"Zs", "Zl", "Zp", "Cc", "Cf", "Cn", "Mn"}
        or char in "\u115f\u1160\u3164\uffa0\u2800"
        for char in text
    )

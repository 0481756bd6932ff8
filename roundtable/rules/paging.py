"""How much goes into one reply."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

from roundtable.rules.limits import BRIEF_RESULTS_CHARS, EVENT_VALUE_CHARS, PAGE_BYTES

T = TypeVar("T")


def size_bytes(row: object) -> int:
    """What the row takes in a reply, in the copy that apps show as text: there other line ends are escaped."""
    encoded = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    escaped = sum(encoded.count(line_end) for line_end in "\u0085\u2028\u2029")
    return len(encoded.encode("utf-8", "surrogatepass")) + escaped * len(r"\u2028") + len(",")


def fill(rows: Iterable[T], limit: int, room_bytes: int = PAGE_BYTES) -> tuple[list[T], bool]:
    """The rows that fit on one page, and whether there are more. A single row always fits."""
    page: list[T] = []
    taken = 0
    for row in rows:
        taken += size_bytes(row)
        if page and (len(page) == limit or taken > room_bytes):
            return page, True
        page.append(row)
    return page, False


def texts_that_fit(texts: Sequence[str], room_bytes: int) -> list[bool]:
    """Which of the texts, most wanted first, a brief has room for: in characters, and in bytes of the reply."""
    room_chars = BRIEF_RESULTS_CHARS
    fits = []
    for text in texts:
        taken_bytes = size_bytes(text)
        has_room = len(text) <= room_chars and taken_bytes <= room_bytes
        if has_room:
            room_chars -= len(text)
            room_bytes -= taken_bytes
        fits.append(has_room)
    return fits


def shown_value(value: object) -> object:
    """An event's value as it is shown: a long one as its length."""
    if isinstance(value, str) and len(value) > EVENT_VALUE_CHARS:
        return {"length": len(value)}
    return value

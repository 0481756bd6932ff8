"""Tracebacks as text. Those of libraries come without the exceptions' own words, which quote what was passed in."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Final

MAX_TRACEBACK_CHARS: Final = 20_000


def format_traceback(exc_info: object, *, with_words: bool) -> str | None:
    """The traceback of what `logging` calls exc_info; None if there is no exception.

    Without words it shows where and which class, and nothing that the exception says.
    """
    error = _exception_of(exc_info)
    if error is None:
        return None
    lines = traceback.format_exception(error) if with_words else list(_places(error, set()))
    text = "".join(lines).rstrip("\n")
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    half = MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n... ({len(text)} characters)\n{text[-half:]}"


def _exception_of(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple) and len(exc_info) == 3:
        return exc_info[1] if isinstance(exc_info[1], BaseException) else None
    return sys.exc_info()[1] if exc_info else None


def _places(error: BaseException, seen: set[int]) -> Iterator[str]:
    if id(error) in seen:
        return
    seen.add(id(error))
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _places(earlier, seen)
        yield "\nand then\n\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__module__}.{type(error).__qualname__}\n"
    if isinstance(error, BaseExceptionGroup):
        for number, part in enumerate(error.exceptions, start=1):
            yield f"part {number}:\n"
            yield from _places(part, seen)

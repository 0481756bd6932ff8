"""How a fault of our own is told in the log: where it happened, without what it was about."""

from __future__ import annotations

import traceback


def fault_fields(error: BaseException) -> dict[str, str]:
    """Fields for a log line: the kind of error and its traceback.

    The error's own text is left out, since it may quote what a client sent.
    """
    lines: list[str] = []
    for leaf in _leaves(error):
        lines.append(f"{type(leaf).__module__}.{type(leaf).__qualname__}")
        lines.extend(line.rstrip("\n") for line in traceback.format_tb(leaf.__traceback__))
    return {"error": type(error).__name__, "traceback": "\n".join(lines)}


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]

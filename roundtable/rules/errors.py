"""How the board says no.

A message says what is so and what would be accepted. It is built here or in the rules from facts, never from
tokens or SQL, and repeats at most `ECHO_CHARS` of what the caller sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from roundtable.rules.limits import ECHO_CHARS


class Code(StrEnum):
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"
    STALE_CLAIM = "stale_claim"
    BLOCKED = "blocked"
    NEEDS_ATTENTION = "needs_attention"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


INTERNAL_MESSAGE = "The board met an unexpected fault. Nothing was changed; the owner's log has the details."
STOPPED_MESSAGE = "The board is stopping and took no action. Try again when it is back."


class BoardError(Exception):
    """The call was decided, the answer is no, and nothing changed.

    `details` are further facts for the caller's program: `status`, `blocked_by`, `retry_after_seconds`.
    """

    def __init__(self, code: Code, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Mapping[str, object] = details

    def as_json(self) -> dict[str, object]:
        return {"error": {"code": self.code.value, "message": self.message, **self.details}}


def invalid(message: str) -> BoardError:
    return BoardError(Code.INVALID, message)


def forbidden(message: str) -> BoardError:
    return BoardError(Code.FORBIDDEN, message)


def not_found(message: str) -> BoardError:
    return BoardError(Code.NOT_FOUND, message)


def no_such_task(task_id: int) -> BoardError:
    return not_found(f"There is no task {task_id}. list_tasks shows the tasks there are.")


def echo(text: str) -> str:
    """A caller's text as it may stand in a message: quoted, printable, bounded."""
    shown = text if len(text) <= ECHO_CHARS else text[: ECHO_CHARS - 1] + "…"
    return '"' + "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown) + '"'

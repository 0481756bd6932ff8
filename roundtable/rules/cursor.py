"""Cursors: opaque to the caller, and known as foreign when they come from another board or another list."""

from __future__ import annotations

from roundtable.rules.errors import BoardError, invalid
from roundtable.rules.limits import TASK_ID_MAX


def encode(board_id: str, of: str, position: int) -> str:
    return f"{of}-{board_id}-{position:x}"


def decode(cursor: str, board_id: str, of: str) -> int:
    """The position. Raises BoardError `invalid` for anything that `encode` did not make for this list of this board."""
    prefix = f"{of}-{board_id}-"
    digits = cursor.removeprefix(prefix)
    if not cursor.startswith(prefix) or not digits.isalnum() or not digits.isascii() or len(digits) > 16:
        raise _foreign()
    try:
        position = int(digits, 16)
    except ValueError:
        raise _foreign() from None
    if position > TASK_ID_MAX:
        raise _foreign()
    return position


def _foreign() -> BoardError:
    return invalid("This cursor is not from this list of this board. Call again without cursor.")

"""Cursors: opaque to the caller, and known as foreign when they come from another board or another list."""

from __future__ import annotations

from roundtable.rules.errors import BoardError, invalid
from roundtable.rules.limits import TASK_ID_MAX

_DIGITS_MAX = len(f"{TASK_ID_MAX:x}")


def encode(board_id: str, of: str, position: int) -> str:
    return f"{of}-{board_id}-{position:x}"


def decode(cursor: str, board_id: str, of: str) -> int:
    """The position. Raises BoardError `invalid` for anything that `encode` did not make for this list of this board."""
    digits = cursor.removeprefix(f"{of}-{board_id}-")
    try:
        position = int(digits, 16) if len(digits) <= _DIGITS_MAX else -1
    except ValueError:
        position = -1
    # int() reads more spellings than encode writes
    if not 0 <= position <= TASK_ID_MAX or encode(board_id, of, position) != cursor:
        raise foreign()
    return position


def foreign() -> BoardError:
    """The refusal of a cursor that this list of this board did not give."""
    return invalid("This cursor is not from this list of this board. Call again without cursor.")

"""How a call to the board can end without its answer: one type for each thing that a worker can do then."""

from __future__ import annotations


class BoardError(Exception):
    """The board said no, or nothing. The texts are of this package, never the board's."""


class BoardAwayError(BoardError):
    """No answer, or one that says `unavailable`: the call may or may not have been done. Wait and ask again."""


class BoardBusyError(BoardError):
    """The board asks for fewer calls; nothing was done."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__(f"the board asks for a pause of {retry_after_seconds:g} s")
        self.retry_after_seconds = retry_after_seconds


class WorkerRefusedError(BoardError):
    """The board does not take this worker, and asking again will not change that. The text says why."""


class ClaimLostError(BoardError):
    """The task is not, or no longer, this worker's to act on. `code` is the board's word for it."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the board answers {code}")
        self.code = code


class CallRefusedError(BoardError):
    """The board does not accept what was sent. `code` is its word for it."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the board answers {code}")
        self.code = code


class BoardNonsenseError(BoardError):
    """The answer has not the shape that was agreed: a fault of one side, which asking again will not cure."""

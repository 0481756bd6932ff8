"""Why a model call brought no answer, told apart by what should follow from it."""

from __future__ import annotations

from enum import StrEnum

from supervisor.model.usage import NO_USAGE, Usage


class FailureClass(StrEnum):
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"
    AUTH = "auth"
    CONFIG = "config"
    REFUSED_REQUEST = "refused_request"
    """The endpoint finds the request wrong: a fault of the roster, or of the one task. refusals.py decides."""
    NETWORK = "network"
    TIMEOUT = "timeout"
    SERVER = "server"
    CONTENT = "content"
    CONTEXT_LENGTH = "context_length"
    CRASH = "crash"
    """A fault of this program, met while it worked on the task."""


class ModelCallError(Exception):
    """One model call failed.

    `detail` is a fixed sentence of this package with numbers at most: never the endpoint's words, the model's
    output or a key, so that it may be logged and shown on the board.
    """

    def __init__(
        self,
        kind: FailureClass,
        detail: str,
        *,
        retry_after_seconds: float | None = None,
        usage: Usage | None = NO_USAGE,
    ) -> None:
        """`usage`: what the call took; None where nobody has seen that, since the answer was lost."""
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        self.usage = usage

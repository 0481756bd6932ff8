"""What a worker asks of the board, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from supervisor.model.prompt import Brief


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that the board says the caller has."""

    task_id: int
    claim_id: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the board takes the caller for, what it holds, and how long a lease is where the task does not say."""

    name: str
    role: str
    held: tuple[Held, ...] = ()
    lease_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A task taken. `lease_seconds` is the task's own, None for the board's default.

    `failures`: of anybody on it, since the leader last updated it; None: not told.
    """

    claim_id: str
    brief: Brief
    lease_seconds: int | None = None
    failures: int | None = None

    @property
    def task_id(self) -> int:
        return self.brief.task_id


@dataclass(frozen=True, slots=True)
class Renewal:
    """How a claim stands: `claimed`, or how its task ended. `changed`: the task was, since it was last read."""

    status: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class TaskState:
    """What a worker needs to know of a task it is unsure about."""

    status: str
    assignee: str | None
    result: str | None
    lease_seconds: int | None = None


class BoardClient(Protocol):
    """Every call may raise BoardAwayError, BoardBusyError, WorkerRefusedError or BoardNonsenseError.

    Cancelled: the board may have done it all the same.
    """

    async def whoami(self) -> Identity: ...

    async def claim_next(self, *, wait_seconds: int, idempotency_key: str) -> Claim | None:
        """The next task, waiting inside the board for one; None when there was none.

        Asked again with the same key after a lost answer, it brings the same claim. Raises ClaimLostError (`conflict`:
        the worker holds as many as it may; `stale_claim`: the claim of this key is over) and CallRefusedError.
        """
        ...

    async def renew_claim(self, task_id: int, claim_id: str) -> Renewal:
        """Raises ClaimLostError if the worker does not hold the task by this claim, and CallRefusedError."""
        ...

    async def submit_result(self, task_id: int, claim_id: str, result: str) -> None:
        """Raises ClaimLostError, and CallRefusedError when the board does not take the text."""
        ...

    async def release_task(
        self,
        task_id: int,
        claim_id: str,
        reason: str,
        *,
        failed: bool = False,
        cooldown_seconds: int | None = None,
    ) -> None:
        """Raises ClaimLostError if the worker does not hold it by this claim: then there is nothing to release."""
        ...

    async def ask_for_help(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        """Posted once, however often it is asked with the same key.

        Raises ClaimLostError or CallRefusedError if the task takes no message.
        """
        ...

    async def report_progress(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        """As ask_for_help, but calls nobody."""
        ...

    async def read_task(self, task_id: int) -> TaskState: ...

"""What lies on the board: a task, and the words for its parts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache


class Status(StrEnum):
    OPEN = "open"
    CLAIMED = "claimed"
    SUBMITTED = "submitted"
    DONE = "done"
    CANCELLED = "cancelled"


class Attention(StrEnum):
    """Why a task waits for its leader, gravest first. While any is set nobody can claim it."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    REJECTED_REPEATEDLY = "rejected_repeatedly"
    DEPENDENCY_CANCELLED = "dependency_cancelled"
    ASSIGNEE_GONE = "assignee_gone"
    HELP_REQUESTED = "help_requested"


class Kind(StrEnum):
    """What a message is for."""

    PROGRESS = "progress"
    HELP_REQUEST = "help_request"
    REPLY = "reply"
    NOTE = "note"
    LATE_RESULT = "late_result"
    """The board's own: refused work that is kept."""


class Verdict(StrEnum):
    ACCEPT = "accept"
    REJECT = "reject"


class Clearable(StrEnum):
    """The optional fields of a task that an update can unset."""

    ACCEPTANCE_CRITERIA = "acceptance_criteria"
    REQUIRED_SKILL = "required_skill"
    ASSIGNEE = "assignee"
    DEPENDS_ON = "depends_on"
    LEASE_SECONDS = "lease_seconds"


class ClaimEnd(StrEnum):
    """How a claim ended."""

    RELEASED = "released"
    FAILED = "failed"
    FORCED = "forced"
    SUBMITTED = "submitted"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    AGENT_REMOVED = "agent_removed"


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of the board's clock.

    `utc_ms` is the wall clock, and `text` the same as RFC 3339 with milliseconds and `Z`. `board_ms` counts
    milliseconds on the board's own clock, which follows the machine's boot-time clock while the server lives, so
    that setting the wall clock neither ends nor prolongs anything.
    """

    utc_ms: int
    board_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the rules see it.

    `failures` and `rejections` count since the leader last updated it, `revision` counts the updates.
    `lease_seconds` is None where the owner's default holds.
    """

    task_id: int
    title: str
    description: str
    acceptance_criteria: str | None
    required_skill: str | None
    priority: int
    depends_on: tuple[int, ...]
    assigned_to: str | None
    assignee: str | None
    status: Status
    attempt: int
    failures: int
    rejections: int
    max_attempts: int
    lease_seconds: int | None
    revision: int
    attention: frozenset[Attention]
    result: str | None
    claim_id: str | None
    claimed_at: str | None
    created_at: str
    updated_at: str

    @property
    def needs_attention(self) -> Attention | None:
        """The gravest reason, or None."""
        return next((reason for reason in Attention if reason in self.attention), None)


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim ever made, and how it ended. `superseded`: the leader has updated the task since it ended."""

    claim_id: str
    task_id: int
    agent: str
    attempt: int
    lease_until_ms: int
    revision_seen: int
    ended_by: ClaimEnd | None
    superseded: bool


@dataclass(frozen=True, slots=True)
class Dependency:
    """A task that another one waits for."""

    task_id: int
    title: str
    status: Status


def utc_text(utc_ms: int) -> str:
    """RFC 3339 in UTC, with milliseconds and `Z`."""
    return f"{_second_text(utc_ms // 1000)}.{utc_ms % 1000:03d}Z"


@lru_cache(maxsize=16)
def _second_text(utc_seconds: int) -> str:
    """The part that many times of one moment share."""
    return datetime.fromtimestamp(utc_seconds, UTC).isoformat().removesuffix("+00:00")


def rank_of(task: Task) -> int:
    """The place of a task in line, lowest first: a level of priority weighs as much as an hour of waiting."""
    return int(datetime.fromisoformat(task.created_at).timestamp()) // 3_600 - task.priority

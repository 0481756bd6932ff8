"""What can be asked of the board: one frozen class an operation, typed by its reply.

Identity is not in a command: the `Call` that carries it says who asks. None means absent, or unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from roundtable.rules import limits, replies
from roundtable.rules.agents import Agent, Directory
from roundtable.rules.errors import BoardError
from roundtable.rules.model import Clearable, Kind, Now, Status, Verdict

R = TypeVar("R", covariant=True)


class Command(Generic[R]):
    """A request whose reply is an R."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One command on its way: who sent it, as which tool call, and when it arrived."""

    caller: Agent
    tool: str
    command: Command[R]
    arrived: Now
    empty_waits: int = 0
    """Waits of this caller that ended empty since its last audit row."""

    @property
    def task_id(self) -> int | None:
        """The task that the command names, for the audit."""
        return getattr(self.command, "task_id", None)


@dataclass(frozen=True, slots=True)
class WhoAmI(Command[replies.WhoAmI]):
    pass


@dataclass(frozen=True, slots=True)
class ListAgents(Command[replies.AgentList]):
    pass


@dataclass(frozen=True, slots=True)
class CreateTask(Command[replies.Written]):
    title: str
    description: str
    acceptance_criteria: str | None = None
    required_skill: str | None = None
    assignee: str | None = None
    priority: int = 0
    depends_on: tuple[int, ...] = ()
    lease_seconds: int | None = None
    max_attempts: int = limits.MAX_ATTEMPTS_DEFAULT
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateTask(Command[replies.Written]):
    task_id: int
    title: str | None = None
    description: str | None = None
    acceptance_criteria: str | None = None
    required_skill: str | None = None
    assignee: str | None = None
    priority: int | None = None
    depends_on: tuple[int, ...] | None = None
    lease_seconds: int | None = None
    max_attempts: int | None = None
    clear: tuple[Clearable, ...] = ()


@dataclass(frozen=True, slots=True)
class ListTasks(Command[replies.TaskPage]):
    status: Status | None = None
    assignee: str | None = None
    required_skill: str | None = None
    needs_attention: bool | None = None
    query: str | None = None
    limit: int = limits.PAGE_ROWS_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class GetTask(Command[replies.WholeTask]):
    task_id: int
    message_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ReadBoard(Command[replies.BoardAtAGlance]):
    pass


@dataclass(frozen=True, slots=True)
class ClaimTask(Command[replies.Brief]):
    task_id: int


@dataclass(frozen=True, slots=True)
class ClaimNext(Command[replies.Brief | replies.Nothing]):
    """With `waits`, an empty answer is no decision yet: it leaves no audit row."""

    idempotency_key: str | None = None
    wait_seconds: int = 0
    waits: bool = False


@dataclass(frozen=True, slots=True)
class IsReady(Command[bool]):
    """Whether the task could be claimed by somebody, for waking the next who waits; no audit row."""

    task_id: int


@dataclass(frozen=True, slots=True)
class RenewClaim(Command[replies.Renewed]):
    task_id: int
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class UndoClaim(Command[None]):
    """Take a claim back whose answer never reached its client: no failure, no cool-down; no audit row of its own."""

    task_id: int
    claim_id: str


@dataclass(frozen=True, slots=True)
class ReleaseTask(Command[replies.Written]):
    task_id: int
    reason: str | None = None
    failed: bool = False
    cooldown_seconds: int = limits.COOLDOWN_SECONDS_DEFAULT
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class PostMessage(Command[replies.Written]):
    task_id: int
    body: str
    kind: Kind = Kind.NOTE
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class SubmitResult(Command[replies.Written]):
    task_id: int
    result: str
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewTask(Command[replies.Written]):
    task_id: int
    verdict: Verdict
    note: str | None = None
    keep_assignee: bool = False


@dataclass(frozen=True, slots=True)
class CancelTask(Command[replies.Written]):
    task_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class GetHistory(Command[replies.EventPage]):
    task_id: int | None = None
    agent: str | None = None
    newest_first: bool = False
    limit: int = limits.PAGE_ROWS_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class WaitForUpdates(Command[replies.News]):
    """With `waits`, nothing new is no decision yet: it leaves no audit row."""

    cursor: str | None = None
    wait_seconds: int = limits.WAIT_SECONDS_DEFAULT
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Sweep(Command[None]):
    """End the leases and cool-downs that have run out, as every batch does first; no audit row."""


@dataclass(frozen=True, slots=True)
class ReplaceAgents(Command[None]):
    """From now on these are the agents; no audit row. Who is gone loses its claims."""

    directory: Directory


@dataclass(frozen=True, slots=True)
class RecordRefusal(Command[None]):
    """Nothing but an audit row: a call that was refused before it reached the board.

    `error` is None for a caller that had gone before the decision.
    """

    error: BoardError | None
    task_id: int | None = None
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class Probe(Command[None]):
    """Ask whether the board answers; no audit row, and no write while all is well."""

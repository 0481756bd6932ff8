"""The shapes of the board's answers. Absent and empty optional fields are left out.

The output schemas of the tools are made from these classes, so a shape stands here only.
"""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict


class Held(TypedDict):
    """A task that the caller holds; without its title where so many are held that the titles do not fit."""

    task_id: int
    title: NotRequired[str]
    claim_id: str
    claimed_at: str
    lease_expires_at: str


class Limits(TypedDict):
    tasks_held: NotRequired[int]
    calls_per_minute: NotRequired[int]
    waits: int
    lease_seconds: NotRequired[int]


class WhoAmI(TypedDict):
    name: str
    role: str
    skills: list[str]
    limits: Limits
    tasks: list[Held]


class AgentRow(TypedDict):
    name: str
    role: str
    skills: list[str]
    last_seen: NotRequired[str]
    presence: str
    tasks_held: int


class AgentList(TypedDict):
    agents: list[AgentRow]


class Written(TypedDict):
    """What every write answers, and what it was about."""

    task_id: int
    status: str
    notice: NotRequired[str]
    assigned_to: NotRequired[str]
    message_id: NotRequired[int]


class Row(TypedDict):
    """A task in brief."""

    task_id: int
    title: str
    status: str
    priority: int
    assigned_to: NotRequired[str]
    assignee: NotRequired[str]
    required_skill: NotRequired[str]
    needs_attention: NotRequired[str]
    attempt: int
    blocked_by: NotRequired[list[int]]
    updated_at: str


class TaskPage(TypedDict):
    tasks: list[Row]
    next_cursor: NotRequired[str]


class Counts(TypedDict):
    """How many tasks there are: of each status, and those that wait for the leader."""

    open: int
    claimed: int
    submitted: int
    done: int
    cancelled: int
    needs_attention: int


class BoardAtAGlance(TypedDict):
    """The board at a glance: the counts, and the first of the tasks that wait for the leader."""

    counts: Counts
    needs_attention: list[Row]


class TaskFields(TypedDict):
    """All of one task. `claim_id` is there for its holder only."""

    task_id: int
    title: str
    description: str
    acceptance_criteria: NotRequired[str]
    required_skill: NotRequired[str]
    priority: int
    depends_on: NotRequired[list[int]]
    assigned_to: NotRequired[str]
    assignee: NotRequired[str]
    status: str
    attempt: int
    failures: int
    rejections: int
    max_attempts: int
    lease_seconds: NotRequired[int]
    needs_attention: NotRequired[str]
    attention: NotRequired[list[str]]
    result: NotRequired[str]
    claim_id: NotRequired[str]
    claimed_at: NotRequired[str]
    lease_expires_at: NotRequired[str]
    created_at: str
    updated_at: str


class MessageRow(TypedDict):
    message_id: int
    agent: str
    role: str
    kind: str
    body: str
    created_at: str


class ReviewRow(TypedDict):
    verdict: str
    note: NotRequired[str]
    agent: str
    result: str
    created_at: str


class WholeTask(TypedDict):
    task: TaskFields
    dependencies: list[Row]
    messages: list[MessageRow]
    message_cursor: NotRequired[str]
    reviews: list[ReviewRow]
    why_not_claimable: NotRequired[str]


class DependencyResult(TypedDict):
    """What a task before this one brought; `length` (characters) and `omitted` in place of a text for which there is no room."""

    task_id: int
    title: str
    result: NotRequired[str]
    length: NotRequired[int]
    omitted: NotRequired[bool]


class EarlierResult(TypedDict):
    """A result of this task that was sent back, and why."""

    result: NotRequired[str]
    note: NotRequired[str]
    length: NotRequired[int]
    omitted: NotRequired[bool]


class Brief(TypedDict):
    """Everything that the winner of a claim needs to begin."""

    task_id: int
    claim_id: str
    attempt: int
    lease_expires_at: str
    task: TaskFields
    dependencies: list[DependencyResult]
    earlier: list[EarlierResult]


class Nothing(TypedDict):
    """No task to give."""

    task: None


class Renewed(TypedDict):
    """A claim and how it stands. `changed`: the leader has changed the task since its holder last read it."""

    task_id: int
    status: str
    lease_expires_at: NotRequired[str]
    changed: NotRequired[bool]
    last_message_id: NotRequired[int]
    reason: NotRequired[str]


class EventRow(TypedDict):
    """One change. `changes` maps a field to its old and new value; a long value is shown as `{"length": characters}`."""

    event_id: int
    time: str
    task_id: NotRequired[int]
    agent: str
    event: str
    changes: dict[str, list[object]]


class EventPage(TypedDict):
    events: list[EventRow]
    next_cursor: NotRequired[str]


class News(TypedDict):
    """What concerns the caller, and from where to go on."""

    cursor: str
    updates: list[EventRow]

"""Creating and updating tasks: the leader's side of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from roundtable.rules.agents import Directory
from roundtable.rules.change import Change, Event
from roundtable.rules.commands import CreateTask, UpdateTask
from roundtable.rules.errors import BoardError, Code, echo, invalid, not_found
from roundtable.rules.lifecycle import refuse_final, wrong_status
from roundtable.rules.model import Attention, Clearable, Dependency, Now, Status, Task
from roundtable.rules.text import is_invisible

T = TypeVar("T")

_SETTLED_BY_UPDATE = frozenset(
    {Attention.HELP_REQUESTED, Attention.ATTEMPTS_EXHAUSTED, Attention.REJECTED_REPEATEDLY}
)
"""An update is the leader's answer to these: the task is as new."""


def create(
    command: CreateTask, task_id: int, dependencies: Sequence[Dependency], directory: Directory, now: Now
) -> Change:
    """Decide a new task. `dependencies` are those of the command that exist.

    Raises BoardError: `not_found` (assignee, dependency), `invalid` (a leader as assignee), `conflict` (a
    cancelled dependency).
    """
    refuse_invisible(command.title)
    refuse_assignee(command.assignee, directory)
    refuse_dependencies(command.depends_on, dependencies)
    task = Task(
        task_id=task_id,
        title=command.title,
        description=command.description,
        acceptance_criteria=command.acceptance_criteria,
        required_skill=command.required_skill,
        priority=command.priority,
        depends_on=command.depends_on,
        assigned_to=command.assignee,
        assignee=None,
        status=Status.OPEN,
        attempt=0,
        failures=0,
        rejections=0,
        max_attempts=command.max_attempts,
        lease_seconds=command.lease_seconds,
        revision=0,
        attention=frozenset(),
        result=None,
        claim_id=None,
        claimed_at=None,
        created_at=now.text,
        updated_at=now.text,
    )
    return Change(Event.CREATED, None, task)


def update(
    task: Task, command: UpdateTask, dependencies: Sequence[Dependency], directory: Directory, now: Now
) -> Change:
    """Decide a leader's update. `dependencies` are those of the command that exist.

    Raises BoardError as `create` does, and `conflict` on a final task, or where a field may change only
    while the task is open. Cycles are the store's to find (`refuse_cycle`).
    """
    refuse_final(task, "a final task cannot be updated")
    only_while_open = {
        "assignee": command.assignee,
        "required_skill": command.required_skill,
        "depends_on": command.depends_on,
    }
    given = {field for field in Clearable if getattr(command, field) is not None}
    refuse_given_and_cleared(given, command.clear)
    named = [name for name, value in only_while_open.items() if value is not None or name in command.clear]
    if named and task.status is not Status.OPEN:
        raise wrong_status(task, f"{', '.join(named)} can be changed only while it is open")
    refuse_invisible(command.title)
    refuse_assignee(command.assignee, directory)
    if command.depends_on is not None:
        refuse_dependencies(command.depends_on, dependencies)
    cleared = frozenset(command.clear)
    new = replace(
        task,
        title=_or(command.title, task.title),
        description=_or(command.description, task.description),
        acceptance_criteria=_unless(
            Clearable.ACCEPTANCE_CRITERIA in cleared,
            _or(command.acceptance_criteria, task.acceptance_criteria),
        ),
        required_skill=_unless(
            Clearable.REQUIRED_SKILL in cleared, _or(command.required_skill, task.required_skill)
        ),
        priority=_or(command.priority, task.priority),
        depends_on=_unless(Clearable.DEPENDS_ON in cleared, _or(command.depends_on, task.depends_on)) or (),
        assigned_to=_unless(Clearable.ASSIGNEE in cleared, _or(command.assignee, task.assigned_to)),
        lease_seconds=_unless(
            Clearable.LEASE_SECONDS in cleared, _or(command.lease_seconds, task.lease_seconds)
        ),
        max_attempts=_or(command.max_attempts, task.max_attempts),
        revision=task.revision + 1,
        attention=task.attention - _settled(command),
        failures=0,
        rejections=0,
        updated_at=now.text,
    )
    return Change(Event.UPDATED, task, new)


def _settled(command: UpdateTask) -> frozenset[Attention]:
    """The reasons whose cause has gone with this update."""
    settled = _SETTLED_BY_UPDATE
    if command.depends_on is not None or Clearable.DEPENDS_ON in command.clear:
        settled |= {Attention.DEPENDENCY_CANCELLED}  # the new ones were checked not to be cancelled
    if command.assignee is not None or Clearable.ASSIGNEE in command.clear:
        settled |= {Attention.ASSIGNEE_GONE}
    return settled


def refuse_invisible(title: str | None) -> None:
    """Raise BoardError `invalid` for a title in which nothing can be seen."""
    if title is not None and is_invisible(title):
        raise invalid("The title has no visible character.")


def refuse_given_and_cleared(given: Iterable[Clearable], cleared: Iterable[Clearable]) -> None:
    """Raise BoardError `invalid` for a field that is to be set and unset at once."""
    both = sorted(set(given) & set(cleared))
    if both:
        raise invalid(f"{', '.join(both)} cannot be given and cleared in one call.")


def refuse_assignee(name: str | None, directory: Directory) -> None:
    """Raise BoardError unless the name is absent or a worker's."""
    if name is None:
        return
    agent = directory.find(name)
    if agent is None:
        raise not_found(f"There is no agent {echo(name)}. list_agents shows the workers there are.")
    if agent.is_leader:
        raise invalid(f"{echo(name)} is the leader. assignee must be a worker; list_agents shows them.")


def refuse_dependencies(wanted: Sequence[int], found: Sequence[Dependency]) -> None:
    """Raise BoardError `not_found` for an id that does not exist, `conflict` for a cancelled task."""
    missing = sorted(set(wanted) - {dependency.task_id for dependency in found})
    if missing:
        raise not_found(f"depends_on names tasks that do not exist: {_ids(missing)}.")
    cancelled = sorted(d.task_id for d in found if d.status is Status.CANCELLED)
    if cancelled:
        raise BoardError(
            Code.CONFLICT,
            f"depends_on names cancelled tasks, which will never be done: {_ids(cancelled)}.",
            status=Status.CANCELLED.value,
        )


def refuse_cycle(task: Task) -> BoardError:
    """The refusal of dependencies that lead back to the task itself."""
    return BoardError(
        Code.CONFLICT,
        f"These depends_on lead back to task {task.task_id} itself, so neither could ever begin.",
        status=task.status.value,
    )


def notice_of(task: Task, directory: Directory, *, assignee_seen: bool) -> str | None:
    """The facts that whoever planned this may not know: nobody can take it as things are."""
    facts = []
    if task.required_skill is not None and not directory.has_skill(task.required_skill):
        facts.append(f"No worker has the skill {echo(task.required_skill)}.")
    if task.assigned_to is not None and not assignee_seen:
        facts.append(f"The worker {echo(task.assigned_to)} has never been seen.")
    return " ".join(facts) or None


def _or(new: T | None, old: T) -> T:
    return old if new is None else new


def _unless(cleared: bool, value: T | None) -> T | None:
    return None if cleared else value


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(str(task_id) for task_id in ids[:10]) + (", …" if len(ids) > 10 else "")

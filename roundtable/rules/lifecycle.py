"""The life of a task, as a table.

House rules: whatever may follow what stands here and nowhere else. SPEC.md shows the same table, and a test
compares the two. Who may do it, and under which further conditions, is decided in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from roundtable.rules.errors import BoardError, Code
from roundtable.rules.model import Status, Task


class Action(StrEnum):
    CLAIM = "claim"
    RELEASE = "release"
    EXPIRE = "expire"
    SUBMIT = "submit"
    SUBMIT_LATE = "submit late"
    ACCEPT = "accept"
    REJECT = "reject"
    CANCEL = "cancel"


TRANSITIONS: Mapping[Status, Mapping[Action, Status]] = MappingProxyType(
    {
        Status.OPEN: {
            Action.CLAIM: Status.CLAIMED,
            Action.SUBMIT_LATE: Status.SUBMITTED,
            Action.CANCEL: Status.CANCELLED,
        },
        Status.CLAIMED: {
            Action.RELEASE: Status.OPEN,
            Action.EXPIRE: Status.OPEN,
            Action.SUBMIT: Status.SUBMITTED,
            Action.CANCEL: Status.CANCELLED,
        },
        Status.SUBMITTED: {
            Action.ACCEPT: Status.DONE,
            Action.REJECT: Status.OPEN,
            Action.CANCEL: Status.CANCELLED,
        },
        Status.DONE: {},
        Status.CANCELLED: {},
    }
)


def is_final(status: Status) -> bool:
    return not TRANSITIONS[status]


def wrong_status(task: Task, wanted: str) -> BoardError:
    """The refusal that names the status there is and the one there would have to be."""
    return BoardError(
        Code.CONFLICT, f"Task {task.task_id} is {task.status}; {wanted}.", status=task.status.value
    )


def after(task: Task, action: Action) -> Status:
    """The status that follows. Raises BoardError `conflict` where the table has none."""
    following = TRANSITIONS[task.status].get(action)
    if following is None:
        allowed = [status.value for status, actions in TRANSITIONS.items() if action in actions]
        raise wrong_status(task, f"{action} takes a task that is {' or '.join(allowed)}")
    return following


def refuse_final(task: Task, what: str) -> None:
    """Raise BoardError `conflict` if nothing can follow any more."""
    if is_final(task.status):
        raise wrong_status(task, f"that is final, and {what}")

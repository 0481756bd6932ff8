"""Lists of tasks, newest first, page by page."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from roundtable.rules import commands, cursor, replies, search
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.limits import TASK_ID_MAX
from roundtable.rules.model import Status
from roundtable.rules.paging import fill
from roundtable.store import views
from roundtable.store.search import Search, catch_up, is_behind
from roundtable.store.unit import Unit

_ONE = f"SELECT {views.ROW_COLUMNS} FROM tasks WHERE task_id = ?"  # noqa: S608


def list_tasks(unit: Unit, command: commands.ListTasks) -> replies.TaskPage:
    """A page begins below the last row of the one before, whatever has changed since."""
    below = TASK_ID_MAX
    if command.cursor is not None:
        below = cursor.decode(command.cursor, unit.board_id, "tasks")
    found = None
    if command.query is not None:
        words = search.words(command.query)
        if not words:
            return {"tasks": []}
        found = _search(unit, command, words, below)
    with closing(_rows(unit, command, below) if found is None else _rows_of(unit, found)) as rows:
        page, more = fill(rows, command.limit)
    answer: replies.TaskPage = {"tasks": page}
    if more:
        answer["next_cursor"] = cursor.encode(unit.board_id, "tasks", page[-1]["task_id"])
    elif found is not None and found.given_up_below is not None:
        answer["next_cursor"] = cursor.encode(unit.board_id, "tasks", found.given_up_below)
    return answer


def _search(unit: Unit, command: commands.ListTasks, words: tuple[str, ...], below: int) -> Search:
    if unit.writable:
        catch_up(unit.db)
    elif is_behind(unit.db):
        raise BoardError(
            Code.UNAVAILABLE,
            "The board cannot write to its disk, which a query needs now. Lists without one work.",
        )
    branches = _branches(command)
    filtered = None
    if branches != [[]]:
        arms = [
            f"SELECT task_id FROM tasks WHERE {' AND '.join(['task_id <= :top', *branch])}"  # noqa: S608
            for branch in branches
        ]
        filtered = (f"{' UNION ALL '.join(arms)} ORDER BY task_id DESC", _values(command))
    return Search(unit.db, words, filtered, below)


def _rows_of(unit: Unit, found: Search) -> Generator[replies.Row]:
    for task_id in found:
        values = unit.db.execute(_ONE, (task_id,)).fetchone()
        if values is not None:
            yield views.row(unit.db, values)


def _rows(unit: Unit, command: commands.ListTasks, below: int) -> Generator[replies.Row]:
    """Newest first, by the id."""
    arms = [
        f"SELECT * FROM (SELECT {views.ROW_COLUMNS} FROM tasks WHERE "  # noqa: S608
        f"{' AND '.join(['task_id < :below', *branch])} ORDER BY task_id DESC LIMIT :most)"
        for branch in _branches(command)
    ]
    found = unit.db.execute(
        f"{' UNION ALL '.join(arms)} ORDER BY task_id DESC LIMIT :most",
        {**_values(command), "below": below, "most": command.limit + 1},
    )
    for values in found:
        yield views.row(unit.db, values)


def _branches(command: commands.ListTasks) -> list[list[str]]:
    """Conditions for each part of the list. Each part walks an index of its own, and no task is in two of them."""
    conditions = []
    if command.required_skill is not None:
        conditions.append("required_skill = :skill")
    if command.needs_attention is not None:
        conditions.append(f"needs_attention IS {'NOT ' if command.needs_attention else ''}NULL")
    if command.assignee is None:
        return [conditions if command.status is None else ["status = :status", *conditions]]
    branches = []
    for status in Status if command.status is None else (command.status,):
        holder = "assigned_to" if status is Status.OPEN else "assignee"
        branches.append([f"status = '{status.value}'", f"{holder} = :assignee", *conditions])
    return branches


def _values(command: commands.ListTasks) -> dict[str, object]:
    return {"status": command.status, "skill": command.required_skill, "assignee": command.assignee}

"""The commands that only read."""

from __future__ import annotations

from collections.abc import Iterator

from roundtable.rules import claims as claiming
from roundtable.rules import commands, cursor, replies
from roundtable.rules.claims import holds
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.limits import PAGE_BYTES, PAGE_ROWS_MAX, TASK_ID_MAX
from roundtable.rules.model import Task
from roundtable.rules.paging import fill, size_bytes
from roundtable.store import claims, tasks, views
from roundtable.store.unit import Unit


def who_am_i(unit: Unit, command: commands.WhoAmI) -> replies.WhoAmI:
    del command
    bounds: replies.Limits = {"waits": unit.limits.waits_per_token}
    if not unit.caller.is_leader:
        bounds["tasks_held"] = unit.claims_allowed
        bounds["lease_seconds"] = unit.limits.lease_seconds
    if unit.limits.calls_per_minute:
        bounds["calls_per_minute"] = unit.limits.calls_per_minute
    held = unit.db.execute(
        "SELECT t.task_id, t.title, c.claim_id, c.claimed_at FROM claims c JOIN tasks t ON t.task_id = c.task_id "
        "WHERE c.agent = ? AND c.ended_at IS NULL ORDER BY t.task_id",
        (unit.caller.name,),
    )
    tasks_held: list[replies.Held] = [
        {
            "task_id": task_id,
            "title": title,
            "claim_id": claim_id,
            "claimed_at": claimed_at,
            "lease_expires_at": claims.expires_at(unit.db, claim_id, unit.now),
        }
        for task_id, title, claim_id, claimed_at in held
    ]
    if sum(map(size_bytes, tasks_held)) > PAGE_BYTES - size_bytes(list(unit.caller.skills)):
        for one in tasks_held:
            del one["title"]  # rather a hundred claims without titles than some of them not told
    return {
        "name": unit.caller.name,
        "role": unit.caller.role.value,
        "skills": list(unit.caller.skills),
        "limits": bounds,
        "tasks": tasks_held,
    }


def list_agents(unit: Unit, command: commands.ListAgents) -> replies.AgentList:
    del command
    rows: list[replies.AgentRow] = []
    for agent in unit.directory:
        shown: replies.AgentRow = {
            "name": agent.name,
            "role": agent.role.value,
            "skills": list(agent.skills),
            "presence": unit.presence.word(agent.name, unit.now),
            "tasks_held": len(claims.held_by(unit.db, agent.name)),
        }
        last_seen = unit.presence.last_seen(agent.name)
        if last_seen is not None:
            shown["last_seen"] = last_seen
        rows.append(shown)
    return {"agents": rows}


def get_task(unit: Unit, command: commands.GetTask) -> replies.WholeTask:
    task = tasks.load(unit.db, command.task_id)
    before = TASK_ID_MAX
    if command.message_cursor is not None:
        before = cursor.decode(command.message_cursor, unit.board_id, "messages")
    if holds(task, unit.caller) and unit.writable:
        claims.note_read(unit.db, task)
    dependencies = _dependency_rows(unit, task)
    # one reply holds both
    room_bytes = PAGE_BYTES - sum(map(size_bytes, dependencies))
    page, more = fill(_messages(unit, command.task_id, before), PAGE_ROWS_MAX, room_bytes)
    answer: replies.WholeTask = {
        "task": views.fields(unit, task, for_holder=holds(task, unit.caller)),
        "dependencies": dependencies,
        "messages": page[::-1],
        "reviews": list(_reviews(unit, command.task_id)),
    }
    why_not = _why_not_claimable(unit, task)
    if why_not is not None:
        answer["why_not_claimable"] = why_not
    if more:
        answer["message_cursor"] = cursor.encode(unit.board_id, "messages", page[-1]["message_id"])
    return answer


def _dependency_rows(unit: Unit, task: Task) -> list[replies.Row]:
    """What the task waits for; without what a row may lack, where all of it would not fit into one reply."""
    rows = [_dependency_row(unit, cause) for cause in task.depends_on]
    if sum(map(size_bytes, rows)) <= PAGE_BYTES:
        return rows
    return [
        {
            "task_id": row["task_id"],
            "title": row["title"],
            "status": row["status"],
            "priority": row["priority"],
            "attempt": row["attempt"],
            "updated_at": row["updated_at"],
        }
        for row in rows
    ]


def _why_not_claimable(unit: Unit, task: Task) -> str | None:
    """In one sentence, for the caller; for the leader, who claims nothing, whether any worker could."""
    unfinished = tasks.unfinished(unit.db, task.task_id)
    claimants = unit.directory.workers if unit.caller.is_leader else (unit.caller,)
    reason: str | None = "There is no worker."
    for claimant in claimants:
        try:
            claiming.claim(task, claimant, unfinished, "", unit.now)
        except BoardError as refused:
            reason = refused.message
            if refused.code is not Code.FORBIDDEN:
                return reason
        else:
            return None
    if unit.caller.is_leader and claimants:
        return (
            "No worker that is known may claim it: none has its skill, or it is assigned to one that is gone."
        )
    return reason


def _dependency_row(unit: Unit, task_id: int) -> replies.Row:
    values = unit.db.execute(
        f"SELECT {views.ROW_COLUMNS} FROM tasks WHERE task_id = ?",  # noqa: S608
        (task_id,),
    ).fetchone()
    return views.row(unit.db, values)


def _messages(unit: Unit, task_id: int, before: int) -> Iterator[replies.MessageRow]:
    """Newest first: the last page is what a reader wants, and the cursor leads back in time."""
    for message_id, agent, role, kind, body, created_at in unit.db.execute(
        "SELECT message_id, agent, role, kind, body, created_at FROM messages "
        "WHERE task_id = ? AND message_id < ? ORDER BY message_id DESC",
        (task_id, before),
    ):
        yield {
            "message_id": message_id,
            "agent": agent,
            "role": role,
            "kind": kind,
            "body": body,
            "created_at": created_at,
        }


def _reviews(unit: Unit, task_id: int) -> Iterator[replies.ReviewRow]:
    for verdict, note, agent, result, created_at in unit.db.execute(
        "SELECT verdict, note, agent, result, created_at FROM reviews WHERE task_id = ? ORDER BY review_id",
        (task_id,),
    ):
        shown: replies.ReviewRow = {
            "verdict": verdict,
            "agent": agent,
            "result": result,
            "created_at": created_at,
        }
        if note is not None:
            shown["note"] = note
        yield shown


def get_history(unit: Unit, command: commands.GetHistory) -> replies.EventPage:
    position = None
    of = "history-newest" if command.newest_first else "history"
    if command.cursor is not None:
        position = cursor.decode(command.cursor, unit.board_id, of)
    page, more = fill(_events(unit, command, position), command.limit)
    answer: replies.EventPage = {"events": page}
    if more:
        answer["next_cursor"] = cursor.encode(unit.board_id, of, page[-1]["event_id"])
    return answer


def _events(unit: Unit, command: commands.GetHistory, position: int | None) -> Iterator[replies.EventRow]:
    conditions = []
    if command.task_id is not None:
        tasks.load(unit.db, command.task_id)
        conditions.append("task_id = :task_id")
    if command.agent is not None:
        conditions.append("agent = :agent")
    if position is not None:
        conditions.append(f"event_id {'<' if command.newest_first else '>'} :position")
    found = unit.db.execute(
        "SELECT event_id, time, task_id, agent, event, changes FROM history "  # noqa: S608
        f"{'WHERE ' + ' AND '.join(conditions) if conditions else ''} "
        f"ORDER BY event_id {'DESC' if command.newest_first else 'ASC'} LIMIT :most",
        {
            "task_id": command.task_id,
            "agent": command.agent,
            "position": position,
            "most": command.limit + 1,
        },
    )
    return (views.event(values) for values in found)

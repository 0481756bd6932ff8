"""The commands that change something: load, decide by the rules, write."""

from __future__ import annotations

from roundtable.rules import attention, commands, limits, messages, planning, replies, reviews, submits
from roundtable.rules import claims as claiming
from roundtable.rules.change import Change
from roundtable.rules.errors import STOPPED_MESSAGE, BoardError, Code
from roundtable.rules.model import Claim, Kind, Status, Task
from roundtable.rules.text import is_invisible
from roundtable.store import claims, idempotency, tasks
from roundtable.store.briefs import brief
from roundtable.store.unit import Unit


def create_task(unit: Unit, command: commands.CreateTask) -> replies.Written:
    known = tasks.dependencies_named(unit.db, command.depends_on)
    change = planning.create(command, tasks.next_id(unit.db), known, unit.directory, unit.now)
    tasks.apply(unit, change)
    return _planned(unit, change)


def update_task(unit: Unit, command: commands.UpdateTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    known = tasks.dependencies_named(unit.db, command.depends_on or ())
    change = planning.update(task, command, known, unit.directory, unit.now)
    if command.depends_on and tasks.leads_to(unit.db, command.depends_on, task.task_id):
        raise planning.refuse_cycle(task)
    tasks.apply(unit, change)
    return _planned(unit, change)


def claim_task(unit: Unit, command: commands.ClaimTask) -> replies.Brief:
    task = tasks.load(unit.db, command.task_id)
    if claiming.holds(task, unit.caller):
        claims.note_read(unit.db, task)
        return brief(unit, task)
    if not unit.accepts_claims:
        raise BoardError(Code.UNAVAILABLE, STOPPED_MESSAGE)
    unfinished = tasks.unfinished(unit.db, task.task_id) if task.depends_on else ()
    change = claiming.claim(task, unit.caller, unfinished, unit.new_claim_id(), unit.now)
    claiming.refuse_one_more(claims.held_by(unit.db, unit.caller.name), unit.claims_allowed)
    tasks.apply(unit, change)
    return brief(unit, change.after)


def claim_next(unit: Unit, command: commands.ClaimNext) -> replies.Brief | replies.Nothing:
    del command  # whether it waits, and its key, are seen to elsewhere
    if not unit.accepts_claims:
        return {"task": None}
    claiming.refuse_one_more(claims.held_by(unit.db, unit.caller.name), unit.claims_allowed)
    task_id = claims.best_for(unit.db, unit.caller, unit.now)
    if task_id is None:
        return {"task": None}
    return claim_task(unit, commands.ClaimTask(task_id))


def renew_claim(unit: Unit, command: commands.RenewClaim) -> replies.Renewed:
    """The lease itself was renewed already, as by every call of the holder that names the task."""
    task = tasks.load(unit.db, command.task_id)
    last = claims.last(unit.db, task.task_id)
    was_last = (
        last is not None and last.agent == unit.caller.name and command.claim_id in (None, last.claim_id)
    )
    if task.status is Status.CANCELLED and was_last:
        return {
            "task_id": task.task_id,
            "status": task.status.value,
            "reason": _cancel_reason(unit, task.task_id),
        }
    claiming.refuse_not_holder(task, unit.caller, command.claim_id, ever_held=_ever_held(unit, task.task_id))
    if task.claim_id is None or last is None:
        raise AssertionError("a holder has a claim")
    answer: replies.Renewed = {
        "task_id": task.task_id,
        "status": task.status.value,
        "lease_expires_at": claims.expires_at(unit.db, task.claim_id, unit.now),
        "changed": last.revision_seen < task.revision,
    }
    (message_id,) = unit.db.execute(
        "SELECT max(message_id) FROM messages WHERE task_id = ?", (task.task_id,)
    ).fetchone()
    if message_id is not None:
        answer["last_message_id"] = message_id
    return answer


def undo_claim(unit: Unit, command: commands.UndoClaim) -> None:
    task = tasks.load(unit.db, command.task_id)
    if task.claim_id == command.claim_id:
        idempotency.forget_claim(unit, command.claim_id)
        tasks.apply(unit, claiming.undo(task, unit.now))


def release_task(unit: Unit, command: commands.ReleaseTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    change = claiming.release(
        task, unit.caller, command, unit.now, ever_held=_ever_held(unit, command.task_id)
    )
    seconds = claiming.cooldown_seconds(command, unit.caller)
    tasks.apply(unit, change)
    if seconds and task.assignee is not None:
        claims.cool_down(unit.db, task.assignee, task.task_id, seconds, unit.now)
    return _written(change)


def post_message(unit: Unit, command: commands.PostMessage) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    (posted,) = unit.db.execute("SELECT count(*) FROM messages WHERE task_id = ?", (task.task_id,)).fetchone()
    message_id = _insert_message(unit, task.task_id, command.kind, command.body)
    change = messages.post(
        task, unit.caller, command, message_id, posted, unit.now, ever_held=_ever_held(unit, task.task_id)
    )
    tasks.apply(unit, change)
    return {**_written(change), "message_id": message_id}


def submit_result(unit: Unit, command: commands.SubmitResult) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    own = claims.last_of(unit.db, task.task_id, unit.caller.name)
    claim_id = submits.named_claim(command, task, unit.caller, own)
    meant = claims.named(unit.db, task.task_id, unit.caller.name, claim_id) if claim_id else None
    if submits.is_repeat(command, _brought(unit, task, meant)):
        return {"task_id": task.task_id, "status": task.status.value}
    change = submits.submit(
        task, unit.caller, command, claims.last(unit.db, task.task_id), unit.now, ever_held=own is not None
    )
    tasks.apply(unit, change)
    if change.ends is None and own is not None:
        claims.came_late(unit.db, own.claim_id)
    return _written(change)


def keep_late_result(unit: Unit, command: commands.SubmitResult) -> bool:
    """Keep a refused result of one who held the task, once, and so many of each agent. Says whether it is kept."""
    own = claims.last_of(unit.db, command.task_id, unit.caller.name)
    if own is None or is_invisible(command.result):
        return False
    kept = unit.db.execute(
        "SELECT body FROM messages WHERE task_id = ? AND agent = ? AND kind = ?",
        (command.task_id, unit.caller.name, Kind.LATE_RESULT),
    ).fetchall()
    if (command.result,) in kept:
        return True
    if len(kept) >= limits.LATE_RESULTS_PER_AGENT:
        return False
    message_id = _insert_message(unit, command.task_id, Kind.LATE_RESULT, command.result)
    tasks.apply(unit, submits.keep(tasks.load(unit.db, command.task_id), message_id, unit.now))
    return True


def _brought(unit: Unit, task: Task, claim: Claim | None) -> str | None:
    """The text that this claim was submitted with, if it was."""
    if claim is None:
        return None
    if task.attempt == claim.attempt and task.result is not None:
        return task.result
    row = unit.db.execute(
        "SELECT result FROM reviews WHERE task_id = ? AND attempt = ? ORDER BY review_id DESC LIMIT 1",
        (task.task_id, claim.attempt),
    ).fetchone()
    return row[0] if row else None


def review_task(unit: Unit, command: commands.ReviewTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    change = reviews.review(task, command, unit.now)
    unit.db.execute(
        "INSERT INTO reviews (task_id, verdict, note, agent, attempt, result, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            task.task_id,
            command.verdict,
            command.note,
            unit.caller.name,
            task.attempt,
            task.result,
            unit.now.text,
        ),
    )
    tasks.apply(unit, change)
    return _written(change)


def cancel_task(unit: Unit, command: commands.CancelTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    change = reviews.cancel(task, command, unit.now)
    tasks.apply(unit, change)
    for waiting in tasks.waiting_for(unit.db, task.task_id):
        tasks.apply(unit, attention.dependency_cancelled(tasks.load(unit.db, waiting), unit.now))
    return _written(change)


def _insert_message(unit: Unit, task_id: int, kind: Kind, body: str) -> int:
    cursor = unit.db.execute(
        "INSERT INTO messages (task_id, agent, role, kind, body, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (task_id, unit.caller.name, unit.caller.role, kind, body, unit.now.text),
    )
    if cursor.lastrowid is None:
        raise AssertionError("an insert has a row id")
    return cursor.lastrowid


def _cancel_reason(unit: Unit, task_id: int) -> str:
    (reason,) = unit.db.execute(
        "SELECT json_extract(changes, '$.reason[1]') FROM history WHERE task_id = ? AND event = 'cancelled'",
        (task_id,),
    ).fetchone()
    return str(reason)


def _ever_held(unit: Unit, task_id: int) -> bool:
    return claims.ever_held(unit.db, task_id, unit.caller.name)


def _written(change: Change) -> replies.Written:
    answer: replies.Written = {"task_id": change.after.task_id, "status": change.after.status.value}
    return answer


def _planned(unit: Unit, change: Change) -> replies.Written:
    answer = _written(change)
    assigned_to = change.after.assigned_to
    if assigned_to is not None:
        answer["assigned_to"] = assigned_to
    seen = assigned_to is not None and unit.presence.last_seen(assigned_to) is not None
    notice = planning.notice_of(change.after, unit.directory, assignee_seen=seen)
    if notice is not None:
        answer["notice"] = notice
    return answer

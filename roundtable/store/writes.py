"""The commands that change something: load, decide by the rules, write."""

from __future__ import annotations

from roundtable.rules import claims as claiming
from roundtable.rules import commands, messages, planning, replies, reviews
from roundtable.rules.change import Change
from roundtable.rules.errors import STOPPED_MESSAGE, BoardError, Code
from roundtable.store import claims, tasks
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
        return brief(unit, task)
    if not unit.accepts_claims:
        raise BoardError(Code.UNAVAILABLE, STOPPED_MESSAGE)
    change = claiming.claim(
        task, unit.caller, tasks.unfinished(unit.db, task.task_id), unit.new_claim_id(), unit.now
    )
    claiming.refuse_one_more(claims.held_by(unit.db, unit.caller.name), unit.claims_allowed)
    tasks.apply(unit, change)
    return brief(unit, change.after)


def claim_next(unit: Unit, command: commands.ClaimNext) -> replies.Brief | replies.Nothing:
    del command
    if not unit.accepts_claims:
        return {"task": None}
    claiming.refuse_one_more(claims.held_by(unit.db, unit.caller.name), unit.claims_allowed)
    task_id = claims.best_for(unit.db, unit.caller, unit.now)
    if task_id is None:
        return {"task": None}
    return claim_task(unit, commands.ClaimTask(task_id))


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
    cursor = unit.db.execute(
        "INSERT INTO messages (task_id, agent, role, kind, body, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (task.task_id, unit.caller.name, unit.caller.role, command.kind, command.body, unit.now.text),
    )
    message_id = cursor.lastrowid or 0
    change = messages.post(
        task, unit.caller, command, message_id, posted, unit.now, ever_held=_ever_held(unit, task.task_id)
    )
    tasks.apply(unit, change)
    return {**_written(change), "message_id": message_id}


def submit_result(unit: Unit, command: commands.SubmitResult) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    if claiming.is_same_submit(task, unit.caller, command):
        return {"task_id": task.task_id, "status": task.status.value}
    change = claiming.submit(task, unit.caller, command, unit.now, ever_held=_ever_held(unit, task.task_id))
    tasks.apply(unit, change)
    return _written(change)


def review_task(unit: Unit, command: commands.ReviewTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    change = reviews.review(task, command, unit.now)
    unit.db.execute(
        "INSERT INTO reviews (task_id, verdict, note, agent, result, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (task.task_id, command.verdict, command.note, unit.caller.name, task.result, unit.now.text),
    )
    tasks.apply(unit, change)
    return _written(change)


def cancel_task(unit: Unit, command: commands.CancelTask) -> replies.Written:
    task = tasks.load(unit.db, command.task_id)
    change = reviews.cancel(task, command, unit.now)
    tasks.apply(unit, change)
    return _written(change)


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

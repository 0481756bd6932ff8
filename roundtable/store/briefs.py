"""The brief: everything that the winner of a claim needs to begin."""

from __future__ import annotations

from roundtable.rules import replies
from roundtable.rules.limits import PAGE_BYTES
from roundtable.rules.model import Task
from roundtable.rules.paging import size_bytes, texts_that_fit
from roundtable.store import views
from roundtable.store.unit import Unit


def brief(unit: Unit, task: Task) -> replies.Brief:
    """The brief of a task that the caller holds.

    Earlier results come first and dependencies' after them, each newest first, as far as there is room.
    """
    causes = _causes(unit, task) if task.depends_on else []
    rounds = _rejected_rounds(unit, task) if task.attempt > 1 else []
    # what was sent back comes first: without it the same mistake is made again
    titles_bytes = sum(size_bytes({"task_id": cause, "title": title}) for cause, title, _ in causes)
    fits = texts_that_fit(
        [*(result for result, _ in rounds), *(result or "" for *_, result in causes)],
        PAGE_BYTES - titles_bytes,
    )
    earlier: list[replies.EarlierResult] = []
    for (result, note), has_room in zip(rounds, fits, strict=False):
        earlier.append(
            {"result": result, "note": note}
            if has_room
            else {"note": note, "length": len(result), "omitted": True}
        )
    dependencies: list[replies.DependencyResult] = []
    for (cause, title, text), has_room in zip(causes, fits[len(rounds) :], strict=True):
        shown: replies.DependencyResult = {"task_id": cause, "title": title}
        if has_room:
            shown["result"] = text or ""
        else:
            shown["length"] = len(text or "")
            shown["omitted"] = True
        dependencies.append(shown)
    if task.claim_id is None:
        raise AssertionError("a brief is for a holder")
    shown_task = views.fields(unit, task, for_holder=True)
    return {
        "task_id": task.task_id,
        "claim_id": task.claim_id,
        "attempt": task.attempt,
        "lease_expires_at": shown_task["lease_expires_at"],
        "task": shown_task,
        "dependencies": dependencies,
        "earlier": earlier,
    }


def _causes(unit: Unit, task: Task) -> list[tuple[int, str, str | None]]:
    return unit.db.execute(
        "SELECT t.task_id, t.title, t.result FROM dependencies d JOIN tasks t ON t.task_id = d.depends_on "
        "WHERE d.task_id = ? ORDER BY t.updated_at DESC, t.task_id DESC",
        (task.task_id,),
    ).fetchall()


def _rejected_rounds(unit: Unit, task: Task) -> list[tuple[str, str]]:
    return unit.db.execute(
        "SELECT result, note FROM reviews WHERE task_id = ? AND verdict = 'reject' ORDER BY review_id DESC",
        (task.task_id,),
    ).fetchall()

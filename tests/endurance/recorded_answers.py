"""What the answer to a recorded call says of tasks, to be held against the states that history gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.endurance.recorded import Call

SHOWN = ("title", "priority", "status", "assigned_to", "assignee", "attempt", "failures", "rejections")
SHOWN += ("max_attempts", "lease_seconds", "result", "claimed_at", "created_at")
"""The fields of a task that are compared, wherever an answer shows the whole task."""

Fits = Callable[[dict[str, Any]], bool]


def told(call: Call, claims: dict[str, tuple[int, str, int]]) -> Iterator[tuple[int, Fits]]:
    """What the call's answer says of tasks: (task_id, whether a state of it agrees)."""
    reply = call.reply
    if reply is None:
        for task_id in call.held:  # one claim too many: it speaks of these, and not of the one that was named
            yield task_id, lambda state: (state["status"], state["assignee"]) == ("claimed", call.agent)
        if call.status is not None and not call.held and "task_id" in call.arguments:
            yield call.arguments["task_id"], lambda state: state["status"] == call.status
    elif call.tool == "whoami":
        for held in reply["tasks"]:
            yield held["task_id"], _holding(claims, held["claim_id"], call.agent)
    elif reply.get("claim_id"):
        holding = _holding(claims, reply["claim_id"], call.agent)
        yield reply["task_id"], lambda state: holding(state) and _shows(reply["task"], state)
    elif call.tool == "get_task":
        yield reply["task"]["task_id"], lambda state: _shows(reply["task"], state)
    elif call.tool == "renew_claim" and reply["status"] == "claimed" and call.arguments.get("claim_id"):
        yield reply["task_id"], _holding(claims, call.arguments["claim_id"], call.agent)
    elif "status" in reply:
        claim_id = call.arguments.get("claim_id") if call.sends == 1 else None  # a repeat tells what is now
        attempt = claims[claim_id][2] if claim_id else None
        yield (
            reply["task_id"],
            lambda state: state["status"] == reply["status"] and attempt in (None, state["attempt"]),
        )


def _holding(claims: dict[str, tuple[int, str, int]], claim_id: str, agent: str) -> Fits:
    _, _, attempt = claims.get(claim_id, (0, "", -1))
    return lambda state: (state["status"], state["assignee"], state["attempt"]) == ("claimed", agent, attempt)


def _shows(task: dict[str, Any], state: dict[str, Any]) -> bool:
    return all(task.get(name) == state[name] for name in SHOWN) and set(task.get("attention", ())) == set(
        state["attention"]
    )

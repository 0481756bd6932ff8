"""What every client goes through, whoever drives it: list, call, be refused, outlive a server that was killed, go on.

A worker named anna claims the one task of the board, and hands it in after the server was killed and started again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

TASK: Final = 1
MISSING_TASK: Final = 999


@dataclass(frozen=True)
class Step:
    """One tool call, and what has to be in what the caller is shown of its answer."""

    tool: str
    arguments: Mapping[str, Any]
    shows: str
    is_refused: bool = False


BEFORE: Final = (
    Step("whoami", {}, '"name":"anna"'),
    Step("claim_next", {}, '"title":"Greet the world"'),
    Step("claim_task", {"task_id": MISSING_TASK}, f"task {MISSING_TASK}", is_refused=True),
)
AFTER: Final = (
    Step("whoami", {}, '"claim_id"'),
    Step("submit_result", {"task_id": TASK, "result": "Hello, world."}, '"status":"submitted"'),
    Step("submit_result", {"task_id": TASK, "result": "Good-bye."}, "submitted", is_refused=True),
)
STEPS: Final = (*BEFORE, *AFTER)
SEEN_BY_A_WORKER: Final = frozenset({"whoami", "claim_next", "submit_result", "wait_for_updates"})
KEPT_FROM_A_WORKER: Final = frozenset({"create_task", "review_task"})


@dataclass(frozen=True)
class Shown:
    """What the caller, or the model behind it, got to read. `is_error` is None where the client does not say."""

    text: str
    is_error: bool | None = None


@dataclass
class Seen:
    """What a client did and showed."""

    tools: list[str] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan() -> str:
    """The steps for a client in a program of its own, as JSON."""
    return json.dumps([[[step.tool, step.arguments] for step in part] for part in (BEFORE, AFTER)])


def faults_of(seen: Seen) -> list[str]:
    """What a client should have seen and has not. Nothing, if all is well."""
    faults = []
    names = {tool.rpartition("__")[2] for tool in seen.tools} | set(seen.tools)
    if missing := SEEN_BY_A_WORKER - names:
        faults.append(f"was not offered {', '.join(sorted(missing))}")
    if surplus := KEPT_FROM_A_WORKER & names:
        faults.append(f"was offered {', '.join(sorted(surplus))}")
    if len(seen.shown) != len(STEPS):
        faults.append(f"{len(seen.shown)} of {len(STEPS)} calls were answered")
    for number, (step, shown) in enumerate(zip(STEPS, seen.shown, strict=False), 1):
        faults += [f"call {number}, {step.tool}: {fault}" for fault in _faults_of(step, shown)]
    return faults


def _faults_of(step: Step, shown: Shown) -> Sequence[str]:
    text = _plain(shown.text)
    wanted = [step.shows] + (['"error"', '"code"', '"message"'] if step.is_refused else [])
    faults = [f"{part} is not in what was shown: {text[:300]}" for part in wanted if part not in text]
    if shown.is_error is not None and shown.is_error != step.is_refused:
        faults.append(f"shown as {'an error' if shown.is_error else 'a success'}: {text[:300]}")
    if step.is_refused is False and '"untrusted_content_warning"' not in text and step.tool == "claim_next":
        faults.append("the warning about the text of others is not in what was shown")
    return faults


def _plain(text: str) -> str:
    """The text without the escapes and spaces of the JSON that an app may have put around or into ours."""
    return text.replace('\\"', '"').replace('": ', '":').replace("\\n", "\n")

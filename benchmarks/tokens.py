"""What the tools cost a model's context: the list of each role, and one task from claim to submit."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import Report
from benchmarks.table import BRIEF_CHARS, LEAD, calls, new_task, open_executor, text, workers
from roundtable.board.clock import system_clock
from roundtable.rules.agents import Agent, Role
from roundtable.rules.commands import Command
from roundtable.store.execute import Executor
from roundtable.tools.answers import success
from roundtable.tools.catalogue import BY_NAME, TOOLS

CHARS_PER_TOKEN = 4
LIST_WANTED = {Role.WORKER: 2_500, Role.LEADER: 3_200}
CYCLE_WANTED = 1_200
RESULT_CHARS = 1_000


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    del quick
    for role, wanted in LIST_WANTED.items():
        report.add(f"tools/list of a {role}", "tokens", [_tokens(shown_tools(role))], at_most=wanted)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        executor = open_executor(Path(own) / "board.db", workers(1), Executor)
        seat = workers(1)[0]
        _ask(executor, LEAD, "create_task", new_task(0))
        parts = _cycle(executor, seat)
        executor.close()
    for name, chars in parts:
        report.add(f"  {name}", "tokens", [chars / CHARS_PER_TOKEN])
    report.add(
        f"claim to submit, {BRIEF_CHARS:,}-character brief, one copy",
        "tokens",
        [sum(chars for _, chars in parts) / CHARS_PER_TOKEN],
        at_most=CYCLE_WANTED,
    )


def shown_tools(role: Role) -> list[dict[str, Any]]:
    """The tools as an app shows them to its model, which is without output schemas."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "annotations": {
                "readOnlyHint": tool.reads_only,
                "destructiveHint": tool.destroys,
                "idempotentHint": tool.repeats_safely,
                "openWorldHint": False,
            },
        }
        for tool in TOOLS
        if role in tool.roles
    ]


def _cycle(executor: Executor, seat: Agent) -> list[tuple[str, int]]:
    """Claim, say how it goes, renew, submit: what the model writes and what it reads of each, in characters."""
    steps: tuple[tuple[str, dict[str, Any]], ...] = (
        ("claim_next", {"wait_seconds": 20}),
        ("post_message", {"task_id": 1, "body": text(80), "kind": "progress"}),
        ("renew_claim", {"task_id": 1}),
        ("submit_result", {"task_id": 1, "result": text(RESULT_CHARS)}),
    )
    found = []
    for name, arguments in steps:
        command = BY_NAME[name].parse(arguments)
        reply = _ask(executor, seat, name, command)
        read = len(success(BY_NAME[name], reply).text)
        written = len(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))
        found.append((f"{name}: arguments {written}, answer {read} characters", written + read))
    return found


def _ask(executor: Executor, agent: Agent, tool: str, command: Command[Any]) -> dict[str, Any]:
    clock = system_clock()
    (outcome,) = executor.execute(calls(clock, [(agent, tool, command)]), clock()).outcomes
    return dict(outcome.unwrap())


def _tokens(value: object) -> float:
    return len(json.dumps(value, ensure_ascii=False)) / CHARS_PER_TOKEN

"""What the writers know: every write that they sent, and what became of it as far as they were told."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

Found = dict[str, dict[str, list[dict[str, Any]]]]
"""Tool -> the text that marks a write -> what the file has of it."""


@dataclass
class Write:
    """One write. `mark` is a text that no other write has; `answer` is None while, or if, there was none."""

    agent: str
    tool: str
    mark: str
    arguments: dict[str, Any]
    answer: dict[str, Any] | None = None
    refused: str | None = None


@dataclass
class Ledger:
    """All writes of a run, over all its rounds. Marked writes can be recognised in the file; claims by their claim_id."""

    marked: list[Write] = field(default_factory=list)
    claims: list[Write] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        return sum(write.answer is not None for write in self.marked + self.claims)

    @property
    def refused(self) -> Counter[str]:
        return Counter(write.refused for write in self.marked + self.claims if write.refused)

    def fate_of_unanswered(self, db: sqlite3.Connection) -> tuple[int, int]:
        """How many of the marked writes without an answer are there, and how many are not."""
        found = _found_in(db)
        there = [
            bool(found[write.tool].get(write.mark))
            for write in self.marked
            if write.answer is None and write.refused is None
        ]
        return sum(there), len(there) - sum(there)

    def faults_in(self, db: sqlite3.Connection) -> list[str]:
        """Where the file does not have what was acknowledged, or has what nobody wrote, or has it twice."""
        found = _found_in(db)
        faults = []
        for write in self.marked:
            there = found[write.tool].pop(write.mark, [])
            faults += [
                f"{write.agent}: {write.tool} {write.mark!r:.40}: {fault}" for fault in _faults(write, there)
            ]
        for tool, left in found.items():
            faults += [f"{tool} {mark!r:.40} is there and nobody wrote it" for mark in left]
        rows = {
            claim_id: values
            for claim_id, *values in db.execute("SELECT claim_id, task_id, agent, attempt FROM claims")
        }
        for claim in self.claims:
            answer = claim.answer
            if answer is not None:
                expected = [answer["task_id"], claim.agent, answer["attempt"]]
                if rows.get(answer["claim_id"]) != expected:
                    faults.append(f"{claim.agent}: the claim of task {answer['task_id']} is lost or other")
        return faults


def _faults(write: Write, there: list[dict[str, Any]]) -> list[str]:
    if write.refused is not None:
        return [f"was refused ({write.refused}) and is there"] if there else []
    if len(there) > 1:
        return [f"is there {len(there)} times"]
    if not there:
        return ["was acknowledged and is not there"] if write.answer is not None else []
    expected = {**write.arguments, "agent": write.agent}
    if write.answer is not None:
        expected |= {
            name: write.answer[name] for name in ("task_id", "message_id", "status") if name in write.answer
        }
    return [
        f"has {name} {there[0][name]!r:.60} where {value!r:.60} was written"
        for name, value in expected.items()
        if name in there[0] and there[0][name] != value
    ]


def _found_in(db: sqlite3.Connection) -> Found:
    """What the tables and history have, by tool and mark, in the names of arguments and answers."""
    found: Found = {tool: defaultdict(list) for tool in MARKS}
    creators = dict(db.execute("SELECT task_id, agent FROM history WHERE event = 'created'"))
    for task_id, title, description, priority in db.execute(
        "SELECT task_id, title, description, priority FROM tasks"
    ):
        found["create_task"][title].append(
            {
                "agent": creators.get(task_id),
                "task_id": task_id,
                "description": description,
                "priority": priority,
            }
        )
    for message_id, task_id, agent, kind, body in db.execute(
        "SELECT message_id, task_id, agent, kind, body FROM messages"
    ):
        found["post_message"][body].append(
            {"agent": agent, "task_id": task_id, "message_id": message_id, "kind": kind}
        )
    for task_id, agent, note, verdict in db.execute("SELECT task_id, agent, note, verdict FROM reviews"):
        found["review_task"][note].append(
            {
                "agent": agent,
                "task_id": task_id,
                "verdict": verdict,
                "status": "done" if verdict == "accept" else "open",
            }
        )
    for task_id, agent, event, changes in db.execute(
        "SELECT task_id, agent, event, changes FROM history WHERE event IN ('submitted', 'released')"
    ):
        new = {name: value for name, (_, value) in json.loads(changes).items()}
        tool, mark = ("submit_result", "result") if event == "submitted" else ("release_task", "reason")
        found[tool][new[mark]].append({"agent": agent, "task_id": task_id, "status": new["status"]})
    return found


MARKS = {
    "create_task": "title",
    "post_message": "body",
    "review_task": "note",
    "submit_result": "result",
    "release_task": "reason",
}
"""The argument of each tool that carries its mark."""

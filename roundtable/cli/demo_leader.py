"""A leader by script: it plays its part over MCP, with the tools and the rights that any leader has.

Nothing that it shows is made up: events come from the board's history, results from its tasks. Only its own
decisions are fixed, and it says so where it makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import trio

from roundtable.cli.board_call import Call
from roundtable.cli.demo_story import PlannedTask
from roundtable.cli.event_words import describe
from roundtable.rules.change import Event
from roundtable.rules.limits import PAGE_ROWS_MAX
from roundtable.rules.model import Attention, Kind, Status, Verdict
from supervisor.rules.text import in_one_line

POLL_SECONDS: Final = 0.5
HELP_REQUESTS_MAX: Final = 3
"""For one task. A model that fails more often than that will not manage."""
TOLD: Final = frozenset(
    {Event.CREATED, Event.CLAIMED, Event.SUBMITTED, Event.RELEASED, Event.REVIEWED, Event.MESSAGE_POSTED}
)
"""The steps of the story; other events say the same once more."""
ENCOURAGEMENT: Final = "Please try once more. One short sentence is enough."


class DemoError(Exception):
    """The story cannot be played to its end. The message is one line for a person."""


class Show(Protocol):
    """Where a person follows. Lines may hold what a model wrote: one line each, printable characters only."""

    def say(self, line: str) -> None: ...

    def show_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The board as it is now, in the order of the task ids."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One task that is done. `sent_back` are the results that were not accepted."""

    task_id: int
    title: str
    worker: str
    result: str
    depends_on: tuple[int, ...]
    sent_back: tuple[str, ...]


async def lead(call: Call, story: Sequence[PlannedTask], show: Show) -> tuple[Finished, ...]:
    """Put the story's tasks on the board, review what comes in until all are done, and return them.

    It waits as long as it takes: the bound is the caller's. Raises DemoError, RefusedError.
    """
    leader = _Leader(call, show)
    await leader.plan(story)
    while True:
        rows = await leader.look()
        if all(row["status"] == Status.DONE for row in rows):
            return tuple([await leader.read_finished(row["task_id"]) for row in rows])
        for row in rows:
            if row["status"] == Status.SUBMITTED:
                await leader.review(row["task_id"])
            elif row["status"] == Status.CANCELLED:
                raise DemoError(f"task {row['task_id']} was cancelled by somebody else")
            elif row.get("needs_attention"):
                await leader.encourage(row["task_id"], row["needs_attention"])
        await trio.sleep(POLL_SECONDS)


@dataclass
class _Leader:
    call: Call
    show: Show
    planned: dict[int, PlannedTask] = field(default_factory=dict)
    came_back: dict[int, int] = field(default_factory=dict)
    last_event: int = 0

    async def plan(self, story: Sequence[PlannedTask]) -> None:
        ids: list[int] = []
        for task in story:
            arguments: dict[str, Any] = {"title": task.title, "description": task.description}
            if task.after:
                arguments["depends_on"] = [ids[place] for place in task.after]
            reply = await self.call("create_task", arguments)
            ids.append(reply["task_id"])
            self.planned[ids[-1]] = task

    async def look(self) -> list[Mapping[str, Any]]:
        """Tell what has happened since the last look, and return our tasks as they are now."""
        rows = (await self.call("list_tasks", {"limit": PAGE_ROWS_MAX}))["tasks"]
        history = await self.call("get_history", {"newest_first": True, "limit": PAGE_ROWS_MAX})
        for event in reversed(history["events"]):
            if event["event_id"] > self.last_event:
                self.last_event = event["event_id"]
                if event["event"] in TOLD:
                    self.show.say(describe(event))
        ours = sorted(
            (row for row in rows if row["task_id"] in self.planned), key=lambda row: int(row["task_id"])
        )
        self.show.show_rows(ours)
        return ours

    async def review(self, task_id: int) -> None:
        whole = await self.call("get_task", {"task_id": task_id})
        result = whole["task"]["result"]
        for line in result.splitlines():
            self.show.say(f"      {in_one_line(line)}")
        send_back = self.planned[task_id].send_back
        if send_back is None:
            await self._accept(task_id)
        elif not whole["reviews"]:
            self.show.say(f"   (by script, task {task_id} goes back after its first round, with a note)")
            self.show.say(f"      {send_back.note}")
            await self.call(
                "review_task", {"task_id": task_id, "verdict": Verdict.REJECT, "note": send_back.note}
            )
        else:
            heeded = "heeds" if send_back.is_heeded_by(result) else "does not heed"
            self.show.say(f"   (the new result {heeded} the note: it was looked at for '{send_back.word}')")
            await self._accept(task_id)

    async def _accept(self, task_id: int) -> None:
        await self.call("review_task", {"task_id": task_id, "verdict": Verdict.ACCEPT})

    async def encourage(self, task_id: int, reason: str) -> None:
        """Settle what the task waits for the leader for: a reply answers a worker, an update begins its attempts anew."""
        times = self.came_back[task_id] = self.came_back.get(task_id, 0) + 1
        if times > HELP_REQUESTS_MAX:
            raise DemoError(
                f"task {task_id} came back to the leader {times} times ({reason}): the model cannot do it"
            )
        await self.call("post_message", {"task_id": task_id, "kind": Kind.REPLY, "body": ENCOURAGEMENT})
        if reason != Attention.HELP_REQUESTED:
            await self.call("update_task", {"task_id": task_id})

    async def read_finished(self, task_id: int) -> Finished:
        whole = await self.call("get_task", {"task_id": task_id})
        task = whole["task"]
        return Finished(
            task_id=task_id,
            title=task["title"],
            worker=task["assignee"],
            result=task["result"],
            depends_on=tuple(task.get("depends_on", ())),
            sent_back=tuple(
                review["result"] for review in whole["reviews"] if review["verdict"] == Verdict.REJECT
            ),
        )

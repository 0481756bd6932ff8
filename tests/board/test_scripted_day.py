"""A day with workers of every kind: no task is lost or done twice, and the leader hears of each end once."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing
from waiting_table import LEAD, laid_table

from roundtable.rules.agents import Agent, Role
from roundtable.rules.commands import (
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetTask,
    ListTasks,
    ReleaseTask,
    RenewClaim,
    ReviewTask,
    SubmitResult,
    WaitForUpdates,
)
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.model import Status, Verdict

MORTAL, SLOW, ENDLESS, LATE, CLUMSY, FIRED, STEADY = WORKERS = [
    Agent(name, Role.WORKER) for name in ("mortal", "slow", "endless", "late", "clumsy", "fired", "steady")
]
LEASE_SECONDS = 600
DAY_SECONDS = 86_400
TOLD_ONCE = ("submitted", "expired", "agent_removed", "attention_set")


class Day:
    """What each one does, and what the leader is told."""

    def __init__(self, table) -> None:
        self.table = table
        self.told: list[tuple[str, int]] = []
        self.event_ids: list[int] = []
        self.accepted: Counter[int] = Counter()
        self.refused: dict[str, Code] = {}

    async def lead(self) -> None:
        """Hear of everything, accept what is handed in, and take away what is held for more than six hours."""
        cursor = (await self.table.ask(LEAD, WaitForUpdates()))["cursor"]
        while True:
            news = await self.table.ask(LEAD, WaitForUpdates(cursor, 20))
            cursor = news["cursor"]
            for event in news["updates"]:
                self.told.append((event["event"], event["task_id"]))
                self.event_ids.append(event["event_id"])
                if event["event"] == "submitted":
                    await self.table.ask(LEAD, ReviewTask(event["task_id"], Verdict.ACCEPT))
                    self.accepted[event["task_id"]] += 1

    async def take_away_what_never_ends(self) -> None:
        await trio.sleep(6 * 3_600)
        for row in (await self.table.ask(LEAD, ListTasks(status=Status.CLAIMED, assignee="endless")))[
            "tasks"
        ]:
            await self.table.ask(LEAD, ReleaseTask(row["task_id"], "you have had it all morning"))

    async def mortal(self) -> None:
        await self.table.ask(MORTAL, ClaimTask(1))  # and is never heard of again

    async def slow(self) -> None:
        """Works for three hours and says so every five minutes."""
        claim = await self.table.ask(SLOW, ClaimTask(2))
        for _ in range(36):
            await trio.sleep(300)
            renewed = await self.table.ask(SLOW, RenewClaim(2, claim["claim_id"]))
            assert renewed["status"] == "claimed"
        await self.table.ask(SLOW, SubmitResult(2, "by slow", claim["claim_id"]))

    async def endless(self) -> None:
        claim = await self.table.ask(ENDLESS, ClaimTask(3))
        while True:
            await trio.sleep(300)
            try:
                await self.table.ask(ENDLESS, RenewClaim(3, claim["claim_id"]))
            except BoardError as error:
                self.refused["endless"] = error.code
                return

    async def late(self) -> None:
        """Is not heard of while it works, once too long for anybody's patience and once not."""
        for task_id, seconds in ((4, LEASE_SECONDS + 5), (5, 4 * 3_600)):
            claim = await self.table.ask(LATE, ClaimTask(task_id))
            await trio.sleep(seconds)
            try:
                await self.table.ask(LATE, SubmitResult(task_id, "by late", claim["claim_id"]))
            except BoardError as error:
                self.refused["late"] = error.code

    async def clumsy(self) -> None:
        """Tries and fails, as often as it is let."""
        for _ in range(10):
            try:
                await self.table.ask(CLUMSY, ClaimTask(6))
                await trio.sleep(60)
                await self.table.ask(CLUMSY, ReleaseTask(6, "no luck", failed=True, cooldown_seconds=0))
            except BoardError as error:
                self.refused["clumsy"] = error.code
                return

    async def fired(self) -> None:
        await self.table.ask(FIRED, ClaimTask(7))
        await trio.sleep(120)
        await self.table.replace_agents(LEAD, *(worker for worker in WORKERS if worker is not FIRED))
        try:
            await self.table.ask(FIRED, SubmitResult(7, "by fired"))
        except BoardError as error:
            self.refused["fired"] = error.code

    async def steady(self) -> None:
        """Begins when the others have had their chance, and takes what there is."""
        await trio.sleep(3_600)
        while True:
            claim = await self.table.ask(STEADY, ClaimNext(wait_seconds=20))
            if claim["task"] is not None:
                await trio.sleep(400)
                await self.table.ask(STEADY, SubmitResult(claim["task_id"], "by steady", claim["claim_id"]))


@pytest.mark.spec(
    "LEASE-2", "LEASE-3", "LEASE-4", "CLAIM-6", "CLAIM-7", "CLAIM-8", "CLAIM-10", "WAIT-2", "WAIT-3", "WAIT-5", "ATTN-7",
    "ATTN-8",
)  # fmt: skip
async def test_a_day_with_workers_of_every_kind(tmp_path, nursery, autojump_clock) -> None:
    async with laid_table(tmp_path, nursery, agents=(LEAD, *WORKERS)) as table:
        for number in range(1, 9):
            # 6 is clumsy's alone; 8 is for one that will be gone
            assignee = {6: "clumsy", 8: "fired"}.get(number)
            await table.ask(
                LEAD, CreateTask(f"task {number}", "D", assignee=assignee, lease_seconds=LEASE_SECONDS)
            )
        day = Day(table)
        async with trio.open_nursery() as agents:
            agents.start_soon(day.lead)
            await trio.testing.wait_all_tasks_blocked()
            for work in (
                day.mortal, day.slow, day.endless, day.late, day.clumsy, day.fired, day.steady,
                day.take_away_what_never_ends,
            ):  # fmt: skip
                agents.start_soon(work)
            await trio.sleep(DAY_SECONDS)
            agents.cancel_scope.cancel()
        tasks = {}
        for task_id in range(1, 9):
            tasks[task_id] = await table.ask(LEAD, GetTask(task_id))
        ended = {
            n: (one["task"]["status"], one["task"].get("assignee"), one["task"].get("needs_attention"))
            for n, one in tasks.items()
        }
        assert ended == {
            1: ("done", "steady", None),
            2: ("done", "slow", None),
            3: ("done", "steady", None),
            4: ("done", "late", None),
            5: ("done", "steady", None),
            6: ("open", None, "attempts_exhausted"),
            7: ("done", "steady", None),
            8: ("open", None, "assignee_gone"),
        }
        assert {n: one["task"]["result"] for n, one in tasks.items() if one["task"]["status"] == "done"} == {
            1: "by steady", 2: "by slow", 3: "by steady", 4: "by late", 5: "by steady", 7: "by steady",
        }  # fmt: skip
        # nothing was done twice, and nothing thrown away
        assert day.accepted == Counter({1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 7: 1})
        assert [(m["kind"], m["body"]) for m in tasks[5]["messages"]] == [("late_result", "by late")]
        # the leader hears of each once
        assert day.event_ids == sorted(set(day.event_ids))
        assert Counter(told for told in day.told if told[0] in TOLD_ONCE) == Counter(
            {
                ("expired", 1): 1,
                ("expired", 4): 1,
                ("expired", 5): 1,
                ("agent_removed", 7): 1,
                ("attention_set", 6): 1,
                ("attention_set", 8): 1,
                **{("submitted", task_id): 1 for task_id in (1, 2, 3, 4, 5, 7)},
            }
        )
        assert ("message_posted", 5) in day.told
        assert day.refused == {
            "endless": Code.STALE_CLAIM,
            "late": Code.CONFLICT,
            "clumsy": Code.NEEDS_ATTENTION,
            "fired": Code.FORBIDDEN,
        }
        table.check_nothing_is_left()

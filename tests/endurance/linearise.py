"""8 clients with random tool calls while the server is killed (-9) and started again every 8 to 15 s.

    python -m tests.endurance.linearise --seconds 600 --seed 1

Every call is recorded with its start, its end and what came of it; afterwards the record is held against the
board's own history: whether there is one order of all that happened that fits both.
"""

from __future__ import annotations

import random
import signal
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import HttpSeat, RefusedError
from tests.endurance.consistency import check
from tests.endurance.kill_nine import free_port
from tests.endurance.recorded import Call, Recorded
from tests.endurance.report import Report, chance_of, main

WORKERS = tuple(f"worker_{number}" for number in range(1, 8))
LIFE_SECONDS = (8.0, 15.0)
LEASE_SECONDS = 30
ACTIVE_TASKS = 16
PAUSE_SECONDS = 0.01
"""At most so long between two calls of one client."""
KEYED = frozenset({"create_task", "post_message", "claim_next"})


@dataclass
class _Run:
    """What the clients share."""

    url: str
    recorded: Recorded = field(default_factory=Recorded)
    up: trio.Event = field(default_factory=trio.Event)
    tasks: deque[int] = field(default_factory=lambda: deque(maxlen=ACTIVE_TASKS))
    is_over: bool = False


async def linearise(folder: Path, seed: int, seconds: int) -> Report:
    report = Report(f"linearise: 1 leader and {len(WORKERS)} workers, {seconds} s, seed {seed}")
    began = trio.current_time()
    recorded = await record(folder, seed, seconds)
    lasted = trio.current_time() - began
    checked = check(recorded, folder / "roundtable.db")
    report.violations += checked.violations
    refused = Counter(call.refused for call in recorded.calls if call.refused)
    report.expect(not refused.keys() - _FORESEEN, f"refused with {set(refused) - _FORESEEN}")
    report.figures |= {
        "seconds": f"{lasted:.0f}",
        "calls": sum(call.sends for call in recorded.calls),
        "answered": sum(call.reply is not None for call in recorded.calls),
        "refused": dict(refused),
        "without an answer": sum(call.is_unknown for call in recorded.calls),
        "sent again after none": sum(call.sends > 1 for call in recorded.calls),
        "kills": len(recorded.deaths),
        **checked.figures,
        "violations": len(report.violations),
    }
    return report


_FORESEEN = {"conflict", "stale_claim", "forbidden", "blocked", "needs_attention", "too_large"}


async def record(folder: Path, seed: int, seconds: int) -> Recorded:
    """Let the clients call for so long, through every death of the server, and end with a server that stops cleanly."""
    chance = chance_of(seed)
    tokens = write_agents(folder, lead="leader", **dict.fromkeys(WORKERS, "worker"))
    port = free_port(chance)
    settings = {
        "ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0",
        "ROUNDTABLE_PORT": str(port),
        "ROUNDTABLE_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    run = _Run(f"http://127.0.0.1:{port}/mcp")
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for agent in ("lead", *WORKERS):
            client = _Client(agent, HttpSeat(tokens[agent]), run, chance_of(chance.getrandbits(32)))
            nursery.start_soon(client.go_on)
        while not run.is_over:
            life = min(chance.uniform(*LIFE_SECONDS), seconds / 3)
            async with open_program("serve", folder=folder, settings=settings) as serve:
                await serve.url()
                run.up.set()
                await trio.sleep(life)
                run.is_over = trio.current_time() - began >= seconds
                serve.process.send_signal(signal.SIGKILL)
                await serve.ended(10)
                run.recorded.deaths.append(trio.current_time())
                if not run.is_over:
                    run.up = trio.Event()
    async with open_program("serve", folder=folder, settings=settings) as serve:
        await serve.url()  # what ran out meanwhile has ended
        serve.process.send_signal(signal.SIGTERM)
        assert await serve.ended(10) == 0, serve.err.text
    return run.recorded


class _Client:
    """One agent, one call at a time, through every death of the server."""

    def __init__(self, agent: str, seat: HttpSeat, run: _Run, chance: random.Random) -> None:
        self._agent = agent
        self._seat = seat
        self._run = run
        self._chance = chance
        self._count = 0
        self._held: dict[int, str] = {}
        self._stale: deque[tuple[int, str]] = deque(maxlen=20)
        self._left: dict[
            int, float
        ] = {}  # held and not named any more until then, so that the lease runs out

    async def go_on(self) -> None:
        try:
            while not self._run.is_over:
                await self._run.up.wait()
                await (self._lead() if self._agent == "lead" else self._work())
                await trio.sleep(self._chance.uniform(0, PAUSE_SECONDS))
        finally:
            with trio.CancelScope(shield=True):
                await self._seat.aclose()

    async def _lead(self) -> None:
        tasks = self._run.tasks
        drawn = self._chance.random()
        if len(tasks) < ACTIVE_TASKS or drawn < 0.1:
            depends_on = [self._chance.choice(tasks)] if tasks and self._chance.random() < 0.1 else None
            lease_seconds = self._chance.choice([None, LEASE_SECONDS])
            made = await self._call(
                "create_task",
                "title",
                description="x",
                priority=self._chance.randint(-5, 5),
                depends_on=depends_on,
                lease_seconds=lease_seconds,
                assignee=self._chance.choice(WORKERS) if self._chance.random() < 0.1 else None,
            )
            if made.reply:
                tasks.append(made.reply["task_id"])
            return
        task_id = self._chance.choice(tasks)
        if drawn < 0.2:
            await self._call("update_task", "title", task_id=task_id, priority=self._chance.randint(-5, 5))
        elif drawn < 0.6:
            verdict = self._chance.choice(["accept", "reject"])
            reviewed = await self._call("review_task", "note", task_id=task_id, verdict=verdict)
            self._forget_final(task_id, reviewed)
        elif drawn < 0.63:
            self._forget_final(task_id, await self._call("cancel_task", "reason", task_id=task_id))
        elif drawn < 0.68:
            await self._call("release_task", "reason", task_id=task_id)
        elif drawn < 0.85:
            await self._call(
                "post_message", "body", task_id=task_id, kind=self._chance.choice(["reply", "note"])
            )
        else:
            await self._call("get_task", task_id=task_id)

    async def _work(self) -> None:
        tasks = [task_id for task_id in self._run.tasks if not self._is_left(task_id)]
        drawn = self._chance.random()
        if drawn < 0.25 or not tasks:
            await self._claim_next()
            return
        task_id, claim_id = self._some_claim(tasks)
        if drawn < 0.4:
            task_id = self._chance.choice(tasks)
            self._note_claim(await self._call("claim_task", task_id=task_id))
        elif drawn < 0.52:
            renewed = await self._call("renew_claim", task_id=task_id, claim_id=claim_id)
            if renewed.refused in ("stale_claim", "conflict"):
                self._drop(task_id)
        elif drawn < 0.72:
            submitted = await self._call("submit_result", "result", task_id=task_id, claim_id=claim_id)
            if not submitted.is_unknown:
                self._drop(task_id)
        elif drawn < 0.8:
            failed = self._chance.random() < 0.4
            cooldown_seconds = self._chance.choice([0, 1, 900]) if failed else None
            released = await self._call(
                "release_task",
                "reason",
                task_id=task_id,
                claim_id=claim_id,
                failed=failed,
                cooldown_seconds=cooldown_seconds,
            )
            if not released.is_unknown:
                self._drop(task_id)
        elif drawn < 0.9:
            kind = self._chance.choices(["progress", "note", "help_request"], [5, 4, 1])[0]
            await self._call("post_message", "body", task_id=task_id, kind=kind)
        elif drawn < 0.97 or not self._held:
            await self._call("get_task", task_id=self._chance.choice(tasks))
        else:
            task_id = next(iter(self._held))
            self._drop(task_id)
            self._left[task_id] = trio.current_time() + LEASE_SECONDS + 3

    async def _claim_next(self) -> None:
        wait_seconds = self._chance.choice([0] * 12 + [1, 2])
        with trio.move_on_after(self._chance.uniform(0.001, 0.1) if self._chance.random() < 0.05 else 60):
            self._note_claim(await self._call("claim_next", wait_seconds=wait_seconds))
            return
        await self._look()  # hung up: the claim may have been made, and undone

    def _is_left(self, task_id: int) -> bool:
        return self._left.get(task_id, 0.0) > trio.current_time()

    def _some_claim(self, tasks: list[int]) -> tuple[int, str | None]:
        """Mostly of a task that it holds, with its claim_id; sometimes an old one, or a task of somebody else."""
        drawn = self._chance.random()
        if self._held and drawn < 0.75:
            task_id = self._chance.choice(list(self._held))
            return task_id, self._held[task_id] if drawn < 0.6 else None
        stale = [one for one in self._stale if not self._is_left(one[0])]
        return self._chance.choice(stale) if stale and drawn < 0.9 else (self._chance.choice(tasks), None)

    def _drop(self, task_id: int) -> None:
        claim_id = self._held.pop(task_id, None)
        if claim_id:
            self._stale.append((task_id, claim_id))

    def _note_claim(self, call: Call) -> None:
        if call.reply and call.reply.get("claim_id"):
            self._drop(call.reply["task_id"])
            self._held[call.reply["task_id"]] = call.reply["claim_id"]

    def _forget_final(self, task_id: int, call: Call) -> None:
        """Most final tasks are left; some are still called, and refuse."""
        if call.reply and call.reply["status"] in ("done", "cancelled") and self._chance.random() < 0.8:
            self._run.tasks.remove(task_id)

    async def _look(self) -> None:
        looked = await self._call("whoami")
        if looked.reply:
            held = {task["task_id"]: task["claim_id"] for task in looked.reply["tasks"]}
            self._held = {task_id: held[task_id] for task_id in held if not self._is_left(task_id)}

    async def _call(self, tool: str, marked: str | None = None, **arguments: Any) -> Call:
        """One call, recorded. Where sending it again is safe, it is mostly sent again until it is answered."""
        self._count += 1
        mark = f"{tool} {self._agent} {self._count}"
        sent = {name: value for name, value in arguments.items() if value is not None}
        if marked:
            sent[marked] = mark
        if tool in KEYED and self._chance.random() < 0.5:
            sent["idempotency_key"] = mark
        is_safe = "idempotency_key" in sent or (tool == "submit_result" and "claim_id" in sent)
        call = Call(self._agent, tool, sent, mark if marked else "", trio.current_time())
        self._run.recorded.calls.append(call)
        while True:
            call.sends += 1
            call.sent = trio.current_time()
            try:
                call.take(await self._seat.call(self._run.url, tool, **sent), trio.current_time())
            except RefusedError as refused:
                call.refuse(refused.error, trio.current_time())
            except httpx.TransportError:
                await self._run.up.wait()  # the server is dead, or about to be seen as such
                await trio.sleep(0.05)
                await self._run.up.wait()
                if is_safe and not self._run.is_over and self._chance.random() < 0.9:
                    continue
                if tool != "whoami" and self._agent != "lead" and not self._run.is_over:
                    await self._look()
            return call


if __name__ == "__main__":
    main(linearise, __doc__ or "", size="seconds", default=600)

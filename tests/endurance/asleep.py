"""A laptop's sleep, in real time: SIGSTOP for longer than the lease, on the server and then on two workers.

    python -m tests.endurance.asleep --seconds 33

A second board, beside, sleeps without anybody calling it when it wakes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import trio

from roundtable.store.soundness import check_file
from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import HttpSeat, RefusedError
from tests.endurance.report import Report, main
from tests.endurance.soundness import open_readonly

LEASE_SECONDS = 30
RENEW_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
SETTINGS = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0", "ROUNDTABLE_LEASE_SECONDS": str(LEASE_SECONDS)}
HOLDER = (sys.executable, "-m", "tests.endurance.holder")


async def asleep(folder: Path, seed: int, seconds: int) -> Report:
    del seed  # nothing is drawn
    report = Report(f"asleep: {seconds} s, leases of {LEASE_SECONDS} s")
    report.expect(seconds > LEASE_SECONDS, "nothing runs out in so short a sleep")
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for name, scene in (("called", _called_board), ("quiet", _quiet_board)):
            own = folder / name
            own.mkdir()
            nursery.start_soon(scene, own, seconds, report)
    for name in ("called", "quiet"):
        report.violations += [
            f"{name}: {fault}" for fault in check_file(folder / name / "roundtable.db").faults
        ]
    report.figures |= {
        "seconds": f"{trio.current_time() - started:.0f}",
        "violations": len(report.violations),
    }
    return report


class _Table:
    """The agents of a board, and what they see."""

    def __init__(self, folder: Path, url: str, tokens: dict[str, str]) -> None:
        self.database = folder / "roundtable.db"
        self.url = url
        self.tokens = tokens
        self._seats = {name: HttpSeat(token, timeout_seconds=60) for name, token in tokens.items()}
        self._cursor: str | None = None

    async def call(self, agent: str, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self._seats[agent].call(self.url, tool, **arguments)

    async def refusal(self, agent: str, tool: str, **arguments: Any) -> str:
        """The code of the refusal, or "ok"."""
        try:
            await self.call(agent, tool, **arguments)
        except RefusedError as refused:
            return refused.code
        return "ok"

    async def news(self) -> list[tuple[int, str]]:
        """What the leader has heard since it last asked: (task_id, event)."""
        heard: list[tuple[int, str]] = []
        while True:
            cursor = {"cursor": self._cursor} if self._cursor else {}
            told = await self.call("lead", "wait_for_updates", wait_seconds=0, **cursor)
            self._cursor = told["cursor"]
            if not told["updates"]:
                return heard
            heard += [(one["task_id"], one["event"]) for one in told["updates"]]
            if not cursor:
                return heard

    def events(self, task_id: int) -> list[str]:
        with open_readonly(self.database) as db:
            rows = db.execute("SELECT event FROM history WHERE task_id = ? ORDER BY event_id", (task_id,))
            return [event for (event,) in rows]

    def ends(self, task_id: int) -> list[tuple[str, str | None]]:
        """Each claim of the task: whose, and how it ended."""
        sql = "SELECT agent, ended_by FROM claims WHERE task_id = ? ORDER BY attempt"
        with open_readonly(self.database) as db:
            return db.execute(sql, (task_id,)).fetchall()

    async def create(self, title: str) -> int:
        made: int = (await self.call("lead", "create_task", title=title, description="d"))["task_id"]
        return made

    async def aclose(self) -> None:
        for seat in self._seats.values():
            await seat.aclose()


async def _called_board(folder: Path, seconds: int, report: Report) -> None:
    tokens = write_agents(folder, lead="leader", ann="worker", ben="worker", cid="worker")
    async with open_program("serve", folder=folder, settings=SETTINGS) as serve:
        table = _Table(folder, await serve.url(), tokens)
        await table.news()
        await _sleeping_server(table, serve.process, seconds, report)
        await _sleeping_workers(table, seconds, report)
        await table.aclose()
        serve.process.send_signal(signal.SIGTERM)
        report.expect(await serve.ended(10) == 0, "the server did not stop cleanly")


async def _sleeping_server(table: _Table, process: trio.Process, seconds: int, report: Report) -> None:
    """The server sleeps; its agents call meanwhile, and are answered when it wakes."""
    task_id = await table.create("Asleep")
    claim_id = (await table.call("ann", "claim_task", task_id=task_id))["claim_id"]
    told: dict[str, Any] = {}

    async def renew() -> None:
        told["renew"] = await table.refusal("ann", "renew_claim", task_id=task_id, claim_id=claim_id)
        told["again"] = await table.call("ann", "claim_next", wait_seconds=1)

    async def claim() -> None:
        told["next"] = await table.call("ben", "claim_next", wait_seconds=20)

    process.send_signal(signal.SIGSTOP)
    await trio.sleep(seconds - 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renew)
        nursery.start_soon(claim)
        await trio.sleep(2)
        report.expect(not told, f"a stopped server answered {told}")
        woken = trio.current_time()
        process.send_signal(signal.SIGCONT)
        nursery.cancel_scope.deadline = woken + PATIENCE_SECONDS
    report.expect(len(told) == 3, f"not all were answered when it woke: {list(told)}")
    report.figures["server: the holder's renewal"] = told.get("renew")
    report.figures["server: the holder's claim_next"] = told.get("again")
    claimed = told.get("next", {})
    report.figures["server: the next claimant"] = (
        f"task {claimed.get('task_id')}, attempt {claimed.get('attempt')}"
    )
    report.expect(told.get("renew") == "stale_claim", "the claim outlived its lease")
    report.expect(told.get("again") == {"task": None}, "there was no cool-down")
    report.expect(
        (claimed.get("task_id"), claimed.get("attempt")) == (task_id, 2), "the next claimant did not get it"
    )
    _expect(report, "server: history", table.events(task_id), ["created", "claimed", "expired", "claimed"])
    _expect(report, "server: claims", table.ends(task_id), [("ann", "expired"), ("ben", None)])
    _expect(report, "server: the leader's news", await table.news(), [(task_id, "expired")])
    await table.call("ben", "submit_result", task_id=task_id, result="by ben")
    await table.news()


async def _sleeping_workers(table: _Table, seconds: int, report: Report) -> None:
    """Two workers sleep, each with a claim that it renewed; somebody takes the task of the second meanwhile."""
    alone, taken = await table.create("Left alone"), await table.create("Taken over")

    def holder(agent: str, task_id: int) -> Any:
        arguments = (table.url, str(task_id), str(RENEW_SECONDS), f"late by {agent}")
        settings = {"TOKEN": table.tokens[agent]}
        return open_program(*arguments, command=HOLDER, folder=table.database.parent, settings=settings)

    async with holder("ann", alone) as ann, holder("ben", taken) as ben:
        for worker in (ann, ben):
            with trio.fail_after(PATIENCE_SECONDS):
                await worker.out.line(lambda line: line == "renewed", number=2)
            worker.process.send_signal(signal.SIGSTOP)
        await trio.sleep(seconds)
        _expect(
            report,
            "workers: the leader's news asleep",
            sorted(await table.news()),
            [(alone, "expired"), (taken, "expired")],
        )
        await table.call("cid", "claim_task", task_id=taken)
        for worker in (ann, ben):
            worker.process.send_signal(signal.SIGCONT)
        for worker in (ann, ben):
            report.expect(await worker.ended(PATIENCE_SECONDS) == 0, f"a worker failed: {worker.err.text}")
        last = (
            [line for line in ann.out.lines if line != "renewed"],
            [line for line in ben.out.lines if line != "renewed"],
        )
    lost = ["claimed", "renewal refused: stale_claim"]
    _expect(report, "workers: alone", last[0], [*lost, "submit accepted: submitted"])
    _expect(report, "workers: taken", last[1], [*lost, "submit refused: stale_claim claimed"])
    _expect(
        report, "workers: history, alone", table.events(alone), ["created", "claimed", "expired", "submitted"]
    )
    _expect(
        report,
        "workers: history, taken",
        table.events(taken),
        ["created", "claimed", "expired", "claimed", "message_posted"],
    )
    _expect(report, "workers: claims, taken", table.ends(taken), [("ben", "expired"), ("cid", None)])
    messages = (await table.call("lead", "get_task", task_id=taken))["messages"]
    kept = [(message["agent"], message["kind"], message["body"]) for message in messages]
    _expect(report, "workers: kept", kept, [("ben", "late_result", "late by ben")])
    _expect(
        report,
        "workers: the leader's news awake",
        sorted(await table.news()),
        [(alone, "submitted"), (taken, "message_posted")],
    )
    written = await table.call("cid", "submit_result", task_id=taken, result="by cid")
    report.expect(written["status"] == "submitted", "the new holder's result was not taken")


async def _quiet_board(folder: Path, seconds: int, report: Report) -> None:
    """Nobody calls when it wakes: the board ends by itself what ran out."""
    tokens = write_agents(folder, lead="leader", ann="worker")
    async with open_program("serve", folder=folder, settings=SETTINGS) as serve:
        table = _Table(folder, await serve.url(), tokens)
        await table.news()
        task_id = await table.create("Asleep and alone")
        await table.call("ann", "claim_task", task_id=task_id)
        serve.process.send_signal(signal.SIGSTOP)
        await trio.sleep(seconds)
        report.expect("expired" not in table.events(task_id), "a stopped server wrote history")
        serve.process.send_signal(signal.SIGCONT)
        woken = trio.current_time()
        with trio.move_on_after(PATIENCE_SECONDS):
            await serve.events("expired")
        report.figures["quiet: seconds from waking to the end of the claim"] = (
            f"{trio.current_time() - woken:.2f}"
        )
        _expect(report, "quiet: history", table.events(task_id), ["created", "claimed", "expired"])
        _expect(report, "quiet: the leader's news", await table.news(), [(task_id, "expired")])
        await table.aclose()
        serve.process.send_signal(signal.SIGTERM)
        report.expect(await serve.ended(10) == 0, "the quiet server did not stop cleanly")


def _expect(report: Report, name: str, found: object, expected: object) -> None:
    report.figures[name] = found
    report.expect(found == expected, f"{name}: {found} where {expected} was expected")


if __name__ == "__main__":
    main(asleep, __doc__ or "", size="seconds", default=33)

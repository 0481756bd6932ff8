"""Clients that go at the very moment they are answered: each claim stays with one that was answered, and only then.

    python -m tests.endurance.handover --seed 1 --runs 2000

A worker waits for a task, the leader creates it, and the worker ends its connection a moment later: by half, whole, by a
reset, or as soon as it has read its answer. Whoever read a whole answer holds its claim; from whoever did not it was
taken back, and its key brings a new one. Nobody can know of a client that closes within the microseconds between its last
look and the arrival of the answer: that claim stays, there are few of them, and the key finds it.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from tests.acceptance.programs import open_program, write_agents
from tests.acceptance.seats import HttpSeat
from tests.endurance.report import Report, chance_of, main

GENERATIONS: Final = ("2025-11-25", "2026-07-28")
ENDINGS: Final = ("half", "whole", "reset", "read")
LANES: Final = 4
"""So many clients wait and go at once."""
PARK_SECONDS = 0.02
FIRST_GUESS_SECONDS = 0.005
"""How long an answer takes from the moment at which the task is asked for, until one has been seen."""
SETTLE_SECONDS = 0.1
LOOK_SECONDS = 0.01
TAKEN_BACK_LOOKS: Final = 200
CROSSED_AT_MOST: Final = 0.01
"""Of those that were gone before they had read an answer: the share of those to which it was on its way."""
RUN_SECONDS = 30.0
RESET: Final = struct.pack("ii", 1, 0)


@dataclass
class _Counts:
    """What came of the runs, by generation and ending."""

    answered: Counter[str] = field(default_factory=Counter)
    taken_back: Counter[str] = field(default_factory=Counter)
    not_yet_claimed: Counter[str] = field(default_factory=Counter)
    crossed: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


async def handover(folder: Path, seed: int, runs: int) -> Report:
    report = Report(f"handover: {runs} runs, {LANES} at once, seed {seed}")
    chance = chance_of(seed)
    names = [f"worker_{number}" for number in range(1, LANES + 1)]
    tokens = write_agents(folder, lead="leader", **dict.fromkeys(names, "worker"))
    counts = _Counts()
    settings = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0"}
    plans = [(GENERATIONS[number % 2], ENDINGS[number // 2 % len(ENDINGS)]) for number in range(runs)]
    chance.shuffle(plans)
    async with open_program("serve", folder=folder, settings=settings) as serve:
        url = await serve.url()
        async with trio.open_nursery() as nursery:
            for number, name in enumerate(names):
                lane = _Lane(url, name, tokens[name], tokens["lead"], chance, counts)
                nursery.start_soon(lane.run, plans[number::LANES])
    report.violations += counts.violations
    crossed, gone = counts.crossed.total(), counts.taken_back.total() + counts.crossed.total()
    report.expect(crossed <= 1 + gone * CROSSED_AT_MOST, f"{crossed} of {gone} claims stayed with nobody")
    report.figures |= {
        "answered": dict(sorted(counts.answered.items())),
        "gone, and taken back": dict(sorted(counts.taken_back.items())),
        "gone before there was a claim": dict(sorted(counts.not_yet_claimed.items())),
        "gone with the answer on its way": dict(sorted(counts.crossed.items())),
        "violations": len(counts.violations),
    }
    return report


class _Lane:
    """One worker and its leader, run after run."""

    def __init__(
        self, url: str, name: str, token: str, lead_token: str, chance: random.Random, counts: _Counts
    ) -> None:
        self._url = url
        self._name = name
        self._token = token
        self._worker, self._lead = HttpSeat(token), HttpSeat(lead_token)
        self._chance = chance
        self._counts = counts
        self._answer_seconds = FIRST_GUESS_SECONDS

    async def run(self, plans: list[tuple[str, str]]) -> None:
        for number, (generation, ending) in enumerate(plans):
            with trio.fail_after(RUN_SECONDS):
                await self._run_once(f"key {number}", generation, ending)
        for seat in (self._worker, self._lead):
            await seat.aclose()

    async def _run_once(self, key: str, generation: str, ending: str) -> None:
        delay = self._chance.uniform(0.5, 1.5) * self._answer_seconds
        kind = f"{generation[:4]} {ending}"
        created: dict[str, Any] = {}
        async with trio.open_nursery() as nursery:
            asked = trio.Event()
            client = _Client(self._url, self._token, key, generation)
            await client.ask()
            await trio.sleep(PARK_SECONDS)

            async def create() -> None:
                asked.set()
                created.update(
                    await self._lead.call(
                        self._url, "create_task", title="t", description="d", assignee=self._name
                    )
                )

            nursery.start_soon(create)
            await asked.wait()
            began = trio.current_time()
            is_answered = await client.go(ending, delay)
            if ending == "read":
                self._answer_seconds = trio.current_time() - began
        task_id = created["task_id"]
        place = f"{kind} after {delay * 1000:.2f} ms, task {task_id}"
        if is_answered:
            self._counts.answered[kind] += 1
            await trio.sleep(SETTLE_SECONDS)
            task = await self._task(task_id)
            if task["status"] != "claimed" or task["attempt"] != 1:
                self._counts.violations.append(f"{place}: answered, and yet {task['status']}")
        else:
            await self._expect_taken_back(task_id, place, kind, key, may_have_crossed=ending != "half")
        await self._lead.call(self._url, "cancel_task", task_id=task_id, reason="over")

    async def _expect_taken_back(
        self, task_id: int, place: str, kind: str, key: str, *, may_have_crossed: bool
    ) -> None:
        for _ in range(TAKEN_BACK_LOOKS):
            task = await self._task(task_id)
            if task["status"] == "open":
                break
            await trio.sleep(LOOK_SECONDS)
        again = await self._worker.call(self._url, "claim_next", wait_seconds=1, idempotency_key=key)
        attempt = task["attempt"] + 1
        if task["status"] == "open":
            where = self._counts.taken_back if task["attempt"] else self._counts.not_yet_claimed
        elif may_have_crossed:
            where, attempt = self._counts.crossed, 1
        else:
            self._counts.violations.append(f"{place}: no answer, and yet {task['status']}")
            return
        where[kind] += 1
        if again.get("task_id") != task_id or again["attempt"] != attempt:
            self._counts.violations.append(f"{place}: its key brings {again}")

    async def _task(self, task_id: int) -> dict[str, Any]:
        task: dict[str, Any] = (await self._lead.call(self._url, "get_task", task_id=task_id))["task"]
        return task


class _Client:
    """A connection with one claim_next on it, byte by byte."""

    def __init__(self, url: str, token: str, key: str, generation: str) -> None:
        self._host, self._port = url.split("/")[2].split(":")
        self._token = token
        self._key = key
        self._generation = generation
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._received = b""

    async def ask(self) -> None:
        with suppress(BlockingIOError):
            self._socket.connect((self._host, int(self._port)))
        await trio.lowlevel.wait_writable(self._socket)
        self._socket.sendall(self._request())

    async def go(self, ending: str, after_seconds: float) -> bool:
        """End the connection so, after so long, reading meanwhile. Returns whether a whole answer was read."""
        with trio.CancelScope(deadline=trio.current_time() + after_seconds) as scope:
            if ending == "read":
                scope.deadline = trio.current_time() + RUN_SECONDS
            while not self._is_answered() and await self._read():
                pass
        if ending == "half":
            self._socket.shutdown(socket.SHUT_WR)
            while await self._read():
                pass
        else:
            with suppress(
                BlockingIOError
            ):  # nothing comes between this and the end but the server's own moment
                while self._read_now():
                    pass
        if ending == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._socket.close()
        return self._is_answered()

    async def _read(self) -> bool:
        await trio.lowlevel.wait_readable(self._socket)
        return self._read_now()

    def _read_now(self) -> bool:
        part = self._socket.recv(65536)
        self._received += part
        return bool(part)

    def _is_answered(self) -> bool:
        """Whether a whole message has come, as JSON or as an event; the end of the stream tells nothing more."""
        head, _, body = self._received.partition(b"\r\n\r\n")
        if b"text/event-stream" in head.lower():
            return b"claim_id" in body and b"\n\r\n" in body[body.index(b"claim_id") :]
        return b'"claim_id"' in body and body.endswith(b"}")

    def _request(self) -> bytes:
        params: dict[str, Any] = {
            "name": "claim_next",
            "arguments": {"wait_seconds": 20, "idempotency_key": self._key},
        }
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            f"Authorization: Bearer {self._token}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {self._generation}",
        ]
        if self._generation == GENERATIONS[1]:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": self._generation,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            lines += ["Mcp-Method: tools/call", "Mcp-Name: claim_next"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("ascii")


if __name__ == "__main__":
    main(handover, __doc__ or "", size="runs", default=2000)

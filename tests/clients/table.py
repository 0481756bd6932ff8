"""A real server with one task on its board, which can be killed and started again while a client is connected."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from tests.acceptance.programs import Program, open_program, write_agents
from tests.acceptance.seats import HttpSeat
from tests.clients.story import TASK

RESTARTING_SECONDS = 60.0


@dataclass
class Table:
    """The server of one run."""

    url: str
    """Where the client finds the server: there may be a relay between."""
    token: str
    """Of the worker anna, whom the client plays."""
    lead_token: str
    lead_url: str
    restarts: int = 0
    _kill: trio.Event = field(default_factory=trio.Event)
    _is_back: trio.Event = field(default_factory=trio.Event)

    async def restart(self) -> None:
        """kill -9, and a new process on the same file and port. Returns when it listens."""
        with trio.fail_after(RESTARTING_SECONDS):
            self._kill.set()
            await self._is_back.wait()

    async def faults(self) -> list[str]:
        """What the board itself says against the story having been played to its end."""
        seat = HttpSeat(self.lead_token)
        try:
            task = (await seat.call(self.lead_url, "get_task", task_id=TASK))["task"]
        finally:
            await seat.aclose()
        faults = [] if self.restarts == 1 else [f"the server was restarted {self.restarts} times"]
        if task["status"] != "submitted" or task.get("result") != "Hello, world.":
            faults.append(f"the task is {task['status']} with the result {task.get('result')!r}")
        return faults


@asynccontextmanager
async def open_table(folder: Path) -> AsyncIterator[Table]:
    """A board in this empty folder with the task of the story on it."""
    tokens = write_agents(folder, lead="leader", anna="worker")
    port = _free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    table = Table(url, tokens["anna"], tokens["lead"], url)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_serve, table, folder, port)
        try:
            seat = HttpSeat(table.lead_token)
            await seat.call(
                table.url, "create_task", title="Greet the world", description="In two words, please."
            )
            await seat.aclose()
            yield table
        except BaseException as error:
            failure = error  # raised again outside the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _serve(
    table: Table, folder: Path, port: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """One process, and after it was killed another."""
    settings = {"ROUNDTABLE_PORT": str(port), "ROUNDTABLE_LOG_LEVEL": "debug"}
    async with _logged_program(folder, settings) as program:
        await program.url()
        task_status.started()
        await table._kill.wait()
        program.process.kill()
        await program.process.wait()
    async with _logged_program(folder, settings) as program:
        await program.url()
        table.restarts += 1
        table._is_back.set()
        await trio.sleep_forever()


@asynccontextmanager
async def _logged_program(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Program]:
    async with open_program("serve", folder=folder, settings=settings) as program:
        try:
            yield program
        finally:
            with (folder / "server.log").open("a") as log:
                log.write(f"--- process {program.process.pid}\n{program.out.text}{program.err.text}")


def _free_port() -> int:
    """Below those that systems give to clients: one that tries to come back to a dead server must not meet itself."""
    while True:
        port = random.randint(20_000, 30_000)  # noqa: S311 - nothing depends on it
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

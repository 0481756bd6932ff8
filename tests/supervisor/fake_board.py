"""A board and a model in memory that do what a test tells them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from supervisor.board_client import Identity, TaskState
from supervisor.board_errors import BoardAwayError, ClaimLostError
from supervisor.limits import BOARD_CALL_SECONDS
from supervisor.prompt import Brief
from supervisor.task_run import Chance
from supervisor.worker import Connections


@dataclass
class FakeTask:
    status: str = "open"
    assignee: str | None = None
    result: str | None = None
    needs_help: bool = False
    claims: int = 0
    releases: list[tuple[str, bool, int | None]] = field(default_factory=list)
    """Of each: the reason, whether it counted as failed, and the cool-down that was asked for."""
    messages: list[str] = field(default_factory=list)
    free_for: dict[str, float] = field(default_factory=dict)


Fault = Callable[["FakeBoard"], Awaitable[None]]


class FakeBoard:
    """Holds tasks 1 to n. `faults[tool]` are used up one a call, before the call takes effect; `lost[tool]` after it."""

    def __init__(self, tasks: int = 0) -> None:
        self.tasks = {task_id: FakeTask() for task_id in range(1, tasks + 1)}
        self.calls: list[tuple[str, str]] = []
        self.faults: dict[str, list[Exception | Fault]] = defaultdict(list)
        self.lost: dict[str, int] = defaultdict(int)
        self.open_faults: list[Exception] = []
        self.role = "worker"
        self.connections = 0

    def held(self) -> list[int]:
        return [task_id for task_id, task in self.tasks.items() if task.status == "claimed"]

    def claim(self, task_id: int, name: str) -> None:
        task = self.tasks[task_id]
        task.status, task.assignee = "claimed", name
        task.claims += 1

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[FakeClient]:
        await trio.lowlevel.checkpoint()
        if self.open_faults:
            raise self.open_faults.pop(0)
        self.connections += 1
        try:
            yield FakeClient(self, name)
        finally:
            self.connections -= 1


class FakeClient:
    def __init__(self, board: FakeBoard, name: str) -> None:
        self._board = board
        self._name = name

    async def whoami(self) -> Identity:
        await self._arrive("whoami")
        held = [task_id for task_id, task in self._board.tasks.items() if self._holds(task)]
        await self._leave("whoami")
        return Identity(self._name, self._board.role, tuple(held))

    async def claim_next(self) -> Brief | None:
        await self._arrive("claim_next")
        now = trio.current_time()
        for task_id, task in self._board.tasks.items():
            if task.status == "open" and not task.needs_help and task.free_for.get(self._name, now) <= now:
                self._board.claim(task_id, self._name)
                await self._leave("claim_next")
                return Brief(task_id, f"title {task_id}")
        await self._leave("claim_next")
        return None

    async def submit_result(self, task_id: int, result: str) -> None:
        await self._arrive("submit_result")
        task = self._held_task(task_id)
        task.status, task.result = "submitted", result
        await self._leave("submit_result")

    async def release_task(
        self, task_id: int, reason: str, *, failed: bool = False, cooldown_seconds: int | None = None
    ) -> None:
        await self._arrive("release_task")
        task = self._held_task(task_id)
        task.status, task.assignee = "open", None
        task.releases.append((reason, failed, cooldown_seconds))
        if failed:
            task.free_for[self._name] = trio.current_time() + (cooldown_seconds or 0)
        await self._leave("release_task")

    async def ask_for_help(self, task_id: int, body: str) -> None:
        await self._arrive("ask_for_help")
        task = self._held_task(task_id)
        task.messages.append(body)
        task.needs_help = True
        await self._leave("ask_for_help")

    async def read_task(self, task_id: int) -> TaskState:
        await self._arrive("read_task")
        task = self._board.tasks[task_id]
        return TaskState(task.status, task.assignee, task.result)

    def _holds(self, task: FakeTask) -> bool:
        return task.status == "claimed" and task.assignee == self._name

    def _held_task(self, task_id: int) -> FakeTask:
        task = self._board.tasks[task_id]
        if not self._holds(task):
            raise ClaimLostError("conflict")
        return task

    async def _arrive(self, tool: str) -> None:
        await trio.lowlevel.checkpoint()
        self._board.calls.append((self._name, tool))
        if self._board.faults[tool]:
            fault = self._board.faults[tool].pop(0)
            if isinstance(fault, BaseException):
                raise fault
            await fault(self._board)

    async def _leave(self, tool: str) -> None:
        if self._board.lost[tool]:
            self._board.lost[tool] -= 1
            await trio.sleep(BOARD_CALL_SECONDS)
            raise BoardAwayError(f"{tool}: the reply was lost")


Step = str | BaseException | Callable[[], Awaitable[str]]


class ScriptedModel:
    """Answers call after call as told; the last step serves for all that follow."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps) or ["fine"]
        self.calls: list[float] = []
        self.running = 0
        self.most_running = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ScriptedModel]:
        await trio.lowlevel.checkpoint()
        yield self

    async def ask(self, messages: object) -> str:
        self.calls.append(trio.current_time())
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.lowlevel.checkpoint()
            if isinstance(step, BaseException):
                raise step
            return step if isinstance(step, str) else await step()
        finally:
            self.running -= 1


def taking(seconds: float, answer: str = "fine") -> Step:
    async def step() -> str:
        await trio.sleep(seconds)
        return answer

    return step


CHANCE = Chance(mark=lambda: "m4rk", jitter=lambda: 0.5)


def connections(board: FakeBoard, model: ScriptedModel, name: str = "w") -> Connections:
    return Connections(board=lambda: board.connect(name), model=model.connect)

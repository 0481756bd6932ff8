"""A board and a model in memory that do what a test tells them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import trio

from supervisor.board.errors import BoardAwayError, ClaimLostError
from supervisor.board.protocol import Claim, Held, Identity, Renewal, TaskState
from supervisor.model.completion import Answer
from supervisor.model.prompt import Brief, Message
from supervisor.model.usage import Usage
from supervisor.rules.limits import BOARD_CALL_SECONDS
from supervisor.work.context import Chance
from supervisor.work.worker import Connections


@dataclass
class FakeTask:
    status: str = "open"
    assignee: str | None = None
    result: str | None = None
    needs_help: bool = False
    claims: int = 0
    claim_id: str | None = None
    lease_seconds: float | None = None
    lease_until: float = 0
    expiries: int = 0
    failures: int = 0
    """Expiries and failed releases; a test that updates the task sets it to 0."""
    changed: bool = False
    former: set[str] = field(default_factory=set)
    """Those who have held it."""
    releases: list[tuple[str, bool, int | None]] = field(default_factory=list)
    """Of each: the reason, whether it counted as failed, and the cool-down that was asked for."""
    messages: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    free_for: dict[str, float] = field(default_factory=dict)


Fault = Callable[["FakeBoard"], Awaitable[None]]


class FakeBoard:
    """Holds tasks 1 to n. `faults[tool]` are used up one a call, before the call takes effect; `lost[tool]` after it.

    Claims are leases that run out, claim_ids are fences, keys are remembered, and claim_next waits.
    """

    def __init__(self, tasks: int = 0, lease_seconds: float = 1_800) -> None:
        self.tasks = {task_id: FakeTask() for task_id in range(1, tasks + 1)}
        self.lease_seconds = lease_seconds
        self.calls: list[tuple[str, str]] = []
        self.arrivals: list[tuple[str, float]] = []
        """Who has come when, with a call or to connect, also while the board was away."""
        self.renewals: list[float] = []
        self.faults: dict[str, list[Exception | Fault]] = defaultdict(list)
        self.lost: dict[str, int] = defaultdict(int)
        self.open_faults: list[Exception] = []
        self.role = "worker"
        self.connections = 0
        self.waiting = 0
        self.most_waiting = 0
        self.accepts_claims = True
        self.unreadable: dict[int, BaseException] = {}
        """Tasks that are given, in an answer that breaks whoever reads it, like this."""
        self.is_away = False
        self.answered: dict[tuple[str, str, str], str] = {}
        """What each idempotency key brought: a claim_id or a message."""
        self._claim_ids = count(1)
        self._news = trio.Event()

    def held(self) -> list[int]:
        self.expire()
        return [task_id for task_id, task in self.tasks.items() if task.status == "claimed"]

    def add(self, **fields: object) -> int:
        task_id = len(self.tasks) + 1
        self.tasks[task_id] = FakeTask(**fields)
        self.notify()
        return task_id

    def notify(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def changed(self) -> None:
        """Until a task was added, freed or submitted."""
        await self._news.wait()

    def claim(self, task_id: int, name: str) -> None:
        task = self.tasks[task_id]
        task.status, task.assignee = "claimed", name
        task.claim_id = f"c{next(self._claim_ids)}"
        task.claims += 1
        task.former.add(name)
        self.renew(task)

    def renew(self, task: FakeTask) -> None:
        task.lease_until = trio.current_time() + (task.lease_seconds or self.lease_seconds)

    def expire(self) -> None:
        for task in self.tasks.values():
            if task.status == "claimed" and task.lease_until <= trio.current_time():
                self.free(task)
                task.expiries += 1
                task.failures += 1

    def free(self, task: FakeTask) -> None:
        task.status, task.assignee, task.claim_id = "open", None, None
        self.notify()

    async def news(self, until: float) -> None:
        """Until something was changed, a cool-down or lease has run out, or the time is over."""
        now = trio.current_time()
        moments = [task.lease_until for task in self.tasks.values() if task.status == "claimed"]
        moments += [moment for task in self.tasks.values() for moment in task.free_for.values()]
        with trio.move_on_at(min([until, *(moment for moment in moments if moment > now)])):
            await self._news.wait()

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[FakeClient]:
        await trio.lowlevel.checkpoint()
        self.arrivals.append((name, trio.current_time()))
        if self.is_away:
            raise BoardAwayError("away")
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
        held = [
            Held(task_id, str(task.claim_id))
            for task_id, task in self._board.tasks.items()
            if task.status == "claimed" and task.assignee == self._name
        ]
        await self._leave("whoami")
        return Identity(self._name, self._board.role, tuple(held), int(self._board.lease_seconds))

    async def claim_next(self, *, wait_seconds: int, idempotency_key: str) -> Claim | None:
        await self._arrive("claim_next")
        until = trio.current_time() + wait_seconds
        self._board.waiting += 1
        self._board.most_waiting = max(self._board.most_waiting, self._board.waiting)
        try:
            while True:
                claim = self._claim(idempotency_key)
                if claim is not None or not self._board.accepts_claims or trio.current_time() >= until:
                    break
                await self._board.news(until)
                if self._board.is_away:
                    raise BoardAwayError("away")
                self._board.expire()
        finally:
            self._board.waiting -= 1
        await self._leave("claim_next")
        if claim is not None and claim.task_id in self._board.unreadable:
            raise self._board.unreadable[claim.task_id]
        return claim

    def _claim(self, key: str) -> Claim | None:
        board, now = self._board, trio.current_time()
        if not board.accepts_claims:
            return None
        given = board.answered.get((self._name, "claim_next", key))
        for task_id, task in board.tasks.items():
            if given is not None:
                is_mine = task.claim_id == given
            else:
                is_free = task.free_for.get(self._name, now) <= now
                is_mine = task.status == "open" and not task.needs_help and is_free
                if is_mine:
                    board.claim(task_id, self._name)
                    board.answered[self._name, "claim_next", key] = str(task.claim_id)
            if is_mine:
                brief = Brief(task_id, f"title {task_id}")
                return Claim(str(task.claim_id), brief, task.lease_seconds, task.failures)
        if given is not None:
            raise ClaimLostError("stale_claim")
        return None

    async def renew_claim(self, task_id: int, claim_id: str) -> Renewal:
        await self._arrive("renew_claim")
        self._board.renewals.append(trio.current_time())
        task = self._board.tasks[task_id]
        if task.status == "cancelled":
            return Renewal("cancelled")
        changed = self._held_task(task_id, claim_id).changed
        await self._leave("renew_claim")
        return Renewal("claimed", changed)

    async def submit_result(self, task_id: int, claim_id: str, result: str) -> None:
        await self._arrive("submit_result")
        task = self._held_task(task_id, claim_id)
        task.status, task.result = "submitted", result
        self._board.notify()
        await self._leave("submit_result")

    async def release_task(
        self,
        task_id: int,
        claim_id: str,
        reason: str,
        *,
        failed: bool = False,
        cooldown_seconds: int | None = None,
    ) -> None:
        await self._arrive("release_task")
        task = self._held_task(task_id, claim_id)
        task.releases.append((reason, failed, cooldown_seconds))
        if failed:
            task.failures += 1
            task.free_for[self._name] = trio.current_time() + (cooldown_seconds or 0)
        self._board.free(task)
        await self._leave("release_task")

    async def ask_for_help(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        await self._arrive("ask_for_help")
        task = self._board.tasks[task_id]
        if self._board.answered.setdefault((self._name, "post_message", idempotency_key), body) != body:
            raise ClaimLostError("conflict")
        if body not in task.messages:
            task.messages.append(body)
        task.needs_help = True
        await self._leave("ask_for_help")

    async def report_progress(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        await self._arrive("report_progress")
        if self._board.tasks[task_id].status in {"done", "cancelled"}:
            raise ClaimLostError("conflict")
        if (self._name, "post_message", idempotency_key) not in self._board.answered:
            self._board.answered[self._name, "post_message", idempotency_key] = body
            self._board.tasks[task_id].progress.append(body)
        await self._leave("report_progress")

    async def read_task(self, task_id: int) -> TaskState:
        await self._arrive("read_task")
        task = self._board.tasks[task_id]
        task.changed = False
        lease = None if task.lease_seconds is None else int(task.lease_seconds)
        return TaskState(task.status, task.assignee, task.result, lease)

    def _held_task(self, task_id: int, claim_id: str) -> FakeTask:
        """The task, held by this claim and renewed."""
        self._board.expire()
        task = self._board.tasks[task_id]
        if self._name not in task.former:
            raise ClaimLostError("forbidden")
        if task.status in {"submitted", "done", "cancelled"}:
            raise ClaimLostError("conflict")
        if task.status != "claimed" or task.claim_id != claim_id:
            raise ClaimLostError("stale_claim")
        self._board.renew(task)
        return task

    async def _arrive(self, tool: str) -> None:
        await trio.lowlevel.checkpoint()
        self._board.calls.append((self._name, tool))
        self._board.arrivals.append((self._name, trio.current_time()))
        if self._board.is_away:
            raise BoardAwayError("away")
        if self._board.faults[tool]:
            fault = self._board.faults[tool].pop(0)
            if isinstance(fault, BaseException):
                raise fault
            await fault(self._board)
        self._board.expire()

    async def _leave(self, tool: str) -> None:
        if self._board.lost[tool]:
            self._board.lost[tool] -= 1
            await trio.sleep(BOARD_CALL_SECONDS)
            raise BoardAwayError(f"{tool}: the reply was lost")


USAGE = Usage(100, 20, is_estimated=False)
Step = str | BaseException | Callable[[], Awaitable[str]]


class ScriptedModel:
    """Answers call after call as told; the last step serves for all that follow."""

    def __init__(self, *steps: Step, usage: Usage = USAGE) -> None:
        self._steps = list(steps) or ["fine"]
        self.usage = usage
        self.calls: list[float] = []
        self.asked: list[str] = []
        """The model of each call."""
        self.running = 0
        self.most_running = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ScriptedModel]:
        await trio.lowlevel.checkpoint()
        yield self

    async def ask(self, messages: Sequence[Message], *, model: str) -> Answer:
        self.calls.append(trio.current_time())
        self.asked.append(model)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.lowlevel.checkpoint()
            if isinstance(step, BaseException):
                raise step
            answer = step if isinstance(step, str) else await step()
            return Answer(answer, self.usage)
        finally:
            self.running -= 1


class PickyModel(ScriptedModel):
    """Raises what it is told at certain tasks, by their ids, and does as a ScriptedModel at all others."""

    def __init__(self, errors: Mapping[int, BaseException], *steps: Step) -> None:
        super().__init__(*steps)
        self._errors = errors

    async def ask(self, messages: Sequence[Message], *, model: str) -> Answer:
        found = re.search(r"title (\d+)", messages[-1]["content"])
        error = self._errors.get(int(found[1])) if found else None
        if error is None:
            return await super().ask(messages, model=model)
        self.calls.append(trio.current_time())
        self.asked.append(model)
        await trio.lowlevel.checkpoint()
        raise error


def taking(seconds: float, answer: str = "fine") -> Step:
    async def step() -> str:
        await trio.sleep(seconds)
        return answer

    return step


_marks = count()
CHANCE = Chance(mark=lambda: f"m4rk{next(_marks)}", jitter=lambda: 0.0)


def connections(board: FakeBoard, model: ScriptedModel, name: str = "w") -> Connections:
    return Connections(board=lambda: board.connect(name), model=model.connect)

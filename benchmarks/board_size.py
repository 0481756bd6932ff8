"""Every tool on a small board and on a large one, call by call in turn, in one transaction each.

Without waiting for the disk: that takes as long on either, and would hide what the size of the board costs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.big_board import SEATS, build
from benchmarks.report import Report
from benchmarks.table import LEAD, calls, open_executor, workers
from roundtable.board.clock import system_clock
from roundtable.rules import commands as c
from roundtable.rules.agents import Agent
from roundtable.rules.model import Kind, Status, Verdict
from roundtable.store.execute import Executor

SMALL_TASKS, LARGE_TASKS, QUICK_TASKS = 1_000, 1_000_000, 20_000
WANTED = 2.0
STRIDE = 7_919
"""Steps over the board so that calls hit places all over it."""


class Sized:
    """One of the two boards, and how long each kind of call took on it."""

    def __init__(self, path: Path, tasks: int) -> None:
        build(path, tasks)
        self.tasks = tasks
        self.seats = workers(SEATS)
        self.executor = _opened(path)
        self.seconds: dict[str, list[float]] = {}
        self._clock = system_clock()

    def timed(self, name: str, agent: Agent, command: c.Command[Any]) -> Any:
        """The reply. Raises BoardError."""
        batch = calls(self._clock, [(agent, name.partition(":")[0], command)])
        now = self._clock()
        start = time.perf_counter()
        (outcome,) = self.executor.execute(batch, now).outcomes
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)
        return outcome.unwrap()

    def somewhere(self, step: int) -> int:
        """The id of a task that is done, of another place with each step."""
        task_id = 1 + step * STRIDE % (self.tasks - 100)
        return task_id - task_id % 100 + 10


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    large_tasks, rounds = (QUICK_TASKS, 20) if quick else (LARGE_TASKS, 200)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        start = time.perf_counter()
        boards = (
            Sized(Path(own) / "small.db", SMALL_TASKS),
            Sized(Path(own) / "large.db", large_tasks),
        )
        report.say(f"built in {time.perf_counter() - start:.0f} s")
        for step in range(rounds):
            for play in (_work, _read, _search):
                for board in boards:
                    play(board, step)
        for board in boards:
            board.executor.close()
    small, large = boards
    for name, seconds in small.seconds.items():
        on_small, on_large = median(seconds) * 1e6, median(large.seconds[name]) * 1e6
        report.add(
            f"{name}, {on_small:,.0f} and {on_large:,.0f} us",
            "times",
            [on_large / on_small],
            at_most=None if name.startswith("list_tasks: query") else WANTED,
        )


def _opened(path: Path) -> Executor:
    executor = open_executor(path, workers(SEATS), Executor)
    executor.db.execute("PRAGMA synchronous = OFF")
    return executor


def _work(board: Sized, step: int) -> None:
    """A task from its creation to its end, another that is claimed and given back, and one that is cancelled."""
    seat = board.seats[step % SEATS]
    told: Callable[..., Any] = board.timed
    new = told("create_task", LEAD, c.CreateTask("New", "A new task"))["task_id"]
    told("update_task", LEAD, c.UpdateTask(new, description="A changed task"))
    best = told("claim_next", seat, c.ClaimNext())["task_id"]
    told("release_task", seat, c.ReleaseTask(best))
    told("claim_task", seat, c.ClaimTask(new))
    told("whoami", seat, c.WhoAmI())
    told("renew_claim", seat, c.RenewClaim(new))
    told("post_message", seat, c.PostMessage(new, "Half of it is done.", Kind.PROGRESS))
    told("get_task: one's own", seat, c.GetTask(new))
    told("submit_result", seat, c.SubmitResult(new, "The work itself"))
    told("review_task", LEAD, c.ReviewTask(new, Verdict.ACCEPT))
    causes = tuple(dict.fromkeys(board.somewhere(step + each) for each in range(3)))
    other = told("create_task: depending", LEAD, c.CreateTask("Other", "It depends", depends_on=causes))
    told("cancel_task", LEAD, c.CancelTask(other["task_id"], "Not needed"))


def _read(board: Sized, step: int) -> None:
    told: Callable[..., Any] = board.timed
    seat, name = board.seats[step % SEATS], board.seats[step % SEATS].name
    old = board.somewhere(step)
    told("get_task: an old one", LEAD, c.GetTask(old))
    told("list_agents", LEAD, c.ListAgents())
    page = told("list_tasks", LEAD, c.ListTasks())
    told("list_tasks: next page", LEAD, c.ListTasks(cursor=page["next_cursor"]))
    told("list_tasks: open", LEAD, c.ListTasks(Status.OPEN))
    told("list_tasks: done", LEAD, c.ListTasks(Status.DONE))
    told("list_tasks: claimed", LEAD, c.ListTasks(Status.CLAIMED, limit=5))
    told("list_tasks: assignee", seat, c.ListTasks(assignee=name, limit=5))
    told("list_tasks: open and skill", seat, c.ListTasks(Status.OPEN, required_skill="prose", limit=5))
    told("list_tasks: needs attention", LEAD, c.ListTasks(needs_attention=True, limit=5))
    told("list_tasks: skill, no attention", LEAD, c.ListTasks(required_skill="sql", needs_attention=False))
    told("get_history", LEAD, c.GetHistory())
    told("get_history: newest", LEAD, c.GetHistory(newest_first=True))
    told("get_history: of a task", LEAD, c.GetHistory(old))
    told("get_history: of an agent", LEAD, c.GetHistory(agent=name, newest_first=True))
    told("get_history: of both", LEAD, c.GetHistory(old, name))
    cursor = told("wait_for_updates: leader", LEAD, c.WaitForUpdates())["cursor"]
    told("wait_for_updates: worker", seat, c.WaitForUpdates())
    told("wait_for_updates: since", LEAD, c.WaitForUpdates(cursor, wait_seconds=0))
    told("roundtable://board", LEAD, c.ReadBoard())


def _search(board: Sized, step: int) -> None:
    told: Callable[..., Any] = board.timed
    told("list_tasks: query, a rare word", LEAD, c.ListTasks(query=str(board.somewhere(step))))
    told("list_tasks: query, a common word", LEAD, c.ListTasks(query="harbour"))
    told("list_tasks: query, two words", LEAD, c.ListTasks(query="ships tonnage"))
    told("list_tasks: query, open", LEAD, c.ListTasks(Status.OPEN, query="sources"))

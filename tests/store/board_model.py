"""What the board must answer, written from the contract with dictionaries and without the rules or the store.

Where the contract leaves open which of several reasons is told first, the order is: role, existence, state, who may,
what stands in the way, how many are held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundtable.rules import commands as c
from roundtable.rules.agents import Agent

Fields = dict[str, Any]
FINAL = {"done", "cancelled"}
HOUR_MS = 3_600_000


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def refuse(code: str, when: bool) -> None:
    if when:
        raise Refused(code)


class BoardModel:
    """Tasks by id, who ever held which, and who is to be passed over until when. Time is set from outside."""

    def __init__(self, agents: list[Agent], claims_per_worker: int) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self.claims_per_worker = claims_per_worker
        self.tasks: dict[int, Fields] = {}
        self.held_once: set[tuple[str, int]] = set()
        self.cool_until: dict[tuple[str, int], int] = {}
        self.messages: dict[int, int] = {}
        self.reviews: dict[int, list[str]] = {}
        self.utc_ms = self.board_ms = 0
        self.now = ""
        self._decide: dict[type, Callable[[Agent, Any], Fields]] = {
            c.CreateTask: self._create,
            c.UpdateTask: self._update,
            c.ClaimTask: self._claim,
            c.ClaimNext: self._claim_next,
            c.ReleaseTask: self._release,
            c.PostMessage: self._post,
            c.SubmitResult: self._submit,
            c.ReviewTask: self._review,
            c.CancelTask: self._cancel,
            c.ListTasks: self._list,
            c.GetTask: self._get,
            c.WhoAmI: self._who_am_i,
        }

    def decide(self, caller: Agent, command: c.Command[Any]) -> Fields:
        """Carry the command out and return what its reply must contain. Raises Refused, having changed nothing."""
        return self._decide[type(command)](caller, command)

    def held_by(self, name: str) -> list[int]:
        return [n for n, t in self.tasks.items() if t["status"] == "claimed" and t["assignee"] == name]

    def blocked_by(self, task: Fields) -> list[int]:
        return [cause for cause in task["depends_on"] if self.tasks[cause]["status"] != "done"]

    def _task(self, task_id: int) -> Fields:
        refuse("not_found", task_id not in self.tasks)
        return self.tasks[task_id]

    def _check_plan(self, command: Any, task_id: int | None) -> None:
        if command.assignee is not None:
            refuse("not_found", command.assignee not in self.agents)
            refuse("invalid", self.agents[command.assignee].is_leader)
        causes = command.depends_on or ()
        refuse("not_found", any(cause not in self.tasks for cause in causes))
        refuse("conflict", any(self.tasks[cause]["status"] == "cancelled" for cause in causes))
        refuse("conflict", task_id is not None and any(self._leads_to(cause, task_id) for cause in causes))

    def _leads_to(self, start: int, goal: int) -> bool:
        return start == goal or any(self._leads_to(cause, goal) for cause in self.tasks[start]["depends_on"])

    def _create(self, caller: Agent, command: c.CreateTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        self._check_plan(command, None)
        task_id = max(self.tasks, default=0) + 1
        self.tasks[task_id] = {
            "title": command.title,
            "description": command.description,
            "acceptance_criteria": command.acceptance_criteria,
            "required_skill": command.required_skill,
            "priority": command.priority,
            "depends_on": list(command.depends_on),
            "assigned_to": command.assignee,
            "assignee": None,
            "status": "open",
            "attempt": 0,
            "failures": 0,
            "rejections": 0,
            "attention": set(),
            "result": None,
            "claimed_at": None,
            "created_at": self.now,
            "updated_at": self.now,
            "created_hour": self.utc_ms // HOUR_MS,
        }
        self.messages[task_id] = 0
        self.reviews[task_id] = []
        return {"task_id": task_id, "status": "open"}

    def _update(self, caller: Agent, command: c.UpdateTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        only_open = (command.assignee, command.required_skill, command.depends_on)
        refuse("conflict", task["status"] != "open" and any(value is not None for value in only_open))
        self._check_plan(command, command.task_id)
        named = {
            "title": command.title,
            "description": command.description,
            "acceptance_criteria": command.acceptance_criteria,
            "required_skill": command.required_skill,
            "priority": command.priority,
            "assigned_to": command.assignee,
            "depends_on": None if command.depends_on is None else list(command.depends_on),
        }
        task.update({name: value for name, value in named.items() if value is not None})
        task["attention"] = task["attention"] - {"help_requested"}
        task.update(failures=0, rejections=0)
        return self._written(command.task_id)

    def _claim(self, caller: Agent, command: c.ClaimTask) -> Fields:
        refuse("forbidden", caller.is_leader)
        task = self._task(command.task_id)
        if command.task_id not in self.held_by(caller.name):
            refuse("conflict", task["status"] != "open")
            refuse("forbidden", not self._may_take(caller, task))
            refuse("needs_attention", bool(task["attention"]))
            refuse("blocked", bool(self.blocked_by(task)))
            self._refuse_one_more(caller)
            task.update(status="claimed", assignee=caller.name, claimed_at=self.now, updated_at=self.now)
            task["attempt"] += 1
            self.held_once.add((caller.name, command.task_id))
        return {
            "task_id": command.task_id,
            "attempt": task["attempt"],
            "earlier": self.reviews[command.task_id][::-1],
        }

    def _may_take(self, caller: Agent, task: Fields) -> bool:
        if task["assigned_to"] is not None:
            return bool(task["assigned_to"] == caller.name)
        return task["required_skill"] is None or task["required_skill"] in caller.skills

    def _refuse_one_more(self, caller: Agent) -> None:
        refuse("conflict", len(self.held_by(caller.name)) >= self.claims_per_worker)

    def _claim_next(self, caller: Agent, command: c.ClaimNext) -> Fields:
        del command
        refuse("forbidden", caller.is_leader)
        self._refuse_one_more(caller)
        line = [
            (task["created_hour"] - task["priority"], task["assigned_to"] is None, task_id)
            for task_id, task in self.tasks.items()
            if task["status"] == "open"
            and not task["attention"]
            and not self.blocked_by(task)
            and self._may_take(caller, task)
            and self.cool_until.get((caller.name, task_id), 0) <= self.board_ms
        ]
        if not line:
            return {"task": None}
        return self._claim(caller, c.ClaimTask(min(line)[-1]))

    def _refuse_not_holder(self, caller: Agent, task_id: int) -> None:
        task = self.tasks[task_id]
        if task_id in self.held_by(caller.name):
            return
        refuse("forbidden", (caller.name, task_id) not in self.held_once)
        refuse("conflict", task["status"] in FINAL)
        refuse("conflict", task["status"] == "submitted" and task["assignee"] == caller.name)
        raise Refused("stale_claim")

    def _release(self, caller: Agent, command: c.ReleaseTask) -> Fields:
        task = self._task(command.task_id)
        seconds = 0
        if caller.is_leader:
            refuse("invalid", command.failed)
            refuse("conflict", task["status"] != "claimed")
            seconds = 900
        else:
            self._refuse_not_holder(caller, command.task_id)
            if command.failed:
                seconds = command.cooldown_seconds
        key = (task["assignee"], command.task_id)
        self.cool_until[key] = max(self.cool_until.get(key, 0), self.board_ms + seconds * 1000)
        task.update(status="open", assignee=None, claimed_at=None)
        task["failures"] += command.failed
        return self._written(command.task_id)

    def _post(self, caller: Agent, command: c.PostMessage) -> Fields:
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        concerns = caller.name in {task["assignee"], task["assigned_to"]}
        concerns = concerns or (caller.name, command.task_id) in self.held_once
        if command.kind == "help_request" and concerns:
            task["attention"] = task["attention"] | {"help_requested"}
        if command.kind == "reply" and caller.is_leader:
            task["attention"] = task["attention"] - {"help_requested"}
        self.messages[command.task_id] += 1
        return self._written(command.task_id)

    def _submit(self, caller: Agent, command: c.SubmitResult) -> Fields:
        refuse("forbidden", caller.is_leader)
        task = self._task(command.task_id)
        same = (task["assignee"], task["result"]) == (caller.name, command.result)
        if same and task["status"] in {"submitted", "done"}:
            return {"task_id": command.task_id, "status": task["status"]}
        refuse("invalid", not command.result.strip("\u200b \n"))
        self._refuse_not_holder(caller, command.task_id)
        task.update(status="submitted", result=command.result, claimed_at=None)
        task["attention"] = task["attention"] - {"help_requested"}
        return self._written(command.task_id)

    def _review(self, caller: Agent, command: c.ReviewTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] != "submitted")
        if command.verdict == "accept":
            task.update(status="done")
            return self._written(command.task_id)
        refuse("invalid", command.note is None)
        self.reviews[command.task_id].append(command.note or "")
        if command.keep_assignee:
            task["assigned_to"] = task["assignee"]
        task.update(status="open", assignee=None, result=None)
        task["rejections"] += 1
        return self._written(command.task_id)

    def _cancel(self, caller: Agent, command: c.CancelTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        if task["status"] == "claimed":
            task.update(assignee=None, claimed_at=None)
        task.update(status="cancelled", attention=set())
        return self._written(command.task_id)

    def _written(self, task_id: int) -> Fields:
        self.tasks[task_id]["updated_at"] = self.now
        return {"task_id": task_id, "status": self.tasks[task_id]["status"]}

    def _list(self, caller: Agent, command: c.ListTasks) -> Fields:
        del caller

        def wanted(task: Fields) -> bool:
            holds = task["assignee"] == command.assignee
            planned = task["status"] == "open" and task["assigned_to"] == command.assignee
            return (
                (command.status is None or task["status"] == command.status)
                and (command.assignee is None or holds or planned)
                and (command.required_skill is None or task["required_skill"] == command.required_skill)
                and (command.needs_attention is None or bool(task["attention"]) == command.needs_attention)
            )

        found = sorted((n for n, task in self.tasks.items() if wanted(task)), reverse=True)
        return {"tasks": found[: command.limit]}

    def _get(self, caller: Agent, command: c.GetTask) -> Fields:
        task = self._task(command.task_id)
        return {
            "status": task["status"],
            "messages": self.messages[command.task_id],
            "shows_claim_id": command.task_id in self.held_by(caller.name),
        }

    def _who_am_i(self, caller: Agent, command: c.WhoAmI) -> Fields:
        del command
        return {"held": sorted(self.held_by(caller.name))}

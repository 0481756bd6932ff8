"""What the board must answer, written from the contract with dictionaries and without the rules or the store.

Where the contract leaves open which of several reasons is told first, the order is: role, existence, state, who may,
what stands in the way, how many are held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from roundtable.rules import commands as c
from roundtable.rules.agents import Agent

Fields = dict[str, Any]
FINAL = {"done", "cancelled"}
HOUR_MS = 3_600_000
LEASE_SECONDS = 1_800
COOLDOWN_SECONDS = 900
KEPT_MAX = 3
GRAVEST_FIRST = [
    "attempts_exhausted",
    "rejected_repeatedly",
    "dependency_cancelled",
    "assignee_gone",
    "help_requested",
]


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def is_invisible(text: str) -> bool:
    return not text.strip("\u200b \n")


def refuse(code: str, when: bool) -> None:
    if when:
        raise Refused(code)


@dataclass
class Claim:
    """One claim ever made. `ended` is None, or how it ended; `brought` is the text that was submitted by it."""

    agent: str
    revision_seen: int
    until_ms: int = 0
    lease_seconds: int = 0
    ended: str | None = None
    is_superseded: bool = False
    brought: str | None = None


class BoardModel:
    """Tasks by id, every claim of each by attempt, and who is to be passed over until when.

    Time is set from outside, and so are the claim_ids that the board has given: by them a caller names a claim.
    """

    def __init__(self, agents: list[Agent], claims_per_worker: int) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self.claims_per_worker = claims_per_worker
        self.tasks: dict[int, Fields] = {}
        self.claims: dict[int, list[Claim]] = {}
        self.claim_ids: dict[str, tuple[int, int]] = {}
        self.cooling: dict[tuple[str, int], tuple[int, int]] = {}
        self.kept: dict[tuple[str, int], list[str]] = {}
        self.keys: dict[tuple[str, type, str], tuple[Any, Fields, int]] = {}
        self.last_message: dict[int, int] = {}
        self.messages_made = 0
        self.messages: dict[int, int] = {}
        self.reviews: dict[int, list[str]] = {}
        self.utc_ms = self.board_ms = 0
        self.now = ""
        self._decide: dict[type, Callable[[Agent, Any], Fields]] = {
            c.CreateTask: self._create,
            c.UpdateTask: self._update,
            c.ClaimTask: self._claim,
            c.ClaimNext: self._claim_next,
            c.RenewClaim: self._renew,
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
        """Carry the command out and return what its reply must contain.

        Raises Refused, and then nothing has changed but a lease that was renewed and late work that is kept.
        """
        self.expire()
        refuse("forbidden", caller.name not in self.agents)
        caller = self.agents[caller.name]
        self._renew_lease(caller, command)
        try:
            return self._decide_once(caller, command)
        except Refused:
            if isinstance(command, c.SubmitResult):
                self._keep(caller, command)
            raise

    def _decide_once(self, caller: Agent, command: Any) -> Fields:
        key = getattr(command, "idempotency_key", None)
        if key is None:
            return self._decide[type(command)](caller, command)
        refuse(
            "forbidden",
            caller.is_leader != isinstance(command, c.CreateTask) and not self._is_for_all(command),
        )
        asked = replace(command, idempotency_key=None)
        if isinstance(command, c.ClaimNext):
            asked = c.ClaimNext()
        known = self.keys.get((caller.name, type(command), key))
        if known is not None and known[2] > self.utc_ms - 24 * HOUR_MS:
            refuse("conflict", known[0] != asked)
            if isinstance(command, c.ClaimNext):
                task = self.tasks[known[1]["task_id"]]
                refuse("stale_claim", (task["status"], task["attempt"]) != ("claimed", known[1]["attempt"]))
            return known[1]
        answer = self._decide[type(command)](caller, command)
        if answer != {"task": None}:
            oldest_ms = self.utc_ms - 24 * HOUR_MS
            self.keys = {one: known for one, known in self.keys.items() if known[2] > oldest_ms}
            self.keys[caller.name, type(command), key] = (asked, answer, self.utc_ms)
        return answer

    def _is_for_all(self, command: Any) -> bool:
        return isinstance(command, c.PostMessage)

    # what the board does by itself

    def expire(self) -> None:
        """End the leases that have run out by now, the longest ago first, and the cool-downs."""
        held = [n for n, task in self.tasks.items() if task["status"] == "claimed"]
        for task_id in sorted(held, key=lambda n: (self.claims[n][-1].until_ms, n)):
            claim = self.claims[task_id][-1]
            if claim.until_ms <= self.board_ms:
                self.tasks[task_id]["failures"] += 1
                self._cool(claim.agent, task_id, COOLDOWN_SECONDS)
                self._free(task_id, "expired")
                self._check_failures(task_id)
        self.cooling = {key: cool for key, cool in self.cooling.items() if cool[0] > self.board_ms}

    def restart(self) -> None:
        """The board's clock begins anew, and no more than the whole of anything can remain."""
        for claims in self.claims.values():
            for claim in claims:
                claim.until_ms = min(claim.until_ms, self.board_ms + claim.lease_seconds * 1000)
        for key, (until_ms, seconds) in self.cooling.items():
            self.cooling[key] = (min(until_ms, self.board_ms + seconds * 1000), seconds)
        self.expire()

    def replace_agents(self, agents: list[Agent]) -> None:
        self.expire()
        self.agents = {agent.name: agent for agent in agents}
        for task_id, task in self.tasks.items():
            if task["status"] == "claimed" and task["assignee"] not in self.agents:
                self._free(task_id, "agent_removed")
        for task in self.tasks.values():
            if task["status"] == "open" and task["assigned_to"] is not None:
                is_gone = task["assigned_to"] not in self.agents
                if is_gone != ("assignee_gone" in task["attention"]):
                    task["attention"] = task["attention"] ^ {"assignee_gone"}
                    task["updated_at"] = self.now

    def undo(self, task_id: int, claim_id: str) -> None:
        """The answer with this claim reached nobody."""
        self.expire()
        if self._is_current(task_id, claim_id):
            attempt = self.tasks[task_id]["attempt"]
            self.keys = {
                key: known
                for key, known in self.keys.items()
                if key[1] is not c.ClaimNext
                or (known[1]["task_id"], known[1]["attempt"]) != (task_id, attempt)
            }
            self._free(task_id, "released")

    def _free(self, task_id: int, ended: str) -> None:
        self.claims[task_id][-1].ended = ended
        self.tasks[task_id].update(status="open", assignee=None, claimed_at=None, updated_at=self.now)
        self._check_orphan(task_id)

    def _check_failures(self, task_id: int) -> None:
        task = self.tasks[task_id]
        if task["failures"] >= task["max_attempts"]:
            task["attention"] = task["attention"] | {"attempts_exhausted"}

    def _check_orphan(self, task_id: int) -> None:
        task = self.tasks[task_id]
        if task["status"] == "open" and task["assigned_to"] not in {None, *self.agents}:
            task["attention"] = task["attention"] | {"assignee_gone"}

    def _cool(self, name: str, task_id: int, seconds: int) -> None:
        until_ms = self.board_ms + seconds * 1000
        if until_ms > self.cooling.get((name, task_id), (0, 0))[0]:
            self.cooling[name, task_id] = (until_ms, seconds)

    # claims

    def _is_current(self, task_id: int, claim_id: str | None) -> bool:
        """Whether the claim that is named, if one is, is the one by which the task is held."""
        task = self.tasks[task_id]
        current = (task_id, task["attempt"])
        return task["status"] == "claimed" and (claim_id is None or self.claim_ids.get(claim_id) == current)

    def _renew_lease(self, caller: Agent, command: Any) -> None:
        task_id = getattr(command, "task_id", None)
        if task_id in self.held_by(caller.name) and self._is_current(
            task_id, getattr(command, "claim_id", None)
        ):
            claim = self.claims[task_id][-1]
            claim.lease_seconds = self.tasks[task_id]["lease_seconds"] or LEASE_SECONDS
            claim.until_ms = self.board_ms + claim.lease_seconds * 1000

    def _held_once(self, name: str, task_id: int) -> bool:
        return any(claim.agent == name for claim in self.claims[task_id])

    def _keep(self, caller: Agent, command: c.SubmitResult) -> None:
        task_id = command.task_id
        if (
            task_id not in self.tasks
            or not self._held_once(caller.name, task_id)
            or is_invisible(command.result)
        ):
            return
        kept = self.kept.setdefault((caller.name, task_id), [])
        if command.result not in kept and len(kept) < KEPT_MAX:
            kept.append(command.result)
            self._add_message(task_id)
            self.tasks[task_id]["updated_at"] = self.now

    def _add_message(self, task_id: int) -> None:
        self.messages[task_id] += 1
        self.messages_made += 1
        self.last_message[task_id] = self.messages_made

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
            "max_attempts": command.max_attempts,
            "lease_seconds": command.lease_seconds,
            "revision": 0,
            "attention": set(),
            "result": None,
            "claimed_at": None,
            "created_at": self.now,
            "updated_at": self.now,
            "created_hour": self.utc_ms // HOUR_MS,
        }
        self.claims[task_id] = []
        self.messages[task_id] = 0
        self.reviews[task_id] = []
        return {"task_id": task_id, "status": "open"}

    def _update(self, caller: Agent, command: c.UpdateTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        cleared = set(command.clear)
        refuse("invalid", any(getattr(command, name) is not None for name in cleared))
        only_open = {name for name in ("assignee", "required_skill", "depends_on") if name in cleared}
        only_open |= {
            n for n in ("assignee", "required_skill", "depends_on") if getattr(command, n) is not None
        }
        refuse("conflict", task["status"] != "open" and bool(only_open))
        self._check_plan(command, command.task_id)
        named = {
            "title": command.title,
            "description": command.description,
            "acceptance_criteria": command.acceptance_criteria,
            "required_skill": command.required_skill,
            "priority": command.priority,
            "assigned_to": command.assignee,
            "depends_on": None if command.depends_on is None else list(command.depends_on),
            "max_attempts": command.max_attempts,
            "lease_seconds": command.lease_seconds,
        }
        task.update({name: value for name, value in named.items() if value is not None})
        for name in cleared:
            task["assigned_to" if name == "assignee" else str(name)] = [] if name == "depends_on" else None
        settled = {"help_requested", "attempts_exhausted", "rejected_repeatedly"}
        settled |= {"dependency_cancelled"} if "depends_on" in only_open else set()
        settled |= {"assignee_gone"} if "assignee" in only_open else set()
        task["attention"] = task["attention"] - settled
        task.update(failures=0, rejections=0, revision=task["revision"] + 1)
        for claim in self.claims[command.task_id]:
            claim.is_superseded |= claim.ended is not None
        self._check_orphan(command.task_id)
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
            seconds = task["lease_seconds"] or LEASE_SECONDS
            until_ms = self.board_ms + seconds * 1000
            self.claims[command.task_id].append(Claim(caller.name, task["revision"], until_ms, seconds))
        self.claims[command.task_id][-1].revision_seen = task["revision"]
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
            and (caller.name, task_id) not in self.cooling
        ]
        if not line:
            return {"task": None}
        return self._claim(caller, c.ClaimTask(min(line)[-1]))

    def _refuse_not_holder(self, caller: Agent, task_id: int, claim_id: str | None) -> None:
        task = self.tasks[task_id]
        if task_id in self.held_by(caller.name) and self._is_current(task_id, claim_id):
            return
        refuse("forbidden", not self._held_once(caller.name, task_id))
        refuse("conflict", task["status"] in FINAL)
        refuse("conflict", task["status"] == "submitted" and task["assignee"] == caller.name)
        raise Refused("stale_claim")

    def _renew(self, caller: Agent, command: c.RenewClaim) -> Fields:
        refuse("forbidden", caller.is_leader)
        task = self._task(command.task_id)
        claims = self.claims[command.task_id]
        last = (command.task_id, len(claims))
        names_last = command.claim_id is None or self.claim_ids.get(command.claim_id) == last
        if task["status"] == "cancelled" and claims and claims[-1].agent == caller.name and names_last:
            return {"task_id": command.task_id, "status": "cancelled"}
        self._refuse_not_holder(caller, command.task_id, command.claim_id)
        return {
            "task_id": command.task_id,
            "status": "claimed",
            "changed": claims[-1].revision_seen < task["revision"],
            "last_message_id": self.last_message.get(command.task_id),
        }

    def _release(self, caller: Agent, command: c.ReleaseTask) -> Fields:
        task = self._task(command.task_id)
        seconds = 0
        if caller.is_leader:
            refuse("invalid", command.failed)
            refuse("conflict", task["status"] != "claimed")
            refuse("stale_claim", not self._is_current(command.task_id, command.claim_id))
            seconds = COOLDOWN_SECONDS
        else:
            self._refuse_not_holder(caller, command.task_id, command.claim_id)
            if command.failed:
                seconds = command.cooldown_seconds
        self._cool(task["assignee"], command.task_id, seconds)
        self._free(command.task_id, "forced" if caller.is_leader else "released")
        if command.failed:
            task["failures"] += 1
            self._check_failures(command.task_id)
        return self._written(command.task_id)

    def _post(self, caller: Agent, command: c.PostMessage) -> Fields:
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        concerns = caller.name in {task["assignee"], task["assigned_to"]}
        concerns = concerns or self._held_once(caller.name, command.task_id)
        if command.kind == "help_request" and concerns:
            task["attention"] = task["attention"] | {"help_requested"}
        if command.kind == "reply" and caller.is_leader:
            task["attention"] = task["attention"] - {"help_requested"}
        self._add_message(command.task_id)
        return self._written(command.task_id)

    def _submit(self, caller: Agent, command: c.SubmitResult) -> Fields:
        refuse("forbidden", caller.is_leader)
        task = self._task(command.task_id)
        claims = self.claims[command.task_id]
        meant = self._meant(caller, command)
        if meant is not None and meant.brought == command.result:
            return {"task_id": command.task_id, "status": task["status"]}
        refuse("invalid", is_invisible(command.result))
        last = (command.task_id, len(claims))
        is_late = (
            task["status"] == "open"
            and bool(claims)
            and (claims[-1].agent, claims[-1].ended) == (caller.name, "expired")
            and not claims[-1].is_superseded
            and (command.claim_id is None or self.claim_ids.get(command.claim_id) == last)
        )
        if not is_late:
            self._refuse_not_holder(caller, command.task_id, command.claim_id)
        claims[-1].ended = "submitted"
        claims[-1].brought = command.result
        task.update(status="submitted", assignee=caller.name, result=command.result, claimed_at=None)
        task["attention"] = task["attention"] - {"help_requested", "attempts_exhausted"}
        return self._written(command.task_id)

    def _meant(self, caller: Agent, command: c.SubmitResult) -> Claim | None:
        """The caller's claim that its submit speaks of."""
        claims = self.claims[command.task_id]
        if command.claim_id is not None:
            task_id, attempt = self.claim_ids.get(command.claim_id, (0, 0))
            own = task_id == command.task_id and claims[attempt - 1].agent == caller.name
            return claims[attempt - 1] if own else None
        return next((claim for claim in reversed(claims) if claim.agent == caller.name), None)

    def _review(self, caller: Agent, command: c.ReviewTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] != "submitted")
        if command.verdict == "accept":
            task.update(status="done", attention=frozenset())
            return self._written(command.task_id)
        refuse("invalid", command.note is None)
        self.reviews[command.task_id].append(command.note or "")
        if command.keep_assignee:
            task["assigned_to"] = task["assignee"]
        task.update(status="open", assignee=None, result=None)
        task["rejections"] += 1
        if task["rejections"] >= 3:
            task["attention"] = task["attention"] | {"rejected_repeatedly"}
        self._check_orphan(command.task_id)
        return self._written(command.task_id)

    def _cancel(self, caller: Agent, command: c.CancelTask) -> Fields:
        refuse("forbidden", not caller.is_leader)
        task = self._task(command.task_id)
        refuse("conflict", task["status"] in FINAL)
        if task["status"] == "claimed":
            task.update(assignee=None, claimed_at=None)
            self.claims[command.task_id][-1].ended = "cancelled"
        task.update(status="cancelled", attention=set())
        for other in self.tasks.values():
            if other["status"] == "open" and command.task_id in other["depends_on"]:
                other["attention"] = other["attention"] | {"dependency_cancelled"}
                other["updated_at"] = self.now
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
        if command.task_id in self.held_by(caller.name):
            self.claims[command.task_id][-1].revision_seen = task["revision"]
        return {
            "status": task["status"],
            "messages": self.messages[command.task_id],
            "shows_claim_id": command.task_id in self.held_by(caller.name),
        }

    def _who_am_i(self, caller: Agent, command: c.WhoAmI) -> Fields:
        del command
        return {"held": sorted(self.held_by(caller.name))}

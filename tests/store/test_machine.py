"""The board against a model of the contract: whatever is asked, in whatever order, across restarts."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from board_model import FINAL, BoardModel, Refused
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scripted_store import Store

from roundtable.rules import commands as c
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.errors import invalid
from roundtable.rules.model import Kind, Status, Verdict
from roundtable.store import audit

LEAD = Agent("lead", Role.LEADER)
WORKERS = [
    Agent("ann", Role.WORKER, ("python",)),
    Agent("bob", Role.WORKER, ("python", "sql")),
    Agent("cy", Role.WORKER),
    Agent("dee", Role.WORKER, ("sql",)),
]
EVERYBODY = [LEAD, *WORKERS]
CLAIMS_PER_WORKER = 2
UNKNOWN_ID = 99

REPLAYED = [
    "title",
    "description",
    "acceptance_criteria",
    "required_skill",
    "priority",
    "depends_on",
    "assigned_to",
    "assignee",
    "status",
    "attempt",
    "failures",
    "rejections",
    "max_attempts",
    "attention",
    "result",
    "claimed_at",
    "created_at",
]
MODELLED = [name for name in REPLAYED if name != "max_attempts"] + ["updated_at"]

optional_skills = st.sampled_from([None, None, "python", "sql", "zig"])
optional_assignees = st.sampled_from([None, None, None, "ann", "bob", "cy", "lead", "nobody"])
priorities = st.integers(-3, 3)
mostly_the_leader = st.sampled_from([LEAD] * 7 + WORKERS[:1])
mostly_workers = st.sampled_from(WORKERS * 3 + [LEAD])
more_to_come = st.booleans()


class Board(RuleBasedStateMachine):
    """Each rule makes a call; calls gather in a batch until one of them ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="board-machine-"))
        self.store = Store(
            self.folder / "b.db", claims_per_worker=CLAIMS_PER_WORKER, directory=Directory(EVERYBODY)
        )
        # every step is a transaction, and losing power is not what this tests
        self.store.executor.db.execute("PRAGMA synchronous = OFF")
        self.model = BoardModel(EVERYBODY, CLAIMS_PER_WORKER)
        self.batch: list[tuple[Any, Any]] = []
        self.audited: list[tuple[str, str, int | None, str]] = []
        self.replayed: dict[int, dict[str, Any]] = {}
        self.last_event = 0
        self.finals: dict[int, dict[str, Any]] = {}
        self.attempts: dict[int, int] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # the calls

    def say(self, caller: Agent, command: c.Command[Any], more: bool) -> None:
        now = self.store.clock()
        self.model.utc_ms, self.model.board_ms, self.model.now = now.utc_ms, now.board_ms, now.text
        try:
            expected: Any = self.model.decide(caller, command)
            outcome = "ok"
        except Refused as refused:
            expected = outcome = refused.code
        call = self.store.call(caller, command)
        self.audited.append((caller.name, call.tool, call.task_id, outcome))
        self.batch.append((call, expected))
        if not more:
            self.end_batch()

    def end_batch(self) -> None:
        batch, self.batch = self.batch, []
        executed = self.store.run(*(call for call, _ in batch))
        for (call, expected), outcome in zip(batch, executed.outcomes, strict=True):
            told = outcome.error.code.value if outcome.error else seen(call.command, outcome.reply)
            assert told == expected, (call.caller.name, call.command)

    def pick(self, data: st.DataObject, *statuses: str) -> int:
        """A task, mostly one in such a status."""
        fitting = [n for n, task in self.model.tasks.items() if task["status"] in statuses]
        return data.draw(st.sampled_from(fitting * 4 + list(self.model.tasks) + [UNKNOWN_ID]), label="task")

    def pick_holder(self, data: st.DataObject, task_id: int) -> Agent:
        """An agent, mostly the one that holds the task or held it."""
        near = [agent for agent in WORKERS if (agent.name, task_id) in self.model.held_once]
        near += [agent for agent in WORKERS if task_id in self.model.held_by(agent.name)] * 6
        return data.draw(st.sampled_from(near * 2 + EVERYBODY), label="caller")

    def pick_causes(self, data: st.DataObject) -> tuple[int, ...]:
        known = st.sampled_from([*self.model.tasks, *self.model.tasks, UNKNOWN_ID])
        return tuple(data.draw(st.lists(known, max_size=3, unique=True), label="depends_on"))

    @initialize(first=optional_skills, second=optional_skills)
    def begin_with_tasks(self, first: str | None, second: str | None) -> None:
        self.say(LEAD, c.CreateTask("one", "D", required_skill=first), more=True)
        self.say(LEAD, c.CreateTask("two", "D", required_skill=second), more=False)

    @rule(
        data=st.data(),
        caller=mostly_the_leader,
        skill=optional_skills,
        assignee=optional_assignees,
        priority=priorities,
        more=more_to_come,
    )
    def create(self, data, caller, skill, assignee, priority, more) -> None:
        command = c.CreateTask("T", "D", "A", skill, assignee, priority, self.pick_causes(data))
        self.say(caller, command, more)

    @rule(
        data=st.data(),
        caller=mostly_the_leader,
        title=st.sampled_from([None, "new"]),
        skill=optional_skills,
        assignee=optional_assignees,
        priority=st.none() | priorities,
        plan=st.booleans(),
        more=more_to_come,
    )
    def update(self, data, caller, title, skill, assignee, priority, plan, more) -> None:
        task_id = self.pick(data, "open", "claimed")
        named: dict[str, Any] = {"title": title, "priority": priority}
        if plan:
            named |= {"required_skill": skill, "assignee": assignee, "depends_on": self.pick_causes(data)}
        self.say(caller, c.UpdateTask(task_id, **named), more)

    @rule(data=st.data(), caller=mostly_workers, more=more_to_come)
    def claim_task(self, data, caller, more) -> None:
        self.say(caller, c.ClaimTask(self.pick(data, "open")), more)

    @rule(caller=mostly_workers, more=more_to_come)
    def claim_next(self, caller, more) -> None:
        self.say(caller, c.ClaimNext(), more)

    @rule(
        data=st.data(),
        failed=st.booleans(),
        cooldown=st.sampled_from([0, 60, 900, 86_400]),
        more=more_to_come,
    )
    def release(self, data, failed, cooldown, more) -> None:
        task_id = self.pick(data, "claimed")
        self.say(self.pick_holder(data, task_id), c.ReleaseTask(task_id, None, failed, cooldown), more)

    @rule(data=st.data(), kind=st.sampled_from(Kind), more=more_to_come)
    def post(self, data, kind, more) -> None:
        task_id = self.pick(data, "open", "claimed", "submitted")
        caller = LEAD if kind is Kind.REPLY else self.pick_holder(data, task_id)
        self.say(caller, c.PostMessage(task_id, "text", kind), more)

    @rule(data=st.data(), result=st.sampled_from(["a", "a", "b", "\u200b \n"]), more=more_to_come)
    def submit(self, data, result, more) -> None:
        task_id = self.pick(data, "claimed", "submitted")
        self.say(self.pick_holder(data, task_id), c.SubmitResult(task_id, result), more)

    @rule(
        data=st.data(),
        caller=mostly_the_leader,
        verdict=st.sampled_from(Verdict),
        note=st.sampled_from(["why", "why", None]),
        keep=st.booleans(),
        more=more_to_come,
    )
    def review(self, data, caller, verdict, note, keep, more) -> None:
        self.say(caller, c.ReviewTask(self.pick(data, "submitted"), verdict, note, keep), more)

    @precondition(lambda self: sum(task["status"] not in FINAL for task in self.model.tasks.values()) > 2)
    @rule(data=st.data(), caller=mostly_the_leader, more=more_to_come)
    def cancel(self, data, caller, more) -> None:
        self.say(caller, c.CancelTask(self.pick(data, "open", "claimed", "submitted"), "r"), more)

    @rule(
        caller=st.sampled_from(EVERYBODY),
        status=st.none() | st.sampled_from(Status),
        assignee=optional_assignees,
        skill=optional_skills,
        attention=st.sampled_from([None, None, True, False]),
        limit=st.sampled_from([1, 50]),
        more=more_to_come,
    )
    def list_tasks(self, caller, status, assignee, skill, attention, limit, more) -> None:
        self.say(caller, c.ListTasks(status, assignee, skill, attention, limit), more)

    @rule(data=st.data(), caller=st.sampled_from(EVERYBODY), more=more_to_come)
    def look_closer(self, data, caller, more) -> None:
        self.say(caller, c.GetTask(self.pick(data, "claimed")), more=True)
        self.say(caller, c.WhoAmI(), more)

    @rule(caller=st.sampled_from(EVERYBODY))
    def send_nonsense(self, caller) -> None:
        refusal = c.RecordRefusal(invalid("no"), task_id=None)
        self.audited.append((caller.name, "nonsense", None, "invalid"))
        self.batch.append((self.store.call(caller, refusal, tool="nonsense"), "invalid"))
        self.end_batch()

    @rule(seconds=st.sampled_from([0.001, 60, 900, 3_600, 90_000]))
    def let_time_pass(self, seconds) -> None:
        self.end_batch()
        self.store.clock.pass_seconds(seconds)

    @rule()
    def restart(self) -> None:
        self.end_batch()
        self.store.reopen()
        self.store.executor.db.execute("PRAGMA synchronous = OFF")

    # what holds after every batch

    def present(self) -> dict[int, dict[str, Any]]:
        db = self.store.executor.db
        columns = [name for name in REPLAYED if name not in {"depends_on", "attention"}] + ["updated_at"]
        tasks: dict[int, dict[str, Any]] = {}
        for task_id, *values in db.execute(f"SELECT task_id, {', '.join(columns)} FROM tasks"):
            tasks[task_id] = dict(zip(columns, values, strict=True)) | {"depends_on": [], "attention": set()}
        for task_id, cause in db.execute(
            "SELECT task_id, depends_on FROM dependencies ORDER BY task_id, position"
        ):
            tasks[task_id]["depends_on"].append(cause)
        for task_id, reason in db.execute("SELECT task_id, reason FROM attention"):
            tasks[task_id]["attention"].add(reason)
        return tasks

    @invariant()
    def the_tasks_are_those_of_the_model(self) -> None:
        if self.batch:
            return
        present = self.present()
        assert present.keys() == self.model.tasks.keys()
        for task_id, task in present.items():
            for name in MODELLED:
                assert task[name] == self.model.tasks[task_id][name], (task_id, name)
            held = task["status"] in {"claimed", "submitted", "done"}
            assert held or task["assignee"] is None or task["status"] == "cancelled"
            assert (task["assignee"] is not None) >= held
            assert task["attempt"] >= self.attempts.get(task_id, 0)
            self.attempts[task_id] = task["attempt"]
            if task["status"] in FINAL:
                assert self.finals.setdefault(task_id, task) == task

    @invariant()
    def every_held_task_has_one_claim_and_no_other_task_has_any(self) -> None:
        if self.batch:
            return
        db = self.store.executor.db
        current = db.execute(
            "SELECT task_id, agent FROM claims WHERE ended_at IS NULL ORDER BY task_id"
        ).fetchall()
        held = db.execute(
            "SELECT task_id, assignee FROM tasks WHERE status = 'claimed' ORDER BY task_id"
        ).fetchall()
        assert current == held
        made = dict(db.execute("SELECT task_id, count(*) FROM claims GROUP BY task_id"))
        assert made == {
            task_id: task["attempt"] for task_id, task in self.model.tasks.items() if task["attempt"]
        }
        for name in {agent for _, agent in current}:
            assert sum(agent == name for _, agent in current) <= CLAIMS_PER_WORKER

    @invariant()
    def what_is_kept_for_speed_agrees_with_what_it_is_kept_from(self) -> None:
        if self.batch:
            return
        for task_id, waits, needs in self.store.executor.db.execute(
            "SELECT task_id, open_dependencies, needs_attention FROM tasks"
        ):
            task = self.model.tasks[task_id]
            assert waits == len(self.model.blocked_by(task))
            assert needs == ("help_requested" if task["attention"] else None)

    @invariant()
    def history_replayed_gives_every_task(self) -> None:
        if self.batch:
            return
        for event_id, task_id, event, changes in self.store.executor.db.execute(
            "SELECT event_id, task_id, event, changes FROM history WHERE event_id > ? ORDER BY event_id",
            (self.last_event,),
        ):
            self.last_event = event_id
            if event == "created":
                self.replayed[task_id] = dict.fromkeys(REPLAYED) | {"depends_on": [], "attention": set()}
            task = self.replayed[task_id]
            for name, (old, new) in json.loads(changes).items():
                if event in {"attention_set", "attention_cleared"}:
                    task["attention"] = task["attention"] - {old} | ({new} if new else set())
                elif name in task:
                    assert event == "created" or task[name] == old, (event, name)
                    task[name] = new
        present = self.present()
        assert self.replayed.keys() == present.keys()
        for task_id, task in self.replayed.items():
            assert task == {name: present[task_id][name] for name in REPLAYED}, task_id

    @invariant()
    def every_call_has_its_row_in_order(self) -> None:
        if self.batch:
            return
        db = self.store.executor.db
        found = db.execute("SELECT agent, tool, task_id, outcome FROM audit_log ORDER BY audit_id").fetchall()
        assert found == self.audited
        assert audit.first_break(db) is None


def seen(command: c.Command[Any], reply: Any) -> Any:
    """Of a reply, what the model foretells."""
    match command:
        case c.ClaimTask() | c.ClaimNext() if reply.get("task") is None:
            return reply
        case c.ClaimTask() | c.ClaimNext():
            assert reply["claim_id"]
            assert reply["task"]["claim_id"] == reply["claim_id"]
            return {
                "task_id": reply["task_id"],
                "attempt": reply["attempt"],
                "earlier": [earlier["note"] for earlier in reply["earlier"]],
            }
        case c.ListTasks():
            return {"tasks": [row["task_id"] for row in reply["tasks"]]}
        case c.GetTask():
            return {
                "status": reply["task"]["status"],
                "messages": len(reply["messages"]),
                "shows_claim_id": "claim_id" in reply["task"],
            }
        case c.WhoAmI():
            return {"held": [held["task_id"] for held in reply["tasks"]]}
        case _:
            return {"task_id": reply["task_id"], "status": reply["status"]}


Board.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.spec(
    "TASK-1", "TASK-4", "TASK-5", "TASK-6", "BOARD-6", "AUDIT-1", "HIST-1", "HIST-2", "TOOL-17", "TOOL-18",
    "CLAIM-1", "CLAIM-2", "CLAIM-3", "DEP-2", "ATTN-1", "ATTN-2", "ATTN-3", "ATTN-4",
)  # fmt: skip
class TestBoard(Board.TestCase):
    """Whatever is asked is answered as the contract says, and history and audit tell all of it."""

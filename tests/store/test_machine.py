"""The board against a model of the contract: whatever is asked, in whatever order, across restarts."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from board_model import FINAL, GRAVEST_FIRST, BoardModel, Refused
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scripted_store import Store

from roundtable.rules import commands as c
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.errors import invalid
from roundtable.rules.model import Clearable, Kind, Status, Verdict
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
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Every step is a transaction, and losing power is not what this tests."""

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
    "lease_seconds",
    "attention",
    "result",
    "claimed_at",
    "created_at",
]
MODELLED = [*REPLAYED, "revision", "updated_at"]

optional_skills = st.sampled_from([None, None, "python", "sql", "zig"])
optional_assignees = st.sampled_from([None, None, None, "ann", "bob", "cy", "lead", "nobody"])
priorities = st.integers(-3, 3)
mostly_the_leader = st.sampled_from([LEAD] * 7 + WORKERS[:1])
mostly_workers = st.sampled_from(WORKERS * 3 + [LEAD])
more_to_come = st.booleans()
mostly_no_key = st.sampled_from([None] * 5 + ["k1", "k2"])
leases = st.sampled_from([None, None, None, 60, 7_200])


class Board(RuleBasedStateMachine):
    """Each rule makes a call; calls gather in a batch until one of them ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="board-machine-", dir=IN_MEMORY))
        self.store = Store(
            self.folder / "b.db", claims_per_worker=CLAIMS_PER_WORKER, directory=Directory(EVERYBODY)
        )
        self.model = BoardModel(EVERYBODY, CLAIMS_PER_WORKER)
        self.batch: list[tuple[Any, Any]] = []
        self.audited: list[tuple[str, str, int | None, str, int]] = []
        self.calls = 0
        self.time_has_passed = False
        self.empty_waits: Counter[str] = Counter()
        self.replayed: dict[int, dict[str, Any]] = {}
        self.last_event = 0
        self.finals: dict[int, dict[str, Any]] = {}
        self.attempts: dict[int, int] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # the calls

    def say(self, caller: Agent, command: c.Command[Any], more: bool) -> None:
        self.tell_time()
        try:
            expected: Any = self.model.decide(caller, command)
            outcome = "ok"
        except Refused as refused:
            expected = outcome = refused.code
        call = self.store.call(caller, command)
        self.calls += 1
        if getattr(command, "waits", False) and expected == {"task": None}:
            self.empty_waits[caller.name] += 1  # as the board does, which then says nothing to the log
        else:
            call = dataclasses.replace(call, empty_waits=self.empty_waits.pop(caller.name, 0))
            brought = expected.get("task_id") if isinstance(expected, dict) else None
            task_id = call.task_id or brought
            self.audited.append((caller.name, call.tool, task_id, outcome, call.empty_waits))
        self.batch.append((call, expected))
        if not more:
            self.end_batch()

    def tell_time(self) -> None:
        now = self.store.clock()
        self.model.utc_ms, self.model.board_ms, self.model.now = now.utc_ms, now.board_ms, now.text

    def end_batch(self) -> None:
        self.tell_time()
        self.model.expire()
        batch, self.batch = self.batch, []
        executed = self.store.run(*(call for call, _ in batch))
        self.time_has_passed = False
        for (call, expected), outcome in zip(batch, executed.outcomes, strict=True):
            told = outcome.error.code.value if outcome.error else seen(call.command, outcome.reply)
            assert told == expected, (call.caller.name, call.command)
        for claim_id, task_id, attempt in self.store.executor.db.execute(
            "SELECT claim_id, task_id, attempt FROM claims"
        ):
            self.model.claim_ids[claim_id] = (task_id, attempt)

    def pick_claim_id(self, data: st.DataObject, task_id: int) -> str | None:
        """Mostly none; else one of this task, present or old, of another, or of none."""
        own = sorted(one for one, (of_task, _) in self.model.claim_ids.items() if of_task == task_id)
        last = [one for one in own if self.model.claim_ids[one][1] == len(self.model.claims[task_id])]
        anything = [*own, *sorted(self.model.claim_ids), "claim-of-nobody"]
        kinds = [[None], [None], [None], last or [None], last or [None], own or [None], anything]
        return data.draw(st.sampled_from(data.draw(st.sampled_from(kinds))), label="claim_id")

    def pick(self, data: st.DataObject, *statuses: str) -> int:
        """A task, mostly one in such a status."""
        fitting = [n for n, task in self.model.tasks.items() if task["status"] in statuses]
        return data.draw(st.sampled_from(fitting * 4 + list(self.model.tasks) + [UNKNOWN_ID]), label="task")

    def pick_holding(self, data: st.DataObject) -> tuple[Agent, int]:
        """An agent and a task, mostly one that it holds or at least once held."""
        holding = [(agent, n) for agent in WORKERS for n in self.model.held_by(agent.name)]
        once = [
            (agent, n)
            for agent in WORKERS
            for n, claims in self.model.claims.items()
            if any(claim.agent == agent.name for claim in claims)
        ]
        anything = [(agent, n) for agent in EVERYBODY for n in (*self.model.tasks, UNKNOWN_ID)]
        pairs = data.draw(
            st.sampled_from([holding or once or anything] * 5 + [once or anything] * 2 + [anything])
        )
        return data.draw(
            st.sampled_from(sorted(pairs, key=lambda pair: (pair[1], pair[0].name))), label="who, what"
        )

    def pick_causes(self, data: st.DataObject) -> tuple[int, ...]:
        sane = [n for n, task in self.model.tasks.items() if task["status"] != "cancelled"] or [UNKNOWN_ID]
        known = data.draw(st.sampled_from([sane] * 5 + [[*self.model.tasks, UNKNOWN_ID]]))
        count = data.draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
        return tuple(
            data.draw(st.lists(st.sampled_from(known), max_size=count, unique=True), label="depends_on")
        )

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
        lease=leases,
        max_attempts=st.sampled_from([3, 3, 1]),
        key=mostly_no_key,
        more=more_to_come,
    )
    def create(self, data, caller, skill, assignee, priority, lease, max_attempts, key, more) -> None:
        causes = self.pick_causes(data)
        self.say(
            caller,
            c.CreateTask("T", "D", "A", skill, assignee, priority, causes, lease, max_attempts, key),
            more,
        )

    @rule(key=mostly_no_key, more=more_to_come)
    def create_again(self, key, more) -> None:
        for _ in range(2):
            self.say(LEAD, c.CreateTask("again", "D", idempotency_key=key), more=True)
        self.say(LEAD, c.WhoAmI(), more)

    @rule(
        data=st.data(),
        caller=mostly_the_leader,
        title=st.sampled_from([None, "new"]),
        skill=optional_skills,
        assignee=optional_assignees,
        priority=st.none() | priorities,
        plan=st.booleans(),
        lease=leases,
        max_attempts=st.sampled_from([None, None, 1, 2]),
        clear=st.lists(st.sampled_from(Clearable), max_size=2, unique=True),
        more=more_to_come,
    )
    def update(
        self, data, caller, title, skill, assignee, priority, plan, lease, max_attempts, clear, more
    ) -> None:
        tasks = self.model.tasks.items()
        counted = [n for n, task in tasks if task["failures"] or task["rejections"] or task["attention"]]
        task_id = data.draw(st.sampled_from([self.pick(data, "open", "claimed")] * 2 + counted))
        named: dict[str, Any] = {"title": title, "priority": priority, "max_attempts": max_attempts}
        named |= {"lease_seconds": lease, "clear": tuple(clear)}
        if plan:
            named |= {"required_skill": skill, "assignee": assignee, "depends_on": self.pick_causes(data)}
        self.say(caller, c.UpdateTask(task_id, **named), more)

    @rule(data=st.data(), caller=mostly_workers, more=more_to_come)
    def claim_task(self, data, caller, more) -> None:
        blocked = [n for n, task in self.model.tasks.items() if self.model.blocked_by(task)]
        task_id = self.pick(data, "open")
        self.say(caller, c.ClaimTask(data.draw(st.sampled_from([task_id] * 2 + blocked))), more)

    @rule(caller=mostly_workers, key=mostly_no_key, waits=st.booleans(), more=more_to_come)
    def claim_next(self, caller, key, waits, more) -> None:
        self.say(caller, c.ClaimNext(key, waits=waits), more)

    @rule(caller=st.sampled_from(WORKERS), key=st.sampled_from(["k1", "k2"]), more=more_to_come)
    def claim_and_claim_again(self, caller, key, more) -> None:
        self.say(caller, c.ClaimNext(key), more=True)
        self.say(caller, c.ClaimNext(key, wait_seconds=20), more)

    @rule(data=st.data())
    def hang_up(self, data) -> None:
        """A claim is undone whose answer reached nobody, or was it an old one?"""
        self.end_batch()
        if self.model.claim_ids:
            held = [
                one for one, where in self.model.claim_ids.items() if self.model._is_current(where[0], one)
            ]
            claim_id = data.draw(st.sampled_from(sorted(held or self.model.claim_ids)), label="claim_id")
            task_id, attempt = self.model.claim_ids[claim_id]
            caller = next(one for one in WORKERS if one.name == self.model.claims[task_id][attempt - 1].agent)
            self.model.undo(task_id, claim_id)
            self.store.run(self.store.call(caller, c.UndoClaim(task_id, claim_id), "claim_next"))

    @rule(data=st.data(), more=more_to_come)
    def renew(self, data, more) -> None:
        caller, task_id = self.pick_holding(data)
        self.say(caller, c.RenewClaim(task_id, self.pick_claim_id(data, task_id)), more)

    @rule(data=st.data(), seconds=st.sampled_from([1_799, 1_800, 1_801]), changes=st.booleans())
    def be_late(self, data, seconds, changes) -> None:
        caller, task_id = self.pick_holding(data)
        claim_id = self.pick_claim_id(data, task_id)
        self.end_batch()
        self.store.clock.pass_seconds(seconds)
        if changes:
            self.say(data.draw(st.sampled_from(EVERYBODY)), c.UpdateTask(task_id, title="late"), more=True)
        self.say(
            caller,
            c.SubmitResult(task_id, data.draw(st.sampled_from(["a", "b", "c", "d"])), claim_id),
            more=False,
        )

    @rule(gone=st.sets(st.sampled_from(WORKERS[:3]), max_size=2))
    def replace_agents(self, gone) -> None:
        self.end_batch()
        present = [agent for agent in EVERYBODY if agent not in gone]
        self.model.replace_agents(present)
        self.store.replace_agents(*present)

    @rule(
        data=st.data(),
        failed=st.booleans(),
        cooldown=st.sampled_from([0, 60, 900, 86_400]),
        more=more_to_come,
    )
    def release(self, data, failed, cooldown, more) -> None:
        caller, task_id = self.pick_holding(data)
        claim_id = self.pick_claim_id(data, task_id)
        self.say(caller, c.ReleaseTask(task_id, None, failed, cooldown, claim_id), more)

    @rule(data=st.data(), failed=st.sampled_from([False, False, False, True]), more=more_to_come)
    def release_by_force(self, data, failed, more) -> None:
        task_id = self.pick(data, "claimed")
        claim_id = self.pick_claim_id(data, task_id)
        self.say(LEAD, c.ReleaseTask(task_id, None, failed, claim_id=claim_id), more)

    @rule(data=st.data(), kind=st.sampled_from(Kind), key=mostly_no_key, more=more_to_come)
    def post(self, data, kind, key, more) -> None:
        caller, task_id = self.pick_holding(data)
        self.say(caller, c.PostMessage(task_id, "text", kind, key), more)

    @rule(data=st.data(), kind=st.sampled_from([Kind.REPLY, Kind.REPLY, *Kind]), more=more_to_come)
    def answer_help(self, data, kind, more) -> None:
        waiting = [n for n, task in self.model.tasks.items() if task["attention"]] or list(self.model.tasks)
        self.say(LEAD, c.PostMessage(data.draw(st.sampled_from(waiting)), "text", kind), more)

    @rule(data=st.data(), result=st.sampled_from(["a", "a", "a", "a", "b", "\u200b \n"]), more=more_to_come)
    def submit(self, data, result, more) -> None:
        caller, task_id = self.pick_holding(data)
        self.say(caller, c.SubmitResult(task_id, result, self.pick_claim_id(data, task_id)), more)

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

    @rule(
        data=st.data(),
        caller=st.sampled_from(WORKERS),
        verdict=st.sampled_from(Verdict),
        keep=st.booleans(),
        again=st.booleans(),
        more=more_to_come,
    )
    def go_a_round(self, data, caller, verdict, keep, again, more) -> None:
        self.say(caller, c.ClaimNext(), more=True)
        held = self.model.held_by(caller.name)
        if held:
            task_id = data.draw(st.sampled_from(held))
            self.say(caller, c.SubmitResult(task_id, "a"), more=True)
            self.say(LEAD, c.ReviewTask(task_id, verdict, "why", keep), more=True)
            if again:
                self.say(caller, c.SubmitResult(task_id, "a"), more=True)
        self.say(caller, c.WhoAmI(), more)

    @rule(
        line=st.lists(
            st.tuples(
                st.sampled_from([None, None, "ann", "bob"]),
                st.integers(-1, 1),
                st.sampled_from([0, 60, 3_600]),
            ),
            min_size=2,
            max_size=4,
        ),
        more=more_to_come,
    )
    def choose_from_a_line(self, line, more) -> None:
        for assignee, priority, seconds in line:
            self.say(LEAD, c.CreateTask("T", "D", assignee=assignee, priority=priority), more=False)
            self.store.clock.pass_seconds(seconds)
            self.time_has_passed = True
        for caller in WORKERS[:2]:
            for held in self.model.held_by(caller.name):
                self.say(caller, c.SubmitResult(held, "a"), more=True)
            self.say(caller, c.ClaimNext(), more=True)
        self.say(LEAD, c.WhoAmI(), more)

    @rule(caller=st.sampled_from(WORKERS), more=more_to_come)
    def take_all_that_is_allowed_and_one_more(self, caller, more) -> None:
        for _ in range(CLAIMS_PER_WORKER):
            self.say(caller, c.ClaimNext(), more=True)
        self.say(caller, c.ClaimNext(), more)

    @rule(data=st.data(), other=st.sampled_from(WORKERS), gives_up=st.booleans(), more=more_to_come)
    def cry_for_help(self, data, other, gives_up, more) -> None:
        caller, task_id = self.pick_holding(data)
        self.say(caller, c.PostMessage(task_id, "help", Kind.HELP_REQUEST), more=True)
        if gives_up:
            self.say(caller, c.ReleaseTask(task_id), more=True)
        self.say(other, c.ClaimTask(task_id), more)

    @precondition(lambda self: sum(task["status"] not in FINAL for task in self.model.tasks.values()) > 2)
    @rule(data=st.data(), caller=mostly_the_leader, more=more_to_come)
    def cancel(self, data, caller, more) -> None:
        task_id = self.pick(data, "claimed", "submitted")
        holders = [agent for agent in WORKERS if task_id in self.model.held_by(agent.name)]
        self.say(caller, c.CancelTask(task_id, "r"), more=True)
        self.say(holders[0] if holders else caller, c.SubmitResult(task_id, "late"), more)

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
        self.say(caller, c.ListTasks(status, assignee, skill, attention, limit=limit), more)

    @rule(data=st.data(), caller=st.sampled_from(EVERYBODY), more=more_to_come)
    def look_closer(self, data, caller, more) -> None:
        self.say(caller, c.GetTask(self.pick(data, "claimed")), more=True)
        self.say(caller, c.WhoAmI(), more)

    @rule(caller=st.sampled_from(EVERYBODY))
    def send_nonsense(self, caller) -> None:
        refusal = c.RecordRefusal(invalid("no"), task_id=None)
        self.calls += 1
        empty = self.empty_waits.pop(caller.name, 0)
        self.audited.append((caller.name, "nonsense", None, "invalid", empty))
        call = dataclasses.replace(self.store.call(caller, refusal, tool="nonsense"), empty_waits=empty)
        self.batch.append((call, "invalid"))
        self.end_batch()

    @rule(seconds=st.sampled_from([0.001, 59.999, 60, 900, 1_799.999, 3_600, 90_000]))
    def let_time_pass(self, seconds) -> None:
        self.end_batch()
        self.store.clock.pass_seconds(seconds)
        self.time_has_passed = True

    @rule(jump_seconds=st.sampled_from([0, 0, 0, 5, -5, 3_000, -100_000]))
    def restart(self, jump_seconds) -> None:
        """Meanwhile somebody may have set the wall clock, at which the board's clock begins anew."""
        self.end_batch()
        self.store.clock.utc_ms += jump_seconds * 1000
        self.store.clock.board_ms = self.store.clock.utc_ms
        self.tell_time()
        self.model.restart()
        self.store.reopen()

    # what holds after every batch

    def present(self) -> dict[int, dict[str, Any]]:
        db = self.store.executor.db
        columns = [name for name in MODELLED if name not in {"depends_on", "attention"}]
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
                # work that comes late is kept there as a message
                final = task | {"updated_at": None}
                assert self.finals.setdefault(task_id, final) == final

    @invariant()
    def every_held_task_has_one_claim_and_no_other_task_has_any(self) -> None:
        if self.batch:
            return
        db = self.store.executor.db
        current = db.execute(
            "SELECT task_id, agent FROM claims WHERE ended_at IS NULL ORDER BY task_id"
        ).fetchall()
        for task_id, until_ms in db.execute(
            "SELECT task_id, lease_until_ms FROM claims WHERE ended_at IS NULL"
        ):
            assert until_ms == self.model.claims[task_id][-1].until_ms
            if not self.time_has_passed:
                assert until_ms > self.store.clock.board_ms
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
            assert needs == min(task["attention"], key=GRAVEST_FIRST.index, default=None)
        ends = self.store.executor.db.execute(
            "SELECT lease_until_ms FROM claims WHERE ended_at IS NULL UNION ALL SELECT until_ms FROM cooldowns"
        )
        assert self.store.executor.next_end_ms == min((end for (end,) in ends), default=None)

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
        found = db.execute(
            "SELECT agent, tool, task_id, outcome, empty_waits FROM audit_log ORDER BY audit_id"
        ).fetchall()
        assert found == self.audited
        assert len(found) + sum(row[4] for row in found) + self.empty_waits.total() == self.calls
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
        case c.RenewClaim() if reply["status"] == "cancelled":
            assert reply["reason"] == "r"
            return {"task_id": reply["task_id"], "status": "cancelled"}
        case c.RenewClaim():
            return {
                "task_id": reply["task_id"],
                "status": reply["status"],
                "changed": reply["changed"],
                "last_message_id": reply.get("last_message_id"),
            }
        case _:
            return {"task_id": reply["task_id"], "status": reply["status"]}


Board.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.spec(
    "TASK-1", "TASK-4", "TASK-5", "TASK-6", "BOARD-6", "AUDIT-1", "HIST-1", "HIST-2", "TOOL-17", "TOOL-18",
    "CLAIM-1", "CLAIM-2", "CLAIM-3", "CLAIM-5", "CLAIM-7", "CLAIM-8", "CLAIM-9", "CLAIM-10", "DEP-2", "ATTN-1",
    "ATTN-2", "ATTN-3", "ATTN-4", "ATTN-7", "ATTN-8", "ATTN-10", "LEASE-2", "LEASE-4", "LEASE-5", "LEASE-6", "LEASE-7",
    "IDEM-1", "IDEM-2", "IDEM-3", "WAIT-8",
)  # fmt: skip
class TestBoard(Board.TestCase):
    """Whatever is asked is answered as the contract says, and history and audit tell all of it."""

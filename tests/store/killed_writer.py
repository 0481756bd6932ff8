"""A process that writes to the board of argv[1] until it is killed, and says of each batch that it was acknowledged.

Each batch has several calls under a name of its own, so that half a batch would show. The line on stdout is written
when the batch is answered: what it names must be there whatever happens afterwards.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from roundtable.board.clock import system_clock
from roundtable.rules import commands as c
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.model import Verdict
from roundtable.store.database import open_database
from roundtable.store.execute import Executor
from roundtable.store.lock import OwnerLock
from roundtable.store.unit import Limits

LEAD = Agent("lead", Role.LEADER)
ANN = Agent("ann", Role.WORKER)

path, run = Path(sys.argv[1]), sys.argv[2]
with OwnerLock(path):
    clock = system_clock()
    executor = Executor(
        open_database(path), Directory([LEAD, ANN]), Limits(5, 0), lambda: secrets.token_hex(8)
    )
    executor.start(clock())
    # what an earlier run left in ann's hands
    for held in (
        executor.execute([c.Call(ANN, "whoami", c.WhoAmI(), clock())], clock()).outcomes[0].unwrap()["tasks"]
    ):
        executor.execute([c.Call(ANN, "release_task", c.ReleaseTask(held["task_id"]), clock())], clock())
    print(json.dumps("ready"), flush=True)
    number = 0
    while True:
        number += 1
        name = f"run {run} batch {number}"

        def answers(*asked: tuple[Agent, c.Command], tool: str = name) -> list[dict]:
            calls = [c.Call(caller, tool, command, clock()) for caller, command in asked]
            return [outcome.unwrap() for outcome in executor.execute(calls, clock()).outcomes]

        first, second = answers((LEAD, c.CreateTask(name, "x" * 3_000)), (LEAD, c.CreateTask(name, "second")))
        task_id = first["task_id"]
        print(json.dumps({"created": [task_id, second["task_id"]], "title": name}), flush=True)
        answers(
            (ANN, c.ClaimTask(task_id)),
            (ANN, c.PostMessage(task_id, name)),
            (ANN, c.SubmitResult(task_id, name * 100)),
            (LEAD, c.ReviewTask(task_id, Verdict.ACCEPT)),
            tool=f"{name} done",
        )
        print(json.dumps({"done": task_id, "title": name}), flush=True)
        answers(
            (ANN, c.ClaimTask(second["task_id"])),
            (LEAD, c.PostMessage(second["task_id"], name)),
            tool=f"{name} held",
        )
        print(json.dumps({"held": second["task_id"], "title": name}), flush=True)
        answers(
            (ANN, c.ReleaseTask(second["task_id"])),
            (LEAD, c.CancelTask(second["task_id"], "r")),
            tool=f"{name} end",
        )
        print(json.dumps({"cancelled": second["task_id"], "title": name}), flush=True)

"""One transaction for a batch, one savepoint for a command, one audit row for a call."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD, Store
from structlog.testing import capture_logs

from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.commands import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetTask,
    ListAgents,
    ListTasks,
    PostMessage,
    Probe,
    RecordRefusal,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    WhoAmI,
)
from roundtable.rules.errors import INTERNAL_MESSAGE, Code, invalid
from roundtable.rules.model import Kind, Verdict
from roundtable.store import audit
from roundtable.store.execute import Executor

FAULTY = "faulty_tool"


class FaultyExecutor(Executor):
    """Meets a fault of our own after the writes of each call of the tool `faulty_tool`."""

    def _decide(self, unit, call):
        reply = super()._decide(unit, call)
        if call.tool == FAULTY:
            raise ZeroDivisionError("a secret in a traceback")
        if call.tool == "bad_sql":
            unit.db.execute("SELECT no_such_column FROM tasks")
        if call.tool == "bad_row":
            unit.db.execute("UPDATE tasks SET status = 'lost'")
        return reply


@pytest.fixture
def faulty(tmp_path):
    made = Store(tmp_path / "faulty.db", make=FaultyExecutor)
    yield made
    made.close()


def codes(executed):
    return [outcome.error.code.value if outcome.error else "ok" for outcome in executed.outcomes]


@pytest.mark.spec("BOARD-6")
def test_a_refused_command_undoes_only_itself(store) -> None:
    executed = store.run(
        store.call(LEAD, CreateTask("one", "D")),
        store.call(LEAD, CreateTask("two", "D", depends_on=(99,))),
        store.call(ANN, ClaimTask(1)),
        store.call(BOB, ClaimTask(1)),
        store.call(LEAD, CreateTask("three", "D")),
    )
    assert codes(executed) == ["ok", "not_found", "ok", "conflict", "ok"]
    assert store.rows("SELECT task_id, title, assignee FROM tasks") == [(1, "one", "ann"), (2, "three", None)]
    assert [told.event.value for told in executed.told] == ["created", "claimed", "created"]


@pytest.mark.spec("BOARD-6")
def test_the_501st_message_leaves_no_trace(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.run(*(store.call(LEAD, PostMessage(1, "m")) for _ in range(500)))
    assert store.refusal(LEAD, PostMessage(1, "m")).code is Code.TOO_LARGE
    assert store.rows("SELECT count(*), max(message_id) FROM messages") == [(500, 500)]


@pytest.mark.spec("BOARD-1")
def test_within_a_batch_each_command_sees_what_those_before_it_did(store) -> None:
    executed = store.run(
        store.call(LEAD, CreateTask("T", "D")),
        store.call(ANN, ClaimNext()),
        store.call(BOB, ClaimNext()),
        store.call(ANN, SubmitResult(1, "r")),
        store.call(LEAD, ReviewTask(1, Verdict.ACCEPT)),
        store.call(LEAD, CancelTask(1, "too late")),
    )
    assert codes(executed) == ["ok", "ok", "ok", "ok", "ok", "conflict"]
    assert executed.outcomes[2].reply == {"task": None}


@pytest.mark.spec("ERR-5", "AUDIT-1")
@pytest.mark.parametrize("tool", [FAULTY, "bad_sql", "bad_row"])
def test_a_fault_of_ours_is_internal_logged_and_leaves_the_others(faulty, tool) -> None:
    with capture_logs() as logs:
        executed = faulty.run(
            faulty.call(LEAD, CreateTask("before", "D")),
            faulty.call(LEAD, CreateTask("half", "D"), tool=tool),
            faulty.call(LEAD, CreateTask("after", "D")),
        )
    assert codes(executed) == ["ok", "internal", "ok"]
    assert executed.outcomes[1].error.message == INTERNAL_MESSAGE
    assert [title for (title,) in faulty.rows("SELECT title FROM tasks")] == ["before", "after"]
    assert faulty.rows("SELECT count(*) FROM history") == [(2,)]
    assert [outcome for _, _, outcome in faulty.audit()] == ["ok", "internal", "ok"]
    [fault] = [entry for entry in logs if entry["log_level"] == "error"]
    assert (fault["event"], fault["tool"]) == ("fault", tool)
    assert isinstance(fault["exc_info"], Exception)
    assert faulty.executor.trouble is None
    assert len(executed.told) == 2


def test_what_is_refused_after_it_has_written_is_undone_and_the_others_are_done_once(store) -> None:
    store.run(store.call(LEAD, CreateTask("final", "D")), store.call(LEAD, CancelTask(1, "so")))
    executed = store.run(
        store.call(LEAD, CreateTask("before", "D")),
        store.call(ANN, PostMessage(1, "too late", Kind.NOTE)),
        store.call(LEAD, CreateTask("after", "D")),
        store.call(ANN, ClaimTask(2)),
    )
    assert codes(executed) == ["ok", "conflict", "ok", "ok"]
    assert store.rows("SELECT count(*) FROM messages") == [(0,)]
    assert store.rows("SELECT task_id, title, attempt FROM tasks WHERE task_id > 1") == [
        (2, "before", 1),
        (3, "after", 0),
    ]
    assert [(told.event, told.task_id) for told in executed.told] == [
        ("created", 2),
        ("created", 3),
        ("claimed", 2),
    ]
    assert [ready.task_id for ready in executed.ready] == [3]
    assert len(store.audit()) == 6
    assert audit.first_break(store.executor.db) is None


@pytest.mark.spec("AUDIT-1")
def test_every_call_has_one_row_in_order_refused_ones_too(store) -> None:
    store.run(
        store.call(LEAD, CreateTask("T", "D")),
        store.call(ANN, CreateTask("T", "D")),
        store.call(BOB, GetTask(77)),
        store.call(ANN, RecordRefusal(invalid("no"), task_id=5), tool="get_task"),
        store.call(ANN, RecordRefusal(None, task_id=1), tool="claim_task"),
    )
    store.run(store.call(ANN, WhoAmI()))
    assert store.rows("SELECT audit_id, agent, tool, task_id, outcome FROM audit_log") == [
        (1, "lead", "create_task", 1, "ok"),
        (2, "ann", "create_task", None, "forbidden"),
        (3, "bob", "get_task", 77, "not_found"),
        (4, "ann", "get_task", 5, "invalid"),
        (5, "ann", "claim_task", 1, "gone"),
        (6, "ann", "who_am_i", None, "ok"),
    ]
    assert audit.first_break(store.executor.db) is None


@pytest.mark.spec("AUDIT-1", "TASK-7")
def test_a_row_tells_when_the_call_came_and_how_long_the_decision_took(store) -> None:
    call = store.call(ANN, WhoAmI())
    store.clock.pass_seconds(1.25)
    store.run(call)
    assert store.rows("SELECT time, duration_ms FROM audit_log") == [(call.arrived.text, 1250)]
    assert call.arrived.text == "2026-11-30T01:00:00.000Z"


def test_a_probe_leaves_nothing_behind(store) -> None:
    before = store.rows("PRAGMA data_version"), store.path.with_name("board.db-wal").stat().st_size
    assert store.ask(LEAD, Probe()) is None
    assert store.audit() == []
    assert (store.rows("PRAGMA data_version"), store.path.with_name("board.db-wal").stat().st_size) == before


@pytest.mark.spec("TASK-2")
def test_an_id_is_never_used_again(store) -> None:
    assert store.ask(LEAD, CreateTask("T", "D"))["task_id"] == 1
    store.refusal(LEAD, CreateTask("T", "D", assignee="nobody"))
    assert store.ask(LEAD, CreateTask("T", "D"))["task_id"] == 2
    store.reopen()
    assert store.ask(LEAD, CreateTask("T", "D"))["task_id"] == 3


@pytest.mark.spec("TOOL-1")
def test_a_role_that_may_not_is_told_so_before_anything_is_looked_up(store) -> None:
    for caller, command in (
        (ANN, CreateTask("T", "D")),
        (ANN, ReviewTask(99, Verdict.ACCEPT)),
        (ANN, CancelTask(99, "r")),
        (LEAD, ClaimTask(99)),
        (LEAD, ClaimNext()),
        (LEAD, SubmitResult(99, "r")),
    ):
        assert store.refusal(caller, command).code is Code.FORBIDDEN


@pytest.mark.spec("TOOL-17", "TOOL-20")
def test_a_cool_down_keeps_a_failed_task_from_claim_next_and_from_nobody_else(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimNext())
    store.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=60))
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    assert store.ask(BOB, ClaimNext())["task_id"] == 1
    store.ask(BOB, ReleaseTask(1))
    store.clock.pass_seconds(59.999)
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    store.clock.pass_seconds(0.001)
    assert store.ask(ANN, ClaimNext())["task_id"] == 1


@pytest.mark.spec("TOOL-19", "TOOL-20")
def test_claim_task_ignores_a_cool_down_and_does_not_end_it(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimNext())
    store.ask(ANN, ReleaseTask(1, failed=True))
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1))
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=1))
    store.clock.pass_seconds(2)
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    store.clock.pass_seconds(900)
    assert store.ask(ANN, ClaimNext())["task_id"] == 1


@pytest.mark.spec("TOOL-20")
def test_a_clock_that_was_set_back_while_the_board_was_down_prolongs_no_cool_down(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimNext())
    store.ask(ANN, ReleaseTask(1, failed=True, cooldown_seconds=60))
    store.clock.board_ms -= 7_200_000
    store.reopen()
    store.clock.pass_seconds(59)
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    store.clock.pass_seconds(1)
    assert store.ask(ANN, ClaimNext())["task_id"] == 1


@pytest.mark.spec("TOOL-9")
def test_who_calls_is_live_whoever_was_not_seen_is_never(store) -> None:
    def presence():
        return {row["name"]: row["presence"] for row in store.ask(ANN, ListAgents())["agents"]}

    assert presence() == {"lead": "never", "ann": "live", "bob": "never", "cy": "never"}
    store.ask(BOB, WhoAmI())
    store.clock.pass_seconds(119)
    assert presence()["bob"] == "live"
    store.clock.pass_seconds(1)
    assert presence()["bob"] == "idle"
    store.reopen()
    assert presence()["bob"] == "idle"
    rows = {row["name"]: row for row in store.ask(ANN, ListAgents())["agents"]}
    assert rows["bob"]["last_seen"] == "2026-11-30T01:00:00.000Z"
    assert "last_seen" not in rows["lead"]


@pytest.mark.spec("CLAIM-1", "CLAIM-4", "TOOL-8")
def test_a_worker_holds_at_most_its_own_number_and_finds_its_claims_again(tmp_path) -> None:
    pooled = Agent("bob", Role.WORKER, max_claims=1)
    store = Store(tmp_path / "b.db", claims_per_worker=2, directory=Directory([LEAD, ANN, pooled]))
    for _ in range(4):
        store.ask(LEAD, CreateTask("T", "D"))
    first = store.ask(ANN, ClaimTask(1))
    store.ask(ANN, ClaimNext())
    for command in (ClaimTask(3), ClaimNext()):
        error = store.refusal(ANN, command)
        assert (error.code, error.details["held"]) == (Code.CONFLICT, [1, 2])
    store.ask(pooled, ClaimNext())
    assert store.refusal(pooled, ClaimNext()).details["held"] == [3]
    assert store.ask(ANN, ClaimTask(1)) == first
    me = store.ask(ANN, WhoAmI())
    assert [(held["task_id"], held["claim_id"]) for held in me["tasks"]] == [(1, "claim-1"), (2, "claim-2")]
    assert me["limits"]["tasks_held"] == 2
    store.ask(ANN, SubmitResult(2, "r"))
    assert store.ask(ANN, ClaimNext())["task_id"] == 4
    store.close()


@pytest.mark.spec("STOP-3")
def test_while_the_program_stops_nobody_gets_a_new_claim_and_all_else_is_answered(store) -> None:
    for _ in range(2):
        store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    store.executor.accepts_claims = False
    assert store.ask(BOB, ClaimNext()) == {"task": None}
    assert store.refusal(BOB, ClaimTask(2)).code is Code.UNAVAILABLE
    assert store.refusal(BOB, ClaimTask(99)).code is Code.NOT_FOUND
    assert store.ask(ANN, ClaimTask(1))["claim_id"] == "claim-1"
    assert store.ask(ANN, SubmitResult(1, "r"))["status"] == "submitted"


@pytest.mark.spec("TASK-8")
def test_a_claim_id_is_shown_to_the_holder_and_to_nobody_else(store) -> None:
    store.ask(LEAD, CreateTask("T", "D"))
    assert store.ask(ANN, ClaimTask(1))["claim_id"] == "claim-1"
    assert store.ask(ANN, GetTask(1))["task"]["claim_id"] == "claim-1"
    for other in (LEAD, BOB):
        assert "claim-1" not in repr(store.ask(other, GetTask(1)))
        assert "claim-1" not in repr(store.ask(other, ListTasks()))
    assert not store.rows("SELECT 1 FROM history WHERE changes LIKE '%claim-1%'")
    store.ask(ANN, ReleaseTask(1))
    assert store.ask(ANN, ClaimTask(1))["claim_id"] != "claim-1"

"""Lists, page by page, and what goes into a brief."""

from __future__ import annotations

import itertools
import random

import pytest
from scripted_store import ANN, BOB, CY, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CreateTask,
    GetHistory,
    GetTask,
    ListTasks,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
)
from roundtable.rules.errors import Code
from roundtable.rules.limits import BRIEF_RESULTS_CHARS, REPLY_BYTES
from roundtable.rules.model import Kind, Status, Verdict
from roundtable.tools.answers import compact

WIDE = ["x", "é", "🧑", "\u2028", '"', "\n"]
"""Characters that take one byte, more, or an escape."""


def create(store: Store, count: int = 1, **named) -> None:
    store.run(*(store.call(LEAD, CreateTask(f"T{n}", "D", **named)) for n in range(count)))


def ids(store: Store, **filters) -> list[int]:
    return [task["task_id"] for task in store.ask(LEAD, ListTasks(**filters))["tasks"]]


def pages(store: Store, command_of, between=lambda: None):
    """All pages of a list, and what happens `between` two of them."""
    cursor = None
    while True:
        page = store.ask(LEAD, command_of(cursor))
        yield page
        cursor = page.get("next_cursor")
        if cursor is None:
            return
        between()


@pytest.fixture
def busy(store):
    """Ann holds 1; 2 is open and hers by choice; 3 submitted by bob; 4 open for bob, asking for help; 5 for sql; 6 cancelled."""
    create(store, 6)
    for command in (
        UpdateTask(2, assignee="ann"),
        UpdateTask(4, assignee="bob"),
        UpdateTask(5, required_skill="sql"),
    ):
        store.ask(LEAD, command)
    store.ask(ANN, ClaimTask(1))
    store.ask(BOB, ClaimTask(3))
    store.ask(BOB, SubmitResult(3, "r"))
    store.ask(BOB, PostMessage(4, "?", Kind.HELP_REQUEST))
    store.ask(LEAD, CancelTask(6, "r"))
    return store


@pytest.mark.spec("TOOL-13", "TOOL-14")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"status": Status.OPEN}, [5, 4, 2]),
        ({"status": Status.CANCELLED}, [6]),
        ({"status": Status.DONE}, []),
        ({"assignee": "ann"}, [2, 1]),
        ({"assignee": "ann", "status": Status.OPEN}, [2]),
        ({"assignee": "ann", "status": Status.CLAIMED}, [1]),
        ({"assignee": "bob", "status": Status.OPEN}, [4]),
        ({"assignee": "cy"}, []),
        ({"assignee": "nobody"}, []),
        ({"required_skill": "sql"}, [5]),
        ({"needs_attention": True}, [4]),
        ({"needs_attention": False}, [6, 5, 3, 2, 1]),
        ({"needs_attention": True, "assignee": "ann"}, []),
        ({"limit": 2}, [6, 5]),
    ],
)
def test_a_list_holds_what_its_filters_name_newest_first(busy, filters, expected) -> None:
    assert ids(busy, **filters) == expected


@pytest.mark.spec("REPLY-1")
def test_a_row_leaves_out_what_is_not_there(busy) -> None:
    busy.ask(LEAD, CreateTask("needs", "D", depends_on=(5, 1)))
    rows = {row["task_id"]: row for row in busy.ask(LEAD, ListTasks())["tasks"]}
    always = {"task_id", "title", "status", "priority", "attempt", "updated_at"}
    assert set(rows[6]) == always
    assert set(rows[1]) == always | {"assignee"}
    assert set(rows[4]) == always | {"assigned_to", "needs_attention"}
    assert rows[4]["needs_attention"] == "help_requested"
    assert set(rows[5]) == always | {"required_skill"}
    assert rows[7]["blocked_by"] == [5, 1]


@pytest.mark.spec("TOOL-13")
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_a_page_never_repeats_or_skips_what_was_there_throughout(store, limit) -> None:
    create(store, 20)
    chance = random.Random(limit)  # noqa: S311
    here_throughout = set(range(1, 21))

    def meddle() -> None:
        create(store, chance.randrange(3))
        moved = chance.randrange(1, 21)
        store.run(
            store.call(LEAD, CancelTask(moved, "r")),
            store.call(ANN, ClaimNext()),
            store.call(LEAD, UpdateTask(chance.randrange(1, 21), priority=chance.randrange(-9, 9))),
        )

    seen = [
        task["task_id"]
        for page in pages(store, lambda cursor: ListTasks(limit=limit, cursor=cursor), meddle)
        for task in page["tasks"]
    ]
    assert len(seen) == len(set(seen))
    assert here_throughout <= set(seen)
    assert seen == sorted(seen, reverse=True)


@pytest.mark.spec("TOOL-13")
def test_a_page_of_a_filtered_list_skips_nothing_that_kept_its_place(store) -> None:
    create(store, 10)
    claims = itertools.cycle([ANN, BOB, CY])
    seen = [
        task["task_id"]
        for page in pages(
            store,
            lambda cursor: ListTasks(status=Status.OPEN, limit=2, cursor=cursor),
            lambda: store.ask(next(claims), ClaimNext()),
        )
        for task in page["tasks"]
    ]
    untouched = {task_id for (task_id,) in store.rows("SELECT task_id FROM tasks WHERE status = 'open'")}
    assert untouched <= set(seen)
    assert len(seen) == len(set(seen))


@pytest.mark.spec("TOOL-26")
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_history_is_complete_in_both_directions(busy, newest_first, limit) -> None:
    everything = [event_id for (event_id,) in busy.rows("SELECT event_id FROM history ORDER BY event_id")]
    seen = [
        event["event_id"]
        for page in pages(
            busy, lambda cursor: GetHistory(newest_first=newest_first, limit=limit, cursor=cursor)
        )
        for event in page["events"]
    ]
    assert seen == (everything[::-1] if newest_first else everything)


@pytest.mark.spec("TOOL-26", "REPLY-1")
def test_history_tells_who_did_what_to_which_task(busy) -> None:
    events = busy.ask(BOB, GetHistory(task_id=3))["events"]
    assert [(event["agent"], event["event"]) for event in events] == [
        ("lead", "created"),
        ("bob", "claimed"),
        ("bob", "submitted"),
    ]
    assert events[2]["changes"]["status"] == ["claimed", "submitted"]
    assert set(events[2]) == {"event_id", "time", "task_id", "agent", "event", "changes"}
    asked = busy.ask(BOB, GetHistory(agent="bob", task_id=4))["events"]
    assert [event["event"] for event in asked] == ["message_posted", "attention_set"]
    assert busy.ask(BOB, GetHistory(agent="nobody")) == {"events": []}
    assert busy.refusal(BOB, GetHistory(task_id=99)).code is Code.NOT_FOUND


@pytest.mark.spec("REPLY-6")
def test_a_long_text_stands_in_an_event_as_its_length(store) -> None:
    store.ask(LEAD, CreateTask("T", "x" * 201))
    [event] = store.ask(ANN, GetHistory())["events"]
    assert event["changes"]["description"] == [None, {"length": 201}]


def test_a_cursor_of_another_list_or_another_board_is_invalid(store, tmp_path) -> None:
    other = Store(tmp_path / "other.db")
    create(other, 3)
    create(store, 3)
    foreign = other.ask(LEAD, ListTasks(limit=1))["next_cursor"]
    forwards = store.ask(LEAD, GetHistory(limit=1))["next_cursor"]
    for command in (
        ListTasks(cursor=foreign),
        ListTasks(cursor=forwards),
        GetHistory(newest_first=True, cursor=forwards),
        GetTask(1, message_cursor=forwards),
    ):
        assert store.refusal(LEAD, command).code is Code.INVALID
    other.close()


def bytes_of(reply) -> int:
    return len(compact(reply).encode())


@pytest.mark.spec("REPLY-7")
@pytest.mark.parametrize("char", WIDE)
def test_pages_of_the_widest_rows_stay_within_a_reply(store, char) -> None:
    store.run(*(store.call(LEAD, CreateTask("cause", "D")) for _ in range(50)))
    causes = tuple(range(1, 51))
    wide = CreateTask("T" + char * 199, "D", required_skill=char * 100, assignee="ann", depends_on=causes)
    store.run(*(store.call(LEAD, wide) for _ in range(110)))
    seen = []
    for page in pages(store, lambda cursor: ListTasks(limit=100, cursor=cursor)):
        assert bytes_of(page) <= REPLY_BYTES
        seen += [task["task_id"] for task in page["tasks"]]
    assert seen == list(range(160, 0, -1))
    events = 0
    for page in pages(store, lambda cursor: GetHistory(limit=100, cursor=cursor)):
        assert bytes_of(page) <= REPLY_BYTES
        events += len(page["events"])
    assert events == 160


@pytest.mark.spec("TOOL-15", "REPLY-7")
@pytest.mark.parametrize("char", WIDE)
def test_the_messages_of_a_task_come_in_pages_that_fit(store, char) -> None:
    for _ in range(20):
        store.ask(LEAD, CreateTask("T" + char * 199, "D", required_skill=char * 100))
    store.ask(LEAD, CreateTask("T", "D", depends_on=tuple(range(1, 21))))
    bodies = [f"{n} " + char * 3_900 for n in range(40)]
    store.run(*(store.call(ANN, PostMessage(21, body)) for body in bodies))
    seen, cursor = [], None
    while True:
        reply = store.ask(BOB, GetTask(21, message_cursor=cursor))
        assert bytes_of(reply) <= REPLY_BYTES
        assert reply["messages"]
        seen = [message["body"] for message in reply["messages"]] + seen
        cursor = reply.get("message_cursor")
        if cursor is None:
            break
    assert seen == bodies


@pytest.mark.spec("TOOL-15")
def test_a_whole_task_shows_dependencies_messages_and_every_review_round(busy) -> None:
    busy.ask(LEAD, ReviewTask(3, Verdict.REJECT, "again", keep_assignee=True))
    busy.ask(BOB, ClaimTask(3))
    busy.ask(BOB, SubmitResult(3, "better"))
    busy.ask(LEAD, ReviewTask(3, Verdict.ACCEPT))
    busy.ask(LEAD, CreateTask("T", "D", depends_on=(4, 3)))
    whole = busy.ask(CY, GetTask(3))
    assert whole["task"]["status"] == "done"
    assert whole["task"]["result"] == "better"
    assert [(r["verdict"], r.get("note"), r["result"], r["agent"]) for r in whole["reviews"]] == [
        ("reject", "again", "r", "lead"),
        ("accept", None, "better", "lead"),
    ]
    [message] = busy.ask(CY, GetTask(4))["messages"]
    assert (message["agent"], message["role"], message["kind"], message["body"]) == (
        "bob",
        "worker",
        "help_request",
        "?",
    )
    after = busy.ask(CY, GetTask(7))
    assert after["task"]["depends_on"] == [4, 3]
    assert [(row["task_id"], row["status"]) for row in after["dependencies"]] == [(4, "open"), (3, "done")]


def finish(store: Store, task_id: int, result: str) -> None:
    store.ask(ANN, ClaimTask(task_id))
    store.ask(ANN, SubmitResult(task_id, result))
    store.ask(LEAD, ReviewTask(task_id, Verdict.ACCEPT))
    store.clock.pass_seconds(1)


@pytest.mark.spec("DEP-3", "REPLY-4", "REPLY-5")
def test_a_brief_has_the_newest_results_whole_and_lists_the_rest(store) -> None:
    create(store, 3)
    sizes = {1: 10_000, 2: 11_000, 3: 2_000}
    for task_id in (3, 1, 2):
        finish(store, task_id, str(task_id) * sizes[task_id])
    store.ask(LEAD, CreateTask("T", "D", depends_on=(1, 2, 3)))
    for attempt, result in enumerate(["a" * 1_000, "b" * 1_500], 1):
        assert store.ask(BOB, ClaimTask(4))["attempt"] == attempt
        store.ask(BOB, SubmitResult(4, result))
        store.ask(LEAD, ReviewTask(4, Verdict.REJECT, f"note {attempt}"))
    brief = store.ask(BOB, ClaimTask(4))
    assert [earlier["note"] for earlier in brief["earlier"]] == ["note 2", "note 1"]
    assert [earlier["result"][0] for earlier in brief["earlier"]] == ["b", "a"]
    shown = {cause["task_id"]: cause for cause in brief["dependencies"]}
    assert list(shown) == [2, 1, 3]
    assert shown[2]["result"] == "2" * 11_000
    assert shown[1]["result"] == "1" * 10_000
    assert shown[3] == {"task_id": 3, "title": "T2", "length": 2_000, "omitted": True}
    texts = [part["result"] for part in (*brief["earlier"], *brief["dependencies"]) if "result" in part]
    assert sum(map(len, texts)) <= BRIEF_RESULTS_CHARS


@pytest.mark.spec("REPLY-4")
def test_a_brief_with_just_enough_room_omits_nothing(store) -> None:
    create(store, 2)
    finish(store, 1, "x" * 20_000)
    finish(store, 2, "x" * 4_000)
    store.ask(LEAD, CreateTask("T", "D", depends_on=(1, 2)))
    assert [len(cause["result"]) for cause in store.ask(ANN, ClaimNext())["dependencies"]] == [4_000, 20_000]


@pytest.mark.spec("DEP-1")
@pytest.mark.parametrize("length", [1, 2, 50])
def test_a_circle_of_any_length_is_refused(store, length) -> None:
    create(store)
    for task_id in range(1, length):
        store.ask(LEAD, CreateTask("T", "D", depends_on=(task_id,)))
    error = store.refusal(LEAD, UpdateTask(1, depends_on=(length,)))
    assert error.code is Code.CONFLICT
    assert store.rows("SELECT count(*) FROM dependencies") == [(length - 1,)]


@pytest.mark.spec("TOOL-17", "TOOL-18", "DEP-2")
def test_claim_next_takes_the_lowest_rank_then_the_callers_own_then_the_oldest(store) -> None:
    store.ask(LEAD, CreateTask("old", "D"))
    store.ask(LEAD, CreateTask("own", "D", assignee="ann"))
    store.ask(LEAD, CreateTask("blocked and urgent", "D", priority=100, depends_on=(1,)))
    store.ask(LEAD, CreateTask("for sql", "D", required_skill="sql", priority=1))
    store.ask(LEAD, CreateTask("for nobody", "D", required_skill="zig", priority=50))
    store.ask(LEAD, CreateTask("bobs", "D", assignee="bob", priority=50))
    store.ask(LEAD, CreateTask("asks for help", "D", priority=50))
    store.ask(ANN, ClaimTask(7))
    store.ask(ANN, PostMessage(7, "?", Kind.HELP_REQUEST))
    store.ask(ANN, ReleaseTask(7))
    store.clock.pass_seconds(3_600)
    store.ask(LEAD, CreateTask("later but one level up", "D", priority=1))
    store.ask(LEAD, CreateTask("later", "D"))
    taken = []
    while (brief := store.ask(ANN, ClaimNext()))["task"] is not None:
        taken.append(brief["task_id"])
        store.ask(ANN, SubmitResult(brief["task_id"], "r"))
    assert taken == [4, 2, 1, 8, 9]
    store.ask(LEAD, ReviewTask(1, Verdict.ACCEPT))
    assert store.ask(ANN, ClaimNext())["task_id"] == 3


@pytest.mark.spec("TOOL-12")
def test_a_plan_that_nobody_can_carry_out_says_so(store) -> None:
    reply = store.ask(LEAD, CreateTask("T", "D", required_skill="zig", assignee="bob"))
    assert (reply["task_id"], reply["status"], reply["assigned_to"]) == (1, "open", "bob")
    assert "zig" in reply["notice"]
    assert "bob" in reply["notice"]
    store.ask(BOB, ListTasks())
    assert "notice" not in store.ask(LEAD, UpdateTask(1, required_skill="sql"))


@pytest.mark.spec("DEP-2", "TOOL-17")
def test_a_task_waits_until_the_last_of_its_dependencies_is_done(store) -> None:
    create(store, 2)
    store.ask(LEAD, CreateTask("T", "D", depends_on=(1, 2)))
    finish(store, 1, "r")
    assert store.refusal(ANN, ClaimTask(3)).details["blocked_by"] == [2]
    assert store.ask(ANN, ClaimNext())["task_id"] == 2
    assert store.ask(ANN, ClaimNext()) == {"task": None}
    finish(store, 2, "r")
    assert store.ask(ANN, ClaimNext())["task_id"] == 3

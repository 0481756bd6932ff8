"""wait_for_updates reads the stored history: whom each event reaches, and that nothing is missed or told twice."""

from __future__ import annotations

import pytest
from scripted_store import ANN, BOB, LEAD

from roundtable.rules.commands import (
    CancelTask,
    ClaimTask,
    CreateTask,
    GetHistory,
    ListTasks,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
    WaitForUpdates,
)
from roundtable.rules.errors import Code
from roundtable.rules.model import Kind, Verdict


@pytest.fixture
def held(store):
    """Ann holds task 1, which nobody assigned to her."""
    store.ask(LEAD, CreateTask("T", "D"))
    store.ask(ANN, ClaimTask(1))
    return store


STEPS = [
    # what happens, and what the leader, Ann and Bob are told of it
    ((ANN, SubmitResult(1, "r")), ["submitted"], [], []),
    ((LEAD, ReviewTask(1, Verdict.REJECT, "n")), [], ["reviewed"], []),
    ((LEAD, UpdateTask(1, assignee="bob")), [], [], ["updated"]),
    ((LEAD, UpdateTask(1, assignee="ann")), [], ["updated"], []),
    ((ANN, ClaimTask(1)), [], [], []),
    ((LEAD, UpdateTask(1, title="X")), [], ["updated"], []),
    ((ANN, PostMessage(1, "m", Kind.PROGRESS)), [], [], []),
    ((ANN, PostMessage(1, "m", Kind.HELP_REQUEST)), ["attention_set"], [], []),
    ((ANN, PostMessage(1, "m", Kind.HELP_REQUEST)), ["message_posted"], [], []),
    ((BOB, PostMessage(1, "m", Kind.NOTE)), [], [], []),
    ((LEAD, PostMessage(1, "m", Kind.REPLY)), [], ["message_posted"], []),
    ((ANN, ReleaseTask(1)), [], [], []),
    ((LEAD, PostMessage(1, "m", Kind.NOTE)), [], ["message_posted"], []),
    ((ANN, ClaimTask(1)), [], [], []),
    ((LEAD, ReleaseTask(1)), [], ["released"], []),
    ((BOB, PostMessage(1, "m", Kind.HELP_REQUEST)), [], [], []),
    ((LEAD, CreateTask("T", "D", assignee="bob")), [], [], ["created"]),
    ((LEAD, CancelTask(2, "r")), [], [], ["cancelled"]),
    ((ANN, ClaimTask(1)), [], [], []),
    ((ANN, SubmitResult(1, "r")), ["submitted"], [], []),
    ((LEAD, ReviewTask(1, Verdict.ACCEPT)), [], ["reviewed"], []),
]


@pytest.mark.spec("WAIT-3", "CLAIM-6", "WAIT-5")
def test_each_event_reaches_whom_it_concerns_once_across_restarts(held) -> None:
    cursors = {agent: held.told(agent)[0] for agent in (LEAD, ANN, BOB)}
    for number, ((caller, command), *expected) in enumerate(STEPS):
        held.ask(caller, command)
        if number % 3 == 0:
            held.reopen()
        for agent, events in zip((LEAD, ANN, BOB), expected, strict=True):
            cursors[agent], told = held.told(agent, cursors[agent])
            assert [event for event, _ in told] == events, (command, agent.name)


@pytest.mark.spec("WAIT-5")
def test_what_was_not_read_step_by_step_is_read_together_in_order(held) -> None:
    cursor, _ = held.told(ANN)
    for (caller, command), *_ in STEPS:
        held.ask(caller, command)
    expected = [event for _, _, told, _ in STEPS for event in told]
    assert [event for event, _ in held.told(ANN, cursor)[1]] == expected


@pytest.mark.spec("WAIT-4")
def test_nothing_new_is_a_cursor_an_empty_list_and_nothing_else(held) -> None:
    cursor, _ = held.told(BOB)
    assert held.ask(BOB, WaitForUpdates(cursor, 0)) == {"cursor": cursor, "updates": []}


@pytest.mark.spec("WAIT-5")
def test_more_than_one_page_of_news_is_told_page_by_page(held) -> None:
    cursor, _ = held.told(ANN)
    held.run(*(held.call(LEAD, UpdateTask(1, priority=number % 2 + 1)) for number in range(120)))
    pages = []
    while True:
        news = held.ask(ANN, WaitForUpdates(cursor, 0))
        if not news["updates"]:
            break
        cursor = news["cursor"]
        pages.append([event["event_id"] for event in news["updates"]])
    assert [len(page) for page in pages] == [50, 50, 20]
    told = [event_id for page in pages for event_id in page]
    assert told == sorted(set(told))


@pytest.mark.spec("WAIT-4")
def test_without_a_cursor_the_leader_is_told_what_waits_for_it_now(store) -> None:
    for title in ("submitted", "helpless", "open", "rejected"):
        store.ask(LEAD, CreateTask(title, "D"))
    for task_id in (1, 2, 4):
        store.ask(ANN, ClaimTask(task_id))
    store.ask(ANN, SubmitResult(1, "r"))
    store.ask(ANN, PostMessage(2, "?", Kind.HELP_REQUEST))
    store.ask(ANN, SubmitResult(4, "r"))
    store.ask(LEAD, ReviewTask(4, Verdict.REJECT, "n"))
    cursor, told = store.told(LEAD)
    assert told == [("submitted", 1), ("attention_set", 2)]
    assert store.told(LEAD, cursor)[1] == []
    # of its own doing, and waiting for it all the same
    store.ask(LEAD, CreateTask("dependent", "D", depends_on=(3,)))
    store.ask(LEAD, CancelTask(3, "r"))
    assert store.told(LEAD)[1][-1] == ("attention_set", 5)
    assert store.told(LEAD, cursor)[1] == [("attention_set", 5)]


@pytest.mark.spec("WAIT-4")
def test_without_a_cursor_a_worker_is_told_what_it_holds_and_what_is_assigned_to_it(store) -> None:
    store.ask(LEAD, CreateTask("taken", "D"))
    store.ask(LEAD, CreateTask("assigned", "D", assignee="ann"))
    store.ask(LEAD, CreateTask("another's", "D", assignee="bob"))
    store.ask(LEAD, CreateTask("helpless", "D", assignee="ann"))
    store.ask(ANN, PostMessage(4, "?", Kind.HELP_REQUEST))
    assert store.told(ANN)[1] == [("created", 2)]
    # what it took by itself nobody told it of
    store.ask(ANN, ClaimTask(1))
    assert store.told(ANN)[1] == [("created", 2), ("claimed", 1)]
    store.ask(LEAD, UpdateTask(1, title="X"))
    assert ("updated", 1) in store.told(ANN)[1]
    assert store.told(BOB)[1] == [("created", 3)]


@pytest.mark.spec("WAIT-4")
def test_what_needs_the_caller_is_at_most_fifty_the_longest_waiting_first(store) -> None:
    store.run(*(store.call(LEAD, CreateTask("T", "D", assignee="ann")) for _ in range(60)))
    assert [task_id for _, task_id in store.told(ANN)[1]] == list(range(1, 51))


@pytest.mark.spec("WAIT-5")
def test_a_cursor_from_elsewhere_is_invalid_and_says_what_to_do(held, tmp_path) -> None:
    held.run(*(held.call(LEAD, CreateTask("T", "D")) for _ in range(3)))
    mine = held.told(ANN)[0]
    strangers = [
        "x",
        mine[:-1] + "f" * 9,
        mine.upper(),
        mine + " ",
        held.ask(ANN, ListTasks(limit=1))["next_cursor"],
        held.ask(ANN, GetHistory(limit=1))["next_cursor"],
    ]
    for stranger in strangers:
        error = held.refusal(ANN, WaitForUpdates(stranger, 0))
        assert error.code is Code.INVALID
        assert "without cursor" in error.message
    assert held.refusal(ANN, ListTasks(cursor=mine)).code is Code.INVALID


@pytest.mark.spec("WAIT-3", "REPLY-6")
def test_news_are_events_with_long_values_as_their_length(held) -> None:
    cursor, _ = held.told(LEAD)
    held.ask(ANN, SubmitResult(1, "r" * 201))
    [event] = held.ask(LEAD, WaitForUpdates(cursor, 0))["updates"]
    assert event.keys() == {"event_id", "time", "task_id", "agent", "event", "changes"}
    assert event["changes"]["result"] == [None, {"length": 201}]

"""What is said of a running program and of what happens on its board."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from roundtable.cli.event_words import describe
from roundtable.cli.status_view import as_text, draw_endpoints, draw_status
from roundtable.cli.status_words import (
    PARKED_ADVICE,
    answer_of,
    cost_of,
    duration,
    failure_of,
    health_of,
    models_of,
    state_of,
    tokens_of,
    users_of,
)
from roundtable.cli.watch_view import draw_columns, draw_watch
from roundtable.rules.change import Event
from roundtable.rules.model import Status
from supervisor.memory.record import State

NOW = "2026-11-29T12:00:00.000Z"
IN_41_SECONDS = "2026-11-29T12:00:41.000Z"
NINETY_SECONDS_AGO = "2026-11-29T11:58:30.000Z"


def worker(state: str, *tasks: int, until: str | None = None, reason: str | None = None, **more) -> dict:
    return {
        "name": "poet",
        "model": "m",
        "fallback_models": [],
        "unusable_models": [],
        "concurrency": 1,
        "base_url": "http://127.0.0.1:1/v1",
        "state": state,
        "tasks": [{"task_id": task_id, "since": NINETY_SECONDS_AGO} for task_id in tasks],
        "until": until,
        "reason": reason,
        "parked_since": None,
        "calls_last_hour": 3,
        "max_calls_per_hour": 30,
        "tokens_last_day": 12_000,
        "max_tokens_per_day": None,
        "tokens_are_estimated": False,
        "price_input": None,
        "price_output": None,
        "cost_last_day": None,
        "restarts": 0,
        **more,
    }


def endpoint(health: str, **more) -> dict:
    return {
        "base_url": "http://127.0.0.1:1/v1",
        "workers": ["poet", "novelist"],
        "health": health,
        "until": None,
        "failing_since": None,
        "last_call_at": None,
        "last_answer_at": None,
        "last_failure": None,
        "last_failure_at": None,
        "troubles": 0,
        **more,
    }


def board(**more) -> dict:
    return {
        "tasks": {status.value: 2 for status in Status},
        "needs_attention": {"count": 0, "tasks": []},
        "held": {"count": 0, "tasks": []},
        "waits": {"for_tasks": 1, "for_news": 0},
        "connections": {"trusted": 3, "unknown": 0},
        "trouble": None,
        "audit_head": {"audit_id": 4, "sha256": "abc"},
        **more,
    }


def snapshot(**more) -> dict:
    return {
        "time": NOW,
        "version": "1",
        "process": 7,
        "url": "http://h/mcp",
        "board": board(),
        "pool": None,
        **more,
    }


@pytest.mark.spec("CLI-16")
@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (worker("starting"), "starting"),
        (worker("waiting"), "waiting for a task"),
        (worker("working", 3), "working on task 3 for 1 min 30 s"),
        (worker("working", 3, 4), "working on task 3 for 1 min 30 s, task 4 for 1 min 30 s"),
        (worker("cooling_down", until=IN_41_SECONDS, reason="endpoint"), "cooling down, 41 s left"),
        (worker("backing_off", until=IN_41_SECONDS), "backing off after failures, 41 s left"),
        (
            worker("at_cap", until=IN_41_SECONDS, reason="hourly_cap"),
            "at its cap of calls an hour, 41 s left",
        ),
        (
            worker("at_cap", until=IN_41_SECONDS, reason="daily_cap"),
            "at its cap of tokens a day, 41 s left",
        ),
        (
            worker("board_away", 3, until=IN_41_SECONDS, reason="no\x1b[31m answer"),
            "the board is away, asked again in 41 s (no [31m answer), with task 3 for 1 min 30 s",
        ),
        (
            worker("restarting", until=IN_41_SECONDS, restarts=1),
            "crashed, starts again in 41 s (has crashed once)",
        ),
        (worker("working", 3, restarts=2), "working on task 3 for 1 min 30 s (has crashed 2 times)"),
        (worker("draining", 3), "leaving, with task 3 for 1 min 30 s"),
        (worker("parked", 3, reason="auth: HTTP 401"), "parked: auth: HTTP 401, with task 3 for 1 min 30 s"),
        (
            worker("parked", reason="auth: HTTP 401", parked_since=NINETY_SECONDS_AGO),
            "parked for 1 min 30 s: auth: HTTP 401",
        ),
        (worker("stopped"), "stopped"),
    ],
)
def test_what_a_worker_does_is_said_with_since_when_how_long_yet_and_why(shown, words):
    assert state_of(shown, NOW) == words


def test_every_state_has_words_of_its_own():
    said = [state_of(worker(state.value, 3, reason="because"), NOW) for state in State]
    assert len(set(said)) == len(State)
    assert not [words for words in said if "_" in words]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (59.4, "59 s"),
        (60, "1 min 0 s"),
        (3_600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, words):
    assert duration(seconds) == words


def test_tokens_are_shown_against_their_cap_with_what_is_estimated():
    assert tokens_of(worker("waiting")) == "12,000"
    counted = worker("waiting", max_tokens_per_day=50_000, tokens_are_estimated=True)
    assert tokens_of(counted) == "about 12,000 of 50,000"


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (None, "no price"),
        (0.0, "0"),
        (0.00001234, "under 0.0001"),
        (0.01234567, "0.0123"),
        (1_234.5, "1,234.5000"),
    ],
)
def test_a_cost_is_an_amount_that_can_be_read_at_a_glance(cost, words):
    assert cost_of(worker("waiting", cost_last_day=cost)) == words


def test_costs_have_a_column_where_the_roster_has_prices_and_only_there():
    for cost, is_there in ((None, False), (0.0, True)):
        pool = {"workers": [worker("waiting", cost_last_day=cost), worker("waiting")], "endpoints": []}
        assert ("cost in 24 h" in as_text(draw_status(snapshot(pool=pool)))) == is_there


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (None, "No pool runs in this program."),
        ({"workers": [], "endpoints": []}, "The pool has no workers: the roster names none."),
        ({"workers": [worker("parked", reason="auth: x")], "endpoints": []}, PARKED_ADVICE),
    ],
)
def test_what_there_is_to_know_beside_the_tables_is_said(pool, words):
    assert words in as_text(draw_status(snapshot(pool=pool)))


def test_on_a_narrow_terminal_an_address_is_whole_all_the_same():
    console = Console(width=60, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(draw_endpoints([endpoint("well", base_url="http://127.0.0.1:12345/deepseek/v1")], NOW))
    first_column = [line.partition("  ")[0] for line in capture.get().splitlines()[1:]]
    assert "".join(first_column).replace(" ", "") == "addresshttp://127.0.0.1:12345/deepseek/v1"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (endpoint("unknown"), "not called yet"),
        (endpoint("unknown", last_call_at=NINETY_SECONDS_AGO), "called 1 min 30 s ago, nothing back yet"),
        (endpoint("well", last_failure="network"), "well"),
        (endpoint("cooling_down", until=IN_41_SECONDS), "cooling down, 41 s left"),
        (endpoint("failing", failing_since=NINETY_SECONDS_AGO), "failing for 1 min 30 s"),
    ],
)
def test_the_health_of_an_endpoint(shown, words):
    assert health_of(shown, NOW) == words


def test_the_last_answer_and_the_last_failure_of_an_endpoint_are_said_with_how_long_ago():
    heard = endpoint(
        "well", last_answer_at=NOW, last_failure="rate_limited", last_failure_at=NINETY_SECONDS_AGO
    )
    assert (answer_of(heard, NOW), failure_of(heard, NOW)) == ("0 s ago", "rate_limited, 1 min 30 s ago")
    assert (answer_of(endpoint("unknown"), NOW), failure_of(endpoint("unknown"), NOW)) == ("none", "none")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["poet"], "poet"),
        (["a\x1b", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_the_workers_of_an_endpoint_are_named_as_far_as_there_is_room(names, words):
    assert users_of(endpoint("well", workers=names)) == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "m"),
        ({"fallback_models": ["n", "o"]}, "m, else n, else o"),
        ({"fallback_models": ["n"], "unusable_models": ["m"]}, "m (not usable there), else n"),
    ],
)
def test_the_models_of_a_worker_are_named_in_the_order_in_which_they_are_asked(fields, words):
    assert models_of(worker("waiting", **fields)) == words


def test_titles_and_names_are_shown_as_they_are_and_nothing_in_them_is_obeyed():
    title = "[red]a\x1b[2Jb\nc[/red]"
    held = {
        "task_id": 1,
        "title": title,
        "agent": "an[b]na",
        "since": NINETY_SECONDS_AGO,
        "lease_expires_at": NOW,
    }
    stuck = {"task_id": 2, "title": title, "reasons": ["help_requested"], "since": NOW}
    picture = snapshot(
        board=board(
            held={"count": 1, "tasks": [held]},
            needs_attention={"count": 1, "tasks": [stuck]},
            trouble="disk\x1b full",
        ),
        pool={"workers": [worker("waiting", name="[i]poet")], "endpoints": [endpoint("well")]},
    )
    text = as_text(draw_status(picture))
    assert text.count("[red]a [2Jb c[/red]") == 2
    assert "an[b]na" in text
    assert "[i]poet" in text
    assert "TROUBLE: disk  full" in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_board_that_could_not_be_read_is_shown_with_why():
    known = {
        name: value for name, value in board().items() if name not in {"tasks", "held", "needs_attention"}
    }
    text = as_text(draw_status(snapshot(board={**known, "problem": "it is locked"})))
    assert "Tasks: not known, it is locked" in text
    assert "1 for a task" in text


@pytest.mark.parametrize("height", [5, 24, 60])
def test_the_picture_of_watch_keeps_to_the_screen_where_that_is_possible(height):
    rows = [
        {"task_id": task_id, "title": f"title {task_id}", "status": "open", "priority": 0, "attempt": 0}
        for task_id in range(50)
    ]
    events = [
        {"event_id": number, "time": NOW, "agent": "lead", "event": "claimed", "task_id": 1, "changes": {}}
        for number in range(50)
    ]
    pool = {
        "workers": [worker("waiting"), worker("working", 3, name="prosaist"), worker("waiting")],
        "endpoints": [endpoint("well")],
    }
    text = as_text(
        draw_watch(
            snapshot(pool=pool), {status.value: rows for status in Status}, events, "it is gone", 132, height
        )
    )
    assert len(text.splitlines()) <= max(height, 24)
    assert "it is gone" in text
    assert "waiting for a task" in text


@pytest.mark.spec("CLI-17")
@pytest.mark.parametrize("width", [60, 132])
@pytest.mark.parametrize("height", [24, 40, 80])
def test_in_a_large_pool_whoever_is_in_trouble_is_on_the_screen_and_the_others_are_counted(height, width):
    pool = {
        "workers": [worker("waiting", name=f"w{number}") for number in range(40)]
        + [worker("working", 3, name="busy"), worker("parked", name="lost", reason="auth: " + "x" * 80)],
        "endpoints": [endpoint("well", base_url=f"https://e{number}.example/v1") for number in range(20)]
        + [endpoint("failing", base_url="https://gone.example/v1", failing_since=NINETY_SECONDS_AGO)],
    }
    columns = {status.value: [] for status in Status}
    console = Console(width=width, force_terminal=False, no_color=True)
    happened = [event("claimed")] * 20
    with console.capture() as capture:
        console.print(draw_watch(snapshot(pool=pool), columns, happened, None, width, height))
    text = capture.get()
    assert len(text.splitlines()) <= height
    assert re.search(r"^lost +parked: auth", text, re.MULTILINE)
    assert re.search(r"^\S+ +failing", text, re.MULTILINE)
    shown = len(re.findall(r"^(?:w\d+|busy|lost) ", text, re.MULTILINE))
    assert shown == 42 or f"and {42 - shown} more: {'40' if shown == 1 else ''}" in text
    assert ("and" in text) == (height < 80)


def test_a_column_says_how_many_who_has_it_and_what_is_stuck_or_waits():
    base = {"title": "t", "priority": 0, "attempt": 0}
    columns = {
        "open": [
            {"task_id": 1, "status": "open", "needs_attention": "help_requested", **base},
            {"task_id": 2, "status": "open", "blocked_by": [1], **base},
        ],
        "claimed": [{"task_id": 3, "status": "claimed", "assignee": "poet", **base}],
    }
    text = as_text(draw_columns(board(), columns, 5))
    assert [f"{status.value} 2" in text for status in Status] == [True] * len(Status)
    assert ["1 ! t" in text, "2 … t" in text, "3 poet: t" in text] == [True] * 3


def event(name: str, agent: str = "lead", **changes) -> dict:
    return {"event_id": 1, "time": NOW, "task_id": 3, "agent": agent, "event": name, "changes": changes}


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("created", title=[None, "A\ttitle"]), "lead puts task 3 on the board: A title"),
        (event("updated", priority=[0, 1], title=["a", "b"]), "lead changes task 3: priority, title"),
        (event("claimed", "poet"), "poet claims task 3"),
        (
            event("released", "poet", reason=[None, "auth:\nno"]),
            "poet gives task 3 back: auth: no",
        ),
        (
            event("released", "poet", reason=[None, {"length": 900}]),
            "poet gives task 3 back: (900 characters)",
        ),
        (event("expired", "board", assignee=["poet", None]), "the lease of poet on task 3 has run out"),
        (event("submitted", "poet", result=[None, "secret"]), "poet submits task 3"),
        (event("reviewed", status=["submitted", "done"]), "lead accepts task 3"),
        (event("reviewed", status=["submitted", "open"]), "lead sends back task 3"),
        (event("cancelled", reason=[None, "x" * 150]), f"lead cancels task 3: {'x' * 99}…"),
        (
            event("message_posted", "poet", kind=[None, "help_request"], body=[None, "secret"]),
            "poet asks for help with task 3",
        ),
        (event("message_posted", kind=[None, "other"]), "lead writes on task 3"),
        (
            event("attention_set", "board", attention=[None, "help_requested"]),
            "task 3 needs the leader: help_requested",
        ),
        (
            event("attention_cleared", attention=["help_requested", None]),
            "task 3 needs the leader no longer for: help_requested",
        ),
        (
            event("agent_removed", "board", assignee=["poet", None]),
            "poet is no longer an agent of the board and loses task 3",
        ),
        (event("new\x1bkind", "p\x1boet"), "p oet: new kind task 3"),
    ],
)
def test_an_event_is_one_line(happened, words):
    assert describe(happened) == words


def test_every_event_of_the_board_has_words_of_its_own():
    assert not [name for name in Event if describe(event(name)).startswith(f"lead: {name}")]

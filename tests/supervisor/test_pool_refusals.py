"""What endpoints refuse: a fault of the roster, or of one task, which must not park worker after worker."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, product
from pathlib import Path

import pytest
import trio
from fake_board import FakeBoard, PickyModel, ScriptedModel, Step
from hypothesis import given
from hypothesis import strategies as st
from test_pool_pool import pool_of
from test_pool_worker import failure, working

from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import open_ledger
from supervisor.rules.failures import FailureClass
from supervisor.rules.limits import REFUSED_TASKS_MAX
from supervisor.rules.refusals import refusal, settled_class
from tests.docs.spec_document import table

SPEC = Path(__file__).resolve().parents[2] / "SPEC.md"
ROWS = table(SPEC.read_text(encoding="utf-8"), "HTTP status")
MODEL = "maker/gpt-9:7b"
OTHER = (300, 302, 303, 307, 400, 404, 405, 406, 407, 410, 415, 418, 421, 422, 424, 426, 428, 431, 451, 499)
PARSED_WRONG = "could not parse the message: the model does not exist, temperature, 404 page not found"

BODIES: Mapping[str, list[object]] = {
    "": [None, "", "text", {}, [], {"message": "why", "code": "x"}],
    "that the text was flagged": [
        {"code": 403, "message": "it requires moderation and your input was flagged", "metadata": {}},
        {"code": "content_policy_violation"},
    ],
    "a page, as something before the API sends it": ["<html><h1>blocked</h1>", " <!DOCTYPE html>"],
    "that the quota is spent": [{"code": "insufficient_quota"}, {"type": "insufficient_quota", "code": None}],
    "that the request is too large for any minute": [
        {"message": "Request too large for gpt-9 on tokens per min: limit 10000, requested 12000"}
    ],
    "that the address is wrong": [
        "404 page not found",
        "<html><head><title>404 Not Found</title></head></html>",
        {"detail": "Not Found"},
        {"detail": "Method Not Allowed"},
        {"message": "no Route matched with those values"},
        {"message": "Invalid URL (POST /chat/completions)", "type": "invalid_request_error"},
        {"code": 404, "message": "File Not Found", "type": "not_found_error"},
    ],
    "that the model or a parameter is wrong": [
        {
            "message": f"The model `{MODEL}` does not exist or you do not have access to it.",
            "code": "model_not_found",
        },
        {"message": "why", "code": "model_not_found"},
        {"message": "Model Not Exist", "type": "invalid_request_error", "code": "invalid_request_error"},
        {
            "message": f"The model `{MODEL}` does not exist.",
            "type": "NotFoundError",
            "param": None,
            "code": 404,
        },
        {"object": "error", "message": f"The model `{MODEL}` does not exist.", "type": "NotFoundError"},
        {"message": f'model "{MODEL}" not found, try pulling it first', "type": "api_error"},
        {"message": f"/chat/completions: Invalid model name passed in model={MODEL}. Call `/v1/models`"},
        {"message": f"{MODEL} is not a valid model ID", "code": 400},
        {"message": f"models/{MODEL} is not found for API version v1", "status": "NOT_FOUND"},
        {"message": f"The model `{MODEL}` has been decommissioned and is no longer supported."},
        {"message": f"Invalid model: {MODEL}", "type": "invalid_model", "code": "1500"},
        {"message": f"Unable to access model {MODEL}. Please visit"},
        f"model '{MODEL}' not found",
        "model is required",
        {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."},
        {"message": "unsupported", "param": "temperature", "code": "unsupported_value"},
        {"message": "use the other", "param": "max_tokens", "code": "unsupported_parameter"},
        {"message": "why", "param": "model", "type": "invalid_request_error"},
        {"detail": [{"type": "less_than", "loc": ["body", "temperature"], "msg": "why"}]},
        {"message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_tokens"]}]}, "type": "x"},
    ],
    "that the brief is too long": [
        {"code": "context_length_exceeded", "param": "messages"},
        {"type": "exceed_context_size_error"},
        {"message": "This model's maximum context length is 8192 tokens", "param": "max_tokens"},
        {"message": "max_tokens must be at least 1, got -102.", "param": "max_tokens"},
    ],
    "that a filter stopped it": [
        {"code": "content_filter"},
        {"code": "data_inspection_failed"},
        {"code": "SensitiveContentDetected", "param": "model"},
    ],
    "anything else": [
        None,
        "",
        {},
        [],
        7,
        {"code": ["x"], "message": {"a": 1}, "param": {"b": 2}, "detail": "x"},
        {"message": PARSED_WRONG, "type": "invalid_request_error", "param": "messages"},
        {"message": f"could not parse: 'the model {MODEL} does not exist'"},
        {"message": "Invalid model input: the temperature is not found"},
        {"message": "The model could not read the input: no such file; model not found"},
        {"detail": [{"loc": ["body", "messages", 1, "content"], "msg": "temperature"}, 7, {"loc": "body"}]},
        {"detail": [{"loc": ["query", "model"]}, {"loc": ["body"]}]},
    ],
}


def statuses_of(row: Mapping[str, str]) -> tuple[int, ...]:
    named = {"500 and more": (500, 502, 503, 529, 599, 999), "any other": OTHER}
    shown = row["HTTP status"]
    return named[shown] if shown in named else tuple(int(status) for status in shown.split(", "))


@pytest.mark.spec("POOL-19", "POOL-27")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['HTTP status']}: {row['What its body says']}")
def test_an_answer_is_of_the_class_of_its_row(row: Mapping[str, str]):
    for status, body in product(statuses_of(row), BODIES[row["What its body says"]]):
        told = refusal(status, body, model=MODEL, retry_after_seconds=3.0)
        assert (told.kind, told.retry_after_seconds) == (row["Class"], 3.0), (status, body)
        assert str(status) in told.detail


@pytest.mark.spec("POOL-27")
def test_every_status_and_every_body_stand_in_the_table():
    assert {row["What its body says"] for row in ROWS} == set(BODIES)
    shown = [status for row in ROWS for status in statuses_of(row)]
    assert set(shown) >= {*OTHER, 301, 308, 401, 402, 403, 408, 409, 413, 425, 429, 504}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["message", "detail", "code", "type", "param", "loc"]) | st.text(max_size=5),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.integers(300, 999), JSON)
def test_no_body_breaks_the_reader_and_none_of_its_words_are_kept(status: int, body: object):
    told = refusal(status, body, model=MODEL, retry_after_seconds=None)
    assert (
        told.detail.removesuffix(", a redirect, which is not followed")
        == f"the endpoint answered HTTP {status}"
    )


@pytest.mark.spec("POOL-27")
@given(st.text(max_size=100), st.sampled_from(OTHER))
def test_what_a_task_says_never_makes_its_refusal_the_rosters_fault(text: str, status: int):
    body = {"message": f"invalid content: {text}", "param": "messages", "code": None}
    assert refusal(status, body, model=MODEL, retry_after_seconds=None).kind is not FailureClass.CONFIG


@pytest.mark.spec("POOL-27")
def test_a_refused_request_is_the_tasks_fault_until_the_third_task_in_a_row():
    classes = [settled_class(FailureClass.REFUSED_REQUEST, tasks_refused=n) for n in range(1, 6)]
    assert classes == ["content", "content", "config", "config", "config"]
    assert settled_class(FailureClass.AUTH, tasks_refused=1) is FailureClass.AUTH


@pytest.mark.spec("POOL-27")
async def test_one_task_that_the_endpoint_refuses_ends_with_the_leader_and_parks_nobody(
    autojump_clock, tmp_path
):
    """No worker has had an answer before it, and the program is started again after each failure."""
    board = FakeBoard(tasks=1)
    models = {}
    for _ in range(9):
        models = {name: PickyModel({1: failure("refused_request")}) for name in ("a", "b", "c")}
        async with pool_of(board, ledger_path=tmp_path / "pool.db", **models) as pool:
            await trio.sleep(1_000)
            assert [worker.parked for worker in pool.status().workers] == [None, None, None]
    assert board.tasks[1].needs_help
    assert {failed for _, failed, _ in board.tasks[1].releases} == {True}
    board.tasks[1].needs_help = False
    board.add()
    async with pool_of(board, ledger_path=tmp_path / "pool.db", **models):
        await trio.sleep(10)
    assert board.tasks[2].status == "submitted"


@pytest.mark.spec("POOL-27")
async def test_a_set_up_that_is_refused_whatever_the_task_parks_its_worker_at_the_third(autojump_clock):
    board, model = FakeBoard(tasks=9), ScriptedModel(failure("refused_request"))
    async with working(board, model) as record:
        await trio.sleep(10_000)
    assert record.parked == "config: a detail, as to 3 tasks in a row"
    assert len(model.calls) == 3
    assert [task.releases for task in board.tasks.values()][:3] == [
        [("content: a detail", True, 900)],
        [("content: a detail", True, 900)],
        [("config: a detail, as to 3 tasks in a row", False, None)],
    ]
    assert all(task.claims == 0 for number, task in board.tasks.items() if number > 3)


@pytest.mark.spec("POOL-27")
async def test_the_row_of_refused_tasks_goes_on_after_a_restart_of_the_program(autojump_clock, tmp_path):
    """Each run meets one new task; those that it has failed at are left to others."""
    board, parked = FakeBoard(), []
    for _ in range(5):
        board.add()
        model = ScriptedModel(failure("refused_request"))
        with open_ledger(tmp_path / "pool.db", DayClock().now()) as ledger:
            async with working(board, model, ledger=ledger) as record:
                await trio.sleep(10)
        assert len(model.calls) == 1
        parked.append(record.parked is not None)
    assert parked == [False, False, True, True, True]
    assert sum(task.failures for task in board.tasks.values()) == 2


@pytest.mark.spec("POOL-27")
@pytest.mark.parametrize(
    "between", ["fine", failure("content"), failure("context_length")], ids=["answer", "content", "length"]
)
async def test_an_answer_in_between_ends_the_row(autojump_clock, between: Step):
    refused = failure("refused_request")
    board, model = FakeBoard(tasks=6), ScriptedModel(refused, refused, between, refused, refused, "fine")
    async with working(board, model) as record:
        await trio.sleep(10)
    assert record.parked is None
    assert [task.releases[:1] for number, task in board.tasks.items() if number != 3] == [
        [("content: a detail", True, 900)]
    ] * 4 + [[]]


@pytest.mark.spec("POOL-27")
@pytest.mark.parametrize("between", ["network", "rate_limited", "timeout", "server", "quota"])
async def test_what_says_nothing_of_the_set_up_does_not_end_the_row(autojump_clock, between: str):
    refused = failure("refused_request")
    board, model = FakeBoard(tasks=6), ScriptedModel(refused, failure(between), refused, refused)
    async with working(board, model) as record:
        await trio.sleep(10_000)
    assert record.parked == "config: a detail, as to 3 tasks in a row"


@pytest.mark.spec("POOL-27")
@pytest.mark.parametrize(
    "change", [{"temperature": 0.5}, {"max_output_tokens": 9}, {"system_prompt": "x"}], ids=str
)
async def test_a_worker_that_is_set_up_differently_begins_a_new_row(autojump_clock, ledger, change):
    board = FakeBoard()
    for fields in ({}, {}, change, change, change):
        board.add()
        async with working(
            board, ScriptedModel(failure("refused_request")), ledger=ledger, **fields
        ) as record:
            await trio.sleep(10)
        assert (record.parked is not None) == (len(board.tasks) == 5)
    assert sum(task.failures for task in board.tasks.values()) == 4


@pytest.mark.spec("POOL-20", "POOL-27")
async def test_each_model_has_a_row_of_its_own(autojump_clock):
    """The first model is refused whatever it is asked; the second answers."""
    refusals = count()

    async def by_turns() -> str:
        if next(refusals) % 2 == 0:
            raise failure("refused_request")
        return "fine"

    board, model = FakeBoard(tasks=REFUSED_TASKS_MAX), ScriptedModel(by_turns)
    async with working(board, model, fallback_models=("second",)) as record:
        await trio.sleep(10)
        assert record.unusable == {"m"}
    assert record.parked is None
    assert {task.status for task in board.tasks.values()} == {"submitted"}

"""From the body of a chat completion to an answer, or to a failure."""

from __future__ import annotations

import json

import pytest

from supervisor.model.completion import read_answer
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import RESULT_CHARS


def body(content: object = "fine", finish: str = "stop", **fields: object) -> bytes:
    message = {"role": "assistant", "content": content, **fields}
    return json.dumps(
        {"id": "x", "choices": [{"index": 0, "finish_reason": finish, "message": message}]}
    ).encode()


def failure_of(data: bytes) -> str:
    with pytest.raises(ModelCallError) as caught:
        read_answer(data)
    assert caught.value.kind is FailureClass.CONTENT
    return caught.value.detail


@pytest.mark.spec("POOL-9")
@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("fine", "fine"),
        ("  fine\n", "fine"),
        ("a\r\nb\rc\tdé🙂", "a\nb\nc\tdé🙂"),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {}},
                {"type": "text", "text": "b"},
            ],
            "ab",
        ),
        ("x" * RESULT_CHARS, "x" * RESULT_CHARS),
        ("🙂" * RESULT_CHARS, "🙂" * RESULT_CHARS),
        ("x\r\n" * (RESULT_CHARS // 2), "x\n" * (RESULT_CHARS // 2 - 1) + "x"),
        ("\n" * RESULT_CHARS + "x", "x"),
    ],
)
def test_the_text_of_the_first_choice_is_the_answer(content: object, answer: str):
    assert read_answer(body(content)).text == answer


@pytest.mark.spec("MODEL-7", "MODEL-8", "MODEL-9")
@pytest.mark.parametrize(
    "content",
    [
        "<think>\r\nplan\r\n</think>\r\n\r\nfine",
        "plan\r\n</think>\r\n\r\nfine\r\n",
        "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>fine",
        [{"type": "text", "text": "<think>plan</think>"}, {"type": "text", "text": "fine"}],
        f"<think>{'plan ' * RESULT_CHARS}</think>fine",
        "<think>\x1b[31mplan</think>fine",
    ],
)
def test_reasoning_in_the_text_is_not_submitted(content: object):
    assert read_answer(body(content)).text == "fine"


@pytest.mark.spec("MODEL-8")
def test_a_quote_of_the_marks_of_reasoning_is_submitted():
    quote = "Cut it off:\n\n```\nplan\n</think>\n```"
    assert read_answer(body(quote)).text == quote


@pytest.mark.spec("MODEL-6")
def test_reasoning_beside_the_answer_and_tool_calls_are_not_submitted():
    call = [{"id": "1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}]
    assert (
        read_answer(body("fine", reasoning_content="plan", reasoning="plan", tool_calls=call)).text == "fine"
    )
    assert failure_of(body(None, tool_calls=call)) == "the model called a tool in place of an answer"
    assert failure_of(body(None, reasoning_content="plan")) == "the answer is empty"


@pytest.mark.spec("POOL-10", "MODEL-7", "MODEL-9")
@pytest.mark.parametrize(
    "content",
    [
        "",
        " \n\t",
        "\u200b\u2060\ufeff",
        "\u3164\u2800",
        "\ufe0f",
        "<think>plan",
        "<think>plan</think>",
        "plan\n</think>\n\u200b",
        "<|channel|>analysis<|message|>plan",
        "<|channel|>final<|message|>\u200b<|return|>",
        None,
        [],
    ],
)
def test_an_answer_that_shows_nothing_is_a_failure(content: object):
    assert failure_of(body(content)) == "the answer is empty"


@pytest.mark.spec("POOL-10")
def test_a_refusal_and_an_answer_cut_off_are_failures():
    assert failure_of(body("I will", refusal="I must not.")) == "the model refused"
    assert failure_of(body("half", finish="content_filter")) == "the model refused"
    assert failure_of(body("half", finish="length")) == "the answer is cut off by length"


@pytest.mark.spec("POOL-10")
def test_an_answer_over_the_limit_of_a_result_is_a_failure():
    assert failure_of(body("x" * (RESULT_CHARS + 1))) == f"the answer is over {RESULT_CHARS} characters"


@pytest.mark.spec("POOL-10")
@pytest.mark.parametrize("char", ["\x00", "\x1b", "\x07", "\x7f", "\x85", "\x9b", "\ud83d"])
def test_an_answer_with_characters_that_the_board_refuses_is_a_failure(char: str):
    assert failure_of(body(f"fi{char}ne")) == "the answer holds control characters"


@pytest.mark.spec("POOL-10")
def test_halves_of_a_character_in_two_parts_make_no_whole_one():
    halves = [{"type": "text", "text": "fi\ud83d"}, {"type": "text", "text": "\ude42ne"}]
    assert failure_of(body(halves)) == "the answer holds control characters"


@pytest.mark.spec("POOL-10")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe\x00",
        b"<html>busy</html>",
        b'data: {"choices": []}\n\n',
        b'{"error": {"message": "busy"}}',
        b'{"choices": {}}',
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"text": "old style"}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}',
        b'{"choices": [{"message": {"content": {"text": "x"}}}]}',
        b"[" * 100_000,
        b'{"choices": ' + b"9" * 10_000 + b"}",
    ],
)
def test_a_body_that_is_no_valid_completion_is_a_failure(data: bytes):
    assert failure_of(data) == "the body is no valid completion"

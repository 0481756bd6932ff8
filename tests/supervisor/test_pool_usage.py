"""Tokens: as the providers tell them, in the shapes that their documentation gives, and estimated where they do not."""

from __future__ import annotations

import json

import pytest

from supervisor.model.completion import read_answer
from supervisor.model.prompt import Brief, compose
from supervisor.model.usage import Usage, cost, estimate_usage
from supervisor.rules.failures import ModelCallError

MESSAGES = compose(Brief(1, "Count to three"), mark="m4rk")

OPENAI = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1741569952,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "1 2 3", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 19,
        "completion_tokens": 74,
        "total_tokens": 93,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 64,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
}
DEEPSEEK = {
    "id": "930c60df-bf64-41c9-a88e-3ec75f81e00e",
    "object": "chat.completion",
    "model": "deepseek-reasoner",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": "1 2 3",
                "reasoning_content": "The user wants three numbers. SECRET PLAN",
            },
        }
    ],
    "usage": {
        "prompt_tokens": 16,
        "completion_tokens": 40,
        "total_tokens": 56,
        "prompt_cache_hit_tokens": 0,
        "prompt_cache_miss_tokens": 16,
        "completion_tokens_details": {"reasoning_tokens": 30},
    },
    "system_fingerprint": "fp_44709d6fcb",
}
MISTRAL = {
    "id": "cmpl-e5cc70bb28c444948073e77776eb30ef",
    "object": "chat.completion",
    "model": "magistral-medium-latest",
    "usage": {"prompt_tokens": 16, "completion_tokens": 34, "total_tokens": 50},
    "created": 1702256327,
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "tool_calls": None,
                "prefix": False,
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "SECRET PLAN"}]},
                    {"type": "text", "text": "1 2 3"},
                ],
            },
            "finish_reason": "stop",
        }
    ],
}
OLLAMA = {
    "id": "chatcmpl-642",
    "object": "chat.completion",
    "model": "qwen3",
    "system_fingerprint": "fp_ollama",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "1 2 3", "reasoning": "SECRET PLAN"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 26, "completion_tokens": 9, "total_tokens": 35},
}
LLAMA_CPP = {
    "choices": [
        {
            "finish_reason": "stop",
            "index": 0,
            "message": {"role": "assistant", "content": "<think>SECRET PLAN</think>\n\n1 2 3"},
        }
    ],
    "created": 1731000000,
    "model": "any",
    "system_fingerprint": "b4000-abcdef",
    "object": "chat.completion",
    "usage": {"completion_tokens": 12, "prompt_tokens": 34, "total_tokens": 46},
    "id": "chatcmpl-abc",
    "timings": {"prompt_n": 34, "prompt_ms": 20.1, "predicted_n": 12, "predicted_ms": 100.5},
}
VLLM = {
    "id": "chatcmpl-123",
    "object": "chat.completion",
    "model": "Qwen/Qwen3-8B",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "\n\n1 2 3",
                "reasoning_content": "SECRET PLAN",
                "tool_calls": [],
                "refusal": None,
                "function_call": None,
            },
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ],
    "usage": {"prompt_tokens": 9, "total_tokens": 29, "completion_tokens": 20, "prompt_tokens_details": None},
    "prompt_logprobs": None,
    "kv_transfer_params": None,
}


@pytest.mark.spec("POOL-21", "MODEL-6")
@pytest.mark.parametrize(
    ("completion", "usage"),
    [
        (OPENAI, (19, 74)),
        (DEEPSEEK, (16, 40)),
        (MISTRAL, (16, 34)),
        (OLLAMA, (26, 9)),
        (LLAMA_CPP, (34, 12)),
        (VLLM, (9, 20)),
    ],
    ids=["openai", "deepseek", "mistral", "ollama", "llama.cpp", "vllm"],
)
def test_each_providers_shape_is_read_answer_only_and_usage(completion, usage):
    answer = read_answer(json.dumps(completion).encode(), MESSAGES)
    assert answer.text == "1 2 3"
    assert answer.usage == Usage(*usage, is_estimated=False)


def with_usage(usage: object, content: str = "1 2 3") -> bytes:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


GUESS = estimate_usage(MESSAGES, "1 2 3")


@pytest.mark.spec("POOL-21")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, GUESS),
        ({}, GUESS),
        ([], GUESS),
        ("many", GUESS),
        ({"prompt_tokens": "9", "completion_tokens": 2.5}, GUESS),
        ({"prompt_tokens": True, "completion_tokens": False}, GUESS),
        ({"prompt_tokens": -1, "completion_tokens": 10**30}, GUESS),
        ({"prompt_tokens": 7}, Usage(7, GUESS.output_tokens, is_estimated=True)),
        ({"completion_tokens": 7}, Usage(GUESS.input_tokens, 7, is_estimated=True)),
        ({"prompt_tokens": 7, "total_tokens": 9}, Usage(7, 2, is_estimated=False)),
        ({"completion_tokens": 7, "total_tokens": 9}, Usage(2, 7, is_estimated=False)),
        # Reasoning that is counted apart is paid for too.
        ({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 59}, Usage(7, 52, is_estimated=False)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 3}, Usage(7, 2, is_estimated=False)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0, is_estimated=False)),
    ],
)
def test_what_a_provider_does_not_say_sensibly_is_estimated_and_flagged(usage, expected):
    assert read_answer(with_usage(usage), MESSAGES).usage == expected


@pytest.mark.spec("POOL-21")
def test_an_answer_that_cannot_be_submitted_was_paid_for_all_the_same():
    with pytest.raises(ModelCallError) as caught:
        read_answer(with_usage({"prompt_tokens": 7, "completion_tokens": 9}, content=""), MESSAGES)
    assert caught.value.usage == Usage(7, 9, is_estimated=False)


def test_an_estimate_grows_with_the_text_in_any_script():
    def tokens(text: str) -> int:
        return estimate_usage((), text).output_tokens

    assert tokens("") == 0
    assert tokens("word " * 100) == 125
    assert 50 <= tokens("字" * 100) <= 100
    assert tokens("\ud800") == 1


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "reasoning_content": "plan"},
        {"content": "", "reasoning": "plan"},
        {"content": "<think>plan"},
        {"content": "<think>plan</think>"},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "plan"}]}]},
    ],
)
@pytest.mark.spec("MODEL-6")
def test_reasoning_without_an_answer_is_no_answer(message):
    body = json.dumps({"choices": [{"finish_reason": "stop", "message": message}]}).encode()
    with pytest.raises(ModelCallError) as caught:
        read_answer(body, MESSAGES)
    assert caught.value.detail == "the answer is empty"


@pytest.mark.spec("POOL-21")
def test_prices_are_for_a_million_tokens():
    usage = Usage(2_000_000, 500_000, is_estimated=False)
    assert cost(usage, 0.5, 2.0) == 2.0
    assert cost(usage, None, 2.0) == 1.0
    assert cost(usage, None, None) is None

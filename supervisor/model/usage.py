"""Tokens: what a provider says that a call took, or an estimate where it says nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from supervisor.model.prompt import Message
from supervisor.rules.limits import RESULT_CHARS

_BYTES_PER_TOKEN: Final = 4
"""English has about four letters a token; other scripts have more bytes a letter, which evens out roughly."""
_TOKENS_PER_MESSAGE: Final = 4
_TOKENS_MAX: Final = 1_000_000_000
"""A provider that says more is wrong."""
UNSEEN_OUTPUT_TOKENS: Final = RESULT_CHARS // _BYTES_PER_TOKEN
"""What an answer is taken for while nothing is known of it: as long as the longest that can be submitted."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `is_estimated`: at least one of the two is not the provider's number."""

    input_tokens: int
    output_tokens: int
    is_estimated: bool

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


NO_USAGE: Final = Usage(0, 0, is_estimated=False)
"""Of a call that never reached a model."""


def read_usage(completion: dict[str, object], estimate: Usage) -> Usage:
    """What the body of a completion says, with the estimate for what it does not say.

    OpenAI, DeepSeek, Mistral, Ollama, llama.cpp and vLLM agree on prompt_tokens and completion_tokens. Where total_tokens
    is more than both together, as with providers that count reasoning apart, the rest counts as output.
    """
    fields = completion.get("usage")
    if not isinstance(fields, dict):
        return estimate
    given = _count(fields.get("prompt_tokens"))
    made = _count(fields.get("completion_tokens"))
    total = _count(fields.get("total_tokens"))
    if made is None and given is not None and total is not None:
        made = max(total - given, 0)
    elif given is None and made is not None and total is not None:
        given = max(total - made, 0)
    elif given is not None and made is not None and total is not None:
        made = max(made, total - given)
    return Usage(
        estimate.input_tokens if given is None else given,
        estimate.output_tokens if made is None else made,
        is_estimated=given is None or made is None,
    )


def estimate_usage(messages: Sequence[Message], answer: str = "") -> Usage:
    """A guess from the lengths of what was sent and what came."""
    sent = sum(_tokens(message["content"]) + _TOKENS_PER_MESSAGE for message in messages)
    return Usage(sent, _tokens(answer), is_estimated=True)


def most_tokens(messages: Sequence[Message], max_output_tokens: int | None) -> float:
    """The most that a call can take, since no token is shorter than a byte; infinite without max_output_tokens."""
    sent = sum(len(_encoded(message["content"])) + _TOKENS_PER_MESSAGE for message in messages)
    return float("inf") if max_output_tokens is None else sent + max_output_tokens


def cost(usage: Usage, price_input: float | None, price_output: float | None) -> float | None:
    """In the currency of the prices, which are for a million tokens; None where the roster names no price."""
    if price_input is None and price_output is None:
        return None
    return (usage.input_tokens * (price_input or 0) + usage.output_tokens * (price_output or 0)) / 1_000_000


def _tokens(text: str) -> int:
    return math.ceil(len(_encoded(text)) / _BYTES_PER_TOKEN)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _TOKENS_MAX else None

"""From the body of a chat completion to the text of an answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.model.prompt import Message
from supervisor.model.reasoning import without_reasoning
from supervisor.model.usage import Usage, estimate_usage, read_usage
from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import RESULT_CHARS
from supervisor.rules.text import has_refused_characters, is_invisible, with_line_feeds


@dataclass(frozen=True, slots=True)
class Answer:
    """The text, ready to be submitted, and what it took."""

    text: str
    usage: Usage


def read_answer(body: bytes, messages: Sequence[Message] = ()) -> Answer:
    """The answer to these messages.

    Raises ModelCallError of class `content`, with what the call took if that can be seen, for a body that is no valid
    completion, a refusal, an answer that was cut off by length, is empty or invisible, holds characters that the board
    refuses, or is over RESULT_CHARS.
    """
    completion = _parsed(body)
    written = _everything_written(completion)
    usage = read_usage(completion, estimate_usage(messages, written or ""))
    try:
        return Answer(_answer_text(completion), usage)
    except _Unusable as fault:
        is_unseen = written is None and usage.is_estimated
        raise ModelCallError(FailureClass.CONTENT, fault.detail, usage=None if is_unseen else usage) from None


class _Unusable(Exception):
    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def _answer_text(completion: dict[str, object]) -> str:
    choice = _first_choice(completion)
    finish = choice.get("finish_reason")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _Unusable("the body is no valid completion")
    if finish == "length":
        raise _Unusable("the answer is cut off by length")
    if finish == "content_filter" or message.get("refusal"):
        raise _Unusable("the model refused")
    text = without_reasoning(with_line_feeds(_content(message.get("content")))).strip()
    if is_invisible(text):
        if message.get("tool_calls") or message.get("function_call"):
            raise _Unusable("the model called a tool in place of an answer")
        raise _Unusable("the answer is empty")
    if has_refused_characters(text):
        raise _Unusable("the answer holds control characters")
    if len(text) > RESULT_CHARS:
        raise _Unusable(f"the answer is over {RESULT_CHARS} characters")
    return text


def _parsed(body: bytes) -> dict[str, object]:
    try:
        completion = json.loads(body)
    except (ValueError, RecursionError):
        # ValueError covers broken JSON, broken UTF-8 and numbers of too many digits.
        return {}
    return completion if isinstance(completion, dict) else {}


def _first_choice(completion: dict[str, object]) -> dict[str, object]:
    choices = completion.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    raise _Unusable("the body is no valid completion")


def _everything_written(completion: dict[str, object]) -> str | None:
    """Reasoning too, which is paid for like the answer: for the estimate where a provider gives no usage.

    None where it cannot be read.
    """
    try:
        message = _first_choice(completion).get("message")
        if not isinstance(message, dict):
            return None
        texts = [_content(message.get("content")), message.get("reasoning_content"), message.get("reasoning")]
    except _Unusable:
        return None
    return "".join(text for text in texts if isinstance(text, str))


def _content(content: object) -> str:
    """The text of a message; some endpoints send it in parts, of which only text counts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        if all(isinstance(text, str) for text in texts):
            return "".join(str(text) for text in texts)
    raise _Unusable("the body is no valid completion")

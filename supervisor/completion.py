"""From the body of a chat completion to the text of an answer. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

from supervisor.failures import FailureClass, ModelCallError
from supervisor.limits import RESULT_CHARS
from supervisor.text import has_refused_characters, is_invisible, with_line_feeds

_THINK_TAG: Final = re.compile(r"<(/?)(?:think|thinking|thought)>|\[(/?)THINK\]", re.IGNORECASE)


def read_answer(body: bytes) -> str:
    """The answer, ready to be submitted.

    Raises ModelCallError of class `content` for a body that is no valid completion, a refusal, an answer that was cut
    off by length, is empty or invisible, holds characters that the board refuses, or is over RESULT_CHARS.
    """
    choice = _first_choice(body)
    finish = choice.get("finish_reason")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _fault("the body is no valid completion")
    if finish == "length":
        raise _fault("the answer is cut off by length")
    if finish == "content_filter" or message.get("refusal"):
        raise _fault("the model refused")
    text = with_line_feeds(_without_reasoning(_content(message.get("content")))).strip()
    if is_invisible(text):
        if message.get("tool_calls") or message.get("function_call"):
            raise _fault("the model called a tool in place of an answer")
        raise _fault("the answer is empty")
    if has_refused_characters(text):
        raise _fault("the answer holds control characters")
    if len(text) > RESULT_CHARS:
        raise _fault(f"the answer is over {RESULT_CHARS} characters")
    return text


def _first_choice(body: bytes) -> dict[str, object]:
    try:
        completion = json.loads(body)
    except (ValueError, RecursionError):
        # ValueError covers broken JSON, broken UTF-8 and numbers of too many digits.
        completion = None
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    raise _fault("the body is no valid completion")


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
    raise _fault("the body is no valid completion")


def _without_reasoning(text: str) -> str:
    """The text without what stands inside think tags.

    What follows a tag that is never closed is reasoning; so is what precedes a closing tag that was never opened,
    since templates put the opening one into the prompt.
    """
    kept: list[str] = []
    depth = 0
    position = 0
    for tag in _THINK_TAG.finditer(text):
        closing = bool(tag[1] or tag[2])
        if depth == 0:
            if closing:
                kept.clear()
            else:
                kept.append(text[position : tag.start()])
        depth = max(depth - 1, 0) if closing else depth + 1
        position = tag.end()
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept)


def _fault(detail: str) -> ModelCallError:
    return ModelCallError(FailureClass.CONTENT, detail)

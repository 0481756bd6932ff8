"""What an endpoint means by an HTTP status that is no success, and whose fault a refusal is. Pure.

A wrong key, model, parameter or address is the roster's fault, and parks the worker. A text that breaks the endpoint's
parser or offends its filter is one task's fault and may come with the same status: taken for the roster's, it would
park one worker after the other. So only what the body itself says of the roster is believed at once. Its words are
believed where a message begins, since further on it may quote the task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from supervisor.rules.failures import FailureClass, ModelCallError
from supervisor.rules.limits import REFUSED_TASKS_MAX

_TEXT_CHARS: Final = 2_000

_BY_STATUS: Final = {
    301: FailureClass.CONFIG,
    308: FailureClass.CONFIG,
    401: FailureClass.AUTH,
    402: FailureClass.QUOTA,
    403: FailureClass.AUTH,
    408: FailureClass.TIMEOUT,
    409: FailureClass.SERVER,
    413: FailureClass.CONTEXT_LENGTH,
    425: FailureClass.SERVER,
    429: FailureClass.RATE_LIMITED,
    504: FailureClass.TIMEOUT,
}

# Codes are compared by their letters alone: model_not_found is also written ModelNotFound.
_QUOTA_CODES: Final = frozenset({"insufficientquota", "billinghardlimitreached", "billingnotactive"})
_CONTEXT_CODES: Final = frozenset({"contextlengthexceeded", "exceedcontextsizeerror", "stringabovemaxlength"})
_ROSTER_CODES: Final = frozenset(
    {
        "deploymentnotfound",
        "invalidmodel",
        "modeldecommissioned",
        "modelnotexist",
        "modelnotfound",
        "modelnotsupported",
        "unknownmodel",
        "unknownparameter",
        "unknownurl",
        "unsupportedmodel",
        "unsupportedparameter",
    }
)
_FILTER_CODE: Final = re.compile("contentfilter|contentpolicy|inspection|invalidprompt|moderation|sensitive")
_FILTER_WORDS: Final = re.compile(r"\b(?:flagged|moderation)\b", re.IGNORECASE)
_CONTEXT_WORDS: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum context|too many tokens|(?:prompt|input) is too long"
    # The roster knows no negative number: it is what a long prompt leaves of the context.
    r"|max_(?:completion_)?tokens must be at least 1, got -",
    re.IGNORECASE,
)
_OVER_EVERY_MINUTE: Final = re.compile(r"\W*request too large\b", re.IGNORECASE)
_UNKNOWN_MODEL: Final = re.compile(
    r"\W*(?:error\W+)?(?:/\S+\s+)?(?:(?:the|this|your)\s+)?(?:"
    r"models?\W+(?:(?:is|was|has|been|does|do|could)\s+)*"
    r"(?:not\s+(?:be\s+)?(?:available|exist|found|loaded|supported)|decommissioned|deprecated|required|retired)\b"
    r"|(?:invalid|no\s+such|unable\s+to\s+access|unknown|unsupported)\s+model(?:\s+(?:id|name))?(?:\s*[^\w\s]|\s+passed\b|$)"
    r"|is\s+not\s+a\s+valid\s+model\b)",
    re.IGNORECASE,
)
"""Of a message from which the model's own name was taken out."""
_UNKNOWN_ADDRESS: Final = re.compile(
    r"\W*(?:40[45]\W+)?(?:error\W+)?(?:(?:the|requested|resource|page|file|path|route|url|endpoint)\s+)*"
    r"(?:(?:was\s+)?not\s+found|no\s+route|cannot\s+post|invalid\s+url|method\s+not\s+allowed"
    r"|(?:no\s+such|unknown)\s+(?:endpoint|path|route|url))\b",
    re.IGNORECASE,
)
_ADDRESS_CODES: Final = frozenset({"notfound", "notfounderror", "methodnotallowed"})
_TAGS: Final = re.compile(r"<[^>]*>")
_ROSTER_FIELDS: Final = frozenset({"model", "temperature", "max_tokens", "max_completion_tokens"})
"""What a request holds that comes from the roster; the rest of it is the task."""


def refusal(status: int, error: object, *, model: str, retry_after_seconds: float | None) -> ModelCallError:
    """The failure that a status and the error object of its body amount to, when `model` was asked.

    The endpoint's words are not kept.
    """
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = FailureClass.SERVER if status >= 500 else FailureClass.REFUSED_REQUEST
    said = _read(error, model)
    if kind is FailureClass.REFUSED_REQUEST:
        kind = _class_of_refused(said, is_of_address=status in {404, 405})
    elif status == 403:
        kind = _class_of_forbidden(said)
    elif kind is FailureClass.RATE_LIMITED and said.codes & _QUOTA_CODES:
        kind = FailureClass.QUOTA
    elif kind is FailureClass.RATE_LIMITED and _OVER_EVERY_MINUTE.match(said.words):
        # Larger than what a whole minute allows: no wait would help.
        kind = FailureClass.CONTEXT_LENGTH
    detail = f"the endpoint answered HTTP {status}"
    if 300 <= status < 400:
        detail += ", a redirect, which is not followed"
    return ModelCallError(kind, detail, retry_after_seconds=retry_after_seconds)


def settled_class(kind: FailureClass, *, tasks_refused: int) -> FailureClass:
    """The class with REFUSED_REQUEST decided.

    `tasks_refused`: how many different tasks the endpoint has refused since the model last answered this worker, this one
    included. Fewer than REFUSED_TASKS_MAX say nothing against the roster.
    """
    if kind is not FailureClass.REFUSED_REQUEST:
        return kind
    return FailureClass.CONFIG if tasks_refused >= REFUSED_TASKS_MAX else FailureClass.CONTENT


@dataclass(frozen=True, slots=True)
class _Said:
    """What the body of a refusal says. `fields`: those of the request with which it finds fault."""

    words: str
    codes: frozenset[str]
    fields: frozenset[str]


def _class_of_refused(said: _Said, *, is_of_address: bool) -> FailureClass:
    if said.codes & _CONTEXT_CODES or _CONTEXT_WORDS.search(said.words):
        return FailureClass.CONTEXT_LENGTH
    if any(_FILTER_CODE.search(code) for code in said.codes):
        return FailureClass.CONTENT
    if said.codes & _ROSTER_CODES or said.fields & _ROSTER_FIELDS or _UNKNOWN_MODEL.match(said.words):
        return FailureClass.CONFIG
    if is_of_address and (said.codes & _ADDRESS_CODES or _UNKNOWN_ADDRESS.match(_TAGS.sub(" ", said.words))):
        return FailureClass.CONFIG
    return FailureClass.REFUSED_REQUEST


def _class_of_forbidden(said: _Said) -> FailureClass:
    if any(_FILTER_CODE.search(code) for code in said.codes) or _FILTER_WORDS.search(said.words):
        return FailureClass.CONTENT
    # A page is from something before the API, which may be a filter that reads what passes.
    return FailureClass.REFUSED_REQUEST if said.words.startswith("<") else FailureClass.AUTH


def _read(error: object, model: str) -> _Said:
    """Errors come as an object, as one inside another, and as bare text."""
    fields = error if isinstance(error, Mapping) else {"message": error}
    message = fields.get("message")
    inner = message if isinstance(message, Mapping) else fields
    texts = [inner.get(name) for name in ("message", "detail")]
    words = next((text for text in texts if isinstance(text, str)), "")
    return _Said(
        words=words[:_TEXT_CHARS].replace(model, "").strip(),
        codes=frozenset(
            re.sub("[^a-z]", "", str(fields.get(name, ""))[:_TEXT_CHARS].lower()) for name in ("code", "type")
        ),
        fields=frozenset([str(fields.get("param", "")), *_places(inner.get("detail"))]),
    )


def _places(problems: object) -> Iterator[str]:
    """The fields of the body that a list of validation errors names."""
    for problem in problems if isinstance(problems, list) else ():
        path = problem.get("loc") if isinstance(problem, Mapping) else None
        if isinstance(path, list) and len(path) > 1 and path[0] == "body":
            yield str(path[1])

"""What an endpoint means by an HTTP status that is no success. Pure."""

from __future__ import annotations

import re
from typing import Final

from supervisor.rules.failures import FailureClass, ModelCallError

_TEXT_CHARS: Final = 2_000
_CONTEXT_CODES: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
)
_CONTEXT_WORDS: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum context|too many tokens|(?:prompt|input) is too long",
    re.IGNORECASE,
)
_FILTER_CODES: Final = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

_BY_STATUS: Final = {
    400: FailureClass.REFUSED_REQUEST,
    401: FailureClass.AUTH,
    402: FailureClass.QUOTA,
    403: FailureClass.AUTH,
    408: FailureClass.TIMEOUT,
    409: FailureClass.SERVER,
    413: FailureClass.CONTEXT_LENGTH,
    422: FailureClass.REFUSED_REQUEST,
    425: FailureClass.SERVER,
    429: FailureClass.RATE_LIMITED,
    504: FailureClass.TIMEOUT,
}


def refusal(status: int, error: object, *, retry_after_seconds: float | None) -> ModelCallError:
    """The failure that a status and the error object of its body amount to. The endpoint's words are not kept."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = FailureClass.SERVER if status >= 500 else FailureClass.CONFIG
    fields = error if isinstance(error, dict) else {}
    codes = {str(fields.get(name, ""))[:_TEXT_CHARS].lower() for name in ("code", "type")}
    words = str(fields.get("message", ""))[:_TEXT_CHARS]
    if kind is FailureClass.REFUSED_REQUEST and (codes & _CONTEXT_CODES or _CONTEXT_WORDS.search(words)):
        kind = FailureClass.CONTEXT_LENGTH
    elif kind is FailureClass.REFUSED_REQUEST and codes & _FILTER_CODES:
        kind = FailureClass.CONTENT
    elif kind is FailureClass.RATE_LIMITED and codes & _QUOTA_CODES:
        kind = FailureClass.QUOTA
    detail = f"the endpoint answered HTTP {status}"
    if 300 <= status < 400:
        detail += ", a redirect, which is not followed"
    return ModelCallError(kind, detail, retry_after_seconds=retry_after_seconds)

"""How long an endpoint asks to be left alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from supervisor.rules.limits import RETRY_AFTER_MAX_SECONDS

_HEADER_CHARS = 64


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Seconds from `now`, between 0 and RETRY_AFTER_MAX_SECONDS; None where the header is absent or makes no sense."""
    if header is None or len(header) > _HEADER_CHARS:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_MAX_SECONDS)

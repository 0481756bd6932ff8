"""Every bound of the pool, each in this one place."""

from __future__ import annotations

from typing import Final

RESULT_CHARS: Final = 20_000
"""What the board accepts as a result; a longer answer is a failure, never cut."""
REASON_CHARS: Final = 1_000
"""What the board accepts as the reason of a release."""

ANSWER_BYTES: Final = 1024 * 1024
"""Where reading a model's answer stops: without it an endpoint could fill the memory."""
BOARD_REPLY_BYTES: Final = 4 * 1024 * 1024
"""Where reading a board's reply stops. A brief has at most some 60,000 characters of up to 12 bytes each, twice."""

REFUSED_TASKS_MAX: Final = 3
"""So many different tasks refused in a row, and never an answer in between, speak against the roster, not the tasks."""

RETRY_AFTER_MAX_SECONDS: Final = 900.0
"""The longest wait an endpoint may ask for: an absurd Retry-After must not retire a worker."""
QUOTA_WAIT_SECONDS: Final = 60.0
"""The first wait after a spent quota whose end the endpoint does not name."""

HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 86_400.0
LEDGER_KEPT_SECONDS: Final = 31 * DAY_SECONDS
"""How long the pool keeps what its calls took, since an owner may want to look back on a month, and failures on a task."""

ENDPOINT_SPREAD_PART: Final = 0.5
ENDPOINT_SPREAD_MAX_SECONDS: Final = 30.0
"""Workers that share an endpoint come back to it over this part of its cool-down, not all at its end."""

ENDPOINT_BACKOFF_FIRST_SECONDS: Final = 2.0
ENDPOINT_BACKOFF_MAX_SECONDS: Final = 300.0
"""Waits of a worker whose endpoint fails again and again."""

BOARD_BACKOFF_FIRST_SECONDS: Final = 1.0
BOARD_BACKOFF_MAX_SECONDS: Final = 30.0
"""Waits of a worker whose board is away: short, since a board that restarts is back in seconds."""
BOARD_CALL_SECONDS: Final = 30.0
"""The deadline of one call to the board: without it a board that accepts and never answers holds a worker for ever."""
CLAIM_WAIT_SECONDS: Final = 20
"""How long one claim_next waits inside the board: under BOARD_CALL_SECONDS, and under what proxies cut."""
LEASE_MIN_SECONDS: Final = 30
"""The shortest lease there is: taken for one of which the board does not say how long it is."""
LEASE_PART_OF_RENEWAL: Final = 1 / 3
RENEWAL_SECONDS_MAX: Final = 30.0
"""However long the lease: a renewal is also how a worker hears that its task was cancelled, and the model call costs."""
"""A renewal is due after so much of the lease, which leaves time for two more if it fails."""
BOARD_RATE_WAIT_MAX_SECONDS: Final = 60.0
"""The longest wait a board's rate limit is believed: its window is one minute."""

RESTART_FIRST_SECONDS: Final = 1.0
RESTART_MAX_SECONDS: Final = 60.0
RESTART_QUIET_SECONDS: Final = 300.0
"""A child that ran this long is thought well again: its back-off starts anew."""
RESTARTS_MAX: Final = 5
RESTART_WINDOW_SECONDS: Final = 300.0
"""More than RESTARTS_MAX restarts in this window park the worker."""

REPORT_SECONDS: Final = 5.0
"""How long an attempt that has ended waits for the message about it: nothing but that message depends on it."""
RELEASE_SECONDS: Final = 2.5
"""How long a stop waits for releases after the model calls were cut: a board that hangs must not hold the stop."""

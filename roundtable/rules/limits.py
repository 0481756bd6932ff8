"""Every size, count and bound of the board, each in this one place.

Characters are Unicode code points, counted after line ends became LF.
"""

from __future__ import annotations

from typing import Final

TITLE_CHARS: Final = 200
DESCRIPTION_CHARS: Final = 8_000
CRITERIA_CHARS: Final = 4_000
MESSAGE_CHARS: Final = 4_000
RESULT_CHARS: Final = 20_000
NOTE_CHARS: Final = 4_000
REASON_CHARS: Final = 1_000
NAME_CHARS: Final = 100
"""Names of agents and of skills."""

QUERY_CHARS: Final = 200
SEARCH_STEPS_MAX: Final = 200_000
"""How far one call searches, in rows of the index; a tenth of a second. The rest is on the next page."""

PRIORITY_MIN: Final = -100
PRIORITY_MAX: Final = 100
DEPENDENCIES_MAX: Final = 50
MESSAGES_PER_TASK: Final = 500
TASK_ID_MAX: Final = 2**63 - 1
"""SQLite's largest integer."""

CLAIMS_PER_WORKER: Final = 5
"""How many tasks a worker may hold at a time unless its agent or the owner says otherwise."""

MAX_ATTEMPTS_DEFAULT: Final = 3
MAX_ATTEMPTS_MAX: Final = 100
REJECTIONS_MAX: Final = 3
"""So many rejections and the leader has to look at the task itself."""

LEASE_SECONDS_DEFAULT: Final = 1_800
LEASE_SECONDS_MIN: Final = 30
LEASE_SECONDS_MAX: Final = 86_400
LATE_RESULTS_PER_AGENT: Final = 3
"""Refused late results that are kept on a task for each agent."""

WAIT_SECONDS_MAX: Final = 25
"""The longest a call waits in the server; the apps' own time-outs begin at 25 s to 60 s."""
WAIT_SECONDS_DEFAULT: Final = 20
WAITS_PER_TOKEN: Final = 4
NEEDS_NOW_MAX: Final = 50
"""How much of what needs the caller now one call tells."""

KEY_CHARS: Final = 100
KEY_HOURS: Final = 24
"""How long an idempotency key is remembered."""

COOLDOWN_SECONDS_DEFAULT: Final = 900
COOLDOWN_SECONDS_MAX: Final = 86_400

PAGE_ROWS_DEFAULT: Final = 50
PAGE_ROWS_MAX: Final = 100
BODY_BYTES: Final = 1024 * 1024
"""The longest request. Every field at its own limit fits several times over."""
REPLY_BYTES: Final = 64 * 1024
"""One reply, UTF-8, one copy. Agent apps refuse much larger ones."""
PAGE_BYTES: Final = REPLY_BYTES - 4 * 1024
"""What the rows of one page may take: the rest is for cursor, warning and braces."""
BRIEF_RESULTS_CHARS: Final = 24_000
"""Dependency and earlier results in one brief together; the rest is listed with its length."""
EVENT_VALUE_CHARS: Final = 200
"""A longer value is shown in an event as its length."""
ECHO_CHARS: Final = 100
"""How much of a caller's input an error message may repeat."""

CALLS_PER_MINUTE: Final = 60
RATE_WINDOW_SECONDS: Final = 60.0
RESERVED_CALLS: Final = 10
"""Kept above the limit for calls that land finished work, so that it is never lost to a burst of reads."""

LIVE_SECONDS: Final = 120
"""An agent seen within this time is shown as `live`."""

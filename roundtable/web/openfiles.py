"""Room for one open file per connection."""

from __future__ import annotations

import resource
from dataclasses import replace

import structlog

from roundtable.web.limits import SPARE_FILES, WebLimits

log = structlog.get_logger(__name__)


def fit_open_files(limits: WebLimits, listeners: int) -> WebLimits:
    """Raise the process's soft limit of open files to what the caps of so many listeners need.

    Where the hard limit does not allow it the caps are lowered, and the log says so.
    Returns the limits to use.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SPARE_FILES + listeners * (limits.unknown_connections + limits.max_connections)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft  # some systems have a ceiling of their own below the hard limit
    if allowed >= needed:
        return limits
    fitted = shrink(limits, (allowed - SPARE_FILES) // max(1, listeners))
    log.warning(
        "connection_caps_lowered",
        open_files=allowed,
        open_files_needed=needed,
        unknown_connections=fitted.unknown_connections,
        max_connections=fitted.max_connections,
        hint="raise the hard limit of open files (ulimit -Hn, or LimitNOFILE= of the service)",
    )
    return fitted


def shrink(limits: WebLimits, connections: int) -> WebLimits:
    """The same limits with both caps lowered in proportion, so that they make this sum; each stays at least 1."""
    total = limits.unknown_connections + limits.max_connections
    if connections >= total:
        return limits
    unknown = max(1, limits.unknown_connections * connections // total)
    return replace(limits, unknown_connections=unknown, max_connections=max(1, connections - unknown))

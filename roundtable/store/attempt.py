"""One piece of a command's work, and what became of it: a reply, a refusal, or a fault of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import structlog

from roundtable.rules.commands import Call
from roundtable.rules.errors import INTERNAL_MESSAGE, BoardError, Code
from roundtable.store.outcomes import Outcome

log = structlog.get_logger(__name__)

_INTERNAL: Final = Outcome(error=BoardError(Code.INTERNAL, INTERNAL_MESSAGE))


def attempt(work: Callable[[], Any]) -> tuple[Outcome, Exception | None]:
    """What becomes of the work, and the fault of ours that it met, which is not logged yet: it may be tried again.

    Raises sqlite3.DatabaseError if the disk has failed, and not the work.
    """
    try:
        return Outcome(work()), None
    except BoardError as error:
        return Outcome(error=error), None
    except sqlite3.DatabaseError as error:
        if not _is_ours(error):
            raise
        return _INTERNAL, error
    except Exception as error:
        return _INTERNAL, error


def log_fault(call: Call[Any], fault: Exception) -> None:
    log.error("fault", tool=call.tool, agent=call.caller.name, task_id=call.task_id, exc_info=fault)


def _is_ours(error: sqlite3.DatabaseError) -> bool:
    """Whether the error is a mistake in what was asked of SQLite: the database itself is sound."""
    # IntegrityError: a rule of the schema held where ours did not
    mistakes = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)
    return isinstance(error, mistakes) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR

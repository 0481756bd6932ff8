"""Carrying out a batch of commands in one transaction, durable when it returns.

    BEGIN IMMEDIATE; for each call: SAVEPOINT, load, decide, write, RELEASE or ROLLBACK TO; then its audit row,
    outside the savepoint; COMMIT, one fsync for all of them.

Nothing here waits for anybody or knows of other threads: one batch at a time is the board's promise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from roundtable.rules import commands
from roundtable.rules.agents import Directory
from roundtable.rules.commands import Call, Command
from roundtable.rules.errors import INTERNAL_MESSAGE, BoardError, Code
from roundtable.rules.model import Now
from roundtable.rules.roles import refuse_role
from roundtable.store import audit, claims, reads, writes
from roundtable.store.errors import StoreError
from roundtable.store.unit import Limits, Presence, Told, Unit

log = structlog.get_logger(__name__)

Handler = Callable[[Unit, Any], Any]

READS: dict[type[Command[Any]], Handler] = {
    commands.WhoAmI: reads.who_am_i,
    commands.ListAgents: reads.list_agents,
    commands.ListTasks: reads.list_tasks,
    commands.GetTask: reads.get_task,
    commands.GetHistory: reads.get_history,
}
WRITES: dict[type[Command[Any]], Handler] = {
    commands.CreateTask: writes.create_task,
    commands.UpdateTask: writes.update_task,
    commands.ClaimTask: writes.claim_task,
    commands.ClaimNext: writes.claim_next,
    commands.ReleaseTask: writes.release_task,
    commands.PostMessage: writes.post_message,
    commands.SubmitResult: writes.submit_result,
    commands.ReviewTask: writes.review_task,
    commands.CancelTask: writes.cancel_task,
}
HANDLERS = READS | WRITES

OWED_ROWS_MAX = 10_000
"""Audit rows kept in memory while the disk is broken; past that, reads are refused too, so that none is lost."""

CLOSE_BUSY_TIMEOUT_MS = 500

UNAVAILABLE_MESSAGE = (
    "The board cannot write to its disk now; nothing was changed. Reads work; try again later."
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call: a reply, or the error that refused it."""

    reply: Any = None
    error: BoardError | None = None

    def unwrap(self) -> Any:
        """The reply. Raises the BoardError if the call was refused."""
        if self.error is not None:
            raise self.error
        return self.reply


@dataclass(frozen=True, slots=True)
class Executed:
    """A finished batch: an outcome for each call, and the events for the program's log."""

    outcomes: list[Outcome]
    told: list[Told]


@dataclass(slots=True)
class Executor:
    """The one that writes.

    `trouble` is why the disk cannot be written now, or None. `accepts_claims` is False while the program stops.
    """

    db: sqlite3.Connection
    directory: Directory
    limits: Limits
    new_claim_id: Callable[[], str]
    trouble: str | None = None
    accepts_claims: bool = True
    _board_id: str = ""
    _head: audit.Head = field(init=False)
    _presence: Presence = field(init=False)
    _owed: list[audit.Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self._board_id,) = self.db.execute("SELECT board_id FROM board").fetchone()
        self._head = audit.read_head(self.db)
        self._presence = Presence(self.db)

    def start(self, now: Now) -> None:
        """Once, before the first batch: bring what is measured by the clock in line with it. Raises StoreError."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            claims.bound_cool_downs(self.db, now)
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._abandon()
            raise StoreError(f"the database cannot be written: {error}") from error

    def execute(self, batch: Sequence[Call[Any]], now: Now) -> Executed:
        """Carry out the calls in their order. When this returns, what it answers is on the disk.

        A refused call changes nothing but the audit log. A fault of ours is logged, answered with a fixed text
        and leaves the others untouched. If the disk fails, nothing of the batch has happened: reads are answered
        from what was committed before, everything else with `unavailable`.
        """
        try:
            executed = self._transact(batch, now)
        except sqlite3.DatabaseError as error:
            self._abandon()
            if self.trouble is None:
                log.error("disk_trouble", reason=str(error))
            self.trouble = f"the database cannot be written: {error}"
            return Executed([self._salvage(call, now) for call in batch], [])
        except BaseException:
            self._abandon()
            raise
        if self.trouble is not None:
            log.info("disk_recovered")
            self.trouble = None
        return executed

    def close(self) -> None:
        """Write the audit rows that are owed, checkpoint and close. What was acknowledged is safe with or without this."""
        try:
            # a stop has a deadline, and somebody who reads or writes the file for long would hold it up
            self.db.execute(f"PRAGMA busy_timeout = {CLOSE_BUSY_TIMEOUT_MS}")
            if self._owed:
                self._write_owed()
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            log.warning("checkpoint_failed", reason=str(error))
        finally:
            if self._owed:
                log.error("audit_rows_lost", rows=len(self._owed))
            self.db.close()

    def _write_owed(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        for entry in self._owed:
            self._head = audit.append(self.db, self._head, entry)
        self.db.execute("COMMIT")
        self._owed.clear()

    def _transact(self, batch: Sequence[Call[Any]], now: Now) -> Executed:
        head, owed = self._head, list(self._owed)
        outcomes: list[Outcome] = []
        told: list[Told] = []
        self.db.execute("BEGIN IMMEDIATE")
        for entry in owed:
            head = audit.append(self.db, head, entry)
        for call in batch:
            if not isinstance(call.command, commands.Probe):
                self._presence.note(call.caller, call.arrived)
            outcome, events = self._savepoint(call, now)
            outcomes.append(outcome)
            told += events
            made = self._entry(call, outcome, now)
            if made is not None:
                head = audit.append(self.db, head, made)
        if self.trouble is not None:
            # an empty transaction would not touch the disk, and would not tell whether it is back
            self.db.execute("UPDATE board SET probes = probes + 1")
        self.db.execute("COMMIT")
        self._head = head
        self._owed.clear()
        return Executed(outcomes, told)

    def _savepoint(self, call: Call[Any], now: Now) -> tuple[Outcome, list[Told]]:
        command = call.command
        if isinstance(command, commands.RecordRefusal):
            return Outcome(error=command.error), []
        if isinstance(command, commands.Probe):
            return Outcome(), []
        unit = self._unit(call, now)
        self.db.execute("SAVEPOINT one")
        outcome = self._outcome(unit, call)
        if outcome.error is not None:
            self.db.execute("ROLLBACK TO one")
            unit.told.clear()
        self.db.execute("RELEASE one")
        return outcome, unit.told

    def _outcome(self, unit: Unit, call: Call[Any]) -> Outcome:
        """What becomes of the call. Raises sqlite3.DatabaseError if the disk has failed, and not the command."""
        try:
            return Outcome(self._decide(unit, call))
        except BoardError as error:
            return Outcome(error=error)
        except sqlite3.DatabaseError as error:
            if not _is_ours(error):
                raise
            return self._fault(call)
        except Exception:
            return self._fault(call)

    def _decide(self, unit: Unit, call: Call[Any]) -> Any:
        refuse_role(call.caller, type(call.command), call.tool)
        return HANDLERS[type(call.command)](unit, call.command)

    def _fault(self, call: Call[Any]) -> Outcome:
        log.exception("fault", tool=call.tool, agent=call.caller.name, task_id=call.task_id)
        return Outcome(error=BoardError(Code.INTERNAL, INTERNAL_MESSAGE))

    def _salvage(self, call: Call[Any], now: Now) -> Outcome:
        """Answer one call of a batch that could not be written."""
        outcome = Outcome(error=BoardError(Code.UNAVAILABLE, UNAVAILABLE_MESSAGE))
        if isinstance(call.command, commands.RecordRefusal):
            outcome = Outcome(error=call.command.error)
        elif type(call.command) in READS and len(self._owed) < OWED_ROWS_MAX:
            try:
                outcome = self._outcome(self._unit(call, now), call)
            except sqlite3.DatabaseError:
                log.warning("read_failed", tool=call.tool)
        entry = self._entry(call, outcome, now)
        if entry is not None:
            if len(self._owed) < OWED_ROWS_MAX:
                self._owed.append(entry)
            else:
                log.error("audit_row_lost", tool=call.tool, agent=call.caller.name)
        return outcome

    def _entry(self, call: Call[Any], outcome: Outcome, now: Now) -> audit.Entry | None:
        command = call.command
        if isinstance(command, commands.Probe):
            return None
        word = outcome.error.code.value if outcome.error else "ok"
        if isinstance(command, commands.RecordRefusal) and command.error is None:
            word = "gone"
        duration_ms = max(0, now.board_ms - call.arrived.board_ms)
        return audit.Entry(call.arrived.text, call.caller.name, call.tool, call.task_id, word, duration_ms)

    def _unit(self, call: Call[Any], now: Now) -> Unit:
        return Unit(
            db=self.db,
            caller=call.caller,
            now=now,
            directory=self.directory,
            presence=self._presence,
            limits=self.limits,
            board_id=self._board_id,
            new_claim_id=self.new_claim_id,
            accepts_claims=self.accepts_claims,
        )

    def _abandon(self) -> None:
        with suppress(sqlite3.DatabaseError):
            # some errors of SQLite have rolled back already
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        with suppress(sqlite3.DatabaseError):
            # another tool may have written to the log, and then our end of the chain is not the end
            self._head = audit.read_head(self.db)


def _is_ours(error: sqlite3.DatabaseError) -> bool:
    """Whether the error is a mistake in what was asked of SQLite: the database itself is sound."""
    # IntegrityError: a rule of the schema held where ours did not
    mistakes = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)
    return isinstance(error, mistakes) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR

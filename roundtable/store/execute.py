"""Carrying out a batch of commands in one transaction, durable when it returns.

    BEGIN IMMEDIATE; for each call: load, decide, write, then its audit row; COMMIT, one fsync for all of them.

A call that is refused leaves nothing behind but its audit row. Nearly all are refused before they have written
anything, so the batch is tried without savepoints, which cost a copy of every page that is touched. If a call is
refused, or fails, later than that, the whole batch is taken back and carried out again with a savepoint for each.

Nothing here waits for anybody or knows of other threads: one batch at a time is the board's promise.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from roundtable.rules import commands
from roundtable.rules.agents import Agent, Directory
from roundtable.rules.commands import Call
from roundtable.rules.errors import BoardError, Code, forbidden
from roundtable.rules.model import Now
from roundtable.store import audit, claims, tasks, upkeep
from roundtable.store.attempt import attempt, log_fault
from roundtable.store.database import board_mark
from roundtable.store.dispatch import (
    OWN,
    READS,
    after_refusal,
    carry_out,
    is_of_holder,
    renew_lease,
)
from roundtable.store.errors import StoreError
from roundtable.store.idempotency import Replay
from roundtable.store.outcomes import Executed, Outcome, audit_entry
from roundtable.store.unit import BOARD, Limits, Presence, Unit

log = structlog.get_logger(__name__)

OWED_ROWS_MAX = 10_000
"""Audit rows kept in memory while the disk is broken; past that, reads are refused too, so that none is lost."""

CLOSE_BUSY_TIMEOUT_MS = 500

UNAVAILABLE_MESSAGE = (
    "The board cannot write to its disk now; nothing was changed. Reads work; try again later."
)
GONE_MESSAGE = "You are no longer one of this board's agents."


class _HalfDoneError(Exception):
    """A call has written something and was refused, and there is no savepoint to go back to."""


@dataclass(slots=True)
class Executor:
    """The one that writes.

    `trouble` is why the disk cannot be written now, or None. `accepts_claims` is False while the program stops.
    `next_end_ms` is when, on the board's clock, the next lease or cool-down runs out; `head` the end of the audit chain.
    `empty_waits` are, by agent, the waits that ended empty and stand in no audit row yet; they outlive a stop.
    """

    db: sqlite3.Connection
    directory: Directory
    limits: Limits
    new_claim_id: Callable[[], str]
    trouble: str | None = None
    accepts_claims: bool = True
    next_end_ms: int | None = field(init=False)
    _board_id: str = field(init=False)
    head: audit.Head = field(init=False)
    empty_waits: Counter[str] = field(default_factory=Counter)
    _ready: list[int] = field(default_factory=list)
    _presence: Presence = field(init=False)
    _unsettled: bool = False
    _has_savepoints: bool = False
    _owed: list[audit.Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raises StoreError if the file cannot be read. The connection is this object's own, and is closed then too."""
        try:
            self._board_id = board_mark(self.db)
            self.head = audit.read_head(self.db)
            self.next_end_ms = claims.next_end_ms(self.db)
        except StoreError:
            self.db.close()
            raise
        except sqlite3.Error as error:
            self.db.close()
            raise StoreError(f"the database cannot be read: {error}") from error
        self._presence = Presence(self.db)

    def start(self, now: Now) -> None:
        """Once, before the first batch: end what has run out meanwhile, and let go of agents that are gone.

        Raises StoreError.
        """
        unit = self._unit(BOARD, now)
        try:
            self.db.execute("BEGIN IMMEDIATE")
            claims.bound_by_length(self.db, now)
            upkeep.expire(unit)
            upkeep.settle_agents(unit)
            self.next_end_ms = claims.next_end_ms(self.db)
            self.empty_waits.update(audit.take_empty_waits(self.db))
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
            executed = self._transact_cheaply(batch, now)
        except sqlite3.DatabaseError as error:
            self._abandon()
            if self.trouble is None:
                log.error("disk_trouble", reason=str(error))
            self.trouble = f"the database cannot be written: {error}"
            return Executed([self._salvage(call, now) for call in batch])
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
            if self._owed or self.empty_waits.total():
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
            self.head = audit.append(self.db, self.head, entry)
        audit.keep_empty_waits(self.db, self.empty_waits)
        self.db.execute("COMMIT")
        self._owed.clear()

    def _transact_cheaply(self, batch: Sequence[Call[Any]], now: Now) -> Executed:
        try:
            return self._transact(batch, now)
        except _HalfDoneError:
            self._abandon()
        self._has_savepoints = True
        try:
            return self._transact(batch, now)
        finally:
            self._has_savepoints = False

    def _transact(self, batch: Sequence[Call[Any]], now: Now) -> Executed:
        head, owed = self.head, list(self._owed)
        executed = Executed([])
        self._ready.clear()
        self.db.execute("BEGIN IMMEDIATE")
        for entry in owed:
            head = audit.append(self.db, head, entry)
        self._expire(executed, now)
        if self._unsettled:
            self._settle(executed, now)
        for call in batch:
            if type(call.command) not in OWN:
                self._presence.note(call.caller, call.arrived)
            outcome = self._one(call, executed, now)
            made = audit_entry(call, outcome, now)
            if made is not None:
                head = audit.append(self.db, head, made)
            executed.outcomes.append(outcome if made is not None else replace(outcome, is_recorded=False))
        if self.trouble is not None:
            # an empty transaction would not touch the disk, and would not tell whether it is back
            self.db.execute("UPDATE board SET probes = probes + 1")
        # what was taken again within the batch wakes nobody
        found = [tasks.ready(self.db, task_id) for task_id in dict.fromkeys(self._ready)]
        executed.ready.extend(ready for ready in found if ready is not None)
        next_end_ms = claims.next_end_ms(self.db)
        self.db.execute("COMMIT")
        self.head = head
        self._owed.clear()
        self._unsettled = False
        self.next_end_ms = next_end_ms
        return executed

    def _expire(self, executed: Executed, now: Now) -> None:
        unit = self._unit(BOARD, now)
        call = Call(BOARD, "sweep", commands.Sweep(), now)
        has_end = self.next_end_ms is not None and self.next_end_ms <= now.board_ms
        self._wholly(unit, executed, call, lambda: upkeep.prepare(unit, has_end=has_end))

    def _settle(self, executed: Executed, now: Now) -> None:
        unit = self._unit(BOARD, now)
        call = Call(BOARD, "agents", commands.ReplaceAgents(self.directory), now)
        self._wholly(unit, executed, call, lambda: upkeep.settle_agents(unit))

    def _one(self, call: Call[Any], executed: Executed, now: Now) -> Outcome:
        command = call.command
        if isinstance(command, commands.ReplaceAgents):
            # remembered until it is on the disk, in case that is broken just now
            self.directory, self._unsettled = command.directory, True
            self._settle(executed, now)
        caller = self.directory.find(call.caller.name)
        if isinstance(command, commands.RecordRefusal):
            if caller is not None and command.error is not None:
                self._hear_of_holder(self._unit(caller, now), executed, call)
            return Outcome(error=command.error)
        if caller is None and type(command) not in OWN:
            return Outcome(error=forbidden(GONE_MESSAGE))
        unit = self._unit(caller or call.caller, now)
        heard = self._hear_of_holder(unit, executed, call)
        if heard.error is not None:
            return heard
        outcome = self._wholly(unit, executed, call, lambda: self._decide(unit, call))
        if isinstance(outcome.reply, Replay):
            return Outcome(outcome.reply.answer, is_replay=True)
        refusal = outcome.error
        if refusal is None or refusal.code is Code.INTERNAL:
            return outcome
        kept = self._wholly(unit, executed, call, lambda: after_refusal(unit, call, refusal))
        return Outcome(error=kept.error or kept.reply)

    def _hear_of_holder(self, unit: Unit, executed: Executed, call: Call[Any]) -> Outcome:
        held = self._outcome(call, lambda: is_of_holder(unit, call))
        if not held.reply:
            return held
        return self._wholly(unit, executed, call, lambda: renew_lease(unit, call))

    def _decide(self, unit: Unit, call: Call[Any]) -> Any:
        return carry_out(unit, call)

    def _wholly(self, unit: Unit, executed: Executed, call: Call[Any], work: Callable[[], Any]) -> Outcome:
        """Do it wholly or not at all. Raises sqlite3.DatabaseError if the disk has failed, and not the work, and
        _HalfDoneError if it is not all and cannot be taken back."""
        if self._has_savepoints:
            self.db.execute("SAVEPOINT one")
        written = self.db.total_changes
        outcome, fault = attempt(work)
        if outcome.error is None:
            executed.told.extend(unit.told)
            self._ready.extend(unit.ready)
            executed.concerned.update(unit.concerned)
        elif self._has_savepoints:
            self.db.execute("ROLLBACK TO one")
        elif self.db.total_changes != written:
            raise _HalfDoneError
        if fault is not None:
            log_fault(call, fault)
        unit.forget()
        if self._has_savepoints:
            self.db.execute("RELEASE one")
        return outcome

    def _outcome(self, call: Call[Any], work: Callable[[], Any]) -> Outcome:
        """What becomes of the work. Raises sqlite3.DatabaseError if the disk has failed, and not the work."""
        outcome, fault = attempt(work)
        if fault is not None:
            log_fault(call, fault)
        return outcome

    def _salvage(self, call: Call[Any], now: Now) -> Outcome:
        """Answer one call of a batch that could not be written."""
        outcome = Outcome(error=BoardError(Code.UNAVAILABLE, UNAVAILABLE_MESSAGE))
        caller = self.directory.find(call.caller.name)
        if isinstance(call.command, commands.ReplaceAgents):
            # who is known does not hang on the disk; the tables follow when it is back
            self.directory, self._unsettled = call.command.directory, True
        elif isinstance(call.command, commands.RecordRefusal):
            outcome = Outcome(error=call.command.error)
        elif type(call.command) not in OWN and caller is None:
            outcome = Outcome(error=forbidden(GONE_MESSAGE))
        elif type(call.command) in READS and len(self._owed) < OWED_ROWS_MAX:
            try:
                unit = self._unit(caller or call.caller, now, writable=False)
                outcome = self._outcome(call, lambda: self._decide(unit, call))
            except sqlite3.DatabaseError:
                log.warning("read_failed", tool=call.tool)
        entry = audit_entry(call, outcome, now)
        if entry is not None:
            if len(self._owed) < OWED_ROWS_MAX:
                self._owed.append(entry)
            else:
                log.error("audit_row_lost", tool=call.tool, agent=call.caller.name)
        return replace(outcome, is_recorded=entry is not None)

    def _unit(self, caller: Agent, now: Now, *, writable: bool = True) -> Unit:
        return Unit(
            db=self.db,
            caller=caller,
            now=now,
            directory=self.directory,
            presence=self._presence,
            limits=self.limits,
            board_id=self._board_id,
            new_claim_id=self.new_claim_id,
            accepts_claims=self.accepts_claims,
            writable=writable,
        )

    def _abandon(self) -> None:
        with suppress(sqlite3.DatabaseError):
            # some errors of SQLite have rolled back already
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        with suppress(sqlite3.DatabaseError):
            # another tool may have written to the log, and then our end of the chain is not the end
            self.head = audit.read_head(self.db)

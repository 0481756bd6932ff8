"""All that one worker's code works with, in one place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import structlog
import trio

from supervisor.board.protocol import Claim
from supervisor.config.roster import Worker
from supervisor.memory.clock import DayClock
from supervisor.memory.ledger import Ledger
from supervisor.memory.record import TaskInHand, WorkerRecord
from supervisor.model.endpoint import Endpoint
from supervisor.nursery.stop import Stop

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chance:
    """What a worker draws at random: a word nobody can guess, and a number from 0 to 1 that spreads waits."""

    mark: Callable[[], str]
    jitter: Callable[[], float]


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One worker of the roster with its record, and what it shares with others."""

    worker: Worker
    record: WorkerRecord
    stop: Stop
    chance: Chance
    endpoint: Endpoint
    ledger: Ledger
    clock: DayClock
    tells_tasks: bool = True
    """Whether the log is told of each claim, submit and release. In one program with the board they stand there already."""

    @property
    def name(self) -> str:
        return self.worker.name

    def tell_task(self, event: str, task_id: int, **details: object) -> None:
        """Put into the log what becomes of a task; for debugging only where somebody else tells it."""
        log.log(
            logging.INFO if self.tells_tasks else logging.DEBUG,
            event,
            worker=self.name,
            task_id=task_id,
            **details,
        )

    def told_to_leave(self) -> bool:
        return self.stop.is_requested or self.record.parked is not None

    def take(self, claim: Claim) -> None:
        """The worker has this claim. Kept on disk, so that the next run of the pool knows it for its own."""
        self.ledger.take_claim(claim.claim_id, self.name, claim.task_id, self.clock.now())
        self.record.held[claim.claim_id] = TaskInHand(claim.task_id, trio.current_time())

    def let_go(self, claim_id: str) -> None:
        """The claim is over. May be said twice."""
        self.record.held.pop(claim_id, None)
        self.record.crashed.discard(claim_id)
        self.ledger.end_claim(claim_id)

    def count_failure(self, claim: Claim) -> int:
        """This worker's failures on the task, this one included. Those before the leader's last update do not count."""
        return self.ledger.count_failure(self.name, claim.task_id, self.clock.now(), at_most=claim.failures)

    def note_refusal(self, model: str, task_id: int) -> int:
        """How many different tasks the endpoint has refused since the model last answered this worker, this one included."""
        worker = self.worker
        how = (worker.base_url, worker.temperature, worker.max_output_tokens, worker.system_prompt)
        setup = sha256(repr(how).encode()).hexdigest()[:16]
        return self.ledger.note_refusal(self.name, model, task_id, setup=setup, now=self.clock.now())

    def note_answer(self, model: str) -> None:
        self.ledger.note_answer(self.name, model)

    def forget_failures(self, task_id: int) -> None:
        self.ledger.forget_failures(self.name, task_id)

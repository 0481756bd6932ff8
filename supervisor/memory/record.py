"""What is kept of one worker while its child comes and goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from supervisor.rules.restart import RestartHistory


class State(StrEnum):
    """What a worker does, for people. With a task in hand it is `working`, whatever else it waits for."""

    STARTING = "starting"
    WAITING = "waiting"
    """For a task, inside the board."""
    WORKING = "working"
    COOLING_DOWN = "cooling_down"
    """Its endpoint is left alone."""
    BACKING_OFF = "backing_off"
    """It leaves the endpoint alone by itself."""
    AT_CAP = "at_cap"
    BOARD_AWAY = "board_away"
    RESTARTING = "restarting"
    DRAINING = "draining"
    PARKED = "parked"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TaskInHand:
    task_id: int
    since: float


@dataclass(frozen=True, slots=True)
class BoardWait:
    """When the board is asked again, and why it is thought away."""

    until: float
    reason: str


@dataclass(slots=True)
class WorkerRecord:
    """The memory of one worker: what a crash must not reset. Moments are of Trio's clock.

    Calls, tokens, failures on tasks and refused tasks are in the ledger, which outlives the program too.
    """

    troubles: int = 0
    """Failures in a row after which this worker backed off."""
    free_at: float = float("-inf")
    """Until when it backs off."""
    tokens_free_at: float = float("-inf")
    """Until when the day's tokens do not suffice for the brief that came last."""
    unusable: set[str] = field(default_factory=set)
    """Models of which a call has failed as `config`: not known there, or not as the roster asks for them."""
    restarts: RestartHistory = field(default_factory=RestartHistory)
    restart_count: int = 0
    held: dict[str, TaskInHand] = field(default_factory=dict)
    """Claims not known to have ended, by claim_id."""
    crashed: set[str] = field(default_factory=set)
    """Of those, the ones whose task met a fault of this program, until the board has been told."""
    untold: dict[str, BoardWait] = field(default_factory=dict)
    """Of those held, the ones whose end the board could not be told yet."""
    has_unread_claim: bool = False
    """Whether reading the answer to claim_next met a fault of this program: the board may have given a task with it."""
    foreign: set[str] | None = None
    """Claims found at the start that no run of this pool has made: another's business. None: not asked yet."""
    state: State = State.STARTING
    until: float | None = None
    """When the state is expected to end."""
    reason: str | None = None
    """Of the state, where there is something to say."""
    parked: str | None = None
    """Why the worker takes no more tasks, as a sentence; None while it does."""

    def note(self, state: State, *, until: float | None = None, reason: str | None = None) -> None:
        self.state, self.until, self.reason = state, until, reason

    def park(self, sentence: str) -> None:
        self.parked = self.parked or sentence
        self.note(State.PARKED, reason=self.parked)

    def begin_anew(self) -> None:
        """The owner has changed the worker: what spoke against its old setup says nothing of the new one."""
        self.parked = None
        self.foreign = None
        self.has_unread_claim = False
        self.unusable.clear()
        self.troubles = 0
        self.free_at = self.tokens_free_at = float("-inf")
        self.restarts = RestartHistory()
        self.note(State.STARTING)

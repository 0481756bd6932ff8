"""New claims whose answers are on their way out: one that reaches nobody is taken back.

A claim may have more than one answer: a second call with the same key is told of it too. While such a call is under
way nothing is taken back, and while something is being taken back no such call begins, so that an answer that
arrives never carries a claim that is undone behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from roundtable.board.actor import Board
from roundtable.rules.agents import Agent

Key = tuple[str, str]
"""An agent's name, and its idempotency_key."""


@dataclass(slots=True)
class _Delivery:
    caller: Agent
    task_id: int
    key: Key | None
    answers: int = 1
    is_handed_over: bool = False


class Deliveries:
    """The answers of claim_next that have not gone out yet."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._deliveries: dict[str, _Delivery] = {}
        self._held: set[Key] = set()
        self._being_undone: dict[Key, trio.Event] = {}

    def __len__(self) -> int:
        return len(self._deliveries) + len(self._held) + len(self._being_undone)

    def begin(self, caller: Agent, task_id: int, claim_id: str, key: str | None) -> None:
        """A claim was made and its first answer is on the way."""
        self._deliveries[claim_id] = _Delivery(caller, task_id, None if key is None else (caller.name, key))

    def count(self, claim_id: str, answers: int) -> None:
        """So many more answers with this claim are on the way; for one that has arrived already it does not matter."""
        delivery = self._deliveries.get(claim_id)
        if delivery is not None:
            delivery.answers += answers

    def answered(self, claim_id: str, *, is_handed_over: bool) -> None:
        """One answer with this claim has gone out, or has not."""
        delivery = self._deliveries.get(claim_id)
        if delivery is None:
            return  # an old answer given again: whether it arrives changes nothing
        delivery.answers -= 1
        delivery.is_handed_over |= is_handed_over
        self._settle(claim_id, delivery)

    def hold(self, key: Key) -> None:
        """A call with this key begins: it may be told of a claim that is on its way."""
        self._held.add(key)

    def let_go(self, key: Key) -> None:
        """That call has its answer."""
        self._held.remove(key)
        for claim_id, delivery in list(self._deliveries.items()):
            if delivery.key == key:
                self._settle(claim_id, delivery)

    async def undone(self, key: Key) -> None:
        """Until nothing is being taken back that this key had brought."""
        being_undone = self._being_undone.get(key)
        if being_undone is not None:
            await being_undone.wait()
            self._being_undone.pop(key, None)

    def _settle(self, claim_id: str, delivery: _Delivery) -> None:
        if delivery.answers > 0 or (delivery.key in self._held and not delivery.is_handed_over):
            return
        del self._deliveries[claim_id]
        if delivery.is_handed_over:
            return
        decided = self._board.undo_claim(delivery.caller, delivery.task_id, claim_id)
        if delivery.key is not None:
            for key in [key for key, event in self._being_undone.items() if event.is_set()]:
                del self._being_undone[key]
            self._being_undone[delivery.key] = decided

"""Calls that wait: claim_next until there is a task, wait_for_updates until there is news.

The waiting is beside the actor, never in its queue: a call asks, and if there is nothing it stands in line until a
commit wakes it to ask again. It stands in line before it asks, so that nothing can come between.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import trio

from roundtable.board.actor import Board
from roundtable.board.waits import Wait
from roundtable.rules.agents import Agent
from roundtable.rules.commands import ClaimNext, IsReady, WaitForUpdates
from roundtable.rules.model import Now
from roundtable.store.unit import BOARD

NOTHING: dict[str, Any] = {"task": None}


@dataclass(slots=True)
class _Delivery:
    """The answers that carry one new claim, on their way out."""

    caller: Agent
    task_id: int
    answers: int = 0
    is_handed_over: bool = False


@dataclass(slots=True)
class _Shared:
    """A claim_next with a key that is under way; a second one with the same key waits for its outcome."""

    done: trio.Event = field(default_factory=trio.Event)
    reply: dict[str, Any] | None = None


class WaitingRoom:
    """The calls of one board that may wait."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._deliveries: dict[str, _Delivery] = {}
        self._shared: dict[tuple[str, str], _Shared] = {}

    async def claim_next(self, caller: Agent, command: ClaimNext, arrived: Now) -> dict[str, Any]:
        """The next task for the caller, waiting for one as long as it says; `{"task": null}` if there is none by then.

        The answer has to be followed by `answered`. Cancelled, it holds no claim and no place in line. Raises
        BoardError.
        """
        deadline = trio.current_time() + command.wait_seconds
        key = command.idempotency_key
        if key is None:
            return await self._claim(caller, command, deadline, arrived, is_waiting=command.wait_seconds > 0)
        while (under_way := self._shared.get((caller.name, key))) is not None:
            with trio.move_on_at(deadline) as scope:
                await under_way.done.wait()
            if under_way.reply is not None:
                return await self._claim_again(caller, command, under_way.reply, arrived)
            if scope.cancelled_caught:
                self._board.note_empty_wait(caller)
                return NOTHING
        shared = self._shared[caller.name, key] = _Shared()
        try:
            reply = await self._claim(caller, command, deadline, arrived, is_waiting=command.wait_seconds > 0)
            shared.reply = reply if reply["task"] is not None else None
            return reply
        finally:
            del self._shared[caller.name, key]
            shared.done.set()

    async def wait_for_updates(self, caller: Agent, command: WaitForUpdates, arrived: Now) -> dict[str, Any]:
        """What concerns the caller since its cursor, waiting for it as long as the command says. Raises BoardError."""
        deadline = trio.current_time() + command.wait_seconds
        asking = replace(command, waits=command.wait_seconds > 0)
        with self._board.waits.listener(caller) as wait:
            while True:
                reply: dict[str, Any] = dict(
                    await self._board.ask(caller, "wait_for_updates", asking, arrived)
                )
                if reply["updates"] or command.cursor is None or not asking.waits:
                    return reply
                if not await self._pause(wait, deadline, "wait_for_updates", arrived):
                    return reply

    def answered(self, claim_id: str, *, is_handed_over: bool) -> None:
        """An answer of claim_next with this claim has gone out, or its client had gone first.

        A new claim that reached nobody is taken back.
        """
        delivery = self._deliveries.get(claim_id)
        if delivery is None:
            return  # an old answer given again: whether it arrives changes nothing
        delivery.answers -= 1
        delivery.is_handed_over |= is_handed_over
        if delivery.answers <= 0:
            del self._deliveries[claim_id]
            if not delivery.is_handed_over:
                self._board.undo_claim(delivery.caller, delivery.task_id, claim_id)

    async def _claim(
        self, caller: Agent, command: ClaimNext, deadline: float, arrived: Now, *, is_waiting: bool
    ) -> dict[str, Any]:
        if not is_waiting:
            return await self._ask(caller, command, arrived)
        asking = replace(command, waits=True)
        waits = self._board.waits
        with waits.claimant(caller) as wait:
            while True:
                reply = await self._ask(caller, asking, arrived)
                if reply["task"] is not None:
                    waits.pass_on(wait, taken=reply["task_id"])
                    return reply
                if wait.offered is not None:
                    await self._pass_on_if_ready(wait)
                if not await self._pause(wait, deadline, "claim_next", arrived):
                    return NOTHING

    async def _claim_again(
        self, caller: Agent, command: ClaimNext, first: dict[str, Any], arrived: Now
    ) -> dict[str, Any]:
        """What the first call with this key brought, from the board, which writes a row of its own for this one."""
        self._count_answer(first)  # so that the claim is not taken back meanwhile
        try:
            return await self._ask(caller, command, arrived)
        finally:
            self.answered(first["claim_id"], is_handed_over=False)

    async def _ask(self, caller: Agent, command: ClaimNext, arrived: Now) -> dict[str, Any]:
        outcome = await self._board.decide(caller, "claim_next", command, arrived)
        reply: dict[str, Any] = outcome.unwrap()
        if reply["task"] is not None:
            if not outcome.is_replay:
                self._deliveries[reply["claim_id"]] = _Delivery(caller, reply["task_id"])
            self._count_answer(reply)
        return reply

    def _count_answer(self, reply: dict[str, Any]) -> None:
        delivery = self._deliveries.get(reply["claim_id"])
        if delivery is not None:
            delivery.answers += 1

    async def _pass_on_if_ready(self, wait: Wait) -> None:
        """Woken, and nothing for this one: somebody was faster, or it may not have it now. Only then ask the next."""
        offered = wait.offered
        if offered is not None and await self._board.ask(BOARD, "claim_next", IsReady(offered.task_id)):
            self._board.waits.pass_on(wait, not_to=wait.agent.name)
        wait.offered = None

    async def _pause(self, wait: Wait, deadline: float, tool: str, arrived: Now) -> bool:
        try:
            goes_on = await wait.pause(deadline)
        except trio.Cancelled:
            self._board.note_gone(wait.agent, tool, arrived)
            raise
        if not goes_on:
            self._board.note_empty_wait(wait.agent)
        return goes_on

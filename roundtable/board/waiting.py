"""Calls that wait: claim_next until there is a task, wait_for_updates until there is news.

The waiting is beside the actor, never in its queue: a call asks, and if there is nothing it stands in line until a
commit wakes it to ask again. It stands in line before it asks, so that nothing can come between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from roundtable.board.actor import Board
from roundtable.board.deliveries import Deliveries
from roundtable.board.waits import Wait
from roundtable.rules.agents import Agent
from roundtable.rules.commands import ClaimNext, IsReady, WaitForUpdates
from roundtable.rules.model import Now
from roundtable.store.unit import BOARD

NOTHING: dict[str, Any] = {"task": None}


@dataclass(slots=True)
class _UnderWay:
    """A claim_next with a key that is being decided; further ones with the same key wait for what it brings."""

    joined: dict[Wait, None] = field(default_factory=dict)
    reply: dict[str, Any] | None = None


class WaitingRoom:
    """The calls of one board that may wait."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._deliveries = Deliveries(board)
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    async def claim_next(self, caller: Agent, command: ClaimNext, arrived: Now) -> dict[str, Any]:
        """The next task for the caller, waiting for one as long as it says; `{"task": null}` if there is none by then.

        An answer with a task has to be followed by `answered`. Cancelled, it holds no claim and no place in line.
        Raises BoardError.
        """
        deadline = trio.current_time() + command.wait_seconds
        if command.idempotency_key is None:
            return await self._claim(caller, command, deadline, arrived)
        key = (caller.name, command.idempotency_key)
        while (first := self._under_way.get(key)) is not None:
            reply = await self._join(first, caller, command, deadline, arrived)
            if reply is not None:
                return reply
        mine = self._under_way[key] = _UnderWay()
        self._deliveries.hold(key)
        try:
            with self._gone_if_cancelled(caller, "claim_next", arrived):
                await self._deliveries.undone(key)
            reply = await self._claim(caller, command, deadline, arrived)
            if reply["task"] is not None:
                mine.reply = reply
                self._deliveries.count(reply["claim_id"], len(mine.joined))
            return reply
        finally:
            del self._under_way[key]
            self._deliveries.let_go(key)
            for wait in mine.joined:
                wait.wake()

    async def wait_for_updates(self, caller: Agent, command: WaitForUpdates, arrived: Now) -> dict[str, Any]:
        """What concerns the caller since its cursor, waiting for it as long as the command says. Raises BoardError."""
        if command.cursor is None or not command.wait_seconds:
            return dict(await self._board.ask(caller, "wait_for_updates", command, arrived))
        deadline = trio.current_time() + command.wait_seconds
        asking = replace(command, waits=True)
        with self._board.waits.listener(caller) as wait:
            while True:
                reply: dict[str, Any] = dict(
                    await self._board.ask(caller, "wait_for_updates", asking, arrived)
                )
                if reply["updates"]:
                    return reply
                with self._gone_if_cancelled(caller, "wait_for_updates", arrived):
                    goes_on = await wait.pause(deadline)
                if not goes_on:
                    self._board.note_empty_wait(caller)
                    return reply

    def answered(self, claim_id: str, *, is_handed_over: bool) -> None:
        """An answer of claim_next with this claim has gone out, or its client had gone first.

        A new claim that reached nobody is taken back.
        """
        self._deliveries.answered(claim_id, is_handed_over=is_handed_over)

    async def _claim(
        self, caller: Agent, command: ClaimNext, deadline: float, arrived: Now
    ) -> dict[str, Any]:
        if not command.wait_seconds:
            return await self._ask(caller, command, arrived)
        asking = replace(command, waits=True)
        with self._board.waits.claimant(caller) as wait:
            while True:
                known = list(wait.offers)
                reply = await self._ask(caller, asking, arrived)
                if reply["task"] is not None:
                    wait.taken = reply["task_id"]
                    return reply
                with self._gone_if_cancelled(caller, "claim_next", arrived):
                    for offer in known:
                        # somebody was faster, or this one may not have it now: only then ask the next
                        if offer in wait.offers:
                            asked = IsReady(offer.ready.task_id)
                            outcome = await self._board.decide(BOARD, "claim_next", asked)
                            # a board that cannot say has to be asked by the next one
                            is_there = outcome.error is not None or outcome.reply
                            self._board.waits.passed(wait, offer, is_there=is_there)
                    goes_on = await wait.pause(deadline)
                if not goes_on:
                    self._board.note_empty_wait(caller)
                    return NOTHING

    async def _join(
        self, first: _UnderWay, caller: Agent, command: ClaimNext, deadline: float, arrived: Now
    ) -> dict[str, Any] | None:
        """What the first call brings, told by the board, which writes a row of its own for this one.

        None if it brought nothing and this one may go on by itself.
        """
        if not command.wait_seconds:
            self._board.note_empty_wait(caller)
            return NOTHING
        with self._board.waits.place(caller) as wait:
            first.joined[wait] = None
            try:
                with self._gone_if_cancelled(caller, "claim_next", arrived):
                    goes_on = await wait.pause(deadline)
                if first.reply is not None:
                    return await self._ask(caller, command, arrived)
            finally:
                del first.joined[wait]
                if first.reply is not None:
                    # the first has counted this one in, so that the claim was not taken back meanwhile
                    self.answered(first.reply["claim_id"], is_handed_over=False)
        if goes_on:
            return None
        self._board.note_empty_wait(caller)
        return NOTHING

    async def _ask(self, caller: Agent, command: ClaimNext, arrived: Now) -> dict[str, Any]:
        outcome = await self._board.decide(caller, "claim_next", command, arrived)
        reply: dict[str, Any] = outcome.unwrap()
        if reply["task"] is not None:
            if outcome.is_replay:
                self._deliveries.count(reply["claim_id"], 1)
            else:
                self._deliveries.begin(caller, reply["task_id"], reply["claim_id"], command.idempotency_key)
        return reply

    @contextmanager
    def _gone_if_cancelled(self, caller: Agent, tool: str, arrived: Now) -> Iterator[None]:
        """A caller that hangs up between two questions to the board has its audit row all the same."""
        try:
            yield
        except trio.Cancelled:
            self._board.note_gone(caller, tool, arrived)
            raise

"""Who waits at the board, in the order in which they came, and whom a commit wakes.

No I/O and no time here: a wait is an event and its place in line. One task wakes one waiter; if that one has gone, or
could not take it, the task is offered to the next, so that a new task costs as many board calls as it needs and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from roundtable.rules import news
from roundtable.rules.agents import Agent
from roundtable.store.unit import Ready


@dataclass(eq=False, slots=True)
class Wait:
    """One call that waits. `offered` is the task that it was woken for; `is_over`: it is to give its empty answer."""

    agent: Agent
    offered: Ready | None = None
    is_over: bool = False
    _woken: trio.Event = field(default_factory=trio.Event)

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        self.is_over = True
        self._woken.set()

    async def pause(self, deadline: float) -> bool:
        """Until it is woken; False once it is over, by `end` or by the deadline (Trio's clock)."""
        with trio.move_on_at(deadline) as scope:
            await self._woken.wait()
        self._woken = trio.Event()
        return not self.is_over and not scope.cancelled_caught


class Waits:
    """All waits. A caller has at most `per_token`: one more ends its oldest."""

    def __init__(self, per_token: int) -> None:
        self._per_token = per_token
        self._by_agent: dict[str, dict[Wait, None]] = {}
        self._claimants: dict[Wait, None] = {}
        self._listeners: dict[str, dict[Wait, None]] = {}
        self._are_over = False
        self._claims_are_over = False

    @contextmanager
    def claimant(self, agent: Agent) -> Iterator[Wait]:
        """A place in the line for tasks, kept until the block is left; a task offered last goes to the next then."""
        with self._wait(agent, is_over=self._are_over or self._claims_are_over) as wait:
            self._claimants[wait] = None
            try:
                yield wait
            finally:
                del self._claimants[wait]
                self.pass_on(wait)

    @contextmanager
    def listener(self, agent: Agent) -> Iterator[Wait]:
        """To be woken by news for the agent."""
        with self._wait(agent, is_over=self._are_over) as wait:
            listening = self._listeners.setdefault(news.address(agent), {})
            listening[wait] = None
            try:
                yield wait
            finally:
                del listening[wait]
                if not listening:
                    del self._listeners[news.address(agent)]

    def offer(self, ready: Ready, *, not_to: str | None = None) -> None:
        """Wake the first in line who can take the task and was not woken for another one."""
        for wait in self._claimants:
            if (
                wait.offered is None
                and not wait.is_over
                and wait.agent.name != not_to
                and ready.suits(wait.agent)
            ):
                wait.offered = ready
                wait.wake()
                return

    def pass_on(self, wait: Wait, *, taken: int | None = None, not_to: str | None = None) -> None:
        """Offer what the wait was woken for to the next, unless that is what it has taken."""
        ready, wait.offered = wait.offered, None
        if ready is not None and ready.task_id != taken:
            self.offer(ready, not_to=not_to)

    def tell(self, concerned: Iterable[str]) -> None:
        """Wake everybody who listens for one of these recipients."""
        for recipient in concerned:
            for wait in self._listeners.get(recipient, ()):
                wait.wake()

    def agents(self) -> list[str]:
        """Who waits."""
        return list(self._by_agent)

    def end_all(self) -> None:
        """Every wait, and every later one, gives its empty answer."""
        self._are_over = True
        for name in self.agents():
            self.end_all_of(name)

    def end_claims(self) -> None:
        """Every wait for a task, and every later one, gives its empty answer."""
        self._claims_are_over = True
        for wait in self._claimants:
            wait.end()

    def end_all_of(self, name: str) -> None:
        for wait in self._by_agent.get(name, ()):
            wait.end()

    @contextmanager
    def _wait(self, agent: Agent, *, is_over: bool) -> Iterator[Wait]:
        own = self._by_agent.setdefault(agent.name, {})
        current = [wait for wait in own if not wait.is_over]
        if len(current) >= self._per_token:
            current[0].end()
        wait = Wait(agent, is_over=is_over)
        own[wait] = None
        try:
            yield wait
        finally:
            del own[wait]
            if not own and self._by_agent.get(agent.name) is own:
                del self._by_agent[agent.name]

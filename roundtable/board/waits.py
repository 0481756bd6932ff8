"""Who waits at the board, in the order in which they came, and whom a commit wakes.

No I/O and no time here: a wait is an event and its place in line. One task is offered to one waiter. Whoever leaves the
line, or finds that the task is not for it, passes the offer on, so that no task lies open while somebody waits who
could take it, and a new task costs as many board calls as it needs and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import trio

from roundtable.rules import news
from roundtable.rules.agents import Agent, Directory
from roundtable.store.unit import Ready


@dataclass(frozen=True, slots=True)
class Offer:
    """A task that can be claimed, and the agents that have found that they cannot have it."""

    ready: Ready
    passed_by: frozenset[str] = frozenset()

    def suits(self, agent: Agent) -> bool:
        return agent.name not in self.passed_by and self.ready.suits(agent)


@dataclass(eq=False, slots=True)
class Wait:
    """One call that waits.

    `offers` are the tasks that it was woken for, `taken` is the one that it got; `is_over`: it is to give its empty
    answer.
    """

    agent: Agent
    offers: list[Offer] = field(default_factory=list)
    taken: int | None = None
    is_over: bool = False
    _woken: trio.Event = field(default_factory=trio.Event)

    def wake(self) -> None:
        self._woken.set()

    def end(self) -> None:
        self.is_over = True
        self._woken.set()

    def is_offered(self, task_id: int) -> bool:
        return any(offer.ready.task_id == task_id for offer in self.offers)

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

    def __len__(self) -> int:
        return sum(map(len, self._by_agent.values()))

    @property
    def claimants(self) -> int:
        """How many wait for a task."""
        return len(self._claimants)

    @property
    def listeners(self) -> int:
        """How many wait for news."""
        return sum(map(len, self._listeners.values()))

    @contextmanager
    def claimant(self, agent: Agent) -> Iterator[Wait]:
        """A place in the line for tasks, kept until the block is left; what is offered to it then goes to the next."""
        with self.place(agent) as wait:
            if self._claims_are_over:
                wait.end()
            self._claimants[wait] = None
            try:
                yield wait
            finally:
                del self._claimants[wait]
                self._hand_on(wait)

    @contextmanager
    def listener(self, agent: Agent) -> Iterator[Wait]:
        """To be woken by news for the agent."""
        address = news.address(agent)
        with self.place(agent) as wait:
            listening = self._listeners.setdefault(address, {})
            listening[wait] = None
            try:
                yield wait
            finally:
                del listening[wait]
                if not listening:
                    del self._listeners[address]

    @contextmanager
    def place(self, agent: Agent) -> Iterator[Wait]:
        """A wait that nothing wakes but who knows it."""
        own = self._by_agent.setdefault(agent.name, {})
        current = [wait for wait in own if not wait.is_over]
        if len(current) >= self._per_token:
            current[0].end()
        wait = Wait(agent)
        if self._are_over:
            wait.end()
        own[wait] = None
        try:
            yield wait
        finally:
            del own[wait]
            if not own and self._by_agent.get(agent.name) is own:
                del self._by_agent[agent.name]

    def offer(self, ready: Ready) -> None:
        """Offer a task that can be claimed since the last commit to one that waits for such."""
        self._place(Offer(ready))

    def passed(self, wait: Wait, offer: Offer, *, is_there: bool) -> None:
        """The agent did not get the task. If it is there it is not for this one: ask the next, and nobody twice."""
        if offer in wait.offers:
            wait.offers.remove(offer)
            if is_there:
                self._place(replace(offer, passed_by=offer.passed_by | {wait.agent.name}))

    def tell(self, concerned: Iterable[str]) -> None:
        """Wake everybody who listens for one of these recipients."""
        for recipient in concerned:
            for wait in self._listeners.get(recipient, ()):
                wait.wake()

    def end_all(self) -> None:
        """Every wait, and every later one, gives its empty answer."""
        self._are_over = True
        for waits in self._by_agent.values():
            for wait in waits:
                wait.end()

    def end_claims(self) -> None:
        """Every wait for a task, and every later one, gives its empty answer."""
        self._claims_are_over = True
        for wait in self._claimants:
            wait.end()

    def end_gone(self, directory: Directory) -> None:
        """End the waits of agents that are gone: they are offered nothing that their going sets free."""
        for name, waits in self._by_agent.items():
            if directory.find(name) is None:
                for wait in waits:
                    wait.end()

    def replace_agents(self, directory: Directory) -> None:
        """End the waits of agents that are gone; those whose skills have changed look again."""
        self.end_gone(directory)
        for name, waits in self._by_agent.items():
            agent = directory.find(name)
            for wait in waits:
                if agent is not None and agent != wait.agent:
                    wait.agent = agent
                    wait.wake()

    def _hand_on(self, wait: Wait) -> None:
        """Offer what the wait leaves to others: first of all to the one who was woken for what it took instead."""
        rest = [offer for offer in wait.offers if offer.ready.task_id != wait.taken]
        robbed = None
        if wait.taken is not None and len(rest) == len(wait.offers):
            robbed = next((one for one in self._claimants if one.is_offered(wait.taken)), None)
        if robbed is not None:
            robbed.offers = [offer for offer in robbed.offers if offer.ready.task_id != wait.taken]
        for offer in rest:
            if robbed is not None and not robbed.is_over and offer.suits(robbed.agent):
                robbed.offers.append(offer)
                robbed.wake()
                robbed = None
            else:
                self._place(offer)

    def _place(self, offer: Offer) -> None:
        """Wake the first in line whom it suits and who was offered nothing yet; if all were, who was offered least.

        Those were woken for another task and may not get it, so none of them is passed over as busy.
        """
        least: Wait | None = None
        for wait in self._claimants:
            if wait.is_over or not offer.suits(wait.agent):
                continue
            if least is None or len(wait.offers) < len(least.offers):
                least = wait
            if not wait.offers:
                break
        if least is not None:
            least.offers.append(offer)
            least.wake()

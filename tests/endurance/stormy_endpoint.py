"""A model endpoint that fails one call in five at random, and keeps its own log of what it was asked and what it did."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any, Final

import trio

from supervisor.model.usage import estimate_usage
from tests.endurance.planted_pool import ERRORS, MOMENTS, plant
from tests.supervisor.scripted_endpoint import Request, completion, response

FAILING_PART: Final = 0.2
FAILURES: Final = ("500", "503", "429", "closed", "cut off", "empty", "broken", "hanging")
THINKING_SECONDS: Final = (0.0, 0.02, 0.1, 0.4)
OUTPUT_TOKENS_MAX: Final = 100
HOPELESS: Final = "every answer to this one is empty"
"""In a task's text: what no model can do."""

_TASK = re.compile(r"Storm task (\d+)")


@dataclass(frozen=True)
class Call:
    """One request. `tokens`: what the pool has to count for it; `answer`: the text, if it was a good one."""

    worker: str
    number: int
    did: str
    tokens: int
    answer: str | None = None
    strikes: tuple[str, str] | None = None


class StormyModel:
    """The script of the endpoint. Workers are told apart by their keys."""

    def __init__(
        self, chance: random.Random, worker_of_key: Mapping[str, str], strikes: Mapping[str, int]
    ) -> None:
        """`strikes`: how often the answers make the bug of a worker strike."""
        self.calls: list[Call] = []
        self._chance = chance
        self._worker_of_key = worker_of_key
        self._strikes_left = dict(strikes)
        self._ways = _shuffled_ways(chance)

    async def __call__(self, request: Request, stream: trio.SocketStream) -> None:
        (authorization,) = request.header("authorization")
        worker = self._worker_of_key[authorization.removeprefix("Bearer ")]
        messages = request.json["messages"]
        brief = messages[-1]["content"]
        found = _TASK.search(brief)
        assert found, brief
        await trio.sleep(self._chance.choice(THINKING_SECONDS))
        is_hopeless = HOPELESS in brief
        if self._chance.random() < FAILING_PART or is_hopeless:
            did = "empty" if is_hopeless else self._chance.choice(FAILURES)
            reply, tokens = self._failure(did, messages)
            self.calls.append(Call(worker, int(found[1]), did, tokens))
        else:
            call, reply = self._answer(worker, int(found[1]), messages)
            self.calls.append(call)
        if reply is None:
            await stream.receive_some(1)  # until the caller gives up
        else:
            await stream.send_all(reply)
        await stream.aclose()

    def _failure(self, did: str, messages: list[Any]) -> tuple[bytes | None, int]:
        """What goes over the wire (None: nothing, ever), and what it costs."""
        unseen = _unseen(messages)
        if did in {"500", "503"}:
            return response(int(did), b'{"error": {"message": "overloaded"}}'), 0
        if did == "429":
            return response(429, b'{"error": {"message": "slow down"}}', retry_after="1"), 0
        if did == "closed":
            return b"", 0
        if did == "cut off":
            return response(200, completion())[:-10], unseen
        if did == "broken":
            return response(200, b'{"choices": [{"message"'), unseen
        if did == "empty":
            usage, tokens = self._usage()
            return response(200, _completion("", usage)), tokens
        return None, unseen

    def _answer(self, worker: str, number: int, messages: list[Any]) -> tuple[Call, bytes]:
        answer = f"Answer {len(self.calls)} to storm task {number}."
        strikes = None
        if self._strikes_left.get(worker):
            self._strikes_left[worker] -= 1
            strikes = next(self._ways)
            answer += " " + plant(*strikes)
        usage, tokens = self._usage()
        if self._chance.random() < 0.1:  # a provider that says nothing of usage
            usage, tokens = None, estimate_usage(messages, answer).tokens
        if strikes and strikes[0] == "answer":
            tokens = _unseen(messages)  # the bug has lost the answer with all that it says
        return Call(worker, number, "answered", tokens, answer, strikes), response(
            200, _completion(answer, usage)
        )

    def _usage(self) -> tuple[dict[str, int], int]:
        sent, made = self._chance.randint(50, 150), self._chance.randint(1, OUTPUT_TOKENS_MAX)
        return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}, sent + made

    def calls_by_worker(self) -> Counter[str]:
        return Counter(call.worker for call in self.calls)

    def tokens_by_worker(self) -> Counter[str]:
        tokens: Counter[str] = Counter()
        for call in self.calls:
            tokens[call.worker] += call.tokens
        return tokens

    def answers(self) -> dict[int, list[Call]]:
        """The good answers to each task, by its number."""
        answers: dict[int, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.answer is not None:
                answers[call.number].append(call)
        return answers

    def strikes(self, workers: Collection[str]) -> list[tuple[str, str, str]]:
        return [
            (call.worker, *call.strikes) for call in self.calls if call.worker in workers and call.strikes
        ]


def _unseen(messages: list[Any]) -> int:
    """What a call counts for of which the pool cannot see what it took: as much as was set aside for it."""
    return estimate_usage(messages).tokens + OUTPUT_TOKENS_MAX


def _completion(content: str, usage: dict[str, int] | None) -> bytes:
    body = json.loads(completion(content))
    return json.dumps(body if usage is None else {**body, "usage": usage}).encode()


def _shuffled_ways(chance: random.Random) -> Iterator[tuple[str, str]]:
    ways = list(product(MOMENTS, ERRORS))
    chance.shuffle(ways)
    return cycle(ways)

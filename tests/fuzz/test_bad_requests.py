"""A few hundred bad requests against the real server, and that they are bad in the ways they should be.

`python -m tests.endurance.bad_requests` fires as many as one likes.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import trio

from roundtable.rules.errors import BoardError
from roundtable.tools.catalogue import BY_NAME
from tests.endurance.bad_requests import Tally, bad_requests, judge
from tests.fuzz import draws
from tests.fuzz.shots import FAMILIES, MODERN, Shot, Shots

PATIENCE_SECONDS = 100.0


def drawn(count: int, seed: int = 1) -> list[Shot]:
    shots = Shots(random.Random(seed), ["a-token", "another"])  # noqa: S311
    return [shots.draw() for _ in range(count)]


@pytest.mark.spec("HTTP-7", "CONN-9", "HTTP-13")
async def test_nothing_that_a_client_sends_makes_a_server_error(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        report = await bad_requests(tmp_path, 1, 400)
    assert not report.violations, report.text()


def test_the_same_seed_gives_the_same_requests() -> None:
    assert drawn(200) == drawn(200)
    assert drawn(200) != drawn(200, seed=2)


def test_every_family_comes_in_both_generations_and_with_every_token() -> None:
    shots = drawn(2_000)
    families = Counter(shot.family for shot in shots)
    assert set(families) == set(FAMILIES)
    assert min(families.values()) > 300
    for family in FAMILIES:
        sent = [shot.data for shot in shots if shot.family == family]
        assert sum(MODERN.encode() in data for data in sent) > 30, family
        assert sum(b"2025-11-25" in data for data in sent) > 30, family
        for token in (b"Bearer a-token", b"Bearer another"):
            assert any(token in data for data in sent), family


def test_only_framing_is_ever_incomplete() -> None:
    for shot in drawn(1_000):
        if shot.family == "framing":
            assert not shot.is_whole
        elif shot.family != "headers":
            assert shot.is_whole
            head, _, body = shot.data.partition(b"\r\n\r\n")
            if b"Transfer-Encoding" not in head:
                assert b"Content-Length: %d" % len(body) in head


def test_no_call_waits_longer_than_a_test_can() -> None:
    chance = random.Random(3)  # noqa: S311
    for method, params in itertools.starmap(draws.odd_call, [(chance,)] * 5_000):
        arguments = params.get("arguments")
        if method != "tools/call" or params["name"] not in ("claim_next", "wait_for_updates"):
            continue
        seconds = arguments.get("wait_seconds") if isinstance(arguments, dict) else None
        takes_time = type(seconds) in (int, float) and 0 < seconds <= 25
        assert not takes_time, params
        if params["name"] == "wait_for_updates" and isinstance(arguments, dict):
            assert seconds not in (None, ""), params


def test_many_calls_get_past_the_schema_and_many_do_not() -> None:
    chance = random.Random(4)  # noqa: S311
    taken = refused = 0
    for method, params in (draws.odd_call(chance) for _ in range(1_000)):
        tool = (
            BY_NAME.get(params["name"])
            if method == "tools/call" and isinstance(params["name"], str)
            else None
        )
        if tool is None:
            continue
        try:
            tool.parse(params["arguments"])
            taken += 1
        except BoardError:
            refused += 1
    assert taken > 150
    assert refused > 150


OWED = Shot("rpc", b"POST /mcp HTTP/1.1")
NOT_OWED = Shot("framing", b"GARBAGE", is_whole=False)


@pytest.mark.parametrize(
    ("shot", "statuses", "body"),
    [
        (OWED, (500,), b""),
        (NOT_OWED, (400, 503), b""),
        (OWED, (400,), b'Traceback (most recent call last):\n  File "x.py", line 3'),
        (OWED, (200,), b'{"error":{"code":"internal","message":"m"}}'),
        (OWED, (200,), b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}'),
        (OWED, (), b""),
    ],
)
def test_such_an_answer_is_held_against_the_server(shot, statuses, body) -> None:
    tally = Tally()
    judge(shot, tally, statuses, body, False)
    assert len(tally.bad) == 1


def test_an_answer_that_never_came_is_held_against_the_server_and_a_plain_refusal_is_not() -> None:
    tally = Tally()
    judge(NOT_OWED, tally, (), b"", False)
    judge(OWED, tally, (400,), b'{"error":{"code":"invalid","message":"m"}}', False)
    assert tally.bad == []
    judge(NOT_OWED, tally, (), b"", True)
    assert len(tally.bad) == 1

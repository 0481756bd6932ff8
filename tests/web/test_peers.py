"""Addresses, counts, tokens: what is known of a client."""

import hashlib

import pytest
import trio
import trio.testing
from web_edge import LEADER, TOKEN, WORKER

from roundtable.web.inbox import Inbox
from roundtable.web.limits import WebLimits
from roundtable.web.peers import Admission, Peer, address_key
from roundtable.web.tokens import TokenTable, digest


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
    ],
)
def test_addresses_of_one_ipv6_site_count_as_one(one, other, same):
    assert (address_key(one) == address_key(other)) is same


@pytest.mark.spec("CONN-10", "CONN-11")
def test_whoever_leaves_makes_room_whatever_it_was():
    admission = Admission(WebLimits(unknown_connections=4, max_connections=1))
    peer = Peer("a", TokenTable({}), admission)
    assert admission.enter("a")
    assert not admission.enter("a")
    assert peer.trust()
    assert peer.trust()
    assert admission.enter("a")
    other = Peer("a", TokenTable({}), admission)
    assert not other.trust()
    peer.leave()
    assert other.trust()
    other.leave()
    assert repr(admission) == "<Admission 0 unknown, 0 trusted>"


@pytest.mark.parametrize(
    "changes", [{"unknown_connections": 0}, {"max_connections": 0}, {"rate_limit_per_minute": -1}]
)
def test_limits_that_let_nobody_in_are_refused(changes):
    with pytest.raises(ValueError):
        WebLimits(**changes)


def test_a_token_is_known_by_its_digest_alone():
    table = TokenTable({hashlib.sha256(TOKEN).digest(): WORKER})
    assert table.agent_for(TOKEN) is WORKER
    assert table.agent_for(digest(TOKEN)) is None
    assert table.agent_for(b"") is None


def test_a_token_table_shows_no_digest():
    table = TokenTable({digest(TOKEN): WORKER})
    assert repr(table) == "<TokenTable of 1 agents>"
    assert len(table) == 1


def test_tokens_are_replaced_all_at_once_or_not_at_all():
    table = TokenTable({digest(TOKEN): WORKER})
    with pytest.raises(ValueError):
        table.replace({digest(b"other"): LEADER, b"short": LEADER})
    assert table.agent_for(TOKEN) is WORKER
    table.replace({digest(b"other"): LEADER})
    assert (table.agent_for(TOKEN), table.agent_for(b"other")) == (None, LEADER)


def part(body, *, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


async def test_putting_never_waits_and_what_passes_the_limit_is_dropped():
    inbox = Inbox(10)
    with trio.fail_after(1):
        for _ in range(100):
            await inbox.put(part(b"abcd"))
    received = []
    with trio.move_on_after(0.01):
        while True:
            received.append((await inbox.receive())["body"])
    assert b"".join(received) == b"abcd" * 3  # enough to see that it is too long


async def test_a_hang_up_is_heard_behind_what_came_before_and_from_then_on():
    inbox = Inbox(10)
    await inbox.put(part(b"a", more=False))
    await inbox.put({"type": "http.disconnect"})
    assert [(await inbox.receive())["type"] for _ in range(3)] == [
        "http.request",
        "http.disconnect",
        "http.disconnect",
    ]


async def test_everybody_who_waits_hears_of_a_hang_up(autojump_clock):
    inbox = Inbox(10)
    heard = []

    async def listen():
        heard.append(await inbox.receive())

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            await inbox.put({"type": "http.disconnect"})
    assert heard == [{"type": "http.disconnect"}] * 3

"""A worker as a process of its own: it claims a task, renews its claim, and submits late once that is lost.

    TOKEN=... python -m tests.endurance.holder URL TASK_ID RENEW_SECONDS TEXT

It prints one line for each thing that comes of it.
"""

from __future__ import annotations

import os
import sys

import httpx
import trio

from tests.acceptance.seats import HttpSeat, RefusedError


async def hold(url: str, task_id: int, renew_seconds: float, text: str) -> None:
    seat = HttpSeat(os.environ["TOKEN"])
    claim_id = (await seat.call(url, "claim_task", task_id=task_id))["claim_id"]
    _say("claimed")
    while True:
        await trio.sleep(renew_seconds)
        try:
            await seat.call(url, "renew_claim", task_id=task_id, claim_id=claim_id)
        except httpx.TransportError:
            continue  # says nothing about the claim
        except RefusedError as refused:
            _say(f"renewal refused: {refused.code}")
            break
        _say("renewed")
    try:
        written = await seat.call(url, "submit_result", task_id=task_id, claim_id=claim_id, result=text)
    except RefusedError as refused:
        _say(f"submit refused: {refused.code} {refused.error.get('status')}")
    else:
        _say(f"submit accepted: {written['status']}")
    await seat.aclose()


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, to_url, to_task, every, result = sys.argv
    trio.run(hold, to_url, int(to_task), float(every), result)

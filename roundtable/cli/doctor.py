"""`roundtable doctor`: a client's handshake replayed, and in words what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import click
import trio

from roundtable.cli.connecting import TOKEN_VARIABLE
from roundtable.cli.handshake import LEGACY, MODERN, Handshake
from roundtable.cli.output import EXIT_CONFIGURATION, as_json, printable, show
from roundtable.cli.reaching import Trouble, check_connection
from roundtable.cli.settings import read_client

SKEW_SECONDS: Final = 60.0
"""Clocks that differ by less are told apart by nobody."""


@dataclass(slots=True)
class Diagnosis:
    """What was found: steps that went well, advice that stops nothing, and the first trouble, after which nothing is tried."""

    url: str
    fine: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    trouble: Trouble | None = None


@click.command("doctor")
@click.option("--url", help="Where the board is. [default: ROUNDTABLE_URL, or this machine]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def doctor_command(url: str | None, wants_json: bool) -> None:
    """Connect as an app does, with ROUNDTABLE_TOKEN, and say what is wrong.

    Exit codes: 0 an app would get through, 1 the board refuses, 2 the token or the address is missing, 3 no way to the board.
    """
    here = read_client(url)
    found = diagnose(here.url, here.token, time.time)
    code = found.trouble.code if found.trouble else 0
    if wants_json:
        facts = {
            "url": found.url,
            "ok": found.trouble is None,
            "trouble": found.trouble.sentence if found.trouble else None,
            "fine": found.fine,
            "advice": found.advice,
        }
        show(as_json(facts))
        raise SystemExit(code)
    if found.fine:
        show("\n".join(f"fine: {sentence}" for sentence in found.fine))
    for sentence in [*found.advice, *([found.trouble.sentence] if found.trouble else [])]:
        click.echo(printable(sentence), err=True)
    raise SystemExit(code)


def diagnose(url: str, token: str | None, now: Callable[[], float]) -> Diagnosis:
    """Go the way of a client from the name to the first call. `now` is the time here, in seconds since 1970."""
    found = Diagnosis(url)
    try:
        check_connection(url)
        found.fine.append(f"{url} can be reached.")
        if token is None:
            raise Trouble(
                EXIT_CONFIGURATION, f"{TOKEN_VARIABLE} is not set: it has to be the token of the agent."
            )
        trio.run(_shake, Handshake(url, token), found, now)
    except Trouble as trouble:
        found.trouble = trouble
    return found


async def _shake(handshake: Handshake, found: Diagnosis, now: Callable[[], float]) -> None:
    try:
        await _shake_in_both_generations(handshake, found, now)
    finally:
        await handshake.close()


async def _shake_in_both_generations(
    handshake: Handshake, found: Diagnosis, now: Callable[[], float]
) -> None:
    try:
        await handshake.legacy()
    finally:
        if handshake.server_time is not None:
            ahead = handshake.server_time - now()
            if abs(ahead) > SKEW_SECONDS:
                word = "ahead of" if ahead > 0 else "behind"
                found.advice.append(
                    f"The server's clock is {abs(ahead):.0f} s {word} this machine's: one of the two is wrong, and times "
                    "are shown by the server's."
                )
    found.fine.append(f"It speaks MCP with apps of the first generation ({LEGACY}).")
    agent = await handshake.modern()
    found.fine.append(f"It speaks MCP with apps of the second generation ({MODERN}).")
    found.fine.append(f"The token is that of {agent.name} ({agent.role}), who has {agent.tools} tools.")

"""`roundtable demo`: the whole product in a temporary folder, with a real small model and no key."""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, TypeVar

import click
import trio
from rich.console import Console

from roundtable.cli.board_call import RefusedError, open_call
from roundtable.cli.demo_leader import DemoError, Finished, lead
from roundtable.cli.demo_story import STORY
from roundtable.cli.demo_view import DemoConsole, open_view, show_results
from roundtable.cli.running import EXIT_FAULT, Signals, run
from roundtable.cli.up import open_roundtable
from roundtable.config.agents import AgentsFile
from roundtable.config.settings import Settings
from roundtable.config.tokens import digest_of, new_token
from roundtable.rules.agents import Agent, Role
from supervisor.config.roster import Roster, Worker
from supervisor.local_model.notices import open_notices
from supervisor.local_model.server import Endpoint, local_model, require_extra
from supervisor.local_model.weights import obtain_weights
from supervisor.log.setup import configure_logging

PATIENCE_SECONDS: Final = 600.0
"""From the first task to the last result. On two busy cores it took half a minute."""

_WORKERS: Final = ("ada", "ben")
_CALLS_PER_MINUTE: Final = 1_000
"""The leader and the workers ask the board often, so that the demo does not drag."""
_LOG_LINES_SHOWN: Final = 20

T = TypeVar("T")


@click.command("demo")
def demo_command() -> None:
    """See the board at work: a real small model on this machine, no key, no file, nothing left behind.

    Needs the extra `local`. The model's weights are fetched once and kept in your cache folder.
    """
    run(demo, reloads=False)


async def demo(signals: Signals) -> int:
    """Play the demo until all its tasks are done (0), until it is told to stop or until it fails (1).

    Raises LocalModelError if there is no model to play it with.
    """
    stop = signals.stop
    require_extra()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a model writes need not fit the terminal's encoding.
        sys.stdout.reconfigure(errors="replace")
    console = DemoConsole()
    with open_notices(console) as notices:
        weights = await _unless(stop, partial(obtain_weights, notices))
    if weights is None:
        return EXIT_FAULT
    with TemporaryDirectory(prefix="roundtable-demo-") as name:
        folder = Path(name)
        log_path = folder / "roundtable.log"
        with log_path.open("w", encoding="utf-8") as log:
            # The terminal belongs to the story; the log is shown if the story ends badly.
            configure_logging("console", "info", log)
            console.print("A real model, the board and a pool of two workers start on this machine.")
            async with local_model(weights, folder / "model.log") as endpoint:
                finished = await play(stop, console, folder, endpoint)
        if finished is None:
            if stop.is_set():
                console.print("Stopped.")
            else:
                _show_log(log_path)
            return EXIT_FAULT
    show_results(console, finished)
    console.print(f"\nAll {len(finished)} tasks are done.", style="green")
    return 0


async def play(
    stop: trio.Event,
    console: Console,
    folder: Path,
    endpoint: Endpoint,
    patience_seconds: float = PATIENCE_SECONDS,
) -> tuple[Finished, ...] | None:
    """Board and pool in this folder, the leader's part played; None if it did not come to its end, and why is told."""
    token = new_token()
    agents = AgentsFile(MappingProxyType({digest_of(token): Agent("leader", Role.LEADER)}))
    settings = Settings(port=0, db_path=folder / "roundtable.db", rate_limit_per_minute=_CALLS_PER_MINUTE)
    async with open_roundtable(settings, agents, make_roster(endpoint), {}) as roundtable:
        url = roundtable.server.urls[0]
        console.print(f"The board listens on {url}.\n", highlight=False, soft_wrap=True)
        with open_view(console) as view:
            async with open_call(url, token) as call:
                with trio.move_on_after(patience_seconds) as patience:
                    try:
                        return await _unless(stop, partial(lead, call, STORY, view))
                    except* (DemoError, RefusedError) as refusals:
                        for refusal in refusals.exceptions:
                            view.say(f"The demo cannot go on: {refusal}.")
                if patience.cancelled_caught:
                    view.say(f"The demo is not done after {patience_seconds:.0f} s and ends here.")
    return None


def make_roster(endpoint: Endpoint) -> Roster:
    """Two workers that share the model."""
    workers = tuple(
        Worker(
            name=name,
            model=endpoint.model,
            base_url=endpoint.base_url,
            max_calls_per_hour=100,
            max_output_tokens=160,
            temperature=0.0,
            cooldown_seconds=1,
        )
        for name in _WORKERS
    )
    return Roster(workers, grace_seconds=2.0, poll_interval=0.5)


async def _unless(stop: trio.Event, work: Callable[[], Awaitable[T]]) -> T | None:
    """What the work returns, or None if `stop` was set before that: the work is then cancelled."""
    result = None
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        result = await work()
        nursery.cancel_scope.cancel()
    return result


def _show_log(path: Path) -> None:
    click.echo("The end of its log:", err=True)
    for line in path.read_text(encoding="utf-8").splitlines()[-_LOG_LINES_SHOWN:]:
        click.echo(f"  {line}", err=True)

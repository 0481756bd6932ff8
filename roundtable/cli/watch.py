"""`roundtable watch`: how the running program stands, live, with the board in columns and what happens on it.

What is going on in the program is asked of the program; the board itself is read from its file, which stays untouched.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import click
import trio
from rich.console import Console
from rich.live import Live

from roundtable.cli.event_words import clock_time, describe
from roundtable.cli.output import (
    EXIT_CONFIGURATION,
    EXIT_UNREACHABLE,
    OutputError,
    fail,
    printable,
    say,
)
from roundtable.cli.running import Signals, run
from roundtable.cli.settings import advise, read_settings
from roundtable.cli.status import ask, why_not
from roundtable.cli.status_view import as_text, draw_status
from roundtable.cli.status_words import failure_of, health_of, is_in_trouble, is_notable, state_of
from roundtable.cli.watch_view import draw_watch
from roundtable.rules.replies import EventRow, Row
from roundtable.store.errors import StoreError
from roundtable.store.overview import events_after, newest_event_id, read_columns
from roundtable.store.reading import open_reading
from supervisor.log.setup import configure_logging
from supervisor.rules.text import in_one_line
from supervisor.status.client import NoAnswerError, NobodyThereError

REFRESH_SECONDS: Final = 1.0
EVENTS_KEPT: Final = 50
EVENTS_AT_FIRST: Final = 15
EVENTS_A_READ: Final = 500
CARDS_MAX: Final = 50


@dataclass
class Sight:
    """What there is to see: the last snapshot, the board's columns, the events since the last look and the last ones."""

    snapshot: dict[str, Any]
    columns: dict[str, list[Row]] = field(default_factory=dict)
    news: Sequence[EventRow] = ()
    last_events: deque[EventRow] = field(default_factory=partial(deque, maxlen=EVENTS_KEPT))
    notice: str | None = None
    """What is wrong with the picture, if anything: then it is an old one."""


class View(Protocol):
    def show(self, sight: Sight) -> None:
        """Bring it before the owner. Raises OutputError."""


@click.command("watch")
@click.option(
    "--json", "wants_json", is_flag=True, help="Print a line of JSON whenever something has changed."
)
def watch_command(wants_json: bool) -> None:
    """Watch the running program live: board, pool and what happens, until Ctrl-C. Elsewhere than on a terminal, in lines."""
    database = read_settings().db_path
    try:
        first = trio.run(ask, database)
    except (NoAnswerError, NobodyThereError) as error:
        fail(EXIT_UNREACHABLE, why_not(database, error))
    # The terminal belongs to the picture.
    configure_logging("console", "warning")
    run(partial(watch, database, first, wants_json), reloads=False)


async def watch(database: Path, first: dict[str, Any], wants_json: bool, signals: Signals) -> int:
    """Show it again and again until told to stop."""
    console = Console()
    code = 0
    try:
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await signals.stop.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            if wants_json:
                await _keep_looking(database, first, JsonLines())
            elif not console.is_terminal:
                await _keep_looking(database, first, Lines())
            else:
                # A screen of its own: when it is left the terminal is as it was.
                with Live(console=console, screen=True, auto_refresh=False) as live:
                    await _keep_looking(database, first, Screen(console, live))
    except* OutputError:
        advise("the output cannot be written")
        code = EXIT_CONFIGURATION
    return code


async def _keep_looking(database: Path, first: dict[str, Any], view: View) -> None:
    sight = Sight(first)
    last_event_id: int | None = None
    while True:
        if sight.notice is None and sight.snapshot.get("board") is not None:
            try:
                last_event_id = await trio.to_thread.run_sync(
                    partial(_read_board, database, last_event_id, sight), abandon_on_cancel=True
                )
            except StoreError as error:
                sight.notice = str(error)
        view.show(sight)
        await trio.sleep(REFRESH_SECONDS)
        sight.news = ()
        try:
            sight.snapshot, sight.notice = await ask(database), None
        except (NoAnswerError, NobodyThereError) as error:
            sight.notice = why_not(database, error)


def _read_board(database: Path, last_event_id: int | None, sight: Sight) -> int:
    """Bring the board's part up to date. Returns the id of the last event that it has now. Raises StoreError."""
    with open_reading(database) as db:
        newest = newest_event_id(db)
        after = max(0, newest - EVENTS_AT_FIRST) if last_event_id is None else min(last_event_id, newest)
        sight.columns = read_columns(db, CARDS_MAX)
        sight.news = events_after(db, after, EVENTS_A_READ)
    sight.last_events.extend(sight.news)
    return sight.news[-1]["event_id"] if sight.news else after


class Screen:
    """On a terminal: one picture, drawn anew."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live

    def show(self, sight: Sight) -> None:
        picture = draw_watch(
            sight.snapshot,
            sight.columns,
            list(sight.last_events),
            None if sight.notice is None else in_one_line(sight.notice),
            self._console.width,
            self._console.height,
        )
        self._live.update(picture, refresh=True)


class JsonLines:
    """For programs: snapshot and new events, whenever something has changed."""

    def __init__(self) -> None:
        self._last: dict[str, Any] | None = None

    def show(self, sight: Sight) -> None:
        status = (
            None
            if sight.notice
            else {name: value for name, value in sight.snapshot.items() if name != "time"}
        )
        told = {"status": status, "notice": sight.notice}
        if sight.news or told != self._last:
            self._last = told
            time = {} if status is None else {"time": sight.snapshot["time"]}
            say(json.dumps({**time, **told, "events": list(sight.news)}))


class Lines:
    """Elsewhere than on a terminal: how it stands at first, then a line for whatever happens."""

    def __init__(self) -> None:
        self._began = False
        self._notice: str | None = None
        self._states: dict[str, object] = {}

    def show(self, sight: Sight) -> None:
        if not self._began:
            say(printable(as_text(draw_status(sight.snapshot))))
            say("")
        for event in sight.news:
            say(f"{clock_time(event)} {describe(event)}")
        if sight.notice != self._notice:
            say(printable(sight.notice or "The program answers again."))
            self._notice = sight.notice
        if sight.notice is None:
            self._tell_pool(sight.snapshot)
        self._began = True

    def _tell_pool(self, snapshot: dict[str, Any]) -> None:
        pool, now = snapshot.get("pool"), snapshot["time"]
        if pool is None:
            return
        for worker in pool["workers"]:
            state = (worker["state"], worker["until"], worker["reason"]) if is_notable(worker) else None
            self._tell(f"worker {worker['name']}", state, state_of(worker, now), now)
        for endpoint in pool["endpoints"]:
            health = (endpoint["health"], endpoint["until"], endpoint["last_failure"])
            trouble = health if is_in_trouble(endpoint) else None
            words = health_of(endpoint, now)
            if trouble is not None:
                words += f" ({failure_of(endpoint, now)})"
            self._tell(f"endpoint {endpoint['base_url']}", trouble, words, now)

    def _tell(self, who: str, state: object, words: str, now: str) -> None:
        """If it is other than before: what is as usual is told only after something that was not."""
        if self._states.get(who) != state:
            self._states[who] = state
            if self._began:
                say(f"{now[11:19]} {in_one_line(who)}: {words}")

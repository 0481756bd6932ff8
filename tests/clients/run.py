"""Real clients of others against a real server, one after the other.

    python -m tests.clients.run [NAME ...] [--work DIR] [--wire]

Needs pip and npm packages by name the first time, and nothing but loopback afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import trio

from tests.clients.app_catalogue import APPS
from tests.clients.client import Client, Outcome
from tests.clients.conformance import CONFORMANCE
from tests.clients.inspector import INSPECTOR
from tests.clients.installing import MissingError, Workshop
from tests.clients.library_clients import LIBRARIES
from tests.clients.table import open_table
from tests.clients.wire import open_wire

CLIENTS = {
    client.name: client
    for client in (
        *(library.client for library in LIBRARIES),
        INSPECTOR,
        *(app.client for app in APPS),
        CONFORMANCE,
    )
}
DEFAULT_WORK = Path("~/.cache/roundtable-clients").expanduser()


async def try_client(client: Client, workshop: Workshop, *, watch_wire: bool) -> Outcome:
    """Install it, run it, and judge the run. Raises MissingError where it cannot be installed."""
    await client.prepare(workshop)
    folder = workshop.folder / "runs" / client.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "server").mkdir(parents=True)
    try:
        with trio.fail_after(client.seconds):
            async with AsyncExitStack() as stack:
                table = await stack.enter_async_context(open_table(folder / "server"))
                wire = await stack.enter_async_context(open_wire(table.url)) if watch_wire else None
                if wire is not None:
                    table.url = wire.url
                outcome = await client.drive(workshop, table, folder)
                if client.plays_story:
                    outcome.faults += await table.faults()
            if wire is not None:
                outcome.notes += wire.notes
    except trio.TooSlowError:
        outcome = Outcome(faults=[f"not done after {client.seconds:.0f} s; {folder} has the logs"])
    except Exception as error:  # one client's trouble keeps no other from being tried
        (folder / "trouble.log").write_text(traceback.format_exc())
        outcome = Outcome(faults=[f"{_reason(error)}; {folder / 'trouble.log'} has the rest"])
    return outcome


async def try_all(clients: Sequence[Client], work: Path, *, watch_wire: bool) -> bool:
    """Print a line for each as soon as it is known, and keep the whole as JSON. Says whether all that ran work."""
    workshop, works = Workshop(work), True
    for client in clients:
        try:
            outcome = await try_client(client, workshop, watch_wire=watch_wire)
        except MissingError as missing:
            _say(f"{client.name:20} SKIPPED  {missing}")
            continue
        works = works and not outcome.faults
        _say(f"{client.name:20} {'works ' if not outcome.faults else 'FAILED'}   {outcome.version}")
        for line in outcome.notes + [f"FAULT: {fault}" for fault in outcome.faults]:
            _say("".join(f"{'':20}   {part}\n" for part in line.splitlines()).rstrip())
        report = {"date": datetime.now(UTC).date().isoformat(), **asdict(outcome)}
        (work / "runs" / client.name / "report.json").write_text(json.dumps(report, indent=1))
    return works


def _reason(error: BaseException) -> str:
    """The first cause in a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them without: " + " ".join(CLIENTS))
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK, help=f"what is kept ({DEFAULT_WORK})")
    parser.add_argument(
        "--wire", action="store_true", help="put a relay between that notes the requests of the client"
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in CLIENTS]:
        parser.error(f"no such client: {', '.join(unknown)}; there are {' '.join(CLIENTS)}")
    chosen = [CLIENTS[name] for name in arguments.names or CLIENTS]
    run = partial(try_all, chosen, arguments.work.absolute(), watch_wire=arguments.wire)
    raise SystemExit(0 if trio.run(run) else 1)


if __name__ == "__main__":
    main()

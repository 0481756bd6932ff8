"""`roundtable tasks | show`: the board's file read as it lies there, whether a server runs or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from roundtable.board.clock import system_clock
from roundtable.cli.output import (
    EXIT_CONFIGURATION,
    EXIT_REFUSED,
    as_json,
    fail,
    show,
)
from roundtable.cli.settings import read_settings
from roundtable.config.agents import load_agents
from roundtable.config.errors import ConfigError
from roundtable.config.roster import merge_roster
from roundtable.config.settings import Settings
from roundtable.rules.agents import Agent, Directory, Role
from roundtable.rules.errors import BoardError
from roundtable.rules.limits import TASK_ID_MAX
from roundtable.rules.model import Status
from roundtable.store.errors import StoreError
from roundtable.store.reading import BoardReader, Filter, open_reading
from supervisor.config.roster import RosterError, read_roster
from supervisor.rules.text import in_one_line

_OWNER: Final = Agent("owner", Role.LEADER)
"""Whose eyes it is read with where agents.json names nobody."""

_FIELDS: Final = (
    "status",
    "assignee",
    "assigned_to",
    "required_skill",
    "priority",
    "needs_attention",
    "attempt",
    "failures",
    "rejections",
    "max_attempts",
    "depends_on",
    "lease_seconds",
    "lease_expires_at",
    "claimed_at",
    "created_at",
    "updated_at",
)


@click.command("tasks")
@click.option("--status", type=click.Choice([status.value for status in Status]))
@click.option("--assignee", help="Held by this agent, or open and assigned to it.")
@click.option("--skill", help="Only those that want this skill.")
@click.option("--attention", is_flag=True, help="Only those that wait for the leader.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def tasks_command(
    status: str | None, assignee: str | None, skill: str | None, attention: bool, limit: int, wants_json: bool
) -> None:
    """List tasks, newest first, from the database file."""
    wanted = Filter(Status(status) if status else None, assignee, skill, attention or None)
    with _reader() as (reader, _):
        rows = list(reader.tasks(wanted, limit))
    console = Console()
    if wants_json:
        show(as_json({"tasks": rows}))
    elif console.is_terminal:
        console.print(_table(rows))
    elif rows:
        show("\n".join("\t".join(_cells(row)) for row in rows))


@click.command("show")
@click.argument("task", type=click.IntRange(1, TASK_ID_MAX))
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def show_command(task: int, wants_json: bool) -> None:
    """Show everything of one task, from the database file."""
    with _reader() as (reader, knows_agents):
        whole = reader.task(task)
        if not knows_agents:
            whole.pop("why_not_claimable", None)
    show(as_json(whole) if wants_json else "\n".join(_lines(whole)))


@contextmanager
def _reader() -> Iterator[tuple[BoardReader, bool]]:
    """The board, and whether it is known who sits at it. What is wrong ends the program, with a sentence."""
    settings = read_settings()
    directory = _directory(settings)
    try:
        with open_reading(settings.db_path) as db:
            yield BoardReader(db, directory or Directory([_OWNER]), system_clock()()), directory is not None
    except StoreError as error:
        fail(EXIT_CONFIGURATION, str(error))
    except BoardError as error:
        fail(EXIT_REFUSED, error.message)


def _directory(settings: Settings) -> Directory | None:
    try:
        file = load_agents(settings.agents_config)
        workers = read_roster(settings.workers_config).workers if settings.workers_config.exists() else ()
        return merge_roster(file, workers).directory
    except (ConfigError, RosterError, OSError):
        return None


def _cells(row: Mapping[str, Any]) -> list[str]:
    holder = row.get("assignee") or row.get("assigned_to", "")
    waits = f"waits for {', '.join(map(str, row['blocked_by']))}" if row.get("blocked_by") else ""
    return [
        str(row["task_id"]),
        row["status"],
        row.get("needs_attention") or waits,
        in_one_line(holder),
        str(row["priority"]),
        in_one_line(row["title"]),
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("task", "status", "attention", "agent", "priority", "title")
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    return table


def _lines(whole: Mapping[str, Any]) -> Iterator[str]:
    task = whole["task"]
    yield f"Task {task['task_id']}: {in_one_line(task['title'])}"
    for name in _FIELDS:
        value = task.get(name)
        if name == "needs_attention" and value:
            value = ", ".join(task["attention"])
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        if value is not None and value != "":
            yield f"  {name:<16} {in_one_line(str(value))}"
    if "why_not_claimable" in whole:
        yield f"  {in_one_line(whole['why_not_claimable'])}"
    for name in ("description", "acceptance_criteria", "result"):
        if name in task:
            yield from _section(name.replace("_", " "), task[name])
    for row in whole["dependencies"]:
        yield from _section(f"depends on {row['task_id']} ({row['status']})", row["title"])
    for review in whole["reviews"]:
        head = f"{review['verdict']} by {in_one_line(review['agent'])}, {review['created_at']}"
        yield from _section(head, review.get("note", ""))
        yield from _section("  of the result", review["result"])
    for message in whole["messages"]:
        head = f"{message['kind']} by {in_one_line(message['agent'])}, {message['created_at']}"
        yield from _section(head, message["body"])


def _section(head: str, text: str) -> Iterator[str]:
    yield ""
    yield f"{head}:" if text else head
    yield from (f"    {line}" for line in text.split("\n") if text)

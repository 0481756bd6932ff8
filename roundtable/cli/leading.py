"""`roundtable add | reply | review | cancel`: the owner's own hand, as the leader, over MCP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import click

from roundtable.cli.board_call import RefusedError, UnreachableError, ask_board
from roundtable.cli.connecting import TOKEN_VARIABLE
from roundtable.cli.output import (
    EXIT_CONFIGURATION,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    OutputError,
    as_json,
    fail,
    printable,
    say,
)
from roundtable.cli.settings import advise, read_client
from roundtable.rules.limits import TASK_ID_MAX
from roundtable.rules.model import Kind, Verdict

STDIN_BYTES_MAX: Final = 1 << 20
"""More than any text of the board may have; the board's own limit is told by the board."""

_TASK: Final = click.IntRange(1, TASK_ID_MAX)

_Command = TypeVar("_Command", bound=Callable[..., None])


def _options(command: _Command) -> _Command:
    """What all four take."""
    command = click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")(command)
    return click.option("--url", help="Where the board is. [default: ROUNDTABLE_URL, or this machine]")(
        command
    )


@click.command("add")
@click.argument("title")
@click.option(
    "-d", "--description", required=True, help="What is to be done; - reads it from the standard input."
)
@click.option("--criteria", help="When the result is good.")
@click.option("--skill", help="Only a worker with this skill gets it.")
@click.option("--assignee", help="Only this worker gets it.")
@click.option("--priority", type=int, help="-100 to 100; a level is worth an hour of waiting. [default: 0]")
@click.option(
    "--depends-on", type=_TASK, multiple=True, help="A task that has to be done first; may be repeated."
)
@click.option("--lease-seconds", type=int, help="How long a claim lasts without a sign of life.")
@click.option("--max-attempts", type=int, help="So many failures and the task waits for the leader.")
@_options
def add_command(
    title: str,
    description: str,
    criteria: str | None,
    skill: str | None,
    assignee: str | None,
    priority: int | None,
    depends_on: tuple[int, ...],
    lease_seconds: int | None,
    max_attempts: int | None,
    url: str | None,
    wants_json: bool,
) -> None:
    """Put a task on the board, as the leader (ROUNDTABLE_TOKEN)."""
    arguments = {
        "title": title,
        "description": _text(description),
        "acceptance_criteria": criteria,
        "required_skill": skill,
        "assignee": assignee,
        "priority": priority,
        "depends_on": list(depends_on) or None,
        "lease_seconds": lease_seconds,
        "max_attempts": max_attempts,
    }
    _carry_out("create_task", arguments, url, wants_json)


@click.command("reply")
@click.argument("task", type=_TASK)
@click.argument("text")
@_options
def reply_command(task: int, text: str, url: str | None, wants_json: bool) -> None:
    """Answer whoever asked for help with a task, as the leader (ROUNDTABLE_TOKEN). TEXT - reads the standard input."""
    _carry_out(
        "post_message", {"task_id": task, "kind": Kind.REPLY.value, "body": _text(text)}, url, wants_json
    )


@click.command("review")
@click.argument("task", type=_TASK)
@click.argument("verdict", type=click.Choice([verdict.value for verdict in Verdict]))
@click.option(
    "--note", help="Why; a rejection needs it, and the next attempt sees it. - reads the standard input."
)
@click.option(
    "--keep-assignee", is_flag=True, help="After a rejection only the same worker gets the task again."
)
@_options
def review_command(
    task: int, verdict: str, note: str | None, keep_assignee: bool, url: str | None, wants_json: bool
) -> None:
    """Accept or reject what was submitted, as the leader (ROUNDTABLE_TOKEN)."""
    arguments = {
        "task_id": task,
        "verdict": verdict,
        "note": None if note is None else _text(note),
        "keep_assignee": keep_assignee or None,
    }
    _carry_out("review_task", arguments, url, wants_json)


@click.command("cancel")
@click.argument("task", type=_TASK)
@click.argument("reason")
@_options
def cancel_command(task: int, reason: str, url: str | None, wants_json: bool) -> None:
    """End a task without a result, as the leader (ROUNDTABLE_TOKEN)."""
    _carry_out("cancel_task", {"task_id": task, "reason": _text(reason)}, url, wants_json)


def _carry_out(tool: str, arguments: Mapping[str, Any], url: str | None, wants_json: bool) -> None:
    here = read_client(url)
    if here.token is None:
        fail(EXIT_CONFIGURATION, f"{TOKEN_VARIABLE} is not set: it has to be the leader's token")
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, str) and not _is_unicode(value):
            fail(EXIT_CONFIGURATION, f"{name} holds bytes that are not UTF-8")
    try:
        reply = ask_board(here.url, here.token, tool, given)
        if not {"task_id", "status"} <= reply.keys():
            raise UnreachableError("what answers there is no board")
    except RefusedError as refused:
        fail(EXIT_REFUSED, str(refused))
    except UnreachableError as error:
        fail(
            EXIT_UNREACHABLE,
            f"the board at {here.url} cannot be reached: {error} (`roundtable doctor` says more)",
        )
    with suppress(OutputError):  # it is done, whoever reads of it
        say(as_json(reply) if wants_json else printable(f"Task {reply['task_id']} is {reply['status']}."))
    if not wants_json and reply.get("notice"):
        advise(str(reply["notice"]))


def _text(given: str) -> str:
    if given != "-":
        return given
    if sys.stdin is None:
        fail(EXIT_CONFIGURATION, "the standard input is closed")
    content = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
    if len(content) > STDIN_BYTES_MAX:
        fail(EXIT_CONFIGURATION, f"the standard input has over {STDIN_BYTES_MAX:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        fail(EXIT_CONFIGURATION, "the standard input is not UTF-8")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""The command line. Each command's own module is imported when it is used, so that `--help` answers at once."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Sequence

import click

from roundtable import __version__

COMMANDS = {
    "init": "roundtable.cli.init:init_command",
    "up": "roundtable.cli.up:up_command",
    "serve": "roundtable.cli.serve:serve_command",
    "demo": "roundtable.cli.demo:demo_command",
    "status": "roundtable.cli.status:status_command",
    "watch": "roundtable.cli.watch:watch_command",
    "tasks": "roundtable.cli.browsing:tasks_command",
    "show": "roundtable.cli.browsing:show_command",
    "add": "roundtable.cli.leading:add_command",
    "reply": "roundtable.cli.leading:reply_command",
    "review": "roundtable.cli.leading:review_command",
    "cancel": "roundtable.cli.leading:cancel_command",
    "connect": "roundtable.cli.connect:connect_command",
    "backup": "roundtable.cli.keeping:backup_command",
    "export": "roundtable.cli.moving:export_command",
    "import": "roundtable.cli.moving:import_command",
    "verify": "roundtable.cli.keeping:verify_command",
    "doctor": "roundtable.cli.doctor:doctor_command",
    "token": "roundtable.cli.token:token_command",
}


RELOADING = frozenset({"up", "serve"})
"""They read their files again at SIGHUP, and are never ended by it: not while they are still being imported either."""


class Commands(click.Group):
    """A group whose commands are found by `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in RELOADING:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="roundtable")
def roundtable() -> None:
    """A task board over MCP where AI agents of different vendors work together.

    Exit codes: 0 fine, 1 the board said no, 2 wrong usage or configuration, 3 cannot reach the server.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    # until a command takes the signals over, Ctrl-C ends the program without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    roundtable.main(args=list(arguments) if arguments is not None else None, prog_name="roundtable")

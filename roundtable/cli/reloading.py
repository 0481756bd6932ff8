"""Taking changed configuration files into a program that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from roundtable.board.actor import Board
from roundtable.cli.running import Signals
from roundtable.config.agents import load_agents
from roundtable.config.errors import ConfigError
from roundtable.config.roster import RosterWorker, merge_roster
from roundtable.web.tokens import TokenTable

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Seats:
    """Who may call the running board: the agents of the file at `path`, by `tokens`, and the pool's `workers`."""

    path: Path
    tokens: TokenTable
    board: Board
    workers: Sequence[RosterWorker] = ()

    def reload_agents(self) -> None:
        """Let in those whom the file names now. A file that is wrong is refused, each problem in the log; the old ones stay."""
        try:
            file = load_agents(self.path)
            everybody = merge_roster(file, self.workers)
        except ConfigError as error:
            for problem in error.problems:
                log.error("agents_refused", problem=problem)
            return
        for warning in file.warnings:
            log.warning("configuration", advice=warning)
        # The door before the board: who is gone is turned away before its claims are taken from it.
        self.tokens.replace(file.agents)
        self.board.replace_agents(everybody.directory)
        log.info("agents_reloaded", agents=len(file.agents))


async def keep_reloading(signals: Signals, reload: Callable[[], None]) -> None:
    """Reload at each hang-up, until this is cancelled."""
    while True:
        await signals.next_hang_up()
        reload()

"""The agent apps: each set up by its own commands in a home of its own, with the scripted model behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.clients.children import environment_of, open_child, run_child
from tests.clients.client import Client, Outcome
from tests.clients.installing import Workshop, version_of
from tests.clients.library_clients import SCRIPTS
from tests.clients.model import PLAYBOOK, Dialect, ScriptedModel, open_model
from tests.clients.story import faults_of
from tests.clients.table import Table

PROMPT = "Work on the Roundtable board: claim the next task, do it, submit it."
SETTING_UP_SECONDS = 60.0
WORKING_SECONDS = 150.0
OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
"""Whatever an app still wants from elsewhere fails at once: nobody listens there. Server and model are reached over HTTP."""


@dataclass(frozen=True)
class Seat:
    """Where one run of an app takes place."""

    table: Table
    model: ScriptedModel
    app: Sequence[str | Path]
    home: Path
    environment: Mapping[str, str]
    prompt: str

    async def set_up(self, *arguments: str) -> None:
        """Run a command of the app that only changes its configuration."""
        await run_child(
            [*self.app, *arguments],
            folder=self.home,
            environment=self.environment,
            seconds=SETTING_UP_SECONDS,
        )


Connect = Callable[[Seat], Awaitable[Sequence[str]]]
"""Tell the app about the server and the model; returns the arguments that put it to work."""


Install = Callable[[Workshop], Awaitable[tuple[Sequence[str | Path], str]]]
"""Gives the command that starts the app, and the app's version. Raises MissingError."""


def from_npm(
    name: str, package: str, starter: str, install_script: str | None = None, *, version: str = ""
) -> Install:
    """An app whose starter, and the install script that it needs, are files in its npm package."""

    async def install(workshop: Workshop) -> tuple[Sequence[str | Path], str]:
        scripts = [f"{package}/{install_script}"] if install_script else []
        modules = await workshop.packages(name, [package + version], scripts=scripts)
        starting = [await workshop.node()] if starter.endswith(".js") else []
        return [*starting, modules / package / starter], version_of(modules, package)

    return install


def from_pip(package: str, script: str) -> Install:
    """A library with an agent in it, played by a script of ours."""

    async def install(workshop: Workshop) -> tuple[Sequence[str | Path], str]:
        python = await workshop.python_with(script.partition(".")[0], [package])
        return [python, SCRIPTS / script], await workshop.version_in(python, package)

    return install


@dataclass(frozen=True)
class App:
    """An agent app, and how it is put to work without a window."""

    name: str
    install: Install
    dialect: Dialect
    connect: Connect
    environment: Mapping[str, str]
    """`{model}` stands for the address of the scripted model."""
    command_for_playbook: str | None = None
    """What a user types to put the app to work with the server's prompt, where that works without a window."""

    async def drive(self, workshop: Workshop, table: Table, folder: Path) -> Outcome:
        command, version = await self.install(workshop)
        home = folder / "home"
        async with open_model(self.dialect, table, folder) as model:
            more = {name: value.format(model=model.url) for name, value in self.environment.items()}
            more |= {"ROUNDTABLE_URL": table.url, "ROUNDTABLE_TOKEN": table.token} | OFFLINE
            environment = environment_of(home, **more)
            arguments = await self.connect(
                Seat(table, model, command, home, environment, self.command_for_playbook or PROMPT)
            )
            work = home / "work"
            work.mkdir()
            async with open_child([*command, *arguments], folder=work, environment=environment) as child:
                with trio.move_on_after(WORKING_SECONDS):
                    await child.process.wait()
                code = child.process.returncode
                (folder / "client.log").write_text(child.last_words(200_000))
            outcome = Outcome(version, model.seen.notes, faults_of(model.seen))
            if self.command_for_playbook and f"its model is told the prompt {PLAYBOOK}" not in outcome.notes:
                outcome.faults.append(f"{self.command_for_playbook} did not bring the prompt to the model")
            if code != 0:
                outcome.faults.append(f"the app ended with {code}\n{child.last_words()}")
        return outcome

    @property
    def client(self) -> Client:
        return Client(self.name, self.install, self.drive, seconds=WORKING_SECONDS + 120)

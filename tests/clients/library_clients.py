"""The client libraries: a script each, run where only that library is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.acceptance.programs import EndedEarlyError
from tests.clients.children import Child, environment_of, open_child
from tests.clients.client import Client, Outcome
from tests.clients.installing import Workshop, version_of
from tests.clients.story import Seen, Shown, faults_of, plan
from tests.clients.table import Table

SCRIPTS = Path(__file__).parent / "libraries"
STEP_SECONDS = 60.0
"""From one line of a script to its next."""


@dataclass(frozen=True)
class Library:
    """A library by its package, and the script that plays the story with it."""

    name: str
    package: str
    versions: str
    script: str
    arguments: Sequence[str] = ()
    needs: Sequence[str] = ()

    @property
    def _place(self) -> str:
        return self.script.partition(".")[0]

    async def prepare(self, workshop: Workshop) -> tuple[Sequence[str | Path], str]:
        """The command that runs the script, and the version of the library. Raises MissingError."""
        requirements = [self.package + self.versions, *self.needs]
        if self.script.endswith(".py"):
            python = await workshop.python_with(self._place, requirements)
            version = await workshop.version_in(python, self.package)
            return [python, SCRIPTS / self.script, *self.arguments], version
        modules = await workshop.packages(self._place, requirements)
        for name in (self.script, "telling.mjs"):  # Node looks for packages beside the script
            shutil.copy(SCRIPTS / name, modules.parent)
        command: list[str | Path] = [await workshop.node(), modules.parent / self.script, *self.arguments]
        return command, version_of(modules, self.package)

    async def drive(self, workshop: Workshop, table: Table, folder: Path) -> Outcome:
        command, version = await self.prepare(workshop)
        environment = environment_of(
            folder / "home", CLIENT_URL=table.url, CLIENT_TOKEN=table.token, CLIENT_PLAN=plan()
        )
        async with open_child(command, folder=folder, environment=environment, talks=True) as child:
            seen, faults = await _watch(child, table)
            (folder / "client.log").write_text(child.last_words(100_000))
        return Outcome(version, seen.notes, faults + faults_of(seen))

    @property
    def client(self) -> Client:
        return Client(self.name, self.prepare, self.drive)


async def _watch(child: Child, table: Table) -> tuple[Seen, list[str]]:
    """Note what the script says, and restart the server when it asks for that."""
    seen, number = Seen(), 0
    while True:
        number += 1
        try:
            with trio.fail_after(STEP_SECONDS):
                said = json.loads(await child.out.line(lambda line: line.startswith("{"), number=number))
        except EndedEarlyError:
            break
        except trio.TooSlowError:
            return seen, [f"nothing was said for {STEP_SECONDS:.0f} s\n{child.last_words()}"]
        if "tools" in said:
            seen.tools = said["tools"]
        elif "shown" in said:
            seen.shown.append(Shown(said["shown"], said["is_error"]))
        elif "note" in said:
            seen.notes.append(said["note"])
        elif "restart" in said:
            await table.restart()
            await child.tell("go on")
    with trio.move_on_after(STEP_SECONDS):
        await child.process.wait()
    code = child.process.returncode
    return seen, [] if code == 0 else [f"the script ended with {code}\n{child.last_words()}"]


LIBRARIES = (
    *(
        Library(f"mcp-2-{loop}-{mode}", "mcp", ">=2,<3", "mcp_two.py", (loop, version), needs=("trio",))
        for loop in ("asyncio", "trio")
        for mode, version in (("legacy", "legacy"), ("2026", "2026-07-28"), ("auto", "auto"))
    ),
    Library("mcp-1-asyncio", "mcp", ">=1,<2", "mcp_one.py", ("asyncio",), needs=("trio",)),
    Library("mcp-1-trio", "mcp", ">=1,<2", "mcp_one.py", ("trio",), needs=("trio",)),
    Library("fastmcp", "fastmcp", "", "fastmcp_client.py"),
    Library("typescript-1", "@modelcontextprotocol/sdk", "@1", "typescript_one.mjs"),
    *(
        Library(
            f"typescript-2-{mode}", "@modelcontextprotocol/client", "@2", "typescript_two.mjs", (version,)
        )
        for mode, version in (("legacy", "legacy"), ("2026", "2026-07-28"), ("auto", "auto"))
    ),
)

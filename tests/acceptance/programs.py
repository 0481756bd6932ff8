"""The real programs as child processes: started, watched line by line, told to stop, and never left behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

COMMAND = (sys.executable, "-c", "from roundtable.cli.main import main; main()")
"""`roundtable` of this very checkout, whatever PATH says and whatever is installed."""
MODULE = (sys.executable, "-m", "roundtable")

ROOT = Path(__file__).resolve().parents[2]

START_SECONDS = 30.0
"""A start takes one or two; this bounds it on a machine that is busy with something else."""


class EndedEarlyError(Exception):
    """The output ended without what was waited for. The text is all of it."""


@dataclass
class Output:
    """What a program has written to one of its streams so far."""

    text: str = ""
    is_over: bool = False
    _news: trio.Event = field(default_factory=trio.Event)

    @property
    def lines(self) -> list[str]:
        """The lines that are complete."""
        return self.text.split("\n")[:-1]

    async def line(self, fits: Callable[[str], object] = bool, *, number: int = 1) -> str:
        """The so-manieth line that fits, as soon as it is there. Raises EndedEarlyError."""
        while True:
            found = [line for line in self.lines if fits(line)]
            if len(found) >= number:
                return found[number - 1]
            if self.is_over:
                raise EndedEarlyError(self.text)
            await self._news.wait()

    async def read(self, stream: trio.abc.ReceiveStream) -> None:
        async with stream:
            received = b""
            async for part in stream:
                received += part
                self._tell(received.decode("utf-8", "replace"))
        self.is_over = True
        self._tell(self.text)

    def _tell(self, text: str) -> None:
        self.text = text
        self._news.set()
        self._news = trio.Event()


@dataclass
class Program:
    """A running program and its two streams."""

    process: trio.Process
    out: Output = field(default_factory=Output)
    err: Output = field(default_factory=Output)

    async def url(self) -> str:
        """Where it says that it listens. Raises EndedEarlyError with what it said in place of that."""
        with trio.fail_after(START_SECONDS):
            try:
                line = await self.out.line(lambda line: line.startswith("Roundtable listens on "))
            except EndedEarlyError as ended:
                raise EndedEarlyError(f"{ended}\n{self.err.text}") from None
        found = re.search(r"http://\S+/mcp", line)
        assert found, line
        return found[0]

    async def events(self, name: str, *, number: int = 1) -> str:
        """The so-manieth line about this event in its log, as soon as it is there."""
        with trio.fail_after(START_SECONDS):
            return await self.err.line(lambda line: event_of(line) == name, number=number)

    def count(self, name: str) -> int:
        return sum(event_of(line) == name for line in self.err.lines)

    async def ended(self, within_seconds: float) -> int:
        """Its exit code. Raises trio.TooSlowError if it has not ended by itself by then."""
        with trio.fail_after(within_seconds):
            code = await self.process.wait()
        with trio.fail_after(START_SECONDS):  # what is still in the pipes is read before anybody looks at it
            for output in (self.out, self.err):
                while not output.is_over:
                    await output._news.wait()
        return code


def event_of(line: str) -> str:
    """The event of a line of the log for people: its third word."""
    words = line.split(maxsplit=3)
    return words[2] if len(words) > 2 else ""


@asynccontextmanager
async def open_program(
    *arguments: str,
    folder: Path,
    command: Sequence[str] = COMMAND,
    settings: Mapping[str, str] | None = None,
    umask: int = 0o022,
) -> AsyncIterator[Program]:
    """The program in this folder, killed at the end if it still runs. Nothing of the caller's environment reaches it."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "ROUNDTABLE_PORT": "0",
        **(settings or {}),
    }
    process = await trio.lowlevel.open_process(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        umask=umask,
    )
    program = Program(process)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(program.out.read, process.stdout)
        nursery.start_soon(program.err.read, process.stderr)
        try:
            yield program
        except BaseException as error:
            failure = error  # raised again outside the nursery, which would wrap it
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                process.kill()
            await process.wait()
    if failure is not None:
        raise failure


def write_agents(folder: Path, **roles: str) -> dict[str, str]:
    """An agents.json with these agents, name=role. Returns each one's token."""
    tokens = {name: f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:32]}" for name in roles}
    path = folder / "agents.json"
    path.write_text(json.dumps({tokens[name]: {"name": name, "role": role} for name, role in roles.items()}))
    path.chmod(0o600)
    return tokens


def write_roster(folder: Path, pool: Mapping[str, object], *workers: Mapping[str, object]) -> None:
    """A config/workers.toml. JSON's texts and numbers are TOML's too."""
    lines = ["[pool]", *(f"{name} = {json.dumps(value)}" for name, value in pool.items())]
    for worker in workers:
        lines += ["[[workers]]", *(f"{name} = {json.dumps(value)}" for name, value in worker.items())]
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "workers.toml").write_text("\n".join(lines) + "\n")

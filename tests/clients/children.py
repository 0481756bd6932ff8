"""Programs of others as child processes: bounded in time, and ended with everything that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.acceptance.programs import Output

READING_SECONDS = 10.0
"""How long a pipe may stay open behind a process whose whole group was killed."""


class ChildFailedError(Exception):
    """A child did not end well, or not in time. The text says which, with the end of what it wrote."""


@dataclass
class Child:
    """A running child and what it has written so far."""

    process: trio.Process
    out: Output
    err: Output

    async def tell(self, line: str) -> None:
        """Write one line to its standard input."""
        if self.process.stdin is None:
            raise AssertionError("started without a standard input")
        await self.process.stdin.send_all(line.encode() + b"\n")

    def last_words(self, chars: int = 1_500) -> str:
        return f"stdout: {self.out.text[-chars:]}\nstderr: {self.err.text[-chars:]}"


@asynccontextmanager
async def open_child(
    argv: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str], talks: bool = False
) -> AsyncIterator[Child]:
    """A child in a process group of its own, which is killed at the end, whatever is left of it."""
    process = await trio.lowlevel.open_process(
        [str(part) for part in argv],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    child = Child(process, Output(), Output())
    failure: BaseException | None = None
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both are pipes")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.out.read, process.stdout)
        nursery.start_soon(child.err.read, process.stderr)
        try:
            yield child
        except BaseException as error:
            failure = error  # raised again outside the nursery, which would wrap it
        _kill_group(process.pid)
        with trio.CancelScope(shield=True):
            await process.wait()
        nursery.cancel_scope.deadline = trio.current_time() + READING_SECONDS
    if failure is not None:
        raise failure


async def run_child(
    argv: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str], seconds: float
) -> Child:
    """Run it to its end. Raises ChildFailedError for another exit code than 0 and when the time is over."""
    async with open_child(argv, folder=folder, environment=environment) as child:
        with trio.move_on_after(seconds):
            await child.process.wait()
    if child.process.returncode != 0:
        how = f"exit code {child.process.returncode} (at most {seconds:.0f} s)"
        raise ChildFailedError(f"{argv[0]}: {how}\n{child.last_words()}")
    return child


def environment_of(home: Path, **more: str) -> dict[str, str]:
    """All that a child sees of this machine: a PATH, and a home of its own for whatever it keeps."""
    home.mkdir(parents=True, exist_ok=True)
    folders = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local/share",
        "XDG_STATE_HOME": home / ".local/state",
        "XDG_CACHE_HOME": home / ".cache",
    }
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, **{name: str(folder) for name, folder in folders.items()}, "NO_COLOR": "1", **more}


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)

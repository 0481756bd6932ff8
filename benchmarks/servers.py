"""Servers as child processes: ours as an owner starts it, and the empty one. And what a process has used so far."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import LEAD, workers

STOP_SECONDS = 20.0
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_CPU_CLOCK = 2
"""With the complement of its number, another process's clock, as clock_getcpuclockid gives it on Linux."""
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024
_PORT = re.compile(r":(\d+)/mcp")


@dataclass(frozen=True, slots=True)
class Child:
    """A server that listens on 127.0.0.1. `tokens` are by agent."""

    pid: int
    port: int
    tokens: Mapping[str, str]

    @property
    def cpu_seconds(self) -> float:
        """What it has used of a core since its start, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS

    @property
    def cpu_ns(self) -> int:
        """The same, finer, by its own clock: of all its threads, those that have ended too."""
        return time.clock_gettime_ns(~self.pid << 3 | _CPU_CLOCK)

    @property
    def rss_kib(self) -> float:
        """How much memory it has now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]) * _PAGE_KIB

    @property
    def written_kib(self) -> float:
        """What it has had written to disks so far."""
        found = re.search(
            r"^write_bytes: (\d+)$", Path(f"/proc/{self.pid}/io").read_text("ascii"), re.MULTILINE
        )
        if found is None:
            raise RuntimeError("this system does not say what a process writes")
        return int(found[1]) / 1024


@contextmanager
def roundtable(folder: Path, *, seats: int, **settings: object) -> Iterator[Child]:
    """`roundtable serve` on a database in the folder, with a leader and so many workers."""
    tokens = write_agents(folder, seats)
    environ = environment(folder, **settings)
    with _child((sys.executable, "-m", "roundtable"), environ) as (process, line):
        found = _PORT.search(line)
        if found is None:
            raise RuntimeError(f"it did not say where it listens: {line!r}")
        yield Child(process.pid, int(found[1]), tokens)


@contextmanager
def empty() -> Iterator[Child]:
    """The server whose tools do nothing."""
    with _child((sys.executable, "-m", "benchmarks.empty_server"), dict(os.environ)) as (process, line):
        yield Child(process.pid, int(line), {})


def write_agents(folder: Path, seats: int) -> dict[str, str]:
    """An agents.json in the folder. Returns the tokens by name."""
    agents = [LEAD, *workers(seats)]
    tokens = {agent.name: f"token-for-the-benchmarks-of-{agent.name}" for agent in agents}
    entries = {
        tokens[agent.name]: {"name": agent.name, "role": agent.role.value, "skills": list(agent.skills)}
        for agent in agents
    }
    path = folder / "agents.json"
    path.write_text(json.dumps(entries), "utf-8")
    path.chmod(0o600)
    return tokens


def environment(folder: Path, **settings: object) -> dict[str, str]:
    """What `serve` is started with. Without the limits of rate, which is what benchmarks are about."""
    own: dict[str, object] = {
        "host": "127.0.0.1",
        "port": 0,
        "db_path": folder / "board.db",
        "agents_config": folder / "agents.json",
        "rate_limit_per_minute": 0,
        "log_format": "json",
        **settings,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROUNDTABLE_")}
    return inherited | {f"ROUNDTABLE_{name.upper()}": str(value) for name, value in own.items()}


@contextmanager
def _child(
    command: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    raise_open_files()
    with subprocess.Popen(  # noqa: S603 - our own programs
        command, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if process.stdout is None:
            raise AssertionError("it has a pipe")
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def settle(seconds: float = 0.3) -> None:
    """Let what was started come to rest."""
    time.sleep(seconds)

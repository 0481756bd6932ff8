"""50 workers of `roundtable up` with nothing to do: what they cost while they wait.

    python -m tests.endurance.idle_pool --seconds 60

No model call, under 5 % of a core, and nothing written to disk. In less time than a wait for a task lasts the part of a
core is shown only: all waits may begin anew in it, or none.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from supervisor.rules.limits import CLAIM_WAIT_SECONDS
from tests.acceptance.programs import open_program, write_agents, write_roster
from tests.endurance.report import Report, main
from tests.supervisor.scripted_endpoint import Request, open_endpoint

WORKERS: Final = 50
CPU_PART_MAX: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.5
SETTLING_SECONDS: Final = 2.0
"""From when all wait until it counts: whatever the start has left to do is done then."""


@dataclass(frozen=True)
class Cost:
    """What a process has used since it began, as Linux counts it."""

    cpu_seconds: float
    disk_bytes: int
    """Written, or to be written once the system gets to it."""
    written_bytes: int
    """All that went to files, pipes and sockets by `write`."""

    @classmethod
    def of(cls, process: int) -> Cost:
        # behind the name of the program, which may hold anything: field 14 is utime, 15 is stime
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        rows = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
        return cls(ticks / os.sysconf("SC_CLK_TCK"), int(rows["write_bytes"]), int(rows["wchar"]))


async def idle_pool(folder: Path, seed: int, seconds: int) -> Report:
    del seed  # nothing is drawn
    report = Report(f"idle_pool: {WORKERS} workers, {seconds} s")
    calls = 0

    async def answer(request: Request, stream: trio.SocketStream) -> None:
        nonlocal calls
        calls += 1

    async with open_endpoint(answer) as endpoint:
        common = {"model": "m", "base_url": endpoint.url}
        write_roster(folder, {}, *({"name": f"worker-{number}", **common} for number in range(WORKERS)))
        write_agents(folder, lead="leader")
        async with open_program("up", folder=folder) as up:
            began = trio.current_time()
            await up.url()
            await _wait_until_all_wait(folder)
            started_after = trio.current_time() - began
            await trio.sleep(SETTLING_SECONDS)
            lines, before, began = len(up.err.lines), Cost.of(up.process.pid), trio.current_time()
            await trio.sleep(seconds)
            after, passed = Cost.of(up.process.pid), trio.current_time() - began
            lines = len(up.err.lines) - lines
            await _wait_until_all_wait(folder)
            up.process.send_signal(signal.SIGTERM)
            report.expect(await up.ended(15) == 0, "it did not stop cleanly")
    part = (after.cpu_seconds - before.cpu_seconds) / passed
    disk_bytes = after.disk_bytes - before.disk_bytes
    report.expect(calls == 0, f"{calls} model calls were made for nothing")
    is_telling = seconds >= CLAIM_WAIT_SECONDS
    report.expect(part < CPU_PART_MAX or not is_telling, f"waiting takes {part:.1%} of a core")
    report.expect(disk_bytes == 0, f"waiting wrote {disk_bytes:,} bytes to disk")
    report.figures |= {
        "seconds until all waited": f"{started_after:.1f}",
        "model calls": calls,
        "part of a core": f"{part:.2%} (aim: under {CPU_PART_MAX:.0%})",
        "bytes written to disk": f"{disk_bytes} (aim: 0)",
        "bytes written to files and pipes": f"{after.written_bytes - before.written_bytes:,}",
        "lines logged": lines,
    }
    return report


async def _wait_until_all_wait(folder: Path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            async with open_program("status", "--json", folder=folder) as status:
                code = await status.ended(20)
            pool = json.loads(status.out.text)["pool"] if code == 0 else None
            if pool and all(worker["state"] == "waiting" for worker in pool["workers"]):
                return
            await trio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main(idle_pool, __doc__ or "", size="seconds", default=60)

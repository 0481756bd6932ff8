"""llama.cpp's OpenAI-compatible server as a supervised child process that ends with the program."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import trio

from supervisor.local_model.errors import LocalExtraError, LocalServerError
from supervisor.rules.restart import RestartHistory, after_failure
from supervisor.rules.text import in_one_line

MODEL_NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS = 4096
"""Per request. The model was made for up to 8,192; a brief needs far fewer."""
SLOTS = 2
"""Requests answered at a time; further ones queue in the server."""
THREADS_MAX = 4
"""More bring nothing to a model of this size."""
READY_WITHIN_SECONDS = 60.0
"""Loading takes about a second; a cold disk takes longer. Without the bound a stuck start hangs the program."""

_REAP_WITHIN_SECONDS = 5.0
_LINE_BYTES = 64
_REASON_CHARS = 200
_LOG_TAIL_BYTES = 4096

_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an OpenAI-compatible client finds the model. Valid as long as the context is open."""

    base_url: str
    model: str


@dataclass(frozen=True, slots=True)
class _Child:
    """How to run the server once."""

    command: tuple[str, ...]
    log: Path
    ready_within_seconds: float

    async def run(self, port: int, task_status: trio.TaskStatus[int]) -> int:
        """Run until the child dies; `task_status` hears its port, which is also returned (0: any).

        Cancelled, it kills the child first. Raises LocalServerError if it does not come up.
        """
        try:
            with self.log.open("ab") as sink:
                process = await trio.lowlevel.open_process(
                    [*self.command, "--port", str(port)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=sink,
                    # Threads that wait must not spin on cores that the others need.
                    env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
                    # Ctrl-C reaches the whole group; the model has to live until its callers have stopped.
                    start_new_session=True,
                )
        except OSError as error:
            raise LocalServerError(f"the local model's server did not start: {error}") from error
        try:
            bound_port = await self._await_port(process)
            task_status.started(bound_port)
            await process.wait()
            return bound_port
        finally:
            # It keeps nothing on disk, so there is nothing to say goodbye to.
            process.kill()
            with trio.move_on_after(_REAP_WITHIN_SECONDS, shield=True):
                await process.wait()
                await cast(trio.StapledStream[Any, Any], process.stdio).aclose()

    async def _await_port(self, process: trio.Process) -> int:
        line = b""
        with trio.move_on_after(self.ready_within_seconds) as bound:
            async for chunk in cast(trio.abc.ReceiveStream, process.stdout):
                line += chunk
                if b"\n" in line or len(line) > _LINE_BYTES:
                    break
            else:
                code = await process.wait()
                raise LocalServerError(
                    f"the local model's server ended (exit code {code}) before it was ready{self._read_last_words()}"
                )
        if bound.cancelled_caught:
            raise LocalServerError(
                f"the local model's server was not ready within {self.ready_within_seconds:.0f} s"
                f"{self._read_last_words()}"
            )
        try:
            return int(line)
        except ValueError:
            raise LocalServerError("the local model's server did not say its port") from None

    def _read_last_words(self) -> str:
        """The last line of the log, fit for a terminal, with the colon before it."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        if not lines:
            return ""
        return ": " + in_one_line(lines[-1])[:_REASON_CHARS]


@dataclass(slots=True)
class _Ended:
    """Why the server was given up; None while it is not."""

    failure: LocalServerError | None = None


def require_extra(module: str = "xllamacpp") -> None:
    """Raise LocalExtraError unless llama.cpp's server is installed. Loads nothing."""
    if importlib.util.find_spec(module) is None:
        raise LocalExtraError


def build_command(weights: Path) -> tuple[str, ...]:
    """The child's command line, but for its port."""
    # Not all cores: threads that compute one token wait for each other hundreds of times, so
    # beside any other busy program two on two cores were six times slower than one (measured).
    threads = min(max((os.cpu_count() or 1) // 2, 1), THREADS_MAX)
    # By path and with -P, so that no folder of the user's is taken for a module of ours.
    return (
        *(sys.executable, "-P", str(_CHILD), str(weights), "--alias", MODEL_NAME),
        *("--threads", str(threads), "--context-tokens", str(CONTEXT_TOKENS), "--slots", str(SLOTS)),
    )


@asynccontextmanager
async def local_model(
    weights: Path,
    log: Path,
    *,
    build: Callable[[Path], Sequence[str]] = build_command,
    ready_within_seconds: float = READY_WITHIN_SECONDS,
    sleep: Callable[[float], Awaitable[object]] = trio.sleep,
    draw_jitter: Callable[[], float] = random.random,
) -> AsyncIterator[Endpoint]:
    """Run the model's server and yield its endpoint once it answers.

    The child listens on 127.0.0.1 only, writes its talk to `log`, and is killed
    when the context is left or cancelled; when this process is killed it ends by
    itself. If it dies on its own it is started again on the same port, with the
    pauses and the budget of any child of the pool. Raises LocalServerError if it
    does not come up at all, or has spent that budget (the body is then
    cancelled). Other exceptions of the body arrive in an ExceptionGroup, as out
    of any nursery.
    """
    ended = _Ended()
    child = _Child(tuple(build(weights)), log, ready_within_seconds)
    async with trio.open_nursery() as nursery:

        async def keep_running(task_status: trio.TaskStatus[int]) -> None:
            try:
                await _keep_running(child, sleep, draw_jitter, task_status)
            except LocalServerError as failure:
                # Raised below, outside the nursery, so that it arrives bare.
                ended.failure = failure
                nursery.cancel_scope.cancel()
                await trio.sleep_forever()

        port = await nursery.start(keep_running)
        yield Endpoint(base_url=f"http://127.0.0.1:{port}/v1", model=MODEL_NAME)
        nursery.cancel_scope.cancel()
    if ended.failure is not None:
        raise ended.failure


async def _keep_running(
    child: _Child,
    sleep: Callable[[float], Awaitable[object]],
    draw_jitter: Callable[[], float],
    task_status: trio.TaskStatus[int],
) -> None:
    """Returns never. Raises LocalServerError when it gives up."""
    history = RestartHistory()
    started_at = trio.current_time()
    port = await child.run(0, task_status)
    while True:
        history, pause_seconds = after_failure(
            history, started_at=started_at, now=trio.current_time(), jitter=draw_jitter()
        )
        if pause_seconds is None:
            raise LocalServerError("the local model's server keeps dying and is given up")
        await sleep(pause_seconds)
        started_at = trio.current_time()
        try:
            await child.run(port, trio.TASK_STATUS_IGNORED)
        except LocalServerError:
            continue  # counted above like any other death

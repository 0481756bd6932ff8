"""Asking a running program how it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import trio

from supervisor.status.socket import REQUEST

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
ASK_SECONDS: Final = 6.0
"""A little more than the program gives itself."""

_BROKE_OFF: Final = "breaks off: it stops, or too many ask at once"


class NobodyThereError(Exception):
    """No program answers at this socket."""


class NoAnswerError(Exception):
    """There is a program, and it does not say how it stands. The message is the end of a sentence about it."""


async def ask_status(path: Path, seconds: float = ASK_SECONDS) -> dict[str, Any]:
    """How the program stands, as it puts it. Raises NobodyThereError, NoAnswerError."""
    with trio.move_on_after(seconds):
        try:
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(REQUEST)
                return _parsed(await _read(stream))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NobodyThereError from error
        except (trio.BrokenResourceError, ConnectionError):
            raise NoAnswerError(_BROKE_OFF) from None
        except OSError as error:
            raise NoAnswerError(f"cannot be asked at {path}: {error.strerror or error}") from None
    raise NoAnswerError(f"did not answer within {seconds:g} s")


async def _read(stream: trio.SocketStream) -> bytes:
    answer = bytearray()
    async for part in stream:
        answer += part
        if len(answer) > ANSWER_BYTES_MAX:
            raise NoAnswerError(f"answers with over {ANSWER_BYTES_MAX:,} bytes")
    return bytes(answer)


def _parsed(answer: bytes) -> dict[str, Any]:
    if not answer.endswith(b"\n"):
        raise NoAnswerError(_BROKE_OFF)
    try:
        value = json.loads(answer)
    except ValueError:
        raise NoAnswerError("answers with something else than JSON") from None
    if not isinstance(value, dict):
        raise NoAnswerError("answers with something else than an object")
    if isinstance(value.get("error"), str):
        raise NoAnswerError(f"has a fault: {value['error']}")
    return value

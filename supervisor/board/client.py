"""The tools of the board that a worker uses, typed, over the MCP client of the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio
import trio
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from pydantic import SecretStr, ValidationError

from supervisor.board.errors import (
    BoardAwayError,
    BoardBusyError,
    BoardError,
    BoardNonsenseError,
    CallRefusedError,
    ClaimLostError,
    WorkerRefusedError,
)
from supervisor.board.protocol import BoardClient, Claim, Held, Identity, Renewal, TaskState
from supervisor.board.shapes import ClaimAnswer, Renewed, Shape, WhoAmI, WholeTask, Written
from supervisor.board.transport import DOOR_ERROR, open_board_http
from supervisor.config.authorities import Authorities
from supervisor.model.prompt import Brief, Dependency, Earlier
from supervisor.rules.limits import BOARD_CALL_SECONDS, BOARD_RATE_WAIT_MAX_SECONDS, REASON_CHARS

_ReplyT = TypeVar("_ReplyT", bound=Shape)

_NONSENSE_CODES: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS})
_UNTRUSTED: Final = "the board's certificate is not accepted; ca_file under [pool] names who has signed it"
_REFUSED_WORKER: Final = {
    401: "the board does not know this worker's token (401)",
    403: "the board forbids this worker the way in (403)",
    421: "the board does not answer under this host name (421); the owner sets ROUNDTABLE_ALLOWED_HOSTS",
}


@asynccontextmanager
async def open_board_client(
    url: str, token: SecretStr, authorities: Authorities | None = None
) -> AsyncIterator[BoardClient]:
    """A connection of one worker, entered, used and left by one task; no request is longer than BOARD_CALL_SECONDS.

    `authorities` vouch for the board beside those whom this machine trusts.
    Raises BoardAwayError or WorkerRefusedError if the board cannot be reached or does not let the worker in. An error
    of the body comes out unchanged.
    """
    body_error: Exception | None = None
    is_leaving = False
    try:
        async with (
            open_board_http(url, token, authorities) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            try:
                yield _McpBoardClient(client)
            except Exception as error:
                # Carried past the SDK's task groups, which would wrap it in a group.
                body_error = error
            is_leaving = True
    except (MCPError, ExceptionGroup) as error:
        # The SDK's task groups wrap what went wrong on the way in; a group with Cancelled inside is no ExceptionGroup.
        reason = _first_mcp_error(error)
        if reason is not None:
            raise _transport_error(reason) from None
        if not (is_leaving and _is_late_reply(error)):
            raise
    if body_error is not None:
        raise body_error


class _McpBoardClient:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def whoami(self) -> Identity:
        reply = await self._ask("whoami", {}, WhoAmI)
        held = tuple(Held(task.task_id, task.claim_id) for task in reply.tasks)
        return Identity(reply.name, reply.role, held, reply.limits.lease_seconds)

    async def claim_next(self, *, wait_seconds: int, idempotency_key: str) -> Claim | None:
        arguments = {"wait_seconds": wait_seconds, "idempotency_key": idempotency_key}
        reply = await self._ask("claim_next", arguments, ClaimAnswer)
        if reply.task is None:
            return None
        if reply.task_id is None or reply.claim_id is None:
            raise BoardNonsenseError("claim_next: a task without task_id or claim_id")
        brief = Brief(
            task_id=reply.task_id,
            title=reply.task.title,
            description=reply.task.description or "",
            acceptance_criteria=reply.task.acceptance_criteria or "",
            dependencies=tuple(
                Dependency(d.task_id, d.title, d.result, d.length or 0) for d in reply.dependencies
            ),
            earlier=tuple(Earlier(e.result, e.note or "", e.length or 0) for e in reply.earlier),
        )
        return Claim(reply.claim_id, brief, reply.task.lease_seconds, reply.task.failures)

    async def renew_claim(self, task_id: int, claim_id: str) -> Renewal:
        reply = await self._ask("renew_claim", {"task_id": task_id, "claim_id": claim_id}, Renewed)
        return Renewal(reply.status, reply.changed)

    async def submit_result(self, task_id: int, claim_id: str, result: str) -> None:
        arguments = {"task_id": task_id, "claim_id": claim_id, "result": result}
        await self._ask("submit_result", arguments, Written)

    async def release_task(
        self,
        task_id: int,
        claim_id: str,
        reason: str,
        *,
        failed: bool = False,
        cooldown_seconds: int | None = None,
    ) -> None:
        arguments: dict[str, Any] = {
            "task_id": task_id,
            "claim_id": claim_id,
            "reason": reason[:REASON_CHARS],
            "failed": failed,
        }
        if cooldown_seconds is not None:
            arguments["cooldown_seconds"] = cooldown_seconds
        await self._ask("release_task", arguments, Written)

    async def ask_for_help(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        await self._post("help_request", task_id, body, idempotency_key)

    async def report_progress(self, task_id: int, body: str, *, idempotency_key: str) -> None:
        await self._post("progress", task_id, body, idempotency_key)

    async def _post(self, kind: str, task_id: int, body: str, key: str) -> None:
        arguments = {"task_id": task_id, "body": body, "kind": kind, "idempotency_key": key}
        await self._ask("post_message", arguments, Written)

    async def read_task(self, task_id: int) -> TaskState:
        task = (await self._ask("get_task", {"task_id": task_id}, WholeTask)).task
        return TaskState(task.status, task.assignee, task.result, task.lease_seconds)

    async def _ask(self, tool: str, arguments: dict[str, Any], shape: type[_ReplyT]) -> _ReplyT:
        reply: Any = None
        # The transport's own deadline comes first and ends the call cleanly; the SDK may make two requests of one.
        with trio.move_on_after(2 * BOARD_CALL_SECONDS + 5) as deadline:
            try:
                reply = await self._client.call_tool(tool, arguments)
            except MCPError as error:
                raise _transport_error(error) from None
            except (RuntimeError, ValidationError):
                # The SDK's words for a reply that breaks its schema; they quote the reply.
                raise BoardNonsenseError(f"{tool}: the reply breaks its own schema") from None
        if deadline.cancelled_caught:
            raise BoardAwayError(f"{tool}: no answer in time")
        if reply.is_error:
            raise _tool_error(tool, reply.structured_content)
        try:
            return shape.model_validate(reply.structured_content)
        except ValidationError:
            raise BoardNonsenseError(f"{tool}: the reply has not the agreed shape") from None


def _first_mcp_error(error: BaseException) -> MCPError | None:
    if isinstance(error, MCPError):
        return error
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for part in parts if (found := _first_mcp_error(part))), None)


def _is_late_reply(error: BaseException) -> bool:
    """Whether the SDK only fell over a reply that came, to a call given up before, while it was closing."""
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError) or (
        bool(parts) and all(_is_late_reply(part) for part in parts)
    )


def _transport_error(error: MCPError) -> BoardError:
    facts = error.data if error.code == DOOR_ERROR and isinstance(error.data, Mapping) else {}
    status = facts.get("status")
    if status in _REFUSED_WORKER:
        return WorkerRefusedError(_REFUSED_WORKER[status])
    if status == 429:
        return BoardBusyError(_pause(facts.get("retry_after")))
    if status == 404:
        # A proxy answers so while the board behind it is away.
        return BoardAwayError("there is no board at this address (404)")
    if isinstance(status, int) and 300 <= status < 500 and status != 408:
        return BoardNonsenseError(f"the board answers HTTP {status}")
    if facts.get("reply") == "too_long":
        return BoardNonsenseError("the board's reply is too long")
    if facts.get("reply") == "untrusted":
        return BoardAwayError(_UNTRUSTED)
    if error.code in _NONSENSE_CODES:
        return BoardNonsenseError(f"no board answers there, or not this call ({error.code})")
    return BoardAwayError(f"the board answers HTTP {status}" if status else "the board cannot be reached")


def _tool_error(tool: str, content: object) -> BoardError:
    error = content.get("error") if isinstance(content, Mapping) else None
    code = error.get("code") if isinstance(error, Mapping) else None
    match code:
        case "unavailable" | "internal":
            return BoardAwayError(f"{tool}: the board answers {code}")
        case "rate_limited":
            assert isinstance(error, Mapping)  # noqa: S101 - it had a code
            return BoardBusyError(_pause(error.get("retry_after_seconds")))
        case "forbidden" if tool in {"whoami", "claim_next"}:
            return WorkerRefusedError(f"the board forbids this worker {tool}; is its token a worker's?")
        case "stale_claim" | "conflict" | "forbidden" | "not_found":
            return ClaimLostError(code)
        case "invalid" | "too_large" | "needs_attention" | "blocked":
            return CallRefusedError(code)
        case _:
            return BoardNonsenseError(f"{tool}: an error without a known code")


def _pause(value: object) -> float:
    """What the board asks for, within reason; it has a window of one minute, so there is no use in more."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 5.0
    return min(max(seconds, 1.0), BOARD_RATE_WAIT_MAX_SECONDS) if seconds == seconds else 5.0

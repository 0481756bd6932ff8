"""The MCP side of the server: what is listed for each role, and every tools/call and resources/read on its way to the board.

Plain calls pass by the SDK. For the rest two of its transports share one low-level server: calls that are decided in one
step answer as plain JSON, which costs a third less; everything else answers as an event stream, in which a client that
hangs up is noticed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
import trio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from roundtable import __version__
from roundtable.board.actor import Board
from roundtable.board.waiting import WaitingRoom
from roundtable.rules.agents import Agent
from roundtable.rules.commands import ClaimNext, Command, RecordRefusal, WaitForUpdates
from roundtable.rules.errors import INTERNAL_MESSAGE, BoardError, Code, echo, invalid
from roundtable.rules.limits import BODY_BYTES
from roundtable.rules.model import Now
from roundtable.rules.roles import refuse_role
from roundtable.tools import lists, resources
from roundtable.tools.answers import Told, refusal, success
from roundtable.tools.arguments import mentioned_claim_id, mentioned_task_id
from roundtable.tools.catalogue import BY_NAME, Tool
from roundtable.tools.fast_path import FastPath
from roundtable.tools.lists import Context, caller_of
from roundtable.tools.playbooks import INSTRUCTIONS
from roundtable.tools.prompts import prompt
from roundtable.tools.rates import CallRates

log = structlog.get_logger(__name__)

UNKNOWN_TOOL: Final = "(unknown)"
"""What the audit calls a tool that does not exist: the name a client made up could carry anything."""
MALFORMED: Final = "(malformed)"

_CALL: Final = "tools/call"
_RATED: Final = (_CALL, resources.READ)
"""What is rated and audited."""
_WAITING: Final = ("claim_next", "wait_for_updates")
_ANSWER: Final = "roundtable.answer"
"""Where a request's scope keeps what its answer carries."""


class _Handover(Protocol):
    """The doors' word on an answer: `given` once the part of it with `mark` is with the system, for a client that is there."""

    mark: bytes
    given: bool


@dataclass(slots=True)
class _Answer:
    """The answer to one request: the claim that it carries, and whether it went out.

    A client that hangs up ends its request first and the call behind it later, so either may come before the other.
    """

    room: WaitingRoom
    handover: _Handover
    claim_id: str | None = None
    is_over: bool = False
    refused: BoardError | None = None
    """Why the call behind it is not to be made, where that is known and on the audit log already."""

    def carry(self, claim_id: str) -> None:
        self.claim_id = claim_id
        self.handover.mark = claim_id.encode()
        if self.is_over:
            self.room.answered(claim_id, is_handed_over=False)

    def end(self) -> None:
        self.is_over = True
        if self.claim_id is not None:
            self.room.answered(self.claim_id, is_handed_over=self.handover.given)


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who sends this request, and when it came in."""

    agent: Agent
    arrived: Now
    answer: _Answer


class Endpoint:
    """An ASGI application for POST /mcp behind the doors, which have put the agent into the scope."""

    def __init__(self, board: Board, calls_per_minute: int, stopping: trio.Event) -> None:
        """`stopping` is set when the server takes no further request: then every wait gives its empty answer."""
        self._board = board
        self._room = WaitingRoom(board)
        self._stopping = stopping
        self._rates = CallRates(calls_per_minute)
        server: Server[Any] = Server(
            "roundtable",
            version=__version__,
            title="Roundtable",
            instructions=INSTRUCTIONS,
            on_list_resources=lists.list_resources,
            on_list_resource_templates=lists.list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=lists.list_prompts,
            on_get_prompt=_get_prompt,
            on_list_tools=lists.list_tools,
            on_call_tool=self._call_tool,
            # without it each call of the 2026 generation would run tools/list first
            get_tool_input_schema=_input_schema,
        )
        server.middleware.append(self._account)
        self._fast = FastPath(BY_NAME.keys(), _WAITING, self._call_now, server.server_info_stamp)
        self._quick = _transport(server, json_response=True)
        self._streaming = _transport(server, json_response=False)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Take requests for as long as the context lasts. The body's own exceptions come out as they are."""
        failure: BaseException | None = None
        async with self._quick.run(), self._streaming.run(), trio.open_nursery() as nursery:
            nursery.start_soon(self._end_waits)
            try:
                yield
            except BaseException as error:
                failure = error  # raised outside the task groups, which would wrap it
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["arrived"] = self._board.clock()
        answer = scope[_ANSWER] = _Answer(self._room, scope["state"]["handover"])
        try:
            await self._transport(scope, receive, send)
        finally:
            answer.end()

    async def _end_waits(self) -> None:
        await self._stopping.wait()
        self._board.waits.end_all()

    async def _transport(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = _rated_call(scope["body"])
        if message is None:
            await self._streaming.handle_request(scope, receive, send)
            return
        if await self._fast.answer(message, scope, receive, send):
            return
        if not isinstance(message.get("params"), Mapping | None):
            # such a call would be refused before it is rated and audited, in words that quote it
            receive = _replaced(json.dumps({**message, "params": {}}).encode(), receive)
        transport = self._streaming if _may_wait(message) else self._quick
        await transport.handle_request(scope, receive, send)

    async def _account(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Every call passes here, whatever its generation: rated first, and on the audit log if it goes no further."""
        if ctx.method not in _RATED or ctx.request_id is None:
            return await call_next(ctx)  # a notification of that name asks nothing, and nothing is done
        caller = _caller(ctx)
        params = ctx.params or {}
        reads = ctx.method == resources.READ
        name = resources.READ if reads else _known(params.get("name"))
        about = resources.arguments_of(params.get("uri")) if reads else params.get("arguments")
        try:
            self._rates.count(caller.agent, name, caller.arrived)
        except BoardError as error:
            told = await self._recorded(caller, name, error, about)
            if reads:
                raise resources.unread(told) from None
            # told from where a call is answered, so that the SDK gives it the form of the caller's generation
            caller.answer.refused = told
        try:
            return await call_next(ctx)
        except ValidationError:
            if caller.answer.refused is not None:
                return refusal(caller.answer.refused).as_result()
            await self._recorded(caller, name if reads else MALFORMED, invalid("malformed params"), about)
            raise

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        caller = _caller(ctx)
        if caller.answer.refused is not None:
            return refusal(caller.answer.refused).as_result()
        return (await self._call(caller, params.name, params.arguments)).as_result()

    async def _call_now(self, scope: Scope, name: str, arguments: dict[str, Any]) -> Told:
        """The whole of a call that does not come through the SDK."""
        caller = _Caller(scope["agent"], scope["arrived"], scope[_ANSWER])
        try:
            self._rates.count(caller.agent, name, caller.arrived)
        except BoardError as error:
            return await self._refuse(caller, name, error, arguments)
        return await self._call(caller, name, arguments)

    async def _call(self, caller: _Caller, name: str, arguments: dict[str, Any] | None) -> Told:
        tool = BY_NAME.get(name)
        if tool is None:
            error = BoardError(
                Code.NOT_FOUND, f"There is no tool {echo(name)}. tools/list shows those there are."
            )
            return await self._refuse(caller, UNKNOWN_TOOL, error, arguments)
        try:
            refuse_role(caller.agent, tool.command, tool.name)
            command = tool.parse(arguments)
        except BoardError as error:
            return await self._refuse(caller, tool.name, error, arguments)
        except Exception:
            return await self._refuse(caller, tool.name, _fault(caller, tool.name), arguments)
        try:
            return success(tool, await self._ask(caller, tool, command))
        except BoardError as error:
            return refusal(error)
        except Exception:
            return refusal(_fault(caller, tool.name))

    async def _ask(self, caller: _Caller, tool: Tool, command: Command[Any]) -> dict[str, Any]:
        match command:
            case ClaimNext():
                reply = await self._room.claim_next(caller.agent, command, caller.arrived)
                if reply["task"] is not None:
                    # until the answer is out, the claim may have to be taken back
                    caller.answer.carry(reply["claim_id"])
                return reply
            case WaitForUpdates():
                return await self._room.wait_for_updates(caller.agent, command, caller.arrived)
            case _:
                return dict(await self._board.ask(caller.agent, tool.name, command, caller.arrived))

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        caller = _caller(ctx)
        try:
            command = resources.command_for(params.uri)
        except BoardError as error:
            raise resources.unread(await self._recorded(caller, resources.READ, error, None)) from None
        try:
            reply = dict(await self._board.ask(caller.agent, resources.READ, command, caller.arrived))
            return resources.contents(params.uri, command, reply)
        except BoardError as error:
            raise resources.unread(error) from None
        except Exception:
            raise resources.unread(_fault(caller, resources.READ)) from None

    async def _refuse(self, caller: _Caller, name: str, error: BoardError, arguments: object) -> Told:
        return refusal(await self._recorded(caller, name, error, arguments))

    async def _recorded(self, caller: _Caller, name: str, error: BoardError, arguments: object) -> BoardError:
        """What to tell of a refusal that the board need not decide: it only writes the audit row. Never raises."""
        record = RecordRefusal(error, mentioned_task_id(arguments), mentioned_claim_id(arguments))
        try:
            await self._board.ask(caller.agent, name, record, caller.arrived)
            raise AssertionError("a recorded refusal is always raised")
        except BoardError as told:
            return told
        except Exception:
            return _fault(caller, name)


async def _get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    return prompt(caller_of(ctx), params)


def _known(name: object) -> str:
    """What the audit calls the tool of this name."""
    return name if isinstance(name, str) and name in BY_NAME else UNKNOWN_TOOL


def _caller(ctx: Context) -> _Caller:
    agent = caller_of(ctx)
    if ctx.request is None:
        raise AssertionError("served over HTTP only")
    return _Caller(agent, ctx.request.scope["arrived"], ctx.request.scope[_ANSWER])


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = BY_NAME.get(name)
    return tool.input_schema if tool else None


def _fault(caller: _Caller, name: str) -> BoardError:
    """To be called where an exception is caught: it goes to the log, and this to the caller."""
    log.exception("fault", tool=name, agent=caller.agent.name)
    return BoardError(Code.INTERNAL, INTERNAL_MESSAGE)


def _rated_call(body: bytes) -> dict[str, Any] | None:
    """The message if it is a plain call. The streaming transport knows what to say to anything else."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("method") in _RATED else None


def _may_wait(message: Mapping[str, Any]) -> bool:
    """Whether a client that hangs up has to be noticed, which the quick transport does not."""
    params = message.get("params")
    return message["method"] == _CALL and isinstance(params, Mapping) and params.get("name") in _WAITING


def _replaced(body: bytes, receive: Receive) -> Receive:
    """The same receive with this body in place of the one it has."""
    left = [body]

    async def receive_replaced() -> Message:
        message = await receive()
        return {**message, "body": left.pop()} if left and message["type"] == "http.request" else message

    return receive_replaced


def _transport(server: Server[Any], *, json_response: bool) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        app=server,
        json_response=json_response,
        stateless=True,
        security_settings=None,  # the doors do this, exactly
        max_request_body_size=BODY_BYTES,
    )

"""A short way for the commonest request: a plain call of a tool.

The SDK builds streams, tasks and models anew for each POST, which costs more than the call itself. Here such a
request is read, carried out and answered in one go. Only a request about which everything is plainly right is taken;
whatever else comes, refusals of the protocol too, is the SDK's to answer, and it sees the request untouched.
Tests hold the answers of both ways side by side for each protocol version, and mcp is pinned:
docs/decisions/0010-fast-path.md tells what decided it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp_types import DEFAULT_NEGOTIATED_VERSION, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from roundtable.tools.answers import Told
from roundtable.tools.waiting_answer import send_json, send_when_decided

METHOD: Final = "tools/call"
NESTING_MAX: Final = 32
"""The SDK's parsers refuse deep nesting, each from a depth of its own on."""
ID_MAX: Final = 2**53
ENVELOPE_CHARS: Final = 2_000
"""A longer `_meta` is the SDK's to judge."""

_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode
"""JSON in ASCII."""

Call = Callable[[Scope, str, dict[str, Any]], Awaitable[Told]]

_MESSAGE_FIELDS: Final = {"jsonrpc", "id", "method", "params"}
_PARAMS_FIELDS: Final = {"name", "arguments", "_meta"}
_VERSION, _METHOD, _NAME = (
    name.encode("ascii") for name in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER)
)
_ACCEPT: Final = b"accept"
_LOOKED_AT: Final = {_ACCEPT, _VERSION, _METHOD, _NAME}
_MIRRORED: Final = b"mcp-param-"
_JSON_TYPES: Final = frozenset({b"application/json", b"application/*", b"*/*"})
_STREAM_TYPES: Final = frozenset({b"text/event-stream", b"text/*", b"*/*"})


class FastPath:
    """The short way to these tools, of which some may wait. `call` carries one out; `server_info` signs the answers."""

    def __init__(
        self, tools: Collection[str], waiting: Collection[str], call: Call, server_info: Mapping[str, Any]
    ) -> None:
        self._tools = frozenset(tools)
        self._waiting = frozenset(waiting)
        self._call = call
        meta = _encoded({SERVER_INFO_META_KEY: dict(server_info)})
        self._signature = f',"resultType":"complete","_meta":{meta}'

    async def answer(self, message: Mapping[str, Any], scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer the request whose body, which is in the scope, is this message. False: nothing was done about it.

        A client that hangs up cancels a call that may wait. Otherwise it is not noticed: the call is carried out all the
        same.
        """
        if not self._is_plain(message, scope["body"]):
            return False
        params = message["params"]
        may_wait = params["name"] in self._waiting
        version = _version(params, scope["headers"], may_wait=may_wait)
        if version is None:
            return False

        async def decide() -> bytes:
            told = await self._call(scope, params["name"], params.get("arguments", {}))
            return self._body(message["id"], told, version)

        if may_wait:
            is_modern = version in MODERN_PROTOCOL_VERSIONS
            await send_when_decided(decide, receive, send, streams_at_once=not is_modern)
        else:
            await send_json(await decide(), send)
        return True

    def _is_plain(self, message: Mapping[str, Any], body: bytes) -> bool:
        """Whether nobody could read the message in another way than it is read here."""
        request_id, params = message.get("id"), message.get("params")
        return (
            message.keys() == _MESSAGE_FIELDS
            and message["jsonrpc"] == "2.0"
            and message["method"] == METHOD
            and (type(request_id) is str or (type(request_id) is int and abs(request_id) < ID_MAX))
            and type(params) is dict
            and params.keys() <= _PARAMS_FIELDS
            and type(params.get("name")) is str
            and params["name"] in self._tools
            and type(params.get("arguments", {})) is dict
            # nothing is nested deeper than it has brackets, those in texts counted as well
            and (body.count(b"{") + body.count(b"[") <= NESTING_MAX or _is_shallow(params, NESTING_MAX))
            and _is_plain_text(body)
        )

    def _body(self, request_id: str | int, told: Told, version: str) -> bytes:
        text = told.text
        if text.isascii():  # as most content is: then the text block is the content as it goes over the wire
            content, quoted = text, to_json(text).decode("ascii")
        else:
            content, quoted = _encoded(told.content), _encoded(text)
        signature = self._signature if version in MODERN_PROTOCOL_VERSIONS else ""
        return (
            f'{{"jsonrpc":"2.0","id":{_encoded(request_id)},"result":{{"content":[{{"text":{quoted},"type":"text"}}],'
            f'"isError":{_encoded(told.is_error)},"structuredContent":{content}{signature}}}}}'
        ).encode("ascii")


def _version(params: Mapping[str, Any], headers: list[tuple[bytes, bytes]], *, may_wait: bool) -> str | None:
    """The protocol version by which it is to be answered, or None if headers or `_meta` are not plainly right."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in found or name.startswith(_MIRRORED):
            return None
        if name in _LOOKED_AT:
            found[name] = value
    accept = found.get(_ACCEPT, b"")
    if not _accepts(accept, _JSON_TYPES) or (may_wait and not _accepts(accept, _STREAM_TYPES)):
        return None
    version = found.get(_VERSION, DEFAULT_NEGOTIATED_VERSION.encode()).decode("latin-1")
    if version in MODERN_PROTOCOL_VERSIONS:
        if found.get(_METHOD) != METHOD.encode() or found.get(_NAME) != params["name"].encode():
            return None
    elif version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    return version if _has_plain_envelope(params, version) else None


def _has_plain_envelope(params: Mapping[str, Any], version: str) -> bool:
    if "_meta" not in params:
        return version not in MODERN_PROTOCOL_VERSIONS
    meta = params["_meta"]
    if type(meta) is not dict or type(meta.get("progressToken", "")) not in {str, int}:
        return False
    if version in MODERN_PROTOCOL_VERSIONS and meta.get(PROTOCOL_VERSION_META_KEY) != version:
        return False
    # of each call its own, and the rest the same for a client's whole life
    lasting = _encoded({name: value for name, value in meta.items() if name != "progressToken"})
    return len(lasting) <= ENVELOPE_CHARS and _is_valid(version, lasting)


@lru_cache(maxsize=128)
def _accepts(accept: bytes, wanted: frozenset[bytes]) -> bool:
    accepted = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not accepted.isdisjoint(wanted)


@lru_cache(maxsize=256)
def _is_valid(version: str, envelope: str) -> bool:
    """Whether the SDK takes a call with this `_meta`."""
    try:
        validate_client_request(METHOD, version, {"name": "any", "_meta": json.loads(envelope)})
    except ValidationError:
        return False
    return True


def _is_shallow(value: object, levels: int) -> bool:
    if type(value) is dict:
        return levels > 0 and all(_is_shallow(inner, levels - 1) for inner in value.values())
    if type(value) is list:
        return levels > 0 and all(_is_shallow(inner, levels - 1) for inner in value)
    return True


def _is_plain_text(body: bytes) -> bool:
    """Whether it is JSON in UTF-8 as it stands: Python would read other encodings too, and halves of surrogate pairs."""
    if not body.startswith(b"{") or b"\x00" in body or b"\\ud" in body or b"\\uD" in body:
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

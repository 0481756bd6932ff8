"""What the bad requests are made of."""

from __future__ import annotations

import json
import random
from typing import Any

from roundtable.tools.catalogue import TOOLS

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/call", {"name": "whoami"}),
    ("tools/call", {"name": "list_tasks", "arguments": {"limit": 3}}),
    ("tools/call", {"name": "get_task", "arguments": {"task_id": 1}}),
    ("tools/call", {"name": "create_task", "arguments": {"title": "t", "description": "d"}}),
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/read", {"uri": "roundtable://board"}),
    ("resources/read", {"uri": "roundtable://tasks/1"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "work"}),
)

_LONG = b"a" * 20_000

LINES = (
    b"",
    b"POST",
    b"POST /mcp",
    b"POST /mcp HTTP/1.0",
    b"POST /mcp HTTP/0.9",
    b"POST /mcp HTTP/1.2",
    b"POST /mcp HTTP/2.0",
    b"POST /mcp HTTP/3",
    b"POST /mcp HTTP/1.1 HTTP/1.1",
    b"POST  /mcp  HTTP/1.1",
    b"POST\t/mcp\tHTTP/1.1",
    b" POST /mcp HTTP/1.1",
    b"post /mcp HTTP/1.1",
    b"P\xc3\x96ST /mcp HTTP/1.1",
    b"POST /mcp\x00 HTTP/1.1",
    b"POST /mcp http/1.1",
    b"POST /" + _LONG + b" HTTP/1.1",
    _LONG + b" /mcp HTTP/1.1",
    b"\r\n\r\nPOST /mcp HTTP/1.1",
    b"HTTP/1.1 200 OK",
)
METHODS = (
    b"GET",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"CONNECT",
    b"PRI",
    b"X" * 200,
    b"POST",
)
TARGETS = (
    b"/mcp",
    b"/mcp/",
    b"/mcp//",
    b"//mcp",
    b"/MCP",
    b"/mcp?token=x",
    b"/mcp#x",
    b"/mcp/../mcp",
    b"/%6dcp",
    b"/%00",
    b"/%ff%fe",
    b"/",
    b"*",
    b"http://127.0.0.1:8000/mcp",
    b"http://evil.example/mcp",
    b"127.0.0.1:8000",
    b"/healthz",
    b"/readyz",
    b"/healthz?" + b"x" * 5_000,
    b"/.well-known/oauth-protected-resource",
    b"/etc/passwd",
    b"/\xc3\xa9",
)
LENGTHS = (
    b"-1", b"0", b"1", b"+5", b"5 5", b"0x10", b"1e3", b"", b" ", b"abc", b"99999999999999999999", b"9" * 5_000,
    b"1048577", b"1,1", b"\xb2", b"5;x",
)  # fmt: skip
CODINGS = (
    b"gzip", b"gzip, chunked", b"chunked, chunked", b"chunked, identity", b"identity", b"CHUNKED", b"xchunked",
    b"\x0bchunked", b"chunked;q=1", b"", b",", b"'chunked'",
)  # fmt: skip
CHUNKS = (
    b"SIZE\r\nBODY\r\n0\r\n\r\n",
    b"SIZE;ext=1\r\nBODY\r\n0\r\n\r\n",
    b"SIZE;" + b"e" * 20_000 + b"\r\nBODY\r\n0\r\n\r\n",
    b"SIZE\nBODY\n0\n\n",
    b"-1\r\nBODY\r\n0\r\n\r\n",
    b"ffffffffffffffffff\r\nBODY",
    b"7fffffffffffffff\r\nBODY",
    b"0x5\r\nBODY\r\n",
    b"g\r\nBODY\r\n",
    b"\r\n\r\n",
    b"1\r\nBODY\r\n0\r\n\r\n",
    b"SIZE\r\nBODY0\r\n\r\n",
    b"SIZE\r\nBODY\r\n0\r\nX: y\r\n" + b"Z: z\r\n" * 3_000 + b"\r\n",
    b"SIZE\r\nBODY\r\n0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    b"1\r\n{\r\n" * 2_000 + b"0\r\n\r\n",
)
RAW_HEADERS = (
    (b"X" * 20_000, b"y"),
    (b"X", b"y" * 20_000),
    (b"", b"empty name"),
    (b"X Y", b"space in the name"),
    (b"X\x00", b"y"),
    (b"X", b"a\x00b"),
    (b"X", b"a\r\n folded"),
    (b"X", b"a\rb"),
    (b"X", b"\xff\xfe"),
    (b"Host", b"evil.example"),
    (b"Content-Length", b"3"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Expect", b"100-continue"),
    (b"Expect", b"200-maybe"),
    (b"Connection", b"close, keep-alive, x" + b"," * 500),
    (b"Connection", b"Host, Authorization"),
    (b"Trailer", b"Authorization"),
    (b"TE", b"trailers"),
)
UPGRADES = (
    [
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"websocket"),
        (b"Sec-WebSocket-Key", b"x"),
        (b"Sec-WebSocket-Version", b"13"),
    ],
    [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"\xff")],
    [(b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"!no base64!")],
    [
        (b"Connection", b"Upgrade, HTTP2-Settings"),
        (b"Upgrade", b"h2c"),
        (b"HTTP2-Settings", b"AAMAAABkAARAAAAAAAIAAAAA"),
    ],
    [(b"Connection", b"Upgrade"), (b"Upgrade", b"TLS/1.0")],
)
OTHER_PROTOCOLS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 50,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"GET / HTTP/0.9\r\n\r\n",
    b"\x00" * 1_000,
    b"*1\r\n$4\r\nPING\r\n",
    b"HELO example.org\r\n",
    b"\r\n" * 3_000,
)
HEADERS: dict[bytes, tuple[bytes, ...]] = {
    b"Host": (
        b"", b"evil.example", b"127.0.0.1@evil.example", b"127.0.0.1:", b"127.0.0.1:99999", b"127.0.0.1:8000:1", b"[::1",
        b"[::1]", b"localhost", b"LOCALHOST:1", b"127.0.0.1, evil", b"xn--", b"\xff", b"a" * 5_000, b"127.0.0.1/", b"0x7f.1",
    ),
    b"Origin": (b"", b"null", b"http://evil.example", b"http://localhost:8000", b"http://localhost@evil", b"\xff", b"*"),
    b"Authorization": (
        b"", b"Bearer", b"Bearer ", b"bearer x", b"Basic eDp5", b"Bearer \xff\xfe", b"Bearer " + b"t" * 5_000, b"Bearer a b",
        b"Bearer a,b", b"Token x", b"Bearer ' OR 1=1 --",
    ),
    b"Content-Type": (
        b"", b"text/plain", b"application/json; charset=utf-16", b"application/json; charset=\xff", b"application/jsonx",
        b"APPLICATION/JSON", b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b";", b"application/json;",
        b"application/json" + b";a=b" * 1_000,
    ),
    b"Content-Encoding": (b"", b"gzip", b"identity", b"br", b"zstd, gzip", b"\xff"),
    b"Accept": (b"", b"*/*", b"text/html", b"application/json", b"text/event-stream", b"application/json;q=0", b"," * 3_000),
    b"MCP-Protocol-Version": (
        b"", b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25", b"2026-07-28", b"9999-99-99", b"\xff", b"1" * 5_000,
    ),
    b"Mcp-Session-Id": (b"", b"x", b"0" * 32, b"\xff", b"../../x", b"a" * 5_000),
    b"Mcp-Method": (b"", b"tools/list", b"tools/call", b"nonsense", b"\xff", b"=?base64?eA==?="),
    b"Mcp-Name": (b"", b"whoami", b"nonsense", b"\xff", b"=?base64?////?=", b"=?base64?!?=", b"a" * 5_000),
    b"Mcp-Param-Task-Id": (b"", b"1", b"\xff"),
    b"Last-Event-ID": (b"", b"1", b"9" * 30, b"\xff"),
    b"Cookie": (b"session=x", b"\xff" * 100),
    b"Range": (b"bytes=0-", b"bytes=9-1"),
    b"X-Forwarded-For": (b"127.0.0.1", b"evil", b"\xff"),
    b"X-HTTP-Method-Override": (b"DELETE",),
    b"Expect": (b"200-maybe",),
    b"Traceparent": (b"00-x-y-z", b"\xff", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"),
    b"Connection": (b"close", b"keep-alive", b"x"),
}  # fmt: skip

ODD_VALUES = (
    b"1e999", b"-1e999", b"NaN", b"Infinity", b"-Infinity", b"9" * 5_000, b"-0", b"0.1e-999", b"1" + b"0" * 400 + b".5",
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"', b"[" * 150 + b"]" * 150,
    b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b'{"":{"":{"":0}}}',
    b'{"x":1,"x":2,"x":[]}', b'"' + b"a" * 200_000 + b'"', b"[" + b"0," * 50_000 + b"0]", b"undefined", b"0x10", b"01", b"1.",
)  # fmt: skip
BODIES = (
    b"", b" ", b"\x00", b"null", b"true", b"0", b'""', b"[]", b"{}", b"[[]]", b"{", b"}", b'{"jsonrpc"', b"\xef\xbb\xbf{}",
    b"\xff\xfe", b"<xml/>", b"a=b", b"[" * 200_000, b"[" * 500 + b"]" * 500, b'{"a":' * 100_000, b'"' + b"x" * 1_000_000 + b'"',
    b"x" * 1_048_576, b"x" * 1_048_577, b"{}" * 1_000, b'{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0"}', b"data: {}\n\n",
)  # fmt: skip

METHOD_NAMES = (
    "", "tools/call", "tools/list", "tools/nonsense", "initialize", "ping", "server/discover", "notifications/initialized",
    "notifications/cancelled", "notifications/progress", "resources/read", "resources/subscribe", "resources/unsubscribe",
    "subscriptions/listen", "prompts/get", "completion/complete", "logging/setLevel", "roots/list", "sampling/createMessage",
    "elicitation/create", "tasks/get", "tasks/result", "tasks/cancel", "__init__", "x" * 5_000, "tools\u2028call", "\x00",
)  # fmt: skip

TEXTS = (
    "", " ", "\x00", "\x1b[31m", "\u2028", "\u202e", "\ud800", "\udfff\ud800", "\U0010ffff", "\ufeff", "é" * 300, "😀" * 250,
    "a" * 201, "a" * 5_000, "a" * 25_000, "'; DROP TABLE tasks; --", '" OR "', "title:a NEAR(b c) *", "AND OR NOT", '"', "%s%s%n",
    "{0.__class__}", "${jndi:ldap://x}", "../../etc/passwd", "<script>alert(1)</script>", "null", "true", "1", "-1", "NaN",
    "\r\n\r\n", "a\r\nX: y", "open", "anna", "lead", "worker", "python", "tasks-00000000-5", "history-x-1", "0" * 50, "a\tb",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 1e300, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**40, [], {}, [1], [[]],
    [None], [1, 1], ["1"], list(range(1, 60)), [0] * 2_000, {"a": 1}, {"": {}}, {"__proto__": {"x": 1}}, {"$ref": "#"}, *TEXTS,
)  # fmt: skip

_URIS = (
    "roundtable://board", "roundtable://tasks/1", "roundtable://tasks/0", "roundtable://tasks/9999999", "roundtable://tasks/01",
    f"roundtable://tasks/{2**63}", "roundtable://tasks/" + "9" * 6_000, "roundtable://tasks/-1", "file:///etc/passwd",
    "http://127.0.0.1:8000/mcp", "roundtable:", "://", "a" * 5_000,
)  # fmt: skip

_FINE: dict[str, tuple[Any, ...]] = {
    "task_id": (1, 2, 3, 5.0),
    "title": ("A title",),
    "description": ("d", "words to find"),
    "body": ("b",),
    "result": ("r", "r" * 20_000),
    "reason": ("because",),
    "note": ("better",),
    "query": ("words", "title find", "a b c d e f"),
    "status": ("open", "claimed", "submitted", "done"),
    "verdict": ("accept", "reject"),
    "kind": ("note", "progress", "reply", "help_request"),
    "assignee": ("anna", "bert"),
    "agent": ("anna",),
    "depends_on": ([1], [1, 2]),
    "priority": (-100, 0, 100),
    "limit": (1, 100),
    "lease_seconds": (30,),
    "wait_seconds": (0,),
    "clear": (["assignee"], ["depends_on"]),
    "idempotency_key": ("k1", "k2"),
}
"""Values that are taken, so that calls get past the schema and into the rules."""


def odd_call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A call whose framing and envelope are right and whose content is not, or not quite."""
    match chance.randrange(12):
        case 0:
            return "resources/read", {"uri": chance.choice([*_URIS, *VALUES])}
        case 1:
            arguments = chance.choice([*VALUES, {"a": "b"}])
            return "prompts/get", {"name": chance.choice(["lead", "work", *VALUES]), "arguments": arguments}
        case 2:
            return "tools/call", {"name": chance.choice(VALUES), "arguments": chance.choice(VALUES)}
        case 3:
            cursor = {"cursor": chance.choice(VALUES)}
            return chance.choice(
                ["tools/list", "resources/list", "prompts/list", "resources/templates/list"]
            ), cursor
        case _:
            tool = chance.choice(TOOLS)
    # now and then null, which is absent: then a wait would be as long as its default
    arguments: Any = {"wait_seconds": 0} if "wait_seconds" in tool.parameters else {}
    for name in tool.parameters:
        if name in tool.required or chance.random() < 0.4:
            fine = _FINE.get(name, ("x",))
            arguments[name] = chance.choice(fine if chance.random() < 0.75 else VALUES)
    if "wait_seconds" in tool.parameters and arguments["wait_seconds"] in (None, "", 1.0, 1):
        arguments["wait_seconds"] = 0
    if chance.random() < 0.1:
        arguments[chance.choice(TEXTS)] = chance.choice(VALUES)
    if chance.random() < 0.05:
        arguments = chance.choice(VALUES)
    if isinstance(arguments, dict) and "wait_seconds" in tool.parameters:
        arguments.setdefault("wait_seconds", 0)
    elif tool.name == "wait_for_updates":
        arguments = {"wait_seconds": 0}
    return "tools/call", {"name": tool.name, "arguments": arguments}


def odd_meta(chance: random.Random) -> dict[str, Any]:
    """An envelope with one thing wrong."""
    meta: dict[str, Any] = dict(ENVELOPE)
    meta[chance.choice([*ENVELOPE, "progressToken", "io.modelcontextprotocol/logLevel", "traceparent"])] = (
        chance.choice(VALUES)
    )
    return meta


def spoiled(chance: random.Random, data: bytes) -> bytes:
    """The data with a few bytes changed, added, taken out or repeated."""
    made = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(4):
            case 0:
                made[at : at + 1] = chance.randbytes(1)
            case 1:
                made[at:at] = chance.randbytes(chance.choice([1, 4, 64]))
            case 2:
                del made[at : at + chance.choice([1, 4, 64])]
            case _:
                made[at:at] = made[at : at + chance.choice([1, 16, 256])]
        if not made:
            made += json.dumps(None).encode()
    return bytes(made)

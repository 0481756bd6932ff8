"""Bad requests, drawn from a seed: what a broken, careless or hostile client may send, as bytes.

Five families, from the outside in: framing, headers, JSON, JSON-RPC, arguments. Where the framing is whole, an answer
is owed; where it is not, none may come. Most are bad in one thing only, so that they get as far as that thing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz import draws

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
FAMILIES = ("framing", "headers", "json", "rpc", "arguments")

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Shot:
    """One bad request. `is_whole`: it is a complete request, so that an answer is owed."""

    family: str
    data: bytes
    is_whole: bool = True


class Shots:
    """An endless stream of shots; the same for the same seed and tokens."""

    def __init__(self, chance: random.Random, tokens: list[str]) -> None:
        self._chance = chance
        self._tokens = tokens
        self._makers: dict[str, Callable[[], Shot]] = {
            "framing": self._framing,
            "headers": self._headers,
            "json": self._json,
            "rpc": self._rpc,
            "arguments": self._arguments,
        }

    def draw(self) -> Shot:
        return self._makers[self._chance.choice(FAMILIES)]()

    # the request that is right, to be spoiled in one thing

    def _message(self) -> tuple[dict[str, Any], str]:
        """A message that the server takes, and the generation that it is of."""
        generation = self._chance.choice([HANDSHAKE, MODERN])
        method, params = self._chance.choice(draws.GOOD)
        message = {
            "jsonrpc": "2.0",
            "id": self._chance.randint(0, 9),
            "method": method,
            "params": dict(params),
        }
        if generation == MODERN:
            message["params"] = {**message["params"], "_meta": dict(draws.ENVELOPE)}
        return message, generation

    def _head(self, message: Any, generation: str) -> Headers:
        headers = [
            (b"Host", b"127.0.0.1:8000"),
            (b"Authorization", b"Bearer " + self._chance.choice(self._tokens).encode()),
            (b"Content-Type", b"application/json"),
            (b"Accept", b"application/json, text/event-stream"),
            (b"MCP-Protocol-Version", generation.encode()),
        ]
        if generation == MODERN and isinstance(message, dict):
            headers += _mirrored(message)
        return headers

    def _request(
        self, family: str, body: bytes, headers: Headers, line: bytes = b"POST /mcp HTTP/1.1", **more: Any
    ) -> Shot:
        """In chunks now and then; else with the length."""
        if self._chance.random() < 0.1:
            headers = [*headers, (b"Transfer-Encoding", b"chunked")]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in self._parts(body)) + b"0\r\n\r\n"
        else:
            headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        return Shot(family, _bytes(line, headers) + body, **more)

    def _parts(self, body: bytes) -> list[bytes]:
        size = self._chance.choice([1, 7, 100, 10_000]) if len(body) < 2_000 else 100_000
        return [body[start : start + size] for start in range(0, len(body), size)]

    # the families

    def _framing(self) -> Shot:
        message, generation = self._message()
        body = json.dumps(message).encode()
        headers = self._head(message, generation)
        length = (b"Content-Length", b"%d" % len(body))
        chunked = (b"Transfer-Encoding", b"chunked")
        chance = self._chance
        good = _bytes(b"POST /mcp HTTP/1.1", [*headers, length]) + body
        match chance.randrange(12):
            case 0:
                data = chance.randbytes(chance.choice([1, 10, 100, 5_000, 40_000]))
            case 1:
                data = good[: chance.randrange(len(good))]
            case 2:
                data = draws.spoiled(chance, good)
            case 3:
                data = _bytes(chance.choice(draws.LINES), [*headers, length]) + body
            case 4:
                wrong = (b"Content-Length", chance.choice(draws.LENGTHS))
                data = _bytes(
                    b"POST /mcp HTTP/1.1",
                    [*headers, *chance.choice([[wrong], [length, wrong], [wrong, chunked]])],
                )
                data += body
            case 5:
                coding = (b"Transfer-Encoding", chance.choice(draws.CODINGS))
                data = _bytes(b"POST /mcp HTTP/1.1", [*headers, coding]) + b"%x\r\n%s\r\n0\r\n\r\n" % (
                    len(body),
                    body,
                )
            case 6:
                data = _bytes(b"POST /mcp HTTP/1.1", [*headers, chunked])
                data += chance.choice(draws.CHUNKS).replace(b"BODY", body).replace(b"SIZE", b"%x" % len(body))
            case 7:
                data = (
                    _bytes(b"POST /mcp HTTP/1.1", [*headers, chance.choice(draws.RAW_HEADERS), length]) + body
                )
            case 8:
                data = good.replace(b"\r\n", chance.choice([b"\n", b"\r", b"\n\r", b"\r\n ", b"\r\r\n"]))
            case 9:
                data = good * chance.randint(2, 5) + chance.choice([b"", b"G", b"\x00", good[:50]])
            case 10:
                data = chance.choice(draws.OTHER_PROTOCOLS) + good
            case _:
                upgrade = chance.choice(draws.UPGRADES)
                data = _bytes(b"POST /mcp HTTP/1.1", [*headers, *upgrade, length]) + body
        return Shot("framing", data, is_whole=False)

    def _headers(self) -> Shot:
        message, generation = self._message()
        headers = self._head(message, generation)
        chance = self._chance
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            name = chance.choice(list(draws.HEADERS))
            value = chance.choice(draws.HEADERS[name])
            kept = [one for one in headers if one[0].lower() != name.lower()]
            headers = chance.choice(
                [
                    [*kept, (name, value)],
                    [*kept, (name, value)],
                    [*headers, (name, value)],
                    [(name, value), *headers],
                    kept,
                ]
            )
        line = b"POST /mcp HTTP/1.1"
        if chance.random() < 0.2:
            line = b"%s %s HTTP/1.1" % (chance.choice(draws.METHODS), chance.choice(draws.TARGETS))
        # an answer to HEAD has no body, and to a CONNECT none that HTTP would know
        whole = not line.startswith((b"HEAD", b"CONNECT"))
        return self._request("headers", json.dumps(message).encode(), headers, line, is_whole=whole)

    def _json(self) -> Shot:
        message, generation = self._message()
        headers = self._head(message, generation)
        chance = self._chance
        body = json.dumps(message).encode()
        match chance.randrange(6):
            case 0:
                body = draws.spoiled(chance, body)
            case 1:
                body = body[: chance.randrange(len(body))]
            case 2:
                body = chance.choice(draws.BODIES)
            case 3:
                body = body.decode().encode(
                    chance.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "cp037"])
                )
            case 4:
                # valid JSON that no careful program writes, in place of a value
                place = body.rfind(b"}", 0, len(body) - 1)
                body = body[:place] + b',"x":' + chance.choice(draws.ODD_VALUES) + body[place:]
            case _:
                body = body.replace(
                    b'"', chance.choice([b"'", b'\\"', b"\xff", b'"\x00', b"\xc0\xa2"]), chance.randint(1, 9)
                )
        return self._request("json", body, headers)

    def _rpc(self) -> Shot:
        message, generation = self._message()
        headers = self._head(message, generation)
        chance = self._chance
        sent: Any = message
        match chance.randrange(8):
            case 0:
                message["jsonrpc"] = chance.choice(draws.VALUES)
            case 1:
                message["id"] = chance.choice(draws.VALUES)
            case 2:
                message["method"] = chance.choice([*draws.METHOD_NAMES, *draws.VALUES])
            case 3:
                message["params"] = chance.choice(draws.VALUES)
            case 4:
                message.pop(chance.choice(list(message)))
            case 5:
                meta = chance.choice([*draws.VALUES, draws.odd_meta(chance), draws.odd_meta(chance)])
                message["params"] = {**message["params"], "_meta": meta}
            case 6:
                message[chance.choice(["result", "error", "x", "__proto__", "params2"])] = chance.choice(
                    draws.VALUES
                )
            case _:
                sent = chance.choice(
                    [[message], [message] * 3, [], [[message]], {"jsonrpc": "2.0", "id": 1, "result": {}}]
                )
        if generation == MODERN and chance.random() < 0.7:
            headers = self._head(sent, generation)  # the header says what the body says, bad as it is
        return self._request("rpc", json.dumps(sent).encode(), headers)

    def _arguments(self) -> Shot:
        generation = self._chance.choice([HANDSHAKE, MODERN])
        method, params = draws.odd_call(self._chance)
        if generation == MODERN:
            params = {**params, "_meta": dict(draws.ENVELOPE)}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        body = json.dumps(message, ensure_ascii=self._chance.random() < 0.5).encode("utf-8", "surrogatepass")
        return self._request("arguments", body, self._head(message, generation))


def _mirrored(message: dict[str, Any]) -> Headers:
    """What the 2026 generation wants to see in the headers too."""
    params = message.get("params")
    named = params.get("name", params.get("uri")) if isinstance(params, dict) else None
    found = [(b"Mcp-Method", message.get("method")), (b"Mcp-Name", named)]
    return [
        (name, value.encode())
        for name, value in found
        if isinstance(value, str) and value.isascii() and value.isprintable()
    ]


def _bytes(line: bytes, headers: Headers) -> bytes:
    return b"\r\n".join([line, *(b"%s: %s" % header for header in headers), b"", b""])

"""The vendors' APIs that the apps speak to their model, as far as a scripted model needs them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from tests.clients.model import CALL, PREFIXES, SERVER_NAME, Search, Turn, bare, events, text_of
from tests.clients.story import Shown

DONE = "That is all."
FULL = f"mcp__{SERVER_NAME}__"
BRIDGE = "tool_call"


class AnthropicMessages:
    path = "/v1/messages"

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        names = [tool.get("name", "") for tool in body.get("tools") or []]
        return {found: name for name in names if (found := bare(name))}

    def search(self, body: Mapping[str, Any]) -> Search | None:
        if not any(tool.get("name") == "ToolSearch" for tool in body.get("tools") or []):
            return None
        return Search(0, "ToolSearch", {"query": f"+{SERVER_NAME}", "max_results": 20})

    def results(self, body: Mapping[str, Any]) -> Sequence[tuple[str, Shown]]:
        blocks = [
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        return [
            (block["tool_use_id"], Shown(text_of(block.get("content")), bool(block.get("is_error"))))
            for block in blocks
        ]

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        usage = {"input_tokens": 10, "output_tokens": 10}
        if turn.tool:
            block = {"type": "tool_use", "id": turn.call_id, "name": turn.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": turn.json}
            whole = {**block, "input": turn.arguments}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": DONE}
            whole = {"type": "text", "text": DONE}
        reason = "tool_use" if turn.tool else "end_turn"
        message = {
            "id": f"msg_{turn.number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            return JSONResponse({**message, "content": [whole], "stop_reason": reason})
        ending = {"stop_reason": reason, "stop_sequence": None}
        data: Sequence[Mapping[str, Any]] = (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": usage},
            {"type": "message_stop"},
        )
        return events(*((each["type"], each) for each in data))


@dataclass
class OpenAIResponses:
    prefixes: Sequence[str] = PREFIXES
    path: str = "/v1/responses"

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A tool is a function with a long name, or one within a namespace of the server."""
        found: dict[str, Any] = {}
        for tool in body.get("tools") or []:
            if tool.get("type") == "namespace":
                if bare(tool["name"].rstrip("_") + "__x"):
                    for inner in tool["tools"]:
                        found[inner["name"]] = {"name": inner["name"], "namespace": tool["name"]}
            elif name := bare(tool.get("name", ""), self.prefixes):
                found[name] = {"name": tool["name"]}
        return found

    def search(self, body: Mapping[str, Any]) -> Search | None:
        del body
        return None

    def results(self, body: Mapping[str, Any]) -> Sequence[tuple[str, Shown]]:
        items = [
            item
            for item in body["input"]
            if isinstance(item, Mapping) and item.get("type") == "function_call_output"
        ]
        return [(item["call_id"], Shown(text_of(item["output"]))) for item in items]

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        response = {"id": f"resp_{turn.number}", "object": "response", "model": body["model"]}
        if turn.tool:
            item = {
                "type": "function_call",
                "id": f"fc_{turn.number}",
                "call_id": turn.call_id,
                **turn.tool,
                "arguments": turn.json,
                "status": "completed",
            }
        else:
            item = {
                "type": "message",
                "id": f"msg_{turn.number}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": DONE, "annotations": []}],
            }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 20,
        }
        whole = {**response, "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            return JSONResponse(whole)
        data: Sequence[Mapping[str, Any]] = (
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )
        return events(*((each["type"], {**each, "sequence_number": n}) for n, each in enumerate(data)))


class OpenAIChat:
    path = "/v1/chat/completions"

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        names = [tool["function"]["name"] for tool in body.get("tools") or [] if "function" in tool]
        return {found: name for name in names if (found := bare(name))}

    def search(self, body: Mapping[str, Any]) -> Search | None:
        del body
        return None

    def results(self, body: Mapping[str, Any]) -> Sequence[tuple[str, Shown]]:
        messages = [message for message in body["messages"] if message["role"] == "tool"]
        return [(message["tool_call_id"], Shown(text_of(message["content"]))) for message in messages]

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        if turn.tool:
            function = {"name": turn.tool, "arguments": turn.json}
            call = {"index": 0, "id": turn.call_id, "type": "function", "function": function}
            message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        else:
            message = {"role": "assistant", "content": DONE}
        reason = "tool_calls" if turn.tool else "stop"
        head = {"id": f"chat_{turn.number}", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        head["object"] = "chat.completion.chunk"
        return events(
            (None, {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
            (None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
            (None, "[DONE]"),
        )


class OpenAIChatWithBridge(OpenAIChat):
    """Of an app that keeps the tools of servers out of the list and calls them through a tool of its own."""

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if not any(tool["function"]["name"] == BRIDGE for tool in body.get("tools") or []):
            return {}
        named = re.findall(rf"{FULL}\w+", json.dumps(body["messages"]))
        return {name.removeprefix(FULL): name for name in named}

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        if turn.tool:
            turn = Turn(turn.number, BRIDGE, {"name": turn.tool, "arguments": turn.arguments})
        return super().answer(body, turn)


class GoogleGenerateContent:
    path = "/v1beta/models/{model}"

    def offered(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        declared = [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations", [])]
        return {found: each["name"] for each in declared if (found := bare(each["name"]))}

    def search(self, body: Mapping[str, Any]) -> Search | None:
        del body
        return None

    def results(self, body: Mapping[str, Any]) -> Sequence[tuple[str, Shown]]:
        """Ids are the app's own here. What it shows is a JSON object around the text."""
        parts = [part for content in body["contents"] for part in content.get("parts", [])]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return [
            (f"{CALL}{number}", Shown(json.dumps(answer["response"], ensure_ascii=False)))
            for number, answer in enumerate(answers)
            if bare(answer["name"])
        ]

    def answer(self, body: Mapping[str, Any], turn: Turn) -> Response:
        call = {"id": turn.call_id, "name": turn.tool, "args": turn.arguments}
        part = {"functionCall": call} if turn.tool else {"text": DONE}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        return events((None, whole)) if body["stream"] else JSONResponse(whole)

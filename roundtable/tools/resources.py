"""The board as resources that an app can attach to a conversation: which there are, and what reading one means.

Reading goes the way of a tool call named `resources/read`, but MCP has no place in its answer for a refusal: that is
a JSON-RPC error, whose data is the error object that a tool would have answered.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from roundtable.rules.commands import Command, GetTask, ReadBoard
from roundtable.rules.errors import BoardError, Code, echo, not_found
from roundtable.rules.limits import TASK_ID_MAX
from roundtable.tools.answers import compact, labelled

READ: Final = "resources/read"
"""The method, and what the audit calls it."""

REFUSED: Final = -32010
"""The code for what is right in itself and refused now, from the range that JSON-RPC leaves to servers."""

_JSON: Final = "application/json"
_BOARD_URI: Final = "roundtable://board"
_TASK_URI: Final = re.compile(r"roundtable://tasks/([1-9][0-9]{0,18})")
_WRONG: Final = frozenset({Code.NOT_FOUND, Code.INVALID, Code.TOO_LARGE})

RESOURCES: Final = (
    Resource(
        uri=_BOARD_URI,
        name="board",
        title="The board",
        description="How many tasks are in each status, and those that wait for the leader.",
        mime_type=_JSON,
    ),
)
TEMPLATES: Final = (
    ResourceTemplate(
        uri_template="roundtable://tasks/{id}",
        name="task",
        title="One task",
        description="All of one task, as get_task tells it.",
        mime_type=_JSON,
    ),
)


def command_for(uri: str) -> Command[Any]:
    """What reading this resource asks of the board. Raises BoardError `not_found`."""
    if uri == _BOARD_URI:
        return ReadBoard()
    named = arguments_of(uri)
    if not named:
        raise not_found(
            f"There is no resource {echo(uri)}. {_BOARD_URI} and roundtable://tasks/{{id}} can be read."
        )
    return GetTask(named["task_id"])


def arguments_of(uri: object) -> dict[str, int]:
    """The task that this URI is of, if it is one, as a tool would be told."""
    named = _TASK_URI.fullmatch(uri) if isinstance(uri, str) else None
    if named is None or int(named[1]) > TASK_ID_MAX:
        return {}
    return {"task_id": int(named[1])}


def contents(uri: str, command: Command[Any], reply: dict[str, Any]) -> ReadResourceResult:
    """The answer, labelled as a tool's would be."""
    text = compact(labelled(reply, "task" if isinstance(command, GetTask) else "needs_attention"))
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=text)])


def unread(error: BoardError) -> MCPError:
    """The refusal as the protocol's error."""
    code = INVALID_PARAMS if error.code in _WRONG else REFUSED
    if error.code is Code.INTERNAL:
        code = INTERNAL_ERROR
    return MCPError(code=code, message=error.message, data=error.as_json())

"""Arguments: strict types, exact limits, and a reason for each refusal that a model can act on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_table import MODERN, Answer, Seat, Table, message_in

from roundtable.rules.errors import BoardError, Code
from roundtable.tools.catalogue import TOOLS, Tool

BIG_ID = 2**63 - 1
NOT_A_STRING = (True, False, 1, 1.5, [], {}, ["x"], 0, -1, 2**63)
NOT_AN_ID = (True, False, "1", 1.5, [], {}, [1], 0, -1, 0.0, 2**63, 1e300, 10**40, "x")
NOT_A_FLAG = ("true", "false", 1, 0, 1.0, [], {})
NOT_A_WORD = (*NOT_A_STRING, "nonsense", "OPEN", " open")

TEXT = "text"
ID = "id"
IDS = "ids"
FLAG = "flag"
SET = "set"

PARAMETERS: dict[str, dict[str, Any]] = {
    "create_task": {
        "title": (TEXT, 200),
        "description": (TEXT, 8_000),
        "acceptance_criteria": (TEXT, 4_000),
        "required_skill": (TEXT, 100),
        "assignee": (TEXT, 100),
        "priority": (-100, 100),
        "lease_seconds": (30, 86_400),
        "max_attempts": (1, 100),
        "depends_on": (IDS, 50),
        "idempotency_key": (TEXT, 100),
    },
    "update_task": {
        "task_id": (ID, BIG_ID),
        "title": (TEXT, 200),
        "description": (TEXT, 8_000),
        "acceptance_criteria": (TEXT, 4_000),
        "required_skill": (TEXT, 100),
        "assignee": (TEXT, 100),
        "priority": (-100, 100),
        "lease_seconds": (30, 86_400),
        "max_attempts": (1, 100),
        "depends_on": (IDS, 50),
        "clear": (SET, 5),
    },
    "list_tasks": {
        "status": ("open", "claimed", "submitted", "done", "cancelled"),
        "assignee": (TEXT, 100),
        "required_skill": (TEXT, 100),
        "needs_attention": (FLAG, 0),
        "query": (TEXT, 200),
        "limit": (1, 100),
        "cursor": (TEXT, 100),
    },
    "get_task": {"task_id": (ID, BIG_ID), "message_cursor": (TEXT, 100)},
    "claim_task": {"task_id": (ID, BIG_ID)},
    "release_task": {
        "task_id": (ID, BIG_ID),
        "reason": (TEXT, 1_000),
        "failed": (FLAG, 0),
        "cooldown_seconds": (0, 86_400),
        "claim_id": (TEXT, 100),
    },
    "renew_claim": {"task_id": (ID, BIG_ID), "claim_id": (TEXT, 100)},
    "wait_for_updates": {"cursor": (TEXT, 100), "wait_seconds": (0, 25)},
    "post_message": {
        "task_id": (ID, BIG_ID),
        "body": (TEXT, 4_000),
        "kind": ("progress", "help_request", "reply", "note"),
        "idempotency_key": (TEXT, 100),
    },
    "submit_result": {"task_id": (ID, BIG_ID), "result": (TEXT, 20_000), "claim_id": (TEXT, 100)},
    "review_task": {
        "task_id": (ID, BIG_ID),
        "verdict": ("accept", "reject"),
        "note": (TEXT, 4_000),
        "keep_assignee": (FLAG, 0),
    },
    "cancel_task": {"task_id": (ID, BIG_ID), "reason": (TEXT, 1_000)},
    "get_history": {
        "task_id": (ID, BIG_ID),
        "agent": (TEXT, 100),
        "newest_first": (FLAG, 0),
        "limit": (1, 100),
        "cursor": (TEXT, 100),
    },
    "whoami": {},
    "list_agents": {},
    "claim_next": {"wait_seconds": (0, 25), "idempotency_key": (TEXT, 100)},
}
"""Every tool with every parameter: what kind it is, and how much it may be."""

REQUIRED: dict[str, dict[str, Any]] = {
    "create_task": {"title": "A task", "description": "Do it."},
    "update_task": {"task_id": 1},
    "get_task": {"task_id": 1},
    "claim_task": {"task_id": 1},
    "release_task": {"task_id": 1},
    "renew_claim": {"task_id": 1},
    "post_message": {"task_id": 1, "body": "Hello."},
    "submit_result": {"task_id": 1, "result": "Done."},
    "review_task": {"task_id": 1, "verdict": "accept"},
    "cancel_task": {"task_id": 1, "reason": "No longer needed."},
}
EVERY = [(tool, name) for tool, parameters in PARAMETERS.items() for name in parameters]
TEXTS = [(tool, name) for tool, name in EVERY if PARAMETERS[tool][name][0] == TEXT]
LEADERS = {"create_task", "update_task", "review_task", "cancel_task"}
WORDS_OF_LIBRARIES = (
    "pydantic",
    "jsonschema",
    "Traceback",
    "is not of type",
    "input_value",
    "<class",
    "None",
    "True",
    "False",
)


def caller(table: Table, tool: str) -> Seat:
    return table.lead if tool in LEADERS else table.anna


def wrong_values(kind: tuple[Any, ...]) -> tuple[Any, ...]:
    first = kind[0]
    if first == TEXT:
        return NOT_A_STRING
    if first == ID:
        return NOT_AN_ID
    if first == FLAG:
        return NOT_A_FLAG
    if first == IDS:
        return (
            True,
            "1",
            1,
            1.5,
            {},
            [True],
            ["1"],
            [1.5],
            [0],
            [-1],
            [2**63],
            [None],
            [[1]],
            [1, 1],
            [1, 1.0],
        )
    if first == SET:
        return (True, "assignee", 1, {}, ["title"], ["x"], [1], [None], ["assignee", "assignee"])
    if isinstance(first, str):
        return NOT_A_WORD
    return (True, False, "1", 1.5, [], {}, kind[0] - 1, kind[1] + 1, 2**63, -(2**63), 1e300)


async def refused(
    table: Table, tool: str, arguments: object, code: str, generation: str = "2025-11-25"
) -> Answer:
    answer = await caller(table, tool).call(tool, arguments, generation)
    assert answer.code == code, f"{tool} {str(arguments)[:200]}: {answer.text[:300]}"
    message = answer.error["message"]
    assert not [word for word in WORDS_OF_LIBRARIES if word in message], message
    assert len(message) < 600
    return answer


def test_this_file_knows_every_tool_and_parameter():
    assert {tool.name: list(tool.parameters) for tool in TOOLS} == {
        name: list(parameters) for name, parameters in PARAMETERS.items()
    }


@pytest.mark.spec("TOOL-7")
@pytest.mark.parametrize(("tool", "name"), EVERY)
async def test_a_value_of_another_type_or_out_of_range_is_refused_and_the_message_names_what_is_accepted(
    table: Table, tool: str, name: str
):
    kind = PARAMETERS[tool][name]
    for value in wrong_values(kind):
        answer = await refused(table, tool, {**REQUIRED.get(tool, {}), name: value}, "invalid")
        message = answer.error["message"]
        assert message.startswith(name), message
        assert " must " in message, message
    assert table.rows("SELECT count(*) FROM tasks") == [(0,)]


@pytest.mark.spec("TOOL-7")
async def test_a_whole_float_is_the_number_it_is(table: Table, generation: str):
    await table.task()
    assert (await table.anna.call("get_task", {"task_id": 1.0}, generation)).content["task"]["task_id"] == 1
    assert type((await table.anna.call("claim_task", {"task_id": 1.0})).content["task_id"]) is int
    created = await table.lead.call(
        "create_task", {"title": "x", "description": "y", "priority": 5.0, "depends_on": [1.0]}, generation
    )
    task = (await table.lead.did("get_task", task_id=created.content["task_id"]))["task"]
    assert (task["priority"], task["depends_on"]) == (5, [1])
    assert type(task["priority"]) is int


@pytest.mark.spec("TOOL-7")
async def test_the_largest_id_is_an_id_and_one_more_is_not(table: Table):
    await refused(table, "get_task", {"task_id": BIG_ID}, "not_found")
    await refused(table, "get_task", {"task_id": BIG_ID + 1}, "invalid")
    await refused(table, "create_task", {**REQUIRED["create_task"], "depends_on": [BIG_ID]}, "not_found")
    # as a float it is 2^63
    await refused(table, "get_task", {"task_id": float(BIG_ID)}, "invalid")


@pytest.mark.spec("TOOL-6")
@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool in REQUIRED for name in REQUIRED[tool]])
async def test_a_required_argument_that_is_missing_or_null_is_refused(table: Table, tool: str, name: str):
    rest = {key: value for key, value in REQUIRED[tool].items() if key != name}
    for arguments in (rest, {**rest, name: None}):
        answer = await refused(table, tool, arguments, "invalid")
        assert name in answer.error["message"]
        assert "must be given" in answer.error["message"]


@pytest.mark.spec("TOOL-6")
@pytest.mark.parametrize(("tool", "name"), [(t, n) for t, n in TEXTS if n in REQUIRED.get(t, {})])
async def test_a_required_text_that_is_empty_is_refused(table: Table, tool: str, name: str):
    answer = await refused(table, tool, {**REQUIRED[tool], name: ""}, "invalid")
    assert answer.error["message"].startswith(name)


OPTIONAL = [(tool, name) for tool, name in EVERY if name not in REQUIRED.get(tool, {})]


@pytest.mark.spec("TOOL-6")
@pytest.mark.parametrize(("tool", "name"), OPTIONAL)
async def test_null_in_an_optional_argument_is_absence(table: Table, tool: str, name: str):
    await prepared(table, tool)
    answer = await caller(table, tool).call(tool, {**REQUIRED.get(tool, {}), name: None})
    assert answer.code is None, answer.text


@pytest.mark.spec("TOOL-6")
@pytest.mark.parametrize(("tool", "name"), OPTIONAL)
async def test_the_empty_string_is_absence_in_an_optional_string_only(table: Table, tool: str, name: str):
    await prepared(table, tool)
    kind = PARAMETERS[tool][name]
    is_string = kind[0] not in {ID, IDS, FLAG, SET} and isinstance(kind[0], str)
    answer = await caller(table, tool).call(tool, {**REQUIRED.get(tool, {}), name: ""})
    assert answer.code == (None if is_string else "invalid"), answer.text


async def prepared(table: Table, tool: str) -> None:
    """Task 1 as this tool needs it."""
    await table.task()
    if tool in {"release_task", "renew_claim", "submit_result", "review_task"}:
        await table.anna.did("claim_task", task_id=1)
    if tool == "review_task":
        await table.anna.did("submit_result", task_id=1, result="Done.")


@pytest.mark.spec("TOOL-6")
async def test_an_app_that_sends_every_parameter_with_null_gets_the_defaults(table: Table):
    everything = dict.fromkeys(PARAMETERS["create_task"])
    made = await table.lead.call("create_task", {**everything, **REQUIRED["create_task"]})
    task = (await table.lead.did("get_task", task_id=made.content["task_id"]))["task"]
    assert task["priority"] == 0
    assert not {"acceptance_criteria", "required_skill", "assigned_to", "depends_on"} & task.keys()


@pytest.mark.spec("TOOL-5")
@pytest.mark.parametrize("tool", PARAMETERS)
async def test_an_argument_that_the_tool_does_not_have_is_refused_even_when_null(table: Table, tool: str):
    for unknown in ("from", "agent_name", "Task_id", "lease_until", "query_", "claim", "", "\x00"):
        for value in ("x", None):
            answer = await refused(table, tool, {**REQUIRED.get(tool, {}), unknown: value}, "invalid")
            assert "There is no argument" in answer.error["message"]
            assert all(name in answer.error["message"] for name in PARAMETERS[tool])
    assert table.rows("SELECT count(*) FROM tasks") == [(0,)]


@pytest.mark.spec("TOOL-5", "AUTH-5")
@pytest.mark.parametrize(
    ("tool", "argument"),
    [
        ("list_tasks", "query"),
        ("post_message", "from"),
        ("submit_result", "agent"),
    ],
)
async def test_what_is_not_built_yet_is_unknown_and_not_ignored(table: Table, tool: str, argument: str):
    await refused(table, tool, {**REQUIRED.get(tool, {}), argument: 60}, "invalid")


@pytest.mark.spec("ERR-4")
async def test_an_unknown_argument_is_echoed_up_to_a_hundred_characters(table: Table):
    long = "ß" * 5_000
    message = (await refused(table, "whoami", {long: 1}, "invalid")).error["message"]
    assert 0 < message.count("ß") <= 100
    many = {f"name{number}": 1 for number in range(500)}
    assert len((await refused(table, "whoami", many, "invalid")).error["message"]) < 300


@pytest.mark.spec("LIMIT-1")
@pytest.mark.parametrize(("tool", "name"), TEXTS)
async def test_a_text_of_just_its_limit_is_taken_and_one_more_is_too_large(
    table: Table, tool: str, name: str
):
    _, limit = PARAMETERS[tool][name]
    await prepared(table, tool)
    # a character outside the BMP is one character, though two units in UTF-16 and four bytes in UTF-8
    at_limit = await caller(table, tool).call(tool, {**REQUIRED.get(tool, {}), name: "😀" * limit})
    answer = await refused(table, tool, {**REQUIRED.get(tool, {}), name: "😀" * (limit + 1)}, "too_large")
    assert str(limit) in answer.error["message"].replace(",", "")
    assert str(limit + 1) in answer.error["message"].replace(",", "")
    # nobody is called that, and no such cursor was given out: refused, but for what it says and not for its length
    if name == "assignee" and tool in LEADERS:
        assert at_limit.code == "not_found"
        assert at_limit.error["message"].count("😀") <= 100
    elif name in {"cursor", "message_cursor"}:
        assert at_limit.code == "invalid"
        assert "cursor" in at_limit.error["message"]
    elif name == "claim_id":
        assert at_limit.code == "stale_claim"
    else:
        assert at_limit.code is None, at_limit.text[:300]


@pytest.mark.spec("LIMIT-1")
async def test_what_is_taken_is_taken_whole(table: Table):
    texts = {"title": "t" * 200, "description": "d" * 8_000, "acceptance_criteria": "a" * 4_000}
    await table.lead.did("create_task", **texts)
    task = (await table.lead.did("get_task", task_id=1))["task"]
    assert {name: task[name] for name in texts} == texts
    await table.anna.did("claim_task", task_id=1)
    await table.anna.did("post_message", task_id=1, body="m" * 4_000)
    await table.anna.did("submit_result", task_id=1, result="r" * 20_000)
    await table.lead.did("review_task", task_id=1, verdict="reject", note="n" * 4_000)
    whole = await table.lead.did("get_task", task_id=1)
    assert whole["messages"][0]["body"] == "m" * 4_000
    assert whole["reviews"][0]["result"] == "r" * 20_000
    assert whole["reviews"][0]["note"] == "n" * 4_000


@pytest.mark.spec("LIMIT-1")
async def test_fifty_dependencies_are_taken_and_fifty_one_are_too_large(table: Table):
    ids = [await table.task(f"Task {number}") for number in range(51)]
    assert await table.task("Last", depends_on=ids[:50])
    answer = await refused(table, "create_task", {**REQUIRED["create_task"], "depends_on": ids}, "too_large")
    assert "51" in answer.error["message"]
    assert "50" in answer.error["message"]


@pytest.mark.spec("LIMIT-1")
async def test_a_list_that_is_too_long_is_refused_before_its_entries_are_looked_at(table: Table):
    # or a body of a mebibyte would keep everybody waiting while half a million entries are checked
    await refused(table, "create_task", {**REQUIRED["create_task"], "depends_on": ["x"] * 51}, "too_large")


@pytest.mark.spec("LIMIT-1")
@pytest.mark.parametrize(
    ("tool", "name"), [(tool, name) for tool, name in EVERY if type(PARAMETERS[tool][name][0]) is int]
)
async def test_a_number_at_either_bound_is_taken_and_beyond_it_is_invalid(table: Table, tool: str, name: str):
    smallest, largest = PARAMETERS[tool][name]
    for value in (smallest, largest):
        await prepared(table, tool)
        answer = await caller(table, tool).call(tool, {**REQUIRED.get(tool, {}), name: value})
        assert answer.code is None, answer.text
    for value in (smallest - 1, largest + 1):
        answer = await refused(table, tool, {**REQUIRED.get(tool, {}), name: value}, "invalid")
        assert str(smallest) in answer.error["message"]
        assert str(largest) in answer.error["message"]


@pytest.mark.spec("LIMIT-2")
async def test_line_ends_become_lf_before_anything_is_counted(table: Table):
    await table.lead.did("create_task", title="t" + "\r\n" * 199, description="a\r\nb\rc\n\rd")
    task = (await table.lead.did("get_task", task_id=1))["task"]
    assert task["title"] == "t" + "\n" * 199
    assert task["description"] == "a\nb\nc\n\nd"
    await refused(table, "create_task", {"title": "\r\n" * 201, "description": "d"}, "too_large")


REFUSED_CHARACTERS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]
for taken in "\t\n\r":
    REFUSED_CHARACTERS.remove(taken)


@pytest.mark.spec("LIMIT-3")
@pytest.mark.parametrize(("tool", "name"), TEXTS)
async def test_control_characters_are_refused_in_every_text(table: Table, tool: str, name: str):
    for char in ("\x00", "\x1b", "\x7f", "\x85", "\x9f"):
        answer = await refused(table, tool, {**REQUIRED.get(tool, {}), name: f"a{char}b"}, "invalid")
        assert answer.error["message"].startswith(name)
        assert char not in answer.error["message"]
        assert f"U+{ord(char):04X}" in answer.error["message"]


@pytest.mark.spec("LIMIT-3")
async def test_every_control_character_but_tab_and_line_ends_is_refused_and_every_other_character_taken(
    table: Table,
):
    for char in REFUSED_CHARACTERS:
        await refused(table, "create_task", {"title": "t", "description": f"a{char}b"}, "invalid")
    taken = "\ttab \u2028 \u2029 \u200b \ufeff \ufffe \uffff \U0010ffff 😀 é e\u0301 \u202e עברית"
    await table.lead.did("create_task", title="t", description=taken)
    assert (await table.lead.did("get_task", task_id=1))["task"]["description"] == taken


@pytest.mark.spec("LIMIT-3", "HTTP-13")
@pytest.mark.parametrize("escape", [rb"\ud800", rb"\udfff", rb"\ude00\ud83d", rb"x\udc80"])
async def test_an_unpaired_surrogate_is_refused_on_either_road(table: Table, generation: str, escape: bytes):
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_task",'
        b'"arguments":{"title":"a%b","description":"d"},"_meta":%b}}'
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": generation}
    if generation == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "create_task"}
    response = await table.lead.post(body % (escape, json.dumps(meta).encode()), headers)
    if response.status_code != 400:
        assert response.status_code == 200
        answer = Answer("create_task", message_in(response)["result"])
        assert answer.faults() == []
        assert answer.code == "invalid"
    assert table.rows("SELECT count(*) FROM tasks") == [(0,)]


@pytest.mark.spec("LIMIT-3", "HTTP-9")
async def test_a_paired_surrogate_is_one_character(table: Table):
    body = (
        rb'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_task",'
        rb'"arguments":{"title":"\ud83d\ude00","description":"d"}}}'
    )
    response = await table.lead.post(body)
    assert response.status_code == 200
    assert (await table.lead.did("get_task", task_id=1))["task"]["title"] == "😀"


@pytest.mark.spec("TOOL-6")
async def test_no_arguments_and_null_arguments_are_empty_arguments(table: Table, generation: str):
    assert (await table.anna.call("whoami", generation=generation)).code is None
    status, message = await table.anna.request(
        "tools/call", {"name": "whoami", "arguments": None}, generation
    )
    # the newest generation has no null there, and says so in its own way
    assert "result" in message or message["error"]["code"] == -32602
    assert status in {200, 400}


@pytest.mark.spec("TOOL-23")
@pytest.mark.parametrize("result", ["", " ", "\n\t \n", "\u200b", "\u3164\u00a0", "\ufeff\u2060"])
async def test_a_result_in_which_nothing_can_be_seen_is_refused(table: Table, result: str):
    await prepared(table, "submit_result")
    answer = await table.anna.call("submit_result", task_id=1, result=result)
    assert answer.code == "invalid"
    assert (await table.anna.did("get_task", task_id=1))["task"]["status"] == "claimed"


@pytest.mark.spec("HTTP-7", "ERR-4")
@pytest.mark.parametrize(
    "value",
    [
        b"1e400",
        b"-1e400",
        b"NaN",
        b"Infinity",
        b"1" * 5_000,
        b"[" * 150 + b"]" * 150,
        b"[" * 5_000 + b"]" * 5_000,
        b'{"a":' * 150 + b"1" + b"}" * 150,
    ],
    ids=lambda value: value[:8].decode(),
)
async def test_no_value_makes_a_server_error(table: Table, generation: str, value: bytes):
    for name, arguments in (
        ("get_task", b'{"task_id":%b}'),
        ("create_task", b'{"title":"t","description":"d","depends_on":%b}'),
    ):
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b,"_meta":'
            b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
        ) % (name.encode(), arguments % value)
        headers = {"MCP-Protocol-Version": generation}
        if generation == MODERN:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
        response = await table.lead.post(body, headers)
        assert response.status_code in {200, 400}
        if response.status_code == 200:
            message = message_in(response)
            if "result" in message:
                answer = Answer(name, message["result"])
                assert answer.faults() == []
                assert answer.code in {"invalid", "too_large"}
            else:
                assert message["error"]["code"] in {-32700, -32600, -32602}, message
    assert (await table.lead.call("whoami")).code is None


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.spec("TOOL-7", "ERR-4")
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_the_arguments_are_they_make_a_command_or_a_refusal_in_our_own_words(
    tool: Tool, data: st.DataObject
):
    names = st.sampled_from([*tool.parameters, "unknown"])
    refusal = why_not(tool, data.draw(JSON_VALUES | st.dictionaries(names, JSON_VALUES, max_size=8)))
    if refusal is not None:
        assert refusal.code in {Code.INVALID, Code.TOO_LARGE}
        assert len(refusal.message) < 600
        assert refusal.message.isprintable()


def why_not(tool: Tool, arguments: object) -> BoardError | None:
    try:
        tool.parse(arguments)
    except BoardError as refusal:
        return refusal
    return None

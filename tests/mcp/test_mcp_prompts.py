"""The playbooks and the instructions: who gets which, and that they speak of what there is."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest
from mcp_table import MODERN, Table

from roundtable.rules import model, replies
from roundtable.rules.agents import Role
from roundtable.rules.errors import Code
from roundtable.tools.catalogue import BY_NAME, TOOLS
from roundtable.tools.playbooks import INSTRUCTIONS, INSTRUCTIONS_CHARS, PLAYBOOKS
from roundtable.tools.schemas import WARNING_FIELD

INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "tests", "version": "0"}}
OWN = {Role.LEADER: "lead", Role.WORKER: "work"}
TEXTS = {playbook.name: playbook for playbook in PLAYBOOKS}
WORDS = {
    *(
        member.value
        for kind in vars(model).values()
        if isinstance(kind, type) and issubclass(kind, StrEnum)
        for member in kind
    ),
    *(code.value for code in Code),
    *(name for shape in vars(replies).values() for name in getattr(shape, "__annotations__", ())),
    "retry_after_seconds",
    WARNING_FIELD,
}
"""What a playbook may name besides tools and their arguments."""


def named(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.spec("MCP-2")
async def test_each_role_sees_its_own_prompt(table: Table, generation: str):
    for seat in (table.lead, table.anna):
        own = OWN[seat.agent.role]
        _, message = await seat.request("prompts/list", {}, generation)
        (listed,) = message["result"]["prompts"]
        assert listed["name"] == own
        assert listed["description"]
        assert not listed.get("arguments")
        _, message = await seat.request("prompts/get", {"name": own}, generation)
        (said,) = message["result"]["messages"]
        assert said["role"] == "user"
        assert said["content"] == {"type": "text", "text": TEXTS[own].text}
    assert table.audit() == []


@pytest.mark.spec("MCP-2")
@pytest.mark.parametrize(
    "params", [{"name": "lead"}, {"name": "nope"}, {"name": ""}, {"name": "work", "arguments": {"a": "b"}}]
)
async def test_another_prompt_and_arguments_are_refused(table: Table, generation: str, params: dict):
    status, message = await table.anna.request("prompts/get", params, generation)
    assert status < 500
    assert message["error"]["code"] == -32602
    assert "work" in message["error"]["message"]


@pytest.mark.spec("MCP-2")
async def test_the_sdks_client_gets_its_prompt_in_either_generation(table: Table, generation: str):
    async with table.anna.sdk(generation) as client:
        assert [one.name for one in (await client.list_prompts()).prompts] == ["work"]
        assert (await client.get_prompt("work")).messages[0].content.text == TEXTS["work"].text


@pytest.mark.spec("MCP-2")
@pytest.mark.parametrize("name", ["lead", "work"])
def test_a_playbook_names_only_what_its_reader_has(name: str):
    playbook = TEXTS[name]
    tools = {tool.name for tool in TOOLS if playbook.role in tool.roles}
    arguments = {argument for tool in tools for argument in BY_NAME[tool].parameters}
    assert named(playbook.text) - tools - arguments - WORDS == set()
    assert len(named(playbook.text) & tools) >= 8
    # and no tool of the other role is hidden in a sentence
    others = {tool.name for tool in TOOLS} - tools
    assert [tool for tool in others if tool in playbook.text] == []


@pytest.mark.spec("MCP-2")
def test_a_playbook_is_complete_for_its_role():
    work, lead = TEXTS["work"].text, TEXTS["lead"].text
    for word in (
        "`claim_next` with `wait_seconds` 20",
        "`earlier`",
        "`renew_claim`",
        "help_request",
        "`submit_result`",
    ):
        assert word in work
    for word in (
        "`acceptance_criteria`",
        "`depends_on`",
        "`wait_for_updates`",
        "`review_task`",
        "of `kind` reply",
    ):
        assert word in lead
    assert {reason.value for reason in model.Attention} <= named(lead)
    for text in (work, lead):
        assert "written by other agents" in text
        assert "When your user says stop" in text
        assert len(text) < 5_000


@pytest.mark.spec("MCP-3")
async def test_the_instructions_are_short_and_speak_of_what_there_is(table: Table, generation: str):
    assert len(INSTRUCTIONS) < INSTRUCTIONS_CHARS
    arguments = {argument for tool in TOOLS for argument in tool.parameters}
    assert named(INSTRUCTIONS) - BY_NAME.keys() - arguments - TEXTS.keys() == set()
    method = "server/discover" if generation == MODERN else "initialize"
    params = {} if generation == MODERN else {"protocolVersion": generation, **INITIALIZE}
    _, message = await table.anna.request(method, params, generation)
    assert message["result"]["instructions"] == INSTRUCTIONS

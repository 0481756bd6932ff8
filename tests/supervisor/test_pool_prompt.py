"""What a model is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.prompt import INSTRUCTION, Brief, Dependency, Earlier, compose

BRIEF = Brief(
    task_id=7,
    title="Write a limerick",
    description="About a board.",
    acceptance_criteria="Five lines.",
    dependencies=(Dependency(3, "Find a\nrhyme", "bored"), Dependency(4, "Long", None, 30_000)),
    earlier=(Earlier("There was", "Too short."),),
)


@pytest.mark.spec("MODEL-1")
def test_the_fixed_instruction_comes_first_and_the_owners_prompt_is_added_to_it():
    bare, _ = compose(BRIEF, mark="m4rk")
    added, _ = compose(BRIEF, mark="m4rk", system_prompt="Write like a pirate.")
    assert bare["role"] == added["role"] == "system"
    assert bare["content"].startswith(INSTRUCTION)
    assert added["content"] == bare["content"] + "\n\nWrite like a pirate."
    assert "data" in INSTRUCTION
    assert "Do not obey" in INSTRUCTION


@pytest.mark.spec("MODEL-2")
def test_everything_that_others_wrote_stands_inside_the_fence_with_the_criteria_last():
    _, user = compose(BRIEF, mark="m4rk")
    opening, body, closing = (
        user["content"].partition("----- m4rk BEGIN -----\n")[1],
        *user["content"].partition("\n----- m4rk END -----")[::2],
    )
    assert user["content"].startswith(opening)
    for text in (
        "Write a limerick",
        "About a board.",
        "Find a rhyme",
        "bored",
        "30000 characters",
        "There was",
        "Too short.",
        "Five lines.",
    ):
        assert text in body
        assert text not in closing
    assert (
        body.index("bored") < body.index("There was") < body.index("Too short.") < body.index("Five lines.")
    )
    assert body.endswith("Five lines.")


@pytest.mark.spec("MODEL-2")
@given(st.text(alphabet="-m4rk BEGIND\n"), st.text())
def test_no_text_closes_the_fence_that_it_stands_in(title: str, description: str):
    mark = "8c1f00d5a9e6b7c2"
    if mark in title or mark in description:
        return
    _, user = compose(Brief(1, title, description), mark=mark)
    assert user["content"].count(mark) == 2


def test_a_brief_that_holds_the_mark_is_not_sent():
    with pytest.raises(ValueError, match="mark"):
        compose(Brief(1, "t", "knows m4rk"), mark="m4rk")


def test_a_task_with_nothing_but_a_title_has_no_empty_sections():
    _, user = compose(Brief(1, "Count to three"), mark="m4rk")
    assert user["content"].startswith(
        "----- m4rk BEGIN -----\nTASK\nCount to three\n----- m4rk END -----\n\n"
    )

"""The quick look at an argument and the schema that callers see never disagree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roundtable.tools.catalogue import TOOLS

PARAMETERS = {f"{tool.name}.{name}": each for tool in TOOLS for name, each in tool.parameters.items()}
WORDS = sorted({word for each in PARAMETERS.values() for word in each.schema.get("enum", ())})
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-110, 110),
    st.floats(),
    st.text(max_size=5),
    st.builds(lambda chars: "x" * chars, st.sampled_from([99, 100, 101, 200, 201, 4_000, 4_001, 20_001])),
    st.sampled_from(WORDS),
    st.lists(st.integers(0, 5), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(st.sampled_from(sorted(PARAMETERS)), VALUES)
def test_what_surely_fits_holds_against_the_schema(name: str, value: object):
    parameter = PARAMETERS[name]
    if parameter.surely_fits(value):
        assert Draft202012Validator(parameter.schema).is_valid(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("create_task.title", "T"),
        ("create_task.priority", -100),
        ("review_task.verdict", "accept"),
        ("release_task.failed", True),
    ],
)
def test_plain_values_need_no_look_at_the_schema(name: str, value: object):
    assert PARAMETERS[name].surely_fits(value)

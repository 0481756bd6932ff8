"""SPEC.md and the tests agree: every requirement that holds is shown, and nothing else is cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from spec_document import ROOT, Spec, cited_by, parse, test_sources

SPEC_TEXT = (ROOT / "SPEC.md").read_text(encoding="utf-8")


def disagreements(spec: Spec, cited: Mapping[str, Sequence[str]]) -> list[str]:
    """What a reader of SPEC.md would be told wrongly, one line each."""
    shown = set(cited)
    unshown = [name for name in spec.built if name not in shown]
    lines = list(spec.faults)
    if unshown:
        lines.append(f"{len(unshown)} of {len(spec.built)} requirements have no test: {', '.join(unshown)}")
    lines += [
        f"{name} is no requirement of SPEC.md; cited in {', '.join(cited[name])}"
        for name in sorted(shown.difference(spec.built, spec.not_yet))
    ]
    lines += [
        f"{name} stands under 'Not yet' and is cited as shown in {', '.join(cited[name])}"
        for name in sorted(shown.intersection(spec.not_yet).difference(spec.built))
    ]
    return lines


def test_every_requirement_has_a_test_and_every_citation_a_requirement() -> None:
    found = disagreements(parse(SPEC_TEXT), cited_by(test_sources()))
    assert not found, "\n" + "\n".join(found)


SMALL = "## Doors\n- **DOOR-1** A.\n- **DOOR-2** B.\n## Not yet\n- **DOOR-3** C.\n"


def test_a_document_whose_requirements_are_all_cited_has_no_disagreement() -> None:
    cited = cited_by([("test_a.py", "@pytest.mark.spec('DOOR-1', 'DOOR-2')\ndef test_a(): ...\n")])
    assert disagreements(parse(SMALL), cited) == []


def test_a_requirement_without_a_test_is_named() -> None:
    found = disagreements(parse(SMALL), {"DOOR-1": ["test_a.py:1"]})
    assert found == ["1 of 2 requirements have no test: DOOR-2"]


def test_a_citation_of_an_unknown_requirement_is_named_with_its_place() -> None:
    cited = {"DOOR-1": ["a:1"], "DOOR-2": ["a:2"], "DOOR-9": ["a:3"]}
    assert disagreements(parse(SMALL), cited) == ["DOOR-9 is no requirement of SPEC.md; cited in a:3"]


def test_a_citation_of_what_is_not_built_is_named() -> None:
    cited = {"DOOR-1": ["a:1"], "DOOR-2": ["a:2"], "DOOR-3": ["a:3"]}
    assert disagreements(parse(SMALL), cited) == [
        "DOOR-3 stands under 'Not yet' and is cited as shown in a:3"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SMALL + "- **DOOR-1** again.\n", "DOOR-1 stands there 2 times"),
        (SMALL + "## More\n", "line 6: the section 'Not yet' has to be the last"),
        (SMALL + "- **Door 4** D.\n", "line 6: no requirement id where one is expected: - **Door 4** D."),
        (SMALL + "as DOOR-7 says\n", "DOOR-7 is mentioned and is no requirement"),
    ],
)
def test_a_fault_of_the_document_itself_is_named(text: str, fault: str) -> None:
    assert parse(text).faults == (fault,)


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.spec('A-1')\ndef test_a(): ...\n",
        "@pytest.mark.spec('A-1')\nclass TestA: ...\n",
        "pytestmark = [pytest.mark.spec('A-1')]\n",
        "CASES = [pytest.param(1, marks=pytest.mark.spec('A-1'))]\n",
        "from pytest import mark\n@mark.spec('A-1')\nasync def test_a(): ...\n",
    ],
)
def test_a_citation_is_found_wherever_it_stands(source: str) -> None:
    assert list(cited_by([("test_a.py", source)])) == ["A-1"]


@pytest.mark.parametrize("arguments", ["", "ID", "f'A-{n}'", "ids='A-1'", "*IDS"])
def test_a_citation_that_cannot_be_read_off_is_refused(arguments: str) -> None:
    with pytest.raises(ValueError, match=r"test_a\.py:1: a citation"):
        cited_by([("test_a.py", f"pytestmark = pytest.mark.spec({arguments})\n")])

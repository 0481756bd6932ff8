"""What every file of the project keeps to, whoever wrote it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from spec_document import ROOT

# Put together from parts, so that this file passes its own check.
_REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("anaconda", "org"),
    )
)
_INDEX_OPTION = re.compile(r"(?i)index[-_]url\s*[=:]?\s*\S|find[-]links")
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home/[a-z]\w*|Users/[A-Za-z]\w*)/")

_DECISION_NAME = re.compile(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md")
_DECISION_HEADINGS = ["Context", "Choice", "Consequence"]


def what_ties_it_to_a_place(text: str) -> Iterator[str]:
    """What in a text holds only on one machine or only beside one package registry, with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from (
            f"line {number}: registry host {host}" for host in _REGISTRY_HOSTS if host in line.lower()
        )
        option = _INDEX_OPTION.search(line)
        if option:
            yield f"line {number}: a package index is chosen: {option[0]}"
        path = _MACHINE_PATH.search(line)
        if path:
            yield f"line {number}: path of one machine: {path[0]}"


def files_of_the_project() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("which files belong to the project is known in a git checkout only")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.spec("ARCH-6")
def test_no_file_is_tied_to_a_registry_or_to_one_machine() -> None:
    found = []
    for path in files_of_the_project():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture says nothing of the kind
        found += [f"{path.relative_to(ROOT)}, {fault}" for fault in what_ties_it_to_a_place(text)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "see https://" + _REGISTRY_HOSTS[0] + "/project/trio",
        "pip install --index" + "-url http://mirror trio",
        "PIP_INDEX" + "_URL=http://mirror",
        "cd " + "/".join(["", "home", "ada", "roundtable"]),
        "cd " + "/".join(["", "root", "x"]),
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert len(list(what_ties_it_to_a_place(f"fine\n{line}\n"))) == 1


@pytest.mark.parametrize(
    "line",
    ["pip install roundtable", "a/work/b", "https://example.org/home/x/", "the path /var/lib/roundtable"],
)
def test_a_harmless_line_is_not(line: str) -> None:
    assert list(what_ties_it_to_a_place(line)) == []


def headings(page: str) -> list[str]:
    return re.findall(r"(?m)^## (.+?)\s*$", page)


@pytest.mark.spec("ARCH-6")
def test_every_decision_page_has_context_choice_and_consequence() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*"))
    assert pages
    wrong = [
        f"{page.name}: headings {headings(page.read_text(encoding='utf-8'))}"
        for page in pages
        if not _DECISION_NAME.fullmatch(page.name)
        or headings(page.read_text(encoding="utf-8")) != _DECISION_HEADINGS
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_two_decisions_have_the_same_number() -> None:
    numbers = [page.name[:4] for page in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(set(numbers)) == len(numbers), sorted(numbers)


@pytest.mark.spec("ARCH-7")
def test_the_top_level_is_the_one_that_was_agreed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    directories = {path.name for path in ROOT.iterdir() if path.is_dir()}
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert {"roundtable", "supervisor", "tests", "config", "docs"} - directories == set()
    agreed = (
        "pyproject.toml agents.example.json README.md SPEC.md LICENSE CHANGELOG.md .env.example .gitignore"
    )
    assert set(agreed.split()) - files == set()
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert project["requires-python"] == ">=3.11,<3.15"
    told = "Programming Language :: Python :: "
    versions = [line.removeprefix(told) for line in project["classifiers"] if line.startswith(told)]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [version for version in versions if not re.search(rf"\b{re.escape(version)}\.\d", readme)] == []

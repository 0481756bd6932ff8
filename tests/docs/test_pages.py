"""What the pages and the files for deployment name is there."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from spec_document import ROOT

from roundtable.cli.connecting import CLIENTS, way_for
from roundtable.cli.main import COMMANDS
from roundtable.config.settings import OTHER_PROGRAMS_NAMES, VARIABLES
from roundtable.rules.limits import BODY_BYTES, WAIT_SECONDS_MAX
from roundtable.web.limits import UNKNOWN_IDLE_SECONDS
from supervisor.config.roster import Roster

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = [path for path in sorted((ROOT / "config").iterdir()) if path.is_file()]

_VARIABLE = re.compile(r"\bROUNDTABLE_[A-Z_]+\b")
_COMMAND = re.compile(r"(?:`|\bbin/|^|\$ |roundtable )roundtable ([a-z]+)\b", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


def every_text() -> Iterator[tuple[Path, str]]:
    for path in [*PAGES, *FILES]:
        yield path, path.read_text(encoding="utf-8")


@pytest.mark.spec("ARCH-8")
def test_the_folders_and_pages_that_were_agreed_are_there() -> None:
    assert (ROOT / "benchmarks").is_dir()
    assert {page.name for page in PAGES} >= {"CONNECT.md", "DEPLOY.md", "DEMO.md"}


def test_every_variable_that_is_named_is_a_setting() -> None:
    known = {*VARIABLES, *OTHER_PROGRAMS_NAMES}
    unknown = [
        (path.name, name)
        for path, text in every_text()
        for name in _VARIABLE.findall(text)
        if name not in known
    ]
    assert unknown == []


def test_every_command_that_is_named_is_one() -> None:
    named = [(path.name, name) for path, text in every_text() for name in _COMMAND.findall(text)]
    assert len(named) > 20
    assert [pair for pair in named if pair[1] not in COMMANDS] == []


def test_the_readme_has_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`{name}" not in text and f"roundtable {name}" not in text] == []


def test_every_link_leads_to_a_file() -> None:
    broken = [
        (path.name, target)
        for path in PAGES
        for target in _LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("client", [client for client in CLIENTS if client not in {"opencode", "json"}])
def test_the_page_about_apps_has_the_command_that_connect_prints(client: str) -> None:
    text = (ROOT / "docs" / "CONNECT.md").read_text(encoding="utf-8")
    assert f"\n{way_for(client, 'http://127.0.0.1:8000/mcp', None).text}\n" in text


def test_the_service_is_given_the_time_that_a_stop_takes_and_reloads() -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(ROOT / "config" / "roundtable.service")
    service = unit["Service"]
    assert float(service["TimeoutStopSec"]) >= Roster(()).grace_seconds + 10
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    assert service["RestartPreventExitStatus"] == "2"


def test_the_proxies_outlast_a_wait_and_let_go_of_a_connection_before_the_board_does() -> None:
    nginx = (ROOT / "config" / "nginx.conf").read_text(encoding="utf-8")
    caddy = (ROOT / "config" / "Caddyfile").read_text(encoding="utf-8")
    for text, patience, silence in (
        (nginx, "proxy_read_timeout", "keepalive_timeout"),
        (caddy, "response_header_timeout", "keepalive"),
    ):
        assert _seconds(text, patience) > 2 * WAIT_SECONDS_MAX
        assert _seconds(text, silence) < UNKNOWN_IDLE_SECONDS
    assert f"client_max_body_size {BODY_BYTES >> 20}m;" in nginx


def _seconds(text: str, setting: str) -> int:
    [value] = re.findall(rf"^\s*{setting} (\d+)s;?$", text, re.MULTILINE)
    return int(value)


def test_the_image_is_built_from_files_that_are_there() -> None:
    text = (ROOT / "config" / "Dockerfile").read_text(encoding="utf-8")
    sources = [
        source
        for line in text.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    # what the wheel holds by a link is not in it unless its target is copied too
    links = [path for path in (ROOT / "roundtable").rglob("*") if path.is_symlink()]
    assert {str(link.resolve().relative_to(ROOT)) for link in links} <= set(sources)

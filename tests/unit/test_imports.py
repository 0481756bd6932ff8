"""The packages are rings, and imports point inward only.

The sources are read, never imported, so an import inside a function or under TYPE_CHECKING counts like any other.
Every check is a function from {module name: source} to the faults it finds, and each is shown to find its own.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Sources = Mapping[str, str]
Check = Callable[[Sources], Iterator[str]]

RINGS = {"rules": 0, "store": 1, "board": 2, "tools": 3, "web": 3, "config": 3, "cli": 4}
LINES_MAX = 350

PURE = frozenset(
    [
        "__future__",
        "abc",
        "base64",
        "bisect",
        "collections",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "typing_extensions",
        "unicodedata",
    ]
)
"""What the rules may import from outside: nothing here reads a file, a clock or a random number."""

NOT_CALLED_IN_RULES = frozenset(
    ["open", "print", "input", "exec", "eval", "__import__", "datetime.now", "datetime.utcnow", "date.today"]
)
NOT_IN_STORE = frozenset(
    ["trio", "anyio", "asyncio", "mcp", "hypercorn", "h11", "httpx", "httpx2", "openai", "click", "rich"]
)
NOT_IN_BOARD = NOT_IN_STORE - {"trio"}
NOT_IN_TOOLS = frozenset(["os", "io", "pathlib", "shutil", "tempfile", "glob", "socket"])
OUTBOUND = frozenset(
    [
        "httpx",
        "httpx2",
        "openai",
        "requests",
        "aiohttp",
        "urllib.request",
        "http.client",
        "ftplib",
        "smtplib",
        "subprocess",
        "mcp.client",
        "socket.create_connection",
    ]
)
OUTBOUND_NAMES = frozenset(
    [
        "open_tcp_stream",
        "open_ssl_over_tcp_stream",
        "open_unix_socket",
        "run_process",
        "open_process",
        "create_connection",
    ]
)


def project() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in ("roundtable", "supervisor"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path.read_text(encoding="utf-8")
    return found


def imports(module: str, sources: Sources) -> Iterator[str]:
    """All that this module imports, in full: modules of ours, and names of others' (`trio.Event`)."""
    is_package = any(other.startswith(f"{module}.") for other in sources)
    for node in ast.walk(ast.parse(sources[module], module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level + is_package or None] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{start}.{alias.name}"
                yield inner if inner in sources or not _is_ours(start) else start


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in {"roundtable", "supervisor"}


def _is_within(name: str, modules: frozenset[str]) -> bool:
    """Whether the name is one of the modules or lies inside one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _ring(name: str) -> str | None:
    """The ring of a module of ours; None for `roundtable` itself and for what is no part of it."""
    top, _, rest = name.partition(".")
    return rest.partition(".")[0] or None if top == "roundtable" else None


def _in_rings(sources: Sources, *rings: str) -> Iterator[tuple[str, str]]:
    """(module, import) pairs of the modules of these rings; of all rings but cli if none is named."""
    for module in sources:
        wanted = (
            _ring(module) in rings if rings else module.startswith("roundtable") and _ring(module) != "cli"
        )
        if wanted:
            yield from ((module, name) for name in imports(module, sources))


def outward(sources: Sources) -> Iterator[str]:
    for module in sources:
        ring = _ring(module)
        if ring is not None and ring not in {*RINGS, "__main__"}:
            yield f"{module} is in no ring"
            continue
        for name in imports(module, sources):
            other = _ring(name)
            if ring in RINGS and other in RINGS and RINGS[other] > RINGS[ring]:
                yield f"{module} imports {name}, which is further out"
            if module == "roundtable" and other is not None:
                yield f"{module} imports {name}: the package itself belongs to no ring"


def impure(sources: Sources) -> Iterator[str]:
    for module, name in _in_rings(sources, "rules"):
        if not name.startswith("roundtable.rules") and name.partition(".")[0] not in PURE:
            yield f"{module} imports {name}, which is not pure"
    for module in (module for module in sources if _ring(module) == "rules"):
        for node in ast.walk(ast.parse(sources[module])):
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
                yield f"{module}:{node.lineno} is async"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.removeprefix("datetime.") in NOT_CALLED_IN_RULES or called in NOT_CALLED_IN_RULES:
                    yield f"{module}:{node.lineno} calls {called}"


def wrong_libraries(sources: Sources) -> Iterator[str]:
    for ring, banned in (("store", NOT_IN_STORE), ("board", NOT_IN_BOARD), ("tools", NOT_IN_TOOLS)):
        for module, name in _in_rings(sources, ring):
            if _is_within(name, banned):
                yield f"{module} imports {name}, which is not for the {ring}"


def sql_outside_the_store(sources: Sources) -> Iterator[str]:
    for module in sources:
        if module.startswith("roundtable") and _ring(module) != "store":
            for name in imports(module, sources):
                if _is_within(name, frozenset({"sqlite3"})):
                    yield f"{module} imports {name}: only the store speaks SQL"


def pool_and_server_mixed(sources: Sources) -> Iterator[str]:
    for module in sources:
        for name in imports(module, sources):
            if module.startswith("supervisor") and name.partition(".")[0] == "roundtable":
                yield f"{module} imports {name}: the pool knows the server over the wire only"
    for module, name in _in_rings(sources):
        if name.partition(".")[0] == "supervisor":
            yield f"{module} imports {name}: only cli knows the pool"


def outbound(sources: Sources) -> Iterator[str]:
    for module, name in _in_rings(sources):
        if _is_within(name, OUTBOUND) or name.rpartition(".")[2] in OUTBOUND_NAMES:
            yield f"{module} imports {name}, which goes out"
    for module in (m for m in sources if m.startswith("roundtable") and _ring(m) != "cli"):
        for node in ast.walk(ast.parse(sources[module])):
            if isinstance(node, ast.Attribute) and node.attr in OUTBOUND_NAMES:
                yield f"{module}:{node.lineno} uses {node.attr}, which goes out"


def circles(sources: Sources) -> Iterator[str]:
    """One circle at most: whoever breaks it sees the next."""
    graph = {module: {name for name in imports(module, sources) if name in sources} for module in sources}
    packages: dict[str, set[str]] = {ring: set() for ring in RINGS}
    for module, names in graph.items():
        ring = _ring(module)
        if ring in RINGS:
            packages[ring] |= {other for name in names if (other := _ring(name)) in RINGS and other != ring}
    for kind in (graph, packages):
        try:
            TopologicalSorter(kind).prepare()
        except CycleError as error:
            yield f"circle: {' <- '.join(error.args[1])}"


def too_long(sources: Sources) -> Iterator[str]:
    for module, source in sources.items():
        lines = len(source.splitlines())
        if lines > LINES_MAX:
            yield f"{module} has {lines} lines, more than {LINES_MAX}"


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(outward, marks=pytest.mark.spec("ARCH-1")),
        pytest.param(impure, marks=pytest.mark.spec("ARCH-1")),
        pytest.param(pool_and_server_mixed, marks=pytest.mark.spec("ARCH-2")),
        pytest.param(too_long, marks=pytest.mark.spec("ARCH-3")),
        pytest.param(circles, marks=pytest.mark.spec("ARCH-3")),
        pytest.param(sql_outside_the_store, marks=pytest.mark.spec("ARCH-4")),
        pytest.param(wrong_libraries, marks=pytest.mark.spec("ARCH-4", "ARCH-5")),
        pytest.param(outbound, marks=pytest.mark.spec("ARCH-5")),
    ],
)
def test_the_project_keeps_to_it(check: Check) -> None:
    sources = project()
    assert sources
    faults = sorted(set(check(sources)))
    assert not faults, "\n" + "\n".join(faults)


RULES = "roundtable.rules.a"

BROKEN: list[tuple[Check, dict[str, str]]] = [
    (outward, {RULES: "import roundtable.store.b", "roundtable.store.b": ""}),
    (outward, {"roundtable.store.a": "from roundtable.board import b", "roundtable.board.b": ""}),
    (outward, {"roundtable.store.a": "def f():\n    from ..tools import b", "roundtable.tools.b": ""}),
    (outward, {"roundtable.web.a": "from roundtable import cli", "roundtable.cli": ""}),
    (outward, {"roundtable.extras.a": ""}),
    (outward, {"roundtable": "from roundtable.rules import a", RULES: ""}),
    (impure, {RULES: "import time"}),
    (impure, {RULES: "from os import path"}),
    (impure, {RULES: "import trio"}),
    (impure, {RULES: "if TYPE_CHECKING:\n    import sqlite3"}),
    (impure, {RULES: "async def f(): ..."}),
    (impure, {RULES: "def f():\n    return open('x')"}),
    (impure, {RULES: "from datetime import UTC, datetime\nSTART = datetime.now(UTC)"}),
    (impure, {RULES: "import datetime\nSTART = datetime.date.today()"}),
    (wrong_libraries, {"roundtable.store.a": "import trio.lowlevel"}),
    (wrong_libraries, {"roundtable.store.a": "from mcp.types import Tool"}),
    (wrong_libraries, {"roundtable.board.a": "import hypercorn"}),
    (wrong_libraries, {"roundtable.tools.a": "from pathlib import Path"}),
    (sql_outside_the_store, {"roundtable.board.a": "import sqlite3"}),
    (sql_outside_the_store, {"roundtable.cli.a": "def f():\n    from sqlite3 import connect"}),
    (pool_and_server_mixed, {"supervisor.a": "from roundtable.rules import limits"}),
    (pool_and_server_mixed, {"roundtable.web.a": "import supervisor.pool"}),
    (outbound, {"roundtable.web.a": "import httpx"}),
    (outbound, {"roundtable.tools.a": "from urllib import request"}),
    (outbound, {"roundtable.board.a": "from trio import open_tcp_stream"}),
    (outbound, {"roundtable.web.a": "import trio\nasync def f():\n    await trio.open_tcp_stream('h', 1)"}),
    (circles, {RULES: "import roundtable.rules.b", "roundtable.rules.b": "from . import a"}),
    (
        circles,
        {
            "roundtable.web.a": "import roundtable.tools.b",
            "roundtable.tools.b": "",
            "roundtable.tools.c": "import roundtable.web.d",
            "roundtable.web.d": "",
        },
    ),
    (too_long, {RULES: "\n" * (LINES_MAX + 1)}),
]


@pytest.mark.parametrize(("check", "sources"), BROKEN)
def test_each_check_finds_its_fault(check: Check, sources: dict[str, str]) -> None:
    assert len(list(check(sources))) == 1


SOUND: list[tuple[Check, dict[str, str]]] = [
    (outward, {"roundtable.cli.a": "from roundtable.rules import b", "roundtable.rules.b": ""}),
    (outward, {"roundtable.store.a": "from .b import c\nfrom . import b", "roundtable.store.b": ""}),
    (impure, {RULES: "from dataclasses import dataclass\nfrom . import b", "roundtable.rules.b": ""}),
    (wrong_libraries, {"roundtable.board.a": "import trio"}),
    (sql_outside_the_store, {"roundtable.store.a": "import sqlite3", "supervisor.a": "import sqlite3"}),
    (pool_and_server_mixed, {"roundtable.cli.a": "import supervisor", "supervisor": ""}),
    (outbound, {"roundtable.cli.a": "import httpx2", "roundtable.web.a": "import urllib.parse"}),
    (circles, {RULES: "import roundtable.rules.b", "roundtable.rules.b": ""}),
    (too_long, {RULES: "\n" * LINES_MAX}),
]


@pytest.mark.parametrize(("check", "sources"), SOUND)
def test_no_check_finds_fault_with_what_is_allowed(check: Check, sources: dict[str, str]) -> None:
    assert list(check(sources)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from . import b", "roundtable.rules.b"),
        ("from .b import c", "roundtable.rules.b"),
        ("from ..store import d", "roundtable.store.d"),
        ("from roundtable.rules import NAME", "roundtable.rules"),
    ],
)
def test_relative_imports_are_resolved(source: str, found: str) -> None:
    sources = {RULES: source, "roundtable.rules.b": "", "roundtable.store.d": "", "roundtable.rules": ""}
    assert list(imports(RULES, sources)) == [found]


def test_relative_imports_in_a_package_start_at_the_package_itself() -> None:
    sources = {"roundtable.rules": "from . import b", "roundtable.rules.b": ""}
    assert list(imports("roundtable.rules", sources)) == ["roundtable.rules.b"]


def test_what_only_a_pool_needs_is_not_loaded_by_serve() -> None:
    script = "import sys, roundtable.cli.serve; print('openai' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"

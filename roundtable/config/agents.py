"""agents.json: who sits at the table, and the digest of the token each one shows.

House rule: no message of this module quotes anything of the file but short names and known words. A key of the object is
a token, and whoever swaps two places by mistake puts a token where a name belongs.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from roundtable.config.agent_entries import Entry, JsonObject, read_entry
from roundtable.config.errors import ConfigError, shown
from roundtable.config.files import FileText, UnreadableFileError, read_text
from roundtable.config.labels import directory_problems
from roundtable.config.limits import MAX_AGENTS
from roundtable.rules.agents import Agent, Role

_OTHERS_BITS = 0o066


@dataclass(frozen=True, slots=True)
class AgentsFile:
    """The agents by the SHA-256 of their tokens. `warnings` are sentences for the owner; they stop nothing."""

    agents: Mapping[bytes, Agent]
    warnings: tuple[str, ...] = ()


class AgentsError(ConfigError):
    """The agents cannot be used. `names` are those that could be read all the same."""

    def __init__(self, problems: Iterable[str], names: Iterable[str] = ()) -> None:
        super().__init__(problems)
        self.names = frozenset(names)


def load_agents(path: Path) -> AgentsFile:
    """The agents of the file.

    Raises AgentsError with one line for each problem, all at once, each with its place: the agent's number in the file,
    counted from 1, and its name where it is short enough to be no token.
    """
    name = shown(str(path))
    try:
        file = read_text(path)
    except FileNotFoundError:
        raise AgentsError([f"{name} is not there; `roundtable init` writes one"]) from None
    except UnreadableFileError as error:
        raise AgentsError([f"{name} {error}"]) from None
    return AgentsFile(parse_agents(file.text, name), tuple(_mode_warnings(path, file)))


def parse_agents(text: str, name: str) -> Mapping[bytes, Agent]:
    """The agents of a text, by the SHA-256 of their tokens. Raises AgentsError; each problem begins with this name."""
    entries, problems = _parse(text)
    agents = {entry.digest: entry.agent for entry in entries if entry.digest and entry.agent}
    problems = problems or directory_problems(agents.values())
    if problems:
        names = [entry.name for entry in entries if entry.name is not None]
        raise AgentsError((f"{name}: {problem}" for problem in problems), names)
    return MappingProxyType(agents)


def _parse(text: str) -> tuple[list[Entry], list[str]]:
    try:
        content = json.loads(text, object_pairs_hook=JsonObject, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return [], [f"line {error.lineno}, column {error.colno}: is not JSON ({error.msg.split(': ')[0]})"]
    except RecursionError:
        return [], ["is nested too deeply"]
    except ValueError:
        return [], [
            "holds a number that JSON or this program does not have (NaN, Infinity, thousands of digits)"
        ]
    if not isinstance(content, JsonObject):
        return [], ["must be an object from token to agent"]
    if len(content.pairs) > MAX_AGENTS:
        return [], [f"has {len(content.pairs)} agents; at most {MAX_AGENTS} are allowed"]
    entries = [read_entry(number, key, value) for number, (key, value) in enumerate(content.pairs, start=1)]
    problems = [problem for entry in entries for problem in entry.problems] + _problems_between(entries)
    return entries, problems


def _problems_between(entries: list[Entry]) -> list[str]:
    """What is wrong with entries that are right one by one."""
    problems = []
    for first, second in _pairs_of_same([entry.digest for entry in entries]):
        problems.append(f"agents {first} and {second} have the same token")
    for first, second in _pairs_of_same([entry.name for entry in entries]):
        problems.append(f"agents {first} and {second} have the same name")
    if all(entry.role for entry in entries):
        leaders = sum(entry.role is Role.LEADER for entry in entries)
        if leaders != 1:
            problems.append(f"must have exactly one agent with the role leader, not {leaders}")
    return problems


def _pairs_of_same(values: list[bytes | None] | list[str | None]) -> list[tuple[int, int]]:
    counts = Counter(values)
    first_at: dict[object, int] = {}
    pairs = []
    for number, value in enumerate(values, start=1):
        if value is not None and counts[value] > 1:
            first = first_at.setdefault(value, number)
            if first != number:
                pairs.append((first, number))
    return pairs


def _refuse_constant(_: str) -> object:
    raise ValueError("not a number of JSON")


def _mode_warnings(path: Path, file: FileText) -> list[str]:
    if not file.mode & _OTHERS_BITS:
        return []
    command = f"chmod 600 {shlex.quote(str(path))}" if str(path).isprintable() else "chmod 600"
    return [f"{shown(str(path))} can be read or changed by other users of this machine: {command}"]

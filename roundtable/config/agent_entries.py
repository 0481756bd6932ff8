"""One entry of agents.json: a token or its digest, and who shows it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from roundtable.config.errors import shown
from roundtable.config.labels import name_problem, skills_problems
from roundtable.config.limits import MAX_TOKEN_CHARS, MIN_TOKEN_CHARS
from roundtable.config.tokens import DIGEST_PREFIX, digest_of
from roundtable.rules.agents import Agent, Role

SAMPLE_TOKEN_PREFIX: Final = "replace-me"  # noqa: S105 - it is the mark of what is no token
SAMPLE_TOKENS: Final = (
    "replace-me-leader-0000000000000000",
    "replace-me-worker-1-00000000000000",
    "replace-me-worker-2-00000000000000",
)

_SAMPLE_DIGESTS = frozenset(digest_of(token) for token in SAMPLE_TOKENS)
_FIELDS = ("name", "role", "skills")
_DIGEST_KEY = re.compile(re.escape(DIGEST_PREFIX) + r"(?P<hex>[0-9a-fA-F]{64})\Z")
_PLAIN_TOKEN = re.compile(rf"[!-~]{{{MIN_TOKEN_CHARS},{MAX_TOKEN_CHARS}}}\Z")


class JsonObject:
    """A JSON object as it stands in the file: in order, with keys that are given twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs


@dataclass(slots=True)
class Entry:
    """What could be read of an entry; None where a problem says why not."""

    digest: bytes | None = None
    name: str | None = None
    role: Role | None = None
    skills: tuple[str, ...] | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def agent(self) -> Agent | None:
        if self.name is None or self.role is None or self.skills is None:
            return None
        return Agent(self.name, self.role, self.skills)


def is_plain_token(text: str) -> bool:
    """Whether it has the form of a token."""
    return _PLAIN_TOKEN.match(text) is not None


def read_entry(number: int, key: str, value: object) -> Entry:
    """The entry at this place. Its problems begin with the place; none quotes the key. Raises nothing."""
    entry = Entry()
    problems: list[str] = []
    entry.digest = _read_key(key, problems)
    if isinstance(value, JsonObject):
        _read_fields(value, entry, problems)
    else:
        problems.append("must be an object with name, role and skills")
    entry.problems = [f"{_place(number, entry.name)}: {problem}" for problem in problems]
    return entry


def _place(number: int, name: str | None) -> str:
    # A name that is as long as a token may be one, in the wrong place.
    return f"agent {number} ({shown(name)})" if name and len(name) < MIN_TOKEN_CHARS else f"agent {number}"


def _read_key(key: str, problems: list[str]) -> bytes | None:
    if key.startswith(DIGEST_PREFIX):
        parts = _DIGEST_KEY.match(key)
        if not parts:
            problems.append(
                f"{DIGEST_PREFIX} must be followed by the 64 hexadecimal digits of the token's SHA-256"
            )
            return None
        digest = bytes.fromhex(parts["hex"])
    elif _PLAIN_TOKEN.match(key):
        digest = digest_of(key)
    else:
        problems.append(
            f"its token must be {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} printable ASCII characters without spaces"
        )
        return None
    if digest in _SAMPLE_DIGESTS or key.startswith(SAMPLE_TOKEN_PREFIX):
        problems.append(
            "its token is that of the sample, which everybody knows; `roundtable init` makes real ones"
        )
        return None
    return digest


def _read_fields(value: JsonObject, entry: Entry, problems: list[str]) -> None:
    problems += _field_problems(value)
    fields = dict(value.pairs)
    if "name" in fields:
        name = fields["name"]
        problem = name_problem(name)
        if problem:
            problems.append(problem)
        elif isinstance(name, str):
            entry.name = name
    if "role" in fields:
        role = fields["role"]
        if role in ("leader", "worker"):
            entry.role = Role(str(role))
        else:
            problems.append("role must be leader or worker")
    skills = fields.get("skills", [])
    if not isinstance(skills, list):
        problems.append("skills must be a list of texts")
    elif found := skills_problems(skills):
        problems += found
    else:
        entry.skills = tuple(str(skill) for skill in skills)


def _field_problems(value: JsonObject) -> list[str]:
    counts = Counter(key for key, _ in value.pairs)
    problems = [f"{name} is given {counts[name]} times" for name in _FIELDS if counts[name] > 1]
    problems += [f"{name} is missing" for name in ("name", "role") if name not in counts]
    unknown = [(place, key) for place, (key, _) in enumerate(value.pairs, start=1) if key not in _FIELDS]
    if unknown:
        places = ", ".join(str(place) for place, _ in unknown[:10]) + (
            " and more" if len(unknown) > 10 else ""
        )
        meant = sorted(
            {near for _, key in unknown[:10] for near in difflib.get_close_matches(key[:20], _FIELDS)}
        )
        hint = f" (meant: {', '.join(meant)}?)" if meant else ""
        problems.append(f"has fields other than {', '.join(_FIELDS)}, by place in the object: {places}{hint}")
    return problems

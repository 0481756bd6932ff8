"""Which names and skills an agent may have, and how many of them fit on one board."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from roundtable.config.limits import (
    MAX_AGENTS,
    MAX_DIRECTORY_BYTES,
    MAX_SKILLS,
)
from roundtable.rules.agents import BOARD_NAME, Agent
from roundtable.rules.limits import NAME_CHARS


def name_problem(name: object) -> str | None:
    """What a name must be, if this is none."""
    if not isinstance(name, str) or not _is_label(name, NAME_CHARS):
        return f"name must be 1 to {NAME_CHARS} printable characters without spaces at its ends"
    if name.casefold() == BOARD_NAME:
        return f"the name {BOARD_NAME} is taken: the history calls the board itself by it"
    return None


def skills_problems(skills: Sequence[object]) -> list[str]:
    """What is wrong with a list of skills; empty if nothing is."""
    if len(skills) > MAX_SKILLS:
        return [f"has {len(skills)} skills; at most {MAX_SKILLS} are allowed"]
    problems = [
        f"skill {number} must be 1 to {NAME_CHARS} printable characters without spaces at its ends"
        for number, skill in enumerate(skills, start=1)
        if not isinstance(skill, str) or not _is_label(skill, NAME_CHARS)
    ]
    if not problems and len(set(skills)) != len(skills):
        problems.append("has the same skill twice")
    return problems


def directory_problems(agents: Collection[Agent]) -> list[str]:
    """Why a list of these agents would not fit into one reply; empty if it does."""
    if len(agents) > MAX_AGENTS:
        return [f"has {len(agents)} agents; at most {MAX_AGENTS} are allowed"]
    rows = [{"name": agent.name, "role": agent.role, "skills": agent.skills} for agent in agents]
    size = len(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_DIRECTORY_BYTES:
        return [f"names and skills take {size:,} bytes together; at most {MAX_DIRECTORY_BYTES:,} are allowed"]
    return []


def _is_label(text: str, longest: int) -> bool:
    return 1 <= len(text) <= longest and text.isprintable() and text == text.strip()

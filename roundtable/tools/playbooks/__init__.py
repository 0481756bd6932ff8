"""What Roundtable tells an app that was never told about it: two playbooks, and the server's instructions.

They are the Markdown files beside this one. They name tools and fields of today; a test holds them against the
catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Final

from roundtable.rules.agents import Role

INSTRUCTIONS_CHARS: Final = 1_000
"""Every session pays for them, asked for or not."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """A prompt by which a user puts an app to work in one line."""

    name: str
    role: Role
    title: str
    description: str
    text: str


def _read(name: str) -> str:
    return (resources.files(__name__) / f"{name}.md").read_text("utf-8").strip()


INSTRUCTIONS: Final = _read("instructions")

PLAYBOOKS: Final = (
    Playbook(
        "lead",
        Role.LEADER,
        "Lead the Roundtable board",
        "Plan tasks with criteria, wait for results, review each, answer calls for help.",
        _read("lead"),
    ),
    Playbook(
        "work",
        Role.WORKER,
        "Work on the Roundtable board",
        "Claim the next task, do it, submit it, and go on.",
        _read("work"),
    ),
)

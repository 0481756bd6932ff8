"""What the scripted leader of the demo wants, and when it is content. Tasks that a very small model can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SendBack:
    """The first result is sent back with this note, whatever it says; `word` shows whether the next one heeds it."""

    note: str
    word: str

    def is_heeded_by(self, result: str) -> bool:
        return self.word in result.lower()


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task. `after` are the places in the story, counted from 0, of the tasks that must be done first."""

    title: str
    description: str
    after: tuple[int, ...] = ()
    send_back: SendBack | None = None


def _describe(place: str, send_back: SendBack | None = None) -> PlannedTask:
    return PlannedTask(
        title=f"Describe the village {place}",
        description=f"Please write one friendly sentence that says what people can do in a village {place}.",
        send_back=send_back,
    )


STORY: Final = (
    _describe("library"),
    _describe("park"),
    _describe(
        "museum",
        SendBack(
            note="The sentence says nothing about children. Please say what children can do in the village museum.",
            word="child",
        ),
    ),
    PlannedTask(
        title="Describe the village",
        description="Please write two friendly sentences that say what people can do in the village.",
        after=(0, 1),
    ),
)
"""Four tasks: the last one builds on the results of the first two, the third one takes two rounds."""

"""What is wrong with the configuration, said to its owner."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN_CHARS = 100


class ConfigError(Exception):
    """The configuration cannot be used. `problems` has one line for each thing that is wrong, all at once.

    No line holds a token, a key, or a part of one.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def shown(value: str) -> str:
    """The value in quotes for one line on a terminal: at most 100 characters, each printable."""
    clipped = value[:_SHOWN_CHARS]
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in clipped
    )
    if len(printable) > _SHOWN_CHARS or len(value) > _SHOWN_CHARS:
        return f'"{printable[:_SHOWN_CHARS]}" (and more)'
    return f'"{printable}"'

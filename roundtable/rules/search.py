"""What a query asks for: plain words, and nothing in it is syntax."""

from __future__ import annotations

from roundtable.rules.errors import invalid


def words(query: str) -> tuple[str, ...]:
    """The different words of the query, each of which a task must have; what has no letter or digit is no word.

    Raises BoardError `invalid` for a query without any.
    """
    found = tuple(
        dict.fromkeys(word.lower() for word in query.split() if any(char.isalnum() for char in word))
    )
    if not found:
        raise invalid(
            "query holds no word. Words of letters or digits are accepted, of which a task has all."
        )
    return found

"""What a query asks for: plain words, and nothing in it is syntax."""

from __future__ import annotations


def words(query: str) -> tuple[str, ...]:
    """The different words of the query, each of which a task must have; what has no letter or digit is no word.

    A query without any asks for what no task has.
    """
    return tuple(dict.fromkeys(word.lower() for word in query.split() if any(map(str.isalnum, word))))

"""Cancel scopes that somebody else may end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


@contextmanager
def open_scope(scopes: set[trio.CancelScope], *, is_over: bool) -> Iterator[trio.CancelScope]:
    """A cancel scope that stands in the set while it is open; cancelled from the start if `is_over`."""
    with trio.CancelScope() as scope:
        if is_over:
            scope.cancel()
        scopes.add(scope)
        try:
            yield scope
        finally:
            scopes.discard(scope)

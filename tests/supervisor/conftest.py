"""What the tests of the pool share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from supervisor.memory.ledger import Ledger, open_ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """The pool's memory, for this test only."""
    with open_ledger(None, 0.0) as opened:
        yield opened

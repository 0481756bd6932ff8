from __future__ import annotations

import pytest
from scripted_store import Store


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "board.db")
    yield made
    made.close()

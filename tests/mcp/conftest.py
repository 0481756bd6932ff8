"""A laid table for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp_table import GENERATIONS, Table, laid_table

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # the SDK's client leaves an event stream as soon as it has its answer, and with it the generators that read it
    left_behind = pytest.mark.filterwarnings("ignore:Async generator 'httpx2:ResourceWarning")
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(left_behind)


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Table]:
    async with laid_table(tmp_path) as laid:
        yield laid


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> str:
    return request.param

"""The endurance scripts, each for a few seconds: so that they run when they are needed, and hold what they show."""

from __future__ import annotations

import pytest
import trio

from tests.endurance.kill_nine import kill_nine
from tests.endurance.race import race
from tests.endurance.sigterm import sigterm

PATIENCE_SECONDS = 100.0


@pytest.mark.parametrize(
    ("trial", "size"),
    [
        pytest.param(race, 5, marks=pytest.mark.spec("BOARD-1"), id="race"),
        pytest.param(kill_nine, 2, marks=pytest.mark.spec("STORE-5", "HIST-2", "AUDIT-2"), id="kill_nine"),
        pytest.param(sigterm, 2, marks=pytest.mark.spec("STOP-2", "SUP-6"), id="sigterm"),
    ],
)
async def test_a_short_run_holds(tmp_path, trial, size) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        report = await trial(tmp_path, 1, size)
    assert not report.violations, report.text()

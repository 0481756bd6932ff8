"""The endurance scripts, each for a few seconds: so that they run when they are needed, and hold what they show."""

from __future__ import annotations

from copy import deepcopy

import pytest
import trio

from tests.endurance.consistency import check
from tests.endurance.handover import handover
from tests.endurance.idle_pool import idle_pool
from tests.endurance.kill_nine import kill_nine
from tests.endurance.kill_pool import kill_pool
from tests.endurance.linearise import linearise, record
from tests.endurance.pool_storm import pool_storm
from tests.endurance.race import race
from tests.endurance.sigterm import sigterm

PATIENCE_SECONDS = 300.0
"""For a machine that is busy with something else; alone each takes some ten to twenty."""


@pytest.mark.parametrize(
    ("trial", "size"),
    [
        pytest.param(race, 5, marks=pytest.mark.spec("BOARD-1"), id="race"),
        pytest.param(kill_nine, 2, marks=pytest.mark.spec("STORE-5", "HIST-2", "AUDIT-2"), id="kill_nine"),
        pytest.param(
            linearise, 3, marks=pytest.mark.spec("BOARD-1", "STORE-5", "HIST-2", "AUDIT-2"), id="linearise"
        ),
        pytest.param(handover, 40, marks=pytest.mark.spec("CLAIM-9"), id="handover"),
        pytest.param(sigterm, 2, marks=pytest.mark.spec("STOP-2", "SUP-6"), id="sigterm"),
        pytest.param(
            pool_storm,
            12,
            marks=pytest.mark.spec("SUP-1", "POOL-12", "POOL-13", "POOL-21", "POOL-22"),
            id="pool_storm",
        ),
        pytest.param(
            kill_pool, 2, marks=pytest.mark.spec("POOL-8", "POOL-22", "POOL-23", "STORE-5"), id="kill_pool"
        ),
        pytest.param(idle_pool, 3, marks=pytest.mark.spec("POOL-7"), id="idle_pool"),
    ],
)
async def test_a_short_run_holds(tmp_path, trial, size) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        report = await trial(tmp_path, 1, size)
    assert not report.violations, report.text()


def _never_made(call, calls) -> None:
    calls.remove(call)


def _lost(call, calls) -> None:
    call.mark += " lost"


def _moved_by(seconds: float):
    def moved(call, calls) -> None:
        call.start, call.sent, call.end = call.start + seconds, call.sent + seconds, call.end + seconds

    return moved


def _refused(call, calls) -> None:
    call.reply, call.refused = None, "conflict"


def _told_other_status(call, calls) -> None:
    shown = call.reply.get("task", call.reply)
    shown["status"] = "cancelled" if shown["status"] != "cancelled" else "open"


def _other_claim(call, calls) -> None:
    call.reply["claim_id"] += "x"


TAMPERINGS = [
    ("create_task", _never_made),
    ("post_message", _lost),
    ("post_message", _moved_by(60)),
    ("post_message", _moved_by(-60)),
    ("post_message", _refused),
    ("review_task", _told_other_status),
    ("get_task", _told_other_status),
    ("claim_next", _other_claim),
]


def _given(recorded, tool) -> list:
    return [
        call for call in recorded.calls if call.tool == tool and call.reply and call.reply != {"task": None}
    ]


async def test_the_check_of_a_record_sees_when_it_does_not_fit_the_board(tmp_path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        for seconds in (5, 15, 45):  # on a busy machine the first may hold too few calls
            folder = tmp_path / str(seconds)
            folder.mkdir()
            recorded = await record(folder, 2, seconds)
            if all(_given(recorded, tool) for tool, _ in TAMPERINGS):
                break
    assert not check(recorded, folder / "roundtable.db").violations
    unseen = []
    for tool, tamper in TAMPERINGS:
        forged = deepcopy(recorded)
        given = _given(forged, tool)
        tamper(given[len(given) // 2], forged.calls)
        if not check(forged, folder / "roundtable.db").violations:
            unseen.append((tool, tamper.__name__))
    assert not unseen

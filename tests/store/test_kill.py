"""kill -9 in the middle of writing: what was acknowledged is there, nothing is half there, the next start needs no hand."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scripted_store import Store

from roundtable.store import audit

WRITER = Path(__file__).with_name("killed_writer.py")
ROUNDS = 10
CALLS_IN_BATCH = {"": 2, " done": 4, " held": 2, " end": 2}


def write_until_killed(path: Path, run: int, lines: int, more_bytes: int) -> list[dict]:
    """What the writer acknowledged, killed when it had written so many lines and so many bytes more."""
    child = subprocess.Popen([sys.executable, WRITER, path, str(run)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert json.loads(child.stdout.readline()) == "ready"
        read = [child.stdout.readline() for _ in range(lines)]
        read.append(child.stdout.read(more_bytes))
    finally:
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL
    whole_lines, _, _ = (b"".join(read) + rest).rpartition(b"\n")
    return [json.loads(line) for line in whole_lines.splitlines()]


def check(path: Path, acknowledged: list[dict]) -> None:
    store = Store(path)
    assert store.rows("PRAGMA integrity_check") == [("ok",)]
    assert store.rows("PRAGMA foreign_key_check") == []
    assert audit.first_break(store.executor.db) is None
    tasks = {row[0]: row[1:] for row in store.rows("SELECT task_id, title, status, result FROM tasks")}
    messages = set(store.rows("SELECT task_id, body FROM messages"))
    for told in acknowledged:
        for task_id in told.get("created", []):
            assert tasks[task_id][0] == told["title"]
        if "done" in told:
            assert tasks[told["done"]] == (told["title"], "done", told["title"] * 100)
            assert (told["done"], told["title"]) in messages
        if "held" in told:
            assert (told["held"], told["title"]) in messages
        if "cancelled" in told:
            assert tasks[told["cancelled"]][1] == "cancelled"
    # whole batches only: all calls of one have their rows, and with them their effect
    for tool, count in store.rows(
        "SELECT tool, count(*) FROM audit_log WHERE tool LIKE 'run %' GROUP BY tool"
    ):
        suffix = next((suffix for suffix in CALLS_IN_BATCH if suffix and tool.endswith(suffix)), "")
        assert count == CALLS_IN_BATCH[suffix], tool
    titles = Counter(title for title, _, _ in tasks.values())
    assert set(titles.values()) <= {2}
    assert store.rows("SELECT count(*) FROM audit_log WHERE tool LIKE 'run %' AND outcome <> 'ok'") == [(0,)]
    events = store.rows("SELECT count(*) FROM history WHERE event = 'created'")
    assert events == [(len(tasks),)]
    store.close()


@pytest.mark.spec("STORE-5", "STORE-2", "AUDIT-2")
def test_after_each_of_many_kills_every_acknowledged_write_is_there(tmp_path) -> None:
    path = tmp_path / "b.db"
    chance = random.Random(20261129)  # noqa: S311
    acknowledged: list[dict] = []
    for run in range(ROUNDS):
        acknowledged += write_until_killed(path, run, chance.randrange(40), chance.randrange(1, 60))
        check(path, acknowledged)
    assert len(acknowledged) > ROUNDS

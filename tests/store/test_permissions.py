"""The board's files are their owner's alone."""

from __future__ import annotations

import os
import stat

import pytest
from scripted_store import LEAD, Store

from roundtable.rules.commands import CreateTask
from roundtable.store.lock import OwnerLock


@pytest.mark.spec("CONF-10")
def test_all_files_of_a_board_are_created_for_their_owner_only(tmp_path) -> None:
    before = os.umask(0)
    try:
        with OwnerLock(tmp_path / "b.db"):
            store = Store(tmp_path / "b.db")
            store.ask(LEAD, CreateTask("T", "D"))
            modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
            store.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("b.db", "b.db-wal", "b.db-shm", "b.db.lock"), 0o600)

"""Copies of a board while it is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial

import pytest
from played_board import play
from scripted_store import LEAD, Store

from roundtable.rules import commands as c
from roundtable.store.backup import UnsoundError, back_up
from roundtable.store.errors import StoreError
from roundtable.store.portable import export_file, import_board
from roundtable.store.soundness import check_file


@pytest.mark.spec("CLI-15", "CONF-12")
def test_a_backup_of_an_open_board_is_the_board_and_a_board(tmp_path) -> None:
    store = play(tmp_path / "b.db")
    found = back_up(tmp_path / "b.db", tmp_path / "copy.db")
    assert found.head == store.executor.head
    store.ask(LEAD, c.CreateTask("later", "d"))  # the board goes on
    assert check_file(tmp_path / "copy.db") == found
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db", "b.db-shm", "b.db-wal", "copy.db"]
    store.close()
    again = Store(tmp_path / "copy.db")
    assert again.ask(LEAD, c.CreateTask("here too", "d"))["task_id"] == 6
    again.close()


@pytest.mark.spec("CLI-15")
def test_what_is_there_is_never_overwritten(tmp_path) -> None:
    play(tmp_path / "b.db").close()
    for name in ("file", "link"):
        target = tmp_path / name
        if name == "file":
            target.write_text("mine")
        else:
            target.symlink_to(tmp_path / "nowhere")
        with pytest.raises(StoreError, match="is there already"):
            back_up(tmp_path / "b.db", target)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(StoreError, match="is there already"):
        back_up(tmp_path / "b.db", tmp_path / "b.db")


@pytest.mark.spec("CLI-15", "CLI-18")
@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_what_a_killed_server_left_beside_a_file_that_is_gone_is_never_played_into_a_new_board(
    tmp_path, suffix
) -> None:
    store = play(tmp_path / "b.db")
    export_file(tmp_path / "b.db", tmp_path / "b.jsonl")
    store.ask(LEAD, c.CreateTask("of the board that is gone", "d"))
    left = tmp_path / f"new.db{suffix}"
    left.write_bytes((tmp_path / "b.db-wal").read_bytes())
    lines = (tmp_path / "b.jsonl").read_bytes().splitlines(keepends=True)
    for make in (partial(back_up, tmp_path / "b.db"), partial(import_board, lines)):
        with pytest.raises(StoreError, match=rf"new\.db{suffix} .*move it away"):
            make(tmp_path / "new.db")
        assert not (tmp_path / "new.db").exists()
    left.unlink()
    found = import_board(lines, tmp_path / "new.db")
    assert (check_file(tmp_path / "new.db"), found.tasks) == (found, 5)
    store.close()


@pytest.mark.spec("CLI-15")
def test_a_copy_that_is_not_sound_is_not_kept(tmp_path) -> None:
    play(tmp_path / "b.db").close()
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as db:
        db.execute("UPDATE tasks SET title = 'another' WHERE task_id = 4")
    with pytest.raises(UnsoundError, match="history gives another title of task 4"):
        back_up(tmp_path / "b.db", tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


@pytest.mark.spec("CLI-15")
def test_a_copy_that_cannot_be_made_leaves_nothing(tmp_path) -> None:
    play(tmp_path / "b.db").close()
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        back_up(tmp_path / "b.db", tmp_path / "missing" / "copy.db")
    with pytest.raises(StoreError, match="there is no board at"):
        back_up(tmp_path / "nowhere.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()

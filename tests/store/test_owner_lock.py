"""One owner process per file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roundtable.store.errors import StoreError
from roundtable.store.lock import OwnerLock, find_owner

HOLDER = Path(__file__).with_name("lock_holder.py")


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process holds it, and is killed at the end."""
    child = subprocess.Popen([sys.executable, HOLDER, path], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=30)


@pytest.mark.spec("STORE-4")
def test_a_second_owner_is_refused_and_told_who_holds_it(tmp_path) -> None:
    path = tmp_path / "b.db"
    with OwnerLock(path):
        with pytest.raises(StoreError, match=rf"b\.db is already served by process {os.getpid()} on "):
            OwnerLock(path)
        OwnerLock(tmp_path / "other.db").release()
    OwnerLock(path).release()


@pytest.mark.spec("STORE-4")
def test_the_lock_of_a_killed_process_is_gone_with_it(tmp_path) -> None:
    path = tmp_path / "b.db"
    with held(path) as child, pytest.raises(StoreError, match=f"process {child.pid} "):
        OwnerLock(path)
    OwnerLock(path).release()


def test_an_owner_of_another_container_is_not_taken_for_who_asks_and_has_the_same_number(tmp_path) -> None:
    path = tmp_path / "b.db"
    with held(path) as child:
        assert find_owner(path) == child.pid
        lock_file = tmp_path / "b.db.lock"
        lock_file.write_text(lock_file.read_text().replace(f" {child.pid} ", f" {os.getpid()} "))
        assert find_owner(path) is None


@pytest.mark.spec("STORE-4")
def test_another_way_to_the_same_file_is_the_same_lock(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "b.db"
    path.touch()
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder-link").symlink_to(folder)
    monkeypatch.chdir(folder)
    with OwnerLock(path):
        for other in (Path("b.db"), tmp_path / "link.db", tmp_path / "folder-link" / "b.db"):
            with pytest.raises(StoreError, match="already served"):
                OwnerLock(other)


def test_a_lock_that_cannot_be_made_is_refused_in_words(tmp_path) -> None:
    with pytest.raises(StoreError, match="cannot use the lock file"):
        OwnerLock(tmp_path / "missing" / "b.db")


@pytest.mark.spec("STORE-4")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere SQLite's own locks could meet it")
def test_neither_a_removed_lock_file_nor_a_second_name_lets_a_second_owner_in(tmp_path) -> None:
    path = tmp_path / "b.db"
    with held(path):
        (tmp_path / "b.db.lock").unlink()
        (tmp_path / "hard.db").hardlink_to(path)
        for other in (path, tmp_path / "hard.db"):
            with pytest.raises(StoreError, match="already served"):
                OwnerLock(other)
    OwnerLock(path).release()


def test_a_lock_file_that_is_a_link_or_holds_something_else_is_not_written_over(tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (tmp_path / "a.db.lock").symlink_to(precious)
    (tmp_path / "b.db.lock").write_text("mine too\n")
    with pytest.raises(StoreError, match="symbolic link"):
        OwnerLock(tmp_path / "a.db")
    with pytest.raises(StoreError, match="holds something else"):
        OwnerLock(tmp_path / "b.db")
    assert precious.read_text() == "mine\n"
    assert (tmp_path / "b.db.lock").read_text() == "mine too\n"

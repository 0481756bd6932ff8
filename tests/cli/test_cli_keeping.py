"""`roundtable backup | verify`, from the shell."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from cli_folder import run

from tests.store.played_board import play


@pytest.mark.spec("CLI-14", "CLI-8")
def test_verify_prints_the_head_of_the_chain_of_a_sound_board(folder):
    store = play(folder / "roundtable.db")
    head = store.executor.head
    result = run("verify")
    assert result.exit_code == 0
    assert f"Head of the audit chain: {head.audit_id} {head.sha256}" in result.stdout
    told = json.loads(run("verify", "roundtable.db", "--json").stdout)
    assert told["audit_head"] == {"audit_id": head.audit_id, "sha256": head.sha256}
    assert (told["sound"], told["faults"], told["tasks"]) == (True, [], 5)
    store.close()


@pytest.mark.spec("CLI-14", "CLI-2")
def test_verify_tells_each_fault_and_ends_with_1(folder):
    play(folder / "roundtable.db").close()
    with closing(sqlite3.connect(folder / "roundtable.db", isolation_level=None)) as db:
        db.execute("UPDATE tasks SET title = 'x', priority = 9 WHERE task_id = 4")
    result = run("verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "roundtable.db is damaged:",
        "history gives another title of task 4 than it has",
        "history gives another priority of task 4 than it has",
    ]
    result = run("verify", "--json")
    assert (result.exit_code, json.loads(result.stdout)["sound"]) == (1, False)
    assert run("backup", "copy.db").exit_code == 1
    assert not (folder / "copy.db").exists()


@pytest.mark.spec("CLI-15", "CONF-12", "CLI-2")
def test_a_backup_is_sound_private_and_in_nobodys_place(folder):
    play(folder / "roundtable.db").close()
    result = run("backup", "copy.db")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Wrote copy.db, and it is sound: 5 tasks, ")
    assert (folder / "copy.db").stat().st_mode & 0o777 == 0o600
    content = (folder / "copy.db").read_bytes()
    again = run("backup", "copy.db", "--json")
    assert (again.exit_code, again.stderr) == (2, "copy.db is there already, and is left as it is\n")
    assert (folder / "copy.db").read_bytes() == content
    assert run("verify", "copy.db", "--json").stdout == run("backup", "other.db", "--json").stdout.replace(
        "other.db", "copy.db"
    )


@pytest.mark.spec("CLI-18", "CLI-8")
def test_a_board_goes_out_as_lines_and_comes_in_whole(folder):
    store = play(folder / "roundtable.db")  # its server runs, so to say
    out = run("export")
    assert out.exit_code == 0, out.stderr
    result = run("export", "b.jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (folder / "b.jsonl").read_text() == out.stdout
    assert out.stdout.isascii()
    assert (folder / "b.jsonl").stat().st_mode & 0o777 == 0o600
    assert run("import", "b.jsonl").exit_code == 2  # the board that is there
    told = json.loads(run("import", "b.jsonl", "--into", "new.db", "--json").stdout)
    assert told == {**json.loads(run("verify", "--json").stdout), "path": "new.db"}
    piped = run("import", "-", "--into", "piped.db", input=out.stdout)
    assert (piped.exit_code, piped.stdout.startswith("Made piped.db, and it is sound: 5 tasks")) == (0, True)
    store.close()


@pytest.mark.spec("CLI-18", "CLI-2")
def test_what_cannot_be_taken_in_is_a_sentence(folder):
    for words, told in (
        (("missing.jsonl",), '"missing.jsonl" cannot be read: No such file'),
        ((".",), '"." cannot be read: Is a directory'),
        (("text",), '"text", line 1: is not JSON'),
    ):
        (folder / "text").write_text("\x1b[2J")
        result = run("import", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(told)
        assert result.stderr.count("\n") == 1
    assert not (folder / "roundtable.db").exists()
    assert run("export").exit_code == 2

"""`roundtable tasks | show`: what they read, and that they write nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from cli_folder import run, write_agents_file

from roundtable.rules import commands as c
from roundtable.rules.agents import Directory
from roundtable.store.errors import StoreError
from tests.store.played_board import play
from tests.store.scripted_store import LEAD, Store


@pytest.fixture
def board(folder):
    """A board that is open: its server runs, so to say."""
    store = play(folder / "roundtable.db")
    yield store
    store.close()


def ids(result) -> list[int]:
    assert result.exit_code == 0, result.stderr
    return [row["task_id"] for row in json.loads(result.stdout)["tasks"]]


@pytest.mark.spec("CLI-10", "CLI-8")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), [5, 4, 3, 2, 1]),
        (("--status", "open"), [4, 3]),
        (("--assignee", "bob"), [4, 1]),
        (("--skill", "python"), [3]),
        (("--attention",), [2]),
        (("--limit", "2"), [5, 4]),
        (("--status", "cancelled", "--attention"), []),
    ],
)
def test_tasks_are_listed_newest_first_and_filtered(board, words, found):
    assert ids(run("tasks", "--json", *words)) == found


@pytest.mark.spec("CLI-10")
def test_a_long_list_is_read_past_one_page(board):
    for number in range(150):
        board.ask(LEAD, c.CreateTask(f"task {number}", "d"))
    assert ids(run("tasks", "--json", "--limit", "140")) == list(range(155, 15, -1))
    assert ids(run("tasks", "--json", "--limit", "1000")) == list(range(155, 0, -1))


@pytest.mark.spec("CLI-10")
def test_elsewhere_than_on_a_terminal_a_task_is_a_line(board):
    lines = run("tasks").stdout.splitlines()
    assert [line.split("\t") for line in lines][3:] == [
        ["2", "claimed", "help_requested", "ann", "7", "two, anew"],
        ["1", "done", "", "bob", "3", "one ✓ 中"],
    ]
    assert run("tasks", "--status", "submitted").stdout == ""


@pytest.mark.spec("CLI-10", "CLI-8")
def test_everything_of_a_task_is_shown(board):
    shown = run("show", "1")
    for text in (
        "Task 1: one ✓ 中",
        'quotes " \\ and\n    lines',
        "how far? 🙂",
        "again",
        "first",
        "second",
        "bob",
    ):
        assert text in shown.stdout, text
    whole = json.loads(run("show", "1", "--json").stdout)
    assert whole["task"]["result"] == "second"
    assert [review["result"] for review in whole["reviews"]] == ["first", "second"]
    assert "claim_id" not in json.loads(run("show", "2", "--json").stdout)["task"]
    assert "lease_expires_at" in run("show", "2").stdout


@pytest.mark.spec("CLI-10")
def test_every_message_is_shown_however_many_there_are(board):
    for number in range(250):
        board.ask(LEAD, c.PostMessage(2, f"message {number}"))
    bodies = [message["body"] for message in json.loads(run("show", "2", "--json").stdout)["messages"]]
    assert bodies == ["help", *(f"message {number}" for number in range(250))]


def test_why_a_task_cannot_be_claimed_is_said_only_where_it_is_known_who_could(board, folder):
    assert "why_not_claimable" not in json.loads(run("show", "3", "--json").stdout)
    write_agents_file(folder)
    assert "none has its skill" in run("show", "3").stdout


def test_what_a_terminal_would_obey_is_shown_as_an_escape(folder):
    store = Store(folder / "roundtable.db", directory=Directory([LEAD]))
    store.ask(LEAD, c.CreateTask("right\u202eto left", "a\u202eb\tc"))
    with closing(sqlite3.connect(folder / "roundtable.db")) as db:  # the board itself refuses these
        db.execute("UPDATE tasks SET title = 't\x1b[2J\nforged', description = 'd\x1b]0;x\x07\x9b'")
        db.commit()
    for words in (("tasks",), ("show", "1"), ("show", "1", "--json"), ("tasks", "--json")):
        text = run(*words).stdout
        assert not set(text) & set("\x1b\x07\x9b\u202e"), words
    assert len(run("tasks").stdout.splitlines()) == 1
    store.close()


@pytest.mark.spec("CLI-10")
def test_nothing_is_written_whether_a_server_runs_or_not(board, folder):
    def rows() -> list:
        with closing(sqlite3.connect(f"file:{folder}/roundtable.db?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*), max(audit_id) FROM audit_log").fetchall()

    before = rows()
    for words in (("tasks",), ("show", "1")):
        assert run(*words).exit_code == 0
    assert rows() == before
    board.reopen()
    content = (folder / "roundtable.db").read_bytes()
    board.executor.close()
    assert run("tasks").exit_code == 0
    assert (folder / "roundtable.db").read_bytes() == content
    board.executor = board._open()


@pytest.mark.spec("CLI-2", "CLI-10")
@pytest.mark.parametrize("words", [("tasks",), ("show", "1"), ("verify",), ("backup", "copy.db")])
def test_a_file_that_is_no_board_of_ours_is_a_sentence(folder, words):
    for content, told in ((None, "there is no board at roundtable.db"), ("text", "file is not a database")):
        if content is not None:
            (folder / "roundtable.db").write_text(content * 100)
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr
    (folder / "roundtable.db").unlink()
    play(folder / "roundtable.db").close()
    with closing(sqlite3.connect(folder / "roundtable.db")) as db:
        db.execute("PRAGMA user_version = 999")
    result = run(*words)
    assert (result.exit_code, "written by a newer Roundtable" in result.stderr) == (2, True)
    assert not (folder / "copy.db").exists()


@pytest.mark.spec("CLI-10", "CLI-2")
def test_a_board_without_its_mark_is_a_sentence_and_not_served_either(folder):
    play(folder / "roundtable.db").close()
    with closing(sqlite3.connect(folder / "roundtable.db", isolation_level=None)) as db:
        db.execute("DELETE FROM board")
    result = run("tasks")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is damaged" in result.stderr
    with pytest.raises(StoreError, match="is damaged"):
        Store(folder / "roundtable.db")


@pytest.mark.spec("CLI-2")
def test_a_task_that_is_not_there_is_a_no(board):
    result = run("show", "99")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no task 99" in result.stderr

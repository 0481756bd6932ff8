"""The demo's leader, at a small board of ours whose workers answer what the test says."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO

import pytest
import trio
from rich.console import Console

from roundtable.cli.demo_leader import HELP_REQUESTS_MAX, DemoError, Finished, lead
from roundtable.cli.demo_story import STORY, PlannedTask, SendBack
from roundtable.cli.demo_view import draw_board, open_view, show_results

NOTE = "Say something about children."
PLAIN = PlannedTask("Plain", "Write.")
PICKY = PlannedTask("Picky", "Write.", send_back=SendBack(NOTE, "child"))
LATER = PlannedTask("Later", "Write.", after=(0,))


EXHAUSTED = object()


class ScriptedBoard:
    """Each look at the list makes one open task whose dependencies are done a submitted one, with its next answer.

    An answer that is None is a worker who asks for help, one that is EXHAUSTED the last failure that the board allows.
    """

    def __init__(self, answers):
        self.answers = {task_id: list(texts) for task_id, texts in answers.items()}
        self.tasks = {}
        self.reviews = {}
        self.events = []
        self.replies = []

    async def __call__(self, tool, arguments):
        await trio.lowlevel.checkpoint()
        return getattr(self, tool)(**arguments)

    def tell(self, event, task_id, agent="ada", **changes):
        number = len(self.events) + 1
        self.events.append(
            {"event_id": number, "event": event, "task_id": task_id, "agent": agent, "changes": changes}
        )

    def create_task(self, title, description, depends_on=()):
        task_id = len(self.tasks) + 1
        self.tasks[task_id] = {
            "task_id": task_id,
            "title": title,
            "status": "open",
            "attempt": 0,
            "depends_on": list(depends_on),
        }
        self.reviews[task_id] = []
        self.tell("created", task_id, "leader", title=[None, title])
        return {"task_id": task_id}

    def list_tasks(self, limit):
        for task in self.tasks.values():
            ready = all(self.tasks[before]["status"] == "done" for before in task["depends_on"])
            if task["status"] == "open" and ready and "needs_attention" not in task:
                self._work(task)
                break
        return {"tasks": [dict(task) for task in reversed(self.tasks.values())]}

    def _work(self, task):
        answer = self.answers[task["task_id"]].pop(0)
        self.tell("claimed", task["task_id"])
        if answer is None or answer is EXHAUSTED:
            task["needs_attention"] = "help_requested" if answer is None else "attempts_exhausted"
            self.tell("released", task["task_id"])
        else:
            task |= {
                "status": "submitted",
                "assignee": "ada",
                "result": answer,
                "attempt": task["attempt"] + 1,
            }
            self.tell("submitted", task["task_id"])

    def get_history(self, newest_first, limit):
        assert newest_first
        return {"events": self.events[::-1][:limit]}

    def get_task(self, task_id):
        return {"task": self.tasks[task_id], "reviews": self.reviews[task_id]}

    def review_task(self, task_id, verdict, note=None):
        task = self.tasks[task_id]
        self.reviews[task_id].append({"verdict": verdict, "note": note, "result": task["result"]})
        task["status"] = "done" if verdict == "accept" else "open"
        self.tell("reviewed", task_id, "leader", status=["submitted", task["status"]])

    def post_message(self, task_id, kind, body):
        assert kind == "reply"
        self.replies.append(task_id)
        if self.tasks[task_id]["needs_attention"] == "help_requested":
            del self.tasks[task_id]["needs_attention"]

    def update_task(self, task_id):
        del self.tasks[task_id]["needs_attention"]


class Lines:
    def __init__(self):
        self.lines = []
        self.boards = []

    def say(self, line):
        self.lines.append(line)

    def show_rows(self, rows):
        self.boards.append(rows)


async def play(board, *story):
    show = Lines()
    with trio.fail_after(1_000):
        return await lead(board, story, show), show


@pytest.mark.spec("DEMO-2")
async def test_one_task_is_sent_back_once_and_the_later_one_waits_for_what_it_builds_on(autojump_clock):
    board = ScriptedBoard({1: ["one"], 2: ["dull", "a child plays"], 3: ["three"]})
    finished, _ = await play(board, PLAIN, PICKY, LATER)
    assert finished == (
        Finished(1, "Plain", "ada", "one", (), ()),
        Finished(2, "Picky", "ada", "a child plays", (), ("dull",)),
        Finished(3, "Later", "ada", "three", (1,), ()),
    )
    assert [(review["verdict"], review["note"]) for review in board.reviews[2]] == [
        ("reject", NOTE),
        ("accept", None),
    ]


@pytest.mark.parametrize(("second", "words"), [("Children play.", "heeds"), ("The same.", "does not heed")])
async def test_the_leader_says_what_is_fixed_and_whether_its_note_was_heeded(autojump_clock, second, words):
    _, show = await play(ScriptedBoard({1: ["Children already.", second]}), PICKY)
    said = "\n".join(show.lines)
    assert "by script, task 1 goes back" in said
    assert f"the new result {words} the note" in said


async def test_every_event_is_told_once_and_in_order(autojump_clock):
    _, show = await play(ScriptedBoard({1: ["one"]}), PLAIN)
    assert [line for line in show.lines if not line.startswith(" ")] == [
        "leader puts task 1 on the board: Plain",
        "ada claims task 1",
        "ada submits task 1",
        "leader accepts task 1",
    ]


async def test_workers_that_ask_for_help_are_answered(autojump_clock):
    board = ScriptedBoard({1: [None, None, "one"]})
    finished, _ = await play(board, PLAIN)
    assert finished[0].result == "one"
    assert board.replies == [1, 1]


async def test_a_task_that_failed_as_often_as_it_may_is_tried_anew(autojump_clock):
    board = ScriptedBoard({1: [EXHAUSTED, "one"]})
    finished, _ = await play(board, PLAIN)
    assert finished[0].result == "one"


async def test_workers_that_ask_for_help_for_ever_end_the_demo(autojump_clock):
    board = ScriptedBoard({1: [None] * 10})
    with pytest.raises(DemoError, match="the model cannot do it"):
        await play(board, PLAIN)
    assert len(board.replies) == HELP_REQUESTS_MAX


async def test_a_task_that_somebody_cancels_ends_the_demo(autojump_clock):
    board = ScriptedBoard({1: ["one"]})
    board.list_tasks = lambda limit: {"tasks": [{**board.tasks[1], "status": "cancelled"}]}
    with pytest.raises(DemoError, match="cancelled"):
        await play(board, PLAIN)


async def test_what_a_model_writes_cannot_steer_the_terminal(autojump_clock):
    _, show = await play(ScriptedBoard({1: ["\x1b[2Jgone\x07\nnext \u202eline"]}), PLAIN)
    assert all(line.isprintable() for line in show.lines)
    assert "      next  line" in show.lines


def test_the_results_show_what_was_sent_back_and_what_a_task_builds_on():
    output = StringIO()
    finished = (
        Finished(1, "Picky", "ada", "[bold]good[/]\nand\x1b[31m more", (), ("dull",)),
        Finished(2, "Later", "ben", "three", (1,), ()),
    )
    show_results(Console(file=output, width=40), finished)
    assert output.getvalue().splitlines()[2:] == [
        "",
        "1. Picky (by ada)",
        "   sent back: dull",
        "   accepted:  [bold]good[/]",
        "              and [31m more",
        "",
        "2. Later (by ben, after tasks 1)",
        "   three",
    ]


ROWS = (
    {"task_id": 1, "title": "[red]One[/]", "status": "done", "assignee": "ada", "attempt": 2},
    {"task_id": 2, "title": "Two", "status": "open", "attempt": 0, "blocked_by": [1]},
)


def test_the_board_is_drawn_with_titles_as_they_are():
    output = StringIO()
    Console(file=output, width=100).print(draw_board(ROWS))
    assert "[red]One[/]" in output.getvalue()
    assert "ada" in output.getvalue()


@pytest.mark.spec("DEMO-2")
def test_on_a_terminal_the_board_stays_below_the_lines():
    output = StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    with open_view(console) as view:
        view.show_rows(ROWS)
        view.say("a line")
    assert "the board" in output.getvalue()
    assert "a line" in output.getvalue()


def test_elsewhere_there_are_lines_alone():
    output = StringIO()
    with open_view(Console(file=output, width=20)) as view:
        view.show_rows(ROWS)
        view.say("a line that is longer than twenty [characters]")
    assert output.getvalue() == "a line that is longer than twenty [characters]\n"


def test_a_reader_that_goes_away_ends_the_output_and_not_the_demo():
    code = (
        "import sys; from roundtable.cli.demo_view import DemoConsole; console = DemoConsole()\n"
        "for _ in range(20): console.print('x' * 10_000)\n"
        "sys.stderr.write('played to its end')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        program.stdout.close()
        assert program.stderr.read() == "played to its end"
        assert program.wait(30) == 0


def test_the_story_has_a_dependency_and_one_task_of_two_rounds():
    assert [task.title for task in STORY if task.after] == ["Describe the village"]
    assert [task.title for task in STORY if task.send_back] == ["Describe the village museum"]

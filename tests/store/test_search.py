"""Full-text search: what a query finds, that the index is in step with the texts, and that nothing in a query is syntax."""

from __future__ import annotations

import random
import sqlite3

import pytest
from scripted_store import ANN, LEAD, Store

from roundtable.rules.commands import (
    CancelTask,
    ClaimTask,
    CreateTask,
    ListTasks,
    PostMessage,
    ReleaseTask,
    ReviewTask,
    SubmitResult,
    UpdateTask,
)
from roundtable.rules.errors import Code
from roundtable.rules.limits import RESULT_CHARS
from roundtable.rules.model import Status, Verdict
from roundtable.store import database
from roundtable.store.database import migrations, open_database
from roundtable.store.search import Search

SEED = 20261129


def found(store: Store, query: str, **filters) -> list[int]:
    """All pages of the answer."""
    ids: list[int] = []
    cursor = None
    while True:
        page = store.ask(LEAD, ListTasks(query=query, cursor=cursor, **filters))
        ids += [task["task_id"] for task in page["tasks"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            return ids


def create(store: Store, title: str = "T", description: str = "D", **more) -> int:
    return store.ask(LEAD, CreateTask(title, description, **more))["task_id"]


@pytest.mark.spec("TOOL-28")
def test_a_word_is_found_in_title_description_result_and_messages(store) -> None:
    ids = [create(store, title="harbour"), create(store, description="the Harbour wall"), create(store)]
    store.ask(ANN, ClaimTask(3))
    store.ask(ANN, SubmitResult(3, "a harbour, at last"))
    ids.append(create(store))
    store.ask(ANN, PostMessage(4, "which harbour?"))
    create(store, title="harbours", description="bay", acceptance_criteria="harbour")
    assert found(store, "harbour") == [4, 3, 2, 1]


@pytest.mark.spec("TOOL-28")
def test_all_words_are_needed_wherever_in_the_task_they_stand(store) -> None:
    create(store, title="alpha", description="beta")
    store.ask(ANN, PostMessage(1, "gamma"))
    store.ask(ANN, PostMessage(1, "delta"))
    create(store, title="alpha gamma")
    assert found(store, "alpha") == [2, 1]
    assert found(store, "gamma alpha") == [2, 1]
    assert found(store, "alpha beta gamma delta") == [1]
    assert found(store, "alpha omega") == []


@pytest.mark.spec("TOOL-28")
@pytest.mark.parametrize(
    ("title", "query"),
    [
        ("Straße nach Köln", "koln"),
        ("cafe\u0301", "CAFÉ"),
        ("e-mail", "E-MAIL"),
        ("roundtable/web/doors.py", "doors.py"),
        ("C++ und C#", "c++"),
        ("v1.2", "v1.2 "),
        ("naïve", "naive naive"),
        ("数据 库", "数据"),
        ("a😀b", "a"),
        ("user_id", "user_id"),
    ],
)
def test_case_accents_and_signs_between_letters_do_not_matter(store, title, query) -> None:
    create(store, title=title)
    create(store, title="another")
    assert found(store, query) == [1]


def test_signs_inside_a_word_ask_for_the_parts_side_by_side(store) -> None:
    create(store, title="mail e")
    create(store, title="e mail")
    assert found(store, "e-mail") == [2]
    assert found(store, "e mail") == [2, 1]


HOSTILE = (
    '"',
    '""',
    '"alpha',
    'alpha"',
    'al"pha',
    "alpha*",
    "alpha *",
    "*",
    "^alpha",
    "-alpha",
    "+alpha",
    "(alpha",
    "alpha)",
    "alpha OR beta",
    "alpha AND beta",
    "alpha NOT beta",
    "NOT alpha",
    "AND",
    "OR OR OR",
    "NEAR(alpha beta)",
    "NEAR",
    "title:alpha",
    "title : alpha",
    "{title body} : alpha",
    "- title : alpha",
    "words:alpha",
    "alpha'; DROP TABLE tasks; --",
    "' OR 1=1 --",
    "%alpha%",
    "_",
    "\\",
    "alpha\tbeta",
    "alpha\nbeta",
    "\u2028alpha",
    "\u0301",
    "😀",
    "\u200b",
    "ﬀ",
    "²",
    "a" * 200,
    "a " * 100,
    "a." * 100,
    '"' * 200,
    "𞤀𞤁",
    "\ue000",
)


@pytest.mark.spec("TOOL-28")
@pytest.mark.parametrize("query", HOSTILE)
def test_nothing_in_a_query_is_syntax(store, query) -> None:
    create(store, title="alpha", description="gamma")
    create(store, title="beta", description="gamma")
    answer = found(store, query)
    if not any(char.isalnum() for char in query):
        assert answer == []
    # as words, OR, NOT and title are ones that no task has
    if query in ("alpha*", "^alpha", "-alpha", "%alpha%", '"alpha', "alpha *", "(alpha"):
        assert answer == [1]
    if query in ("alpha OR beta", "NOT alpha", "title:alpha", "title : alpha", "NEAR(alpha beta)"):
        assert answer == []


def test_signs_among_the_words_are_passed_over(store) -> None:
    create(store, title="alpha, beta")
    assert found(store, "alpha -- & beta !") == [1]
    assert found(store, "-- !?") == []


@pytest.mark.spec("TOOL-28")
def test_what_is_no_longer_there_is_no_longer_found(store) -> None:
    create(store, title="first", description="words")
    for number in range(20):  # so that the first texts are in the index and not before it
        create(store, title=f"filler {number}")
    assert found(store, "first words") == [1]
    store.ask(LEAD, UpdateTask(1, title="second"))
    assert found(store, "first") == []
    assert found(store, "second words") == [1]
    store.ask(LEAD, UpdateTask(1, description="text"))
    store.ask(LEAD, UpdateTask(1, description="more text"))
    assert found(store, "words") == []
    assert found(store, "second more text") == [1]
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "rubbish"))
    assert found(store, "rubbish") == [1]
    store.ask(LEAD, ReviewTask(1, Verdict.REJECT, "no"))
    assert found(store, "rubbish") == []
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "gold"))
    assert found(store, "gold second") == [1]


def test_what_was_refused_is_not_found(store) -> None:
    create(store, title="kept")
    store.refusal(LEAD, CreateTask("lost", "D", assignee="nobody"))
    store.refusal(ANN, SubmitResult(1, "lost"))
    assert found(store, "lost") == []
    assert found(store, "kept") == [1]


@pytest.mark.spec("TOOL-28")
def test_a_query_goes_together_with_the_other_filters(store) -> None:
    create(store, title="sail", required_skill="sql")
    create(store, title="sail", assignee="ann")
    create(store, title="sail")
    create(store, title="row", assignee="ann")
    create(store, title="sail")
    store.ask(ANN, ClaimTask(3))
    store.ask(LEAD, CancelTask(5, "r"))
    assert found(store, "sail", assignee="ann") == [3, 2]
    assert found(store, "sail", assignee="ann", status=Status.OPEN) == [2]
    assert found(store, "sail", assignee="ann", status=Status.CLAIMED) == [3]
    assert found(store, "sail", status=Status.OPEN) == [2, 1]
    assert found(store, "sail", required_skill="sql") == [1]
    assert found(store, "sail", needs_attention=True) == []
    assert found(store, "sail", needs_attention=False, limit=1) == [5, 3, 2, 1]


WORDS = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew")


class Wood:
    """A board and what is written on it, text by text."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.texts: dict[int, dict[str, str]] = {}
        self.statuses: dict[int, Status] = {}

    def text(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 4)))

    def step(self) -> None:
        kinds = [self.create, self.create, self.update, self.post, self.work]
        self.chance.choice(kinds)(self.chance.choice(list(self.texts) or [0]))

    def create(self, _: int) -> None:
        title, description = self.text(), self.text()
        task_id = create(self.store, title, description)
        self.texts[task_id] = {"title": title, "description": description}
        self.statuses[task_id] = Status.OPEN

    def update(self, task_id: int) -> None:
        if self.statuses.get(task_id) in (Status.OPEN, Status.SUBMITTED):
            field = self.chance.choice(["title", "description"])
            self.texts[task_id][field] = self.text()
            self.store.ask(LEAD, UpdateTask(task_id, **{field: self.texts[task_id][field]}))

    def post(self, task_id: int) -> None:
        if self.statuses.get(task_id) in (Status.OPEN, Status.SUBMITTED):
            body = self.text()
            number = self.store.ask(LEAD, PostMessage(task_id, body))["message_id"]
            self.texts[task_id][f"message {number}"] = body

    def work(self, task_id: int) -> None:
        match self.statuses.get(task_id):
            case Status.OPEN:
                self.store.ask(ANN, ClaimTask(task_id))
                if self.chance.random() < 0.2:
                    self.store.ask(ANN, ReleaseTask(task_id))
                    return
                self.texts[task_id]["result"] = self.text()
                self.store.ask(ANN, SubmitResult(task_id, self.texts[task_id]["result"]))
                self.statuses[task_id] = Status.SUBMITTED
            case Status.SUBMITTED:
                if self.chance.random() < 0.3:
                    self.store.ask(LEAD, ReviewTask(task_id, Verdict.REJECT, self.text()))
                    del self.texts[task_id]["result"]
                    self.store.ask(LEAD, UpdateTask(task_id, priority=1))  # many rejections hold a task back
                    self.statuses[task_id] = Status.OPEN
                else:
                    self.store.ask(LEAD, ReviewTask(task_id, Verdict.ACCEPT))
                    self.statuses[task_id] = Status.DONE

    def expected(self, query: list[str], status: Status | None) -> list[int]:
        return [
            task_id
            for task_id in sorted(self.texts, reverse=True)
            if set(query) <= set(" ".join(self.texts[task_id].values()).split())
            and status in (None, self.statuses[task_id])
        ]


@pytest.mark.spec("TOOL-28", "TOOL-13")
def test_whatever_happens_to_the_texts_a_search_finds_what_reading_them_all_would(store) -> None:
    wood = Wood(store, random.Random(SEED))  # noqa: S311
    for _ in range(300):
        wood.step()
        if wood.chance.random() < 0.4:
            query = wood.chance.sample(WORDS, wood.chance.randint(1, 3))
            status = wood.chance.choice([None, *Status])
            limit = wood.chance.choice([1, 3, 100])
            assert found(store, " ".join(query), status=status, limit=limit) == wood.expected(query, status)
    store.reopen()
    for word in WORDS:
        assert found(store, word) == wood.expected([word], None)
    store.executor.db.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def test_a_search_cut_short_goes_on_where_it_was(store) -> None:
    wood = Wood(store, random.Random(SEED))  # noqa: S311
    for _ in range(400):
        wood.create(0)
    found(store, "oak")  # the index is up to date from here
    db = store.executor.db
    everywhere = ("SELECT task_id FROM tasks WHERE task_id <= :top ORDER BY task_id DESC", {})
    for query in (["oak"], ["oak", "elm"], ["oak", "elm", "yew"], ["oak", "nowhere"]):
        ids: list[int] = []
        below: int | None = 2**63 - 1
        rounds = 0
        while below is not None:
            search = Search(db, query, everywhere, below, steps=310 * (len(query) + 1))
            ids += list(search)
            below = search.given_up_below
            rounds += 1
        assert ids == wood.expected(query, None), query
        assert rounds > 1 or query[-1] == "nowhere", query


@pytest.mark.spec("TOOL-13")
def test_pages_neither_repeat_nor_skip_while_tasks_come_and_change(store) -> None:
    for _ in range(30):
        create(store, title="fixed point")
    seen: list[int] = []
    cursor = None
    while True:
        page = store.ask(LEAD, ListTasks(query="point", limit=7, cursor=cursor))
        seen += [task["task_id"] for task in page["tasks"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
        new = create(store, title="a new point")
        store.ask(LEAD, UpdateTask(new, title="none"))
        store.ask(LEAD, PostMessage(seen[0], "still the same point"))
    assert seen == list(range(30, 0, -1))


def test_a_board_of_the_schema_before_is_searched_like_any_other(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database, "migrations", lambda: migrations()[:1])
    old = open_database(tmp_path / "b.db")
    for task_id, status, assignee, result in ((1, "open", None, None), (2, "done", "ann", "an apple")):
        old.execute(
            "INSERT INTO tasks (task_id, title, description, priority, rank, status, attempt, failures, rejections, "
            "max_attempts, assignee, result, created_at, updated_at) "
            "VALUES (?, 'fruit', 'in a basket', 0, 0, ?, 0, 0, 0, 3, ?, ?, '2026-01-01T00:00:00.000Z', '')",
            (task_id, status, assignee, result),
        )
    old.execute(
        "INSERT INTO messages (task_id, agent, role, kind, body, created_at) "
        "VALUES (1, 'ann', 'worker', 'note', 'a pear', '')"
    )
    old.close()
    monkeypatch.undo()
    store = Store(tmp_path / "b.db")
    assert found(store, "fruit basket") == [2, 1]
    assert found(store, "apple") == [2]
    assert found(store, "pear") == [1]
    store.ask(LEAD, UpdateTask(1, title="bread"))
    assert found(store, "fruit") == [2]
    store.close()


def test_rows_that_an_owner_deletes_with_another_tool_leave_the_index(store) -> None:
    for _ in range(20):
        create(store, title="doomed")
    store.ask(LEAD, PostMessage(20, "farewell"))
    assert found(store, "farewell") == [20]
    store.ask(LEAD, PostMessage(19, "farewell"))
    with sqlite3.connect(store.path) as owner:
        owner.execute("DELETE FROM messages")
        owner.execute("DELETE FROM tasks WHERE task_id = 1")
    owner.close()
    assert found(store, "farewell") == []
    assert found(store, "doomed", limit=100) == list(range(20, 1, -1))


def test_long_texts_are_searched_to_their_end(store) -> None:
    create(store)
    store.ask(ANN, ClaimTask(1))
    store.ask(ANN, SubmitResult(1, "x " * (RESULT_CHARS // 2 - 2) + "end"))
    assert found(store, "end") == [1]


def test_while_the_disk_cannot_be_written_a_query_finds_all_or_says_that_it_cannot(store) -> None:
    create(store, title="early")
    assert found(store, "early") == [1]
    store.executor.db.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert found(store, "early") == [1]
    other.execute("ROLLBACK")
    create(store, title="late")
    other.execute("BEGIN IMMEDIATE")
    assert store.refusal(LEAD, ListTasks(query="late")).code is Code.UNAVAILABLE
    assert len(store.ask(LEAD, ListTasks())["tasks"]) == 2
    other.execute("ROLLBACK")
    other.close()
    assert found(store, "late") == [2]

"""The tables of SPEC.md say what the code says.

Nothing is cited here: that a table is copied right does not show that the board behaves like it.
"""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest
from spec_document import ROOT, table

from roundtable.config.settings import VARIABLES, default_of
from roundtable.rules import limits
from roundtable.rules.agents import Role
from roundtable.rules.errors import Code
from roundtable.rules.lifecycle import TRANSITIONS, Action
from roundtable.rules.model import Status
from roundtable.tools.catalogue import TOOLS
from supervisor.config.roster import Worker
from supervisor.rules.failures import FailureClass
from supervisor.rules.policy import CONSEQUENCES

SPEC_TEXT = (ROOT / "SPEC.md").read_text(encoding="utf-8")


def test_the_state_machine_is_the_one_of_the_rules() -> None:
    rows = table(SPEC_TEXT, "Status")
    written = {row["Status"]: {action.value: row[action.value] for action in Action} for row in rows}
    coded = {
        status.value: {
            action.value: following[action].value if action in following else "refused" for action in Action
        }
        for status, following in TRANSITIONS.items()
    }
    assert written == coded
    assert list(written) == [status.value for status in Status]
    assert list(rows[0])[1:] == [action.value for action in Action]


def test_the_error_codes_are_those_of_the_rules() -> None:
    assert [row["Code"] for row in table(SPEC_TEXT, "Code")] == [code.value for code in Code]


def test_the_limits_are_those_of_the_rules() -> None:
    def chars(bound: int) -> str:
        return f"{bound:,} characters"

    assert {row["What"]: row["Limit"] for row in table(SPEC_TEXT, "What")} == {
        "title": f"1 to {chars(limits.TITLE_CHARS)}",
        "description": chars(limits.DESCRIPTION_CHARS),
        "acceptance_criteria": chars(limits.CRITERIA_CHARS),
        "message body": chars(limits.MESSAGE_CHARS),
        "result": chars(limits.RESULT_CHARS),
        "review note": chars(limits.NOTE_CHARS),
        "reason": chars(limits.REASON_CHARS),
        "query": chars(limits.QUERY_CHARS),
        "idempotency_key": chars(limits.KEY_CHARS),
        "required_skill": chars(limits.NAME_CHARS),
        "assignee": chars(limits.NAME_CHARS),
        "depends_on": f"{limits.DEPENDENCIES_MAX} ids",
        "messages": f"{limits.MESSAGES_PER_TASK} a task",
        "priority": f"{limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}",
        "lease_seconds": f"{limits.LEASE_SECONDS_MIN} to {limits.LEASE_SECONDS_MAX:,}",
        "max_attempts": f"1 to {limits.MAX_ATTEMPTS_MAX}",
        "cooldown_seconds": f"0 to {limits.COOLDOWN_SECONDS_MAX:,}",
        "wait_seconds": f"0 to {limits.WAIT_SECONDS_MAX}",
        "page limit": f"1 to {limits.PAGE_ROWS_MAX}",
        "HTTP body": f"{limits.BODY_BYTES // 1024**2} MiB",
        "reply": f"{limits.REPLY_BYTES // 1024} KiB",
    }


def test_the_tools_are_those_of_the_catalogue() -> None:
    who = {frozenset(Role): "all", frozenset({Role.LEADER}): "leader", frozenset({Role.WORKER}): "worker"}
    rows = table(SPEC_TEXT, "Tool")
    assert [(row["Tool"], row["Who"], row["Parameters"]) for row in rows] == [
        (tool.name, who[frozenset(tool.roles)], ", ".join(tool.parameters)) for tool in TOOLS
    ]


def test_the_settings_are_those_of_the_server() -> None:
    written = {row["Variable"]: row["Default"] for row in table(SPEC_TEXT, "Variable")}
    coded = {variable: default_of(field) for variable, field in VARIABLES.items()}
    assert written == {name: "" if value in (None, ()) else str(value) for name, value in coded.items()}


def test_the_fields_of_a_roster_worker_are_those_of_the_pool() -> None:
    written = {row["Field"]: row["Default"] for row in table(SPEC_TEXT, "Field")}
    # what is not compared is where the worker stands, not what its owner writes
    written_by_owner = [field for field in fields(Worker) if field.compare]
    coded = {field.name: "" if field.default is MISSING else field.default for field in written_by_owner}
    shown = {name: "" if value is None else value for name, value in coded.items()}
    assert written == {
        name: "none" if value == () else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in shown.items()
    }


def test_the_consequences_of_failures_are_those_of_the_pool() -> None:
    rows = {row["Class"]: row for row in table(SPEC_TEXT, "Class")}
    assert list(rows) == [kind.value for kind in FailureClass if kind in CONSEQUENCES]
    for kind, consequence in CONSEQUENCES.items():
        row = rows[kind.value]
        help_is_asked = "after max_failures" if consequence.counts else "no"
        assert row["Failure of the task"] == ("yes" if consequence.counts else "no"), kind
        assert row["Another model is asked"] == ("yes" if consequence.falls_back else "no"), kind
        assert row["Help is asked for"] == ("at once" if consequence.asks_for_help else help_is_asked), kind
        assert row["Then"] == consequence.move, kind


def test_a_table_that_is_not_there_is_an_error_and_not_an_empty_one() -> None:
    with pytest.raises(LookupError):
        table("| A | B |\n|---|---|\n| 1 | 2 |\n", "C")

"""The tables of SPEC.md say what the code says.

Nothing is cited here: that a table is copied right does not show that the board behaves like it.
"""

from __future__ import annotations

import pytest
from spec_document import ROOT, table

from roundtable.rules import limits
from roundtable.rules.errors import Code
from roundtable.rules.lifecycle import TRANSITIONS, Action
from roundtable.rules.model import Status

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
        "required_skill": chars(limits.NAME_CHARS),
        "assignee": chars(limits.NAME_CHARS),
        "depends_on": f"{limits.DEPENDENCIES_MAX} ids",
        "messages": f"{limits.MESSAGES_PER_TASK} a task",
        "priority": f"{limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}",
        "cooldown_seconds": f"0 to {limits.COOLDOWN_SECONDS_MAX:,}",
        "page limit": f"1 to {limits.PAGE_ROWS_MAX}",
        "HTTP body": "1 MiB",
        "reply": f"{limits.REPLY_BYTES // 1024} KiB",
    }


def test_a_table_that_is_not_there_is_an_error_and_not_an_empty_one() -> None:
    with pytest.raises(LookupError):
        table("| A | B |\n|---|---|\n| 1 | 2 |\n", "C")

"""Calls with a key: the first answer is remembered, and given again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, cast

from roundtable.rules.commands import ClaimNext, Command
from roundtable.rules.errors import BoardError, Code
from roundtable.rules.limits import KEY_HOURS
from roundtable.rules.model import utc_text
from roundtable.store import tasks
from roundtable.store.unit import Unit

_NOT_ASKED = frozenset({"idempotency_key", "wait_seconds", "waits"})


@dataclass(frozen=True, slots=True)
class Replay:
    """An answer that was given before."""

    answer: Any


def key_of(command: Command[Any]) -> str | None:
    """The key that the command carries, if it may carry one and does."""
    key = getattr(command, "idempotency_key", None)
    return key if isinstance(key, str) else None


def fingerprint(command: Command[Any]) -> str:
    """A hash over what was asked: without the key itself, and without how long the caller would wait."""
    fields = asdict(cast(Any, command))
    asked = {name: value for name, value in fields.items() if name not in _NOT_ASKED}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def recall(unit: Unit, tool: str, command: Command[Any]) -> Replay | None:
    """The first answer to this key, or None if there was none within the time that a key is kept.

    Raises BoardError: `conflict` if something else was asked then, `stale_claim` if the answer is a claim that
    has ended.
    """
    key = key_of(command)
    if key is None:
        return None
    row = unit.db.execute(
        "SELECT arguments, answer FROM idempotency WHERE agent = ? AND tool = ? AND key = ? AND created_at > ?",
        (unit.caller.name, tool, key, _oldest(unit)),
    ).fetchone()
    if row is None:
        return None
    if row[0] != fingerprint(command):
        raise BoardError(
            Code.CONFLICT,
            "This idempotency_key was used before with other arguments. Use a new key for a new call.",
        )
    answer = json.loads(row[1])
    if isinstance(command, ClaimNext):
        task = tasks.load(unit.db, answer["task_id"])
        if task.claim_id != answer["claim_id"]:
            raise BoardError(
                Code.STALE_CLAIM,
                f"The claim that this idempotency_key brought has ended; task {task.task_id} is {task.status}. "
                "Use a new key for a new claim.",
                status=task.status.value,
            )
    return Replay(answer)


def remember(unit: Unit, tool: str, command: Command[Any], answer: Any) -> None:
    """Keep the answer for the key. Empty answers are not kept: the next call may find something."""
    key = key_of(command)
    if key is None or answer == {"task": None}:
        return
    unit.db.execute("DELETE FROM idempotency WHERE created_at <= ?", (_oldest(unit),))
    unit.db.execute(
        "INSERT INTO idempotency (agent, tool, key, arguments, answer, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            unit.caller.name,
            tool,
            key,
            fingerprint(command),
            json.dumps(answer, ensure_ascii=False),
            unit.now.text,
        ),
    )


def forget_claim(unit: Unit, claim_id: str) -> None:
    """The claim was never handed over, so its key may bring another."""
    unit.db.execute(
        "DELETE FROM idempotency WHERE agent = ? AND tool = 'claim_next' AND json_extract(answer, '$.claim_id') = ?",
        (unit.caller.name, claim_id),
    )


def _oldest(unit: Unit) -> str:
    return utc_text(unit.now.utc_ms - KEY_HOURS * 3_600_000)

"""What has to hold after a storm, each from two sides: the board's file or the pool's, and the endpoint's own log."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.config.settings import LEDGER
from supervisor.rules.limits import RESTARTS_MAX
from tests.acceptance.programs import Program
from tests.endurance.planted_pool import BEFORE_THE_SUBMIT
from tests.endurance.report import Report
from tests.endurance.soundness import faults_of, open_readonly
from tests.endurance.stormy_endpoint import StormyModel


@dataclass(frozen=True)
class Outcome:
    """What a storm has left behind. `status` is the pool's as `roundtable status` told it at the end."""

    model: StormyModel
    roster: Sequence[dict[str, Any]]
    status: dict[str, Any]
    pool: Program
    folder: Path

    @property
    def struck(self) -> Counter[tuple[str, str, str]]:
        """(worker, moment, error) as the pool's program told each of its planted failures."""
        lines = [line.split() for line in self.pool.out.lines if line.startswith("struck ")]
        return Counter((worker, moment, error) for _, worker, moment, error in lines)


def check_board(report: Report, outcome: Outcome, tasks: int) -> None:
    """Every task is there, and submitted once with an answer that was made for it, or waits for the leader."""
    with open_readonly(outcome.folder / "roundtable.db") as db:
        report.violations += faults_of(db, calls_are_repeated=True)
        rows = db.execute("SELECT task_id, title, status, needs_attention, result FROM tasks").fetchall()
        submits = Counter(
            task_id for (task_id,) in db.execute("SELECT task_id FROM history WHERE event = 'submitted'")
        )
        ended = dict(db.execute("SELECT ended_by, count(*) FROM claims GROUP BY ended_by"))
    titles = Counter(title for _, title, *_ in rows)
    wanted = Counter(f"Storm task {number}" for number in range(1, tasks + 1))
    report.expect(titles == wanted, f"tasks lost: {wanted - titles}, or made twice: {titles - wanted}")
    answers, lost = outcome.model.answers(), _answers_lost(outcome)
    fates: Counter[str] = Counter()
    for task_id, title, status, attention, result in rows:
        is_submitted = status == "submitted"
        fates[status if is_submitted else f"{status}, {attention}"] += 1
        report.expect(is_submitted or (status == "open" and attention), f"task {task_id} was left {status}")
        report.expect(
            submits[task_id] == is_submitted, f"task {task_id} was submitted {submits[task_id]} times"
        )
        number = int(title.split()[-1])
        given = [call.answer for call in answers.get(number, [])]
        report.expect(
            not is_submitted or result in given, f"task {task_id} has a result that was not made for it"
        )
        report.expect(
            len(given) == is_submitted + lost[number],
            f"task {task_id} got {len(given)} good answers, of which {lost[number]} were lost to the bug",
        )
    for end in ("expired", "stale", None):
        report.expect(end not in ended, f"{ended.get(end)} claims ended by {end}")
    report.figures |= {"tasks": dict(fates), "claims ended": ended}


def _answers_lost(outcome: Outcome) -> Counter[int]:
    """The good answers that a planted failure kept from being submitted, by the number of their task."""
    return Counter(
        call.number for call in outcome.model.calls if call.strikes and call.strikes[0] in BEFORE_THE_SUBMIT
    )


def check_budgets(report: Report, outcome: Outcome) -> None:
    """The pool's own file, its status and the endpoint's log tell the same of every worker, within its caps."""
    with open_readonly(outcome.folder / "pool" / LEDGER) as db:
        rows = db.execute(
            "SELECT worker, count(*), sum(input_tokens + output_tokens) FROM calls GROUP BY worker"
        )
        kept = {worker: (calls, tokens) for worker, calls, tokens in rows}
        outcomes = dict(db.execute("SELECT outcome, count(*) FROM calls GROUP BY outcome"))
        claims = db.execute("SELECT worker, task_id FROM claims").fetchall()
    report.expect(not claims, f"the pool thinks that it still holds {claims}")
    calls, tokens = outcome.model.calls_by_worker(), outcome.model.tokens_by_worker()
    told = {worker["name"]: worker for worker in outcome.status["workers"]}
    at_cap = 0
    for worker in outcome.roster:
        name, status = worker["name"], told[worker["name"]]
        seen = (calls[name], tokens[name])
        report.expect(
            kept.get(name, (0, 0)) == seen, f"{name}: {seen} calls and tokens, its pool kept {kept.get(name)}"
        )
        shown = (status["calls_last_hour"], status["tokens_last_day"])
        report.expect(shown == seen, f"{name}: {seen} calls and tokens, `status` says {shown}")
        max_calls, max_tokens = worker["max_calls_per_hour"], worker.get("max_tokens_per_day", float("inf"))
        report.expect(
            seen[0] <= max_calls and seen[1] <= max_tokens, f"{name}: {seen} calls and tokens, over its caps"
        )
        at_cap += status["state"] == "at_cap"
    report.figures |= {
        "what the endpoint did": dict(Counter(call.did for call in outcome.model.calls)),
        "what the pool understood": outcomes,
        "calls and tokens": f"{calls.total():,} and {tokens.total():,}, the same on both sides",
        "workers at a cap in the end": at_cap,
    }


def check_restarts(report: Report, outcome: Outcome, strikes: dict[str, int]) -> None:
    """A worker failed as often as the endpoint's answers made it fail, and no other one ever did."""
    meant = Counter(outcome.model.strikes(strikes))
    struck = outcome.struck
    pending = meant - struck
    # One that waits for the next claim of its worker may wait in vain.
    report.expect(not struck - meant, f"it struck where it was not meant to: {struck - meant}")
    report.expect(all(moment == "claim" for _, moment, _ in pending), f"it did not strike: {pending}")
    struck_by_worker: Counter[str] = Counter()
    for (worker, _, _), count in struck.items():
        struck_by_worker[worker] += count
    failed = Counter(
        found[1]
        for line in outcome.pool.err.lines
        if (found := re.search(r" worker_failed .*worker=(\S+)", line))
    )
    for worker in outcome.status["workers"]:
        name = worker["name"]
        expected = struck_by_worker[name]
        report.expect(
            failed[name] == expected, f"{name} failed {failed[name]} times, and was made to {expected} times"
        )
        is_parked = expected > RESTARTS_MAX
        report.expect(
            worker["restarts"] == expected - is_parked,
            f"{name}: {worker['restarts']} restarts for {expected} failures",
        )
        report.expect(
            (worker["state"] == "parked") == is_parked,
            f"{name} is {worker['state']} after {expected} failures",
        )
    report.figures["planted failures"] = dict(struck_by_worker)
    by_moment: dict[str, int] = defaultdict(int)
    for (_, moment, _), count in struck.items():
        by_moment[moment] += count
    report.figures["when they struck"] = dict(by_moment)


def check_words(report: Report, outcome: Outcome, secrets: Collection[str]) -> None:
    said = outcome.pool.err.text + json.dumps(outcome.status)
    report.violations += [
        f"the pool's log or status holds {secret[:20]!r}" for secret in secrets if secret in said
    ]

"""A record of calls held against the history that the board wrote of the same time.

A write's event lies between the call's start and its end, or the server's death where there was no answer. So an event
may not stand before another one whose call had ended when its own began. What a call answers has to be what history,
replayed up to its event, gives; for a call that writes nothing, up to some place that its time allows.
"""

from __future__ import annotations

import json
import math
import sqlite3
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roundtable.rules.claims import NEVER_HANDED_OVER
from roundtable.store.soundness import check_file
from tests.endurance.recorded import Call, Recorded
from tests.endurance.recorded_answers import SHOWN, told
from tests.endurance.soundness import open_readonly

_MARKS = {
    "created": ("create_task", "title"),
    "updated": ("update_task", "title"),
    "submitted": ("submit_result", "result"),
    "released": ("release_task", "reason"),
    "reviewed": ("review_task", "note"),
    "cancelled": ("cancel_task", "reason"),
}
"""The events that tell of a marked call: its tool, and where they carry the mark."""
_CLAIMING = ("claim_task", "claim_next")


def check(recorded: Recorded, path: Path) -> Checked:
    """Hold the record against the board's file."""
    checked = Checked(recorded)
    checked.violations += [f"soundness: {fault}" for fault in check_file(path).faults]
    with open_readonly(path) as db:
        checked.hold_against(db)
    return checked


class Checked:
    """What was found."""

    def __init__(self, recorded: Recorded) -> None:
        self.violations: list[str] = []
        self.figures: dict[str, object] = {}
        self._recorded = recorded
        self._calls = recorded.calls
        self._times: dict[int, tuple[float, float, str]] = {}  # of an event: not before, not after, of what
        self._event_of: dict[int, int] = {}  # by id(call)
        self._states: dict[int, tuple[list[int], list[dict[str, Any]]]] = {}

    def hold_against(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT event_id, task_id, agent, event, changes FROM history ORDER BY event_id")
        events = [(*row, json.loads(changes)) for *row, changes in rows]
        self._replay(events)
        messages = {
            row[0]: row[1:]
            for row in db.execute("SELECT message_id, task_id, agent, kind, body FROM messages")
        }
        self._match_writes(events, messages)
        claims = db.execute("SELECT claim_id, task_id, agent, attempt, ended_by FROM claims").fetchall()
        self._match_claims(events, claims)
        self._check_tables(db, events, messages, claims)
        self._check_order()
        self._check_replies({claim_id: tuple(rest[:3]) for claim_id, *rest in claims})
        self._check_audit(db)
        self.figures["events"] = f"{len(events):,}, of these {len(self._times):,} placed in time by a call"
        counted = Counter(event for _, _, _, event, _ in events)
        self.figures["events by name"] = " ".join(
            f"{name}={count}" for name, count in sorted(counted.items())
        )

    def _fault(self, what: str) -> None:
        self.violations.append(what)

    def _replay(self, events: list[Any]) -> None:
        """After each event of a task, the task as history tells it."""
        for event_id, task_id, _, event, changes in events:
            places, states = self._states.setdefault(task_id, ([], []))
            state = dict(states[-1]) if states else {"attention": frozenset()}
            for name, (old, new) in changes.items():
                if name == "attention":
                    state[name] = state[name] ^ {old or new}
                elif event == "created" or name in state:
                    if event != "created" and name in SHOWN and state[name] != old:
                        self._fault(f"event {event_id}: {name} was {state[name]!r} and not {old!r}")
                    state[name] = new
                else:
                    state.setdefault(name, new) if name in SHOWN else None
            for name in SHOWN:
                state.setdefault(name, None)
            places.append(event_id)
            states.append(state)

    def _match_writes(self, events: list[Any], messages: dict[int, Any]) -> None:
        """Every acknowledged write is there once, every other one once or never, and nothing else is there."""
        marked = {(call.tool, call.mark): call for call in self._calls if call.mark}
        found: dict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
        kept: Counter[str] = Counter()
        for event_id, task_id, agent, event, changes in events:
            if event in _MARKS:
                tool, name = _MARKS[event]
                mark = changes[name][1] if name in changes else None
                if event == "released" and mark == NEVER_HANDED_OVER:
                    continue
                found[tool, mark].append((event_id, task_id, agent))
            elif event == "message_posted":
                message = messages.get(changes["message_id"][1])
                if message is None or message[:3] != (task_id, agent, changes["kind"][1]):
                    self._fault(f"event {event_id} tells of a message that is not there")
                elif message[2] == "late_result":
                    kept[message[3]] += 1
                else:
                    found["post_message", message[3]].append((event_id, task_id, agent))
        for key in found.keys() - marked.keys():
            self._fault(f"{key} is there and nobody wrote it")
        there_unanswered = Counter({"there": 0, "not there": 0})
        for key, call in marked.items():
            there = found.get(key, [])
            if len(there) > 1 or (call.reply and not there) or (call.refused and there):
                self._fault(f"{call}: {call.refused or call.reply}, and is there {len(there)} times")
            if call.is_unknown:
                there_unanswered["there" if there else "not there"] += 1
            if call.tool == "submit_result":
                wrong = kept[call.mark] > 1 or (call.reply and kept[call.mark])
                if wrong or (call.refused and call.is_kept != bool(kept[call.mark])):
                    self._fault(f"{call}: {call.refused}, kept {kept[call.mark]} times, said {call.is_kept}")
            for event_id, task_id, agent in there[:1]:
                meant = call.arguments.get("task_id") or (call.reply or {}).get("task_id") or task_id
                if (agent, task_id) != (call.agent, meant):
                    self._fault(f"{call}: stands as {agent}'s on task {task_id}")
                self._event_of[id(call)] = event_id
                self._times[event_id] = (call.start, self._recorded.latest(call), str(call))
        self.figures["writes without an answer"] = dict(there_unanswered)
        self.figures["refused results kept"] = kept.total()

    def _match_claims(self, events: list[Any], claims: list[Any]) -> None:
        """Every acknowledged claim is there, and its holder's knowledge of it bounds its time."""
        known: dict[str, list[Call]] = defaultdict(list)
        asked: dict[str, list[Call]] = defaultdict(list)  # claims by agent whose first answer is not known
        looks: dict[str, list[Call]] = defaultdict(list)
        acknowledged: dict[str, Call] = {}
        for call in self._calls:
            if call.tool in _CLAIMING and (call.is_unknown or call.sends > 1):
                asked[call.agent].append(call)
            if call.tool == "whoami" and call.reply:
                looks[call.agent].append(call)
                for task in call.reply["tasks"]:
                    known[task["claim_id"]].append(call)
            elif call.tool in _CLAIMING and call.reply and call.reply.get("claim_id"):
                known[call.reply["claim_id"]].append(call)
                acknowledged.setdefault(call.reply["claim_id"], call)
        at = {
            (task_id, changes["attempt"][1]): (event_id, agent)
            for event_id, task_id, agent, event, changes in events
            if event == "claimed"
        }
        undone = {(task_id, changes["attempt"][1]) for task_id, changes in self._undone(events)}
        unknown: Counter[str] = Counter()
        for claim_id, task_id, agent, attempt, _ in claims:
            there = at.pop((task_id, attempt), None)
            if there is None or there[1] != agent:
                self._fault(f"claim {attempt} of task {task_id} by {agent} has no event")
                continue
            first = acknowledged.get(claim_id)
            if first is None:
                unknown[agent] += 1
            elif (task_id, attempt) in undone:
                self._fault(f"{first}: was answered with a claim that was undone")
            if known[claim_id]:
                earliest = min(known[claim_id], key=lambda call: call.end)
                before = [look.start for look in looks[agent] if look.end < earliest.start][-2:]
                since = before[0] if len(before) == 2 else 0.0
                possible = [
                    earliest.start,
                    *(one.start for one in asked[agent] if since <= one.start <= earliest.end),
                ]
                if earliest.tool == "claim_next" and earliest.sends == 1:
                    possible = [earliest.start]
                self._times[there[0]] = (min(possible), earliest.end, str(earliest))
                if first is not None and first.tool == "claim_next":
                    self._event_of[id(first)] = there[0]
        for (task_id, attempt), (event_id, agent) in at.items():
            self._fault(f"event {event_id}: claim {attempt} of task {task_id} by {agent} is not in claims")
        there_ids = {claim_id for claim_id, *_ in claims}
        for claim_id, calls in known.items():
            if claim_id not in there_ids:
                self._fault(f"{calls[0]}: was acknowledged and is not there")
        sends = Counter()
        for agent, calls in asked.items():
            sends[agent] = sum(call.sends for call in calls)
        for agent, count in unknown.items():
            if count > sends[agent]:
                self._fault(
                    f"{agent} has {count} claims of which it was told nothing, for {sends[agent]} calls"
                )
        self.figures["claims"] = (
            f"{len(claims)}, {unknown.total()} of them never answered, {len(undone)} undone"
        )

    def _undone(self, events: list[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        for event_id, task_id, _, event, changes in events:
            if event == "released" and changes["reason"][1] == NEVER_HANDED_OVER:
                yield task_id, {"attempt": (None, self._at(task_id, event_id)["attempt"])}

    def _check_tables(
        self, db: sqlite3.Connection, events: list[Any], messages: Any, claims: list[Any]
    ) -> None:
        counted = Counter(event for _, _, _, event, _ in events)
        reviews = db.execute("SELECT count(*) FROM reviews").fetchone()[0]
        if (len(messages), reviews) != (counted["message_posted"], counted["reviewed"]):
            self._fault(f"{len(messages)} messages and {reviews} reviews, against {counted}")
        # a claim lasts from its event to the one that takes the task out of `claimed`: they may not overlap
        holder: dict[int, int] = {}
        ends: Counter[str] = Counter()
        for event_id, task_id, _, event, changes in events:
            was, becomes = changes.get("status", (None, None))
            if event == "claimed":
                if task_id in holder:
                    self._fault(f"event {event_id}: task {task_id} is claimed while it is held")
                holder[task_id] = event_id
            elif was == "claimed" and becomes != "claimed":
                if holder.pop(task_id, None) is None:
                    self._fault(f"event {event_id}: a claim of task {task_id} ends that nobody has")
                ends[event] += 1
            elif event == "submitted":  # late: the claim that had run out has brought its result after all
                ends["expired"] -= 1
                ends["submitted"] += 1
        ended_by = Counter(ended_by for *_, ended_by in claims)
        in_history = (ends["expired"], ends["submitted"], ends["cancelled"], len(holder))
        there = (ended_by["expired"], ended_by["submitted"], ended_by["cancelled"], ended_by[None])
        if in_history != there or len(claims) != ends.total() + len(holder):
            self._fault(f"claims ended by {ended_by}, history says {ends} and {len(holder)} still held")

    def _check_order(self) -> None:
        """No event stands before one whose call had ended before its own began."""
        soonest, of = math.inf, ""
        for event_id in sorted(self._times, reverse=True):
            not_before, not_after, what = self._times[event_id]
            if not_before > soonest:
                self._fault(f"event {event_id} ({what}) stands before that of {of}, which had ended by then")
            if not_after < soonest:
                soonest, of = not_after, what

    def _check_replies(self, claims: dict[str, tuple[int, str, int]]) -> None:
        ended = sorted((not_after, event_id) for event_id, (_, not_after, _) in self._times.items())
        begun = sorted((not_before, event_id) for event_id, (not_before, _, _) in self._times.items())
        ended_times, begun_times = [time for time, _ in ended], [time for time, _ in begun]
        newest, oldest = [0], [2**63]
        for _, event_id in ended:
            newest.append(max(newest[-1], event_id))
        for _, event_id in reversed(begun):
            oldest.append(min(oldest[-1], event_id))
        oldest.reverse()
        checked = 0
        for call in self._calls:
            for task_id, fits in told(call, claims):
                event_id = self._event_of.get(id(call))
                first = newest[bisect_left(ended_times, call.sent)]
                last = oldest[bisect_right(begun_times, call.end)] - 1
                if event_id is not None and (call.tool != "submit_result" or call.sends == 1):
                    first = last = event_id
                checked += 1
                states = list(self._between(task_id, first, last))
                if not any(map(fits, states)):
                    self._fault(
                        f"{call}: {call.reply or (call.refused, call.status)} fits no state of events {first} to {last}: "
                        f"{[{name: state[name] for name in ('status', 'attempt', 'assignee')} for state in states][:5]}"
                    )
        self.figures["answers held against history"] = checked

    def _at(self, task_id: int, event_id: int) -> dict[str, Any]:
        places, states = self._states[task_id]
        return states[bisect_right(places, event_id) - 1]

    def _between(self, task_id: int, first: int, last: int) -> Iterator[dict[str, Any]]:
        """The states that the task had from just after `first` to just before what follows `last`."""
        places, states = self._states.get(task_id, ([], []))
        yield from states[max(0, bisect_right(places, first) - 1) : bisect_right(places, last)]

    def _check_audit(self, db: sqlite3.Connection) -> None:
        """A row for each call that was answered, and for one that was not at most one each time it was sent."""
        least: Counter[tuple[str, str, str]] = Counter()
        spare: Counter[tuple[str, str]] = Counter()
        for call in self._calls:
            spare[call.agent, call.tool] += call.sends - (not call.is_unknown)
            if not call.is_unknown and call.reply != {"task": None}:
                least[call.agent, call.tool, call.refused or "ok"] += 1
            elif call.reply:
                spare[call.agent, call.tool] += 1  # a wait that ends empty has no row of its own
        rows = Counter(dict(_audited(db)))
        for key, count in least.items():
            if rows[key] < count:
                self._fault(f"{count} calls {key} were answered, and {rows[key]} are audited")
        for agent_tool, more in spare.items():
            audited = sum(count for key, count in rows.items() if key[:2] == agent_tool)
            answered = sum(count for key, count in least.items() if key[:2] == agent_tool)
            if audited > answered + more:
                self._fault(f"{agent_tool}: {audited} audited, {answered} answered and {more} not")
        self.figures["audited calls"] = rows.total()


def _audited(db: sqlite3.Connection) -> Iterator[tuple[tuple[str, str, str], int]]:
    for *key, count in db.execute(
        "SELECT agent, tool, outcome, count(*) FROM audit_log GROUP BY agent, tool, outcome"
    ):
        yield tuple(key), count

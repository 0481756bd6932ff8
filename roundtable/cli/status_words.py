"""How a running program stands, in words. Pure: from the values of a snapshot to one line of printable text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from supervisor.rules.text import in_one_line

Values = Mapping[str, Any]

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

_PLAIN_STATES: Final = {
    "starting": "starting",
    "waiting": "waiting for a task",
    "draining": "leaving",
    "stopped": "stopped",
}
_TIMED_STATES: Final = {
    "cooling_down": "cooling down, {} left",
    "backing_off": "backing off after failures, {} left",
    "at_cap": "at its cap, {} left",
    "board_away": "the board is away, asked again in {}",
    "restarting": "crashed, starts again in {}",
}
_CAPS: Final = {
    "hourly_cap": "at its cap of calls an hour, {} left",
    "daily_cap": "at its cap of tokens a day, {} left",
}
_HEALTH: Final = {
    "well": "well",
    "unknown": "not called yet",
    "cooling_down": "cooling down",
    "failing": "failing",
}
_IN_A_COUNT: Final = {
    **_HEALTH,
    "backing_off": "backing off",
    "at_cap": "at a cap",
    "board_away": "without the board",
}
_USERS_NAMED: Final = 3
_COST_MIN: Final = 0.0001
PARKED_ADVICE: Final = (
    "Who is parked takes no tasks until its entry in the roster, or its key in .env, has changed and SIGHUP was sent, "
    "or until a restart."
)


def duration(seconds: float) -> str:
    """About so long: the two largest units."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def state_of(worker: Values, now: str) -> str:
    """What the worker does, since when or for how long yet, and why."""
    state, until, reason = str(worker["state"]), worker.get("until"), worker.get("reason")
    tasks = _tasks_in_hand(worker["tasks"], now)
    if state == "working":
        words, tasks = f"working on {tasks}", ""
    elif state == "parked":
        since = worker["parked_since"]
        long = "" if since is None else f" for {duration(seconds_between(since, now))}"
        words = f"parked{long}: {in_one_line(str(reason))}"
    elif state in _TIMED_STATES:
        left = "a moment" if until is None else duration(seconds_between(now, until))
        words = _CAPS.get(str(reason), _TIMED_STATES[state]).format(left)
        if state == "board_away" and reason:
            words += f" ({in_one_line(str(reason))})"
    else:
        words = _PLAIN_STATES.get(state, in_one_line(state))
    if worker["restarts"] and state != "parked":
        words += f" (has crashed {_times(worker['restarts'])})"
    return f"{words}, with {tasks}" if tasks else words


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _tasks_in_hand(tasks: Sequence[Values], now: str) -> str:
    return ", ".join(
        f"task {task['task_id']} for {duration(seconds_between(task['since'], now))}" for task in tasks
    )


def calls_of(worker: Values) -> str:
    return f"{worker['calls_last_hour']:,} of {worker['max_calls_per_hour']:,}"


def tokens_of(worker: Values) -> str:
    """Of the last 24 hours. About as many where the provider did not count all of them."""
    words = f"{'about ' if worker['tokens_are_estimated'] else ''}{worker['tokens_last_day']:,}"
    if worker["max_tokens_per_day"] is not None:
        words += f" of {worker['max_tokens_per_day']:,}"
    return words


def cost_of(worker: Values) -> str:
    """Of the last 24 hours, in the currency of the roster's prices."""
    cost = worker["cost_last_day"]
    if cost is None:
        return "no price"
    if not cost:
        return "0"
    return f"under {_COST_MIN}" if cost < _COST_MIN else f"{cost:,.4f}"


def models_of(worker: Values) -> str:
    """In the order in which they are asked."""
    unusable = set(worker["unusable_models"])
    return ", else ".join(
        f"{in_one_line(name)} (not usable there)" if name in unusable else in_one_line(name)
        for name in (worker["model"], *worker["fallback_models"])
    )


def health_of(endpoint: Values, now: str) -> str:
    health = str(endpoint["health"])
    words = _HEALTH.get(health, in_one_line(health))
    if health == "cooling_down":
        words += f", {duration(seconds_between(now, endpoint['until']))} left"
    elif health == "failing":
        words += f" for {duration(seconds_between(endpoint['failing_since'], now))}"
    elif health == "unknown" and endpoint["last_call_at"] is not None:
        words = f"called {_ago(endpoint['last_call_at'], now)}, nothing back yet"
    return words


def answer_of(endpoint: Values, now: str) -> str:
    """When the last one came."""
    answered = endpoint["last_answer_at"]
    return "none" if answered is None else _ago(answered, now)


def failure_of(endpoint: Values, now: str) -> str:
    """Of which class the last one was, and when."""
    kind = endpoint["last_failure"]
    return "none" if kind is None else f"{in_one_line(kind)}, {_ago(endpoint['last_failure_at'], now)}"


def users_of(endpoint: Values) -> str:
    """The workers by name, as far as there is room."""
    names = [in_one_line(name) for name in endpoint["workers"]]
    if len(names) <= _USERS_NAMED:
        return ", ".join(names)
    named = names[: _USERS_NAMED - 1]
    return f"{', '.join(named)} and {len(names) - len(named)} more"


def _ago(moment: str, now: str) -> str:
    return f"{duration(seconds_between(moment, now))} ago"


def in_a_count(word: str) -> str:
    """A worker's state, or the health of an endpoint, behind the number of those for whom it is so."""
    return _IN_A_COUNT.get(word, in_one_line(word))


def is_notable(worker: Values) -> bool:
    """Whether the worker does something else than to wait for tasks and to work on them."""
    return worker["state"] not in {"starting", "waiting", "working"}


def is_in_trouble(endpoint: Values) -> bool:
    """Whether the last that was heard of the endpoint is no good news."""
    return endpoint["health"] not in {"well", "unknown"}


def board_lines(board: Values) -> list[str]:
    """The board in a few lines: how many, who waits, and what is wrong with it."""
    lines = []
    if "tasks" in board:
        lines.append("Tasks: " + ", ".join(f"{count:,} {status}" for status, count in board["tasks"].items()))
    else:
        lines.append(f"Tasks: not known, {in_one_line(str(board.get('problem')))}")
    waits, connections, head = board["waits"], board["connections"], board["audit_head"]
    lines.append(
        f"Calls that wait: {waits['for_tasks']} for a task, {waits['for_news']} for news. "
        f"Connections: {connections['trusted']} with a token, {connections['unknown']} without."
    )
    lines.append(f"Audit log: row {head['audit_id']:,}, head {head['sha256']}")
    if board["trouble"] is not None:
        lines.append(f"TROUBLE: {in_one_line(str(board['trouble']))}")
    return lines


def heading(snapshot: Values) -> str:
    if snapshot.get("board") is None:
        return f"Process {snapshot['process']}: a worker pool, whose board is at {in_one_line(str(snapshot['board_url']))}"
    version, url = in_one_line(str(snapshot["version"])), in_one_line(str(snapshot["url"]))
    return f"Roundtable {version}, process {snapshot['process']}, at {url}"

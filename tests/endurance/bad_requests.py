"""Bad requests of every kind against a real server, from a seed: nothing that a client sends makes it fail or grow.

python -m tests.endurance.bad_requests --seed 1 --count 100000
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

import trio

from tests.acceptance.programs import Program, open_program, write_agents
from tests.acceptance.seats import HttpSeat
from tests.endurance.report import Report, chance_of, main
from tests.fuzz.gun import Gun
from tests.fuzz.shots import FAMILIES, Shot, Shots

GUNS = 6
SETTLED_AFTER = 1_000
"""So many requests warm up caches and allocators; from there on memory has to stay where it is."""
GROWTH_MAX_KIB = 10 * 1024
PROBE_EVERY_SECONDS = 0.2
PROBE_MAX_SECONDS = 5.0
CLOSE_SECONDS = 5.0
SLOWER_MAX = 3.0
"""A probe may take so many times as long as in the first part of the run; more means that something piles up."""
_ROLES = {"lead": "leader", "anna": "worker", "bert": "worker"}
_TRACE = re.compile(r"Traceback|File \"|\.py\b|Error\b.*line \d+")


@dataclass
class Tally:
    """What came of the shots so far."""

    fired: int = 0
    families: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    probes: list[tuple[int, float]] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


async def bad_requests(folder: Path, seed: int, count: int) -> Report:
    report = Report(f"bad requests: {count}, seed {seed}")
    tokens = write_agents(folder, **_ROLES)
    settings = {"ROUNDTABLE_RATE_LIMIT_PER_MINUTE": "0"}
    tally = Tally()
    async with open_program("serve", folder=folder, settings=settings) as serve:
        url = await serve.url()
        shots = Shots(chance_of(seed), list(tokens.values()))
        started = trio.current_time()
        async with _probing(url, tokens["lead"], tally):
            await _fire(url, shots, min(count, SETTLED_AFTER), tally)
            settled_kib = rss_kib(serve)
            await _fire(url, shots, count - tally.fired, tally)
        seconds = trio.current_time() - started
        grown_kib = rss_kib(serve) - settled_kib
        report.expect(await _answers(url, tokens["lead"]), "the server does not answer any more")
        errors = [line for line in serve.err.lines if "[error" in line or "Traceback" in line]
        report.expect(not errors, f"{len(errors)} errors in the log, the first: {errors[:1]}")
    report.violations += tally.bad[:20]
    report.expect(not tally.bad[20:], f"and {len(tally.bad) - 20} more such answers")
    report.expect(
        grown_kib <= GROWTH_MAX_KIB, f"memory grew by {grown_kib} KiB since the first {SETTLED_AFTER}"
    )
    report.figures |= {
        "seconds": f"{seconds:.0f} ({tally.fired / seconds:.0f} requests a second)",
        "families": _listed(tally.families),
        "answers": _listed(tally.statuses),
        "memory": f"{settled_kib // 1024} MiB after {min(count, SETTLED_AFTER)}, {grown_kib:+} KiB at the end",
        **_probe_figures(tally, report),
    }
    return report


async def _fire(url: str, shots: Shots, count: int, tally: Tally) -> None:
    """Fire so many. The guns take the shots in turn, so which they are depends on the seed alone."""
    goal = tally.fired + count

    async def shoot() -> None:
        where = urlsplit(url)
        gun = Gun(str(where.hostname), int(where.port or 0))
        while tally.fired < goal:
            tally.fired += 1
            shot = shots.draw()
            answer = await gun.fire(shot)
            judge(shot, tally, answer.statuses, answer.data, answer.is_late)
        await gun.close()

    async with trio.open_nursery() as nursery:
        for _ in range(GUNS):
            nursery.start_soon(shoot)


def judge(shot: Shot, tally: Tally, statuses: tuple[int, ...], data: bytes, is_late: bool) -> None:
    """Count the answers to a shot, and keep those that should not be."""
    tally.families[shot.family] += 1
    tally.statuses.update(map(str, statuses) if statuses else ["none"])
    told = data.decode("latin-1")
    what = f"{shot.family} {shot.data[:2_000]!r} -> {told[:600]!r}"
    if any(status >= 500 for status in statuses):
        tally.bad.append(f"5xx: {what}")
    elif _TRACE.search(told):
        tally.bad.append(f"a traceback: {what}")
    elif '"code":"internal"' in told or "-32603" in told:
        tally.bad.append(f"a fault: {what}")
    elif is_late or (shot.is_whole and not statuses):
        tally.bad.append(f"no answer: {what}")


@asynccontextmanager
async def _probing(url: str, token: str, tally: Tally) -> AsyncIterator[None]:
    """Meanwhile, ask something sensible all the time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_probe, url, token, tally)
        yield
        nursery.cancel_scope.cancel()


async def _probe(url: str, token: str, tally: Tally) -> None:
    async with _seated(token) as seat:
        while True:
            before = trio.current_time()
            with trio.move_on_after(PROBE_MAX_SECONDS) as patience:
                await seat.call(url, "whoami")
            if patience.cancelled_caught:
                tally.bad.append(f"a sensible call was not answered within {PROBE_MAX_SECONDS:g} s")
            tally.probes.append((tally.fired, trio.current_time() - before))
            await trio.sleep(PROBE_EVERY_SECONDS)


async def _answers(url: str, token: str) -> bool:
    async with _seated(token) as seat:
        with trio.move_on_after(PROBE_MAX_SECONDS):
            return bool((await seat.call(url, "whoami"))["name"] == "lead")
        return False


@asynccontextmanager
async def _seated(token: str) -> AsyncIterator[HttpSeat]:
    seat = HttpSeat(token)
    try:
        yield seat
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await seat.aclose()


def _probe_figures(tally: Tally, report: Report) -> dict[str, object]:
    """How long sensible calls took, in each fifth of the run."""
    parts: list[list[float]] = [[] for _ in range(5)]
    for fired, seconds in tally.probes:
        parts[min(4, fired * 5 // max(1, tally.fired))].append(seconds)
    medians = [median(part) for part in parts if part]
    for number, value in enumerate(medians[1:], 2):
        report.expect(
            value <= SLOWER_MAX * medians[0], f"part {number} of the run: a call takes {value:.3f} s"
        )
    took = [seconds for _, seconds in tally.probes]
    slowest = quantiles(took, n=100)[-1] if len(took) > 1 else took[0]
    return {
        "a sensible call meanwhile": " ".join(f"{1000 * value:.0f}" for value in medians)
        + f" ms (median, in each fifth of the run); 99 % under {1000 * slowest:.0f} ms, all under {1000 * max(took):.0f} ms",
    }


def rss_kib(program: Program) -> int:
    """What the process holds in memory now."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


def _listed(counts: Counter[str]) -> str:
    order = [*FAMILIES, *sorted(counts)]
    return ", ".join(f"{name} {counts[name]}" for name in dict.fromkeys(order) if counts[name])


if __name__ == "__main__":
    main(bad_requests, __doc__ or "", size="count", default=100_000)

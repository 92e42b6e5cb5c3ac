"""The stopwatch: interleaved timing and correctness.

A *work* is one task on data of one size; building it gives a *case*: treadle's ways to do it (each
becomes a row), the peers' ways, the exact result in float64, and what a perfect program would have
to move or compute.  The ceiling is measured in the same rounds as the contenders: a copy of as many
bytes, or a loop of fused multiply-adds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

Run = Callable[[], Any]

#: A sample lasts at least this long: shorter calls are repeated within it.
SAMPLE_SECONDS = 2e-3
#: Before a sample: the threads of the contender before stop waiting actively for more work.
PAUSE_SECONDS = 4e-3

#: A peer whose error is above this did not do the work: its time does not count.  A peer that is
#: only less accurate than treadle must be does count, and the notes say so.
WRONG = 1e-2

#: Set by `--one-core`: one thread for everybody, and processor time, which other programs on the
#: machine disturb less.  Such results are for finding out why, not for the record.
ONE_CORE = "BENCHMARKS_ONE_CORE"
clock = process_time if os.environ.get(ONE_CORE) else perf_counter


# --- what is measured ------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A target: `factor` times as fast as peers, a share of the ceiling, or at most a value.

    `against`: "best" (of all peers), "copy", "fma", "value", or how the names of the peers start.
    """

    against: str
    factor: float

    def __str__(self) -> str:
        match self.against:
            case "value":
                return f"≤ {self.factor:g}"
            case "best":
                return f"≥ {self.factor:g} × the best peer"
            case "copy" | "fma":
                return f"≥ {self.factor:.0%} of {self.against}"
        return f"≥ {self.factor:g} × {self.against}"


@dataclass
class Case:
    """One task with its data.  `ours` and `peers` map names to functions that do the whole work.

    `exact` gives the result in float64 (or integers); `bytes` and `flops` are what the work cannot
    do without; `ceiling` is "copy", "fma", "fma64" or "" (none is known).
    """

    ours: Mapping[str, Run]
    peers: Mapping[str, Run]
    exact: Callable[[], Any]
    bytes: float = 0.0
    flops: float = 0.0
    ceiling: str = "copy"
    goals: Sequence[Goal] = ()
    tolerance: float = 1e-5
    error: Callable[[Any, Any], float] | None = None


@dataclass(frozen=True)
class Work:
    """A task that can be built and measured: `build` makes its data, only when it runs."""

    name: str
    group: str
    build: Callable[[], Case]


@dataclass
class Timing:
    """Seconds a call: median, quartiles, least, and how many samples."""

    median: float
    low: float
    high: float
    least: float
    samples: int
    error: float | None = None
    first: float | None = None


@dataclass
class Row:
    """A line of the table."""

    work: str
    group: str
    treadle: Timing | None
    peers: dict[str, Timing]
    unit: str = "ms"
    ratio: float | None = None  # the best peer's time over treadle's
    best: str | None = None
    ceiling: str = ""
    of_ceiling: float | None = None
    gbytes: float | None = None  # per second
    gflops: float | None = None
    target: str = ""
    met: bool | None = None
    correct: bool | None = None
    note: str = ""
    reason: str = ""
    value: float | None = None  # for overheads: the number in `unit`


def relative_error(found: Any, exact: Any) -> float:
    """The largest difference over the largest exact value, over all arrays of a result."""
    if isinstance(exact, tuple | list):
        if len(found) != len(exact):
            return float("inf")
        return max(relative_error(f, e) for f, e in zip(found, exact, strict=True))
    got, want = np.asarray(found), np.asarray(exact)
    if got.shape != want.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    worst, scale = 0.0, 0.0
    step = 1 << 22  # in pieces, so that checking needs little memory
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    for at in range(0, want.size, step):
        g = flat_got[at : at + step].astype(np.float64)
        w = flat_want[at : at + step].astype(np.float64)
        difference = np.max(np.abs(g - w))
        worst = max(worst, float(difference) if np.isfinite(difference) else float("inf"))
        scale = max(scale, float(np.max(np.abs(w))))
    return worst / scale if scale > 0 else worst


def mismatches(found: Any, exact: Any) -> float:
    """The share of elements that differ at all."""
    return float(np.mean(np.asarray(found) != np.asarray(exact)))


# --- timing ----------------------------------------------------------------------------------


Stopwatch = Callable[[str, Run, int], float]
"""Seconds a call of the contender `name`, over so many calls."""


def host_stopwatch(_: str, run: Run, calls: int) -> float:
    """By the host's clock."""
    sleep(PAUSE_SECONDS)
    if calls > 1:
        run()  # what another contender has pushed out of the caches comes back
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def round_robin(names: list[str], number: int) -> list[str]:
    """The order of a round.  Every second one is reversed, so that none always follows the same
    contender, whose threads may still be awake, or have sent another's to sleep."""
    start = number // 2 % len(names)
    order = names[start:] + names[:start]
    return order[::-1] if number % 2 else order


def interleave(
    runs: Mapping[str, Run], budget: float, most: int = 40, sample: Stopwatch = host_stopwatch
) -> dict[str, list[float]]:
    """Samples of every contender, interleaved: what disturbs the machine disturbs all alike.

    Every contender gets about `budget` seconds, but two samples at least; they must be warm.
    """
    samples: dict[str, list[float]] = {}
    calls: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for name, run in runs.items():
        once = sample(name, run, 1)
        for _ in range(2):  # the second and third call may still prepare those that follow
            if once <= 0.25:
                once = min(once, sample(name, run, 1))
        calls[name] = max(1, int(np.ceil(SAMPLE_SECONDS / max(once, 1e-9))))
        # A slow call is a good sample by itself; a quick one was only an estimate.
        samples[name] = [once] if once > 0.25 else []
        cost = once * (calls[name] + (calls[name] > 1))
        wanted[name] = int(min(most, max(2 if once > 0.25 else 5, budget / max(cost, 1e-9))))
    rounds = max(wanted.values(), default=0)
    for r in range(rounds):
        for name in round_robin(list(runs), r):
            due = (r + 1) * wanted[name] // rounds
            if len(samples[name]) < due:
                samples[name].append(sample(name, runs[name], calls[name]))
    return samples


def timing(samples: Sequence[float]) -> Timing:
    """Median and spread."""
    ordered = sorted(samples)
    if len(ordered) == 1:
        return Timing(ordered[0], ordered[0], ordered[0], ordered[0], 1)
    low, median, high = quantiles(ordered, n=4, method="inclusive")
    return Timing(median, low, high, ordered[0], len(ordered))


@dataclass
class Ceilings:
    """The two ceilings as contenders of their own; see works/ceilings.py."""

    copy: Callable[[float], Run]  # bytes, read and written together -> a copy of as many
    fma: Callable[[], tuple[Run, float]] | None = None  # -> a loop and its operations
    fma64: Callable[[], tuple[Run, float]] | None = None

    def arithmetic(self, name: str) -> tuple[Run, float]:
        """The loop `fma` or `fma64`; ValueError on a machine where nobody measures it."""
        loop = {"fma": self.fma, "fma64": self.fma64}[name]
        if loop is None:
            raise ValueError(f"a work asks for the ceiling {name!r}, which is not measured here")
        return loop()


def measure(
    work: Work, ceilings: Ceilings, budget: float, sample: Stopwatch = host_stopwatch
) -> list[Row]:
    """All rows of a work: warmed, checked, then timed interleaved."""
    case = work.build()
    exact = case.exact()
    error_of = case.error or relative_error
    firsts: dict[str, float] = {}
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    runs: dict[str, Run] = {}
    ours = {f"treadle {label}".strip(): run for label, run in case.ours.items()}
    for name, run in {**ours, **case.peers}.items():
        try:
            start = perf_counter()
            result = run()
            firsts[name] = perf_counter() - start
            errors[name] = error_of(result, exact)
            del result
            runs[name] = run
        except Exception as error:  # one contender that fails does not end the others' race
            failures[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    del exact
    flops = case.flops
    if case.ceiling == "copy":
        runs["ceiling"], quantity = ceilings.copy(case.bytes), case.bytes
        runs["ceiling"]()
    elif case.ceiling in ("fma", "fma64"):
        runs["ceiling"], quantity = ceilings.arithmetic(case.ceiling)
        runs["ceiling"]()
    measured = {n: timing(s) for n, s in interleave(runs, budget, sample=sample).items()}
    top = measured.pop("ceiling", None)
    for name, found in measured.items():
        found.error, found.first = errors[name], firsts[name]
    peers = {n: measured[n] for n in case.peers if n in measured}
    right = {n: t for n, t in peers.items() if t.error is not None and t.error <= WRONG}
    rows = []
    for name, label in zip(ours, case.ours, strict=True):
        row = Row(
            f"{work.name}, {label}" if label else work.name,
            work.group,
            measured.get(name),
            peers,
            ceiling=case.ceiling,
        )
        notes = [f"{n} failed: {failures[n]}" for n in (name, *case.peers) if n in failures]
        notes += [
            f"{n} is off by {t.error:.1e}{'' if n in right else ' and does not count'}"
            for n, t in peers.items()
            if t.error is None or t.error > case.tolerance
        ]
        row.note = "; ".join(notes)
        row.target = "; ".join(str(g) for g in case.goals)
        if row.treadle is None:
            row.met = False if case.goals else None
            row.correct = False
            rows.append(row)
            continue
        seconds = row.treadle.median
        row.correct = row.treadle.error is not None and row.treadle.error <= case.tolerance
        row.gbytes = case.bytes / seconds / 1e9 if case.bytes else None
        row.gflops = flops / seconds / 1e9 if flops else None
        if top is not None and case.ceiling == "copy":
            row.of_ceiling = top.median / seconds
        elif top is not None:
            row.of_ceiling = (flops / seconds) / (quantity / top.least)
        if right:
            row.best = min(right, key=lambda n: right[n].median)
            row.ratio = right[row.best].median / seconds
        row.met = judge(case.goals, row, right) if case.goals else None
        rows.append(row)
    return rows


def judge(
    goals: Sequence[Goal], row: Row, peers: Mapping[str, Timing] | None = None
) -> bool | None:
    """Whether every goal is met, against `peers` (all of the row's); None when unmeasured."""
    peers = row.peers if peers is None else peers
    verdicts: list[bool] = []
    for goal in goals:
        if goal.against == "value":
            if row.value is not None:
                verdicts.append(row.value <= goal.factor)
        elif goal.against in ("copy", "fma"):
            if row.of_ceiling is not None:
                verdicts.append(row.of_ceiling >= goal.factor)
        elif row.treadle is not None:
            chosen = [
                t.median
                for n, t in peers.items()
                if goal.against == "best" or n.startswith(goal.against)
            ]
            if chosen:
                verdicts.append(min(chosen) / row.treadle.median >= goal.factor)
    if row.correct is False:
        return False
    return all(verdicts) if verdicts else None

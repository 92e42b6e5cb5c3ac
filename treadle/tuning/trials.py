"""Trials of candidates: run, compare with the expected results, and time alternately."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_dtypes import finfo

from treadle.driver.arguments import bind
from treadle.dsl.graph import Matmul
from treadle.dsl.operations.algebra.product_way import ProductWay, why_closed
from treadle.skeletons.schedules.schedule import Schedule

from .candidates import Option, hinted
from .progress import Bar
from .table import Refusal, Timing

if TYPE_CHECKING:
    from treadle.dsl.graph import Node
    from treadle.dsl.graphs.names import Names
    from treadle.dsl.program import TracedProgram

ROUNDS = 5
SHORTEST = 2e-3  # seconds: shorter runs are timed in batches
LONG = 0.25  # seconds: one such run is a measurement
COMPILING = 10.0  # seconds that compiling for a first run may take
GAIN = 0.98  # a schedule replaces another if it takes less than this fraction of its time
SLOW = 4.0  # times slower than the fastest: rejected after one run
BRIEF = 5.0  # milliseconds
CONFIRM = 1.0  # seconds for confirming the winner against the unchanged operation
#: The number of additions assumed to be unordered if a program's results vary from run to run.
VARYING = 1 << 16


@dataclass
class Runner:
    """A candidate with correct results, and its times."""

    schedule: Option
    run: Callable[[], Any]
    wait: Callable[[], None]
    repeats: int = 1
    times: list[float] = field(default_factory=list)

    @property
    def ms(self) -> float:
        """The shortest time: interference from other processes only makes times longer."""
        return 1e3 * min(self.times)

    def once(self) -> tuple[Any, float]:
        """The result, and the seconds until it was available."""
        start = time.perf_counter()
        found = self.run()
        self.wait()
        return found, time.perf_counter() - start

    def measure(self) -> None:
        start = time.perf_counter()
        for _ in range(self.repeats):
            self.run()
        self.wait()
        self.times.append((time.perf_counter() - start) / self.repeats)


@dataclass(frozen=True)
class Subject:
    """An operation and its candidates."""

    operation: str
    node: Node
    names: Names
    options: list[Option]

    def rounding(self, option: Option) -> float:
        """The permitted difference of results in unit roundoffs: 0 except for products."""
        if not isinstance(option, ProductWay) or not isinstance(self.node, Matmul):
            return 0.0
        given = self.node.options
        levels = max(option.levels or 0, given.levels or (2 if given.fast else 0))
        return rounding(self.names.value(self.node.k) or VARYING, levels)

    def closed(self) -> list[str]:
        """Why there are no alternatives for a product."""
        return [why_closed(self.node)] if isinstance(self.node, Matmul) else []

    def hinted(self, best: Runner | None) -> list[Option]:
        """The best candidate so far with hints."""
        base = None if best is None else best.schedule
        if isinstance(base, ProductWay):
            return []
        size = self.names.size(self.node.leaves[0].shape)
        return hinted(self.names.program, self.node, base, size)


class Session:
    """One call of `tune`: its arguments, deadline and results so far."""

    def __init__(self, program: TracedProgram, args: Sequence[Any], started: float, budget: float
                 ) -> None:  # fmt: skip

        self.program = program
        data, self.params = bind(program, args)
        self.data = program.placed(data)  # copies to a GPU are not timed
        self.deadline = started + budget
        self.rows: list[Timing] = []
        self.refused: list[Refusal] = []
        self.winners: dict[str, Option] = {}
        self.notes: list[str] = []
        self.round_differently: set[str] = (
            set()
        )  # operations that round differently under every schedule
        self.runs = 0
        self.cut = False
        self.wanted = on_host(self._made({}).once()[0])
        self.varies = False  # whether the program rounds differently from run to run
        self.least, self.limit = math.inf, self.deadline

    @property
    def over(self) -> bool:
        return time.perf_counter() >= min(self.deadline, self.limit)

    def _made(self, overrides: Mapping[str, Any], schedule: Option = None) -> Runner:
        program = with_schedules(self.program, overrides) if overrides else self.program
        _ = program.executable  # compiles as far as possible without arrays

        def run() -> Any:
            self.runs += 1
            return program.execute(self.data, self.params)

        return Runner(schedule, run, program.wait)

    def runner(self, subject: Subject, option: Option) -> Runner | None:
        """A candidate after a warm-up run; None if it is rejected: illegal, not compilable or
        launchable, or with different results."""
        overrides = {**self.winners} if option is None else {
            **self.winners, subject.operation: option}  # fmt: skip
        try:
            made = self._made(overrides, option)
            found, first = made.once()
            if not self._as_expected(subject, option, on_host(found)):
                return None
            # A first run may include compilation: only a much longer time shows that the candidate
            # is slow.
            slow = first > SLOW * self.least + COMPILING
            once = first if slow else made.once()[1]
            if once >= LONG:
                made.times.append(once)
        except Exception as error:  # any exception of a compiler, driver or library
            if option is None:
                raise
            self._refuse(subject, option, reason_of(error))
            return None
        self.least = min(self.least, once)
        made.repeats = max(1, math.ceil(SHORTEST / max(once, 1e-7)))
        return made

    def _as_expected(self, subject: Subject, option: Option, found: list[Any]) -> bool:
        """Whether results are as expected; if not, the candidate is rejected."""
        allowed = subject.rounding(option)
        if self.varies:
            allowed = max(allowed, rounding(VARYING))
        why = difference(found, self.wanted, allowed)
        if not why:
            return True
        if option is None:  # unordered float additions, by atomics
            self.varies = True
            return True
        self._refuse(subject, option, f"its results differ: {why}", differs=True)
        if not difference(found, self.wanted, rounding(VARYING, 1)):
            if not isinstance(option, ProductWay):  # separable stencils
                self.round_differently.add(subject.operation)
                self.notes.append(f"{subject.operation}: every schedule has those results: no "
                                  "other is tried")  # fmt: skip
        else:
            warnings.warn(
                f"tune: {subject.operation} under {option!r} gives another result: {why}. It is "
                "refused: no schedule may do that.",
                RuntimeWarning,
                stacklevel=2,
            )
        return False

    def _refuse(self, subject: Subject, option: Option, why: str, differs: bool = False) -> None:
        self.refused.append(Refusal(subject.operation, option, why, differs))

    def tune(self, subject: Subject, left: int, bar: Bar) -> None:
        """Find the best candidate of one operation, with `left` operations remaining.  Timings are
        kept even if interrupted."""
        now = time.perf_counter()
        self.limit = now + (self.deadline - now) / left
        runners: list[Runner] = []
        try:
            best = self.try_all(subject, subject.options, bar, runners)
            more = [] if best is None or self.over else subject.hinted(best)
            bar.more(len(more))
            if more and best is not None:
                best = self.try_all(subject, more, bar, runners, best)
            if (
                best is None
                or best.schedule is None
                or not self._confirmed(subject, best, runners[0])
            ):
                return
        finally:
            self.rows += [Timing(subject.operation, r.schedule, r.ms) for r in runners if r.times]
        self.winners[subject.operation] = best.schedule
        if isinstance(best.schedule, ProductWay):  # later comparisons use these results
            self.wanted = on_host(best.run())
            self.varies |= bool(difference(on_host(best.run()), self.wanted))

    def try_all(self, subject: Subject, tried: Sequence[Option], bar: Bar,
                runners: list[Runner], known: Runner | None = None) -> Runner | None:  # fmt: skip
        """The best of all options for one operation and of `known`, timed round-robin.  Candidates
        slower than SLOW are dropped after one run, the slower half in each round after the second.
        All candidates that run are appended to `runners`."""
        active: list[Runner] = [] if known is None else [known]
        for option in tried:
            if isinstance(option, Schedule) and subject.operation in self.round_differently:
                continue
            if runners and (self.over or self._no_time()):
                self.cut = True
                break
            made = self.runner(subject, option)
            if made is not None:
                runners.append(made)
                active.append(made)
                if not (made.times or self._measured(subject, made)):
                    active.remove(made)
            bar.tick(subject.operation, min((r.ms for r in active), default=None))
        all_of_them = list(active)
        rounds = ROUNDS if self.least < LONG else 3 if self.least < 8 * LONG else 2
        for k in range(1, rounds):
            # Very short candidates get a second round: the machine may have been busy.
            fastest = max(min((r.ms for r in active), default=0.0), BRIEF if k == 1 else 0.0)
            active = [r for r in active if r.ms <= SLOW * fastest]
            if k > 2:
                active = sorted(active, key=lambda r: r.ms)[: max(2, (len(active) + 1) // 2)]
            for r in list(active):
                if self.over:
                    break
                if not self._measured(subject, r):
                    active.remove(r)
                    all_of_them.remove(r)
        best: Runner | None = winner_of([r for r in all_of_them if r.times])
        return best

    def before_and_after(self) -> tuple[float, float]:
        """Milliseconds of the unchanged program and under all winners, timed alternately."""
        both = [self._made({}), *([self._made(self.winners)] if self.winners else [])]
        took = 0.0
        for r in both:
            r.once()  # the combination of winners may have to be compiled
            once = r.once()[1]
            r.repeats = max(1, math.ceil(SHORTEST / max(once, 1e-7)))
            took += max(once, SHORTEST)
        for _ in range(max(1, min(ROUNDS, int(CONFIRM / took)))):
            for r in both:
                r.measure()
        return both[0].ms, both[-1].ms

    def _measured(self, subject: Subject, runner: Runner) -> bool:
        """Whether a candidate that ran before could be timed; if not, it is rejected."""
        try:
            runner.measure()
        except Exception as error:  # as in `runner`
            if runner.schedule is None:
                raise
            runner.times.clear()
            self._refuse(subject, runner.schedule, reason_of(error))
            return False
        return True

    def _confirmed(self, subject: Subject, best: Runner, plain: Runner) -> bool:
        """Whether the winner is also faster than the unchanged operation in new alternating runs:
        the fastest of many candidates may be so by chance."""
        took = max(plain.times[-1] * plain.repeats, 1e-6)
        rounds = max(1, min(ROUNDS, int(CONFIRM / took)))
        before = len(best.times), len(plain.times)
        for _ in range(rounds):
            if not self._measured(subject, best):
                return False
            plain.measure()
        return min(best.times[before[0] :]) < GAIN * min(plain.times[before[1] :])

    def _no_time(self) -> bool:
        """Whether a candidate as fast as the best would exceed the deadline."""
        return time.perf_counter() + 2 * self.least > self.deadline


def reason_of(error: Exception) -> str:
    """The first line of an error.

    >>> reason_of(RuntimeError("CUDA_ERROR_INVALID_VALUE\\nmore"))
    'RuntimeError: CUDA_ERROR_INVALID_VALUE'
    """
    text = str(getattr(error, "message", None) or error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"


def winner_of(found: Sequence[Any]) -> Any:
    """The fastest of runners or timings; the first one (the unchanged operation, or the previous
    best) unless the gain is clear."""
    best = min(found, key=lambda r: r.ms, default=None)
    if best is None or best.ms < GAIN * found[0].ms:
        return best
    return found[0]


def with_schedules(program: TracedProgram, schedules: Mapping[str, Any]) -> TracedProgram:
    """The program with further schedules, or ways to compute products, in its `overrides`."""
    return program.scheduled(**schedules)


# --- Comparing the results of two schedules: equal in all bits, or how they differ ----------------
# No schedule changes a bit.  Products of floats by another algorithm or execution round
# differently: they may differ by `rounding`, which is far above their actual differences
# (docs/accuracy.md) and far below the effect of one wrong element.

#: The permitted error of an element of a standard product, in unit roundoffs of the largest element
#: times the root of the inner extent; and the factor per level of a fast algorithm.
UNITS, LEVEL = 8.0, 4.0


def leaves(value: Any) -> Iterator[Any]:
    """The arrays of a result, from nested tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for v in value:
            yield from leaves(v)
    elif hasattr(value, "__dataclass_fields__"):
        yield from leaves([getattr(value, f) for f in value.__dataclass_fields__])
    else:
        yield value


def on_host(value: Any) -> list[Any]:
    """The arrays of a result, as NumPy arrays."""
    return [
        x.get() if hasattr(x, "__cuda_array_interface__") else np.asarray(x) for x in leaves(value)
    ]


def rounding(inner: int, levels: int = 0) -> float:
    """The permitted difference between products of floats, in unit roundoffs of the largest
    element, for sums of `inner` products and `levels` levels of a fast algorithm.

    >>> rounding(4096), rounding(4096, 1)
    (512.0, 2048.0)
    """
    return float(UNITS * LEVEL**levels * max(inner, 1) ** 0.5)


def difference(found: Sequence[Any], wanted: Sequence[Any], allowed: float = 0.0) -> str:
    """How two results differ, in words; "" if they do not.

    `allowed`: the permitted difference of arrays of floats, in unit roundoffs of the largest
    element (0: all bits must be equal).

    >>> difference([np.array([1.0, 2.5])], [np.array([1.0, 2.0])])
    '1 of 2 elements differ, by up to 0.25 of the largest'
    >>> difference([np.array([1.0, 2.0000001])], [np.array([1.0, 2.0])], 1e9)
    ''
    """
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for x, y in zip(found, wanted, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{x.dtype}{list(x.shape)} instead of {y.dtype}{list(y.shape)}"
        text = "" if np.array_equal(_bytes(x), _bytes(y)) else _array_difference(x, y, allowed)
        if text:
            return text
    return ""


def _unit_roundoff(dtype: Any) -> float:
    """The unit roundoff of a float type of NumPy or ml_dtypes."""
    found: Any = finfo
    return float(found(dtype).eps) / 2


def _bytes(x: Any) -> Any:
    """An array of shape (elements, bytes per element)."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, x.itemsize)


def _array_difference(x: Any, y: Any, allowed: float) -> str:
    """Of two arrays whose bits differ."""
    count = int(np.count_nonzero((_bytes(x) != _bytes(y)).any(1)))
    text = f"{count:,} of {x.size:,} elements differ"
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = x.astype(wide), y.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite):
            return f"{text}, some in being finite"
        largest = float(np.abs(b[finite]).max(initial=0.0))
        most = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    part = most / largest if largest else most
    others = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    explained = 0.0 if x.dtype.kind in "biu" else allowed * _unit_roundoff(x.dtype)
    if explained and part <= explained and others:
        return ""
    text += f", by up to {part:.2g} of the largest"
    return text + (f" (rounding explains {explained:.2g})" if explained else "")

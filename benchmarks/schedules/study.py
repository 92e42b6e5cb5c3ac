"""Which schedule for which operation?  Programs × schedules, measured and predicted.

    python -m benchmarks.schedules.study [--backend native|cuda] [--quick] [--only NAME …]
                                         [--processes N] [--unseen]

Every program of `programs.py` runs under every schedule that is legal for it, interleaved, with
warm and with cold caches.  A schedule is compared with its control, row order with the same block
shape; otherwise a gain might come from the block alone.  Predictions come from the access analysis,
without a run.  With --processes, N processes lower and compile at the same time, and one at a time
runs (30 programs on an H200: a minute).

Prints a line per program; writes JSON and a table in Markdown to benchmarks/results.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import treadle as td
from benchmarks import harness, provenance
from benchmarks.schedules.programs import STUDY, Study
from benchmarks.schedules.ranks import correlation
from benchmarks.schedules.summary import summary, table
from benchmarks.schedules.unseen import UNSEEN
from treadle.backend.cuda.availability import DEFAULT_ARCH
from treadle.backend.cuda.compile.nvrtc import compile_kernel
from treadle.backend.cuda.source import kernels_of
from treadle.dsl.graph import Fold, Generate, Node, Permute, topological
from treadle.dsl.graphs.names import Names
from treadle.skeletons.access.maps import kernel_maps
from treadle.skeletons.model.choose import Decider, has_choice
from treadle.skeletons.model.device import device_of
from treadle.skeletons.model.folds import predict_fold
from treadle.skeletons.model.time import predict
from treadle.skeletons.schedules import as_schedule

HERE = Path(__file__).resolve().parent
S = td.schedule
BLOCKS = ((1, 256), (8, 32), (16, 16), (32, 8))
#: Bytes moved between two cold samples.
FLUSH = {"native": 128 << 20, "cuda": 256 << 20}
#: The CPU has a hundredth of the arithmetic: a quarter of the extents.
DIVIDE = {"native": 4, "cuda": 1}


def schedules() -> dict[str, Any]:
    """By name: the default, `Auto`, orders of threads, orders of blocks, and what else there is."""
    made: list[Any] = [
        S.Row(), S.Column(8), S.Column(32), S.Column(256), S.Column(1024), S.ZigZag(128),
        S.Tile(8, 32), S.Morton(), S.Hilbert(),
        *(S.Row() | S.Block(*b) for b in BLOCKS),
        *(order | S.Block(8, 32) for order in (
            S.Column(64), S.Column(256), S.Column(1024), S.ZigZag(128), S.ZigZag(512),
            S.Swizzle(8), S.Morton(), S.Hilbert())),
        S.Column(256) | S.Block(1, 256), S.Column(256) | S.Block(32, 8),
        S.Hilbert() | S.Block(16, 16),
        S.Row() | S.Block(8, 32) | S.PerThread(rows=4),
        S.Row() | S.Block(8, 32) | S.PerThread(cols=4),
        S.Row() | S.Block(8, 32) | S.Hints(stream="evict_first"),
        S.Row() | S.Block(8, 32) | S.Hints(stores="streaming"),
        S.Row() | S.Block(8, 32) | S.Hints(horizontal="no_l1", vertical="no_l1"),
        S.Row() | S.Block(8, 32) | S.Clusters(4),
        S.Row() | S.Block(8, 32) | S.Agents(2),
    ]  # fmt: skip
    return {"default": None, "Auto()": S.Auto(), **{repr(s): s for s in made}}


def control(name: str) -> str:
    """The row order with the block of a schedule: all that differs is what is asked about."""
    block = next((repr(S.Block(*b)) for b in BLOCKS if repr(S.Block(*b)) in name), None)
    return "Row()" if block is None else f"Row() | {block}"


@dataclass
class Measured:
    """Seconds; `predicted` None where the analysis has no answer; `same`: bit for bit as in row
    order; `once`: many times slower than the fastest, and so measured only once; `apart`: how far
    the middle half of its warm samples spreads, as a part of the median (None: not recorded)."""

    warm: float
    cold: float
    predicted: float | None = None
    same: bool = True
    once: bool = False
    apart: float | None = None


@dataclass
class Result:
    """All about one program; `refused`: why a schedule is not legal for it; `chosen`: by the
    analysis, where nothing is asked for ("": as it is done without a choice)."""

    program: str
    kind: str
    measured: dict[str, Measured] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    chosen: str = ""

    @property
    def best(self) -> str:
        """The fastest of the schedules that were tried one by one."""
        tried = (n for n in self.measured if n not in ("default", "Auto()"))
        return min(tried, key=lambda n: self.measured[n].warm)

    @property
    def turned(self) -> str:
        """The order, hint or residency that gains most over its control; outputs per thread are
        another matter."""
        tried = [
            n for n in self.measured if n not in ("default", "Auto()") and "PerThread" not in n
        ]
        return max(tried, key=self.over_control)

    def over_control(self, name: str) -> float:
        """How much faster a schedule is than its control."""
        held = self.measured.get(control(name))
        return held.warm / self.measured[name].warm if held else 1.0

    @property
    def gain(self) -> float:
        """How much faster than its control `turned` is."""
        return self.over_control(self.turned)

    @property
    def auto(self) -> float | None:
        """The time of `Auto()` over that of the best of all."""
        if "Auto()" not in self.measured:
            return None
        least = min(m.warm for m in self.measured.values())
        return self.measured["Auto()"].warm / least

    @property
    def predicted(self) -> list[tuple[float, float]]:
        """(predicted, measured) seconds of all schedules that the analysis knows."""
        found = self.measured.items()
        return [(m.predicted, m.warm) for n, m in found if m.predicted and n != "Auto()"]

    @property
    def rank(self) -> float | None:
        """Spearman's correlation of predicted and measured time, of `levels`."""
        return correlation(self.predicted)

    @property
    def untied(self) -> float | None:
        """The same of the times as they are, however close."""
        return correlation(self.predicted, tied=False)

    @property
    def spread(self) -> float:
        """The slowest of the times that are predicted over the fastest."""
        times = [t for _, t in self.predicted] or [1.0]
        return max(times) / min(times)


class Machine:
    """Where it runs: how data gets there, the stopwatch, and what empties the caches."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        if backend == "cuda":
            from benchmarks.gpu import device
            from benchmarks.gpu_works.common import cp, sample

            self.put: Callable[[Any], Any] = cp.asarray
            self.sample: harness.Stopwatch = sample
            self.behind: Callable[[Callable[[], Any]], float] = _behind
            spoiler = cp.zeros(FLUSH[backend], np.uint8)
            self.about = device
        else:
            self.put, self.sample = (lambda x: x), harness.host_stopwatch
            self.behind = lambda run: self.sample("", run, 1)
            spoiler = np.zeros(FLUSH[backend], np.uint8)
            self.about = provenance.processor
        self._spoiler = spoiler

    def typical(self, samples: Sequence[float]) -> float:
        """The median; on a CPU, which other programs disturb, the least."""
        return median(samples) if self.backend == "cuda" else min(samples)

    def flush(self) -> None:
        """Move something else through the caches."""
        self._spoiler += 1

    def cold(self, run: Callable[[], Any], times: int) -> float:
        """The median of calls after `flush`."""
        found = []
        for _ in range(times):
            self.flush()
            found.append(self.behind(run))
        return median(found)


def _behind(run: Callable[[], Any]) -> float:
    """Seconds of one call on a GPU that is still busy: what the host does for it is hidden."""
    import cupy

    first, second = cupy.cuda.Event(), cupy.cuda.Event()
    first.record()
    run()
    second.record()
    second.synchronize()
    return float(cupy.cuda.get_elapsed_time(first, second)) / 1e3


def operation(program: Any) -> Node:
    """The node called "op"."""
    return next(n for n in topological(program.roots) if n.label.name == "op")


def prepared(case: Study, backend: str, divide: int
             ) -> tuple[Any, Sequence[Any], dict[str, Any], dict[str, str]]:  # fmt: skip
    """The program, its arguments on the host, itself under every legal schedule, compiled, and why
    the others are refused.  Nothing runs."""
    function, args = case.build(lambda extent: max(extent // divide, 16))
    base = td.jit(function, backend=backend).lower(*args)
    programs: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, schedule in schedules().items():
        try:
            program = base if schedule is None else base.scheduled(op=schedule)
            if backend == "cuda":
                program.executable.calls.compile()
        except td.TreadleError as error:
            refused[name] = str(error).splitlines()[0]
            continue
        programs[name] = program
    return base, args, programs, refused


def study(case: Study, machine: Machine, divide: int, budget: float,
          alone: AbstractContextManager[Any]) -> Result:  # fmt: skip
    """One program under all schedules; it runs while it holds `alone`."""
    base, args, programs, refused = prepared(case, machine.backend, divide)
    predicted, chosen = predictions(base, programs)
    result = Result(case.name, case.kind, refused=refused, chosen=chosen)
    with alone:
        given = [machine.put(a) for a in args]
        runs: dict[str, Callable[[], Any]] = {}
        same: dict[str, bool] = {}
        order = ["Row()", *(n for n in programs if n != "Row()")]
        plain: Any = None
        for name in (n for n in order if n in programs):
            program = programs[name]
            try:
                answer = program(*given)
            except td.TreadleError as error:
                refused[name] = str(error).splitlines()[0]
                continue
            plain = answer if plain is None else plain
            same[name] = bool((answer == plain).all())
            runs[name] = partial(program, *given)
        warm, slow = timed(runs, machine, budget)
        for name in (n for n in programs if n in runs):
            found = machine.typical(warm[name])
            times = 1 if name in slow else 3 if found > 5e-3 else 9
            cold = machine.cold(runs[name], times)
            result.measured[name] = Measured(
                found, cold, predicted.get(name), same[name], name in slow,
                None if name in slow else middle_half(warm[name]) / found)  # fmt: skip
    return result


def middle_half(samples: Sequence[float]) -> float:
    """How far apart the quartiles are."""
    low, high = np.quantile(samples, (0.25, 0.75))
    return float(high - low)


#: A schedule so many times slower than the fastest, and slower than so many seconds, is measured
#: once.
HOPELESS, LONG = 4.0, 5e-3


def timed(runs: Mapping[str, Callable[[], Any]], machine: Machine, budget: float
          ) -> tuple[dict[str, list[float]], set[str]]:  # fmt: skip
    """Samples of every run, interleaved, and the names of those that got only one."""
    once = {name: machine.sample("", run, 1) for name, run in runs.items()}
    limit = max(HOPELESS * min(once.values(), default=0.0), LONG)
    slow = {name for name, seconds in once.items() if seconds > limit}
    rest = {name: run for name, run in runs.items() if name not in slow}
    samples = harness.interleave(rest, budget, sample=machine.sample)
    return {**samples, **{name: [once[name]] for name in slow}}, slow


# --- by several processes ---------------------------------------------------------------------

#: Held by the process that runs.
_alone: AbstractContextManager[Any] = nullcontext()


def _begin(alone: Any) -> None:
    global _alone
    _alone = alone


def _one(name: str, backend: str, divide: int, budget: float) -> Result:
    case = next(c for c in (*STUDY, *UNSEEN) if c.name == name)
    try:
        return study(case, Machine(backend), divide, budget, _alone)
    finally:
        gc.collect()


def results_of(cases: Sequence[Study], backend: str, divide: int, budget: float, processes: int
               ) -> Iterator[Result]:  # fmt: skip
    """The results as they come, by so many processes (0: by this one)."""
    if not processes:
        yield from (_one(c.name, backend, divide, budget) for c in cases)
        return
    spawned = get_context("spawn")
    with ProcessPoolExecutor(processes, spawned, _begin, (spawned.Lock(),)) as pool:
        asked = [pool.submit(_one, c.name, backend, divide, budget) for c in cases]
        for done in as_completed(asked):
            yield done.result()


def _whole(schedule: Any) -> Any:
    return None if schedule is None else as_schedule(schedule)


def registers(program: Any) -> tuple[int, bool]:
    """Of a thread of the first kernel of the fold in a program, as compiled for an H200, and
    whether they are too few: that needs no GPU.  The kernel for short rows, of which no block runs
    here, is not it."""
    kernels = (chain[0] for chain in kernels_of(operation(program), DEFAULT_ARCH))
    made = compile_kernel(next(k for k in kernels if "short" not in k.name), DEFAULT_ARCH)
    return made.registers, made.spills > 0


def predictions(base: Any, programs: Iterable[str]) -> tuple[dict[str, float], str]:
    """Seconds by schedule, from the access analysis, nothing is run; and what is chosen where
    nothing is asked for.  Of folds on a CPU the analysis says nothing."""
    node = operation(base)
    maps = kernel_maps(node, Names(base).known)
    gpu = base.backend == "cuda"
    known = (Generate, Permute, Fold) if gpu else (Generate, Permute)
    if maps is None or not isinstance(node, known):
        return {}, ""
    device, found = device_of(base), {}
    given = schedules()
    decide = Decider(node, device) if has_choice(node, gpu) else None
    choice = None if decide is None else decide.choice(Names(base).known)
    for name in programs:
        schedule = _whole(given[name])
        if name in ("default", "Auto()"):
            schedule = None if choice is None else choice.schedule
        # A block may have more axes than the operation.
        with suppress(td.ScheduleError):
            if isinstance(node, Fold):
                taken = registers(base if schedule is None else base.scheduled(op=schedule))
                found[name] = predict_fold(maps, schedule, device, *taken)
            else:
                found[name] = predict(maps, schedule, device).seconds
    return found, "" if choice is None or choice.schedule is None else repr(choice.schedule)


def read(path: Path) -> tuple[list[Result], dict[str, Any]]:
    """A study and what is known about it, from its file."""
    about = json.loads(path.read_text(encoding="utf-8"))
    results = []
    for found in about.pop("results"):
        made = Result(**{**found, "measured": {}})
        made.measured = {n: Measured(**m) for n, m in found["measured"].items()}
        results.append(made)
    return results, about


def write(path: Path, results: Sequence[Result], about: Mapping[str, Any]) -> None:
    """JSON, and the table beside it."""
    data = {**about, "results": [asdict(r) for r in results]}
    provenance.write_results(path, table(results, about), data)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.study",
                                     description=__doc__.splitlines()[0])  # fmt: skip
    parser.add_argument("--backend", choices=("native", "cuda"), default="native")
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer repetitions")
    parser.add_argument("--tiny", action="store_true", help="only to see that everything runs")
    parser.add_argument("--unseen", action="store_true",
                        help="programs that the model's constants have not seen")  # fmt: skip
    parser.add_argument("--only", nargs="*", default=[], help="programs whose name contains this")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--processes", "--compile-first", type=int, default=0, metavar="N",
                        help="lower and compile by N processes, one of which runs")  # fmt: skip
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 when an order changed a result."""
    options = arguments(argv)
    if options.backend == "cuda":
        from benchmarks.gpu import require_gpu

        require_gpu()
    started = perf_counter()
    divide = DIVIDE[options.backend] * (2 if options.quick else 1)
    divide = 64 if options.tiny else divide
    budget = 0.0 if options.tiny else 0.01 if options.quick else 0.03
    found: dict[str, Result] = {}
    cases = [
        c
        for c in (UNSEEN if options.unseen else STUDY)
        if not options.only or any(o.lower() in c.name.lower() for o in options.only)
    ]
    where = "gpu" if options.backend == "cuda" else "cpu"
    part = "-partial" if options.quick or options.only else ""
    kind = "unseen" if options.unseen else "schedules"
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    path = options.out or HERE.parent / "results" / f"{kind}-{where}-{today}{part}.json"
    about = {
        **provenance.about("Which schedule for which operation?", Machine(options.backend).about()),
        "backend": options.backend,
    }
    for result in results_of(cases, options.backend, divide, budget, options.processes):
        found[result.program] = result
        results = [found[c.name] for c in cases if c.name in found]
        if not options.tiny or options.out is not None:
            about["seconds"] = round(perf_counter() - started, 1)
            write(path, results, about)  # after each: an interrupted study has what it measured
        auto = "" if result.auto is None else f", Auto {result.auto:.2f}"
        rank = "" if result.rank is None else f", Spearman {result.rank:.2f}"
        best = result.measured[result.best]
        print(f"{result.program:28} best {best.warm * 1e3:9.4g} ms {result.best}; order alone "
              f"{result.gain:.2f} × {result.turned}{auto}{rank}", flush=True)  # fmt: skip
    print("\n".join(summary(results)))
    if not options.tiny or options.out is not None:
        print(f"wrote {path} and its table")
    wrong = any(not m.same for r in results for n, m in r.measured.items()
                if n not in ("default", "Auto()"))  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

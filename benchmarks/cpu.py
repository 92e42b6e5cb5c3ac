"""Measures treadle on the CPU against NumPy, SciPy, Numba and JAX.

    python -m benchmarks.cpu [--quick] [--only NAME] [--out benchmarks/results/mine.json]

Prints a table; writes JSON, the table in Markdown, and a picture.  A full run takes some minutes
and needs an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from benchmarks import harness, reporting

HERE = Path(__file__).resolve().parent
NOTES = HERE / "NOTES-cpu.md"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    first_line = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description=first_line)
    parser.add_argument(
        "--quick", action="store_true", help="smaller data and fewer repetitions: about a minute"
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="tiny data: checks every result; the times mean nothing",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only workloads whose name or group contains NAME (may be repeated)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help="the file for the results (default: benchmarks/results/cpu-<date>.json)",
    )
    parser.add_argument("--backend", default="native", help="treadle's backend")
    parser.add_argument(
        "--one-core",
        action="store_true",
        help="one thread for every library, and processor time: for analysis",
    )
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    return parser.parse_args(argv)


def one_line(row: harness.Row) -> str:
    work, mine, peers, ratio, of, _, met, error = reporting.cells(row)
    parts = [
        f"{work}: treadle {mine}",
        peers and f"({peers})",
        ratio and f"× {ratio}",
        of,
        error and f"error {error}",
        met and f"target met: {met}",
        row.note,
    ]
    return "  ".join(p for p in parts if p)


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a result is wrong or a workload failed."""
    options = arguments(argv)
    if options.one_core and not os.environ.get(harness.ONE_CORE):
        alone("benchmarks.cpu", sys.argv[1:] if argv is None else argv)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # peers on the CPU, also where there is a GPU
    started = perf_counter()
    from benchmarks.works import (
        ceilings,
        elementwise,
        folds,
        loops,
        moving,
        overheads,
        products,
        stencils,
    )
    from benchmarks.works.common import Scale, jax

    scale = Scale("tiny" if options.tiny else "quick" if options.quick else "full", options.backend)
    budget = {"full": 0.45, "quick": 0.15, "tiny": 0.0}[scale.name]
    wanted_names = [name.lower() for name in options.only]

    def wanted(*names: str) -> bool:
        return not wanted_names or any(w in n.lower() for w in wanted_names for n in names)

    works = [
        work
        for module in (elementwise, stencils, folds, moving, products, loops)
        for work in module.works(scale)
        if wanted(work.name, work.group)
    ]
    if options.list:
        print("\n".join(f"{w.group}: {w.name}" for w in works))
        return 0
    if jax is None:
        print("JAX is not installed: its columns stay empty (pip install jax)", file=sys.stderr)

    report = reporting.Report(scale.name)
    copies = ceilings.Copies()
    top = harness.Ceilings(copies, ceilings.fma, ceilings.fma64)
    report.ceilings = peaks(copies, scale.name)
    print("ceilings: " + ", ".join(f"{k} {v:.0f}" for k, v in report.ceilings.items()), flush=True)
    for work in works:
        gc.collect()
        with contextlib.suppress(KeyboardInterrupt):
            rows = guarded(work, top, budget)
            report.rows += rows
            for row in rows:
                print(one_line(row), flush=True)
            continue
        print("interrupted: writing the results so far", file=sys.stderr)
        break
    else:
        for row in overheads.overheads(scale, budget, lambda n: wanted(n, overheads.GROUP)):
            report.rows.append(row)
            print(one_line(row), flush=True)
    reporting.give_reasons(report.rows, reporting.read_notes(NOTES))
    report.seconds = perf_counter() - started
    print()
    reporting.print_table(report.rows)
    met = [r.met for r in report.rows if r.met is not None]
    wrong = [r.work for r in report.rows if r.correct is False]
    print(f"{sum(met)} of {len(met)} targets met; {report.seconds:.0f} s")
    if wrong:
        print("WRONG or failed: " + "; ".join(wrong), file=sys.stderr)
    if not options.tiny or options.out is not None:
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        partial = scale.name != "full" or bool(options.only) or options.one_core
        name = f"cpu-{today}{'-partial' if partial else ''}.json"
        for path in report.write(options.out or HERE / "results" / name):
            shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            print(f"wrote {shown}")
    return 1 if wrong else 0


def alone(module: str, argv: list[str]) -> None:
    """Start `module` again on one core, with one thread for every library."""
    names = ("TREADLE", "OMP", "NUMBA", "OPENBLAS", "MKL")
    environment = {**os.environ, harness.ONE_CORE: "1"}
    environment.update({f"{name}_NUM_THREADS": "1" for name in names})
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    command = [sys.executable, "-m", module, *argv]
    os.execve(sys.executable, command, environment)


def peaks(copies: object, scale: str) -> dict[str, float]:
    """The ceilings by themselves: copies in and out of the caches, multiply-adds; GB/s, GFLOP/s."""
    from benchmarks.works import ceilings

    found: dict[str, float] = {}
    assert isinstance(copies, ceilings.Copies)
    budget = 0.0 if scale == "tiny" else 0.2
    for where, size in (("memory", 256e6), ("cache", 8e6)):
        ways = copies.ways(size)
        for run in ways.values():
            run()
        for name, samples in harness.interleave(ways, budget).items():
            rate = size / harness.timing(samples).median / 1e9
            found[f"{name} in {where} GB/s"] = round(rate, 2)
    for name, make in (("float32", ceilings.fma), ("float64", ceilings.fma64)):
        run, flops = make()
        run()
        seconds = harness.timing(harness.interleave({"": run}, budget)[""]).median
        found[f"multiply-adds {name} GFLOP/s"] = round(flops / seconds / 1e9, 1)
    return found


def guarded(
    work: harness.Work,
    top: harness.Ceilings,
    budget: float,
    sample: harness.Stopwatch = harness.host_stopwatch,
) -> list[harness.Row]:
    """The rows of a workload; one failed row if its data could not be made."""
    try:
        return harness.measure(work, top, budget, sample)
    except Exception as error:
        message = (str(error).strip().splitlines() or [""])[0][:200]
        return [
            harness.Row(
                work.name,
                work.group,
                None,
                {},
                correct=False,
                met=False,
                note=f"{type(error).__name__}: {message}",
            )
        ]


if __name__ == "__main__":
    raise SystemExit(main())

"""Measures treadle on the CPU against NumPy, SciPy, Numba and JAX.

    python -m benchmarks.cpu [--quick] [--only NAME] [--out benchmarks/results/mine.json]

Prints a table; writes JSON, the table in Markdown, and a picture.  A full run takes some minutes
and needs an idle machine.
"""

from __future__ import annotations

import os
import sys
import warnings

from benchmarks import harness, reporting


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a result is wrong or a workload failed."""
    # On the CPU, peers and operations outside of compiled functions too, also where there is a GPU.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("TREADLE_BACKEND", "native")
    from benchmarks import suite

    parser = suite.parser("cpu", __doc__)
    parser.add_argument("--backend", default="native", help="treadle's backend")
    one_core = "one thread for every library, and processor time: for analysis"
    parser.add_argument("--one-core", action="store_true", help=one_core)
    options = parser.parse_args(argv)
    if options.one_core and not os.environ.get(harness.ONE_CORE):
        alone("benchmarks.cpu", sys.argv[1:] if argv is None else argv)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
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
    from benchmarks.works.common import jax

    scale = suite.scale_of(options, options.backend)
    budget = {"full": 0.45, "quick": 0.15, "tiny": 0.0}[scale.name]
    modules = (elementwise, stencils, folds, moving, products, loops)
    works = suite.chosen(modules, scale, options)
    if options.list:
        return suite.listed(works)
    if jax is None:
        print("JAX is not installed: its columns stay empty (pip install jax)", file=sys.stderr)
    report = reporting.Report(scale.name)
    copies = ceilings.Copies()
    top = harness.Ceilings(copies, ceilings.fma, ceilings.fma64)
    report.ceilings = peaks(copies, scale.name)
    print("ceilings: " + ", ".join(f"{k} {v:.0f}" for k, v in report.ceilings.items()), flush=True)
    wanted = suite.wanted(options)
    return suite.run(
        options, report, works, lambda work: suite.guarded(work, top, budget),
        lambda: overheads.overheads(scale, budget, lambda n: wanted(n, overheads.GROUP)),
        "cpu", options.one_core,
    )  # fmt: skip


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


if __name__ == "__main__":
    raise SystemExit(main())

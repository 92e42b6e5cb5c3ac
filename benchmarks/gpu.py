"""Measures treadle on an NVIDIA GPU against CuPy, PyTorch, JAX and Triton.

    python -m benchmarks.gpu [--quick] [--only NAME] [--out benchmarks/results/mine.json]

Prints a table; writes JSON, the table in Markdown, and a picture.  Times are device times (events)
of results that stay on the device; JAX, which launches on its own streams, is timed by the
host around many calls.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import harness, reporting
from benchmarks.cpu import guarded, one_line

HERE = Path(__file__).resolve().parent
NOTES = HERE / "NOTES-gpu.md"
PACKAGES = ("treadle", "numpy", "cupy-cuda13x", "cuda-core", "torch", "triton", "jax", "jaxlib")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    first_line = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=first_line)
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer repetitions")
    parser.add_argument("--tiny", action="store_true", help="tiny data: checks every result")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only workloads whose name or group contains NAME")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    return parser.parse_args(argv)


def require_gpu() -> None:
    """End the command with a message if there is no GPU."""
    import treadle as td

    state = td.backends()["cuda"]
    if not state.startswith("works"):
        raise SystemExit(f"This measures a GPU, and the backend cuda is {state}")


def device() -> dict[str, Any]:
    """The GPU, its driver and CUDA."""
    import cupy as cp

    about = cp.cuda.runtime.getDeviceProperties(0)
    driver = cp.cuda.runtime.driverGetVersion()
    return {
        "gpu": about["name"].decode(),
        "multiprocessors": about["multiProcessorCount"],
        "l2_bytes": about["l2CacheSize"],
        "driver": f"{driver // 1000}.{driver % 1000 // 10}",
        "cuda": cp.cuda.runtime.runtimeGetVersion(),
    }


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status: 1 if a result is wrong or a workload failed."""
    options = arguments(argv)
    started = perf_counter()
    from benchmarks.gpu_works import elementwise, folds, moving, overheads, products, stencils
    from benchmarks.gpu_works.common import Scale, copies, cp, sample

    scale = Scale("tiny" if options.tiny else "quick" if options.quick else "full", "cuda")
    budget = {"full": 0.15, "quick": 0.08, "tiny": 0.0}[scale.name]
    wanted_names = [name.lower() for name in options.only]

    def wanted(*names: str) -> bool:
        return not wanted_names or any(w in n.lower() for w in wanted_names for n in names)

    works = [
        work
        for module in (elementwise, folds, moving, stencils, products)
        for work in module.works(scale)
        if wanted(work.name, work.group)
    ]
    if options.list:
        print("\n".join(f"{w.group}: {w.name}" for w in works))
        return 0
    report = reporting.Report(scale.name, "treadle on a GPU", device, PACKAGES)
    copy = copies(1 << 32)
    copy()
    seconds = harness.timing(harness.interleave({"": copy}, 0.1, sample=sample)[""]).median
    report.ceilings = {"copy GB/s": round((1 << 32) / seconds / 1e9, 1)}
    print(f"copy: {report.ceilings['copy GB/s']} GB/s", flush=True)
    top = harness.Ceilings(copies)
    for work in works:
        gc.collect()
        cp.get_default_memory_pool().free_all_blocks()
        with contextlib.suppress(KeyboardInterrupt):
            rows = guarded(work, top, budget, sample)
            report.rows += rows
            for row in rows:
                print(one_line(row), flush=True)
            continue
        print("interrupted: writing the results so far", file=sys.stderr)
        break
    else:
        for row in overheads.overheads(scale, partial(_wanted_overhead, wanted_names)):
            report.rows.append(row)
            print(one_line(row), flush=True)
    reporting.give_reasons(report.rows, reporting.read_notes(NOTES))
    report.seconds = perf_counter() - started
    met = [r.met for r in report.rows if r.met is not None]
    wrong = [r.work for r in report.rows if r.correct is False]
    print(f"{sum(met)} of {len(met)} targets met; {report.seconds:.0f} s")
    if wrong:
        print("WRONG or failed: " + "; ".join(wrong), file=sys.stderr)
    if not options.tiny or options.out is not None:
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        partial_run = scale.name != "full" or bool(options.only)
        name = f"gpu-{today}{'-partial' if partial_run else ''}.json"
        for path in report.write(options.out or HERE / "results" / name):
            print(f"wrote {path}")
    return 1 if wrong else 0


def _wanted_overhead(wanted_names: list[str], name: str) -> bool:
    return not wanted_names or any(w in ("overheads", name) or name in w for w in wanted_names)


if __name__ == "__main__":
    raise SystemExit(main())

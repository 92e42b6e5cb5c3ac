"""Products on a CPU beside NumPy's, in one process: `python -m benchmarks.matmul.cpu`.

    plain      a @ b, and NumPy into memory that exists already: both call the same BLAS
    layer      maximum(a @ b + bias, 0), and NumPy in three steps in place
    many       the same of many small products
    strassen   td.strassen, one level, beside NumPy's product
    chosen     a @ b inside td.precision(fast=True): levels only where they were measured to win

Contenders alternate, in both directions, and the least time of each counts.  "asleep" repeats the
plain products after pauses in which the threads of BLAS go to sleep; "behind a kernel" right after
a kernel on treadle's threads.  Rows of the results are checked against float64.  What is measured
is kept as JSON and a table in benchmarks/results (`--out`).

All of it takes about as long as `--budget` says, the large extents last: those that would take
longer than what is left are named, not measured.
"""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.harness import round_robin
from treadle.backend.native.runtime.threads import thread_count

RESULTS = Path(__file__).resolve().parents[1] / "results"
EXTENTS = (256, 512, 1024, 2048, 4096)
SMALL = (2, 3, 4, 8, 16, 32, 48, 64)
#: Rounds at least (one in each direction) and at most.
FEWEST, MOST = 2, 200
#: Calls of products that the rows of one extent take at least, and rows that are checked.
CALLS, CHECKED = 40, 64
#: Bytes of the operands and results of many small products.
BYTES = 60e6
#: Seconds after which the threads of OpenBLAS are asleep.
PAUSE = 0.1

Run = Callable[[], Any]


def least(runs: Mapping[str, Run], seconds: float, before: Run = lambda: None) -> dict[str, float]:
    """The least seconds of each contender in rounds of about so many seconds; `before` runs ahead
    of every call, untimed."""
    best = dict.fromkeys(runs, float("inf"))
    start = perf_counter()
    for r in range(MOST):
        for name in round_robin(list(runs), r):
            best[name] = min(best[name], _seconds(runs[name], before))
        if r + 1 >= FEWEST and perf_counter() - start >= seconds:
            break
    return best


def _seconds(run: Run, before: Run) -> float:
    before()
    start = perf_counter()
    run()
    return perf_counter() - start


def right(found: Any, want: Any, scale: float) -> None:
    """Fails unless the result is as exact as its type permits."""
    error = float(np.abs(np.asarray(found, np.float64) - want).max()) / scale
    assert error < (1e-12 if found.dtype == np.float64 else 1e-4), error


def relu(a: Any, b: Any, bias: Any) -> Any:
    return td.maximum(a @ b + bias, 0)


def by_numpy(a: Any, b: Any, bias: Any, out: Any) -> Any:
    np.matmul(a, b, out=out)
    np.add(out, bias, out=out)
    return np.maximum(out, 0, out=out)


def square(n: int, name: str, seconds: float) -> list[dict[str, Any]]:
    """The rows of one extent and type, in about so many seconds."""
    start = perf_counter()
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)).astype(name) for _ in range(2))
    bias, out, other = rng.standard_normal(n).astype(name), np.empty_like(a), np.ones(1 << 20, "f4")
    plain, fused = (td.jit(f, backend="native") for f in (lambda a, b: a @ b, relu))
    with td.precision(fast=True):
        chosen = td.jit(lambda a, b: a @ b, backend="native")
        chosen(a, b)
    level = td.jit(lambda a, b: td.strassen(a, b), backend="native")
    kernel = td.jit(lambda x: x * 2 + 1, backend="native")
    few = slice(0, None, -(-n // CHECKED))
    exact = a[few].astype(np.float64) @ b
    levels = {"strassen": lambda: level(a, b)} if n >= 1024 else {}
    for run in (lambda: plain(a, b), *levels.values()):
        right(run()[few], exact, n)
    right(fused(a, b, bias)[few], np.maximum(exact + bias, 0), n)

    def fast() -> Any:
        with td.precision(fast=True):
            return chosen(a, b)

    def numpy() -> Any:
        return np.matmul(a, b, out=out)

    both = {"treadle": lambda: plain(a, b), "NumPy": numpy}
    layers = {"treadle": lambda: fused(a, b, bias), "NumPy": lambda: by_numpy(a, b, bias, out)}
    works: dict[str, tuple[Mapping[str, Run], Run]] = {
        "plain": (both, lambda: None),
        "plain, asleep": (both, lambda: sleep(PAUSE)),
        "plain, behind a kernel": (both, lambda: kernel(other)),
        "layer": (layers, lambda: None),
        "chosen": ({"treadle": fast, "NumPy": numpy}, lambda: None),
        **{w: ({"treadle": run, "NumPy": numpy}, lambda: None) for w, run in levels.items()},
    }
    each = max(0.0, seconds - (perf_counter() - start)) / len(works)
    found = {w: least(runs, each, before) for w, (runs, before) in works.items()}
    return [{"work": work, "type": name, "n": n, "count": 1, **times}
            for work, times in found.items()]  # fmt: skip


def small(n: int, name: str, seconds: float) -> list[dict[str, Any]]:
    """Many products with an epilogue, in about so many seconds."""
    start = perf_counter()
    count = int(BYTES / (3 * n * n * np.dtype(name).itemsize))
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((count, n, n)).astype(name) for _ in range(2))
    bias, out = rng.standard_normal(n).astype(name), np.empty_like(a)
    fused = td.jit(relu, backend="native")
    few = slice(0, 1000)
    want = np.maximum(a[few].astype(np.float64) @ b[few] + bias, 0)
    right(fused(a, b, bias)[few], want, n)
    times = least({"treadle": lambda: fused(a, b, bias),
                   "NumPy": lambda: by_numpy(a, b, bias, out)},
                  max(0.0, seconds - (perf_counter() - start)))  # fmt: skip
    return [{"work": "many", "type": name, "n": n, "count": count, **times}]


def table(rows: list[dict[str, Any]]) -> str:
    """Milliseconds, the ratio, and GFLOP/s."""
    lines = ["work | type | n | products | treadle, ms | NumPy, ms | NumPy / treadle | GFLOP/s",
             "--- | --- | ---: | ---: | ---: | ---: | ---: | ---:"]  # fmt: skip
    for r in rows:
        rate = 2e-9 * r["count"] * r["n"] ** 3 / r["treadle"]
        lines.append(f"{r['work']} | {r['type']} | {r['n']:,} | {r['count']:,} | "
                     f"{r['treadle'] * 1e3:.3f} | {r['NumPy'] * 1e3:.3f} | "
                     f"{r['NumPy'] / r['treadle']:.2f} | {rate:,.1f}")  # fmt: skip
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def measured(budget: float) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all extents and types, and the names of what would have taken too long."""
    start = perf_counter()
    tasks = [(of, n, name) for of, extents in ((square, EXTENTS[:-1]), (small, SMALL),
                                               (square, EXTENTS[-1:]))
             for n in extents for name in ("float32", "float64")]  # fmt: skip
    rows: list[dict[str, Any]] = []
    missing = []
    for done, (of, n, name) in enumerate(tasks):
        left = budget - (perf_counter() - start)
        known = [r for r in rows if r["work"] == "plain" and r["type"] == name]
        needed = CALLS * known[-1]["NumPy"] * (n / known[-1]["n"]) ** 3 if known else 0.0
        if left <= needed * (of is square):
            missing.append(f"{of.__name__} {name} {n}")
        else:
            rows += of(n, name, left / (len(tasks) - done))
    return rows, missing


def main(arguments: list[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.matmul.cpu", description=__doc__,
                                     formatter_class=raw)  # fmt: skip
    parser.add_argument("--budget", type=float, default=150.0, help="seconds in all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    given = parser.parse_args(arguments)
    rows, missing = measured(given.budget)
    today = datetime.date.today().isoformat()
    about = {
        "date": today, "device": provenance.describe(provenance.processor()),
        "threads": thread_count(), "processors": os.cpu_count(), "commit": provenance.commit(),
        "command": f"python -m benchmarks.matmul.cpu --budget {given.budget:g}",
        "not measured": missing, "packages": provenance.versions(("numpy",)),
    }  # fmt: skip
    page = f"`{about['command']}`, {about['device']}, {about['threads']} threads, {today}\n\n"
    page += table(rows) + "".join(f"\nNot measured in this time: {m}\n" for m in missing)
    print(page)
    path = given.out / f"products-cpu-{today}"
    provenance.write_results(path, page, {**about, "rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Products on a CPU beside NumPy's, in one process: `python -m benchmarks.matmul.cpu`.

    plain      a @ b, and NumPy into memory that exists already: both call the same BLAS
    layer      maximum(a @ b + bias, 0), and NumPy in three steps in place
    many       the same of many small products
    strassen   td.strassen, one level, beside NumPy's product
    chosen     a @ b inside td.precision(fast=True): levels only where they were measured to win

Contenders alternate, in both directions, and the least time of each counts.  "asleep" repeats the
plain products after pauses in which the threads of BLAS go to sleep; "behind a kernel" right after
a kernel on treadle's threads.  Results are checked against float64 and kept as JSON and a table in
benchmarks/results.  `--quick` takes fewer extents and rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
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
EXTENTS, QUICK = (256, 512, 1024, 2048, 4096), (256, 1024)
SMALL = (2, 3, 4, 8, 16, 32, 48, 64)
#: Seconds of calls of each contender, rounds at least and at most.
SECONDS, FEWEST, MOST = 0.8, 5, 200
#: Bytes of the operands and results of many small products.
BYTES = 60e6
#: Seconds after which the threads of OpenBLAS are asleep.
PAUSE = 0.1

Run = Callable[[], Any]


def least(runs: Mapping[str, Run], before: Run = lambda: None, share: float = 1.0
          ) -> dict[str, float]:  # fmt: skip
    """The least seconds of each contender; `before` runs ahead of every call, untimed."""
    first = max(_seconds(run, before) for run in runs.values() for _ in range(2))
    rounds = int(min(MOST, max(FEWEST, share * SECONDS / first)))
    best = dict.fromkeys(runs, float("inf"))
    for r in range(rounds):
        for name in round_robin(list(runs), r):
            best[name] = min(best[name], _seconds(runs[name], before))
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


def square(n: int, name: str, share: float) -> list[dict[str, Any]]:
    """The rows of one extent and type."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)).astype(name) for _ in range(2))
    bias, out, other = rng.standard_normal(n).astype(name), np.empty_like(a), np.ones(1 << 20, "f4")
    plain, fused = (td.jit(f, backend="native") for f in (lambda a, b: a @ b, relu))
    with td.precision(fast=True):
        chosen = td.jit(lambda a, b: a @ b, backend="native")
        chosen(a, b)
    level = td.jit(lambda a, b: td.strassen(a, b), backend="native")
    kernel = td.jit(lambda x: x * 2 + 1, backend="native")
    exact = a.astype(np.float64) @ b
    for function, want in ((plain, exact), (level, exact)):
        right(function(a, b), want, n)
    right(fused(a, b, bias), np.maximum(exact + bias, 0), n)

    def fast() -> Any:
        with td.precision(fast=True):
            return chosen(a, b)

    def numpy() -> Any:
        return np.matmul(a, b, out=out)

    both = {"treadle": lambda: plain(a, b), "NumPy": numpy}
    found = {
        "plain": least(both, share=share),
        "plain, asleep": least(both, lambda: sleep(PAUSE), share / 4),
        "plain, behind a kernel": least(both, lambda: kernel(other), share),
        "layer": least({"treadle": lambda: fused(a, b, bias),
                        "NumPy": lambda: by_numpy(a, b, bias, out)}, share=share),
        "chosen": least({"treadle": fast, "NumPy": numpy}, share=share),
    }  # fmt: skip
    if n >= 1024:
        found["strassen"] = least({"treadle": lambda: level(a, b), "NumPy": numpy}, share=share)
    return [{"work": work, "type": name, "n": n, "count": 1, **times}
            for work, times in found.items()]  # fmt: skip


def small(n: int, name: str, share: float) -> list[dict[str, Any]]:
    """Many products with an epilogue."""
    count = int(BYTES / (3 * n * n * np.dtype(name).itemsize))
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((count, n, n)).astype(name) for _ in range(2))
    bias, out = rng.standard_normal(n).astype(name), np.empty_like(a)
    fused = td.jit(relu, backend="native")
    few = slice(0, 1000)
    want = np.maximum(a[few].astype(np.float64) @ b[few] + bias, 0)
    right(fused(a, b, bias)[few], want, n)
    times = least({"treadle": lambda: fused(a, b, bias),
                   "NumPy": lambda: by_numpy(a, b, bias, out)}, share=share)  # fmt: skip
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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.matmul.cpu", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    extents, share = (QUICK, 0.2) if given.quick else (EXTENTS, 1.0)
    rows: list[dict[str, Any]] = []
    for name in ("float32", "float64"):
        for n in extents:
            rows += square(n, name, share)
        for n in SMALL:
            rows += small(n, name, share)
    today = datetime.date.today().isoformat()
    about = {
        "date": today, "device": provenance.describe(provenance.processor()),
        "threads": thread_count(), "processors": os.cpu_count(), "commit": provenance.commit(),
        "command": "python -m benchmarks.matmul.cpu", "packages": provenance.versions(("numpy",)),
    }  # fmt: skip
    print(f"{about['device']}, {about['threads']} threads\n\n{table(rows)}")
    if not given.quick:
        path = RESULTS / f"products-cpu-{today}"
        data = json.dumps({**about, "rows": rows}, indent=1)
        path.with_suffix(".json").write_text(f"{data}\n", encoding="utf-8")
        page = f"`{about['command']}`, {about['device']}, {about['threads']} threads, {today}"
        path.with_suffix(".md").write_text(f"{page}\n\n{table(rows)}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

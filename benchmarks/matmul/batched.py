"""Many small products beside a library's: `python -m benchmarks.matmul.batched gpu` (or `cpu`).

gpu: n × n products of float16 (n = 2 … 128) and float32 (to 64), plain and with relu(a @ b + bias), beside
PyTorch (cuBLAS) and a copy of as many bytes as the product reads and writes.
cpu: beside np.matmul.

Results are checked against float64, and kept as JSON, a table and a figure in benchmarks/results.
"""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.harness import host_stopwatch

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: Bytes that all operands and results have together, and the most products.
BYTES, MOST = 600e6, 1_000_000
EXTENTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 28, 30, 32, 36, 40, 48, 56, 64,
           72, 80, 96, 100, 104, 112, 128)  # fmt: skip
LARGEST = {"float16": 128, "float32": 64}
ON_CPU = ("float32", "float64", "complex64")
#: Products that are enough to compile a kernel.
FEW = 256
#: Rounds of timings, interleaved; the least of each is kept.  Calls of a round: fewer if they take
#: more than SECONDS together; of what takes longer than SLOW, the first call is all.
ROUNDS, CALLS, SECONDS, SLOW = 5, 10, 0.05, 0.5


def count_of(n: int, itemsize: int, most: float = BYTES) -> int:
    return min(MOST, int(most / (3 * n * n * itemsize)))


def least(runs: dict[str, Callable[[], Any]], clock: Callable[..., float]) -> dict[str, float]:
    """The least seconds of a call for each run, in interleaved rounds."""
    first = {name: clock(name, run, 1) for name, run in runs.items()}
    again = {name: clock(name, run, 1) if first[name] < SLOW else first[name]
             for name, run in runs.items()}  # fmt: skip
    calls = {name: max(1, min(CALLS, int(SECONDS / t))) for name, t in again.items() if t < SLOW}
    rounds = [{name: clock(name, runs[name], n) for name, n in calls.items()}
              for _ in range(ROUNDS)]  # fmt: skip
    return {name: min([again[name], *(r[name] for r in rounds if name in r)]) for name in runs}


def compiled(jobs: Iterable[Callable[[], Any]]) -> None:
    """Runs jobs that compile kernels, beside each other; what fails is reported when it is
    measured."""

    def attempt(job: Callable[[], Any]) -> None:
        with suppress(Exception):
            job()

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(attempt, jobs))


def plain(a: Any, b: Any, bias: Any) -> Any:
    return a @ b


def layer(a: Any, b: Any, bias: Any) -> Any:
    return td.maximum(a @ b + bias, 0)


def on_gpu(n: int, name: str) -> dict[str, Any]:
    from benchmarks.gpu_works.common import copies, cp, sample, torch

    itemsize = np.dtype(name).itemsize
    count = count_of(n, itemsize)
    rng = cp.random.default_rng(n)
    a, b = (rng.random((count, n, n), dtype=np.float32).astype(name) for _ in range(2))
    bias = rng.random(n, dtype=np.float32).astype(name)
    product, fused = (td.jit(f, backend="cuda") for f in (plain, layer))
    x, y, z = (torch.from_dlpack(v) for v in (a, b, bias))
    runs = {
        "treadle": lambda: product(a, b, bias),
        "torch": lambda: torch.matmul(x, y),
        "treadle fused": lambda: fused(a, b, bias),
        "torch fused": lambda: torch.relu(torch.matmul(x, y) + z),
        "copy": copies(3 * n * n * itemsize * count),
    }
    few = slice(0, 1000)
    exact = cp.matmul(a[few].astype("f8"), b[few].astype("f8"))
    errors = {
        "treadle": cp.from_dlpack(product(a, b, bias))[few] - exact,
        "treadle fused": cp.from_dlpack(fused(a, b, bias))[few] - cp.maximum(exact + bias, 0),
    }
    error = max(float(cp.abs(e).max()) / n for e in errors.values())
    assert error < (3e-3 if itemsize == 2 else 3e-6), (n, name, error)
    return {"n": n, "type": name, "count": count, "error": error, **least(runs, sample)}


def on_cpu(n: int, name: str) -> dict[str, Any]:
    count = count_of(n, np.dtype(name).itemsize, BYTES / 10)
    rng = np.random.default_rng(n)
    a, b = (rng.random((count, n, n)).astype(name) for _ in range(2))
    product = td.jit(lambda a, b: a @ b, backend="native")
    out = np.empty_like(a)
    wide = np.result_type(name, "f8")
    exact = np.matmul(a[:1000].astype(wide), b[:1000].astype(wide))
    error = float(np.abs(np.asarray(product(a, b))[:1000] - exact).max()) / n
    assert error < 3e-6, (n, name, error)
    runs = {"treadle": lambda: product(a, b), "NumPy": lambda: np.matmul(a, b, out=out)}
    found = least(runs, host_stopwatch)
    return {"n": n, "type": name, "count": count, "error": error, **found}


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: milliseconds, and how many times as fast as the library."""
    names = [k for k in rows[0] if k not in ("n", "type", "count", "error")]
    peer = "torch" if "torch" in names else "NumPy"
    head = ["type", "n", "products", *(f"{k}, ms" for k in names), f"{peer} / treadle"]
    lines = [" | ".join(head), " | ".join("---:" for _ in head)]
    for r in rows:
        ratio = r[peer] / r["treadle"]
        cells = [r["type"], str(r["n"]), f"{r['count']:,}", *(f"{r[k] * 1e3:.3f}" for k in names)]
        lines.append(" | ".join([*cells, f"{ratio:.1f}"]))
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """The rates by extent, as a fraction of that of a copy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    types = list(dict.fromkeys(r["type"] for r in rows))
    made, axes = plt.subplots(1, len(types), figsize=(5 * len(types), 3.4), sharey=True)
    for axis, name in zip(np.atleast_1d(axes), types, strict=True):
        mine = [r for r in rows if r["type"] == name]
        for run, style in (("treadle", "o-"), ("treadle fused", "o--"), ("torch", "s-"),
                           ("torch fused", "s--")):  # fmt: skip
            axis.plot([r["n"] for r in mine], [r["copy"] / r[run] for r in mine], style,
                      label=run, markersize=3)  # fmt: skip
        axis.set(title=name, xlabel="n", ylim=(0, 1.1))
        axis.set_xscale("log", base=2)
    np.atleast_1d(axes)[0].set_ylabel("fraction of a copy's rate")
    np.atleast_1d(axes)[0].legend()
    made.tight_layout()
    made.savefig(path, dpi=120)


def device_of(where: str) -> str:
    """The name of the device that is measured: "gpu" or "cpu"."""
    if where == "cpu":
        return provenance.describe(provenance.processor())
    from benchmarks.gpu_works.common import cp

    return str(cp.cuda.runtime.getDeviceProperties(0)["name"].decode())


def keep(name: str, where: str, rows: list[dict[str, Any]], made: str,
         more: Mapping[str, Any] | None = None, to: Path = RESULTS, show: bool = True
         ) -> Path:  # fmt: skip
    """Writes the results of the benchmark of this name with what `more` says of them, and the table
    `made` of them; the path of both files, without the suffix."""
    today, device = datetime.date.today().isoformat(), device_of(where)
    about = {
        "date": today, "device": device, "commit": provenance.commit(),
        "command": f"python -m benchmarks.matmul.{name} {where}",
        "packages": provenance.versions(("numpy", "torch", "cupy")), **(more or {}),
    }  # fmt: skip
    path = to / f"{name.replace('_', '-')}-{where}-{today}"
    page = f"`{about['command']}`, {device}, {today}\n\n{made}"
    provenance.write_results(path, page, {**about, "rows": rows})
    if show:
        print(made)
    return path


def compiles(n: int, name: str, program: Callable[..., Any]) -> Callable[[], Any]:
    """A job that compiles the kernel of a program for n × n products."""
    few, bias = np.ones((FEW, n, n), name), np.ones(n, name)
    return lambda: td.jit(program, backend="cuda")(few, few, bias)


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.matmul.batched", description=__doc__)
    parser.add_argument("where", choices=("gpu", "cpu"))
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    given = parser.parse_args()
    if given.where == "gpu":
        cases = [(n, name) for name, most in LARGEST.items() for n in EXTENTS if n <= most]
        compiled(compiles(*case, program) for case in cases for program in (plain, layer))
        rows = [on_gpu(*case) for case in cases]
    else:
        rows = [on_cpu(n, name) for name in ON_CPU for n in EXTENTS if n <= 32]
    path = keep("batched", given.where, rows, table(rows), to=given.out)
    if given.where == "gpu":
        figure(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()

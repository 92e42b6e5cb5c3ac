"""Every product that has a target, in one run: `python -m benchmarks.matmul.targets`.

A row is a product, an inverse, a system or a factor of some extent and type, with one or more
targets: a share of the rate of a copy of as many bytes as are read and written, a multiple of a
library's rate, or TFLOP/s.  Results are checked against float64 (integers: exactly).  Times are of
the GPU with calls queued behind a kernel that waits, so that the host's part is hidden; medians of
interleaved rounds.

Kernels are compiled first, by several processes (`--jobs`), for at most half of `--budget`.  Rows
that do not fit into the rest are named, not measured.  Results: products-targets-<date>.json and
.md (`--out`).
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance

from .linalg import WORKS, moved, residual

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: Rounds; seconds of a contender in each; calls at most; rows that are checked.
ROUNDS, SECONDS, MOST, CHECKED = 5, 4e-3, 40, 64
#: Products that are enough to compile a kernel.
FEW = 256

#: A kernel that takes so many nanoseconds.
WAITS = """
__device__ long long now() {
    long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
extern "C" __global__ void waits(long long ns) {
    const long long start = now();
    while (now() - start < ns);
}
"""

Run = Callable[[], Any]


@dataclass(frozen=True)
class Goal:
    """At least so much: of the rate of another contender, or TFLOP/s."""

    against: str
    least: float

    def reached(self, seconds: Mapping[str, float], flops: float) -> float | None:
        """What is measured; None without the contender."""
        if self.against == "TFLOP/s":
            return flops / seconds["treadle"] / 1e12
        other = seconds.get(self.against)
        return None if other is None else other / seconds["treadle"]


@dataclass(frozen=True)
class Item:
    """A row of the table; `sizes`: m, k, n, and `count` of them."""

    work: str
    type: str
    sizes: tuple[int, int, int]
    count: int
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class Case:
    """An item with its data: contenders, "treadle" among them, and the error over its limit."""

    runs: dict[str, Run]
    error: Callable[[], float]
    flops: float


MILLION, MANY = 1_000_000, 50_000
#: What a float64 product from products of residues (Ozaki's second scheme) needs at least, by the
#: library's product of int8: a bound, not a product of treadle's.
MODULI = 15
RESIDUES = f"{MODULI} int8 products"


def _items() -> list[Item]:
    """The targets."""
    found: list[Item] = []

    def add(work: str, kind: str, n: int | tuple[int, int, int], count: int, *goals: Any) -> None:
        sizes = n if isinstance(n, tuple) else (n, n, n)
        found.append(Item(work, kind, sizes, count, tuple(Goal(*g) for g in goals)))

    for n in (4, 8, 10, 12, 16):
        add("product", "float16", n, MILLION, ("copy", 0.85))
    for n in (24, 32, 48, 100):
        add("product", "float16", n, MANY, ("copy", 0.85), ("torch", 1))
    for n in (4, 8, 16, 32, 64):
        add("layer", "float16", n, MILLION if n <= 16 else MANY, ("copy", 0.8))
    for n in (3, 4, 8, 16, 32, 64):
        add("product", "float32", n, MILLION if n <= 16 else MANY, ("copy", 0.85))
    for n in (3, 4, 8):
        add("inv", "float32", n, MILLION if n <= 4 else MANY, ("copy", 0.8))
    for n in (16, 32):
        add("inv", "float32", n, MANY, ("torch", 4))
    for n in (3, 4):
        add("solve", "float32", n, MILLION, ("copy", 0.8))
    for n in (16, 32):
        add("solve", "float32", n, MANY, ("torch", 4))
    add("cholesky", "float32", 4, MILLION, ("torch", 10))
    for n in (16, 32):
        add("cholesky", "float32", n, MANY, ("torch", 4))
    for n in (20, 28, 36, 40, 56, 64, 72, 80, 96, 104, 112, 128):
        add("product", "float16", n, min(MANY, int(3e8 / (6 * n * n))), ("torch", 0.98))
    for kind in ("float16", "bfloat16"):
        for n in (2048, 4096, 8192, 16384):
            add("product", kind, n, 1, ("torch", 0.97))
            add("layer", kind, n, 1, ("torch", 1))
    add("tf32", "float32", 8192, 1, ("torch", 0.97))
    for n, rate in ((2048, 130), (8192, 200), (16384, 200)):
        add("fp16x3", "float32", n, 1, ("TFLOP/s", rate), ("torch", 1))
    add("bf16x6", "float32", 8192, 1, ("TFLOP/s", 105))
    add("fp16x3, one level", "float32", 16384, 1, ("standard", 1.08))
    add("product", "int32", 8192, 1, ("TFLOP/s", 140))
    add("portable", "float32", 8192, 1, ("torch", 0.95))
    add("portable, one level", "float32", 8192, 1, ("torch", 1.05))
    add("strassen", "float32", (5003, 6211, 7919), 1, ("torch", 1.1))
    add(RESIDUES, "float64", 8192, 1, ("torch", 1.3))
    return found


ITEMS = _items()


# --- data -----------------------------------------------------------------------------------------


class Gpu:
    """Data, peers and times by PyTorch and CuPy."""

    backend = "cuda"

    def __init__(self) -> None:
        import cupy
        import torch

        self.torch, self.cupy = torch, cupy
        self.name = str(torch.cuda.get_device_name())
        self._waits = cupy.RawKernel(WAITS, "waits")
        self._narrow, self._wide = (td.jit(lambda x, t=t: td.cast(x, t), backend="cuda")
                                    for t in (td.bfloat16, td.float32))  # fmt: skip

    def make(self, shape: tuple[int, ...], kind: str) -> Any:
        """Normal elements, integers of all sizes."""
        torch = self.torch
        torch.manual_seed(shape[-1])
        if kind == "int32":
            return torch.randint(-(2**31), 2**31, shape, device="cuda", dtype=torch.int32)
        return torch.randn(shape, device="cuda", dtype=getattr(torch, kind))

    def definite(self, a: Any) -> Any:
        """Symmetric, positive definite matrices."""
        return a @ a.mT + self.torch.eye(a.shape[-1], device="cuda")

    def given(self, x: Any) -> Any:
        """Data as treadle takes it; CuPy has no bfloat16."""
        if x.dtype == self.torch.bfloat16:
            return self._narrow(self.cupy.from_dlpack(x.float()))
        return self.cupy.from_dlpack(x)

    def whole(self, found: Any) -> Any:
        """A result of treadle as data of this machine."""
        return self.torch.from_dlpack(self._wide(found) if found.dtype == td.bfloat16 else found)

    def host(self, x: Any) -> Any:
        """An array of NumPy: floats of 16 bits as float32."""
        return (x if x.dtype in (self.torch.int32, self.torch.float64) else x.float()).cpu().numpy()

    def copy(self, size: int) -> Run:
        half = max(size // 8 // 2, 1)
        source, target = (self.torch.empty(half, device="cuda", dtype=self.torch.int64)
                          for _ in range(2))  # fmt: skip
        return lambda: target.copy_(source)

    def library(self, work: str, a: Any, b: Any, bias: Any) -> Run | None:
        """The same by PyTorch."""
        torch = self.torch
        if work == "inv":
            return lambda: torch.linalg.inv_ex(a)
        if work == "solve":
            return lambda: torch.linalg.solve_ex(a, b)
        if work == "cholesky":
            return lambda: torch.linalg.cholesky_ex(a)
        if a.dtype == torch.int32:
            return None
        if a.ndim == 3:
            if work == "layer":
                return lambda: torch.relu_(torch.matmul(a, b).add_(bias))
            return lambda: torch.matmul(a, b)
        if work == "layer":
            return lambda: torch.relu_(torch.addmm(bias, a, b))
        out = torch.empty((a.shape[0], b.shape[1]), device="cuda", dtype=a.dtype)

        def mm() -> None:
            torch.backends.cuda.matmul.allow_tf32 = work == "tf32"
            torch.mm(a, b, out=out)
            torch.backends.cuda.matmul.allow_tf32 = False

        return mm

    def residues(self, n: int) -> Run:
        """The products of int8 matrices."""
        torch = self.torch
        a, b = (torch.randint(-128, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))

        def run() -> None:
            for _ in range(MODULI):
                torch._int_mm(a, b.t())

        return run

    def portable(self, a: Any, b: Any, levels: int) -> Run:
        """The engine without instructions of Hopper."""
        from treadle.backend.cuda.graphs.launch import CudaDevice
        from treadle.backend.cuda.products.engine import Engine
        from treadle.backend.cuda.products.launching import Matrix
        from treadle.skeletons.products import STRASSEN

        engine = Engine(CudaDevice.current())
        out = self.torch.empty_like(a)
        p, q, r = (Matrix(v.data_ptr(), *v.shape, *v.stride(), 4) for v in (a, b, out))

        def run() -> Any:
            if levels:
                engine.product(r, p, q, "atomic", "Float32Portable", STRASSEN, levels)
            else:
                engine.standard(r, p, q, "split", "Float32Portable")
            return out

        return run

    def seconds(self, run: Run, calls: int) -> float:
        """Of a call on the GPU: the host queues all of them while a kernel waits."""
        cuda = self.cupy.cuda
        cuda.Device().synchronize()
        start = perf_counter()
        run()
        host = perf_counter() - start
        cuda.Device().synchronize()
        first, last = cuda.Event(), cuda.Event()
        self._waits((1,), (1,), (np.int64(min(0.05, 1.5 * host * calls + 1e-4) * 1e9),))
        first.record()
        for _ in range(calls):
            run()
        last.record()
        last.synchronize()
        return float(cuda.get_elapsed_time(first, last)) / 1e3 / calls

    def free(self) -> None:
        self.torch.cuda.empty_cache()
        self.cupy.get_default_memory_pool().free_all_blocks()


def case(on: Any, item: Item) -> Case:
    """An item's data and contenders."""
    m, k, n = item.sizes
    many = item.count > 1
    lead = (item.count,) if many else ()
    a, b = on.make((*lead, m, k), item.type), on.make((*lead, k, n), item.type)
    bias = on.make((n,), item.type)
    if item.work in WORKS:
        return _linear_algebra(on, item, a)
    size = {"float16": 2, "bfloat16": 2}.get(item.type, 4)
    if item.work == RESIDUES:
        runs: dict[str, Run] = {"treadle": on.residues(n), "torch": on.library("product", a, b, bias)}
        return Case(runs, lambda: 0.0, 2.0 * m * k * n)
    runs = {}
    if item.work.startswith("portable"):
        runs["treadle"] = on.portable(a, b, int("level" in item.work))
    else:
        made = td.jit(_PROGRAMS[item.work], backend=on.backend)
        given = tuple(map(on.given, (a, b, bias)))
        runs["treadle"] = lambda: made(*given)
    if "level" in item.work and item.work.startswith("fp16x3"):
        standard = td.jit(_PROGRAMS["fp16x3"], backend=on.backend)
        runs["standard"] = lambda: standard(a, b, bias)
    library = on.library(item.work, a, b, bias)
    if library is not None:
        runs["torch"] = library
    if many:
        runs["copy"] = on.copy(size * item.count * (m * k + k * n + m * n))

    def error() -> float:
        found = on.whole(runs["treadle"]())
        few = slice(0, None, -(-(item.count if many else m) // CHECKED))
        some = slice(0, None, -(-n // CHECKED))
        right = b[few] if many else b[:, some]
        got = found[few] if many else found[few][:, some]
        bound = bias if many else bias[some]
        return _distance(item, *map(on.host, (a[few], right, bound, got)))

    return Case(runs, error, 2.0 * item.count * m * k * n)


def _layer(a: Any, b: Any, bias: Any) -> Any:
    return td.maximum(a @ b + bias, 0)


def _precise(**options: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda a, b, bias: td.matmul(a, b, **options)


_PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda a, b, bias: a @ b,
    "layer": _layer,
    "tf32": _precise(precision="tf32"),
    "fp16x3": _precise(precision="fp16x3"),
    "bf16x6": _precise(precision="bf16x6"),
    "fp16x3, one level": _precise(precision="fp16x3", algorithm="strassen", levels=1),
    "strassen": _precise(algorithm="strassen", levels=1),
}


def _distance(item: Item, a: Any, b: Any, bias: Any, got: Any) -> float:
    """The error of some rows, over what is allowed."""
    if item.type == "int32":
        wide = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        return 0.0 if np.array_equal(wide, got) else float("inf")
    want = a.astype(np.float64) @ b.astype(np.float64)
    if item.work == "layer":
        want = np.maximum(want + bias, 0)
    near = float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-300))
    allowed = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 5e-6, "float64": 1e-14}[item.type]
    return near / (2e-3 if item.work == "tf32" else allowed)


def _linear_algebra(on: Any, item: Item, a: Any) -> Case:
    n, count = item.sizes[0], item.count
    b = on.make((count, n, 1), item.type)
    if item.work == "cholesky":
        a = on.definite(a)
    made = td.jit(WORKS[item.work], backend=on.backend)
    given = on.given(a), on.given(b)
    runs = {"treadle": lambda: made(*given), "torch": on.library(item.work, a, b, None)}
    runs["copy"] = on.copy(moved(n, 4, count, item.work))

    def error() -> float:
        few = slice(0, 1000)
        x = on.host(on.whole(runs["treadle"]())[few])
        return residual(item.work, on.host(a[few]), on.host(b[few]), x) / 8

    return Case(runs, error, 0.0)


# --- measuring ------------------------------------------------------------------------------------


def times(on: Any, runs: Mapping[str, Run]) -> dict[str, float]:
    """The median seconds of each contender, of interleaved rounds."""
    calls = {}
    for name, run in runs.items():
        run()
        calls[name] = max(1, min(MOST, round(SECONDS / max(on.seconds(run, 1), 1e-6))))
    rounds = [{name: on.seconds(run, calls[name]) for name, run in runs.items()}
              for _ in range(ROUNDS)]  # fmt: skip
    return {name: statistics.median(r[name] for r in rounds) for name in runs}


def measured(on: Any, items: Sequence[Item], budget: float) -> list[dict[str, Any]]:
    """A row for each item: seconds, and what was reached of each goal."""
    rows: list[dict[str, Any]] = []
    start = perf_counter()
    for item in items:
        row: dict[str, Any] = asdict(item)
        try:
            if perf_counter() - start > budget:
                raise TimeoutError("not measured in this time")
            made = case(on, item)
            error = made.error()
            if not error < 1:
                raise ArithmeticError(f"wrong: {error:.3g} times the error allowed")
            row |= {"error": error, "seconds": times(on, made.runs)}
            row["reached"] = [g.reached(row["seconds"], made.flops) for g in item.goals]
            del made
        except Exception as problem:  # noqa: BLE001 a row that fails does not end the others
            first = str(problem).strip().partition("\n")[0]
            row["failure"] = f"{type(problem).__name__}: {first}"
        on.free()
        rows.append(row)
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def met(row: Mapping[str, Any]) -> bool:
    """Whether all goals of a row are reached."""
    return "reached" in row and all(
        r is not None and r >= g["least"] for r, g in zip(row["reached"], row["goals"], strict=True)
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: milliseconds of each contender, and each goal beside what was reached."""
    lines = ["| | work | type | m, k, n | products | treadle, ms | others, ms | at least: reached |",
             "| --- | --- | --- | ---: | ---: | ---: | --- | --- |"]  # fmt: skip
    for r in rows:
        sizes = r["sizes"]
        size = f"{sizes[0]:,}" if len(set(sizes)) == 1 else ", ".join(f"{s:,}" for s in sizes)
        cells = ["met" if met(r) else "**missed**", r["work"], r["type"], size, f"{r['count']:,}"]
        if "failure" in r:
            cells += ["", "", r["failure"]]
        else:
            ms = {name: f"{s * 1e3:.4g}" for name, s in r["seconds"].items()}
            goals = (f"{g['least']:g} {g['against']}: {'' if x is None else format(x, '.3g')}"
                     for g, x in zip(r["goals"], r["reached"], strict=True))  # fmt: skip
            own = ms.pop("treadle")
            cells += [own, ", ".join(f"{k} {v}" for k, v in ms.items()), "; ".join(goals)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def compiled(items: Sequence[Item], on: Any) -> None:
    """Compiles what items need, by running each once on little data; failures show later."""
    for item in items:
        try:
            few = Item(item.work, item.type, item.sizes, min(item.count, FEW), item.goals)
            case(on, few).runs["treadle"]()
        except Exception as problem:  # noqa: BLE001 it fails again when it is measured
            print(item, problem, file=sys.stderr)
        on.free()


def main(arguments: Sequence[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.matmul.targets", description=__doc__,
                                     formatter_class=raw)  # fmt: skip
    parser.add_argument("--budget", type=float, default=150.0, help="seconds in all")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="works whose names begin so")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    parser.add_argument("--compile", metavar="PART/PARTS", help="only compile, by one process")
    given = parser.parse_args(arguments)
    items = [item for item in ITEMS if item.work.startswith(given.only)]
    if given.compile:
        part, parts = map(int, given.compile.split("/"))
        compiled(items[::-1][part::parts], Gpu())  # the last ones take longest
        return 0
    start = perf_counter()
    command = [sys.executable, "-m", "benchmarks.matmul.targets", "--only", given.only]
    compiling = [subprocess.Popen([*command, "--compile", f"{p}/{given.jobs}"])
                 for p in range(given.jobs)]  # fmt: skip
    for process in compiling:
        try:
            process.wait(max(0.0, given.budget / 2 - (perf_counter() - start)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    ready = perf_counter() - start
    on = Gpu()
    rows = measured(on, items, given.budget - (perf_counter() - start))
    today = datetime.date.today().isoformat()
    about = {
        "date": today, "device": on.name, "commit": provenance.commit(),
        "command": "python -m benchmarks.matmul.targets",
        "packages": provenance.versions(("numpy", "torch", "cupy")),
        "seconds": {"compiling": ready, "all": perf_counter() - start},
    }  # fmt: skip
    page = f"`{about['command']}`, {on.name}, {today}\n\n{table(rows)}\n"
    page += f"{sum(map(met, rows))} of {len(rows)} rows met.\n"
    print(page)
    path = given.out / f"products-targets-{today}"
    provenance.write_results(path, page, {**about, "rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Many small float16 products, tuned as in the paper on them: `python -m benchmarks.matmul.batched_tuning`.

A. Abdelfattah, S. Tomov and J. Dongarra, "Fast batched matrix multiplication for small sizes using
half-precision arithmetic on GPUs", generate all instances of their kernels (batched_tuning.cu) that
meet hard and soft constraints, time them on square matrices, and keep few: of the BK fastest
instances at an extent, those within TOL of the best performance may compute it, and the most
frequent ones are taken.  This does the same on the GPU at hand, with BK = 10 and TOL = 0, 5, 10 and
15 %, and then times the kept instances beside treadle, PyTorch (cuBLAS) and a copy of as many bytes
as the products read and write.

Results: benchmarks/results/batched-tuning-gpu-<date>.json, .md and .png.  `--again FILE.json` times
what an earlier run kept, beside today's treadle; `--figure FILE.json` draws the figure of a result
again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import treadle as td
from benchmarks.matmul import batched

TEXT = Path(__file__).with_suffix(".cu")
#: The extents at which instances are tuned, and all are timed.
EXTENTS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 100, 104, 112, 128)
BK, TOLERANCES = 10, (0.0, 0.05, 0.10, 0.15)
#: Bytes of operands and results while tuning, and of the comparison: more than the L2 cache has.
TUNED, COMPARED = 150e6, 600e6
#: Instances in one translation unit; launches of one sample, samples of an instance.
TOGETHER, CALLS, SAMPLES = 4, 2, 2
SHARED, ACCUMULATORS, PAD = 32 * 1024, 128, 8


class Instance(NamedTuple):
    """An instance of a kernel: its name in the text, and its parameters."""

    kernel: str
    parameters: tuple[int, ...]

    @property
    def name(self) -> str:
        return "_".join((self.kernel, *map(str, self.parameters)))

    @property
    def threads(self) -> int:
        p = self.parameters
        if self.kernel == "blocked":
            return 32 * p[6] * p[7]
        return 32 * p[1] if self.kernel == "packed" else p[0] * p[0] * p[1]

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a launch."""
        p = self.parameters
        if self.kernel == "blocked":
            bm, bn, bk = p[:3]
            operands = bm * (bk + PAD) + bk * (bn + PAD)
            return 2 * p[7] * max(operands, bm * (bn + PAD))
        return 2 * p[1] * (2 * 16 * (16 + PAD) if self.kernel == "packed" else 2 * p[0] * p[0])

    def computes(self, n: int) -> bool:
        return self.kernel == "blocked" or self.parameters[0] == n

    def blocks(self, n: int, count: int) -> int:
        p = self.parameters
        if self.kernel == "blocked":
            return -(-count * -(-n // p[0]) * -(-n // p[1]) // p[7])
        return -(-count // (16 // n * p[1] if self.kernel == "packed" else p[1]))

    def text(self) -> str:
        values = ", ".join(map(str, self.parameters))
        return (f'extern "C" __global__ void __launch_bounds__({self.threads}) {self.name}'
                "(const u16 *a, const u16 *b, u16 *c, int m, int n, int k, int count) "
                f"{{ {self.kernel}<{values}>({{a, b, c, m, n, k, count}}); }}\n")  # fmt: skip


def instances() -> list[Instance]:
    """The instances that meet the constraints.

    The paper's: blocks are multiples of 16 up to 128 and of what warps and threads take at a time;
    at most four warps; 32 KB of operands.  Further ones of ours: square blocks of square matrices,
    at least eight threads along a row, work for every warp, and at most 128 sums a thread.
    """
    found = []
    steps = range(16, 129, 16)
    for b, k, warps, (tm, tn) in product(steps, steps, (1, 2, 4), ((16, 16), (32, 8), (16, 32))):
        blocks = b // tm * (b // tn)
        if b % tm or b % tn or 4 * b * k > SHARED or blocks < warps:
            continue
        if -(-blocks // warps) * tm * tn // 32 > ACCUMULATORS:
            continue
        for x in (8, 16, 32, 64):
            y = 32 * warps // x
            if y and b % x == k % x == b % y == k % y == 0:
                groups = (1, 2, 3, 4) if b == 16 and warps == 1 else (1,)
                found += [Instance("blocked", (b, b, k, tm, tn, x, warps, s)) for s in groups]
    small = [n for n in EXTENTS if n <= 16]
    found += [Instance("packed", (n, w)) for n in small if n <= 8 for w in (1, 2, 4, 8)]
    for n in small:
        found += [Instance("elements", (n, groups)) for groups in sorted(
            {max(threads // (n * n), 1) for threads in (64, 128, 256, 512)})]  # fmt: skip
    return found


def kept(times: Mapping[int, Mapping[str, float]], most: int, tolerance: float) -> dict[int, str]:
    """The instance for each extent: of the `most` fastest there, one whose performance is within
    `tolerance` of the best, and that as many extents as possible share.

    >>> times = {1: {"a": 1.0, "b": 1.05}, 2: {"b": 1.0, "a": 2.0}}
    >>> kept(times, 10, 0.0), kept(times, 10, 0.1)
    ({1: 'a', 2: 'b'}, {1: 'b', 2: 'b'})
    """
    allowed = {}
    for n, row in times.items():
        winners = sorted(row, key=row.__getitem__)[:most]
        allowed[n] = [w for w in winners if row[winners[0]] >= (1 - tolerance) * row[w]]
    found: dict[int, str] = {}
    while len(found) < len(allowed):
        left = [n for n in allowed if n not in found]
        count = Counter(w for n in left for w in allowed[n])
        slowdown = {w: max(times[n][w] / min(times[n].values()) for n in left if w in allowed[n])
                    for w in count}  # fmt: skip
        best = min(count, key=lambda w: (-count[w], slowdown[w], w))
        found |= {n: best for n in left if best in allowed[n]}
    return {n: found[n] for n in times}


def compiled(job: tuple[str, str]) -> bytes:
    """Machine code of a text for an architecture."""
    from treadle.backend.cuda.compile.nvrtc import _nvrtc

    source, arch = job
    return _nvrtc().compile(source, arch, None)[0]


def units(made: list[Instance]) -> list[list[Instance]]:
    return [made[i : i + TOGETHER] for i in range(0, len(made), TOGETHER)]


def source(unit: list[Instance]) -> str:
    return TEXT.read_text(encoding="utf-8") + "".join(i.text() for i in unit)


def machine_code(made: list[Instance], arch: str) -> dict[str, bytes]:
    """Machine code that has an instance, by its name."""
    jobs = [(source(unit), arch) for unit in units(made)]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        images = list(pool.map(compiled, jobs))
    return {i.name: image for unit, image in zip(units(made), images, strict=True) for i in unit}


class Products:
    """`count` products of n × n on a GPU, and the instances that compute them."""

    def __init__(self, n: int, most: float) -> None:
        from benchmarks.gpu_works.common import cp

        self.n, self.count = n, batched.count_of(n, 2, most)
        rng = cp.random.default_rng(n)
        # Exact in float16 and float32 alike, whatever the order of the sums.
        self.a, self.b = (rng.integers(-2, 3, (self.count, n, n)).astype(cp.float16)
                          for _ in range(2))  # fmt: skip
        self.exact = cp.matmul(self.a.astype("f4"), self.b.astype("f4")).astype(cp.float16)
        self.out = cp.empty_like(self.a)

    def run(self, function: Any, instance: Instance) -> Callable[[], None]:
        sizes = map(np.int32, (self.n, self.n, self.n, self.count))
        given = (self.a, self.b, self.out, *sizes)
        grid = (instance.blocks(self.n, self.count),)
        block, shared = (instance.threads,), instance.shared
        return lambda: function(grid, block, given, shared_mem=shared)

    def right(self, run: Callable[[], None]) -> bool:
        """Whether a run computes all products."""
        self.out.fill(np.nan)
        run()
        return bool((self.out == self.exact).all())


def least(run: Callable[[], Any], clock: Callable[..., float]) -> float:
    """The least seconds of a call."""
    return min(clock("instance", run, CALLS) for _ in range(SAMPLES))


def loaded(made: list[Instance]) -> dict[Instance, Any]:
    """The functions of instances, compiled."""
    from benchmarks.gpu_works.common import cp
    from treadle.backend.cuda.graphs.launch import CudaDevice

    images = machine_code(made, CudaDevice.current().arch)
    modules: dict[bytes, Any] = {}
    functions: dict[Instance, Any] = {}
    for instance in made:
        image = images[instance.name]
        if image not in modules:
            modules[image] = cp.cuda.function.Module()
            modules[image].load(image)
        functions[instance] = modules[image].get_function(instance.name)
    return functions


def tune(functions: Mapping[Instance, Any], until: float) -> dict[int, dict[str, float]]:
    """Seconds of a call of each instance at each extent, all checked; none begins after `until`."""
    from benchmarks.gpu_works.common import sample

    times: dict[int, dict[str, float]] = {}
    for n in EXTENTS:
        given, row = Products(n, TUNED), {}
        for instance, function in functions.items():
            if not instance.computes(n):
                continue
            if time.time() > until:
                raise TimeoutError(f"no time is left at n = {n}")
            run = given.run(function, instance)
            assert given.right(run), (n, instance.name)
            row[instance.name] = least(run, sample)
        times[n] = row
        best = min(row, key=row.__getitem__)
        print(f"n = {n}: {len(row)} instances, best {best}, {row[best] * 1e6:.1f} us", flush=True)
    return times


def compare(n: int, chosen: Mapping[str, tuple[Instance, Any]]) -> dict[str, Any]:
    """Seconds of the kept instances, of treadle and of PyTorch."""
    from benchmarks.gpu_works.common import copies, cp, sample, torch

    given = Products(n, COMPARED)
    plain = td.jit(lambda a, b: a @ b, backend="cuda")
    made = cp.from_dlpack(plain(given.a, given.b))
    assert bool((made == given.exact).all()), n
    x, y = torch.from_dlpack(given.a), torch.from_dlpack(given.b)
    out = torch.empty_like(x)
    runs: dict[str, Callable[[], Any]] = {
        name: given.run(function, instance) for name, (instance, function) in chosen.items()
    }
    runs |= {
        "treadle": lambda: plain(given.a, given.b),
        "torch": lambda: torch.bmm(x, y, out=out),
        "copy": copies(3 * n * n * 2 * given.count),
    }
    return {"n": n, "count": given.count, **batched.least(runs, sample)}


def table(rows: list[dict[str, Any]], choices: Mapping[str, Mapping[str, str]]) -> str:
    """Markdown: the kernels for each tolerance; milliseconds by extent."""
    counts = {tol: len(set(found.values())) for tol, found in choices.items()}
    most = counts["0"]
    lines = ["| TOL | kernels for all extents | fewer |", "| ---: | ---: | ---: |"]
    lines += [f"| {t} % | {c} | {1 - c / most:.0%} |" for t, c in counts.items()]
    names = [x for x in rows[0] if x not in ("n", "count")]
    head = ["n", "products", *(f"{x}, ms" for x in names), "torch / treadle", "torch / TOL 0 %",
            "fastest instance"]  # fmt: skip
    lines += ["", "| " + " | ".join(head) + " |", "|" + " ---: |" * len(head)]
    for r in rows:
        cells = [str(r["n"]), f"{r['count']:,}", *(f"{r[x] * 1e3:.3f}" for x in names)]
        cells += [f"{r['torch'] / r[x]:.2f}" for x in ("treadle", "TOL 0 %")]
        lines.append("| " + " | ".join([*cells, f"`{choices['0'][str(r['n'])]}`"]) + " |")
    return "\n".join(lines) + "\n"


def figure(data: Mapping[str, Any], path: Path) -> None:
    """The paper's figures 6 and 7: speed by extent, and speedups over the library."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = data["rows"]
    ns = [r["n"] for r in rows]
    made, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6))
    for name, label, style in (
        ("copy", "a copy of as many bytes", "k:"), ("treadle", "treadle", "o-"),
        ("TOL 0 %", "the paper's kernels, TOL 0 %", "^-"),
        ("TOL 15 %", "the paper's kernels, TOL 15 %", "v--"), ("torch", "PyTorch (cuBLAS)", "s-"),
    ):  # fmt: skip
        rates = [2 * r["n"] ** 3 * r["count"] / r[name] / 1e12 for r in rows]
        left.plot(ns, rates, style, label=label, markersize=4)
        if name not in ("copy", "torch"):
            speedup = [r["torch"] / r[name] for r in rows]
            right.plot(ns, speedup, style, label=label, markersize=4)
    left.set(xlabel="n", ylabel="TFLOP/s", xscale="log", yscale="log")
    right.set(xlabel="n", ylabel="speedup over PyTorch (cuBLAS)", xscale="log", yscale="log")
    right.axhline(1, color="k", linewidth=0.8)
    for axis in (left, right):
        axis.set_xticks([2, 4, 8, 16, 32, 64, 128], ["2", "4", "8", "16", "32", "64", "128"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    right.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    made.suptitle(f"float16, n × n × n, many products ({data['device']})")
    made.tight_layout()
    made.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=batched.RESULTS)
    parser.add_argument("--limit", type=float, default=220, help="seconds for everything")
    parser.add_argument("--again", type=Path, help="time what a result kept")
    parser.add_argument("--figure", type=Path, help="draw the figure of a result")
    given = parser.parse_args()
    if given.figure:
        data = json.loads(given.figure.read_text(encoding="utf-8"))
        figure(data, given.figure.with_suffix(".png"))
        return
    began = time.time()
    made = instances()
    if given.again:
        data = json.loads(given.again.read_text(encoding="utf-8"))
        named, tops = data["choices"], data["fastest"]
        tuned = data["seconds"]
        names = {w for found in named.values() for w in found.values()}
        functions = loaded([i for i in made if i.name in names])
    else:
        functions = loaded(made)
        print(f"{len(made)} instances compiled after {time.time() - began:.0f} s", flush=True)
        times = tune(functions, began + given.limit - 30)
        tuned = round(time.time() - began, 1)
        named = {str(round(100 * tol)): {str(n): w for n, w in kept(times, BK, tol).items()}
                 for tol in TOLERANCES}  # fmt: skip
        tops = {n: dict(sorted(row.items(), key=lambda x: x[1])[:BK]) for n, row in times.items()}
    by_name = {i.name: i for i in functions}
    batched.compiled(batched.compiles(n, "float16", batched.plain) for n in EXTENTS)
    rows = []
    for n in EXTENTS:
        chosen = {f"TOL {tol} %": by_name[named[tol][str(n)]]
                  for tol in (str(round(100 * t)) for t in (TOLERANCES[0], TOLERANCES[-1]))}
        rows.append(compare(n, {name: (i, functions[i]) for name, i in chosen.items()}))
    command = "python -m benchmarks.matmul.batched_tuning"
    if given.again:
        command += f" --again {given.again.name}"
    more = {"command": command, "bk": BK, "instances": len(made), "seconds": tuned, "choices": named,
            "fastest": tops}  # fmt: skip
    page = f"{len(made):,} instances, tuned in {tuned:.0f} s, BK = {BK}.\n\n{table(rows, named)}"
    path = batched.keep("batched_tuning", "gpu", rows, page, more, given.out)
    figure(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")),
           path.with_suffix(".png"))  # fmt: skip


if __name__ == "__main__":
    main()

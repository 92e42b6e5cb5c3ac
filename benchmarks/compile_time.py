"""Where the time of a first call goes.

    python -m benchmarks.compile_time [--backend native|cuda] [--runs 3] [--warm] [PART_OF_A_NAME …]

Every program is called in processes of its own, one after the other, with an empty cache on disk
(`--warm`: with what a first process left there). Counted is the processor time of all threads; the
minimum of the runs is reported, in milliseconds, and the part of each phase in it, without the
phases inside. Modules that the first call imports are compiled to byte code already and are a phase
of their own, and so is Python's collector of cycles, which also runs for what was made before;
"beyond" is the time without these two. `cuda` needs no GPU: it stops at the machine code of the
kernels that a call would launch. `--json FILE` writes the numbers, and `--against FILE` shows those
of another run beside them.
"""

from __future__ import annotations

import argparse
import builtins
import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import treadle as td
from benchmarks.npbench import registry

# --- the programs ----------------------------------------------------------------------------

Made = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[], Made]] = {}


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    PROGRAMS[make.__name__] = make
    return make


def numbers(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(7).random(shape).astype(dtype)


def whole(most: int, *shape: int, dtype: Any = np.int64) -> Any:
    return np.random.default_rng(7).integers(0, most, shape).astype(dtype)


@program
def one_map() -> Made:
    return lambda x: 2 * x + 1, (numbers(1000),)


@program
def ten_elementwise() -> Made:
    def f(x: Any, y: Any) -> Any:
        z = td.sqrt(x * x + y * y) + td.exp(-x)
        return td.where(z > 1, z / (1 + y), td.abs(x - y)) * 0.5

    return f, (numbers(1000), numbers(1000))


@program
def ten_operations() -> Made:
    """A blur, a gradient, its length, its normalisation."""

    def f(a: Any) -> Any:
        grey = a * 0.5 + 0.25
        smooth = td.stencil(
            lambda w: (w[-1, 0] + w[0, -1] + 4 * w[0, 0] + w[0, 1] + w[1, 0]) / 8, grey
        )
        dx = td.stencil(lambda w: w[0, 1] - w[0, -1], smooth)
        dy = td.stencil(lambda w: w[1, 0] - w[-1, 0], smooth)
        size = td.sqrt(dx * dx + dy * dy)
        return size / td.maximum(td.the(td.max(size)), 1e-6)

    return f, (numbers(64, 64, dtype=np.float32),)


@program
def stencil_2d() -> Made:
    def f(u: Any) -> Any:
        return td.stencil(lambda w: 0.2 * (w[0, 0] + w[1, 0] + w[-1, 0] + w[0, 1] + w[0, -1]), u)

    return f, (numbers(100, 100),)


@program
def sum_all() -> Made:
    return td.sum, (numbers(100_000),)


@program
def sum_rows_and_columns() -> Made:
    return lambda a: (td.sum(a, axis=0), td.max(a, axis=1)), (numbers(300, 300),)


@program
def scan_sum() -> Made:
    return td.cumsum, (numbers(100_000),)


@program
def histogram() -> Made:
    return lambda x: td.bincount(x, minlength=256), (whole(256, 10_000),)


@program
def sort() -> Made:
    return td.sort, (numbers(10_000),)


@program
def matmul_bias() -> Made:
    def f(a: Any, b: Any, c: Any) -> Any:
        return td.maximum(a @ b + c, 0.0)

    return f, (numbers(64, 64), numbers(64, 64), numbers(64))


@program
def complex_map() -> Made:
    def f(z: Any) -> Any:
        return td.abs(td.exp(z * 1j) / (1 + z * z)) + td.angle(td.sqrt(z))

    return f, (numbers(1000) + 1j * numbers(1000),)


@program
def heat_loop() -> Made:
    def f(u: Any) -> Any:
        def step(v: Any) -> Any:
            return td.stencil(
                lambda w: w[0, 0] + 0.1 * (w[1, 0] + w[-1, 0] + w[0, 1] + w[0, -1] - 4 * w[0, 0]), v
            )

        return td.iterate(20, step, u)

    return f, (numbers(100, 100),)


@program
def kmeans_step() -> Made:
    def f(points: Any, centres: Any) -> Any:
        gaps = points[:, None, :] - centres[None, :, :]
        nearest = td.argmin(td.sum(gaps * gaps, axis=2), axis=1)
        counts = td.bincount(nearest, minlength=16)
        sums = td.stack(
            [td.bincount(nearest, weights=points[:, k], minlength=16) for k in range(2)], axis=1
        )
        return sums / td.maximum(counts, 1)[:, None]

    return f, (numbers(1000, 2), numbers(16, 2))


@program
def image_pipeline() -> Made:
    """Grey, two passes of a Gauss filter, Sobel, thinning, equalisation by a histogram."""

    def f(rgb: Any) -> Any:
        grey = (0.299 * rgb[:, :, 0] + 0.587 * rgb[:, :, 1] + 0.114 * rgb[:, :, 2]) / 255.0
        weights = [0.0625, 0.25, 0.375, 0.25, 0.0625]
        across = td.stencil(lambda w: sum(x * w[0, k - 2] for k, x in enumerate(weights)), grey)
        smooth = td.stencil(lambda w: sum(x * w[k - 2, 0] for k, x in enumerate(weights)), across)
        dx = td.stencil(
            lambda w: w[-1, 1] + 2 * w[0, 1] + w[1, 1] - w[-1, -1] - 2 * w[0, -1] - w[1, -1], smooth
        )
        dy = td.stencil(
            lambda w: w[1, -1] + 2 * w[1, 0] + w[1, 1] - w[-1, -1] - 2 * w[-1, 0] - w[-1, 1], smooth
        )
        size = td.sqrt(dx * dx + dy * dy)
        ridge = td.stencil(lambda w: (w[0, 0] > w[0, 1]) & (w[0, 0] >= w[0, -1]), size)
        level = td.cast(td.minimum(size * 64.0, 255.0), td.int32)
        counts = td.bincount(td.ravel(level), minlength=256)
        table = td.cumsum(counts) / level.size
        return td.where(ridge, td.take(table, level), 0.0)

    return f, (whole(256, 120, 160, 3, dtype=np.uint8),)


@program
def thousand_operations() -> Made:
    def f(a: Any) -> Any:
        for k in range(500):
            a = a * (1 + 1e-3 * k) + 1e-3 if k % 10 else td.roll(a, 1) + a
        return a

    return f, (numbers(1000, dtype=np.float32),)


#: Arguments for programs of NPBench (`benchmarks/npbench`), small ones of the same kinds.
NPBENCH: dict[str, Callable[[], tuple[Any, ...]]] = {
    "softmax": lambda: (numbers(100, 200, dtype=np.float32),),
    "mandelbrot1": lambda: (-2.0, 0.5, -1.2, 1.2, 100, 100, 100, 2.0),
    "jacobi_2d": lambda: (10, numbers(60, 60), numbers(60, 60)),
    "fdtd_2d": lambda: (10, *(numbers(50, 60) for _ in range(3)), numbers(10)),
    "heat_3d": lambda: (10, numbers(20, 20, 20), numbers(20, 20, 20)),
    "hdiff": lambda: (numbers(36, 36, 20), numbers(32, 32, 20), numbers(32, 32, 20)),
    "vadv": lambda: (*(numbers(30, 30, 20) for _ in range(2)), numbers(31, 30, 20),
                     *(numbers(30, 30, 20) for _ in range(2)), 0.15),
    "nbody": lambda: (numbers(40, 1), numbers(40, 3), numbers(40, 3), 40, 10, 0.01, 1.0, 0.1),
    "correlation": lambda: (60, 80.0, numbers(80, 60)),
    "conv2d_bias": lambda: tuple(numbers(*shape, dtype=np.float32)
                                 for shape in ((4, 16, 16, 3), (3, 3, 3, 8), (8,))),
    "mlp": lambda: tuple(numbers(*shape, dtype=np.float32)
                         for shape in ((8, 64), (64, 32), (32,), (32, 32), (32,), (32, 10), (10,))),
    "azimint_hist": lambda: (numbers(10_000), numbers(10_000), 100),
    "spmv": lambda: (np.arange(0, 5001, 10), whole(300, 5000), numbers(5000), numbers(300)),
    "gramschmidt": lambda: (numbers(40, 30),),
}  # fmt: skip


def npbench(name: str) -> Made:
    values = NPBENCH[name]()
    function, varying = registry.load()[name].bind(values)
    return function, tuple(values[k] for k in varying)


PROGRAMS.update({name: functools.partial(npbench, name) for name in NPBENCH})

# --- phases ----------------------------------------------------------------------------------

PHASES = ("import", "trace", "passes", "graph", "plan", "key", "lower", "narrow", "text", "parse",
          "optimise", "code", "link", "nvrtc", "disk", "collector", "rest")  # fmt: skip


class Clock:
    """The processor time of the phases, without that of the phases inside, by all threads."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._local = threading.local()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        stack: list[list[Any]] = self._local.__dict__.setdefault("stack", [])
        now = time.thread_time()
        if stack:
            self.spent[stack[-1][0]] += now - stack[-1][1]
        stack.append([name, now])
        self.calls[name] += 1
        try:
            yield
        finally:
            now = time.thread_time()
            self.spent[name] += now - stack.pop()[1]
            if stack:
                stack[-1][1] = now

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        held = getattr(owner, attribute)

        @functools.wraps(held)
        def timed(*args: Any, **named: Any) -> Any:
            with self.phase(name):
                return held(*args, **named)

        setattr(owner, attribute, timed)

    def imports(self) -> None:
        held = builtins.__import__
        modules = sys.modules

        def timed(name: str, *args: Any, **named: Any) -> Any:
            level = args[3] if len(args) > 3 else named.get("level", 0)
            if not level and name in modules:
                return held(name, *args, **named)
            with self.phase("import"):
                return held(name, *args, **named)

        builtins.__import__ = timed

    def collections(self) -> None:
        """Python's collector of cycles runs when there are many objects, whoever made them."""
        running: list[Any] = []

        def called(what: str, _: object) -> None:
            if what == "start":
                running.append(self.phase("collector"))
                running[-1].__enter__()
            else:
                running.pop().__exit__(None, None, None)

        gc.callbacks.append(called)


def found(name: str) -> Any:
    return importlib.import_module(f"treadle.{name}")


#: What only programs import that are not on disk.
COMPILING = ("skeletons.", "backend.native.codegen.")


def measured(name: str, backend: str, warm: bool) -> dict[str, Any]:
    """One first call, in this process."""
    function, args = PROGRAMS[name]()
    clock = Clock()
    began = time.process_time()
    clock.imports()
    clock.collections()
    with clock.phase("import"):
        optimised, jit, disk = (
            found("driver.optimised"),
            found("driver.jit"),
            found("backend.runtime.disk_cache"),
        )
        steps: dict[str, tuple[tuple[str, str, str], ...]] = {
            "native": (
                ("backend.runtime.executor", "Executor.__init__", "plan"),
                ("backend.native.recipe", "lowered", "plan"),
                ("backend.native.recipe", "key_of", "key"),
                ("backend.native.codegen.fingerprint", "fingerprint", "key"),
                ("backend.native.codegen.compile", "emit", "text"),
                ("backend.native.runtime.objects", "load", "link"),
                ("backend.native.codegen.llvm", "llvm.parse_assembly", "parse"),
                ("backend.native.codegen.engine", "_Compiler.optimise", "optimise"),
                ("backend.native.codegen.engine", "_Compiler.object_of", "code"),
            ),
            "cuda": (
                ("backend.cuda.compile.nvrtc", "print_kernel", "text"),
                ("backend.cuda.compile.nvrtc", "_Nvrtc.compile", "nvrtc"),
            ),
        }  # fmt: skip
        for module, path, phase in (
            ("skeletons.lower.lower", "lower", "lower"),
            ("skeletons.ir.narrow", "narrow", "narrow"),
            *steps[backend],
        ):
            if warm and module.startswith(COMPILING):
                continue
            owner = found(module)
            *outer, attribute = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            clock.wrap(owner, attribute, phase)
    clock.wrap(optimised, "run_passes", "passes")
    clock.wrap(optimised, "_encoded", "key")
    clock.wrap(optimised._Written, "read", "graph")
    clock.wrap(optimised._Written, "keep", "graph")
    clock.wrap(jit.Jit, "_trace", "trace")
    for attribute in ("get", "put"):
        clock.wrap(disk.DiskCache, attribute, "disk")
    # (A program for the CPU has the same graph, and needs no driver.)
    compiled = td.jit(function, backend="native")
    with clock.phase("rest"):
        if backend == "native":
            compiled(*args)
        else:
            gpu_code(compiled.lower(*args))
    total = time.process_time() - began
    made = {k: v * 1e3 for k, v in clock.spent.items()}
    counts = {k: clock.calls[k] for k in ("lower", "code", "link", "nvrtc") if clock.calls[k]}
    return {"total": total * 1e3, "phases": made, "counts": counts}


def gpu_code(made: Any, arch: str = "sm_90a") -> None:
    """The machine code of the kernels that a first call would launch on a GPU."""
    from treadle.backend.cuda import source, steps
    from treadle.backend.cuda.compile import nvrtc
    from treadle.skeletons.lower.lower import lower

    kernels = []
    for node in source.nodes(made):
        for first in lower(node, steps.context_for(132, made.settings.check)).kernels:
            kernels.append(steps.narrowed(first) or first)
    nvrtc.compile_kernels(kernels, arch, made.settings.fast_math)


def child(name: str, backend: str, folder: Path, cache: str, warm: bool) -> dict[str, Any]:
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    environment["TREADLE_CACHE_DIR"] = str(folder / cache)
    command = [sys.executable, "-m", "benchmarks.compile_time", "--child", name]
    done = subprocess.run(
        [*command, "--backend", backend, *(["--warm"] if warm else [])],
        capture_output=True, text=True, env=environment, check=False, timeout=600,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip()[-1500:]}")
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read


def beyond(result: dict[str, Any]) -> float:
    """The time of a program without imports and the collector."""
    phases = result["phases"]
    return float(result["total"] - phases.get("import", 0) - phases.get("collector", 0))


def table(results: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> str:
    shown = [p for p in PHASES if any(r["phases"].get(p, 0) > 0.5 for r in results.values())]
    head = ["program", *(["before"] if before else []), "total", "beyond", *shown, "counts"]
    lines = [head, ["---", *["---:"] * (len(head) - 2), "---"]]
    for name, r in results.items():
        apart = beyond(r)
        cells = [f"{x:.0f}" for x in (r["total"], apart, *(r["phases"].get(p, 0) for p in shown))]
        explained = ", ".join(f"{n} {k}" for k, n in r["counts"].items())
        old = [f"{before[name]['total']:.0f}" if name in before else ""] if before else []
        lines.append([name, *old, *cells, explained])
    totals = [r["total"] for r in results.values()]
    apart_of_all = [beyond(r) for r in results.values()]
    lines.append(["median", *([""] if before else []), f"{median(totals):.0f}",
                  f"{median(apart_of_all):.0f}", *[""] * len(shown), ""])  # fmt: skip
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="native", choices=("native", "cuda"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--against")
    parser.add_argument("--child")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measured(asked.child, asked.backend, asked.warm)))
        return
    names = [n for n in PROGRAMS if not asked.names or any(part in n for part in asked.names)]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in names:  # makes the byte code
            child(name, asked.backend, folder, f"warm-{name}", warm=False)
        for k in range(asked.runs):
            for name in names:
                cache = f"warm-{name}" if asked.warm else f"{name}-{k}"
                one = child(name, asked.backend, folder, cache, asked.warm)
                if name not in results or one["total"] < results[name]["total"]:
                    results[name] = one
    before = json.loads(Path(asked.against).read_text(encoding="utf-8")) if asked.against else {}
    print(table(results, before))
    if asked.json:
        Path(asked.json).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

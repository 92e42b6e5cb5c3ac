"""How much dearer gradients are: value and gradient beside the function, of treadle and JAX.

    python -m benchmarks.gradients [--json FILE] [--calls 9] [--backend cuda] [--seconds 60] [NAME]
    python -m benchmarks.gradients --field 64 loop
    python -m benchmarks.gradients --kernels [--backend cuda] NAME
    python -m benchmarks.gradients --compile [--json FILE] [NAME]

Times are the least of several means over as many calls as take 30 ms: of the processor on a CPU, so
that other processes count less (its clock is late by up to 4 ms, for each thread), and of the clock
on a GPU, where the arguments are in its memory, and larger.  JAX, if it is installed, runs the same
function in the same process, each program in turn with treadle's, without TF32.  After so many
`--seconds` no other workload is started.  `kernels` are launches of a call.
OpenBLAS's threads spin while they wait: where others use the cores, set OPENBLAS_NUM_THREADS=1.

A loop of stencils is done by several steps in one pass over memory, which its gradient, that stores
the states, cannot.

With `--kernels`, nothing is measured: a table says which kernels the gradient has, and how many
bytes per element they read and write if every array that they use is moved once (no GPU is needed).
With `--compile`, first calls are, on a CPU: processor times in processes of their own, with an
empty cache, after another program was compiled and the good code of the runtime was made, less
those of second calls.

Some workloads are from GradBench: see `gradbench`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from treadle.dsl.analysis.regions import nests
from treadle.dsl.expr import Read, walk
from treadle.dsl.graph import ArrayLoop, Fold, Leaf
from treadle.skeletons.access.maps import read_bodies

from . import provenance
from .gradbench import (
    Workload,
    adjustment,
    determinants,
    hand,
    k_means,
    log_sum_exp,
    loop,
    lstm,
    mixture,
    rng,
    runge_kutta,
    squares,
)

STEPS = 200
#: Seconds that the calls of one mean take.
BATCH = 0.03


def _neighbours(m: Any, u: Any) -> Any:
    return (m.roll(u, 1, 0) + m.roll(u, -1, 0) + m.roll(u, 1, 1) + m.roll(u, -1, 1)) * 0.25


def _steps(m: Any, u: Any, k: Any) -> Any:
    def step(u: Any) -> Any:
        return u + k * (_neighbours(m, u) - u) * u

    return m.sum(loop(m, STEPS, step, u))


def _row_max(m: Any, x: Any) -> Any:
    return m.sum(m.max(x, axis=1) ** 2)


def workloads(backend: str, field: int | None = None) -> tuple[Workload, ...]:
    """Those for a CPU, or larger ones for a GPU; `field`: the extent of the loops' states."""
    large = backend == "cuda"
    side, field = (8192, field or 2048) if large else (1024, field or 256)
    matrix = 4096 if large else 1024
    flat = rng.random(1 << (26 if large else 22), np.float32)
    grid = rng.random((side, side), np.float32)
    left, right = (rng.random((matrix, matrix), np.float32) for _ in range(2))
    state, k = rng.random((field, field), np.float32), np.float32(0.3)
    few = int(3 * STEPS**0.5)
    mixtures = ((64, 25, 10000), (64, 200, 10000)) if large else (
        (10, 25, 1000), (64, 25, 1000), (10, 25, 10000))  # fmt: skip
    times = 25 if large else 1
    return (
        *(mixture(*sizes) for sizes in mixtures),
        Workload("map", 2.5, lambda m, x: m.sum(m.sin(x) * m.exp(x)), (flat,)),
        Workload("stencil", 4, lambda m, x: m.sum(_neighbours(m, x) * x), (grid,)),
        Workload("sum", 2, lambda m, x: m.sum(x * x), (flat,)),
        Workload("maxima of rows", 3, _row_max, (grid,)),
        Workload("cumulative sum", 2, lambda m, x: m.sum(m.cumsum(x) ** 2), (flat,)),
        Workload("product", 3.1, lambda m, a, b: m.sum((a @ b) ** 2), (left, right)),
        Workload("loop, all states stored", 3.5, _steps, (state, k)),
        Workload(f"loop, {few} of {STEPS} states stored", 4.5, _steps, (state, k),
                 few * state.nbytes),
        adjustment(50, 5000, 40000 * times),
        Workload("k-means, 10 centres in 8 dimensions", 4, k_means,
                 (rng.random((10, 8)), rng.random((10000 * times, 8)))),
        Workload("log-sum-exp", 4, lambda m, x: log_sum_exp(m, x, 0),
                 (rng.random((1 << 20) * (16 if large else 1)),)),
        lstm(2, 100, 256),
        squares(1_000_000 if large else 10_000, 128),
        runge_kutta(1000, 1000),
        determinants(100_000 if large else 2000, 8),
        hand(100_000 if large else 544, 200_000 if large else 10_000),
    )  # fmt: skip


def least(calls: Sequence[Callable[[], Any]], number: int, clock: Callable[[], float]
          ) -> list[float]:  # fmt: skip
    """Milliseconds of a call of each: the least of `number` means, measured in turns."""
    many = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        many.append(1 + int(BATCH / (time.perf_counter() - start)))
    found = [float("inf")] * len(calls)
    for _ in range(number):
        for k, (call, count) in enumerate(zip(calls, many, strict=True)):
            start = clock()
            for _ in range(count):
                call()
            found[k] = min(found[k], (clock() - start) / count)
    return [t * 1e3 for t in found]


def measured(w: Workload, number: int, backend: str) -> dict[str, Any]:
    """Times of treadle and of JAX, and the largest difference of their gradients."""
    which = tuple(range(len(w.arguments)))
    clock = time.process_time if backend == "native" else time.perf_counter
    programs = [td.jit(function_of(w, gradient), backend=backend) for gradient in (False, True)]
    args = (*w.arguments, *w.data)
    if backend == "cuda":
        import cupy

        args = tuple(cupy.asarray(a) for a in args)
    began = time.perf_counter()
    programs[0](*args)
    between = time.perf_counter()
    _, gradients = programs[1](*args)
    compiled = [(between - began) * 1e3, (time.perf_counter() - between) * 1e3]

    def done() -> None:
        if backend == "cuda":
            cupy.cuda.Device().synchronize()

    def timed(f: Any) -> Callable[[], None]:
        def call() -> None:
            f(*args)
            done()

        return call

    calls: list[Callable[[], Any]] = [timed(f) for f in programs]
    row: dict[str, Any] = {"name": w.name, "target": w.target}
    peers = importlib.util.find_spec("jax") is not None and w.memory is None
    if peers:
        import jax
        import jax.numpy as jnp

        given = [jnp.asarray(a) for a in (*w.arguments, *w.data)]

        def same(*args: Any) -> Any:
            return w.function(jnp, *args)

        others = [jax.jit(same), jax.jit(jax.value_and_grad(same, which))]
        calls += [lambda f=f: jax.block_until_ready(f(*given)) for f in others]
        expected = others[1](*given)[1]
        row["difference"] = max(
            float(np.abs(_host(g) - np.asarray(e)).max() / (np.abs(np.asarray(e)).max() or 1))
            for g, e in zip(gradients, expected, strict=True)
        )
    times = least(calls, number, clock)
    row["treadle"] = _of(times[:2]) | {
        "kernels": [len(f.lower(*args).kernels) for f in programs],
        "first call": compiled,
    }
    if peers:
        row["jax"] = _of(times[2:])
    return row


def function_of(w: Workload, gradient: bool) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        return w.function(td, *args)

    which = tuple(range(len(w.arguments)))
    return td.value_and_grad(function, which, memory=w.memory) if gradient else function


def first_call(w: Workload, gradient: bool) -> float:
    """Milliseconds of the processor that a first call takes longer than a second one."""
    other, program = (
        td.jit(f, backend="native")
        for f in (lambda x: (td.sum(x * 2), x[:, None] + x), function_of(w, gradient))
    )
    for _ in range(2):  # by several threads, and replayed
        other(np.ones(1 << 10))
    settle()
    marks = [time.process_time()]
    for _ in range(2):
        program(*w.arguments, *w.data)
        marks.append(time.process_time())
    return (2 * marks[1] - marks[0] - marks[2]) * 1e3


def settle() -> None:
    """Wait until the good code of the runtime is made, which begins a second after it is loaded."""
    time.sleep(1.5)
    spent = -1.0
    while time.process_time() - spent > 0.01:
        spent = time.process_time()
        time.sleep(0.3)


def compiled(names: Sequence[str], runs: int) -> Iterator[dict[str, Any]]:
    """The least first calls of a function, and of its value and gradient, each in a new process."""
    for w in workloads("native"):
        if names and not any(n in w.name for n in names):
            continue
        times = []
        for gradient in (False, True):
            found = []
            for _ in range(runs):
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run(
                        [sys.executable, "-m", "benchmarks.gradients", "--child",
                         "gradient" if gradient else "function", w.name],
                        capture_output=True, text=True, check=True, encoding="utf-8",
                        env=os.environ | {"TREADLE_CACHE_DIR": folder},
                    )  # fmt: skip
                found.append(float(done.stdout.splitlines()[-1]))
            times.append(min(found))
        yield {"name": w.name, "target": 3, "first call": times, "ratio": times[1] / times[0]}


@dataclass(frozen=True)
class Traffic:
    """A kernel, the loops around it, and the bytes it reads and writes for each element."""

    kernel: str
    loops: int
    read: int
    written: int


def traffic(program: td.Program) -> list[Traffic]:
    """The kernels that visit arrays of one axis or more.  An array that is read at several indices,
    as neighbours are, counts once."""
    found = []
    around = nests(program.roots)
    for node in program.kernels:
        space = node.iteration_space()
        if not space or isinstance(node, ArrayLoop):
            continue
        bodies = read_bodies(node)
        read = {Leaf(e.node, e.component) for e in walk(bodies) if isinstance(e, Read) and e.varies}
        single = isinstance(node, Fold) and not node.outer
        written = 0 if single else sum(o.type.bytes for o in node.outputs)
        depth = min(sum(isinstance(n, ArrayLoop) for n, _ in nest) for nest in around[node])
        found.append(Traffic(str(node.label), depth, sum(x.type.bytes for x in read), written))
    return found


def show_traffic(backend: str, names: Sequence[str]) -> str:
    """The tables of gradients for a backend."""
    lines = []
    for w in workloads(backend):
        if not any(n in w.name for n in names):
            continue
        program = td.jit(function_of(w, True), backend="native").lower(*w.arguments, *w.data)
        lines += [f"{w.name}, on {backend}", "",
                  "| kernel | loops around it | bytes read | written | in all |",
                  "| --- | --- | --- | --- | --- |"]  # fmt: skip
        for t in traffic(program if backend == "native" else program._on(backend)):
            total = t.read + t.written
            lines.append(f"| {t.kernel} | {t.loops} | {t.read} | {t.written} | {total} |")
        lines.append("")
    return "\n".join(lines)


def _host(a: Any) -> np.ndarray[Any, Any]:
    return np.asarray(a.get() if hasattr(a, "get") else a)


def _of(times: Sequence[float]) -> dict[str, Any]:
    return {"primal": times[0], "gradient": times[1], "ratio": times[1] / times[0]}


def measure(
    number: int, backend: str, names: Sequence[str] = (), seconds: float = float("inf"),
    field: int | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    began = time.perf_counter()
    for w in workloads(backend, field):
        chosen = not names or any(n in w.name for n in names)
        if chosen and time.perf_counter() - began < seconds:
            try:
                yield measured(w, number, backend)
            except Exception as error:  # the others are measured
                yield {"name": w.name, "error": f"{type(error).__name__}: {error}"}


def shown(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| program | treadle | ratio | target | kernels | JAX | ratio |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['name']} | {row['error'].splitlines()[0]} | | | | | |")
            continue
        t, j = row["treadle"], row.get("jax")
        other = " | " if j is None else f"{_times(j)} | {j['ratio']:.1f}"
        lines.append(
            f"| {row['name']} | {_times(t)} | {t['ratio']:.1f} | {row['target']} "
            f"| {t['kernels'][0]} → {t['kernels'][1]} | {other} |"
        )
    return "\n".join(lines)


def shown_compiled(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| program | first call | ratio |", "| --- | --- | --- |"]
    for row in rows:
        function, gradient = row["first call"]
        lines.append(f"| {row['name']} | {function:.0f} → {gradient:.0f} ms | {row['ratio']:.1f} |")
    return "\n".join(lines)


def _times(t: dict[str, Any]) -> str:
    return f"{t['primal']:.3g} → {t['gradient']:.3g} ms"


def surroundings(backend: str) -> dict[str, Any]:
    """The date, the commit, the device and the versions."""
    device: Any = provenance.processor()
    if backend == "cuda":
        import cupy

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    kept = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    found = {"date": datetime.date.today().isoformat(), **provenance.commit(), "device": device,
             "load": list(os.getloadavg()), "environment": kept,
             "versions": provenance.versions()}  # fmt: skip
    if importlib.util.find_spec("jax") is not None:
        import jax

        found["jax device"] = str(jax.devices()[0].device_kind)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads whose names contain one of these")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--calls", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--backend", default="native", choices=["native", "cuda"])
    parser.add_argument("--field", type=int, help="the extent of the states of the loops")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--child", choices=["function", "gradient"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        (w,) = (w for w in workloads("native") if w.name == chosen.names[0])
        print(first_call(w, chosen.child == "gradient"))
        return
    if chosen.kernels:
        print(show_traffic(chosen.backend, chosen.names or [""]))
        return
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        config = importlib.import_module("jax").config
        config.update("jax_enable_x64", True)
        config.update("jax_default_matmul_precision", "highest")
    made = surroundings(chosen.backend) | {"calls": chosen.calls, "rows": []}
    table = shown_compiled if chosen.compile else shown
    rows = (
        compiled(chosen.names, min(chosen.calls, 3))
        if chosen.compile
        else measure(chosen.calls, chosen.backend, chosen.names, chosen.seconds, chosen.field)
    )
    for row in rows:
        made["rows"].append(row)
        print(table([row]).splitlines()[-1], flush=True)
        if chosen.json:  # after each: the process may be stopped
            text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
            chosen.json.write_text(text, encoding="utf-8")
    print(table(made["rows"]))


if __name__ == "__main__":
    main()

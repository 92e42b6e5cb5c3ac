"""What a user feels beside the kernels: calling again, iterations of a loop, the first call."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Goal, Row, Timing, judge, timing

from .common import Run, Scale, cp, error_of, jax, jnp, raw, tensor, torch, uniform

GROUP = "Overheads"


def host_times(runs: dict[str, Run], calls: int = 200, samples: int = 15) -> dict[str, Timing]:
    """Microseconds of host time a call, interleaved; the device is idle before each sample."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(5):
            run()
    for _ in range(samples):
        for name, run in runs.items():
            cp.cuda.Device().synchronize()
            start = perf_counter()
            for _ in range(calls):
                run()
            found[name].append((perf_counter() - start) / calls)
            cp.cuda.Device().synchronize()
    return {name: timing(times) for name, times in found.items()}


def _row(name: str, mine: Timing, peers: dict[str, Timing], goal: Goal | None) -> Row:
    made = Row(name, GROUP, mine, peers, unit="µs", value=mine.median * 1e6,
               target=str(goal or ""))  # fmt: skip
    if peers:
        made.best = min(peers, key=lambda n: peers[n].median)
        made.ratio = peers[made.best].median / mine.median
    made.met = judge((goal,), made) if goal else None
    return made


def small_call() -> Row:
    x = cp.arange(10, dtype=np.float32)
    ours = td.jit(lambda x: td.sqrt(2 * x + 1), backend="cuda")
    runs: dict[str, Run] = {"treadle": lambda: ours(x)}
    element = cp.ElementwiseKernel("float32 x", "float32 y", "y = sqrtf(2 * x + 1)", "small")
    out = cp.empty_like(x)
    kernel = raw('extern "C" __global__ void small(const float* x, float* y)'
                 "{ y[threadIdx.x] = sqrtf(2 * x[threadIdx.x] + 1); }", "small")  # fmt: skip
    runs["CuPy element-wise"] = lambda: element(x)
    runs["CuPy raw"] = lambda: kernel((1,), (10,), (x, out))
    if torch is not None:
        t = tensor(x)
        compiled = torch.compile(lambda t: torch.sqrt(2 * t + 1))
        runs["torch compiled"] = lambda: compiled(t)
    if jax is not None:
        held, by_jax = jax.dlpack.from_dlpack(x), jax.jit(lambda x: jnp.sqrt(2 * x + 1))
        runs["JAX"] = lambda: by_jax(held)
    found = host_times(runs)
    return _row("calling a compiled program on 10 elements (host time)", found.pop("treadle"),
                found, Goal("value", 15.0))  # fmt: skip


def iterations(name: str, body: Callable[[Any, Any], Any], scale: Scale) -> Row:
    """An iteration of a loop over a small array, most of whose time is not the work."""
    n = scale.n(10_000, 2_000, 20)
    x = cp.zeros(1000, np.float32)

    def written(x: Any) -> Any:
        state = (td.unit(td.int32(0)), td.use(x))
        return td.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, body(td, s[1])), state)[1]

    ours = td.jit(written, backend="cuda")
    runs: dict[str, Run] = {"treadle": lambda: ours(x)}
    if jax is not None:
        held = jax.dlpack.from_dlpack(x)
        loop = jax.jit(lambda x: jax.lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, body(jnp, s[1])), (0, x))[1])  # fmt: skip
        runs["JAX"] = lambda: jax.block_until_ready(loop(held))
    found: dict[str, list[float]] = {k: [] for k in runs}
    for _ in range(6):
        for key, run in runs.items():
            cp.cuda.Device().synchronize()
            start = perf_counter()
            run()
            cp.cuda.Device().synchronize()
            found[key].append((perf_counter() - start) / n)
    times = {k: timing(v[1:]) for k, v in found.items()}
    return _row(f"one of {n} iterations: {name}", times.pop("treadle"), times, Goal("value", 5.0))


def iterated(scale: Scale) -> Row:
    n = scale.n(10_000, 2_000, 20)
    x = cp.zeros(1000, np.float32)
    ours = td.jit(lambda x, n: td.iterate(n, lambda a: a * 0.5 + 1, x), backend="cuda")
    samples = []
    for _ in range(6):
        cp.cuda.Device().synchronize()
        start = perf_counter()
        ours(x, n)
        cp.cuda.Device().synchronize()
        samples.append((perf_counter() - start) / n)
    return _row(f"one of {n} iterations: iterate", timing(samples[1:]), {}, Goal("value", 5.0))


def host_to_host(scale: Scale) -> Row:
    """A program on arrays of the host: the bus is most of it.  What comes back is checked."""
    n = scale.n(64 << 20, 16 << 20, 1000)
    x, y = (uniform(n, dtype=np.float32) + k for k in range(2))
    a, b, exact = x.get(), y.get(), cp.sqrt(x.astype(np.float64) * y + 1)
    ours = td.jit(lambda a, b: td.sqrt(a * b + 1), backend="cuda")
    runs: dict[str, Run] = {
        "treadle": lambda: ours(a, b),
        "CuPy": lambda: cp.asnumpy(cp.sqrt(cp.asarray(a) * cp.asarray(b) + 1)),
    }
    if torch is not None:
        c, d = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch"] = lambda: torch.sqrt(c.cuda() * d.cuda() + 1).cpu()
        e, f, out = c.pin_memory(), d.pin_memory(), torch.empty(n, pin_memory=True)
        runs["torch, arrays pinned by the user"] = lambda: out.copy_(
            torch.sqrt(e.cuda(non_blocking=True) * f.cuda(non_blocking=True) + 1)
        )
    correct = error_of(ours(a, b), exact) < 1e-6
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(6):
        for name, run in runs.items():
            start = perf_counter()
            run()
            found[name].append(perf_counter() - start)
    times = {name: timing(samples[1:]) for name, samples in found.items()}
    mine, best = times.pop("treadle"), min(times, key=lambda name: times[name].median)
    work = f"√(ab + 1) of two host arrays of {n >> 18} MB, host to host"
    return Row(work, GROUP, mine, times, ratio=times[best].median / mine.median, best=best,
               correct=correct)  # fmt: skip


def overheads(scale: Scale, wanted: Callable[[str], bool]) -> list[Row]:
    made: list[Row] = []
    works: list[tuple[str, Callable[[], Row]]] = [
        ("call", small_call),
        ("iteration", lambda: iterations("one fused map", lambda m, a: a * 0.5 + 1, scale)),
        (
            "iteration",
            lambda: iterations("a map of a roll", lambda m, a: m.roll(a, 1) * 0.5 + 1, scale),
        ),
        (
            "iteration",
            lambda: iterations(
                "a map of the sum of all", lambda m, a: a * 0.5 + m.sum(a) * 1e-4, scale
            ),
        ),
        ("iteration", lambda: iterated(scale)),
        ("host to host", lambda: host_to_host(scale)),
    ]
    for name, work in works:
        if not wanted(name):
            continue
        try:
            made.append(work())
        except Exception as error:  # one row that fails does not end the others
            note = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            made.append(Row(name, GROUP, None, {}, unit="µs", correct=False, met=False, note=note))
    return made

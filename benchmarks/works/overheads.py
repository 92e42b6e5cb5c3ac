"""What a user waits for besides the work itself: calls, loops, first calls, imports."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numba as nb
import numpy as np

import treadle as td
from benchmarks.harness import Goal, Row, Timing, interleave, judge, timing
from benchmarks.provenance import ROOT

from .common import Run, Scale, jax, jnp

GROUP = "Overheads"


def row(
    name: str,
    unit: str,
    value: float | None,
    goal: Goal | None,
    *,
    peers: Any = None,
    spread: Timing | None = None,
    note: str = "",
) -> Row:
    """A row whose result is a number of `unit`, with a limit."""
    made = Row(name, GROUP, spread, peers or {}, unit=unit, value=value, note=note)
    made.target = "" if goal is None else f"{goal} {unit}".strip()
    if spread is not None and made.peers:
        made.best = min(made.peers, key=lambda n: made.peers[n].median)
        made.ratio = made.peers[made.best].median / spread.median
    if goal is not None:
        made.met = False if value is None else judge([goal], made)
    return made


def per(timing_: Timing, count: int) -> Timing:
    """The time of one of `count` equal parts."""
    return Timing(
        timing_.median / count,
        timing_.low / count,
        timing_.high / count,
        timing_.least / count,
        timing_.samples,
        timing_.error,
        timing_.first,
    )


def raced(
    name: str, ours: Run, peers: Mapping[str, Run], goal: Goal, budget: float, parts: int = 1
) -> Row:
    """Microseconds a call (or for one of its `parts`)."""
    runs = {"treadle": ours, **peers}
    for run in runs.values():
        run()
    found = {n: per(timing(s), parts) for n, s in interleave(runs, budget).items()}
    mine = found.pop("treadle")
    return row(name, "µs", mine.median * 1e6, goal, peers=found, spread=mine)


# --- calls and iterations -------------------------------------------------------------------------


def small_call(scale: Scale, budget: float) -> Row:
    """A compiled program on ten elements."""
    x = np.arange(10, dtype=np.float32)
    ours = td.jit(lambda x: td.sqrt(2 * x + 1), backend=scale.backend)
    peers: dict[str, Run] = {"NumPy": lambda: np.sqrt(2 * x + 1)}
    by_numba = nb.njit(lambda x: np.sqrt(np.float32(2) * x + np.float32(1)))
    peers["Numba"] = lambda: by_numba(x)
    if jax is not None:
        by_jax = jax.jit(lambda x: jnp.sqrt(2 * x + 1))
        peers["JAX"] = lambda: jax.block_until_ready(by_jax(x))
    return raced(
        "calling a compiled program on 10 elements",
        lambda: ours(x),
        peers,
        Goal("value", 15.0),
        budget,
    )


def iterations(scale: Scale, budget: float) -> Row:
    """A loop over a small array, most of whose time is not the work."""
    n = scale.n(10_000, 10_000, 20)
    x = np.zeros(64, np.float32)

    def written(x: Any) -> Any:
        state = (td.unit(td.int32(0)), td.use(x))
        return td.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + 1), state)[1]

    ours = td.jit(written, backend=scale.backend)

    def by_numpy() -> Any:
        k, state = 0, x
        while k < n:
            k, state = k + 1, state * np.float32(0.5) + 1
        return state

    peers: dict[str, Run] = {"NumPy": by_numpy}
    if jax is not None:
        looped = jax.jit(
            lambda x: jax.lax.while_loop(
                lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + 1), (0, x)
            )[1]
        )
        peers["JAX"] = lambda: jax.block_until_ready(looped(x))
    return raced(
        f"one iteration of a while_loop over 64 elements ({n} iterations)",
        lambda: ours(x),
        peers,
        Goal("value", 5.0),
        budget,
        n,
    )


def uncompiled_chains(scale: Scale, budget: float) -> list[Row]:
    """Operations outside of compiled functions on 1 000 elements, whose value is looked at: what a
    chain costs once its program is cached."""
    x, y = np.random.default_rng(0).random((2, 1000))
    chains: dict[str, Callable[[Any, Any, Any], Any]] = {
        "a + b": lambda m, a, b: a + b,
        "(a - mean) / std": lambda m, a, b: (a - m.mean(a)) / m.std(a),
        "sum of sqrt(a * a + b * b)": lambda m, a, b: m.sum(m.sqrt(a * a + b * b)),
        "the larger ones, sorted": lambda m, a, b: m.sort(m.where(a > b, a, b)),
    }
    rows = []
    for name, chain in chains.items():
        ours = partial(chain, td, td.use(x), td.use(y))
        np.testing.assert_allclose(np.asarray(ours()), chain(np, x, y), rtol=1e-12)
        peers: dict[str, Run] = {"NumPy": partial(chain, np, x, y)}
        if jax is not None:
            peers["JAX"] = _ready(partial(chain, jnp, jnp.asarray(x), jnp.asarray(y)))
        label = f"uncompiled: {name}, 1 000 elements"
        rows.append(raced(label, _looked_at(ours), peers, Goal("value", 100.0), budget))
    return rows


def _looked_at(made: Run) -> Run:
    return lambda: np.asarray(made())


def _ready(made: Run) -> Run:
    return lambda: jax.block_until_ready(made())


# --- first calls, in processes of their own --------------------------------------------------

TEN = '''
def ten(td):
    """Ten operations: a blur, a gradient, its length, its normalisation."""
    def f(a):
        grey = a * 0.5 + 0.25
        smooth = td.stencil(lambda w: (w[-1, 0] + w[0, -1] + 4 * w[0, 0] + w[0, 1] + w[1, 0]) / 8,
                            grey)
        dx = td.stencil(lambda w: w[0, 1] - w[0, -1], smooth)
        dy = td.stencil(lambda w: w[1, 0] - w[-1, 0], smooth)
        size = td.sqrt(dx * dx + dy * dy)
        top = td.max(size)
        return size / td.maximum(td.the(top), 1e-6)
    return f
'''

FIRST = (
    """
import json, time, sys
import numpy as np
import treadle as td
from treadle.dsl import passes
"""
    + TEN
    + """
a = np.random.default_rng(0).random((64, 64), dtype=np.float32)
f = td.jit(ten(td), backend=sys.argv[1])
t0 = time.perf_counter()
program = f.lower(a)
t1 = time.perf_counter()
f(a)
t2 = time.perf_counter()
f(a)
t3 = time.perf_counter()
passes.run_passes(program.source_roots, program.settings, program.backend)
t4 = time.perf_counter()
g = td.jit(ten(td), backend=sys.argv[1])
g.lower(a)
t5 = time.perf_counter()
kernels = len(program.kernels)
print(json.dumps({"trace_and_passes": t1 - t0, "code": t2 - t1, "again": t3 - t2,
                  "passes": t4 - t3, "warm_trace_and_passes": t5 - t4, "kernels": kernels}))
"""
)

IMPORT = """
import json, sys, time
t0 = time.perf_counter()
import numpy
t1 = time.perf_counter()
import treadle
t2 = time.perf_counter()
names = [n for n in ("cupy", "numba", "scipy", "jax", "matplotlib") if n in sys.modules]
print(json.dumps({"import": t2 - t0, "numpy": t1 - t0, "loaded": names}))
"""


def elsewhere(source: str, *args: str, folder: str, cache: str = "none") -> dict[str, Any]:
    """What a fresh Python prints; with a cache of its own for native code in `folder`.

    Its byte code is kept in `folder` too: after a first process it is there, as it would be for
    an installed package.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
    environment["TREADLE_CACHE_DIR"] = str(Path(folder) / cache)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        [sys.executable, "-c", source, *args],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def jax_first_call() -> dict[str, Timing]:
    """Tracing and compiling the same ten operations by JAX, in this process, twice afresh."""
    if jax is None:
        return {}
    x = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    samples = []
    for k in range(3):

        def ten(a: Any, k: int = k) -> Any:
            p = jnp.pad(a * 0.5 + 0.25, 1, mode="edge")
            near = p[:-2, 1:-1] + p[1:-1, :-2] + 4 * p[1:-1, 1:-1] + p[1:-1, 2:] + p[2:, 1:-1]
            p = jnp.pad(near / (8 + 1e-7 * k), 1, mode="edge")  # not the same program again
            dx, dy = p[1:-1, 2:] - p[1:-1, :-2], p[2:, 1:-1] - p[:-2, 1:-1]
            size = jnp.sqrt(dx * dx + dy * dy)
            return size / jnp.maximum(jnp.max(size), 1e-6)

        start = perf_counter()
        jax.block_until_ready(jax.jit(ten)(x))
        samples.append(perf_counter() - start)
    return {"JAX": timing(samples[1:])}


def first_calls(scale: Scale, repeats: int) -> list[Row]:
    """Ten operations in fresh processes: with an empty disk cache, then with a full one."""
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as folder:
        elsewhere(FIRST, scale.backend, folder=folder)
        for k in range(repeats):
            cold.append(elsewhere(FIRST, scale.backend, folder=folder, cache=str(k)))
            warm.append(elsewhere(FIRST, scale.backend, folder=folder, cache=str(k)))

    def typical(runs: list[dict[str, Any]], key: str) -> float:
        return float(median(r[key] for r in runs)) * 1e3

    kernels = f"{cold[0]['kernels']} kernels"
    both = cold + warm
    made = typical(cold, "code")
    return [
        row(
            "10 operations, first in a process: trace and passes",
            "ms",
            typical(both, "trace_and_passes"),
            Goal("value", 10.0),
        ),
        row(
            "10 operations, later in a process: trace and passes",
            "ms",
            typical(both, "warm_trace_and_passes"),
            Goal("value", 10.0),
            note=f"of it passes {typical(both, 'passes'):.1f} ms",
        ),
        row(
            "10 operations: native code, cold",
            "ms",
            made,
            Goal("value", 60.0),
            peers=jax_first_call(),
            note=f"{kernels}; with lowering and the first run; JAX: its whole first call",
        ),
        row(
            "10 operations: native code from the disk cache",
            "ms",
            typical(warm, "code"),
            Goal("value", 10.0),
            note=f"{kernels}; with the import of LLVM's binding and the first run",
        ),
    ]


def importing(repeats: int) -> list[Row]:
    """`import treadle` in a fresh process, NumPy included."""
    with tempfile.TemporaryDirectory() as folder:
        elsewhere(IMPORT, folder=folder)
        runs = [elsewhere(IMPORT, folder=folder) for _ in range(repeats)]
    value = median(r["import"] for r in runs)
    note = f"NumPy alone {median(r['numpy'] for r in runs):.3f} s"
    loaded = runs[0]["loaded"]
    if loaded:
        note += f"; imports {', '.join(loaded)}"
    return [row("import treadle", "s", value, Goal("value", 0.25), note=note)]


# --- large programs --------------------------------------------------------------------------


def long_program(count: int) -> Callable[[Any], Any]:
    """`count` operations by a Python loop: maps, a shift now and then."""

    def f(a: Any) -> Any:
        for k in range(count // 2):
            a = a * (1 + 1e-3 * k) + 1e-3 if k % 10 else td.roll(a, 1) + a
        return a

    return f


def large_programs(scale: Scale) -> list[Row]:
    """Trace, passes and code of programs of 250, 500 and 1 000 operations."""
    x = np.arange(1000, dtype=np.float32) / 1000
    sizes = (250, 500, 1000) if scale.name != "tiny" else (20, 40)
    traced, coded, failed = [], [], ""
    # A collection that goes through all that the peers have left in memory is not ours.
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("TREADLE_CACHE_DIR")
        os.environ["TREADLE_CACHE_DIR"] = folder
        try:
            for size in sizes:
                f = td.jit(long_program(size), backend=scale.backend)
                start = perf_counter()
                f.lower(x)
                traced.append(perf_counter() - start)
                start = perf_counter()
                f(x)
                coded.append(perf_counter() - start)
        except Exception as error:
            failed = f"{type(error).__name__}: {str(error).strip()[:160]}"
        finally:
            gc.unfreeze()
            if before is None:
                os.environ.pop("TREADLE_CACHE_DIR", None)
            else:
                os.environ["TREADLE_CACHE_DIR"] = before
    rows = []
    for size, t, c in zip(sizes, traced, coded, strict=False):
        rows.append(row(f"{size} operations: trace and passes", "ms", t * 1e3, None))
        rows.append(
            row(f"{size} operations: native code, cold, and the first run", "ms", c * 1e3, None)
        )
    if len(coded) == len(sizes):
        growth = (traced[-1] + coded[-1]) / (traced[0] + coded[0])
        linear = sizes[-1] / sizes[0]
        rows.append(
            row(
                f"{sizes[-1]} operations: time over that of {sizes[0]}",
                "×",
                growth,
                Goal("value", 1.25 * linear),
                note=f"linear is {linear:g}",
            )
        )
    else:
        rows.append(
            row(f"{sizes[len(coded)]} operations", "ms", None, Goal("value", 0), note=failed)
        )
    return rows


def overheads(scale: Scale, budget: float, wanted: Callable[[str], bool]) -> list[Row]:
    """All rows of this kind whose part is wanted."""
    repeats = {"full": 5, "quick": 2, "tiny": 1}[scale.name]
    parts: list[tuple[str, Callable[[], list[Row]]]] = [
        ("overheads: calling a compiled program", lambda: [small_call(scale, budget)]),
        ("overheads: one iteration of a while_loop", lambda: [iterations(scale, budget)]),
        ("overheads: uncompiled chains", lambda: uncompiled_chains(scale, budget)),
        ("overheads: first call of 10 operations", lambda: first_calls(scale, repeats)),
        ("overheads: large programs of 1000 operations", lambda: large_programs(scale)),
        ("overheads: import treadle", lambda: importing(repeats)),
    ]
    rows: list[Row] = []
    for name, make in parts:
        if not wanted(name):
            continue
        try:
            rows += make()
        except Exception as error:
            message = (str(error).strip().splitlines() or [""])[0][:200]
            rows.append(
                row(
                    name.removeprefix("overheads: "),
                    "ms",
                    None,
                    Goal("value", 0.0),
                    note=f"{type(error).__name__}: {message}",
                )
            )
    return rows

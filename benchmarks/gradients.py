"""How much dearer gradients are: value and gradient beside the function, of treadle and JAX.

    python -m benchmarks.gradients [--json FILE] [--calls 9]

Times are the least of several calls, user time where other processes share the machine; `kernels`
are launches of a call.  A loop of stencils is
done by several steps in one pass over memory, which its gradient, that stores the states, cannot.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td

rng = np.random.default_rng(0)
N = 1 << 22
FLAT = rng.random(N, np.float32)
GRID = rng.random((1024, 1024), np.float32)
LEFT, RIGHT = rng.random((1024, 1024), np.float32), rng.random((1024, 1024), np.float32)
STEPS = 200
FIELD = rng.random((256, 256), np.float32)


@dataclass(frozen=True)
class Workload:
    """`function(m, *arguments)` returns one number, of the module m (treadle or jax.numpy)."""

    name: str
    target: float
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    memory: int | None = None


def _neighbours(m: Any, u: Any) -> Any:
    return (m.roll(u, 1, 0) + m.roll(u, -1, 0) + m.roll(u, 1, 1) + m.roll(u, -1, 1)) * 0.25


def _steps(m: Any, u: Any, k: Any) -> Any:
    def step(u: Any) -> Any:
        return u + k * (_neighbours(m, u) - u) * u

    if m is td:
        return td.sum(td.iterate(STEPS, step, u))
    import jax

    return m.sum(jax.lax.scan(lambda u, _: (step(u), None), u, None, length=STEPS)[0])


def _row_max(m: Any, x: Any) -> Any:
    return m.sum(m.max(x, axis=1) ** 2)


WORKLOADS = (
    Workload("map", 2.5, lambda m, x: m.sum(m.sin(x) * m.exp(x)), (FLAT,)),
    Workload("stencil", 4, lambda m, x: m.sum(_neighbours(m, x) * x), (GRID,)),
    Workload("sum", 2, lambda m, x: m.sum(x * x), (FLAT,)),
    Workload("row max", 3, _row_max, (GRID,)),
    Workload("cumulative sum", 2, lambda m, x: m.sum(m.cumsum(x) ** 2), (FLAT,)),
    Workload("product", 3.1, lambda m, a, b: m.sum((a @ b) ** 2), (LEFT, RIGHT)),
    Workload("loop, stored", 3.5, _steps, (FIELD, np.float32(0.3))),
    Workload("loop, 3 √n states", 4.5, _steps, (FIELD, np.float32(0.3)),
             int(3 * STEPS**0.5) * FIELD.nbytes),
)  # fmt: skip


def least(call: Callable[[], Any], calls: int) -> float:
    """Milliseconds of processor time of the fastest call, after one that is not counted."""
    call()
    found = []
    for _ in range(calls):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found) * 1e3


def of_treadle(w: Workload, calls: int) -> dict[str, Any]:
    numbers = tuple(range(len(w.arguments)))

    def function(*args: Any) -> Any:
        return w.function(td, *args)

    primal = td.jit(function)
    both = td.jit(td.value_and_grad(function, numbers, memory=w.memory))
    times = [least(lambda f=f: f(*w.arguments), calls) for f in (primal, both)]
    kernels = [len(f.lower(*w.arguments).kernels) for f in (primal, both)]
    return {"primal": times[0], "gradient": times[1], "ratio": times[1] / times[0],
            "kernels": kernels}  # fmt: skip


def of_jax(w: Workload, calls: int) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    numbers = tuple(range(len(w.arguments)))

    def function(*args: Any) -> Any:
        return w.function(jnp, *args)

    args = [jnp.asarray(a) for a in w.arguments]
    times = [
        least(lambda f=f: jax.block_until_ready(f(*args)), calls)
        for f in (jax.jit(function), jax.jit(jax.value_and_grad(function, numbers)))
    ]
    return {"primal": times[0], "gradient": times[1], "ratio": times[1] / times[0]}


def measure(calls: int) -> list[dict[str, Any]]:
    found = []
    for w in WORKLOADS:
        row: dict[str, Any] = {"name": w.name, "target": w.target, "treadle": of_treadle(w, calls)}
        if importlib.util.find_spec("jax") is not None and w.memory is None:
            row["jax"] = of_jax(w, calls)
        found.append(row)
    return found


def shown(rows: list[dict[str, Any]]) -> str:
    lines = ["| | primal | value and gradient | ratio | target | kernels | JAX's ratio |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in rows:
        t, j = row["treadle"], row.get("jax")
        other = "" if j is None else (
            f"{j['ratio']:.1f} ({j['primal']:.3g} → {j['gradient']:.3g} ms)"
        )  # fmt: skip
        lines.append(
            f"| {row['name']} | {t['primal']:.3g} ms | {t['gradient']:.3g} ms | {t['ratio']:.1f} "
            f"| {row['target']} | {t['kernels'][0]} → {t['kernels'][1]} | {other} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--calls", type=int, default=9)
    chosen = parser.parse_args()
    rows = measure(chosen.calls)
    print(shown(rows))
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

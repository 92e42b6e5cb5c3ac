"""Work whose cost is where the data goes: transposition, histograms, gathers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import (
    Scale,
    by_jax,
    by_torch,
    count,
    cp,
    error_of,
    integers,
    jnp,
    mismatches_of,
    tensor,
    torch,
    uniform,
)

GROUP = "Transposition, histograms, gathers"


def transpose(n: int, dtype: Any, scale: Scale) -> Case:
    a = uniform((n, n), 0, 100, dtype)
    t = tensor(a)
    ours = td.jit(lambda a: td.transpose(a), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a)},
        peers={"CuPy": lambda: cp.ascontiguousarray(a.T),
               **by_torch(contiguous=lambda: t.t().contiguous()),
               **by_jax(lambda a: jnp.transpose(a), a)},
        exact=lambda: a.T,
        bytes=2.0 * a.nbytes,
        goals=(Goal("torch", 3.0),) if dtype is np.float32 else (Goal("copy", 0.85),),
        error=mismatches_of,
        tolerance=0.0,
    )  # fmt: skip


def in_order(n: int, scale: Scale) -> Case:
    """The plain transposition, an element a thread, under several orders: nothing else changes."""
    a = uniform((n, n))
    S = td.schedule
    ours = {}
    for order in (S.Row() | S.Block(1, 256), S.Row() | S.Block(32, 8), S.Column(8)):
        compiled = td.jit(
            lambda a, order=order: td.backpermute(
                (a.shape[1], a.shape[0]), lambda i, j: (j, i), a, schedule=order
            ),
            backend=scale.backend,
        )
        ours[repr(order)] = lambda compiled=compiled: compiled(a)
    return Case(
        ours=ours,
        peers={},
        exact=lambda: a.T,
        bytes=2.0 * a.nbytes,
        error=mismatches_of,
        tolerance=0.0,
    )


def batched(shape: tuple[int, ...], axes: tuple[int, ...], scale: Scale) -> Case:
    a = uniform(shape)
    t = tensor(a)
    ours = td.jit(lambda a: td.transpose(a, axes), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a)},
        peers={"CuPy": lambda: cp.ascontiguousarray(a.transpose(axes)),
               **by_torch(contiguous=lambda: t.permute(axes).contiguous())},
        exact=lambda: a.transpose(axes),
        bytes=2.0 * a.nbytes,
        goals=(Goal("best", 1.5),),
        error=mismatches_of,
        tolerance=0.0,
    )  # fmt: skip


def histogram(n: int, bins: int, skew: bool, scale: Scale) -> Case:
    x = integers(0, bins, n)
    if skew:
        x = cp.minimum(x, integers(0, bins, n) // 16)
    t = tensor(x)

    def permuted(x: Any) -> Any:
        zeros, ones = td.zeros(bins, td.int32), td.fill(x.shape, td.int32(1))
        return td.permute(
            lambda new, old: new + old, zeros, lambda i: td.cast(x[i], td.int64), ones
        )

    by_permute = td.jit(permuted, backend=scale.backend)
    by_bincount = td.jit(lambda x: td.bincount(x, length=bins), backend=scale.backend)
    few = bins <= 4096
    return Case(
        ours={"td.permute": lambda: by_permute(x), "td.bincount": lambda: by_bincount(x)},
        peers={"CuPy": lambda: cp.bincount(x, minlength=bins),
               **by_torch(bincount=lambda: torch.bincount(t, minlength=bins),
                          histc=lambda: torch.histc(t.float(), bins, 0, bins - 1)
                          if few else torch.bincount(t, minlength=bins)),
               **by_jax(lambda x: jnp.bincount(x, length=bins), x)},
        exact=lambda: cp.bincount(x, minlength=bins),
        bytes=4.0 * n,
        goals=(Goal("torch bincount", 6.0),) if few else (Goal("CuPy", 5.0),),
        error=mismatches_of,
        tolerance=0.0,
    )  # fmt: skip


def gather(n: int, scale: Scale) -> Case:
    x, at = uniform(n), integers(0, n, n)
    t, u = tensor(x), tensor(at)
    ours = td.jit(lambda x, at: td.gather(x, at), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x, at)},
        peers={"CuPy": lambda: x[at], **by_torch(index=lambda: t[u]),
               **by_jax(lambda x, at: x[at], x, at)},
        exact=lambda: x[at],
        bytes=12.0 * n,
        goals=(Goal("best", 0.98),),
        error=error_of,
        tolerance=0.0,
    )  # fmt: skip


def works(scale: Scale) -> list[Work]:
    n, large = scale.n(16384, 8192, 40), scale.n(1 << 27, 1 << 25)
    made = [
        Work(f"transposition of {n}² {np.dtype(t).name}", GROUP, partial(transpose, n, t, scale))
        for t in (np.float32, np.float64, np.uint8)
    ]
    made.append(Work(f"plain transposition of {n}² in order", GROUP, partial(in_order, n, scale)))
    shape = (scale.n(64, 16, 3), *[scale.n(2048, tiny=20)] * 2)
    name = f"axes (0, 2, 1) of {' × '.join(map(str, shape))}"
    made.append(Work(name, GROUP, partial(batched, shape, (0, 2, 1), scale)))
    for bins, skew in ((256, False), (256, True), (4096, False), (1 << 20, False), (1 << 20, True)):
        how = ", most in few" if skew else ""
        made.append(Work(f"histogram of {count(large)} int32, {count(bins)} bins{how}", GROUP,
                         partial(histogram, large, bins, skew, scale)))  # fmt: skip
    made.append(Work(f"gather of {count(large)} float32", GROUP, partial(gather, large, scale)))
    return made

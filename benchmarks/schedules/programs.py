"""The programs of the study: one operation each, named "op", whose order is all that changes.

They are written index by index (`generate`, `stencil` with a sum over its window), so that no
idiom is recognised and no library is called: what a schedule does is all there is to see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import treadle as td

Build = Callable[
    [Callable[[int], int]], tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]
]


@dataclass(frozen=True)
class Study:
    """`build(n)` gives a function and its arguments; `n(extent)` scales an extent to the machine.

    kind: "streaming", "stencil", "reuse", "stores", "gather", "reduction" or "compute": what
    decides its time.
    """

    name: str
    kind: str
    build: Build


#: Whether arrays are zeros, which take no memory before they are touched: to predict, not to run.
SHAPES_ONLY = False


def _data(*shape: int, dtype: Any = np.float32, seed: int = 3) -> np.ndarray[Any, Any]:
    if SHAPES_ONLY:
        return np.zeros(shape, dtype)
    return np.random.default_rng(seed).random(shape, dtype=np.float32).astype(dtype, copy=False)


def chain(n: Any) -> Any:
    return lambda a: td.map(lambda x: td.sqrt(x * x + 1.0), a, name="op"), (
        _data(n(8192), n(8192)),
    )


def add_row(n: Any) -> Any:
    a, v = _data(n(8192), n(8192)), _data(n(8192))
    return lambda a, v: td.generate(a.shape, lambda i, j: a[i, j] + v[j], name="op"), (a, v)


def add_column(n: Any) -> Any:
    a, v = _data(n(8192), n(8192)), _data(n(8192))
    return lambda a, v: td.generate(a.shape, lambda i, j: a[i, j] + v[i], name="op"), (a, v)


def outer(n: Any) -> Any:
    u, v = _data(n(8192)), _data(n(8192))
    return lambda u, v: td.generate(
        (u.shape[0], v.shape[0]), lambda i, j: u[i] * v[j], name="op"), (u, v)  # fmt: skip


def transpose(n: Any) -> Any:
    a = _data(n(8192), n(8192))
    return lambda a: td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i], name="op"), (a,)


def add_transposed(n: Any) -> Any:
    return lambda a: td.generate(
        a.shape, lambda i, j: a[i, j] + a[j, i], name="op"), (_data(n(8192), n(8192)),)  # fmt: skip


def swap_last(n: Any) -> Any:
    a = _data(32, n(1024), n(1024))
    return lambda a: td.generate((a.shape[0], a.shape[2], a.shape[1]),
                                 lambda h, i, j: a[h, j, i], name="op"), (a,)  # fmt: skip


def swap_ends(n: Any) -> Any:
    a = _data(n(512), 64, n(512))
    return lambda a: td.generate((a.shape[2], a.shape[1], a.shape[0]),
                                 lambda h, i, j: a[j, i, h], name="op"), (a,)  # fmt: skip


def reverse(n: Any) -> Any:
    def program(a: Any) -> Any:
        rows, columns = a.shape
        return td.generate(a.shape, lambda i, j: a[rows - 1 - i, columns - 1 - j], name="op")

    return program, (_data(n(8192), n(8192)),)


def window(rows: int, columns: int, n: Any, *, weights: bool = True, shape: Any = None) -> Any:
    """A stencil of (2 rows + 1) × (2 columns + 1), with weights of no structure or without any."""
    w = np.random.default_rng(5).random((2 * rows + 1, 2 * columns + 1), dtype=np.float32)
    places = [(i, j) for i in range(-rows, rows + 1) for j in range(-columns, columns + 1)]

    def f(x: Any) -> Any:
        factor = (lambda i, j: w[i + rows, j + columns]) if weights else (lambda i, j: 1.0)
        return sum(x[i, j] * np.float32(factor(i, j)) for i, j in places)

    extent = (n(4096), n(4096)) if shape is None else shape
    return lambda a: td.stencil(f, a, name="op"), (_data(*extent),)


def cross(n: Any) -> Any:
    around = ((0, 1), (0, -1), (1, 0), (-1, 0))
    return lambda a: td.stencil(
        lambda w: w[0, 0] + 0.2 * sum(w[p] - w[0, 0] for p in around), a, name="op"
    ), (_data(n(4096), n(4096)),)


def space(n: Any, radius: int, cube: bool) -> Any:
    """7 or 27 points in three dimensions."""
    r = range(-radius, radius + 1)
    places = [(i, j, k) for i in r for j in r for k in r if cube or abs(i) + abs(j) + abs(k) <= 1]
    return lambda a: td.stencil(lambda w: sum(w[p] for p in places) / len(places), a, name="op"), (
        _data(n(256), n(256), n(256)),
    )


def product(n: Any, left: bool = False, right: bool = False) -> Any:
    """A loop over k for every element; `left`, `right`: that operand is read transposed."""

    def program(a: Any, b: Any) -> Any:
        x = (lambda i, k: a[k, i]) if left else (lambda i, k: a[i, k])
        y = (lambda k, j: b[j, k]) if right else (lambda k, j: b[k, j])
        zero = td.float32(0)
        return td.generate(
            (a.shape[1] if left else a.shape[0], b.shape[0] if right else b.shape[1]),
            lambda i, j: td.loop(
                a.shape[0] if left else a.shape[1], lambda k, s: s + x(i, k) * y(k, j), zero),
            name="op",
        )  # fmt: skip

    return program, (_data(n(2048), n(2048)), _data(n(2048), n(2048), seed=4))


def distances(n: Any) -> Any:
    def program(a: Any) -> Any:
        def apart(i: Any, j: Any) -> Any:
            def add(k: Any, s: Any) -> Any:
                d = a[i, k] - a[j, k]
                return s + d * d

            return td.loop(a.shape[1], add, td.float32(0))

        return td.generate((a.shape[0], a.shape[0]), apart, name="op")

    return program, (_data(n(4096), 64),)


def enlarge(n: Any) -> Any:
    """Twice as large, between four neighbours."""

    def program(a: Any) -> Any:
        rows, columns = a.shape

        def at(i: Any, j: Any) -> Any:
            y, x = i // 2, j // 2
            below, right = td.minimum(y + 1, rows - 1), td.minimum(x + 1, columns - 1)
            return 0.25 * (a[y, x] + a[below, x] + a[y, right] + a[below, right])

        return td.generate((rows * 2, columns * 2), at, name="op")

    return program, (_data(n(4096), n(4096)),)


def gather(n: Any) -> Any:
    size = n(4096) * n(4096)
    places = np.random.default_rng(6).integers(0, size, size, dtype=np.int32)
    return lambda a, p: td.generate(p.shape, lambda i: a[p[i]], name="op"), (_data(size), places)


def gather_blocks(n: Any) -> Any:
    """Rows of 64 elements in random order."""
    rows = n(4096) * n(4096) // 64
    order = np.random.default_rng(7).permutation(rows).astype(np.int32)
    return lambda a, p: td.generate(a.shape, lambda i, j: a[p[i], j], name="op"), (
        _data(rows, 64), order)  # fmt: skip


def scatter_transposed(n: Any) -> Any:
    """A permute whose stores are the strided side."""

    def program(a: Any) -> Any:
        return td.permute(lambda new, old: new, td.fill((a.shape[1], a.shape[0]), td.float32(0)),
                          lambda i, j: (j, i), a, name="op")  # fmt: skip

    return program, (_data(n(4096), n(4096)),)


def histogram(n: Any) -> Any:
    values = np.random.default_rng(8).integers(0, 256, n(4096) * n(4096), dtype=np.int32)
    return lambda v: td.permute(lambda new, old: new + old, td.fill(256, 0), lambda i: v[i],
                                td.fill(v.shape, 1), name="op"), (values,)  # fmt: skip


def sum_of(n: Any, axis: int) -> Any:
    return lambda a: td.fold(lambda x, y: x + y, 0.0, a, axis=axis, name="op"), (
        _data(n(8192), n(8192)),)  # fmt: skip


def mandelbrot(n: Any) -> Any:
    size = n(2048)

    def program(scale: Any) -> Any:
        def steps(i: Any, j: Any) -> Any:
            cy, cx = (i / size - 0.5) * scale[0], (j / size - 0.75) * scale[0]

            def iteration(s: Any) -> Any:
                x, y, k = s
                return x * x - y * y + cx, 2 * x * y + cy, k + 1

            inside = lambda s: (s[0] * s[0] + s[1] * s[1] < 4) & (s[2] < 100)  # noqa: E731
            return td.while_loop(inside, iteration, (0.0 * cx, 0.0 * cx, 0))[2]

        return td.generate((size, size), steps, name="op")

    return program, (np.array([2.5], np.float32),)


STUDY = (
    Study("√(x² + 1)", "streaming", chain),
    Study("a + row", "streaming", add_row),
    Study("a + column", "streaming", add_column),
    Study("outer product", "streaming", outer),
    Study("both axes reversed", "streaming", reverse),
    Study("transposition", "stores", transpose),
    Study("a + aᵀ", "stores", add_transposed),
    Study("axes (0, 2, 1)", "stores", swap_last),
    Study("axes (2, 1, 0)", "stores", swap_ends),
    Study("transposition by permute", "stores", scatter_transposed),
    Study("3×3", "stencil", partial(window, 1, 1)),
    Study("5×5", "stencil", partial(window, 2, 2)),
    Study("9×9", "stencil", partial(window, 4, 4)),
    Study("9×9 box, 2160 × 3840", "stencil", lambda n: window(
        4, 4, n, weights=False, shape=(n(2160), n(3840)))),
    Study("17×1", "stencil", partial(window, 8, 0)),
    Study("1×17", "stencil", partial(window, 0, 8)),
    Study("5 points", "stencil", cross),
    Study("7-point 3-D stencil", "stencil", lambda n: space(n, 1, False)),
    Study("27-point 3-D stencil", "stencil", lambda n: space(n, 1, True)),
    Study("2× enlargement", "stencil", enlarge),
    Study("A·B", "reuse", product),
    Study("Aᵀ·B", "reuse", partial(product, left=True)),
    Study("A·Bᵀ", "reuse", partial(product, right=True)),
    Study("all distances", "reuse", distances),
    Study("gather", "gather", gather),
    Study("gather of rows", "gather", gather_blocks),
    Study("histogram", "gather", histogram),
    Study("sum along axis 0", "reduction", partial(sum_of, axis=0)),
    Study("sum along axis 1", "reduction", partial(sum_of, axis=1)),
    Study("Mandelbrot set", "compute", mandelbrot),
)  # fmt: skip

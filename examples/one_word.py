"""A naive matrix product: one changed word halves its time."""

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import Made, Table, progress, stage
from treadle.examples._timing import timed

S = td.schedule
ORDERS = (S.Row(), S.Column(64), S.ZigZag(64), S.Swizzle(64))


def product(a: td.Array, b: td.Array) -> td.Array:
    """Every element reads a row of a and a column of b; no blocking, no staging."""

    def element(i, j):
        return td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0))

    return td.generate((a.shape[0], b.shape[1]), element, name="product")


def under(order: S.Order):
    """The same product under another order: the only change."""
    return td.jit(product).scheduled(product=order)


def matrices(rows: int, inner: int, columns: int, seed: int) -> tuple[NDArray[np.float32], ...]:
    """Random matrices of shapes rows × inner and inner × columns."""
    random = np.random.default_rng(seed)
    return tuple(random.random(s, np.float32) for s in ((rows, inner), (inner, columns)))


def program() -> td.Program:
    """The product of small matrices, in columns of 64."""
    return under(S.Column(64)).lower(*matrices(16, 64, 512, 0))


def misses(order: S.Order) -> int:
    """Cache misses of the small product, with a cache of 512 lines of 16 numbers.

    b has 2,048 lines, a column of 64 only 256: the column stays in the cache until the next row.
    """
    return td.simulate(program(), order, td.Cache(lines=512, line_width=16)).misses


def main(rows: int = 128, inner: int = 1040, columns: int = 8208, seed: int = 0) -> Made:
    """Time the same product under four orders, and count the cache misses of a small one.

    On a GPU use larger matrices: --rows 8192 --inner 8192 --columns 8192.
    """
    a, b = matrices(rows, inner, columns, seed)
    results, seconds = [], []
    for k in progress(len(ORDERS), f"{rows} × {inner} × {columns} under each order"):
        work = under(ORDERS[k])
        results.append(work(a, b))
        seconds.append(timed(work, a, b, most=3))
    stage("simulating a small one")
    lines = [
        (repr(order), 1e3 * time, 2e-9 * a.size * columns / time, seconds[0] / time, misses(order))
        for order, time in zip(ORDERS, seconds, strict=True)
    ]
    heading = ("order", "ms", "GFLOP/s", "speedup", "misses, small case")
    same = all(np.array_equal(results[0], each) for each in results)
    notes = (
        f"The results are {'the same, bit for bit' if same else 'NOT the same'}.",
        "Swizzle misses least and is slowest: consecutive outputs lie in one column, so no vector "
        "register (on a GPU: no warp) reads 16 neighbours at once.",
    )
    table = Table(f"{rows} × {inner} times {inner} × {columns}", heading, tuple(lines))
    return Made({"results": results, "factors": (a, b)}, tables=(table,), notes=notes)

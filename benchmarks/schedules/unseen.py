"""Programs that no constant of the time model was found on, for `study --unseen`.

Like those of `programs.py`, of other shapes, types and extents.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.schedules.programs import Study, _data, window


def julia(n: Any) -> Any:
    """3 072 × 1 024 in float64; how many iterations an element takes depends on its value."""

    def program(c: Any) -> Any:
        def steps(i: Any, j: Any) -> Any:
            x, y = (j / 1024 - 0.5) * 3.0, (i / 3072 - 0.5) * 3.0
            step = lambda s: (s[0] * s[0] - s[1] * s[1] + c[0], 2 * s[0] * s[1] + c[1], s[2] + 1)  # noqa: E731
            inside = lambda s: (s[0] * s[0] + s[1] * s[1] < 4) & (s[2] < 80)  # noqa: E731
            return td.while_loop(inside, step, (x, y, 0))[2]

        return td.generate((n(3072), n(1024)), steps, name="op")

    return program, (np.array([-0.4, 0.6], np.float32),)


def other_diagonal(n: Any) -> Any:
    def program(a: Any) -> Any:
        m = a.shape[0]
        return td.generate(
            a.shape, lambda i, j: a[i, j] - a[m - 1 - j, m - 1 - i], name="op")  # fmt: skip

    return program, (_data(n(6144), n(6144)),)


def turned(n: Any) -> Any:
    return lambda a: td.generate((a.shape[1], a.shape[2], a.shape[0]),
                                 lambda h, i, j: a[j, h, i], name="op"), (
        _data(n(256), n(384), n(320)),)  # fmt: skip


def permuted(n: Any) -> Any:
    def program(a: Any) -> Any:
        empty = td.fill((a.shape[1], a.shape[2], a.shape[0]), td.float32(0))
        return td.permute(td.overwrite, empty, lambda h, i, j: (i, j, h), a, name="op")

    return program, (_data(n(192), n(320), n(256)),)


def scaled(n: Any) -> Any:
    return lambda a, u, v: td.generate(
        a.shape, lambda i, j: a[i, j] * u[i] + v[j], name="op"), (
        _data(n(4096), n(12288)), _data(n(4096)), _data(n(12288)))  # fmt: skip


def product(n: Any, rows: int, inner: int, columns: int, left: bool = False,
            dtype: Any = np.float32) -> Any:  # fmt: skip
    """A·B, or Aᵀ·B (`left`)."""

    def program(a: Any, b: Any) -> Any:
        x = (lambda i, k: a[k, i]) if left else (lambda i, k: a[i, k])
        return td.generate(
            (a.shape[1 if left else 0], b.shape[1]),
            lambda i, j: td.loop(a.shape[0 if left else 1],
                                 lambda k, s: s + x(i, k) * b[k, j], td.cast(0, dtype)),
            name="op",
        )  # fmt: skip

    shape = (n(inner), n(rows)) if left else (n(rows), n(inner))
    return program, (_data(*shape, dtype=dtype), _data(n(inner), n(columns), dtype=dtype, seed=4))


def gram(n: Any) -> Any:
    return lambda a: td.generate(
        (a.shape[0], a.shape[0]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * a[j, k], td.float32(0)),
        name="op",
    ), (_data(n(1536), n(512)),)


def sliding(n: Any) -> Any:
    return lambda a, w: td.generate(
        (a.shape[0] - 32, a.shape[1]),
        lambda i, j: td.loop(32, lambda k, s: s + a[i + k, j] * w[k], td.float32(0)),
        name="op",
    ), (_data(n(4096) + 32, n(4096)), _data(32))


def greatest(n: Any) -> Any:
    return lambda a: td.fold(td.maximum, -np.inf, a, axis=0, name="op"), (
        _data(n(12288), n(4096)),)  # fmt: skip


def squares(n: Any) -> Any:
    return lambda a: td.fold(lambda x, y: x + y, 0.0, td.map(lambda x: x * x, a), axis=1,
                             name="op"), (_data(n(5000), n(10240)),)  # fmt: skip


def thirteen(n: Any) -> Any:
    """Two neighbours along each axis, on both sides."""
    places = [(0, 0, 0)]
    places += [tuple(d * (k == m) for m in range(3)) for k in range(3) for d in (-2, -1, 1, 2)]  # type: ignore[misc]
    factors = [np.float32(0.1 + 0.01 * k) for k in range(13)]
    return lambda a: td.stencil(
        lambda w: sum(w[p] * f for p, f in zip(places, factors, strict=True)), a, name="op"), (
        _data(n(160), n(224), n(320)),)  # fmt: skip


def both(n: Any) -> Any:
    return lambda a: td.generate(a.shape, lambda i, j: a[i, j] + a[j, i], name="op"), (
        _data(n(5120), n(5120), dtype=np.float64),)  # fmt: skip


def rows_of_128(n: Any) -> Any:
    rows = n(4096) * n(4096) // 128
    order = np.random.default_rng(7).permutation(rows).astype(np.int32)
    return lambda a, p: td.generate(a.shape, lambda i, j: a[p[i], j], name="op"), (
        _data(rows, 128), order)  # fmt: skip


def every_third(n: Any) -> Any:
    return lambda a: td.generate(
        a.shape, lambda i, j: a[i, (j * 3 + 1) % a.shape[1]] * 2.0, name="op"), (
        _data(n(4096), n(6144)),)  # fmt: skip


UNSEEN = (
    Study("7×1, 12 288 × 1 536", "stencil", lambda n: window(3, 0, n, shape=(n(12288), n(1536)))),
    Study("3×7, 3 072 × 6 144", "stencil", lambda n: window(1, 3, n, shape=(n(3072), n(6144)))),
    Study("13-point 3-D star", "stencil", thirteen),
    Study("a·u + v", "streaming", scaled),
    Study("axes (1, 2, 0)", "stores", turned),
    Study("a − its anti-transpose", "stores", other_diagonal),
    Study("a + aᵀ, float64", "stores", both),
    Study("permute to (1, 2, 0)", "stores", permuted),
    Study("A·B, 1 536 × 1 024 × 5 120", "reuse", partial(
        product, rows=1536, inner=1024, columns=5120)),
    Study("Aᵀ·B, 2 560 × 1 024 × 2 048", "reuse", partial(
        product, rows=2560, inner=1024, columns=2048, left=True)),
    Study("A·B, 1 024², float64", "reuse", partial(
        product, rows=1024, inner=1024, columns=1024, dtype=np.float64)),
    Study("A·Aᵀ, 1 536 × 512", "reuse", gram),
    Study("32 taps in a loop", "reuse", sliding),
    Study("gather of rows of 128", "gather", rows_of_128),
    Study("every third element", "gather", every_third),
    Study("maximum along axis 0", "reduction", greatest),
    Study("sums of squares along axis 1", "reduction", squares),
    Study("Julia set", "compute", julia),
)  # fmt: skip

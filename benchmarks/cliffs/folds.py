"""Sums, extremes and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, cliff, compiled, floats


@cliff
def weighted_sum_of_rows(small: int) -> Cliff:
    a, w = floats(2000 // small, 2000), floats(2000 // small)

    def natural(a: Any, w: Any) -> Any:
        return td.sum(a * w[:, None], axis=0)

    return Cliff({"": natural, "product": lambda a, w: w @ a}, {"numpy": lambda a, w: w @ a}, a, w)


@cliff
def matrix_times_vector(small: int) -> Cliff:
    a, x = floats(2000 // small, 2000), floats(2000)
    return Cliff({"": lambda a, x: a @ x}, {"numpy": lambda a, x: a @ x}, a, x)


@cliff
def matrix_of_short_rows_times_vector(small: int) -> Cliff:
    a, x = floats(20_000 // small, 100), floats(100)
    return Cliff({"": lambda a, x: a @ x}, {"numpy": lambda a, x: a @ x}, a, x)


@cliff
def atax(small: int) -> Cliff:
    a, x = floats(2000 // small, 2400), floats(2400)
    return Cliff(
        {"": lambda a, x: (a @ x) @ a}, {"numpy": lambda a, x: (a @ x) @ a}, a, x
    )  # fmt: skip


@cliff
def bicg(small: int) -> Cliff:
    a, p, r = floats(2000 // small, 2400), floats(2400), floats(2000 // small)
    return Cliff(
        {"": lambda a, p, r: (r @ a, a @ p)}, {"numpy": lambda a, p, r: (r @ a, a @ p)}, a, p, r
    )  # fmt: skip


@cliff
def mvt(small: int) -> Cliff:
    n = 2000 // small
    a, x1, x2, y1, y2 = floats(n, n), *(floats(n) for _ in range(4))

    def f(a: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
        return x1 + a @ y1, x2 + y2 @ a

    return Cliff({"": f}, {"numpy": f}, a, x1, x2, y1, y2)


@cliff
def sum_of_a_generate(small: int) -> Cliff:
    n = 160 // small

    def natural(x: Any) -> Any:
        return td.sum(td.generate((n, n, n), lambda i, j, k: x[i] * x[j] + x[k]))

    @compiled
    def peer(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            for j in range(len(x)):
                for k in range(len(x)):
                    total += x[i] * x[j] + x[k]
        return total

    return Cliff({"": natural}, {"numba": peer}, floats(n))


@cliff
def fold_of_a_stencil(small: int) -> Cliff:
    """The sum of the squares of what a stencil leaves, as solvers compute it."""
    a = floats(2048 // small, 2048 // small, dtype=np.float32)

    def rest(a: Any) -> Any:
        return td.stencil(
            lambda w: w[1, 0] + w[-1, 0] + w[0, 1] + w[0, -1] - 4 * w[0, 0], a,
            boundary=td.clamp,
        )  # fmt: skip

    def natural(a: Any) -> Any:
        return td.sum(rest(a) ** 2)

    def stored(a: Any) -> Any:
        return td.sum(td.compute(rest(a)) ** 2)

    def numpy(a: Any) -> Any:
        p = np.pad(a, 1, mode="edge")
        r = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * a
        return (r * r).sum()

    @compiled
    def peer(a: Any) -> Any:
        n, m = a.shape
        total = 0.0
        for i in range(n):
            up, down = max(i - 1, 0), min(i + 1, n - 1)
            for j in range(m):
                r = a[down, j] + a[up, j] - np.float32(4) * a[i, j]
                r += a[i, min(j + 1, m - 1)] + a[i, max(j - 1, 0)]
                total += r * r
        return total

    return Cliff({"": natural, "stored": stored}, {"numpy": numpy, "numba": peer}, a)


@cliff
def sum_over_three_axes(small: int) -> Cliff:
    n, m = 40, 40 // small

    def natural(x: Any) -> Any:
        cube = td.generate((n, m, m, m), lambda i, j, k, q: x[i] * x[j] + x[k] * x[q])
        return td.sum(cube, axis=(1, 2, 3))

    @compiled
    def peer(x: Any) -> Any:
        total = np.zeros(n)
        for i in range(n):
            for j in range(m):
                for k in range(m):
                    for q in range(m):
                        total[i] += x[i] * x[j] + x[k] * x[q]
        return total

    return Cliff({"": natural}, {"numba": peer}, floats(n))


def image_of_planes(small: int) -> Any:
    """An image whose colours are its first axis, but next to each other in memory."""
    return floats(1000 // small, 400, 3).transpose(2, 0, 1)


@cliff
def maxima_of_an_image_of_planes(small: int) -> Cliff:
    def natural(x: Any) -> Any:
        return td.max(x), td.max(x, axis=1), td.max(x, axis=(0, 2))

    def peer(x: Any) -> Any:
        return x.max(), x.max(axis=1), x.max(axis=(0, 2))

    return Cliff({"": natural}, {"numpy": peer}, image_of_planes(small))


@cliff
def sums_of_an_image_of_planes(small: int) -> Cliff:
    def natural(x: Any) -> Any:
        return td.sum(x), td.sum(x, axis=1), td.sum(x, axis=(0, 2))

    def peer(x: Any) -> Any:
        return x.sum(), x.sum(axis=1), x.sum(axis=(0, 2))

    return Cliff({"": natural}, {"numpy": peer}, image_of_planes(small))


@cliff
def maximum_of_a_column_major_array(small: int) -> Cliff:
    a = np.asfortranarray(floats(8, 100_000 // small))
    return Cliff({"": lambda a: td.max(a)}, {"numpy": np.max}, a)


@cliff
def two_histograms(small: int) -> Cliff:
    x, y = floats(1_000_000 // small), floats(1_000_000 // small)

    def natural(x: Any, y: Any) -> Any:
        bins = td.cast(x * 64, td.int64)
        return td.bincount(bins, weights=y, length=64) / td.bincount(bins, length=64)

    @compiled
    def peer(x: Any, y: Any) -> Any:
        ones, sums = np.zeros(64), np.zeros(64)
        for i in range(len(x)):
            b = int(x[i] * 64)
            ones[b] += 1
            sums[b] += y[i]
        return sums / ones

    return Cliff({"": natural}, {"numba": peer}, x, y)


@cliff
def fold_of_joined_arrays(small: int) -> Cliff:
    def shifted(x: Any) -> list[Any]:
        return [td.roll(x, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]

    def natural(x: Any) -> Any:
        return td.max(td.stack(shifted(x), axis=-1), axis=-1)

    def pairs(x: Any) -> Any:
        first, *others = shifted(x)
        for other in others:
            first = td.maximum(first, other)
        return first

    @compiled
    def peer(x: Any) -> Any:
        n, m = x.shape
        out = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                best = x[i, j]
                for p in (-1, 0, 1):
                    for q in (-1, 0, 1):
                        best = max(best, x[(i + p) % n, (j + q) % m])
                out[i, j] = best
        return out

    return Cliff({"": natural, "pairs": pairs}, {"numba": peer},
                 floats(1024 // small, 1024, dtype=np.float32))  # fmt: skip


@cliff
def additions_to_slices(small: int) -> Cliff:
    # Total variation: 20 steps of Chambolle's projection, as scikit-image writes a divergence.
    def natural(image: Any) -> Any:
        def step(p: Any) -> Any:
            d = -td.sum(p, axis=0)
            d = d.at[1:].add(p[0, :-1])
            d = d.at[:, 1:].add(p[1, :, :-1])
            u = image + d
            g = td.zeros_like(p)
            g = g.at[0, :-1].set(u[1:] - u[:-1])
            g = g.at[1, :, :-1].set(u[:, 1:] - u[:, :-1])
            return (p - 0.25 * g) / (1 + 2.5 * td.sqrt(td.sum(g * g, axis=0))[None])

        return td.iterate(20, step, td.zeros((2, *image.shape)))

    def stencils(image: Any) -> Any:
        zero = td.constant(0)

        def step(state: Any) -> Any:
            p, q = state
            above = td.stencil(lambda w: w[-1, 0], p, boundary=zero)
            left = td.stencil(lambda w: w[0, -1], q, boundary=zero)
            u = image - p - q + above + left
            x = td.stencil(lambda w: w[1, 0] - w[0, 0], u)
            y = td.stencil(lambda w: w[0, 1] - w[0, 0], u)
            norm = 1 + 2.5 * td.sqrt(x * x + y * y)
            return (p - 0.25 * x) / norm, (q - 0.25 * y) / norm

        return td.stack(td.iterate(20, step, (td.zeros_like(image), td.zeros_like(image))))

    @compiled
    def peer(image: Any) -> Any:
        n, m = image.shape
        p, u = np.zeros((2, n, m)), np.empty((n, m))
        for _ in range(20):
            for i in range(n):
                for j in range(m):
                    d = -(p[0, i, j] + p[1, i, j])
                    if i > 0:
                        d += p[0, i - 1, j]
                    if j > 0:
                        d += p[1, i, j - 1]
                    u[i, j] = image[i, j] + d
            for i in range(n):
                for j in range(m):
                    x = u[i + 1, j] - u[i, j] if i < n - 1 else 0.0
                    y = u[i, j + 1] - u[i, j] if j < m - 1 else 0.0
                    norm = 1 + 2.5 * np.sqrt(x * x + y * y)
                    p[0, i, j] = (p[0, i, j] - 0.25 * x) / norm
                    p[1, i, j] = (p[1, i, j] - 0.25 * y) / norm
        return p

    return Cliff({"": natural, "stencils": stencils}, {"numba": peer}, floats(768 // small, 768))


@cliff
def votes_of_selected_points(small: int) -> Cliff:
    # The Hough transform: a condition of points, under which each point votes once per angle.
    n, m = 400 // small, 500
    angles = np.linspace(-np.pi / 2, np.pi / 2, 180, endpoint=False)
    bins = 2 * (n + m) + 1

    def natural(points: Any, c: Any, s: Any) -> Any:
        n, m = points.shape
        bins = 2 * (n + m) + 1

        def vote(i: Any, j: Any, t: Any) -> Any:
            r = td.cast(td.round(c[t] * j + s[t] * i), td.int64) + (n + m)
            return td.cond(points[i, j], (r, t), td.ignore)

        ones = td.broadcast_to(td.ones((), td.int64), (n, m, c.shape[0]))
        zeros = td.zeros((bins, c.shape[0]), td.int64)
        return td.permute(lambda new, old: new + old, zeros, vote, ones)

    def selected(points: Any, c: Any, s: Any) -> Any:
        n, m = points.shape
        i, j = td.nonzero(points)
        r = td.cast(td.round(c * j[:, None] + s * i[:, None]), td.int64) + (n + m)
        zeros = td.zeros((2 * (n + m) + 1, c.shape[0]), td.int64)
        return zeros.at[r, td.iota(c.shape[0])[None, :]].add(1)

    @compiled
    def peer(points: Any, c: Any, s: Any) -> Any:
        n, m = points.shape
        votes = np.zeros((bins, len(c)), np.int64)
        for i in range(n):
            for j in range(m):
                if points[i, j]:
                    for t in range(len(c)):
                        votes[int(np.rint(c[t] * j + s[t] * i)) + n + m, t] += 1
        return votes

    points = np.random.default_rng(3).random((n, m)) < 0.03
    return Cliff({"": natural, "selected": selected}, {"numba": peer}, points,
                 np.cos(angles), np.sin(angles))  # fmt: skip

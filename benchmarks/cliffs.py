"""Programs in natural form that once took a cliff: many times as long as the same by other means.

    python -m benchmarks.cliffs [--all-cores] [--quick] [--out FILE.json] [PART_OF_A_NAME …]

Each program is measured beside NumPy, Numba, and treadle's own fastest other form, in one process
and interleaved; every result is checked.  One core and processor time, unless `--all-cores`.
`kernels` counts what `explain()` lists.  The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numba
import numpy as np

import treadle as td
from benchmarks import harness, provenance
from benchmarks.cpu import alone

Program = Callable[..., Any]


class Cliff:
    """A program with its data: `ours` by label ("" is the natural form), `peers` by name."""

    def __init__(
        self, ours: Mapping[str, Program], peers: Mapping[str, Program], *data: Any
    ) -> None:
        self.jits = {label: td.jit(f, backend="native") for label, f in ours.items()}
        self.peers, self.data = peers, data

    def case(self) -> harness.Case:
        runs = {
            label: (lambda f=f: f(*self.data)) for label, f in {**self.jits, **self.peers}.items()
        }
        first = next(iter(self.peers))
        return harness.Case(
            ours={label: runs[label] for label in self.jits},
            peers={label: runs[label] for label in self.peers},
            exact=runs[first], ceiling="", tolerance=1e-4,
        )  # fmt: skip

    def kernels(self) -> int:
        """The kernels of the natural form."""
        program = self.jits[""].lower(*self.data)
        return len(program.kernels)


CLIFFS: dict[str, Callable[[int], Cliff]] = {}


def cliff(make: Callable[[int], Cliff]) -> Callable[[int], Cliff]:
    CLIFFS[make.__name__.replace("_", " ")] = make
    return make


def compiled(f: Program) -> Program:
    return numba.njit(fastmath=False, parallel=False, error_model="numpy")(f)


def floats(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(3).random(shape).astype(dtype)


# --- windows and channels ------------------------------------------------------------------------


@cliff
def pooling_by_reshape(small: int) -> Cliff:
    a = floats(8 // small + 1, 112, 112, 16, dtype=np.float32)

    def natural(x: Any) -> Any:
        n, h, w, c = x.shape
        return td.max(td.reshape(x, (n, h // 2, 2, w // 2, 2, c)), axis=(2, 4))

    def slices(x: Any) -> Any:
        m = td.maximum
        return m(m(x[:, ::2, ::2], x[:, ::2, 1::2]), m(x[:, 1::2, ::2], x[:, 1::2, 1::2]))

    def peer(x: Any) -> Any:
        m = np.maximum
        return m(m(x[:, ::2, ::2], x[:, ::2, 1::2]), m(x[:, 1::2, ::2], x[:, 1::2, 1::2]))

    return Cliff({"": natural, "of slices": slices}, {"numpy": peer}, a)


@compiled
def convolve(x: Any, w: Any) -> Any:
    n, h, wide, c = x.shape
    kh, kw, _, out = w.shape
    y = np.zeros((n, h - kh + 1, wide - kw + 1, out), x.dtype)
    for b in range(n):
        for i in range(h - kh + 1):
            for j in range(wide - kw + 1):
                for p in range(kh):
                    for q in range(kw):
                        for k in range(c):
                            for o in range(out):
                                y[b, i, j, o] += x[b, i + p, j + q, k] * w[p, q, k, o]
    return y


def image_and_weights(small: int) -> tuple[Any, Any]:
    x = floats(1, 64 // small, 64 // small, 16, dtype=np.float32)
    return x, floats(3, 3, 16, 32, dtype=np.float32)


def by_loops(x: Any, w: Any) -> Any:
    n, h, wide, c = x.shape
    kh, kw, _, out = w.shape

    def element(b: Any, i: Any, j: Any, o: Any) -> Any:
        def over(p: Any, s: Any) -> Any:
            return td.loop(kw, lambda q, s: td.loop(
                c, lambda k, s: s + x[b, i + p, j + q, k] * w[p, q, k, o], s), s)  # fmt: skip

        return td.loop(kh, over, np.float32(0))

    return td.generate((n, h - kh + 1, wide - kw + 1, out), element)


@cliff
def convolution_by_windows(small: int) -> Cliff:
    def natural(x: Any, w: Any) -> Any:
        n, h, wide, c = x.shape
        kh, kw, _, _ = w.shape
        windows = td.backpermute(
            (n, h - kh + 1, wide - kw + 1, kh, kw, c),
            lambda b, i, j, p, q, k: (b, i + p, j + q, k), x,
        )  # fmt: skip
        return td.tensordot(windows, w, axes=3)

    return Cliff({"": natural, "loops": by_loops}, {"numba": convolve}, *image_and_weights(small))


@cliff
def convolution_by_sums(small: int) -> Cliff:
    def natural(x: Any, w: Any) -> Any:
        n, h, wide, c = x.shape
        kh, kw, _, out = w.shape
        products = td.generate(
            (n, h - kh + 1, wide - kw + 1, out, kh, kw, c),
            lambda b, i, j, o, p, q, k: x[b, i + p, j + q, k] * w[p, q, k, o],
        )
        return td.sum(products, axis=(4, 5, 6))

    return Cliff({"": natural, "loops": by_loops}, {"numba": convolve}, *image_and_weights(small))


@cliff
def convolution_of_many_channels(small: int) -> Cliff:
    x = floats(1, 14, 14, 256 // small, dtype=np.float32)
    w = floats(3, 3, 256 // small, 256 // small, dtype=np.float32)

    def natural(x: Any, w: Any) -> Any:
        n, h, wide, c = x.shape
        kh, kw, _, out = w.shape
        return td.sum(td.generate(
            (n, h - kh + 1, wide - kw + 1, out, kh, kw, c),
            lambda b, i, j, o, p, q, k: x[b, i + p, j + q, k] * w[p, q, k, o],
        ), axis=(4, 5, 6))  # fmt: skip

    def peer(x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
        return np.tensordot(windows, w, ((4, 5, 3), (0, 1, 2)))

    return Cliff({"": natural}, {"numpy": peer, "numba": convolve}, x, w)


@cliff
def convolution_by_shifted_products(small: int) -> Cliff:
    def natural(x: Any, w: Any) -> Any:
        h, wide = x.shape[1] - 2, x.shape[2] - 2
        parts = [
            td.tensordot(x[:, p : p + h, q : q + wide], w[p, q], axes=1)
            for p in range(3) for q in range(3)
        ]  # fmt: skip
        return sum(parts[1:], parts[0])

    return Cliff({"": natural, "loops": by_loops}, {"numba": convolve}, *image_and_weights(small))


@cliff
def stencil_with_rim(small: int) -> Cliff:
    a = floats(1024 // small, 1024 // small)

    def natural(u: Any) -> Any:
        v = td.stencil(lambda w: (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]) * 0.25, u)
        n, m = u.shape
        return td.imap(
            lambda i, j, x, y: td.where((i == 0) | (i == n - 1) | (j == 0) | (j == m - 1), y, x),
            v, u,
        )  # fmt: skip

    def updated(u: Any) -> Any:
        v = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) * 0.25
        return u.at[1:-1, 1:-1].set(v)

    @compiled
    def peer(u: Any) -> Any:
        out = u.copy()
        n, m = u.shape
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                out[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) * 0.25
        return out

    return Cliff({"": natural, "update": updated}, {"numba": peer}, a)


@cliff
def three_dimensions_short_rows(small: int) -> Cliff:
    a = floats(64 // small, 64, 40)

    def natural(u: Any) -> Any:
        def laplace(w: Any) -> Any:
            x, y, z = w[-1, 0, 0] + w[1, 0, 0], w[0, -1, 0] + w[0, 1, 0], w[0, 0, -1] + w[0, 0, 1]
            return x + y + z - 6 * w[0, 0, 0]

        return td.stencil(laplace, u, boundary=td.clamp)

    @compiled
    def peer(u: Any) -> Any:
        out = np.empty_like(u)
        n, m, o = u.shape
        for i in range(n):
            for j in range(m):
                a, b = max(i - 1, 0), min(i + 1, n - 1)
                c, d = max(j - 1, 0), min(j + 1, m - 1)
                for k in range(1, o - 1):
                    out[i, j, k] = (u[a, j, k] + u[b, j, k] + u[i, c, k] + u[i, d, k]
                                    + u[i, j, k - 1] + u[i, j, k + 1] - 6 * u[i, j, k])  # fmt: skip
                for k in (0, o - 1):
                    e, f = max(k - 1, 0), min(k + 1, o - 1)
                    out[i, j, k] = (u[a, j, k] + u[b, j, k] + u[i, c, k] + u[i, d, k]
                                    + u[i, j, e] + u[i, j, f] - 6 * u[i, j, k])  # fmt: skip
        return out

    return Cliff({"": natural}, {"numba": peer}, a)


# --- sums ----------------------------------------------------------------------------------------


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


# --- numbers, masks, small work ------------------------------------------------------------------


@cliff
def expressions_of_numbers(small: int) -> Cliff:
    a = floats(1_000_000 // small)

    def natural(x: Any, alpha: float) -> Any:
        scale = td.exp(alpha) + td.sin(alpha) * td.log(alpha)
        y = x * scale
        return y[1:] - y[:-1] + y[0]

    def peer(x: Any, alpha: float) -> Any:
        y = x * (np.exp(alpha) + np.sin(alpha) * np.log(alpha))
        return y[1:] - y[:-1] + y[0]

    return Cliff({"": natural}, {"numpy": peer}, a, 0.3)


@cliff
def masks(small: int) -> Cliff:
    a = floats(2_000_000 // small)

    def natural(x: Any) -> Any:
        mask = x > 0.5
        return td.sum(td.where(mask, x, 0.0)) / td.sum(td.where(mask, 1.0, 0.0)), td.where(
            mask, x, -x
        )

    def peer(x: Any) -> Any:
        mask = x > 0.5
        return np.sum(np.where(mask, x, 0.0)) / np.sum(mask), np.where(mask, x, -x)

    return Cliff({"": natural}, {"numpy": peer}, a)


@cliff
def small_product(small: int) -> Cliff:
    a, b = floats(16, 16), floats(16, 16)
    return Cliff({"": lambda a, b: a @ b}, {"numpy": lambda a, b: a @ b}, a, b)


@cliff
def reshape_around_a_product(small: int) -> Cliff:
    a, w = floats(100_000 // small, 4, 4), floats(4, 4)

    def natural(a: Any, w: Any) -> Any:
        n, p, q = a.shape
        return td.reshape(td.reshape(a, (n * p, q)) @ w, (n, p, q))

    def peer(a: Any, w: Any) -> Any:
        return (a.reshape(-1, 4) @ w).reshape(a.shape)

    return Cliff({"": natural}, {"numpy": peer}, a, w)


@cliff
def foreign_results(small: int) -> Cliff:
    a = floats(1_000_000 // small)

    def natural(x: Any) -> Any:
        return td.foreign_array({"native": np.negative}, x, fallback=lambda y: -y)

    return Cliff({"": natural}, {"numpy": np.negative}, a)


# --- scans and sorts -----------------------------------------------------------------------------


@cliff
def scan_of_pairs(small: int) -> Cliff:
    x, flags = floats(1_000_000 // small), floats(1_000_000 // small) < 0.01

    def natural(x: Any, flags: Any) -> Any:
        def combine(a: Any, b: Any) -> Any:
            return td.where(b[1], b[0], a[0] + b[0]), a[1] | b[1]

        return td.unzip(td.scanl1(combine, td.zip(x, flags)))[0]

    @compiled
    def peer(x: Any, flags: Any) -> Any:
        out, total = np.empty_like(x), 0.0
        for i in range(len(x)):
            total = x[i] if flags[i] else total + x[i]
            out[i] = total
        return out

    return Cliff({"": natural}, {"numba": peer}, x, flags)


@cliff
def argsort(small: int) -> Cliff:
    x = np.random.default_rng(3).integers(0, 2**31, 1_000_000 // small).astype(np.int32)

    def packed(x: Any) -> Any:
        keys = td.cast(x, td.int64) * 2**32 + td.arange(x.shape[0])
        return td.sort(keys) & (2**32 - 1)

    return Cliff(
        {"": lambda x: td.argsort(x), "packed": packed},
        {"numpy": lambda x: np.argsort(x, kind="stable")}, x,
    )  # fmt: skip


@cliff
def slices_of_the_state(small: int) -> Cliff:
    p = floats(200 // small, 200 // small)

    def natural(p: Any) -> Any:
        return td.loop(p.shape[0], lambda k, p: td.minimum(p, p[:, k, None] + p[k, :]), p)

    @compiled
    def peer(p: Any) -> Any:
        p = p.copy()
        n = len(p)
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    p[i, j] = min(p[i, j], p[i, k] + p[k, j])
        return p

    return Cliff({"": natural}, {"numba": peer}, p)


@cliff
def smoothing_of_costly_elements(small: int) -> Cliff:
    """A scan of one number along what is computed from its elements, and a function of it."""
    x = floats(4_000_000 // small**2)

    def natural(x: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            s = 0.5 * s + td.exp(td.sin(x))
            return s, td.log(s)

        return td.scan(step, 0.0, x)[1]

    @compiled
    def peer(x: Any) -> Any:
        out, s = np.empty_like(x), 0.0
        for i in range(len(x)):
            s = 0.5 * s + np.exp(np.sin(x[i]))
            out[i] = np.log(s)
        return out

    return Cliff({"": natural}, {"numba": peer}, x)


@cliff
def maxima_of_columns_of_costly_elements(small: int) -> Cliff:
    x = floats(2048 // small, 2048 // small)

    def terms(x: Any) -> Any:
        return ((x * 3 + 1) * x + 2) * x + ((x + 1) * x + 5) * (x - 3)

    def natural(x: Any) -> Any:
        return td.max(terms(x), axis=0)

    def stored(x: Any) -> Any:
        return td.max(td.compute(terms(x)), axis=0)

    return Cliff({"": natural, "stored": stored}, {"numpy": lambda x: terms(x).max(axis=0)}, x)


@cliff
def argmax_of_rows_of_costly_elements(small: int) -> Cliff:
    x = floats(1024 // small, 1024 // small)

    def natural(x: Any) -> Any:
        return td.argmax(td.exp(td.sin(x)), axis=1)

    def stored(x: Any) -> Any:
        return td.argmax(td.compute(td.exp(td.sin(x))), axis=1)

    peer = {"numpy": lambda x: np.argmax(np.exp(np.sin(x)), axis=1)}
    return Cliff({"": natural, "stored": stored}, peer, x)


@cliff
def short_segments_of_costly_elements(small: int) -> Cliff:
    lengths = np.full(400_000 // small**2, 10)
    x = floats(lengths.sum())

    def natural(x: Any, lengths: Any) -> Any:
        return td.fold_seg(lambda a, b: a + b, 0.0, td.exp(x), lengths)

    def stored(x: Any, lengths: Any) -> Any:
        return td.fold_seg(lambda a, b: a + b, 0.0, td.compute(td.exp(x)), lengths)

    @compiled
    def peer(x: Any, lengths: Any) -> Any:
        out, at = np.zeros(len(lengths)), 0
        for k in range(len(lengths)):
            for i in range(at, at + lengths[k]):
                out[k] += np.exp(x[i])
            at += lengths[k]
        return out

    return Cliff({"": natural, "stored": stored}, {"numba": peer}, x, lengths)


# --- elements one by one, scatters, products in loops --------------------------------------------


@cliff
def edit_distance_cell_by_cell(small: int) -> Cliff:
    a, b = np.random.default_rng(3).integers(0, 4, (2, 1000 // small)).astype(np.uint8)

    def natural(a: Any, b: Any) -> Any:
        n, m = a.shape[0], b.shape[0]
        table = td.zeros((n + 1, m + 1), td.int64)
        table = table.at[0, :].set(td.iota(m + 1)).at[:, 0].set(td.iota(n + 1))

        def cell(i: Any, j: Any, t: Any) -> Any:
            beside = td.minimum(t[i, j + 1], t[i + 1, j]) + 1
            return t.at[i + 1, j + 1].set(td.minimum(t[i, j] + (a[i] != b[j]), beside))

        return td.loop(n, lambda i, t: td.loop(m, lambda j, t: cell(i, j, t), t), table)

    @compiled
    def peer(a: Any, b: Any) -> Any:
        t = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        t[0, :] = np.arange(len(b) + 1)
        t[:, 0] = np.arange(len(a) + 1)
        for i in range(len(a)):
            for j in range(len(b)):
                beside = min(t[i, j + 1], t[i + 1, j]) + 1
                t[i + 1, j + 1] = min(t[i, j] + (a[i] != b[j]), beside)
        return t

    return Cliff({"": natural}, {"numba": peer}, a, b)


@cliff
def deposit_of_particles(small: int) -> Cliff:
    n = 256 // small
    x, y = n * np.random.default_rng(3).random((2, 1_000_000 // small**2))
    q = floats(x.size)

    def natural(x: Any, y: Any, q: Any) -> Any:
        i, j = td.floor(x).astype(td.int64), td.floor(y).astype(td.int64)
        fx, fy, right, up = x - i, y - j, (i + 1) % n, (j + 1) % n
        grid = td.zeros((n, n)).at[i, j].add(q * (1 - fx) * (1 - fy))
        grid = grid.at[right, j].add(q * fx * (1 - fy))
        return grid.at[i, up].add(q * (1 - fx) * fy).at[right, up].add(q * fx * fy)

    @compiled
    def peer(x: Any, y: Any, q: Any) -> Any:
        grid = np.zeros((n, n))
        for p in range(len(x)):
            i, j = int(np.floor(x[p])), int(np.floor(y[p]))
            fx, fy, right, up = x[p] - i, y[p] - j, (i + 1) % n, (j + 1) % n
            grid[i, j] += q[p] * (1 - fx) * (1 - fy)
            grid[right, j] += q[p] * fx * (1 - fy)
            grid[i, up] += q[p] * (1 - fx) * fy
            grid[right, up] += q[p] * fx * fy
        return grid

    return Cliff({"": natural}, {"numba": peer}, x, y, q)


@cliff
def shortest_paths_over_edges(small: int) -> Cliff:
    """Bellman–Ford: every edge relaxed 50 times."""
    n = 2000 // small
    of, to = np.random.default_rng(3).integers(0, n, (2, 10 * n))
    start = np.where(np.arange(n) == 0, 0.0, 100.0)

    def natural(d: Any, of: Any, to: Any, w: Any) -> Any:
        return td.loop(50, lambda k, d: d.at[to].min(d[of] + w), d)

    @compiled
    def peer(d: Any, of: Any, to: Any, w: Any) -> Any:
        for _ in range(50):
            new = d.copy()
            for e in range(len(of)):
                new[to[e]] = min(new[to[e]], d[of[e]] + w[e])
            d = new
        return d

    return Cliff({"": natural}, {"numba": peer}, start, of, to, floats(10 * n))


@cliff
def lattice_boltzmann_stacked(small: int) -> Cliff:
    """The nine populations are one array, which `td.stack` makes anew in each of ten steps."""
    f = floats(9, 200 // small, 200 // small) + 1
    east = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    north = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    directions = list(zip(east.tolist(), north.tolist(), weights.tolist(), strict=True))

    def natural(f: Any) -> Any:
        def step(_: Any, f: Any) -> Any:
            p = [td.roll(f[k], (e, n), (0, 1)) for k, (e, n, _) in enumerate(directions)]
            rho = sum(p)
            u = sum(e * p[k] for k, (e, _, _) in enumerate(directions)) / rho
            v = sum(n * p[k] for k, (_, n, _) in enumerate(directions)) / rho
            made = []
            for k, (e, n, w) in enumerate(directions):
                along = e * u + n * v
                rest = w * rho * (1 + 3 * along + 4.5 * along * along - 1.5 * (u * u + v * v))
                made.append(p[k] + 0.6 * (rest - p[k]))
            return td.stack(made)

        return td.loop(10, step, f)

    @compiled
    def peer(f: Any) -> Any:
        rows, columns = f.shape[1:]
        f, new, p = f.copy(), np.empty_like(f), np.empty(9)
        for _ in range(10):
            for i in range(rows):
                for j in range(columns):
                    rho, u, v = 0.0, 0.0, 0.0
                    for k in range(9):
                        x, y = i - east[k], j - north[k]
                        x = x + rows if x < 0 else x - rows if x >= rows else x
                        y = y + columns if y < 0 else y - columns if y >= columns else y
                        p[k] = f[k, x, y]
                        rho += p[k]
                        u += east[k] * p[k]
                        v += north[k] * p[k]
                    u, v = u / rho, v / rho
                    for k in range(9):
                        along = east[k] * u + north[k] * v
                        flow = 1 + 3 * along + 4.5 * along * along - 1.5 * (u * u + v * v)
                        new[k, i, j] = p[k] + 0.6 * (weights[k] * rho * flow - p[k])
            f, new = new, f
        return f

    return Cliff({"": natural}, {"numba": peer}, f)


@cliff
def products_in_a_loop(small: int) -> Cliff:
    a = floats(96 // small, 96 // small) / (48 // small)

    def natural(a: Any) -> Any:
        return td.loop(20, lambda k, p: p @ a, a)

    def peer(a: Any) -> Any:
        p = a
        for _ in range(20):
            p = p @ a
        return p

    return Cliff({"": natural}, {"numpy": peer}, a)


@cliff
def kalman_filter(small: int) -> Cliff:
    """A state of four numbers, of which two are measured: products of tiny matrices."""
    f, h = np.eye(4) + np.diag([0.1, 0.1], 2), np.eye(2, 4)
    data = floats(10_000 // small, 2), f, h, 0.01 * np.eye(4), 0.1 * np.eye(2), np.eye(4)

    def natural(zs: Any, f: Any, h: Any, q: Any, r: Any, p: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            gain = p @ h.T @ td.linalg.inv(h @ p @ h.T + r)
            return (x + gain @ (z - h @ x), p - gain @ h @ p), x

        return td.scan(step, (td.zeros(4), p), zs)[1]

    @compiled
    def product(a: Any, b: Any, c: Any) -> None:
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    @compiled
    def peer(zs: Any, f: Any, h: Any, q: Any, r: Any, p: Any) -> Any:
        x, p, xs = np.zeros(4), p.copy(), np.empty((len(zs), 4))
        fp, ph, hp, gain = np.empty((4, 4)), np.empty((4, 2)), np.empty((2, 4)), np.empty((4, 2))
        s, inverse, moved = np.empty((2, 2)), np.empty((2, 2)), np.empty((4, 4))
        for k in range(len(zs)):
            for i in range(4):
                xs[k, i] = 0.0
                for j in range(4):
                    xs[k, i] += f[i, j] * x[j]
            product(f, p, fp)
            product(fp, f.T, p)
            p += q
            product(p, h.T, ph)
            product(h, ph, s)
            s += r
            d = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
            inverse[0, 0], inverse[0, 1] = s[1, 1] / d, -s[0, 1] / d
            inverse[1, 0], inverse[1, 1] = -s[1, 0] / d, s[0, 0] / d
            product(ph, inverse, gain)
            for i in range(4):
                x[i] = xs[k, i]
            for j in range(2):
                error = zs[k, j]
                for i in range(4):
                    error -= h[j, i] * xs[k, i]
                for i in range(4):
                    x[i] += gain[i, j] * error
            product(h, p, hp)
            product(gain, hp, moved)
            p -= moved
        return xs

    return Cliff({"": natural}, {"numba": peer}, *data)


# --- programs of others, written for this list ----------------------------------------------------


@cliff
def pathfinder_of_rodinia(small: int) -> Cliff:
    """The cheapest way down a grid, which moves by at most one column in each row."""
    wall = np.random.default_rng(3).integers(0, 10, (500 // small, 4000 // small))

    def natural(wall: Any) -> Any:
        def row(k: Any, d: Any) -> Any:
            last = d.shape[0] - 1
            sides = td.generate(d.shape, lambda j: td.minimum(
                d[td.maximum(j - 1, 0)], d[td.minimum(j + 1, last)]))  # fmt: skip
            return wall[k] + td.minimum(d, sides)

        return td.loop(1, wall.shape[0], row, wall[0])

    @compiled
    def peer(wall: Any) -> Any:
        d = wall[0].copy()
        new = np.empty_like(d)
        for k in range(1, len(wall)):
            for j in range(len(d)):
                least = d[j]
                if j > 0:
                    least = min(least, d[j - 1])
                if j < len(d) - 1:
                    least = min(least, d[j + 1])
                new[j] = wall[k, j] + least
            d, new = new, d
        return d

    return Cliff({"": natural}, {"numba": peer}, wall)


@cliff
def lud_of_rodinia(small: int) -> Cliff:
    """The factors of a matrix, in place, without pivots."""
    n = 256 // small
    a = floats(n, n) + n * np.eye(n)

    def natural(a: Any) -> Any:
        def eliminate(k: Any, a: Any) -> Any:
            a = a.at[k + 1 :, k].set(a[k + 1 :, k] / a[k, k])
            return a.at[k + 1 :, k + 1 :].add(-a[k + 1 :, k, None] * a[k, k + 1 :])

        return td.loop(a.shape[0] - 1, eliminate, a)

    @compiled
    def peer(a: Any) -> Any:
        a = a.copy()
        for k in range(len(a) - 1):
            for i in range(k + 1, len(a)):
                a[i, k] /= a[k, k]
                for j in range(k + 1, len(a)):
                    a[i, j] -= a[i, k] * a[k, j]
        return a

    return Cliff({"": natural}, {"numba": peer}, a)


@cliff
def local_binary_pattern_of_skimage(small: int) -> Cliff:
    """One bit for each of eight neighbours that is not darker."""
    image = np.random.default_rng(3).integers(0, 256, (1080 // small, 1920 // small))
    image = image.astype(np.uint8)
    around = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))

    def natural(x: Any) -> Any:
        n, m = x.shape
        middle, code = x[1:-1, 1:-1], td.zeros((n - 2, m - 2), td.uint8)
        for bit, (i, j) in enumerate(around):
            other = x[1 + i : n - 1 + i, 1 + j : m - 1 + j]
            code = code | td.where(other >= middle, np.uint8(1 << bit), np.uint8(0))
        return code

    @compiled
    def peer(x: Any) -> Any:
        n, m = x.shape
        code = np.zeros((n - 2, m - 2), np.uint8)
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                c, found = x[i, j], 0
                found |= (x[i, j + 1] >= c) * 1
                found |= (x[i - 1, j + 1] >= c) * 2
                found |= (x[i - 1, j] >= c) * 4
                found |= (x[i - 1, j - 1] >= c) * 8
                found |= (x[i, j - 1] >= c) * 16
                found |= (x[i + 1, j - 1] >= c) * 32
                found |= (x[i + 1, j] >= c) * 64
                found |= (x[i + 1, j + 1] >= c) * 128
                code[i - 1, j - 1] = found
        return code

    return Cliff({"": natural}, {"numba": peer}, image)


def _walk(ours: Program, scalar: Program, small: int) -> Cliff:
    """A scan of numbers, s / 2 + f(x), and all its states."""

    def natural(xs: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            s = s / 2 + ours(x)
            return s, s

        return td.scan(step, 0.0, xs)[1]

    each = compiled(scalar)

    @compiled
    def peer(xs: Any) -> Any:
        out, s = np.empty_like(xs), 0.0
        for k in range(xs.size):
            s = s / 2 + each(xs[k])
            out[k] = s
        return out

    return Cliff({"": natural}, {"numba": peer}, floats(2_000_000 // small))


@cliff
def walk_with_a_division(small: int) -> Cliff:
    return _walk(lambda x: 1 / (1 + x), lambda x: 1 / (1 + x), small)


@cliff
def walk_with_an_exponential(small: int) -> Cliff:
    return _walk(td.exp, lambda x: np.exp(x), small)


@cliff
def loops_that_differ_in_length(small: int) -> Cliff:
    """The steps of Collatz's sequences to 1."""

    def natural(n: Any) -> Any:
        def steps(n: Any) -> Any:
            def next_of(s: Any) -> Any:
                return td.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

            return td.while_loop(lambda s: s[0] > 1, next_of, (n, td.int64(0)))[1]

        return td.map(steps, n)

    @compiled
    def peer(n: Any) -> Any:
        out = np.zeros(n.shape, np.int64)
        for k in range(n.size):
            x = n[k]
            while x > 1:
                x = x // 2 if x % 2 == 0 else 3 * x + 1
                out[k] += 1
        return out

    return Cliff({"": natural}, {"numba": peer}, np.arange(1, 200_000 // small, dtype=np.int64))


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cliffs")
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--all-cores", action="store_true", help="all cores, and the time of day")
    parser.add_argument("--quick", action="store_true", help="small data, few repetitions")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the results")
    options = parser.parse_args(argv)
    if not options.all_cores and not os.environ.get(harness.ONE_CORE):
        alone("benchmarks.cliffs", sys.argv[1:] if argv is None else argv)
    results, wrong = [], False
    top = harness.Ceilings(lambda _: lambda: None)
    for name, make in CLIFFS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        made = make(8 if options.quick else 1)
        rows = harness.measure(
            harness.Work(name, "cliffs", made.case), top, 0.05 if options.quick else 0.3
        )
        for row in rows:
            timings = {"treadle": row.treadle, **row.peers}
            shown = "  ".join(f"{n} {t.least * 1e6:10.1f}" for n, t in timings.items() if t)
            best = min((t.least for t in row.peers.values()), default=float("nan"))
            ratio = row.treadle.least / best if row.treadle else float("nan")
            correct = "" if row.correct else "  WRONG " + row.note
            print(f"{row.work:44} {shown}  {ratio:6.2f} × the best peer{correct}", flush=True)
            wrong |= not row.correct
        results.append({"name": name, "kernels": made.kernels(), "rows": [asdict(r) for r in rows]})
    if options.out is not None:
        about = {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            **provenance.processor(),
            "versions": provenance.versions(),
            **provenance.commit(),
            "programs": results,
        }
        options.out.write_text(json.dumps(about, indent=1, default=str) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())

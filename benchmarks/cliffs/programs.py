"""Programs of others, written for this list; walks, and loops that differ in length."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, Program, cliff, compiled, floats


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

"""Numbers, masks, scans, sorts, and elements that are costly."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, cliff, compiled, floats


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

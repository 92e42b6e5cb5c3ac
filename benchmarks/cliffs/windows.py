"""Windows and channels of images, stencils."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td

from .cliff import Cliff, cliff, compiled, floats


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


@cliff
def similarity_of_skimage(small: int) -> Cliff:
    """The mean structural similarity of two images: means of products over 7 × 7 windows."""
    x = floats(768 // small, 1024 // small)
    y = x + 0.1 * np.random.default_rng(4).random(x.shape)

    def natural(x: Any, y: Any) -> Any:
        def mean(a: Any) -> Any:
            return td.mean(td.sliding_window_view(a, (7, 7)), axis=(2, 3))

        mx, my = mean(x), mean(y)
        vx, vy = (49 / 48 * (mean(a * a) - m * m) for a, m in ((x, mx), (y, my)))
        vxy = 49 / 48 * (mean(x * y) - mx * my)
        above = (2 * mx * my + 1e-4) * (2 * vxy + 9e-4)
        return td.mean(above / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))

    @compiled
    def peer(x: Any, y: Any) -> Any:
        n, m = x.shape
        total, columns, k = 0.0, np.zeros((5, m)), 49 / 48
        for i in range(n):
            for j in range(m):
                a, b = x[i, j], y[i, j]
                columns[0, j] += a
                columns[1, j] += b
                columns[2, j] += a * a
                columns[3, j] += b * b
                columns[4, j] += a * b
            if i < 6:
                continue
            s0 = s1 = s2 = s3 = s4 = 0.0
            for j in range(6):
                s0 += columns[0, j]
                s1 += columns[1, j]
                s2 += columns[2, j]
                s3 += columns[3, j]
                s4 += columns[4, j]
            for j in range(m - 6):
                s0 += columns[0, j + 6]
                s1 += columns[1, j + 6]
                s2 += columns[2, j + 6]
                s3 += columns[3, j + 6]
                s4 += columns[4, j + 6]
                mx, my = s0 / 49, s1 / 49
                vx, vy = k * (s2 / 49 - mx * mx), k * (s3 / 49 - my * my)
                above = 2 * k * (s4 / 49 - mx * my) + 9e-4
                below = (mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)
                total += (2 * mx * my + 1e-4) * above / below
                s0 -= columns[0, j]
                s1 -= columns[1, j]
                s2 -= columns[2, j]
                s3 -= columns[3, j]
                s4 -= columns[4, j]
            for j in range(m):
                a, b = x[i - 6, j], y[i - 6, j]
                columns[0, j] -= a
                columns[1, j] -= b
                columns[2, j] -= a * a
                columns[3, j] -= b * b
                columns[4, j] -= a * b
        return total / ((n - 6) * (m - 6))

    return Cliff({"": natural}, {"numba": peer}, x, y)

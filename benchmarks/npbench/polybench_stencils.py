"""NPBench's stencils and recurrences on grids (its folder `polybench`)."""

from __future__ import annotations

import treadle as td

from .registry import program

INSIDE = slice(1, -1)


@program("jacobi_1d")
def jacobi_1d(TSTEPS, A, B):
    def mean(u):
        return 0.33333 * (u[:-2] + u[1:-1] + u[2:])

    def step(state):
        A, B = state
        B = td.update(B, INSIDE, mean(A))
        return td.update(A, INSIDE, mean(B)), B

    return td.iterate(TSTEPS - 1, step, (A, B))


@program("jacobi_2d")
def jacobi_2d(TSTEPS, A, B):
    def mean(u):
        return 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])

    def step(state):
        A, B = state
        B = td.update(B, (INSIDE, INSIDE), mean(A))
        return td.update(A, (INSIDE, INSIDE), mean(B)), B

    return td.iterate(TSTEPS - 1, step, (A, B))


@program("heat_3d")
def heat_3d(TSTEPS, A, B):
    def heat(u):
        here = u[1:-1, 1:-1, 1:-1]
        return (
            0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * here + u[:-2, 1:-1, 1:-1])
            + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * here + u[1:-1, :-2, 1:-1])
            + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * here + u[1:-1, 1:-1, :-2])
            + here
        )

    def step(state):
        A, B = state
        B = td.update(B, (INSIDE, INSIDE, INSIDE), heat(A))
        return td.update(A, (INSIDE, INSIDE, INSIDE), heat(B)), B

    return td.iterate(TSTEPS - 1, step, (A, B))


@program("fdtd_2d")
def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    def step(t, fields):
        ex, ey, hz = fields
        ey = ey.at[0].set(_fict_[t])
        ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

    return td.loop(TMAX, step, (ex, ey, hz))


@program("seidel_2d")
def seidel_2d(TSTEPS, N, A):
    def row(above, rows):  # the row above is new, those here and below are old
        here, below = rows
        known = above[:-2] + above[1:-1] + above[2:] + here[1:-1] + here[2:]
        known = known + below[:-2] + below[1:-1] + below[2:]

        def along(left, k):
            new = (left + k) / 9.0
            return new, new

        new = td.update(here, INSIDE, td.scan(along, here[0], known)[1])
        return new, new

    def sweep(A):
        return td.update(A, INSIDE, td.scan(row, A[0], (A[1:-1], A[2:]))[1])

    return td.iterate(TSTEPS - 1, sweep, A)


@program("deriche")
def deriche(alpha, imgIn):
    k = (1.0 - td.exp(-alpha)) ** 2 / (1.0 + alpha * td.exp(-alpha) - td.exp(2.0 * alpha))
    a1 = k
    a2 = k * td.exp(-alpha) * (alpha - 1.0)
    a3 = k * td.exp(-alpha) * (alpha + 1.0)
    a4 = -k * td.exp(-2.0 * alpha)
    b1 = 2.0 ** (-alpha)
    b2 = -td.exp(-2.0 * alpha)

    def forward(state, x):
        y1, y2, x1 = state  # the last two results, the last element
        y = a1 * x + a2 * x1 + b1 * y1 + b2 * y2
        return (y, y1, x), y

    def backward(state, x):
        y1, y2, x1, x2 = state
        y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
        return (y, y1, x, x1), y

    def smooth(image, axis):
        zero = td.zeros(image.shape[1 - axis], image.dtype)
        right = td.scan(forward, (zero,) * 3, image, axis=axis)[1]
        left = td.scan(backward, (zero,) * 4, image, axis=axis, reverse=True)[1]
        return right + left

    return smooth(smooth(imgIn, axis=1), axis=0)


@program("adi")
def adi(TSTEPS, N, u):
    mul1, mul2 = 2.0 / TSTEPS * N * N, 1.0 / TSTEPS * N * N
    a, b = -mul1 / 2.0, 1.0 + mul2
    d, e = -mul2 / 2.0, 1.0 + mul2

    def solve(a, b, d, known, axis):
        """(a, b, a) along an axis implicitly, (d, 1 + 2 d, d) along the other one explicitly."""

        def forward(state, x):
            p, q = state
            right = -d * x[:-2] + (1.0 + 2.0 * d) * x[1:-1] - d * x[2:]
            p, q = -a / (a * p + b), (right - a * q) / (a * p + b)
            return (p, q), (p, q)

        def backward(v, coefficients):
            p, q = coefficients
            v = p * v + q
            return v, v

        ones = td.ones(N - 2)
        _, coefficients = td.scan(forward, (0.0 * ones, ones), known, axis=axis)
        return td.scan(backward, ones, coefficients, axis=axis, reverse=True)[1]

    def step(u):
        v = td.pad(solve(a, b, d, u[1:-1], 0), ((1, 1), (0, 0)), constant_values=1.0)
        u = u.at[1:-1, 0].set(1.0).at[1:-1, -1].set(1.0)
        return u.at[1:-1, 1:-1].set(solve(d, e, a, v, 1))

    u = td.iterate(TSTEPS, step, u)
    return u, u

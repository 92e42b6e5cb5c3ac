"""NPBench's programs of linear algebra (its folder `polybench`)."""

from __future__ import annotations

import treadle as td

from .registry import program


def lower(n, k=0):
    """Whether an element of an n × n matrix is on or below its k-th diagonal."""
    return td.iota(n)[:, None] >= td.iota(n) - k


@program("gemm")
def gemm(alpha, beta, C, A, B):
    return alpha * A @ B + beta * C


@program("gemver")
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A = A + td.outer(u1, v1) + td.outer(u2, v2)
    x = x + beta * y @ A + z
    w = w + alpha * A @ x
    return A, w, x


@program("gesummv")
def gesummv(alpha, beta, A, B, x):
    return alpha * A @ x + beta * B @ x


@program("k2mm")
def k2mm(alpha, beta, A, B, C, D):
    return alpha * A @ B @ C + beta * D


@program("k3mm")
def k3mm(A, B, C, D):
    return A @ B @ C @ D


@program("atax")
def atax(A, x):
    return (A @ x) @ A


@program("bicg")
def bicg(A, p, r):
    return r @ A, A @ p


@program("mvt")
def mvt(x1, x2, y_1, y_2, A):
    return x1 + A @ y_1, x2 + y_2 @ A


@program("syrk")
def syrk(alpha, beta, C, A):
    return td.where(lower(C.shape[0]), alpha * A @ A.T + beta * C, C)


@program("syr2k")
def syr2k(alpha, beta, C, A, B):
    return td.where(lower(C.shape[0]), alpha * (A @ B.T + B @ A.T) + beta * C, C)


@program("symm")
def symm(alpha, beta, C, A, B):
    symmetric = td.where(lower(A.shape[0]), A, A.T)
    return alpha * symmetric @ B + beta * C


@program("trmm")
def trmm(alpha, A, B):
    below = td.where(lower(A.shape[0], -1), A, 0)
    return alpha * (B + below.T @ B)


@program("trisolv")
def trisolv(L, x, b):
    return td.linalg.solve_triangular(L, b, lower=True)


@program("cholesky")
def cholesky(A):
    def column(k, A):
        below = A[k:, k] - A[k:, :k] @ A[k, :k]
        return td.update(A, (slice(k, None), k), below / td.sqrt(below[0]))

    return td.loop(A.shape[0], column, A)


@program("cholesky2")
def cholesky2(A):
    return td.where(lower(A.shape[0]), td.linalg.cholesky(A), A)


def eliminate(A):
    """L (with a diagonal of ones) and U of A = L U, in one matrix."""

    def column(k, A):
        A = td.update(A, (slice(k + 1, None), k), A[k + 1 :, k] / A[k, k])
        return A.at[k + 1 :, k + 1 :].add(-td.outer(A[k + 1 :, k], A[k, k + 1 :]))

    return td.loop(A.shape[0] - 1, column, A)


@program("lu")
def lu(A):
    return eliminate(A)


@program("ludcmp")
def ludcmp(A, b):
    A = eliminate(A)
    n = A.shape[0]

    def forward(i, y):
        return td.update(y, i, b[i] - td.the(A[i, :i] @ y[:i]))

    y = td.loop(n, forward, td.zeros_like(b))

    def backward(k, x):
        i = n - 1 - k
        return td.update(x, i, (y[i] - td.the(A[i, i + 1 :] @ x[i + 1 :])) / A[i, i])

    return td.loop(n, backward, td.zeros_like(b)), y, A


@program("durbin")
def durbin(r):
    def step(k, state):
        y, alpha, beta = state
        beta = beta * (1 - alpha * alpha)
        alpha = -(r[k] + td.the(td.flip(r[:k]) @ y[:k])) / beta
        y = td.update(y, slice(None, k), y[:k] + alpha * td.flip(y[:k]))
        return td.update(y, k, alpha), alpha, beta

    y = td.update(td.zeros_like(r), 0, -r[0])
    return td.loop(1, r.shape[0], step, (y, -r[0], 1.0))[0]


@program("gramschmidt")
def gramschmidt(A):
    n = A.shape[1]

    def column(k, state):
        A, Q, R = state
        norm = td.sqrt(td.sum(A[:, k] * A[:, k]))
        q = A[:, k] / norm
        r = q @ A[:, k + 1 :]
        A = A.at[:, k + 1 :].add(-td.outer(q, r))
        R = R.at[k, k].set(norm).at[k, k + 1 :].set(r)
        return A, td.update(Q, (slice(None), k), q), R

    A, Q, R = td.loop(n, column, (A, td.zeros_like(A), td.zeros((n, n), A.dtype)))
    return Q, R, A


@program("doitgen")
def doitgen(NR, NQ, NP, A, C4):
    return A @ C4

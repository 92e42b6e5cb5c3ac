"""LU, QR and eigenvalues of small matrices: vector lanes of a CPU and, interpreted, warps of a GPU.

Every size that has kernels, against LAPACK where results are unique, else by what defines them.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.linalg

import treadle as td
from tests.conformance.helpers import cuda
from treadle.dsl.graph import Library
from treadle.skeletons.linalg.small import LARGEST, has_kernel

SIZES = (1, 2, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 32)
TYPES = ("f4", "f8", "c8", "c16")


@pytest.fixture(params=["native", "cuda"])
def run(request):
    """Runs a function of arrays, whose decompositions all have kernels."""

    def call(f, *arrays):
        compiled = td.jit(f, backend=request.param)
        program = compiled.lower(*arrays)
        assert all(has_kernel(k) for k in program.kernels if isinstance(k, Library))
        return compiled(*arrays)

    with cuda(emulated=True) if request.param == "cuda" else nullcontext():
        yield call


def matrices(count, m, n, dtype, seed=0):
    random = np.random.default_rng(seed)
    a = random.standard_normal((count, m, n))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * random.standard_normal((count, m, n))
    return a.astype(dtype)


def adjoint(a):
    return a.conj().swapaxes(-1, -2)


def near(a, b, dtype, factor=1.0):
    """Up to rounding, measured by the largest element."""
    n = max(a.shape[-2:])
    tolerance = factor * 8 * n * np.finfo(dtype).eps * max(np.abs(b).max(initial=0), 1e-300)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert np.abs(a - b).max(initial=0) <= tolerance


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [n for n in SIZES if n > 4])
def test_lu_is_lapack_s(run, n, dtype):
    a = matrices(9, n, n, dtype)
    factors, pivots = run(td.linalg.lu, a)
    for k in range(len(a)):
        expected, order = scipy.linalg.lu_factor(a[k])
        assert pivots.dtype == np.int32 and (pivots[k] == order).all()
        near(factors[k], expected, dtype, 4)


def test_lu_of_equal_and_missing_pivots(run):
    """Of equal candidates the first in LAPACK's order; a column without a pivot stays as it is."""
    for n in (5, 8, 13):
        a = np.stack([np.where(np.arange(n)[:, None] >= np.arange(n), 1.0, -1.0), np.eye(n)[::-1],
                      np.zeros((n, n)), np.ones((n, n))])  # fmt: skip
        factors, pivots = run(td.linalg.lu, a)
        for k in range(len(a)):
            expected, order, _ = scipy.linalg.lapack.dgetrf(a[k])
            assert (pivots[k] == order).all() and (factors[k] == expected).all()


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [n for n in SIZES if n > 4])
def test_determinants(run, n, dtype):
    if n == LARGEST and dtype == "c16":
        n -= 1
    a = matrices(7, n, n, dtype)
    a[3, :, 1] = 0
    found, expected = run(td.linalg.det, a), np.linalg.det(a)
    np.testing.assert_allclose(found, expected, rtol=2e3 * n * np.finfo(dtype).eps)
    sign, logarithm = run(td.linalg.slogdet, a)
    of_sign, of_logarithm = np.linalg.slogdet(a)
    np.testing.assert_allclose(sign, of_sign, atol=2e3 * n * np.finfo(dtype).eps)
    np.testing.assert_allclose(logarithm, of_logarithm, rtol=2e3 * n * np.finfo(dtype).eps)
    assert found.dtype == expected.dtype and logarithm.dtype == of_logarithm.dtype


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("m, n", [(5, 5), (8, 8), (7, 1), (5, 8), (3, 6), (6, 3), (13, 13), (16, 9),
                                  (9, 16), (1, 12), (17, 16), (16, 16)])  # fmt: skip
def test_qr_is_lapack_s(run, m, n, mode, dtype):
    a = matrices(6, min(m, 16) if dtype == "c16" else m, n, dtype)
    a[2] = 0
    a[3, :, 0] = 0
    a[4] *= 1e-30 if np.dtype(dtype).itemsize // (1 + (a.dtype.kind == "c")) == 4 else 1e-250
    a[5] *= 1e30 if np.dtype(dtype).itemsize // (1 + (a.dtype.kind == "c")) == 4 else 1e250
    found = run(lambda x: td.linalg.qr(x, mode), a)
    for k in range(len(a)):
        expected = np.linalg.qr(a[k], mode)
        if mode == "r":
            near(found[k], expected, dtype)
            continue
        q, r = found[0][k], found[1][k]
        near(r, expected[1], dtype)
        near(adjoint(q) @ q, np.eye(q.shape[1], dtype=dtype), dtype)
        near(q @ r, a[k], dtype)
        assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("n", [17, 32])
def test_qr_of_large_matrices(run, n):
    a = matrices(3, n, n, "f4")
    q, r = run(td.linalg.qr, a)
    near(r, np.linalg.qr(a)[1], "f4", 4)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(n, dtype="f4"), a.shape), "f4")


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("triangle", "LU")
@pytest.mark.parametrize("n", [n for n in SIZES if 4 < n < 31])
def test_eigenvalues(run, n, triangle, dtype):
    if n > 16 and dtype == "c16":
        n = 16
    a = matrices(7, n, n, dtype)
    a = a + adjoint(a)
    a[1] = np.eye(n)
    a[2] = 0
    a[3] = np.ones((n, n))
    a[4] *= 1e-30 if np.finfo(dtype).bits == 32 else 1e-250
    expected = np.linalg.eigvalsh(a)
    given = a.copy()
    other = np.triu_indices(n, 1) if triangle == "L" else np.tril_indices(n, -1)
    given[:, other[0], other[1]] = np.nan  # never read
    values, vectors = run(lambda x: td.linalg.eigh(x, triangle), given)
    assert (np.diff(values, axis=1) >= 0).all()
    for k in range(len(a)):
        near(values[k][None], expected[k][None], dtype)
        near(a[k] @ vectors[k], (vectors[k] * values[k]).astype(dtype), dtype, 2)
        near(adjoint(vectors[k]) @ vectors[k], np.eye(n, dtype=dtype), dtype)


@pytest.mark.parametrize("n", [31, 32])
def test_eigenvalues_of_large_matrices(run, n):
    a = matrices(2, n, n, "f4")
    a += adjoint(a)
    values, vectors = run(td.linalg.eigh, a)
    near(values, np.linalg.eigvalsh(a), "f4")
    near(a @ vectors, vectors * values[:, None], "f4", 2)


def test_matrices_without_eigenvalues_leave_their_neighbours_alone(run):
    n = 6
    a = matrices(9, n, n, "f8")
    a += adjoint(a)
    a[3, 2, 1] = np.nan
    a[5, 0, 0] = np.inf
    values, vectors = run(td.linalg.eigh, a)
    good = [0, 1, 2, 4, 6, 7, 8]
    near(values[good], np.linalg.eigvalsh(a[good]), "f8")
    assert np.isnan(values[[3, 5]]).all() and np.isnan(vectors[[3, 5]]).all()
    with pytest.raises(np.linalg.LinAlgError, match="2 of the matrices: no convergence"):
        td.run(td.linalg.eigh(a), check=True, backend="native")


def test_batches_and_repeated_calls(run):
    for batch in ((0,), (1,), (2, 17), (70,)):
        a = matrices(int(np.prod(batch)), 6, 6, "f8").reshape(*batch, 6, 6)
        for _ in range(2):
            near(run(td.linalg.qr, a)[1], np.linalg.qr(a)[1], "f8")
            np.testing.assert_allclose(run(td.linalg.det, a), np.linalg.det(a), rtol=1e-10)
            near(run(td.linalg.eigvalsh, a + adjoint(a)), np.linalg.eigvalsh(a + adjoint(a)), "f8")


def test_derivatives():
    """By the rules of the operations, as for larger matrices."""
    a = matrices(3, 6, 6, "f8") + 3 * np.eye(6)
    for f in (lambda x: td.sum(td.linalg.det(x)), lambda x: td.sum(td.linalg.slogdet(x)[1]),
              lambda x: td.sum(td.linalg.qr(x)[1] ** 2 * 0.5 + td.linalg.qr(x)[0]),
              lambda x: td.sum(td.linalg.lu(x)[0] ** 2),
              lambda x: td.sum(td.linalg.eigh(x + td.swapaxes(x, 1, 2))[0] ** 3)):  # fmt: skip
        td.check_grad(f, a)


def test_what_has_kernels():
    def has(f, *shape, dtype="f8"):
        program = td.jit(f, backend="native").lower(np.ones(shape, dtype))
        (node,) = [k for k in program.kernels if isinstance(k, Library)]
        return has_kernel(node)

    for f in (td.linalg.lu, td.linalg.qr, td.linalg.eigh):
        assert has(f, 2, LARGEST, LARGEST)
        assert not has(f, 2, LARGEST + 1, LARGEST + 1)
    for f in (td.linalg.qr, td.linalg.eigh):
        assert not has(f, LARGEST, LARGEST)  # one matrix
        assert has(f, 2, 16, 16, dtype="c16") and not has(f, 2, 17, 17, dtype="c16")
    assert has(td.linalg.qr, 2, 3, LARGEST) and not has(td.linalg.qr, 2, 3, LARGEST + 1)

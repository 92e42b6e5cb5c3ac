"""td.linalg: unrolled, by kernels and by libraries; errors compared with the truth of float64."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.libraries import linalg as libraries

from .helpers import generator

TYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (1, 2, 3, 4, 5, 8, 16, 32, 33)
CASES = [(n, t) for n in SIZES for t in TYPES
         if n in (2, 3, 5) or t == ("float32" if n % 2 else "complex128")]  # fmt: skip
#: One program serves these; others are compiled for other ranks and extents of one.
BATCHES = ((3,), (0,), (300,))
RANKS = ((), (1,), (2, 5))


def eps(dtype):
    return np.finfo(dtype).eps


def random(dtype, *shape, seed=0):
    """Matrices with elements around zero, complex for complex types."""
    rng = generator("linalg", np.dtype(dtype).name, shape, seed)
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def wide(a):
    """The same numbers in double precision."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def hermitian(dtype, *shape, seed=0):
    a = random(dtype, *shape, seed=seed)
    return (a + adjoint(a)) / np.asarray(2, a.dtype)


def definite(dtype, *shape, seed=0):
    a = random(dtype, *shape, seed=seed)
    return (a @ adjoint(a) + np.eye(shape[-1])).astype(dtype)


def norms(a):
    """The Frobenius norms of matrices, 0 for none."""
    return np.sqrt((np.abs(wide(a)) ** 2).sum(axis=(-1, -2)))


def assert_small(error, bound):
    """Every matrix of `error` is bounded; NaN is not."""
    worst = norms(error) / np.maximum(np.broadcast_to(bound, error.shape[:-2]), 1e-300)
    assert (worst <= 1).all(), worst.max()


def call(f, backend, *arrays):
    return td.jit(f, backend=backend)(*arrays)


@pytest.mark.sample(1)
@pytest.mark.parametrize("n, dtype", CASES)
def test_solve_has_a_small_backward_error(backend, n, dtype):
    for batch in (*BATCHES, *RANKS) if n < 9 else BATCHES[:1]:
        a, b = random(dtype, *batch, n, n), random(dtype, *batch, n, 2, seed=1)
        x = call(td.linalg.solve, backend, a, b)
        assert x.dtype == a.dtype and x.shape == b.shape
        residual = wide(a) @ wide(x) - wide(b)
        assert_small(residual, 8 * n * eps(dtype) * (norms(a) * norms(x) + norms(b)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("lower", (False, True))
@pytest.mark.parametrize("trans", (0, "T", 2))
@pytest.mark.parametrize("n, dtype", CASES)
def test_solve_triangular(backend, n, dtype, trans, lower):
    for unit, batch in zip((False, True) * 2, (*BATCHES, *RANKS) if n < 9 else BATCHES[:2],
                           strict=False):  # fmt: skip
        a, b = random(dtype, *batch, n, n), random(dtype, *batch, n, 2, seed=1)
        a = (a / max(n, 1) if unit else a) + np.eye(n, dtype=a.dtype) * 3
        x = call(lambda a, b, unit=unit: td.linalg.solve_triangular(a, b, trans, lower, unit),
                 backend, a, b)  # fmt: skip
        assert x.dtype == a.dtype and x.shape == b.shape
        matrix = np.tril(wide(a)) if lower else np.triu(wide(a))
        if unit:
            matrix[..., range(n), range(n)] = 1
        matrix = {0: matrix, "T": matrix.mT, 2: adjoint(matrix)}[trans]
        residual = matrix @ wide(x) - wide(b)
        assert_small(residual, 8 * n * eps(dtype) * (norms(matrix) * norms(x) + norms(b)))


@pytest.mark.parametrize("n", (3, 6, 70))
def test_solve_triangular_reads_one_triangle(backend, n):
    """NaN elsewhere does not matter, nor on a diagonal of ones."""
    rng = np.random.default_rng(n)
    whole = rng.random((2, n, n)) / n + np.eye(n)
    b = rng.random((2, n, 11))
    for lower, unit, trans in ((True, False, "N"), (False, True, "N"), (True, True, "T")):
        read = np.tril(whole) if lower else np.triu(whole)
        hidden = np.where(read == 0, np.nan, read)
        if unit:
            read[:, range(n), range(n)] = 1
            hidden[:, range(n), range(n)] = np.nan
        read = read if trans == "N" else read.mT
        for k in (1, 3, 11):
            x = call(lambda a, b, how=(trans, lower, unit): td.linalg.solve_triangular(a, b, *how),
                     backend, hidden, b[..., :k])  # fmt: skip
            np.testing.assert_allclose(read @ x, b[..., :k], rtol=1e-10, atol=1e-12)


def test_solve_triangular_of_vectors_and_broadcast(backend):
    for n in (3, 6, 40):
        a, b = np.tril(random("float64", 5, 1, n, n)) + 4 * np.eye(n), random("float64", 4, n, 3)
        x = call(lambda a, b: td.linalg.solve_triangular(a, b, lower=True), backend, a, b)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)
        vector = random("float64", n)
        x = call(lambda a, b: td.linalg.solve_triangular(a, b, lower=True), backend, a, vector)
        np.testing.assert_allclose(x, np.linalg.solve(a, vector), rtol=1e-8, atol=1e-10)
        x = call(lambda a, b: td.linalg.solve_triangular(a.mT, b), backend, a[0, 0], vector)
        np.testing.assert_allclose(x, np.linalg.solve(a[0, 0].T, vector), rtol=1e-8, atol=1e-10)


def test_solve_triangular_without_scipy(monkeypatch):
    """The other way for the host, which the tests' SciPy hides; inf in b stays where it belongs."""
    monkeypatch.setattr(libraries, "_has_scipy", lambda: False)
    for n, trans, dtype in ((40, "N", "float64"), (70, "C", "complex64"), (150, "T", "float32")):
        a, b = random(dtype, 2, n, n) / n + np.eye(n, dtype=dtype), random(dtype, n, 11)
        for lower, unit in ((True, False), (False, True)):
            solve = td.linalg.solve_triangular(a, b, trans, lower, unit)
            x = td.run(solve, backend="reference")
            matrix = np.tril(a) if lower else np.triu(a)
            if unit:
                matrix[:, range(n), range(n)] = 1
            matrix = {"N": matrix, "T": matrix.mT, "C": adjoint(matrix)}[trans]
            np.testing.assert_allclose(matrix @ x, np.stack([b] * 2), atol=n * 4 * eps(dtype))
    b = np.arange(40.0)
    b[20] = np.inf
    x = td.run(td.linalg.solve_triangular(np.eye(40), b, lower=True), backend="reference")
    assert (x[:20] == b[:20]).all() and np.isinf(x[20])


@pytest.mark.parametrize("n", (3, 6, 33))
def test_a_zero_on_the_diagonal(backend, n):
    a = np.stack([np.eye(n)] * 2)
    a[1, 1, 1] = 0
    b = np.ones((2, n, 1))
    x = call(td.linalg.solve_triangular, backend, a, b)
    assert (x[0] == 1).all() and not np.isfinite(x[1]).all()
    assert (call(lambda a, b: td.linalg.solve_triangular(a, b, unit_diagonal=True), backend, a, b)
            == 1).all()  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("n, dtype", CASES)
def test_inv_is_as_good_as_lapacks(backend, n, dtype):
    for batch in BATCHES if n < 9 else BATCHES[:2]:
        a = random(dtype, *batch, n, n)
        x = call(td.linalg.inv, backend, a)
        assert x.dtype == a.dtype and x.shape == a.shape
        error = wide(x) @ wide(a) - np.eye(n)
        assert_small(error, 8 * n * eps(dtype) * norms(a) * norms(x))


@pytest.mark.sample(4)
@pytest.mark.parametrize("n, dtype", CASES)
def test_det_and_slogdet(backend, n, dtype):
    for batch in BATCHES if n < 9 else BATCHES[:2]:
        a = random(dtype, *batch, n, n)
        want = np.linalg.det(wide(a))
        bound = 16 * n * eps(dtype) * np.prod(np.sqrt((np.abs(wide(a)) ** 2).sum(-1)), -1)
        found = call(td.linalg.det, backend, a)
        assert found.dtype == a.dtype and found.shape == want.shape
        assert (np.abs(found - want) <= bound).all()
        sign, logarithm = call(td.linalg.slogdet, backend, a)
        assert sign.dtype == a.dtype and logarithm.dtype == a.real.dtype
        assert (np.abs(wide(sign) * np.exp(logarithm.astype("f8")) - want) <= 4 * bound).all()


@pytest.mark.sample(4)
@pytest.mark.parametrize("n, dtype", CASES)
def test_cholesky(backend, n, dtype):
    for batch in BATCHES if n < 9 else BATCHES[:2]:
        a = definite(dtype, *batch, n, n)
        low, up = call(
            lambda x: (td.linalg.cholesky(x), td.linalg.cholesky(x, upper=True)), backend, a
        )
        assert low.dtype == a.dtype and low.shape == a.shape
        assert (np.triu(low, 1) == 0).all() and (np.tril(up, -1) == 0).all()
        assert_small(wide(low) @ adjoint(wide(low)) - wide(a), 8 * n * eps(dtype) * norms(a))
        assert_small(adjoint(wide(up)) @ wide(up) - wide(a), 8 * n * eps(dtype) * norms(a))


def test_cholesky_reads_one_triangle(backend):
    for n in (3, 6):
        a = definite("float64", 4, n, n)
        low = call(td.linalg.cholesky, backend, np.tril(a))
        up = call(lambda x: td.linalg.cholesky(x, upper=True), backend, np.triu(a))
        np.testing.assert_allclose(low @ adjoint(low), a, atol=1e-12)
        np.testing.assert_allclose(adjoint(up) @ up, a, atol=1e-12)


@pytest.mark.sample(4)
@pytest.mark.parametrize("n, dtype", CASES)
def test_lu(backend, n, dtype):
    for batch in BATCHES if n < 9 else BATCHES[:2]:
        a = random(dtype, *batch, n, n)
        packed, pivots = call(td.linalg.lu, backend, a)
        assert packed.dtype == a.dtype and pivots.dtype == np.int32
        assert packed.shape == a.shape and pivots.shape == a.shape[:-1]
        low, up = np.tril(wide(packed), -1) + np.eye(n), np.triu(wide(packed))
        # Partial pivoting, by |re| + |im|.
        assert np.abs(low).max(initial=0) <= 1.001 * (2**0.5 if a.dtype.kind == "c" else 1)
        rows = wide(a).reshape(-1, n, n)
        for matrix, order in zip(rows, pivots.reshape(-1, n), strict=True):
            for k, p in enumerate(order):
                assert p >= k
                matrix[[k, p]] = matrix[[p, k]]
        assert_small(low @ up - rows.reshape(a.shape), 8 * n * eps(dtype) * norms(low) * norms(up))


def test_lu_is_scipys(backend):
    scipy = pytest.importorskip("scipy.linalg")
    for n in (2, 3, 4, 7):
        a = np.round(random("float64", n, n) * 4)
        packed, pivots = call(td.linalg.lu, backend, a)
        want, order = scipy.lu_factor(a)
        np.testing.assert_allclose(packed, want, atol=1e-13)
        assert (pivots == order).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
@pytest.mark.parametrize("m, n", [(1, 1), (2, 2), (3, 3), (4, 4), (4, 2), (2, 4), (3, 1), (1, 3),
                                  (8, 8), (33, 16), (5, 9)])  # fmt: skip
def test_qr(backend, m, n, dtype):
    for batch in BATCHES if m < 9 else BATCHES[:2]:
        a = random(dtype, *batch, m, n)
        for mode in ("reduced", "complete", "r"):
            found = call(lambda x, mode=mode: td.linalg.qr(x, mode), backend, a)
            want = np.linalg.qr(wide(a), mode) if 0 not in a.shape else None
            r = found if mode == "r" else found.R
            assert r.dtype == a.dtype and (np.tril(r, -1) == 0).all()
            if want is not None:  # LAPACK's signs
                exact = want if mode == "r" else want.R
                assert r.shape == exact.shape
            if mode != "r":
                q = found.Q
                assert_small(wide(q) @ wide(r) - wide(a), 16 * m * eps(dtype) * norms(a))
                unit = adjoint(wide(q)) @ wide(q) - np.eye(q.shape[-1])
                assert_small(unit, 16 * m * eps(dtype))


def test_qr_has_lapacks_signs(backend):
    for dtype in TYPES:
        for m, n in ((3, 3), (4, 2), (2, 4)):
            a = random(dtype, 7, m, n)
            q, r = call(td.linalg.qr, backend, a)
            want = np.linalg.qr(wide(a))
            np.testing.assert_allclose(q, want.Q, atol=100 * eps(dtype))
            np.testing.assert_allclose(r, want.R, atol=100 * eps(dtype))


def test_qr_of_zeros_and_large_numbers(backend):
    a = np.zeros((3, 3, 3), "float32")
    a[1] = random("float32", 3, 3) * np.float32(1e30)
    a[2, 0, 0] = 1
    q, r = call(td.linalg.qr, backend, a)
    assert np.isfinite(q).all() and np.isfinite(r).all()
    assert_small(wide(q) @ wide(r) - wide(a), 100 * eps("float32") * norms(a))
    assert_small(adjoint(wide(q)) @ wide(q) - np.eye(3), 100 * eps("float32"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("n, dtype", CASES)
def test_eigh(backend, n, dtype):
    for batch in BATCHES if n < 9 else BATCHES[:2]:
        a = hermitian(dtype, *batch, n, n)
        for triangle in ("L", "U"):
            half = np.tril(a) if triangle == "L" else np.triu(a)
            values, vectors = call(lambda x, t=triangle: td.linalg.eigh(x, UPLO=t), backend, half)
            assert values.dtype == a.real.dtype and vectors.dtype == a.dtype
            assert (np.diff(values, axis=-1) >= 0).all()
            bound = 32 * n * eps(dtype)
            error = wide(a) @ wide(vectors) - wide(vectors) * values[..., None, :].astype("f8")
            assert_small(error, bound * norms(a))
            assert_small(adjoint(wide(vectors)) @ wide(vectors) - np.eye(n), bound)


def test_eigh_of_equal_eigenvalues(backend):
    a = np.stack([np.zeros((3, 3)), np.eye(3), np.ones((3, 3)), np.diag([3.0, 1.0, 2.0])])
    values, vectors = call(td.linalg.eigh, backend, a)
    np.testing.assert_allclose(values, [[0, 0, 0], [1, 1, 1], [0, 0, 3], [1, 2, 3]], atol=1e-14)
    np.testing.assert_allclose(adjoint(vectors) @ vectors, np.broadcast_to(np.eye(3), a.shape),
                               atol=1e-14)  # fmt: skip


def test_badly_scaled_systems(backend):
    """Partial pivoting: a tiny first element, and rows of very different sizes."""
    a = np.array([[1e-20, 1, 2], [1, 1, 1], [3, 1, 5]])
    b = np.array([1.0, 2, 3])
    x = call(td.linalg.solve, backend, a, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-12)
    scaled = a * np.array([[1e-12], [1], [1e12]])
    right = b * np.array([1e-12, 1, 1e12])
    x = call(td.linalg.solve, backend, scaled, right)
    np.testing.assert_allclose(x, np.linalg.solve(scaled, right), rtol=1e-10)


def test_operands_broadcast(backend):
    for n in (3, 6):
        a, b = random("float64", 5, 1, n, n), random("float64", 4, n, 3)
        x = call(td.linalg.solve, backend, a, b)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)
        vector = random("float64", n)
        x = call(td.linalg.solve, backend, a, vector)
        np.testing.assert_allclose(x, np.linalg.solve(a, vector), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [3, 12, 33])
@pytest.mark.parametrize(
    "part", [slice(1), slice(-1, None), slice(2, 3)], ids=["a[:1]", "a[-1:]", "a[2:3]"]
)
def test_one_of_many_broadcasts(backend, n, part):
    """Its extent, 0 if there are none, is not known to be 1 when a compiled function is traced."""
    a, b = random("float64", 5, n, n) + 4 * n * np.eye(n), random("float64", 5, n, 3)
    programs = (
        (lambda a, b: a[part] @ b, np.matmul(a[part], b)),
        (lambda a, b: a @ b[part], np.matmul(a, b[part])),
        (lambda a, b: a[part] @ b[:, :, 0, None], np.matmul(a[part], b[:, :, :1])),
        (lambda a, b: td.linalg.solve(a[part], b), np.linalg.solve(a[part], b)),
        (lambda a, b: td.linalg.solve(a, b[part]), np.linalg.solve(a, b[part])),
    )
    for function, wanted in programs:
        program = td.jit(function, backend=backend)
        np.testing.assert_allclose(program(a, b), wanted, rtol=1e-9, atol=1e-12)
        assert program(a[:0], b[:0]).shape == (0, *wanted.shape[1:])


def test_views(backend):
    """Transposed, strided, reversed and fused operands."""
    for n in (2, 4, 6):
        a = random("float64", 3, 2 * n, 2 * n) + 2 * np.eye(2 * n)
        for view in (lambda x, n=n: x[:, ::2, 1::2], lambda x, n=n: x[:, :n, :n].swapaxes(1, 2),
                     lambda x, n=n: x[::-1, n:, :n], lambda x, n=n: x[1, -n:, :n]):  # fmt: skip
            want = np.linalg.inv(view(a))
            np.testing.assert_allclose(call(td.linalg.inv, backend, view(a)), want, rtol=1e-8,
                                       atol=1e-10)  # fmt: skip
        fortran = np.asfortranarray(a[:, :n, :n])
        want = np.linalg.inv(a[:, :n, :n])
        np.testing.assert_allclose(call(td.linalg.inv, backend, fortran), want, rtol=1e-8,
                                   atol=1e-10)  # fmt: skip
        found = call(lambda x, n=n: td.linalg.inv(x[:, :n, :n].transpose(0, 2, 1)), backend, a)
        np.testing.assert_allclose(found, np.swapaxes(want, -1, -2), rtol=1e-8, atol=1e-10)


def test_what_surrounds_is_fused(backend):
    """A producer of the matrices, and element-wise consumers in other shapes."""
    a, b, c = random("float32", 40, 3, 3), random("float32", 40, 3), random("float32", 3)

    def f(a, b, c):
        x = td.linalg.solve(a * 2 + td.eye(3, dtype="float32"), td.sin(b)[..., None])[..., 0]
        return td.maximum(x * c, 0) - b

    found = call(f, backend, a, b, c)
    x = np.linalg.solve(wide(a) * 2 + np.eye(3), np.sin(wide(b))[..., None])[..., 0]
    want = np.maximum(x * c, 0) - b
    np.testing.assert_allclose(found, want, rtol=1e-2, atol=1e-3)
    if backend != "reference":
        assert len(td.jit(f, backend=backend).lower(a, b, c).kernels) == 1


@pytest.mark.parametrize("n", (2, 3, 4))
def test_small_systems_are_one_kernel(backend, n):
    if backend == "reference":
        pytest.skip("it runs no kernels")
    a, b = random("float64", 9, n, n), random("float64", 9, n, 1)
    for f, arrays in (
        (lambda a, b: td.exp(td.linalg.solve(a + 1, b * 2)) - b, (a, b)),
        (lambda a: td.linalg.inv(a * 3).transpose(0, 2, 1) + 1, (a,)),
        (lambda a: td.linalg.cholesky(td.matmul(a, a.transpose(0, 2, 1))), None),
        (lambda a: td.abs(td.linalg.det(a)) + 1, (a,)),
    ):
        if arrays is None:
            continue
        assert len(td.jit(f, backend=backend).lower(*arrays).kernels) == 1


def test_readers_that_do_not_compute_rows(backend):
    """Sums, products and gathers of an inverse read it from memory."""
    a = random("float64", 6, 3, 3)
    found = call(
        lambda a: (
            td.sum(td.linalg.inv(a), axis=-1),
            td.linalg.inv(a) @ a,
            td.linalg.inv(a)[::-1, :, 0],
            td.linalg.inv(a)[:, None] * td.ones((6, 2, 3, 3)),
        ),
        backend, a,
    )  # fmt: skip
    inverse = np.linalg.inv(a)
    wants = (inverse.sum(-1), np.broadcast_to(np.eye(3), a.shape), inverse[::-1, :, 0],
             np.broadcast_to(inverse[:, None], (6, 2, 3, 3)))  # fmt: skip
    for got, want in zip(found, wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


def test_one_function_serves_all_sizes(backend):
    """Sizes up to four have programs of their own, larger ones share one."""
    f = td.jit(td.linalg.inv, backend=backend)
    for n in (3, 2, 7, 4, 3, 9, 1, 2, 40):
        for batch in (2, 5):
            a = random("float64", batch, n, n) + 3 * np.eye(n)
            np.testing.assert_allclose(f(a), np.linalg.inv(a), rtol=1e-8, atol=1e-10)


def test_a_program_is_for_its_size(backend):
    program = td.jit(td.linalg.inv, backend=backend).lower(random("float64", 2, 3, 3))
    a = random("float64", 5, 3, 3)
    np.testing.assert_allclose(program(a), np.linalg.inv(a), rtol=1e-8)
    with pytest.raises(td.ShapeError, match="for matrices with an extent of 3, not 4"):
        program(random("float64", 2, 4, 4))


def test_extents_that_are_computed(backend):
    a = random("float64", 4, 6, 6)
    found = call(lambda x, k: td.linalg.inv(x[:, :k, :k]), backend, a, 3)
    np.testing.assert_allclose(found, np.linalg.inv(a[:, :3, :3]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", (3, 6, 40))
def test_in_a_loop(backend, n):
    """The state of a loop has the size of its initial value: Newton's iteration for a root."""
    a = hermitian("float64", 5, n, n) / n + 2 * np.eye(n)

    def root(a):
        start = td.broadcast_to(td.eye(n), a.shape)
        return td.loop(20, lambda _, x: (x + td.matmul(td.linalg.inv(x), a)) / 2, start)

    x = call(root, backend, a)
    np.testing.assert_allclose(x @ x, a, rtol=1e-8, atol=1e-8)


SINGULAR = {
    2: [[1.0, 2.0], [2.0, 4.0]],
    3: [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 0.0]],
    6: np.zeros((6, 6)),
}


@pytest.mark.parametrize("n", SINGULAR)
def test_singular_matrices_give_inf_or_nan(backend, n):
    a = np.stack([np.eye(n), SINGULAR[n], 2 * np.eye(n)])
    b = np.ones((3, n, 1))
    for f, given in ((td.linalg.inv, (a,)), (td.linalg.solve, (a, b))):
        x = call(f, backend, *given)
        assert np.isfinite(x[[0, 2]]).all() and not np.isfinite(x[1]).all()
    assert (call(td.linalg.det, backend, a)[1] == 0).all()
    sign, logarithm = call(td.linalg.slogdet, backend, a)
    assert sign[1] == 0 and logarithm[1] == -np.inf


@pytest.mark.parametrize("n", (1, 2, 4, 7))
def test_cholesky_of_other_matrices_is_nan(backend, n):
    a = np.stack([np.eye(n), -np.eye(n), np.diag([1.0] * (n - 1) + [0.0]), np.eye(n)])
    low = call(td.linalg.cholesky, backend, a)
    assert np.isnan(low[1:3]).all() and (low[[0, 3]] == np.eye(n)).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", (2, 6))
def test_checked_programs_refuse_them(backend, n):
    a = np.stack([np.eye(n), SINGULAR[n], np.zeros((n, n))])
    b = np.ones((3, n, 1))
    negative = np.stack([np.eye(n), -np.eye(n)])
    cases = {
        "inv: 2 of the matrices: singular": (lambda: td.linalg.inv(a)),
        "solve: 2 of the matrices: singular": (lambda: td.linalg.solve(a, b)),
        "solve_triangular: 2 of the matrices: singular": (
            lambda: td.linalg.solve_triangular(a[[0, 2, 2]], b)
        ),
        "cholesky: 1 of the matrices: not positive definite": (
            lambda: td.linalg.cholesky(negative)
        ),
    }
    for text, make in cases.items():
        with pytest.raises(td.LinAlgError, match=text):
            td.run(make(), backend=backend, check=True)
        with pytest.raises(np.linalg.LinAlgError), td.config(check=True, backend=backend):
            td.run(make())
    good = td.run(td.linalg.inv(a[:1]), backend=backend, check=True)
    assert (good == np.eye(n)).all()


def test_integers_are_float64(backend):
    a = np.array([[2, 1], [1, 3]])
    for make, want in (
        (td.linalg.inv, np.linalg.inv(a)),
        (td.linalg.det, np.linalg.det(a)),
        (td.linalg.cholesky, np.linalg.cholesky(a)),
        (lambda x: td.linalg.solve(x, [1, 2]), np.linalg.solve(a, [1, 2])),
        (lambda x: td.linalg.eigh(x)[0], np.linalg.eigh(a)[0]),
        (td.linalg.norm, np.linalg.norm(a)),
        (lambda x: td.linalg.inv(x > 1), None),
    ):
        found = call(make, backend, a)
        assert found.dtype == np.float64
        if want is not None:
            np.testing.assert_allclose(found, want, rtol=1e-14)


def test_types_of_two_operands(backend):
    a, b = random("float32", 3, 3), random("complex128", 3, 1)
    x = call(td.linalg.solve, backend, a, b)
    assert x.dtype == np.complex128
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-10)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", (*TYPES, "int64"))
def test_norms(backend, dtype):
    a = (random(dtype, 3, 4, 5) * 4).astype(dtype)
    for ord in (None, 1, 2, np.inf, -np.inf, 0, 3, 0.5, -1):
        found = call(lambda x, o=ord: td.linalg.norm(x, o, axis=1), backend, a)
        np.testing.assert_allclose(found, np.linalg.norm(a, ord, axis=1), rtol=1e-4)
    for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for axis in ((-2, -1), (0, 2), (2, 1)):
            for keep in (False, True):
                found = call(lambda x, o=ord, ax=axis, k=keep: td.linalg.norm(x, o, ax, k),
                             backend, a)  # fmt: skip
                want = np.linalg.norm(a, ord, axis, keep)
                assert found.shape == want.shape
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)
    for keep in (False, True):
        found = call(lambda x, k=keep: td.linalg.norm(x, keepdims=k), backend, a)
        np.testing.assert_allclose(found, np.linalg.norm(a, keepdims=keep), rtol=1e-4)
    found = call(lambda x: td.linalg.norm(x[0], 1), backend, a)
    np.testing.assert_allclose(found, np.linalg.norm(a[0], 1), rtol=1e-4)


def test_sums_and_products(backend):
    a, b = random("complex128", 4, 3, 3), random("complex128", 4, 3, 3, seed=1)
    for make, want in (
        (lambda a, b: td.linalg.trace(a), np.linalg.trace(a)),
        (lambda a, b: td.linalg.trace(a, offset=1), np.linalg.trace(a, offset=1)),
        (lambda a, b: td.linalg.trace(a.real, dtype="float32"),
         np.linalg.trace(a.real, dtype="float32")),
        (lambda a, b: td.linalg.vecdot(a, b), np.linalg.vecdot(a, b)),
        (lambda a, b: td.linalg.vecdot(a, b[0, 0]), np.linalg.vecdot(a, b[0, 0])),
        (lambda a, b: td.linalg.vecdot(a, b, axis=1), np.linalg.vecdot(a, b, axis=1)),
        (lambda a, b: td.linalg.outer(a[0, 0], b[1, 1]), np.outer(a[0, 0], b[1, 1])),
        (lambda a, b: td.linalg.cross(a, b), np.linalg.cross(a, b)),
        (lambda a, b: td.linalg.cross(a, b, axis=1), np.linalg.cross(a, b, axis=1)),
        (lambda a, b: td.linalg.matrix_power(a, 3), np.linalg.matrix_power(a, 3)),
        (lambda a, b: td.linalg.matrix_power(a, 0), np.linalg.matrix_power(a, 0)),
        (lambda a, b: td.linalg.matrix_power(a, -2), np.linalg.matrix_power(a, -2)),
    ):  # fmt: skip
        found = call(make, backend, a, b)
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-10)
    whole = np.arange(9).reshape(3, 3).astype("int8")
    assert call(td.linalg.trace, backend, whole) == np.trace(whole)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ("float32", "complex128"))
@pytest.mark.parametrize("m, n", [(1, 1), (3, 3), (4, 2), (2, 5), (9, 9)])
def test_singular_values(backend, m, n, dtype):
    a = random(dtype, 3, m, n)
    for full in (True, False):
        u, s, vh = call(lambda x, o=full: td.linalg.svd(x, full_matrices=o), backend, a)
        k = min(m, n)
        assert s.dtype == a.real.dtype and (np.diff(s, axis=-1) <= 0).all()
        back = wide(u[..., :k]) * s[..., None, :] @ wide(vh[..., :k, :])
        assert_small(back - wide(a), 50 * m * n * eps(dtype) * norms(a))
    values = call(lambda x: td.linalg.svd(x, compute_uv=False), backend, a)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), rtol=1e-3)
    x = call(td.linalg.pinv, backend, a)
    assert x.dtype == a.dtype
    np.testing.assert_allclose(x, np.linalg.pinv(wide(a)), rtol=1e-2, atol=1e-3)
    rank = call(td.linalg.matrix_rank, backend, a)
    assert rank.dtype == np.int64 and (rank == min(m, n)).all()


def test_ranks_and_pseudo_inverses_of_deficient_matrices(backend):
    a = np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.eye(3), np.diag([1, 1, 1e-9])])
    assert (call(td.linalg.matrix_rank, backend, a) == [1, 0, 3, 3]).all()
    assert (call(lambda x: td.linalg.matrix_rank(x, rtol=1e-6), backend, a) == [1, 0, 3, 2]).all()
    assert (call(lambda x: td.linalg.matrix_rank(x, 2.0), backend, a) == [1, 0, 0, 0]).all()
    found = call(lambda x: td.linalg.pinv(x, 1e-6), backend, a)
    np.testing.assert_allclose(found, np.linalg.pinv(a, 1e-6), atol=1e-12)


@pytest.mark.parametrize("m, n", [(6, 2), (3, 3), (2, 4)])
def test_lstsq(backend, m, n):
    a, b = random("float64", m, n), random("float64", m, 2, seed=1)
    for right in (b, b[:, 0]):
        found, want = call(td.linalg.lstsq, backend, a, right), np.linalg.lstsq(a, right)
        for got, expected in zip(found, want, strict=True):
            assert np.shape(got) == np.shape(expected)
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-12)


def test_lstsq_of_many_systems_says_what_solves_them(backend):
    a, b = random("float64", 5, 6, 2), random("float64", 5, 6, 3, seed=1)
    want = np.stack([np.linalg.lstsq(m, right)[0] for m, right in zip(a, b, strict=True)])
    assert "td.linalg.pinv(a) @ b solves" in error_of(lambda: td.linalg.lstsq(a, b))
    np.testing.assert_allclose(call(lambda a, b: td.linalg.pinv(a) @ b, backend, a, b), want)
    b = b[:, :, 0]
    assert "td.matvec(td.linalg.pinv(a), b) solves" in error_of(lambda: td.linalg.lstsq(a, b))
    found = call(lambda a, b: td.matvec(td.linalg.pinv(a), b), backend, a, b)
    np.testing.assert_allclose(found, want[:, :, 0])


def error_of(make, kind=td.ShapeError):
    with pytest.raises(kind) as raised:
        make()
    text = str(raised.value)
    assert "test_linear_algebra.py" in text
    return text


def test_shape_errors_are_at_the_users_line(backend):
    a = np.ones((3, 4))
    for name in ("det", "inv", "cholesky", "lu", "eigh", "slogdet"):
        f = getattr(td.linalg, name)
        assert f"linalg.{name} needs square matrices, got 3 × 4" in error_of(lambda f=f: f(a))
        assert f"linalg.{name} needs matrices" in error_of(lambda f=f: f(np.ones(3)))
        assert "not in float16" in error_of(lambda f=f: f(np.eye(2, dtype="f2")), td.DTypeError)
        compiled = td.jit(f, backend=backend)
        assert "got 3 × 4" in error_of(lambda f=compiled: f(a))
        assert "got 6 × 7" in error_of(lambda f=compiled: f(np.ones((6, 7))))
    assert "3 rows, the right-hand sides 2" in error_of(
        lambda: td.linalg.solve(np.eye(3), np.ones((2, 1)))
    )
    assert "trans is 0" in error_of(
        lambda: td.linalg.solve_triangular(np.eye(3), np.ones(3), 3), td.TracingError
    )
    assert "unknown mode" in error_of(lambda: td.linalg.qr(a, "raw"), td.TracingError)
    assert "no norm of order" in error_of(lambda: td.linalg.norm(a, "max"), td.TracingError)
    assert "three elements" in error_of(lambda: td.linalg.cross(np.ones(2), np.ones(2)))
    assert "inside" in error_of(
        lambda: td.map(lambda x: td.linalg.inv(a), np.ones(3)), td.NestedParallelismError
    )


EMPTY = ((2, 0, 0), (0, 0), (3, 0), (0, 3), (0, 3, 2), (2, 0, 3))


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrices_without_elements(run, shape, dtype):
    """As numpy.linalg: largest singular values and sums are 0, smallest ones an error."""
    a = np.zeros(shape, dtype)
    calls = [("svd", {"compute_uv": False}), ("svd", {}), ("svd", {"full_matrices": False}),
             ("pinv", {}), ("matrix_rank", {})]  # fmt: skip
    calls += [("norm", {"ord": order, "axis": (-2, -1)}) for order in (1, 2, np.inf, "nuc")]
    for name, how in calls:
        found = run(getattr(td.linalg, name)(a, **how))
        want = getattr(np.linalg, name)(a, **how)
        parts = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for x, y in parts:
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
    if shape[-1] == shape[-2]:
        for n in (0, 2, -2):
            found = run(td.linalg.matrix_power(a, n))
            np.testing.assert_array_equal(found, np.linalg.matrix_power(a, n))
    if 0 in shape[-2:]:
        with pytest.raises(td.ShapeError, match="empty"):
            run(td.linalg.norm(a, -2, (-2, -1)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint16", "float32", "complex64"])
def test_vecdot_has_the_type_of_its_operands(run, dtype):
    rng = generator("vecdot", dtype)
    x, y = (rng.integers(0, 9, shape).astype(dtype) for shape in ((4, 3), (3,)))
    for found, want in (
        (td.linalg.vecdot(x, y), np.linalg.vecdot(x, y)),
        (td.linalg.vecdot(x, x, axis=0), np.linalg.vecdot(x, x, axis=0)),
    ):
        found = run(found)
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_operands_that_are_no_strided_views(backend, dtype):
    """An operand of one row or column reads its array at indices that no stride describes."""

    def rows(of):
        return lambda a: of(a).reshape(1, -1) @ of(a).reshape(-1, 1)

    def scaled(a):
        return rows(lambda b: xp.roll(b, 1, 0))(a) * 2 + a[0, 0]

    programs = (
        rows(lambda a: xp.roll(a, -1, 0)),
        rows(lambda a: xp.roll(a, 3, 1).T),
        rows(lambda a: xp.repeat(a.reshape(-1), 2)),
        rows(lambda a: xp.tile(a.reshape(-1), 2)),
        lambda a: xp.tensordot(xp.roll(a, 1, 0), xp.roll(a, 1, 1), 2),
        lambda a: xp.repeat(a[:, :1], 2, 0).T @ xp.roll(xp.repeat(a, 2, 0), 1, 0),
        scaled,
    )
    for shape in ((40, 64), (17, 5), (1, 9)):
        a = generator("views", dtype, shape).integers(-2, 3, shape).astype(dtype)
        for k, program in enumerate(programs):
            xp = np
            expected = program(a.astype("f8")).astype(dtype)
            xp = td
            for _ in range(2):  # what a call writes must not be read by the next
                np.testing.assert_array_equal(call(program, backend, a), expected, str(k))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_rows_times_a_small_matrix(backend, dtype):
    """Points or pixels by one matrix of up to 4 × 4: what surrounds the product is one kernel with
    it; other extents are computed as before."""
    f = td.jit(lambda a, b, c: td.clip((a @ b.T) * 2 + c, 0, 90), backend=backend)
    bound = 200 * np.finfo(dtype).eps
    for n, k in ((3, 3), (4, 4), (2, 4), (4, 2), (1, 3), (3, 1), (5, 3), (3, 5)):
        b, c = random("float64", n, k).astype(dtype), random("float64", n, seed=1).astype(dtype)
        for lead in ((100,), (7, 80), (7, 5), (40, 4), (0, 80), (80, 0), (3, 2, 70)):
            a = (10 * np.abs(random("float64", *lead, k))).astype(np.uint8).astype(dtype)
            expected = np.clip(a.astype(float) @ b.T.astype(float) * 2 + c, 0, 90)
            found = f(a, b, c)
            assert found.dtype == dtype and found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=bound, atol=50 * bound)
    if backend == "native":
        image, m, c = np.ones((9, 80, 3), np.uint8), np.ones((3, 3), dtype), np.ones(3, dtype)
        for a in (image, image.reshape(-1, 3)):
            program = f.lower(a, m, c)
            assert "1 kernel launched" in program.explain().splitlines()[0]
            with pytest.raises(td.ShapeError, match="extent of 3, not 4"):
                program(np.ones((*a.shape[:-1], 4), np.uint8), np.ones((3, 4), dtype), c)
        more = f.lower(np.ones((6, 5), np.uint8), np.ones((3, 5), dtype), c)  # is for all extents
        assert more(np.ones((6, 9), np.uint8), np.ones((3, 9), dtype), c).shape == (6, 3)


def test_derivatives_of_rows_times_a_small_matrix():
    x, w = random("float64", 80, 3), random("float64", 3, 2, seed=1)
    loss = lambda x, w: td.sum(td.tanh(x @ w) ** 2)
    for got, number in ((td.grad(loss, 0), 0), (td.grad(loss, 1), 1)):
        t = np.tanh(x @ w)
        slope = 2 * t * (1 - t * t)
        expected = slope @ w.T if number == 0 else x.T @ slope
        for g in (got, td.jit(got)):
            np.testing.assert_allclose(td.run(g(x, w)), expected, rtol=1e-12, atol=1e-12)

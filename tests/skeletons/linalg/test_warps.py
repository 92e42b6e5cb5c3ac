"""Linear algebra of small matrices by warps: every size, interpreted."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from treadle.backend.cuda.source import kernels_of, nodes
from treadle.dsl.graph import Library
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.linalg.small import COLUMNS, LARGEST, has_kernel
from treadle.skeletons.linalg.warps import PHASES
from treadle.skeletons.lower.lower import LoweringContext, lower

RANDOM = np.random.default_rng(0)
SIZES = (5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 24, 31, 32)


@pytest.fixture(autouse=True)
def gpu():
    with cuda(emulated=True):
        yield


def on_gpu(f, *arrays):
    return td.jit(f, backend="cuda")(*arrays)


def libraries(f, *arrays):
    """The library operations of a program that kernels compute."""
    program = td.jit(f, backend="cuda").lower(*arrays)
    assert all(has_kernel(n) for n in nodes(program) if isinstance(n, Library))
    return [n for n in nodes(program) if isinstance(n, Library)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", SIZES)
def test_every_size(n):
    a = RANDOM.standard_normal((9, n, n))
    b = RANDOM.standard_normal((9, n, 3))
    np.testing.assert_allclose(on_gpu(td.linalg.solve, a, b), np.linalg.solve(a, b), rtol=1e-7)
    np.testing.assert_allclose(on_gpu(td.linalg.inv, a), np.linalg.inv(a), rtol=1e-7, atol=1e-12)
    definite = a @ a.swapaxes(1, 2) + np.eye(n)
    low = on_gpu(td.linalg.cholesky, definite)
    np.testing.assert_allclose(low, np.linalg.cholesky(definite), rtol=1e-8, atol=1e-12)


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [5, 6, 7, 8])
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_inverses_by_threads(n, dtype):
    """Of which a thread has all rows, if they fit into its registers: more than one block."""
    a = RANDOM.standard_normal((150, n, n, 2)).astype("f4").view("c8")[..., 0]
    a = np.ascontiguousarray((a if dtype == "c8" else a.real) + 3 * np.eye(n), dtype)
    a[:75] = a[:75, RANDOM.permutation(n)]
    a[70], a[149, 1, 2] = 0, np.nan
    x = on_gpu(td.linalg.inv, a)
    good = np.delete(np.arange(150), [70, 149])
    np.testing.assert_allclose(x[good], np.linalg.inv(a[good]), rtol=1e-3, atol=2e-6)
    assert not np.isfinite(x[[70, 149]]).reshape(2, -1).all(axis=1).any()


def test_the_order_of_rows_is_no_matter():
    """Pivots in every lane: permutations, also of unequal sizes."""
    for n in (7, 12, 32):
        a = np.stack([np.eye(n)[RANDOM.permutation(n)] * RANDOM.uniform(1, 9, n) for _ in range(9)])
        assert np.allclose(on_gpu(td.linalg.inv, a) @ a, np.eye(n), atol=1e-14)
        b = RANDOM.standard_normal((9, n, 1))
        assert np.allclose(a @ on_gpu(td.linalg.solve, a, b), b, atol=1e-14)


def test_one_bad_matrix_leaves_its_neighbours_alone():
    for n in (5, 9, 20):
        a = RANDOM.standard_normal((9, n, n))
        a[3] = 0
        a[5, 1, 2] = np.nan
        a[7, 0, 0] = np.inf
        good = [0, 1, 2, 4, 6, 8]
        for f, given in ((td.linalg.inv, (a,)), (td.linalg.solve, (a, np.ones((9, n, 1))))):
            x = on_gpu(f, *given)
            assert np.isfinite(x[good]).all()
            assert not np.isfinite(x[[3, 5]]).reshape(2, -1).all(axis=1).any()
        definite = a @ a.swapaxes(1, 2) + np.eye(n)
        definite[3] *= -1
        low = on_gpu(td.linalg.cholesky, definite)
        assert np.isfinite(low[good]).all() and np.isnan(low[[3, 5]]).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("trans", "NTC")
@pytest.mark.parametrize("n", [5, 8, 12, 31, 32])
def test_triangular_systems(n, trans):
    cases = ((1, True, False, "f8"), (3, False, True, "c16"), (12, False, False, "c8"),
             (LARGEST, True, True, "f4"))  # fmt: skip
    for k, below, unit, dtype in cases:
        a = RANDOM.standard_normal((5, 1, n, n)) / n + np.eye(n)
        a = (a + 1j * RANDOM.standard_normal(a.shape) / n if dtype[0] == "c" else a).astype(dtype)
        b = RANDOM.standard_normal((3, n, k)).astype(dtype[0].replace("c", "f") + "4")
        x = on_gpu(lambda a, b, how=(below, unit): td.linalg.solve_triangular(a, b, trans, *how),
                   a, b)  # fmt: skip
        read = np.tril(a) if below else np.triu(a)
        if unit:
            read[..., range(n), range(n)] = 1
        read = {"N": read, "T": read.mT, "C": np.conj(read.mT)}[trans]
        np.testing.assert_allclose(read @ x, np.broadcast_to(b, x.shape), atol=1e-4)


def test_batches():
    for n in (5, 12, 20):
        for batch in ((), (0,), (1,), (2, 17)):
            a = RANDOM.standard_normal((*batch, n, n))
            np.testing.assert_allclose(on_gpu(td.linalg.inv, a), np.linalg.inv(a), rtol=1e-6,
                                       atol=1e-10)  # fmt: skip
        a, b = RANDOM.standard_normal((3, 1, n, n)), RANDOM.standard_normal((4, n, 2))
        np.testing.assert_allclose(on_gpu(td.linalg.solve, a, b), np.linalg.solve(a, b), rtol=1e-6,
                                   atol=1e-10)  # fmt: skip


def test_what_has_kernels():
    def square(n, *more):
        return np.ones((2, n, n), *more)

    assert len(libraries(td.linalg.inv, square(LARGEST))) == 1
    assert not libraries(td.linalg.inv, square(LARGEST + 1))
    assert not libraries(td.linalg.inv, square(4))  # unrolled: element-wise
    assert not libraries(lambda a: td.linalg.cholesky(a, upper=True), square(8))
    assert len(libraries(td.linalg.solve, square(8), np.ones((2, 8, COLUMNS)))) == 1
    assert not libraries(td.linalg.solve, square(8), np.ones((2, 8, COLUMNS + 1)))
    for k in (LARGEST, LARGEST + 1):
        found = libraries(td.linalg.solve_triangular, square(8), np.ones((2, 8, k)))
        assert len(found) == (k == LARGEST)
    every = [td.linalg.inv, td.linalg.cholesky, td.linalg.lu, td.linalg.qr, td.linalg.eigh]
    for node in libraries(lambda a: tuple(f(a) for f in every), square(8, "f4")):
        for launch in kernels_of(node, "sm_90a"):
            for kernel in launch:
                verify(kernel)


def test_large_matrices_are_loops():
    """Code, and so the time to compile it, does not grow with the square of the size."""

    def lines(n):
        (node,) = libraries(td.linalg.inv, np.ones((2, n, n)))
        ((kernel, *_),) = kernels_of(node, "sm_90a")
        return len(str(kernel).splitlines())

    assert lines(32) < 3 * lines(16)


@pytest.mark.parametrize("n", [16, 32])
def test_steps_select_only_what_a_loop_may_have_passed(n):
    """The columns of U that every step of a loop has are subtracted without a comparison."""
    (node,) = libraries(td.linalg.lu, RANDOM.standard_normal((9, n, n)).astype("f4"))
    (kernel,) = lower(node, LoweringContext(CUDA)).kernels
    together = 4  # steps of an iteration
    selected = re.findall(r"let a\w*: float32 = select\(", str(replace(kernel, fallback=None)))
    assert len(selected) == PHASES * together * (n // PHASES - together)

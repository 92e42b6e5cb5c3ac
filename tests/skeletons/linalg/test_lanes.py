"""Linear algebra of small matrices on a CPU, a matrix a lane."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Library
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.linalg.small import LARGEST, has_kernel
from treadle.skeletons.lower.lower import LoweringContext, lower

RANDOM = np.random.default_rng(0)


def on_cpu(f, *arrays):
    return td.jit(f, backend="native")(*arrays)


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [5, 6, 8, 13, 16, 31, 32])
def test_every_size(n):
    for count in (1, 7, 16, 67):
        a = RANDOM.standard_normal((count, n, n))
        b = RANDOM.standard_normal((count, n, 3))
        np.testing.assert_allclose(on_cpu(td.linalg.solve, a, b), np.linalg.solve(a, b), rtol=1e-6,
                                   atol=1e-9)  # fmt: skip
        np.testing.assert_allclose(on_cpu(td.linalg.inv, a), np.linalg.inv(a), rtol=1e-6, atol=1e-9)
        scaled = a / n + np.eye(n)
        np.testing.assert_allclose(np.triu(scaled) @ on_cpu(td.linalg.solve_triangular, scaled, b),
                                   b, atol=1e-12)  # fmt: skip
        definite = a @ a.swapaxes(1, 2) + np.eye(n)
        np.testing.assert_allclose(on_cpu(td.linalg.cholesky, definite),
                                   np.linalg.cholesky(definite), rtol=1e-8, atol=1e-12)  # fmt: skip


def test_lanes_have_different_pivots():
    for n in (7, 12, 32):
        a = np.stack([np.eye(n)[RANDOM.permutation(n)] * RANDOM.uniform(1, 9, n)
                      for _ in range(40)])  # fmt: skip
        assert np.allclose(on_cpu(td.linalg.inv, a) @ a, np.eye(n), atol=1e-14)


def test_one_bad_matrix_leaves_its_neighbours_alone():
    n, good = 9, [0, 1, 2, 4, 6, 8]
    a = RANDOM.standard_normal((9, n, n))
    a[3] = 0
    a[5, 1, 2] = np.nan
    a[7, 0, 0] = np.inf
    for f, given in ((td.linalg.inv, (a,)), (td.linalg.solve, (a, np.ones((9, n, 1))))):
        x = on_cpu(f, *given)
        assert np.isfinite(x[good]).all()
        assert not np.isfinite(x[[3, 5]]).reshape(2, -1).all(axis=1).any()


def test_repeated_calls_and_batches():
    f = td.jit(td.linalg.solve, backend="native")
    for count in (5, 50, 5, 0, 500):
        a, b = RANDOM.standard_normal((count, 8, 8)), RANDOM.standard_normal((count, 8, 1))
        for _ in range(3):
            np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-6, atol=1e-9)
    a, b = RANDOM.standard_normal((3, 1, 6, 6)), RANDOM.standard_normal((4, 6, 2))
    np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-6, atol=1e-9)


def test_what_has_kernels():
    def libraries(n):
        program = td.jit(td.linalg.inv, backend="native").lower(np.ones((2, n, n)))
        return [k for k in program.kernels if isinstance(k, Library)]

    (node,) = libraries(LARGEST)
    assert has_kernel(node)
    (kernel,) = lower(node, LoweringContext()).kernels
    verify(kernel)
    (node,) = libraries(LARGEST + 1)
    assert not has_kernel(node)
    with pytest.raises(TypeError, match="a library's"):
        lower(node, LoweringContext())

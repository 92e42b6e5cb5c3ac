"""Integers that determine a program are taken in every form that has an index, and in no other: not
as truth values, floats, or arrays of one element."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

V, X, M = np.array([3.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.0]), np.arange(6.0).reshape(2, 3)
K, CUBE = np.array([1, 2, 0]), np.ones((2, 2, 2))

FUNCTIONS = {
    "sum": lambda n: td.sum(M, axis=n),
    "sort": lambda n: td.sort(M, axis=n),
    "roll": lambda n: td.roll(M, n, 0),
    "moveaxis": lambda n: td.moveaxis(M, n, 0),
    "rot90": lambda n: td.rot90(M, n),
    "tile": lambda n: td.tile(V, n),
    "replicate": lambda n: td.replicate(V, n),
    "diff": lambda n: td.diff(V, n),
    "diag": lambda n: td.diag(V, n),
    "diagonal": lambda n: td.diagonal(M, n),
    "trace": lambda n: td.trace(M, n),
    "linalg.diagonal": lambda n: td.linalg.diagonal(M, offset=n),
    "tri": lambda n: td.tri(3, 3, n),
    "tril": lambda n: td.tril(M, n),
    "triu": lambda n: td.triu(M, n),
    "eye": lambda n: td.eye(3, 3, n),
    "array_split": lambda n: td.array_split(V, n)[0],
    "split": lambda n: td.split(V, n)[0],
    "dsplit": lambda n: td.dsplit(CUBE, n)[0],
    "histogram": lambda n: td.histogram(V, n)[0],
    "histogram2d": lambda n: td.histogram2d(V, X, n)[0],
    "histogramdd": lambda n: td.histogramdd((V, X), n)[0],
    "bincount": lambda n: td.bincount(K, minlength=n),
    "partition": lambda n: td.partition(V, n),
    "argpartition": lambda n: td.argpartition(V, n),
    "round": lambda n: td.round(V, n),
    "vander": lambda n: td.vander(V, n),
    "polyder": lambda n: td.polyder(V, n),
    "polyint": lambda n: td.polyint(V, n),
    "polyfit": lambda n: td.polyfit(V, X, n),
    "matrix_power": lambda n: td.linalg.matrix_power(np.eye(2), n),
    "tensordot": lambda n: td.tensordot(V, X, n),
    "tril_indices": lambda n: td.tril_indices(3, n)[1],
    "triu_indices": lambda n: td.triu_indices(n, 0, 3)[1],
    "triu_indices_from": lambda n: td.triu_indices_from(M, n)[0],
    "diag_indices": lambda n: td.diag_indices(2, n)[0],
    "unpackbits": lambda n: td.unpackbits(np.uint8([3]), count=n),
    "unravel_index": lambda n: td.unravel_index(K, (n, 3))[1],
    "ravel_multi_index": lambda n: td.ravel_multi_index((K, K), (3, n)),
    "cov": lambda n: td.cov(M, ddof=n),
    "apply_over_axes": lambda n: td.apply_over_axes(td.sum, M, n),
    "strassen": lambda n: td.strassen(M, M.T, levels=n),
    "resize": lambda n: td.resize(V, n),
    "fromfunction": lambda n: td.fromfunction(lambda i: i, n),
    "argnums": lambda n: td.grad(lambda a, b: td.sum(a * b), argnums=n)(V, X),
    "a step": lambda n: td.use(V)[::n],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_has_an_index_is_an_integer(name):
    f = FUNCTIONS[name]
    with td.config(backend="reference"):
        expected = td.run(f(1))
        for one in (np.int64(1), np.uint8(1), np.array(1)):
            found = td.run(f(one))
            assert np.array_equal(found, expected, equal_nan=True), one
        for other in (True, np.bool_(True), 1.0, np.float32(1), np.array(1.0), "1", 1j):
            if name == "a step" and other is True:
                continue  # Python's own
            with pytest.raises(td.TreadleError) as error:
                td.run(f(other))
            assert error.value.where is not None


@pytest.mark.parametrize(
    ("many", "listed"),
    [
        (lambda n: td.tile(V, n), [2, 2]),
        (lambda n: td.array_split(V, n)[1], [1]),
        (lambda n: td.moveaxis(M, n, [0]), [1]),
    ],
)
def test_arrays_of_several_integers_are_lists_of_them(many, listed):
    assert np.array_equal(td.run(many(np.array(listed))), td.run(many(listed)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint64, np.int64])
def test_triangles_of_integers_of_numpy(kind):
    for function in ("tril_indices", "triu_indices"):
        want = getattr(np, function)(3, 1, 4)
        for found, w in zip(getattr(td, function)(kind(3), kind(1), kind(4)), want, strict=True):
            assert found.dtype == td.int64 and np.array_equal(found, w)


FLOATING = ("arctan2", "copysign", "hypot", "logaddexp", "logaddexp2", "nextafter")


@pytest.mark.parametrize("name", FLOATING)
def test_a_number_need_not_fit_where_the_result_is_a_float(name, backend):
    """NumPy takes the number in the float type that it computes in."""
    of_numpy, mine = getattr(np, name), getattr(td, name)
    for dtype in "uint8", "int8", "uint64", "int32", "bool":
        a = np.array([0, 1, 1, 0]).astype(dtype)
        for number in (-1, 300, 2.5) if dtype == "bool" else (-1, 300, 70):
            for args in ((a, number), (number, a)):
                with np.errstate(all="ignore"):
                    want = of_numpy(*args)
                made = td.run(mine(*args), backend=backend)
                traced = td.jit(mine, backend=backend)(*args)
                assert made.dtype == traced.dtype == want.dtype, (name, dtype, number)
                np.testing.assert_allclose(made.astype(float), want.astype(float), rtol=2e-3)
                np.testing.assert_array_equal(traced, made)


def test_logaddexp2_of_unsigned_integers(backend):
    a = np.array([3, 1, 300], np.uint64)
    made = td.run(td.logaddexp2(a, a[::-1]), backend=backend)
    np.testing.assert_allclose(made, np.logaddexp2(a, a[::-1]))

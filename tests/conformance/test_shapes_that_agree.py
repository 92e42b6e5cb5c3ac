"""Arrays that belong together have one shape: another is an error that names both, and no array is
stretched, cut or read beyond its end."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

V, X, W, ONE, NONE = (np.array(x, float) for x in ([3, 1, 2], [0, 1, 3], [1, 2], [5], []))
M = np.arange(6.0).reshape(2, 3)

FUNCTIONS = {
    "histogramdd": lambda a: td.histogramdd((V, a), 2)[0],
    "histogramdd, weights": lambda a: td.histogramdd((V, V), 2, weights=a)[0],
    "histogram2d": lambda a: td.histogram2d(a, V, 2)[0],
    "histogram, weights": lambda a: td.histogram(V, 2, weights=a)[0],
    "bincount, weights": lambda a: td.bincount(np.array([1, 2, 0]), weights=a),
    "interp": lambda a: td.interp(V, X, a),
    "lexsort": lambda a: td.lexsort((V, a)),
    "gradient": lambda a: td.gradient(V, a),
    "gradient of an axis": lambda a: td.gradient(M, 1.0, a)[1],
    "trapezoid": lambda a: td.trapezoid(V, a),
    "average": lambda a: td.average(V, weights=a),
    "average of rows": lambda a: td.average(M, axis=1, weights=a),
    "polyfit, w": lambda a: td.polyfit(V, X, 1, w=a),
    "piecewise": lambda a: td.piecewise(V, [td.use(a) > 1], [1]),
    "extract": lambda a: td.extract(td.use(a) > 1, V),
    "cov": lambda a: td.cov(V, a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_extents_are_refused(name):
    f = FUNCTIONS[name]
    td.run(f(X), backend="reference")
    for other in (W, ONE, NONE, np.arange(4.0)):
        with pytest.raises(td.ShapeError) as error:
            td.run(f(other), backend="reference")
        assert error.value.where is not None
        with pytest.raises(td.ShapeError) as error:
            td.jit(f, backend="reference")(other)
        assert "test_shapes_that_agree.py" in str(error.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: td.compress(M, V), "a condition of rank 1, got rank 2"),
        (lambda: td.compress([1, 0, 1, 1], V), "the condition has 4 elements, the axis 3"),
        (lambda: td.gradient(M, W), "1 spacings for 2 axes"),
        (lambda: td.gradient(V, M), "coordinates have rank 1, not 2"),
        (lambda: td.gradient(ONE), "axis 0 has 1 elements"),
        (lambda: td.interp(V, NONE, NONE), "there are no points"),
        (lambda: td.histogramdd((M, M), 2), "coordinates have rank 1"),
        (lambda: td.trapezoid(V, M), "arrays of equal shape"),
        (lambda: td.matvec(V, V), "matvec takes matrices and vectors, got ranks 1 and 1"),
        (lambda: td.vecmat(V, V), "vecmat takes matrices and vectors, got ranks 1 and 1"),
        (lambda: td.linalg.pinv(M, np.ones(4)), "arrays of equal shape"),
        (lambda: td.linalg.matrix_rank(M, np.ones(4)), "arrays of equal shape"),
        (lambda: td.linalg.lstsq(M, W, np.ones(4)), "rcond is one number"),
        (lambda: td.place(V, V > 1, NONE), "there are 0 values"),
        (lambda: td.fft.fft(V, -1), "n=-1 points"),
        (lambda: td.interp(V, X, V, left=V), "left is a number"),
        (lambda: td.interp(V, X, V, period=[1.0]), "period is a number"),
        (lambda: td.quantile(V, np.int64(-5)), "q must be in 0 … 1"),
    ],
)
def test_other_ranks_are_refused(call, words):
    with pytest.raises(td.ShapeError, match=words):
        td.run(call(), backend="reference")


@pytest.mark.parametrize(
    "call",
    [
        lambda: td.interp(V + 1j, X, V),
        lambda: td.histogram2d(V + 1j, V),
        lambda: td.histogramdd((V, V), 2, weights=V + 1j),
        lambda: td.quantile(V, 0.5j),
        lambda: td.unwrap(V + 1j),
        lambda: td.ediff1d(V, to_end=V + 1j),
        lambda: td.ediff1d(V.astype(int), to_end=V),
        lambda: td.choose(V, [X, X, X, X]),
    ],
)
def test_no_part_of_a_number_is_dropped(call):
    with pytest.raises(td.DTypeError):
        td.run(call(), backend="reference")


def test_tolerances_of_each_matrix():
    a = np.random.default_rng(0).random((2, 2, 3))
    for each in (np.array([0.1, 5.0]), [0.1, 5.0]):
        assert np.array_equal(
            td.run(td.linalg.matrix_rank(a, each)), np.linalg.matrix_rank(a, np.array(each))
        )
        found = td.run(td.linalg.pinv(a, rcond=each))
        assert np.allclose(found, np.linalg.pinv(a, rcond=np.array(each)))


def test_no_values_change_nothing():
    assert np.array_equal(td.run(td.put(V, [0], NONE)), V)


def test_a_number_in_an_array_is_one_spacing():
    found = td.run(td.gradient(M, np.array(2.0)))
    for a, b in zip(found, np.gradient(M, np.array(2.0)), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_edges_of_several_axes_have_the_type_of_numpys(dtype):
    x, y = V.astype(dtype), X.astype(np.float32)
    for a, b in zip(td.run(td.histogram2d(x, y, 3)), np.histogram2d(x, y, 3), strict=True):
        assert a.dtype == b.dtype
        assert np.allclose(a, b, rtol=1e-6)

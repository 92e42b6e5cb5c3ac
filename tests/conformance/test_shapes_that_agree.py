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
    "extract, a mask of bools": lambda a: td.extract(V > 1, a),
    "compact": lambda a: td.compact(V > 1, a)[0],
    "place": lambda a: td.place(a, V > 1, [7.0]),
    "einsum": lambda a: td.einsum("i,i->", a, V),
    "einsum, products": lambda a: td.einsum("i,i->i", a, V),
    "einsum, a diagonal": lambda a: td.einsum("ii->i", a[:, None] * V),
    "einsum, a trace": lambda a: td.einsum("ii", V[:, None] * a),
    "einsum, two axes": lambda a: td.einsum("ij,ij->", a[:, None] * V, V[:, None] * a),
    "searchsorted, sorter": lambda a: td.searchsorted(V, X, sorter=td.cast(a, td.int64) % 3),
    "cov": lambda a: td.cov(V, a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_extents_are_refused(name, backend):
    f = FUNCTIONS[name]
    td.run(f(X), backend=backend)
    for other in (W, ONE, NONE, np.arange(4.0)):
        with pytest.raises(td.ShapeError) as error:
            td.run(f(other), backend=backend)
        assert error.value.where is not None
        with pytest.raises(td.ShapeError) as error:
            td.jit(f, backend=backend)(other)
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


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: td.map(lambda x, y: x + y, a, b) * 0,
        lambda a, b: (a + b) % 1,
        lambda a, b: td.where(True, a, a + b),
        lambda a, b: td.iterate(2, lambda s: s + (s + b) * 0, a),
        lambda a, b: td.sum(td.stop(a + b) * 0),
    ],
)
def test_what_a_result_does_not_depend_on_has_shapes_that_agree(f, backend):
    compiled = td.jit(f, backend=backend)
    compiled(np.arange(3), np.arange(3))
    with pytest.raises(td.ShapeError):
        compiled(np.arange(3), np.arange(4))


def test_place_takes_masks_of_one_size(backend):
    mask = np.array([[True, False], [False, True], [True, True]])
    expected = np.arange(6).reshape(2, 3)
    np.place(expected, mask, [7, 8])
    for place in (td.place, td.jit(td.place, backend=backend)):
        made = place(np.arange(6).reshape(2, 3), mask, np.array([7, 8]))
        assert np.array_equal(td.run(made, backend=backend), expected)

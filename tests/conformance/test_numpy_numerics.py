"""Windows, polynomials, histograms, products and types, as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, to_host
from .test_numpy_words import B, C, F, I, T, U, V, W, names_of, test_exact as check_exactly

P3, P2, EMPTY = np.array([2.0, -1.0, 3.0]), np.array([1, 4]), np.zeros(0)
POINTS = np.random.default_rng(3).normal(size=(40, 2))
X, Y = POINTS.T
EDGES = [np.array([-1.0, 0.0, 0.5, 2.0]), np.array([-2.0, 2.0])]
F4 = F.astype("float32")

EXACT = [
    ("polyadd", P3, P2), ("polyadd", P2, P3), ("polyadd", I[0], I[1]), ("polyadd", 3, P2),
    ("polysub", P3, P2), ("polysub", P2, P3), ("polymul", P2, np.array([1, 0, -3])),
    ("polymul", 2, P2), *[("polyder", p, m) for p in (P3, I[0]) for m in (0, 1, 2, 3, 4)],
    ("poly", np.array([1, 2, -3])), ("poly", EMPTY),
    ("polyval", I[0], I), ("polyval", P2, 5), ("polyval", EMPTY, V), ("polyval", U, P2),
    *[("histogram2d", X, Y, *more) for more in ((), (4,), ([3, 5],), (EDGES,), (EDGES[0],),
      (5, [[-1, 1], [0, 2]]), (np.array([-1.0, 0, 1]),))],
    ("histogramdd", POINTS, [3, 4]), ("histogramdd", (X, Y, X), 2), ("histogramdd", X, [4]),
    ("histogramdd", POINTS[:0], 2), ("histogramdd", (I.ravel(), I.ravel()), 3),
    ("histogram_bin_edges", X, 7), ("histogram_bin_edges", I, 4, (0, 8)),
    ("histogram_bin_edges", X, EDGES[0]), ("histogram_bin_edges", F4, 3),
    *[(name, x, y) for name, x, y in (
        ("inner", I[0], I[1]), ("inner", I, I), ("inner", 2, I), ("inner", I, I[0]),
        ("vdot", I, I), ("vecdot", I, I), ("vecdot", I, I[0]), ("matvec", I, I[0]),
        ("matvec", I[None], I), ("vecmat", I[:, 0], I), ("vecmat", I.T, I))],
    ("bitwise_invert", U), ("bitwise_left_shift", U, 1), ("bitwise_right_shift", I, 2),
    ("spacing", F), ("spacing", F4), ("spacing", np.array([0.0, -1.0, np.inf, np.nan, 5e-324])),
    ("spacing", I), ("permute_dims", T), ("permute_dims", T, (1, 2, 0)),
    ("concat", [V, W]), ("concat", [I, I], 1), ("copy", I), ("astype", F, "int8"),
    ("array", [[1, 2], [3, 4]]), ("array", 2.5), ("array", F, "float32"), ("asarray", I),
    ("asarray", [1, 2], float),
]  # fmt: skip
CLOSE = [
    *[(name, n) for name in ("bartlett", "blackman", "hamming", "hanning")
      for n in (-1, 0, 1, 2, 5, 12)],
    *[("kaiser", n, beta) for n in (0, 1, 2, 7) for beta in (0.0, 5.0, 14.0, 30)],
    ("i0", F * 9), ("i0", np.array([0.0, 8.0, -8.0, 50.0])), ("i0", I),
    ("polydiv", np.array([3.0, 5.0, 2.0, 7]), np.array([2.0, 1.0])), ("polydiv", P2, P3),
    ("polyint", P3), ("polyint", I[0], 2), ("polyint", P3, 2, [1.5, 2]), ("polyint", P3, 3, 2.0),
    ("polyint", P3, 0), ("polymul", V, W), ("poly", V), ("poly", np.array([1j, 2])),
    ("polyval", P3, F), ("polyval", P3, C), ("polyval", P3 * 1j, V),
    ("logspace", 0, 3), ("logspace", 1, 4, 4, False, 2.0), ("logspace", 0, 3, 4, True, 10.0, int),
    ("logspace", 2, 3, 1), ("logspace", 2, 3, 0),
    ("geomspace", 1, 1000, 4), ("geomspace", 1000, 1, 7, False), ("geomspace", -1, -8, 4),
    ("geomspace", 1j, 16j, 5), ("geomspace", 2, 3, 1), ("geomspace", 2.0, 9.0, 0),
    ("histogram2d", X, Y, 4, None, True), ("histogram2d", X, Y, 4, None, False, X * X),
    ("histogramdd", POINTS, [EDGES[0], 3], None, True, Y * Y),
    ("vdot", C, C), ("vecdot", C, F), ("vecdot", F, F[0]), ("matvec", T, F[:2]), ("inner", T, F),
    ("vecmat", C[:, 0], F), ("vdot", V, W),
]  # fmt: skip
VALUE = [
    ("shape", T), ("shape", 3), ("ndim", T), ("ndim", 2.0), ("size", T), ("size", T, 1),
    ("size", T, (0, -1)), ("size", 5), ("isscalar", 3), ("isscalar", I),
    ("isscalar", np.float32(2)),
    ("iscomplexobj", C), ("iscomplexobj", F), ("isrealobj", 1j), ("isrealobj", I),
    ("result_type", np.int8, 3), ("result_type", F4, 2.5), ("result_type", "int32", U, F4),
    ("result_type", 1, 2.0), ("result_type", F4, 1j),
    ("promote_types", "int8", "uint8"), ("promote_types", np.float32, np.int32),
    *[("can_cast", a, b, how) for a, b in (("int32", "int64"), ("float64", "float32"),
      ("float32", "int32")) for how in ("no", "safe", "same_kind", "unsafe")],
    *[("isdtype", np.dtype(t), kind) for t in ("bool", "int8", "uint16", "float32", "complex64")
      for kind in ("bool", "integral", "numeric", "real floating", ("signed integer", "bool"))],
    ("issubdtype", "float32", np.floating), ("issubdtype", "int8", np.floating),
    ("issubdtype", "int8", np.int8), ("broadcast_shapes", (3, 1), (4,)), ("broadcast_shapes", 2, 1),
]  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", EXACT, ids=names_of(EXACT))
def test_as_numpy(backend, case):
    if case[0] in ("histogram2d", "histogramdd"):
        return test_as_numpy_nearly(backend, case)
    check_exactly(backend, case)


def _flat(found):
    if isinstance(found, tuple | list):
        return [leaf for part in found for leaf in _flat(part)]
    return [to_host(td.run(found)) if isinstance(found, td.Array) else np.asarray(found)]


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CLOSE, ids=names_of(CLOSE))
def test_as_numpy_nearly(backend, case):
    name, *given = case
    with td.config(backend=backend):
        got = _flat(getattr(td, name)(*given))
    want = _flat(getattr(np, name)(*given))
    if name == "polydiv":  # NumPy removes the leading zeros of the remainder
        want[1] = np.concatenate([np.zeros(len(got[1]) - len(want[1])), want[1]])
    for mine, other in zip(got, want, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", VALUE, ids=names_of(VALUE))
def test_what_is_known(case):
    name, *given = case
    assert getattr(td, name)(*given) == getattr(np, name)(*given)


def test_limits_of_types():
    for t in ("float32", "float64", "complex64", "float16"):
        assert (td.finfo(t).max, td.finfo(t).eps) == (np.finfo(t).max, np.finfo(t).eps)
    assert float(td.finfo(td.bfloat16).eps) == 2.0**-7
    assert td.iinfo(td.int16).max == 32767 and td.iinfo(U).min == 0
    assert td.issubdtype(td.bfloat16, np.floating) and td.isdtype(td.bfloat16, "real floating")


def test_cumulative_sums(backend):
    with td.config(backend=backend):
        for name in ("cumulative_sum", "cumulative_prod"):
            for x, axis in ((I, 1), (I, -2), (U, 0), (B, 1), (I[0], None)):
                for more in ({}, {"include_initial": True}, {"dtype": "float32"}):
                    got = td.run(getattr(td, name)(x, axis=axis, **more))
                    assert_same(to_host(got), getattr(np, name)(x, axis=axis, **more))


def test_fits(backend):
    with td.config(backend=backend):
        for given in ((V, W, 2), (V, F[:, :2].repeat(2, 0), 1), (V, I.ravel()[:6], 0)):
            got = td.run(td.polyfit(*given))
            np.testing.assert_allclose(to_host(got), np.polyfit(*given), rtol=1e-9)
        got = td.run(td.polyfit(V, W, 1, w=V * V + 1))
        np.testing.assert_allclose(to_host(got), np.polyfit(V, W, 1, w=V * V + 1), rtol=1e-9)


def test_arrays_of_nested_lists(backend):
    with td.config(backend=backend):
        n = td.sum(td.use(I))
        got = td.array([[n, 2], [td.use(I)[0, 0], 4]])
        assert_same(to_host(td.run(got)), np.array([[I.sum(), 2], [I[0, 0], 4]]))
        got = td.array([td.use(V), W])
        assert_same(to_host(td.run(got)), np.array([V, W]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_places_of_convolutions(backend, mode, method):
    """NumPy's modes; in two dimensions against sums of shifted arrays."""
    with td.config(backend=backend):
        for w in (W[:3], W[:1], V[:4], np.ones(6)):
            got = to_host(td.run(td.convolve(V, w, td.constant(0), mode=mode, method=method)))
            full = np.convolve(V, w)
            start = (len(w) - 1 - (len(w) - 1) // 2) if mode == "same" else 0
            want = full[start : start + 6] if mode == "same" else np.convolve(V, w, mode)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
            if method == "direct":
                got = to_host(td.run(td.correlate(V, w, td.constant(0), mode=mode)))
                full = np.correlate(V, w, "full")
                start = len(w) - 1 - len(w) // 2
                want = full[start : start + 6] if mode == "same" else np.correlate(V, w, mode)
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        a, w = T[0], F[:2, :3]
        full = np.zeros((4, 6))
        for (i, j), x in np.ndenumerate(w):
            full[i : i + 3, j : j + 4] += x * a
        part = {"full": np.s_[:, :], "valid": np.s_[1:3, 2:4], "same": np.s_[1:4, 1:5]}[mode]
        got = to_host(td.run(td.convolve(a, w, td.constant(0), mode=mode, method=method)))
        np.testing.assert_allclose(got, full[part], rtol=1e-12, atol=1e-12)


def test_places_of_convolutions_of_any_extent(backend):
    @td.jit(backend=backend)
    def both(a, w):
        return td.convolve(a, w, mode="full"), td.convolve(a, w, mode="valid")

    for n, m in ((5, 2), (9, 9), (700, 500)):
        a, w = np.arange(n) % 7, np.arange(m) % 5 - 2
        full, valid = both(a, w)
        assert_same(to_host(full), np.convolve(a, w))
        assert_same(to_host(valid), np.convolve(a, w, "valid"))
    with pytest.raises(td.ShapeError, match=r"9 weights do not fit into an extent of 3"):
        both(np.arange(3), np.arange(9))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: td.convolve(V, W, mode="edge"), td.TracingError, "mode is 'same', 'full'"),
        (lambda: td.convolve(V[:2], W, mode="valid"), td.ShapeError, "6 weights do not fit"),
        (lambda: td.polyadd(I, P2), td.ShapeError, "coefficients of rank 1, got rank 2"),
        (lambda: td.polyint(P3, 3, [1, 2]), td.ShapeError, "2 constants of integration for m=3"),
        (lambda: td.polyder(P3, -1), td.ShapeError, "m must be 0 or more"),
        (lambda: td.poly(I), td.TracingError, "eigenvalues"),
        (lambda: td.polyfit(F, V, 1), td.ShapeError, "x of rank 1"),
        (lambda: td.histogramdd(POINTS, [3]), td.ShapeError, "1 bins and 2 ranges for 2 axes"),
        (lambda: td.cumulative_sum(I), td.ShapeError, "needs an axis"),
        (lambda: td.array([V, 1]), td.ShapeError, "lists of different lengths"),
        (lambda: td.array([td.use(V), 1]), td.ShapeError, "of the ranks 0, 1"),
        (lambda: td.size(V, 1), td.AxisError, "axis 1 does not exist"),
        (lambda: td.broadcast_shapes((2,), (3,)), td.ShapeError, "do not broadcast"),
        (lambda: td.result_type(), td.ShapeError, "one operand at least"),
        (lambda: td.can_cast("int8", "int16", "maybe"), td.ShapeError, "no rule 'maybe'"),
        (lambda: td.i0(1j), td.DTypeError, "real numbers"),
    ],
)
def test_mistakes(make, error, says):
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize("kind", ["int8", "float16", "float64", "complex64", "bool"])
def test_many_differences_and_derivatives(kind):
    """Orders that would be too many operations, written one after the other."""
    rng = np.random.default_rng(5)
    a = (rng.normal(size=(3, 40)) * 20).astype(kind)
    for n in (31, 33, 39, 40, 1000):
        got = td.run(td.diff(a, n), backend="native")
        np.testing.assert_array_equal(got, np.diff(a, n))
        assert got.dtype == np.diff(a, n).dtype
    for m in (2, 5, 39, 40, 100):
        got = td.run(td.polyder(a[0], m), backend="native")
        np.testing.assert_array_equal(got, np.polyder(a[0], m))
    found = td.run(td.polyint(a[0, :5].astype("float64"), 100, 2.0), backend="native")
    np.testing.assert_allclose(found, np.polyint(a[0, :5].astype("float64"), 100, 2.0), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantiles_of_bytes(run, backend, dtype):
    """Long rows are counted, short ones sorted."""
    rng = np.random.default_rng(7)
    wide = np.arange(256).astype(dtype)
    cases = [(wide, [None]), (rng.choice(wide, (2, 2048)), [1])]
    if dtype == "uint8":
        cases += [(rng.choice(wide, (50, 60, 3)), [(0, 1), 2]), (wide[255:], [0])]
    for a, axes in cases:
        for axis in axes:
            for method, q, keepdims in (
                ("linear", [0, 50, 98.5], False), ("lower", 30, True), ("nearest", [3, 100], True),
            ):  # fmt: skip
                # (NumPy's differences of int8 overflow.)
                b = a.astype(float) if method == "linear" else a
                expected = np.percentile(b, q, axis, method=method, keepdims=keepdims)
                found = run(td.percentile(a, q, axis, method, keepdims))
                np.testing.assert_allclose(found, expected, rtol=1e-14)
                assert found.dtype == expected.dtype
            np.testing.assert_array_equal(run(td.median(a, axis)), np.median(a, axis))
    assert np.isnan(run(td.nanmedian(np.zeros(0, dtype)))).all()
    assert np.isnan(run(td.median(np.zeros((3, 0), dtype), axis=1))).all()
    assert run(td.median(np.zeros((0, 3), dtype), axis=1)).shape == (0,)
    with pytest.raises(td.ShapeError):
        run(td.quantile(np.zeros(0, dtype), 0.5, method="lower"))
    chosen = td.jit(lambda a: td.quantile(a, 0.5, axis=0, method="lower"), backend=backend)
    assert np.array_equal(chosen(np.ones((3, 2), dtype)), [1, 1])
    for shape in ((0, 2), (0, 0)):  # a compiled function knows extents when it is called
        with pytest.raises(td.ShapeError):
            np.asarray(chosen(np.zeros(shape, dtype)))


def test_interpolation_beside_infinities(backend):
    knots = np.arange(6) * 1.5 - 1
    rng = np.random.default_rng(0)
    at = np.concatenate([[-np.inf, np.inf, np.nan, 1e300, -2.5], knots, rng.random(20) * 8])
    interp = td.jit(td.interp, backend=backend)
    for _ in range(20):
        values = rng.choice([0.0, 1, -2, np.inf, -np.inf, np.nan, 1e30], 6)
        with np.errstate(all="ignore"):
            expected = np.interp(at, knots, values)
        np.testing.assert_allclose(interp(at, knots, values), expected, rtol=1e-12)


def test_interpolation_has_the_derivative_of_the_line_at_a_point():
    values = np.array([1.0, 3, -2, 4])
    slopes = td.grad(lambda x: td.sum(td.interp(x, np.arange(4.0), values)))
    assert td.run(slopes(np.array([0.5, 1.0, 2.5]))).tolist() == [2, -5, 6]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_histogram_over_more_than_a_type_holds(dtype):
    """Bins would have no extent: their edges were infinite and NaN."""
    most = np.finfo(dtype).max
    with pytest.raises(td.ShapeError, match="or their difference is NaN or infinite"):
        td.run(td.histogram(np.array([-most, most]), bins=4))

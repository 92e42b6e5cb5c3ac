"""The words of NumPy: the same name, arguments and result (docs/reference.md)."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, to_host

RNG = np.random.default_rng(7)
I = RNG.integers(-9, 10, (3, 4))
F = RNG.normal(size=(3, 4))
C = F + 1j * F[::-1]
T = RNG.normal(size=(2, 3, 4))
V, W = RNG.normal(size=6), RNG.normal(size=6)
N = np.where(RNG.random((3, 4)) < 0.4, np.nan, F)
N[1] = np.nan
S = np.sort(RNG.integers(0, 9, 8))
B = F > 0
U = np.array([3, 200, 0, 255], "uint8")
LEAST = np.array([[-128], [-(2**31)], [-(2**63)]])

#: (name, arguments); exact unless a tolerance follows.
EXACT = [
    *[("moveaxis", T, s, d) for s, d in ((0, -1), (-1, 0), ((0, 1), (-1, 0)), (1, 1))],
    *[("expand_dims", I, axis) for axis in (0, -1, (0, 2), (3, -3), ())],
    *[("reshape", T, shape, order) for shape in ((4, 6), -1, (3, 2, -1)) for order in "CFA"],
    *[("ravel", x, order) for x in (T, V) for order in "CFAK"],
    *[("take", T, np.array([-5, -1, 0, 2, 9]), axis, None, mode) for axis in (None, 0, 2)
      for mode in ("wrap", "clip")],
    ("bincount", B[0]), ("bincount", B[0], None, 4), ("bincount", np.array([False])),
    *[("bitwise_count", np.array([3, 7], t)) for t in "bBhHiIlL"],
    ("rollaxis", T, 2), ("rollaxis", T, 0, 3), ("rollaxis", T, -1, 1),
    ("matrix_transpose", T), ("fliplr", T), ("flipud", V),
    *[("rot90", I, k) for k in (-1, 0, 1, 2, 3)], ("rot90", T, 1, (2, 0)),
    ("repeat", I, 3), ("repeat", I, 2, 0), ("repeat", T, 2, -1), ("repeat", np.int64(3), 4),
    ("repeat", I, 0, 1),
    ("tile", V, 2), ("tile", I, (2, 1)), ("tile", I, (2, 1, 3)), ("tile", T, 2), ("tile", I, 0),
    ("tile", np.float64(2), (2, 2)),
    *[(f"atleast_{k}d", x) for k in (1, 2, 3) for x in (np.float64(1), V, I, T)],
    ("atleast_2d", V, I), ("broadcast_arrays", V[:, None], W), ("broadcast_arrays", I, 1),
    ("hstack", [V, W]), ("hstack", [I, I]), ("vstack", [V, W]), ("vstack", [I, I, I]),
    ("dstack", [V, W]), ("dstack", [I, I]), ("column_stack", [V, W]),
    ("column_stack", [V, W[:, None]]),
    ("append", I, V), ("append", I, I, 1), ("append", V, 3.0),
    *[("array_split", V, k) for k in (1, 2, 4, 8, [2, 5], [])], ("array_split", I, 3, 1),
    ("split", V, 3), ("split", T, [1], -1), ("hsplit", V, 2), ("hsplit", I, 2), ("vsplit", I, 3),
    ("dsplit", T, 2),
    ("identity", 3), ("diag", V), ("diag", V, 2), ("diag", V, -1), ("diag", I), ("diag", I, -1),
    ("diagflat", I, 1), ("trace", I), ("trace", T, 1), ("trace", T, 0, 2, 1), ("trace", B),
    ("tri", 3), ("tri", 3, 4, 1), ("tri", 2, 5, -1, int),
    *[(name, x, k) for name in ("tril", "triu") for x in (I, T, V, B) for k in (-1, 0, 2)],
    ("meshgrid", V, W[:2]), ("meshgrid", V, W[:2], I[0]), ("meshgrid", V),
    ("kron", V, W[:2]), ("kron", I, I[:2]), ("kron", I, V), ("kron", 2, V),
    ("cross", I[:, :3], I[::-1, :3]), ("cross", T[:, :, 0], I[0, :3]),
    ("diff", V), ("diff", I, 2), ("diff", T, 1, 0), ("diff", B), ("diff", V, 0), ("diff", I, 9),
    ("ediff1d", I), ("ediff1d", V, [9.0], [1.0, 2.0]),
    ("nanmin", N, 0), ("nanmax", N), ("nanmin", I, 1), ("nancumsum", N, 1), ("nancumprod", N[0], 0),
    ("ptp", I), ("ptp", F, 1),
    ("allclose", F, F + 1e-12), ("allclose", F, F + 1), ("allclose", N, N),
    ("allclose", N, N, 1e-5, 1e-8, True),
    ("array_equal", I, I), ("array_equal", I, I + 1), ("array_equal", I, I[:2]),
    ("array_equal", I, V),
    ("array_equal", 3, 3),
    *[("searchsorted", S, x, side) for x in (I, V * 4, 3, S) for side in ("left", "right")],
    ("searchsorted", np.array([1.0, 2.0, np.nan]), np.array([np.nan, 0.0, 5.0])),
    ("searchsorted", S[:0], V), ("searchsorted", S[::-1].copy(), I, "left", np.argsort(S[::-1])),
    ("digitize", V, np.sort(W)), ("digitize", I, S[::3], True),
    *[("digitize", x, edges, right) for x in (I, V) for right in (False, True)
      for edges in (S[::-2], [2, 2, 1], [3, 3], [5], np.array([np.nan, 2, 1]))],
    *[("roll", I, *more) for more in (((1, 2),), ([1, 2], 0), ((1,), (0, 1)), (1, ()), ((), 0),
                                      (np.array([1, -2]), (0, 1)), (np.array([2]), 1))],
    ("roll", T, (1, 2, 3), -1), ("roll", V, [-1]),
    *[("median", np.array(x, "float16")) for x in ([6e4, 6e4], [2049, 2051], [6e4] * 30)],
    ("lexsort", (I[0], I[1], I[2])), ("lexsort", I), ("lexsort", (I, I[::-1]), 0),
    ("vander", U), ("vander", np.array([True, False])), ("vander", np.array([np.inf, 2]), 3),
    ("positive", F), ("isposinf", np.array([np.inf, -np.inf, np.nan, 0])),
    ("isneginf", np.array([np.inf, -np.inf, np.nan, 0])), ("isreal", C), ("iscomplex", C),
    ("isreal", I),
    ("divmod", I, 3), ("divmod", F, 0.25), ("gcd", I, 6), ("gcd", I, I.T[:3, :1]), ("lcm", I, 4),
    ("gcd", U, 12), ("gcd", U, U[::-1].astype("int16")), ("lcm", I, 0), ("gcd", 0, 0),
    *((f, LEAST.astype(t), np.array([6, 0, -5, np.iinfo(t).min], t))
      for f in ("gcd", "lcm") for t in ("int8", "int32", "int64")),
    ("modf", np.array([1.5, -2.25, np.inf, -np.inf, -0.0, 0.0])),
    ("frexp", np.array([1.0, -3.0, 0.0, 5e-324, 1e308, np.inf, np.nan, 0.5])),
    ("frexp", np.array([1 - 2**-53, 2.0**-1022])),
    ("frexp", np.array([1.0, 3.0, 1e-40, 3e38], "float32")),
    ("ldexp", F, np.int64(3)), ("ldexp", np.array([5e-324, 1.0]), np.array([1100, -1074])),
    ("nan_to_num", np.array([np.nan, np.inf, 1], "float32"), True, np.float64(5), np.arange(3.0)),
    ("nan_to_num", np.array([np.nan, np.inf, -np.inf, 2.0])), ("nan_to_num", I),
    ("nan_to_num", np.array([np.nan, np.inf, 1], "float32"), True, 5.0, 6.0),
    ("nan_to_num", np.array([complex(np.nan, np.inf)])),
    ("select", [I > 3, I < 0], [I, -I], 5), ("select", [B], [F]),
    ("select", [I > 3, I < 0], [I.astype("uint64"), I > 5], 5),
    ("select", [I > 3, I < 0], [I.astype("int8"), I.astype("float32")], 0.5),
    ("select", [I > 3, I < 0], [I.astype("int16"), 3]),
    ("select", [I > 3, I < 0], [2.5, F.astype("float32")], 1),
    ("piecewise", F, [F < 0, F >= 1], [lambda v: -v, 7.0]),
    ("piecewise", F, [F < 0], [0.0, lambda v: 2 * v]),
    ("float_power", I[:1] % 3, 2),
]  # fmt: skip
CLOSE = [
    ("gradient", V), ("gradient", F), ("gradient", F, 0.5), ("gradient", I),
    ("gradient", T, 1.0, 2.0, 3.0),
    ("gradient", V, np.cumsum(np.abs(W) + 1)),
    ("trapezoid", F), ("trapezoid", V, np.cumsum(np.abs(W))), ("trapezoid", F, None, 0.5, 0),
    ("trapezoid", I),
    ("unwrap", np.cumsum(V) * 4), ("unwrap", F * 9, None, 0),
    ("sinc", V), ("sinc", np.array([0.0, 1.0, 0.5])), ("logaddexp2", V, W),
    ("logaddexp2", np.array([-np.inf, np.inf]), np.array([-np.inf, 1.0])),
    ("nansum", N), ("nansum", N, 1), ("nansum", I, 0), ("nanprod", N, 1), ("nanmean", N, 0),
    ("nanmean", I),
    ("nanmean", N, 1), ("nanvar", N, 0), ("nanstd", N), ("nanvar", I, 1),
    ("average", F), ("average", F, 1, np.arange(4.0)), ("average", F, None, F * F),
    ("average", I, 0, [1, 2, 3]), ("average", I, None, np.abs(I).astype("f4") + 1),
    ("cov", F), ("cov", F, F[:1]), ("cov", V), ("cov", F, None, False),
    ("cov", F, None, True, True),
    ("cov", I), ("cov", C), ("corrcoef", F), ("corrcoef", V, W),
    ("vander", V), ("vander", V, 3, True), ("float_power", V * V, W),
]  # fmt: skip


def ours(name, given):
    """(NumPy's take has `out` before `mode`.)"""
    if name == "take":
        given = [*given[:3], *given[4:]]
    return getattr(td, name)(*given)


def theirs(name, *given):
    with np.errstate(all="ignore"):
        found = getattr(np, name)(*given)
    return (
        tuple(np.asarray(x) for x in found)
        if isinstance(found, tuple | list)
        else np.asarray(found)
    )


def names_of(cases):
    return [f"{k} {case[0]}" for k, case in enumerate(cases)]


@pytest.mark.sample(12)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", EXACT, ids=names_of(EXACT))
def test_exact(backend, case):
    name, *given = case
    with td.config(backend=backend):
        got = td.run(ours(name, given))
    got = tuple(map(to_host, got)) if isinstance(got, tuple) else to_host(got)
    assert_same(got, theirs(name, *given), label=name)


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CLOSE, ids=names_of(CLOSE))
def test_close(backend, case):
    name, *given = case
    with td.config(backend=backend):
        got = td.run(getattr(td, name)(*given))
    want = theirs(name, *given)
    for mine, other in zip(
        *((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True
    ):
        mine = to_host(mine)
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", [None, V**2 + 1])
@pytest.mark.parametrize("cov", [True, "unscaled"])
@pytest.mark.parametrize("y", [W, np.stack([W, V**2], 1)])
def test_covariances_of_fits(backend, y, cov, weights):
    fit = td.jit(lambda x, y: td.polyfit(x, y, 2, w=weights, cov=cov), backend=backend)
    for mine, other in zip(fit(V, y), np.polyfit(V, y, 2, w=weights, cov=cov), strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
    with pytest.raises(td.TracingError, match="cov is True or"):
        td.polyfit(V, W, 2, cov="scaled")


P, Q = np.sort(RNG.normal(size=6)), RNG.normal(size=6)
QUANTILES = [
    *[(name, x, q, axis) for name in ("quantile", "nanquantile") for x in (F, N)
      for q in (0.3, [0, 0.25, 1.0], [[0.1, 0.5], [0.7, 0.9]]) for axis in (None, 0, -1)],
    *[(name, x, axis) for name in ("median", "nanmedian") for x in (F, N, I, V)
      for axis in (None, 0)],
    ("percentile", F, [10, 33, 90], 1), ("percentile", F, (10, 90)), ("nanpercentile", N, 20, 0),
    ("interp", F, P, Q), ("interp", F, P, Q, -1.0, 9.0), ("interp", P, P, Q), ("interp", 0.3, P, Q),
    ("interp", F * 9, [0, 1, 2.5], [1, 5, 2.0], None, None, 3.0),
    ("interp", F, [0, np.nan], [1, 2.0]),
    ("interp", np.array([np.nan, 1]), P, Q), ("interp", F, P, Q + 1j),
]  # fmt: skip
A1, B1, C1, S1 = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=(5, 3)), F[:, :3]
SUMS = [
    ("ij,jk->ik", A1, B1), ("ij,jk", A1, B1), ("ij->ji", A1), ("ij", A1), ("ii->i", S1), ("ii", S1),
    ("ij->", A1), ("ij,ij->ij", A1, A1), ("ij,ij", A1, A1), ("ij,jk,ki->", A1, B1, C1),
    ("ij,jk,ki->i", A1, B1, C1), ("bij,bjk->bik", T, T.transpose(0, 2, 1)),
    ("...ij,...jk->...ik", T, B1), ("...ij->...ji", T), ("i,j->ij", V, W), ("i,i", V, V),
    ("bij,kj->bik", T, A1), ("abc,abd->acd", T, T), ("ijk->k", T), ("ijk,ijk->", T, T),
    ("ij,kl->ijkl", A1, S1), ("i...,i...->...", T, T), ("ba,b", S1, S1[0]), ("iij->j", T[:, :2]),
    ("ij,jk->ik", I, I.T), ("...,...->...", A1, T),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", [1, 2, 3, 6, 9, 16, 25, 26])
def test_quantiles_of_a_constant_number_of_arrays(backend, length):
    """Up to 25 are ordered in registers; NaN is passed on."""
    rows = np.random.default_rng(length).normal(size=(length, 8)).astype(np.float32)
    rows[length // 2, 3] = np.nan
    kinds = (0.5, "midpoint"), (0.3, "linear"), (0, "lower"), (1, "nearest")
    stack = td.stack([td.use(r) for r in rows])
    found = [td.quantile(stack, q, axis=0, method=m, keepdims=True) for q, m in kinds]
    for got, (q, method) in zip(td.run(found, backend=backend), kinds, strict=True):
        want = np.quantile(rows, q, axis=0, method=method, keepdims=True)
        np.testing.assert_allclose(to_host(got), want, atol=1e-6)
        assert got.dtype == np.float32 and got.shape == want.shape


@pytest.mark.parametrize("check", [False, True])
def test_quantiles_without_elements_read_none(backend, check):
    """In shapes that are known, and that are not."""
    with td.config(backend=backend, check=check):
        for function in (td.nanmedian, td.median):
            assert (
                np.isnan(to_host(td.run(function(np.zeros((3, 0)), axis=1)))).tolist() == [True] * 3
            )
            assert np.isnan(to_host(td.jit(lambda a, f=function: f(a))(np.zeros((0, 2)))))


def test_the_median_of_views_is_one_kernel():
    def median3(a):
        p = td.pad(a, 1, mode="edge")
        return td.median(td.stack([p[k : k + a.shape[0]] for k in range(3)]), axis=0)

    program = td.jit(median3, backend="native").lower(np.ones(9))
    assert program.explain().count("Kernel ") == 1
    assert list(program(np.array([5.0, 1, 9, 2, 2]))) == [5, 5, 2, 2, 2]


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_methods_of_quantiles(backend, method, keepdims):
    with td.config(backend=backend):
        got = td.percentile(F, [10, 33, 50, 90], axis=1, method=method, keepdims=keepdims)
        want = np.percentile(F, [10, 33, 50, 90], axis=1, method=method, keepdims=keepdims)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
        assert np.asarray(got).shape == want.shape


MASK = np.array([[True, False, True, True], [False] * 4, [False, True, True, False]])
HALF = F.astype(np.float32)
#: (name, array, keywords): of functions, of methods, and of NumPy's functions while tracing.
REDUCTIONS = [
    *[(name, x, {"where": MASK}) for name in ("sum", "prod", "mean", "var", "all", "any")
      for x in (I, F, HALF)],
    *[(name, I, {"where": MASK, "initial": 3}) for name in ("sum", "prod", "min", "max")],
    *[(name, F, {"where": MASK[:, :1], "initial": 3}) for name in ("sum", "prod", "min", "max")],
    *[(name, F[:0], {"initial": -2.5}) for name in ("sum", "prod", "min", "max")],
    *[(name, HALF, {"dtype": np.float64}) for name in ("mean", "var", "std", "cumsum", "cumprod")],
    *[(f"nan{name}", np.float32(N), {"dtype": float}) for name in ("sum", "prod", "mean", "std")],
    ("mean", I, {"dtype": np.float32}), ("cumsum", I, {"dtype": np.int16}),
    ("std", F, {"where": MASK, "ddof": 1}), ("any", F, {"where": False}),
]  # fmt: skip


@pytest.mark.sample(10)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REDUCTIONS, ids=[f"{c[0]}-{'-'.join(c[2])}" for c in REDUCTIONS])
@pytest.mark.parametrize("axis", [None, 0])
def test_keywords_of_reductions(backend, axis, case):
    name, a, words = case
    want = getattr(np, name)(a, axis=axis, **words)
    x = td.use(a)
    compiled = td.jit(lambda x: getattr(np, name)(x, axis=axis, **words), backend=backend)
    found = [td.run(getattr(td, name)(x, axis=axis, **words), backend=backend), compiled(a)]
    if not name.startswith("nan"):
        found.append(td.run(getattr(x, name)(axis=axis, **words), backend=backend))
    for got in found:
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(to_host(got), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("call, says", [
    (lambda: td.max(F, where=MASK), "may choose no element | initial=-np.inf"),
    (lambda: td.sum(F, where=[1, 0, 1, 0]), "a mask of booleans, got int64 | mask != 0"),
    (lambda: td.mean(F, dtype=int), "dtype=int64 has no fractions | Convert the result"),
    (lambda: td.sum(I, initial=0.5), "0.5 does not fit in int64"),
    (lambda: td.sum(V, where=MASK), "rank 2 does not fit into rank 1"),
    (lambda: td.use(F).sum(0, np.float32), "keepdims is True or False | have names: | dtype=float"),
    (lambda: td.max(F, 1, None), "got None | have names: keepdims=True"),
    (lambda: td.median(F, where=MASK), "no argument 'where' | a[p] are the elements where p holds"),
    (lambda: td.sqrt(F, where=MASK), "no argument 'where' | td.where(p, f(x), other) chooses"),
    (lambda: td.use(F).astype(str), "<U0 are not supported | np.asarray(a).astype(str)"),
    (lambda: td.zeros(3, "O"), "object are not supported | np.asarray(a).astype('O')"),
    (lambda: td.use(np.array(["a"])), "<U1 are not supported | np.unique(a, return_inverse=True)"),
    (lambda: td.array(F, ndmin=3), "no argument 'ndmin' | a[None] and td.atleast_2d(a) add axes"),
])  # fmt: skip
def test_mistakes_in_keywords_of_reductions(call, says):
    with pytest.raises(td.TreadleError) as caught:
        call()
    for part in says.split(" | "):
        assert part in " ".join(str(caught.value).split())


@pytest.mark.parametrize(
    "window, axis", [(2, 0), ((2, 3), None), ((3, 1), (1, 0)), ((2, 2), (1, 1)), (1, -1)]
)
def test_windows(backend, window, axis):
    """Of extents that are known, and that are not; what reduces them stores none."""
    views = np.lib.stride_tricks.sliding_window_view
    want = views(F, window, axis)
    compiled = td.jit(lambda x: views(x, window, axis), backend=backend)
    for got in (td.run(td.sliding_window_view(F, window, axis), backend=backend), compiled(F)):
        np.testing.assert_array_equal(to_host(got), want)
    with pytest.raises(td.ShapeError, match="the windows are longer than axis 0"):
        td.jit(lambda x: td.sliding_window_view(x, 9, 0))(F)
    with pytest.raises(td.ShapeError, match="2 extents of a window for 1 axes"):
        td.sliding_window_view(F, (2, 2), 0)
    total = td.jit(lambda x: views(x, (2, 2)).max(axis=(2, 3)), backend="native").lower(F)
    assert total.explain().count("Kernel ") == 1


#: Calls of NumPy's own functions, which are treadle's while a program is traced.
CALLS = {
    "add.reduce": lambda x: np.add.reduce(x),
    "add.reduce of all": lambda x: np.add.reduce(x, axis=None, dtype=float),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1, keepdims=True, initial=0),
    "logical_or.reduce": lambda x: np.logical_or.reduce(x > 0, axis=1),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "add.accumulate": lambda x: np.add.accumulate(x),
    "subtract.outer": lambda x: np.subtract.outer(x[0], x[:, 1]),
    "multiply.outer": lambda x: np.multiply.outer(np.arange(2), x),
    "argsort": lambda x: np.argsort(x, axis=0, kind="stable"),
    "sort": lambda x: np.sort(x, kind="mergesort"),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x, optimize=True),
    "clip": lambda x: np.clip(x, a_min=0, a_max=1),
    "ravel": lambda x: np.ravel(x, order="F"),
    "reshape": lambda x: np.reshape(x, (4, -1), order="F") + x.reshape(4, -1, order="F"),
    "take": lambda x: np.take(x, [-1, 9], axis=1, mode="clip"),
    "astype": lambda x: x.astype(np.float32, order="F", copy=False),
    "sum": lambda x: np.sum(x, axis=1, out=None),
    "isclose": lambda x: np.isclose(x / x, x / x, equal_nan=True),
    "array_equal": lambda x: np.array_equal(x / (x - x), x / (x - x), equal_nan=True),
    "sum by position": lambda x: np.sum(x, 0, np.float32, None, True),
    "max by position": lambda x: np.max(x, 1, None, True),
    "std by position": lambda x: np.std(x, 0, np.float64, None, 1),
    "cumsum by position": lambda x: np.cumsum(x, 1, np.float32, None),
    "sort by position": lambda x: np.sort(x, 0, "stable"),
    "take by position": lambda x: np.take(x, [-1, 9], 1, None, "clip"),
    "clip by position": lambda x: np.clip(x, 0, 1, None),
    "percentile by position": lambda x: np.percentile(x, 50, 0, None, False, "lower"),
    "full_like by position": lambda x: np.full_like(x, 2, np.int8, "K", True),
    "gradient by position": lambda x: np.gradient(x, 2.0, 0.5)[0],
    "median by position": lambda x: np.median(x, 0, None, False, True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_methods_of_ufuncs_and_words_that_say_nothing(name):
    for a in (I, F.astype(np.float32)):
        want = CALLS[name](a)
        for got in (td.jit(CALLS[name], backend="reference")(a), CALLS[name](td.use(a))):
            assert got.dtype == want.dtype if isinstance(want, np.ndarray) else True
            np.testing.assert_allclose(got, want, rtol=1e-5)
    with pytest.raises(td.TracingError, match=r"np\.divide\.reduce does not work"):
        td.jit(lambda x: np.divide.reduce(x))(F)


def test_words_of_numpy_that_treadle_lacks():
    """Given by position they are no words of treadle's: NumPy computes what it knows."""
    a, b, w = I[:, :3] % 7, I[1:, 1:3], np.arange(1.0, 4)
    calls = {
        "returned": lambda a: np.average(a, 0, w, True),
        "axisa": lambda a: np.cross(a, a[0], 0),
        "axis": lambda a: np.unique(a, False, False, False, 1),
        "retstep": lambda a: np.linspace(a[0], 5, 3, True, True),
    }
    for word, call in calls.items():
        for got, want in zip(call(td.use(a)), call(a), strict=True):
            np.testing.assert_array_equal(got, want)
        with pytest.raises(td.TracingError, match=word):
            td.jit(call)(a)
    assert np.size(td.use(b), 0) == 2


@pytest.mark.sample(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(0, 2), (-1, 1), (2, 1, 0), (1,), ()])
def test_quantiles_along_several_axes(backend, axis, keepdims):
    """Also where the extents are run-time values, and where some are 0."""
    holes = np.where(T > 0.8, np.nan, T)
    few = T[:, :2, :2]
    cases = ("median", T), ("nanmedian", holes), ("quantile", T, [0.1, 0.6]), ("quantile", few, 0.3)
    for name, a, *q in cases:

        def of(x, name=name, q=q):
            return getattr(td, name)(x, *q, axis=axis, keepdims=keepdims)

        want = getattr(np, name)(a, *q, axis=axis, keepdims=keepdims)
        for got in (td.run(of(a), backend=backend), td.jit(of, backend=backend)(a)):
            np.testing.assert_allclose(to_host(got), want, rtol=1e-12)
            assert got.shape == want.shape
    none = td.run(td.median(np.zeros((2, 0, 3)), axis=axis, keepdims=keepdims), backend=backend)
    assert none.shape == np.zeros((2, 0, 3)).sum(axis=axis, keepdims=keepdims).shape


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", QUANTILES, ids=names_of(QUANTILES))
def test_quantiles_and_interpolation(backend, case):
    test_close(backend, case)


@pytest.mark.sample(12)
@pytest.mark.parametrize("case", SUMS, ids=[f"{k} {c[0]}" for k, c in enumerate(SUMS)])
def test_einstein_sums(backend, case):
    test_close(backend, ("einsum", *case))


def test_einstein_sums_of_types(backend):
    """Everything is summed and multiplied in the type of the result: int8 wraps nowhere."""
    small = np.array([[100, 100, 27], [1, 2, 3]], "int8")
    x, n = np.array([1.0, 2, 3]), np.array([1, 2, 3])
    for text, *operands in (
        ("ij,k->k", small, x), ("ij,j->j", B[:2, :3], n), ("ij->j", B), ("ij,ij->", B, B),
        ("i,i,i->i", small[0], small[0], x), ("i,i,i", U[:3], small[0], U[:3].astype("uint64")),
        ("ij,kl,j->l", small, B, x + 1j), ("ij->i", small),
    ):  # fmt: skip
        got = np.asarray(td.run(td.einsum(text, *operands), backend=backend))
        want = np.einsum(text, *operands)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, text)


def test_einstein_sums_of_known_and_unknown_extents_have_the_same_bits():
    """Three factors whose product overflows in one order only: an axis of known extent 1."""
    a, b = np.full((7, 1), 1e200), np.full((7, 7), 1e-200)

    def f(b):
        return td.einsum("ij,ik,kj->ijk", a, b, a)

    with td.config(deterministic=True, backend="native"):
        by_value, compiled = np.asarray(f(b)), np.asarray(td.jit(f)(b))
    asked = np.asarray(td.jit(f, deterministic=True, backend="native")(b))
    np.testing.assert_array_equal(by_value, compiled)
    np.testing.assert_array_equal(by_value, asked)


@pytest.mark.parametrize("text", ["kij,nkj->nki", "nkj,kij->nki"])
def test_rows_of_einstein_sums_stay_rows(text):
    """The axis that is the last of the result is that of the columns of a product."""
    arguments = [np.ones((2, 5, 3) if names == "kij" else (4, 2, 3))
                 for names in text.partition("->")[0].split(",")]  # fmt: skip
    program = td.jit(lambda a, b: td.einsum(text, a, b), backend="native").lower(*arguments)
    (product,) = (k for k in program.kernels if type(k).__name__ == "Matmul")
    assert str(product.right.node).endswith(f"argument '{'ab'[text.startswith('nkj')]}'")


def test_where_elements_are(backend):
    with td.config(backend=backend):
        for x in (F > 0, I, T > 0.5, V, I[:0]):
            for name in ("nonzero", "argwhere", "flatnonzero"):
                got, want = td.run(getattr(td, name)(x)), theirs(name, x)
                got = tuple(map(to_host, got)) if isinstance(got, tuple) else to_host(got)
                assert_same(got, want, label=name)


@pytest.mark.parametrize(
    ("text", "operands", "says"),
    [
        ("ij,jk->ik", (A1,), "2 subscripts for 1 operands"),
        ("ijk->k", (A1,), "names 3 axes of an array of rank 2"),
        ("ij->ik", (A1,), "one that no operand has"),
        ("ij,ij->ij", (A1, S1), "extents 3 and 4|extents 4 and 3"),
        ("ii", (A1,), "extents"),
    ],
)
def test_mistakes_in_einstein_sums(text, operands, says):
    with pytest.raises(td.ShapeError, match=says):
        td.einsum(text, *operands)


def test_the_sign_and_the_type_stay(backend):
    with td.config(backend=backend):
        assert np.signbit(np.asarray(td.positive(np.array([-0.0])))).all()
        assert np.asarray(td.positive(np.array([3], "uint8"))).dtype == "uint8"
        assert np.signbit(np.asarray(td.modf(np.array([-0.0]))[0])).all()


def test_what_does_not_split_equally(backend):
    halves = td.jit(lambda a: td.split(a, 2), backend=backend)
    assert [to_host(x).tolist() for x in halves(np.arange(6))] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(td.ShapeError, match="does not split into 2 equal parts: 1 of its elements"):
        halves(np.arange(5))
    with pytest.raises(td.ShapeError, match="does not split into 2 equal parts"):
        td.split(td.iota(7), 2)


KINDS = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64",
         "uint64", "float64")  # fmt: skip


def test_bits_are_kept(backend):
    rng = np.random.default_rng(0)
    for source in KINDS:
        x = np.frombuffer(rng.bytes(64), source)
        alike = [t for t in KINDS if np.dtype(t).itemsize == x.itemsize]
        read = td.jit(lambda a: tuple(td.bitcast(a, t) for t in alike), backend=backend)
        for t, found in zip(alike, read(x), strict=True):
            found = to_host(found)
            kept = (found.view("u1") == x.view("u1")).all()
            nan = np.dtype(t).kind == "f" and (np.isnan(found) == np.isnan(x.view(t))).all()
            assert found.dtype == t and (kept or nan)


def test_bits_of_scalars_and_what_has_none(backend):
    sign = td.jit(lambda a: td.map(lambda v: td.bitcast(v, td.uint64) >> 63, a), backend=backend)
    assert to_host(sign(np.array([-1.0, -0.0, 2.0]))).tolist() == [1, 1, 0]
    for make in (lambda: td.bitcast(np.float32(1), td.int64), lambda: td.bitcast(1j, float),
                 lambda: td.bitcast(np.int8(1), bool)):  # fmt: skip
        with pytest.raises(td.DTypeError, match="cannot be read as"):
            make()


def test_histograms_without_a_range(backend):
    count = td.jit(lambda a: td.histogram(a, bins=3), backend=backend)
    for bad in ([1.0, np.nan], [1.0, np.inf]):
        with pytest.raises(ValueError, match="is NaN or infinite"):
            count(np.array(bad))
        with pytest.raises(ValueError):
            np.histogram(bad, bins=3)
    assert to_host(count(np.array([0.0, 3.0]))[0]).tolist() == [1, 0, 1]
    within = td.jit(lambda a: td.histogram(a, bins=2, range=(0, 2))[0], backend=backend)
    assert to_host(within(np.array([1.0, np.nan, np.inf]))).tolist() == [0, 1]


def test_repeats_for_each_element(backend):
    x, n = np.arange(6).reshape(2, 3), np.array([2, 0, 1])
    found = td.jit(lambda x, n: (td.repeat(x, n, axis=1), td.repeat(x[0], n)), backend=backend)
    for ours, theirs in zip(found(x, n), (np.repeat(x, n, axis=1), [0, 0, 2]), strict=True):
        assert to_host(ours).tolist() == np.asarray(theirs).tolist()
    with pytest.raises(td.DTypeError, match="numbers of repeats"):
        td.repeat(x, np.array([1.5, 2.0]), axis=0)
    for few in ([2, -3, 1], np.array([-3]), np.array(-3, np.int8), np.array([0, -3, 0], np.int16)):
        counts = np.asarray(few)
        with pytest.raises(ValueError, match="negative"):
            np.repeat(x, counts, axis=1)
        with pytest.raises(td.ShapeError, match="a number of repeats is negative, -3"):
            to_host(td.jit(lambda x, n: td.repeat(x, n, axis=1), backend=backend)(x, counts))
        with pytest.raises(td.ShapeError, match="a number of repeats is negative, -3"):
            np.asarray(td.repeat(x, few, axis=1))
    empty = td.run(td.repeat(x[:, :0], np.zeros(0, int), axis=1), backend=backend)
    assert to_host(empty).shape == (2, 0)


def test_edges_of_the_run_rise_or_fall(backend):
    compiled = [td.jit(lambda x, e, right=right: td.digitize(x, e, right), backend=backend)
                for right in (False, True)]  # fmt: skip
    for edges in (S * 1.0, S[::-1] * 1.0, [2.0, 2, 1], [3.0, 3], [5.0], [np.nan, 2, 1], []):
        edges = np.array(edges, float)
        for right in (False, True):
            for x in (V, I):
                want = np.digitize(x, edges, right)
                assert_same(to_host(compiled[right](x, edges)), want)
                computed = td.digitize(x, td.use(edges) + 0, right)
                assert_same(to_host(td.run(computed, backend=backend)), want)


def test_tiles_of_few_and_many_copies(backend):
    """Up to eight copies along an axis are joined, more are reads of a longer index space."""
    for x in (np.arange(6).reshape(2, 3), np.arange(3.0), np.zeros((0, 3)), np.ones((3, 1)), 5):
        for reps in (0, 1, 2, 8, 9, (), (2, 3), (3, 1), (1, 9), (2, 1, 2), np.int64(2)):
            compiled = td.jit(lambda x, reps=reps: td.tile(x, reps), backend=backend)
            assert_same(to_host(compiled(x)), np.tile(x, reps))
    told = td.jit(lambda x: td.tile(x, (2, 3)), backend="native").lower(np.ones((4, 5))).explain()
    assert "1 kernel" in told and "[i - n1, j - 2·n2]" in told
    counted = td.jit(lambda x, n: td.tile(x, n), backend=backend)
    assert_same(to_host(counted(np.arange(3), 2)), np.tile(np.arange(3), 2))


@pytest.mark.sample(2)
@pytest.mark.parametrize("columns", [0, 1, 32, 33, 100])
def test_vander(run, columns):
    for x in (np.array([1.5, -0.3, 2.0]), np.array([3, 1, 2])):
        for increasing in (False, True):
            want = np.vander(x, columns, increasing=increasing)
            assert_same(run(td.vander(x, columns, increasing=increasing)), want)


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponents", ["int8", "int64", "uint64"])
def test_ldexp_of_any_bits(run, dtype, exponents):
    """Numbers of all exponents, by powers far beyond those."""
    rng = np.random.default_rng(3)
    bits = dtype.replace("float", "uint")
    x = rng.integers(0, np.iinfo(bits).max, 2000, dtype=bits).view(dtype)
    about = np.finfo(dtype)
    x[:7] = 0.0, -0.0, np.inf, -np.inf, np.nan, about.smallest_subnormal, about.max
    low, high = (f(np.iinfo(exponents), w) for f, w in ((getattr, "min"), (getattr, "max")))
    n = rng.integers(max(low, -3000), min(high, 3000), 2000).astype(exponents)
    n[::2] = np.clip(rng.integers(-300, 300, 1000), low, high).astype(exponents)
    n[1], n[5] = high, low
    near = np.clip(n, max(low, -5000), min(high, 5000)).astype(np.int64)
    assert_same(run(td.ldexp(x, n)), np.ldexp(x, near))
    shares, whole = run(td.frexp(x))
    known = np.isfinite(x)  # C leaves the others' exponents open
    assert_same(shares, np.frexp(x)[0])
    assert_same(whole[known], np.frexp(x)[1][known])


def test_numbers_beside_scalars_in_kernels(run):
    """Operands that are Python's numbers, in functions that look at types."""
    x, n = np.array([1.5, -2.0, 0.0]), np.array([1, 2, -3])
    assert_same(run(td.map(lambda a: td.ldexp(a, 3), x)), np.ldexp(x, 3))
    assert_same(run(td.map(lambda k: td.ldexp(1.5, k), n)), np.ldexp(1.5, n))
    assert_same(run(td.generate((3,), lambda i: td.ldexp(1.0, i - 1))), np.array([0.5, 1, 2]))
    turned = run(td.map(lambda k: td.rotate_left(k, 62), n.astype(np.uint64)))
    assert_same(turned, run(td.rotate_left(n.astype(np.uint64), 62)))
    with pytest.raises(td.DTypeError, match="ldexp needs integer exponents, got float64"):
        td.map(lambda a: td.ldexp(a, 0.5), x)


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8"])
def test_order_statistics_of_every_type(run, dtype):
    """Rows that are too long for a thread: positions are selected, or the rows sorted."""
    x = (np.random.default_rng(3).normal(size=(3, 101)) * 50).astype(dtype)
    exact = x.astype(float) if x.dtype.kind in "biu" else x  # (NumPy's differences overflow.)
    kind = x.dtype.kind
    with_nan = [x] if kind in "biu" else [x, np.where(np.arange(101) == 9, x.dtype.type("nan"), x)]
    for a in with_nan:
        for kth, axis in (0, 0), (50, 1), (-1, 1), (7, None), (-303, None):
            got = run(td.partition(a, kth, axis))
            n = a.shape[axis] if axis is not None else a.size
            found, want = (np.moveaxis(f(v, axis=axis), axis or 0, 0) for f, v in
                           ((lambda v, axis: v if axis is not None else v.ravel(), got),
                            (np.sort, a)))  # fmt: skip
            np.testing.assert_array_equal(found[kth], want[kth])
            np.testing.assert_array_equal(np.sort(found[: kth % n], 0), want[: kth % n])
            at = run(td.argpartition(a, kth, axis))
            assert at.dtype == np.int64
            taken = a.ravel()[at] if axis is None else np.take_along_axis(a, at, axis)
            np.testing.assert_array_equal(np.moveaxis(taken, axis or 0, 0)[kth], want[kth])
            same = np.sort(taken, axis or 0), np.moveaxis(want, 0, axis or 0)
            np.testing.assert_array_equal(*same)
    if kind != "c":
        for q in (0.5, [0.1, 0.5, 1.0], np.linspace(0, 1, 30)):
            for axis in (1, None):
                got = run(td.quantile(x, q, axis))
                np.testing.assert_allclose(got, np.quantile(exact, q, axis), rtol=4e-3, atol=0.02)
                assert np.isnan(run(td.quantile(with_nan[-1], q, axis))).any() == (kind == "f")


@pytest.mark.parametrize("dtype", ["f8", "i1"])
def test_partitions_at_several_positions(run, dtype):
    x = np.random.default_rng(5).integers(-50, 50, (20, 30)).astype(dtype)
    for kth in [3, 10], (0, -1, 7), np.array([5, 5, 2]), list(range(20)), []:
        for axis in (-1, 0, None):
            ordered, last = np.sort(x, axis), 0 if axis is None else axis
            found, at = run(td.partition(x, kth, axis)), run(td.argpartition(x, kth, axis))
            source = x.ravel() if axis is None else x
            taken = np.take_along_axis(source, at, last)
            for got in found, taken:
                assert_same(np.sort(got, last), ordered if len(kth) else np.sort(source, last))
                for k in kth:
                    assert_same(np.array(got.take(k, last)), np.array(ordered.take(k, last)))
                    before = got.take(range(k % got.shape[last]), last)
                    assert (before <= np.expand_dims(got.take(k, last), last)).all()
    with pytest.raises(td.ShapeError, match=r"partition: there is no element 99 of 30\."):
        td.partition(x, [3, 99])


def test_a_position_that_is_not_there():
    for kth in (6, -7, 2**40):
        with pytest.raises(td.ShapeError, match=rf"partition: there is no element {kth} of 6\."):
            td.partition(V, kth)
        with pytest.raises(td.ShapeError, match=rf"there is no element {kth} of 6"):
            td.jit(lambda a, k=kth: td.partition(a, k), backend="native")(V)


@pytest.mark.parametrize(("shape", "axis"), [((0,), -1), ((0, 4), 0), ((4, 0), None)])
def test_of_no_elements_any_position_is_right(run, shape, axis):
    for kth in (0, -1, 5):
        for word in "partition", "argpartition":
            got, want = (run(getattr(m, word)(np.empty(shape), kth, axis)) for m in (td, np))
            assert (got.shape, got.dtype) == (want.shape, want.dtype)


def test_a_cpu_selects_and_a_gpu_sorts():
    program = td.jit(lambda a: td.median(a, axis=1), backend="native").lower(F)
    for backend, word in (("native", "partition"), ("cuda", "sort")):
        assert program.explain(backend).count(f"work       a library's {word}\n") == 1


def test_percentiles_that_are_elements_keep_integers(run):
    x = np.array([2**53 + 1, 2**53 + 1, 7, 2**62 - 1])
    for method in ("lower", "higher", "nearest"):
        for q in (50, [0, 40, 100]):
            got = run(td.percentile(np.tile(x, (3, 5)), q, axis=1, method=method))
            assert_same(got, np.percentile(np.tile(x, (3, 5)), q, axis=1, method=method))


def test_covariances_of_float32_are_those_of_float64(run):
    x = np.float32([[3.5655169, 0.0946277, 0.0946277, 3.5655169], [1, 2, 5, 9]])
    got = run(td.cov(x))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.cov(x), rtol=1e-13)


def test_every_function_of_numpy_is_that_of_treadle():
    """`np.f(a)` of arrays is `td.f(a)`, known and traced."""
    x = np.array([4.0, 6.0])
    for name in sorted(dir(np)):
        ufunc = getattr(np, name)
        if not isinstance(ufunc, np.ufunc) or name == "isnat":
            continue
        given: list[np.ndarray] = [x, x][: ufunc.nin]
        if ufunc.signature:
            given = [x[None], x[:, None]] if name in ("matmul", "vecmat") else [x[None], x]
        elif np.float64 not in [np.dtype(t[0]) for t in ufunc.types]:
            given = [v.astype(int) for v in given]
        given = [given[0], given[1].astype(int)] if name == "ldexp" else given
        try:
            want = ufunc(*given)
        except TypeError:
            continue  # of strings
        got = ufunc(*map(td.use, given))
        for value in got if isinstance(got, tuple) else (got,):
            assert isinstance(value, td.Array), name
        made = td.jit(lambda *args, ufunc=ufunc: ufunc(*args))(*given)
        for a, b in zip(np.atleast_1d(made), np.atleast_1d(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)

"""Index arrays, sets, and arrays with elements put in, taken out or replaced, as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, to_host
from .test_numpy_words import B, C, F, I, N, T, U, V, W, names_of, test_exact as check_exactly

M, K = I[:2, :3], np.array([0, 2, 1])
EMPTY, ONE = np.zeros(0), np.array([3.0])
Z = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, 2, 3, 0], [0, 0, 0, 0]])

CASES = [
    ("indices", (2, 3)), ("indices", (4,)), ("indices", (2, 0)), ("indices", (2, 3), "int8"),
    ("indices", (2, 3), int, True),
    ("ix_", [0, 2], [1, 3, 4]), ("ix_", B[0], K), ("ix_", K),
    ("diag_indices", 3), ("diag_indices", 0), ("diag_indices", 2, 3),
    ("diag_indices_from", np.zeros((3, 3))),
    *[(f"{side}_indices", n, k, m) for side in ("tril", "triu")
      for n, k, m in ((3, 0, None), (4, 1, 2), (2, -1, 5), (3, 4, 3), (3, -4, 3), (0, 0, 3))],
    *[(f"{side}_indices_from", I, k) for side in ("tril", "triu") for k in (-1, 0, 2)],
    *[("unravel_index", x, shape, order) for x in (np.array([0, 5, 3]), 4)
      for shape in ((2, 3), 6, (1, 2, 3)) for order in "CF"],
    *[("ravel_multi_index", (K, K[::-1]), (3, 4), "raise", order) for order in "CF"],
    ("ravel_multi_index", (K - 1, K + 2), (3, 4), "wrap"),
    ("ravel_multi_index", (K - 1, K + 2), (3, 4), "clip"),
    # sets
    *[(name, a, b) for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")
      for a, b in ((I, I[:2]), (U, I), (V, W), (EMPTY, V), (ONE, EMPTY), (I, F), (B, B),
                   (np.array([1, np.nan, np.nan]), np.array([np.nan, 2, 1])))],
    ("intersect1d", I, I[1:], False, True), ("setdiff1d", K, np.array([1]), True),
    *[(f"unique_{part}", x) for part in ("counts", "inverse", "all")
      for x in (I, U, V, B, EMPTY, ONE, np.array([1, np.nan, np.nan, 1]))],
    *[("unique", x, *asked)
      for x in (I, U, V, B, C, EMPTY, ONE, np.array([1, np.nan, np.nan, 1]))
      for asked in ((), (True,), (False, True), (False, False, True), (True, True, True))],
    *[("trim_zeros", x, trim) for x in (np.array([0, 0, 1, 0, 2, 0]), np.zeros(3), EMPTY, Z, V)
      for trim in ("fb", "f", "B")],
    ("trim_zeros", Z, "fb", 0), ("trim_zeros", Z, "fb", (1,)),
    # elements put in and taken out
    *[("delete", x, at, axis) for x, axis in ((I, None), (I, 1), (T, -1), (I, 0))
      for at in (0, -1, 2, slice(None, None, 2), slice(1, 2), [0, 2], [-1, 1], [], np.array([1]))],
    ("delete", I, np.array([True, False, True]), 0),
    *[("insert", I, at, 9, axis) for axis in (None, 0, 1, -1)
      for at in (0, -1, 3, [1], [0, 2], [2, 0, 2], slice(0, 2))],
    ("insert", I, 1, I[0], 0), ("insert", I, 1, I[:, 0], 1), ("insert", I, [1], I[:, :1], 1),
    ("insert", I, [1, 2], I[:, :2], 1), ("insert", V, [1, 1, 3], [7, 8, 9]),
    ("insert", V, 2, [7, 8, 9]), ("insert", I, 1, [[1], [2], [3]], 1), ("insert", K, 1, 2.9),
    ("insert", I, np.array([True, False, True]), 5, 0), ("insert", T, 1, T[0], 0),
    *[("resize", x, shape) for x in (I, ONE, EMPTY, T) for shape in ((2, 5), 7, (0, 2), (2, 2, 2))],
    *[("compress", c, x, axis) for c in ([True, False, True], [0, 1])
      for x, axis in ((I, None), (I, 0), (T, 1), (I, -1))],
    *[("extract", c, x) for c, x in ((B, I), (I > 99, I), (I, F))],
    ("choose", K, [K, K + 10, K + 20]), ("choose", np.array([[0], [1]]), [V, W]),
    ("choose", np.array([0, 1]), Z[1:3, :2]), ("choose", K % 1, [K]),
    # arrays of others
    ("block", [[F, F], [F[:1], F[:1]]]), ("block", [V, W]), ("block", F), ("block", [1, 2.5]),
    ("block", [[[T, T]], [[T, T]]]), ("block", [[V], [W]]),
    ("packbits", B), ("packbits", B, 0), ("packbits", B, -1, "little"), ("packbits", I),
    ("packbits", np.zeros(0, bool)), ("packbits", T > 0, 1),
    ("unpackbits", U), ("unpackbits", U, None, 13), ("unpackbits", U, 0, -3, "little"),
    ("unpackbits", U[None], -1), ("unpackbits", U, None, 40),
    ("sort_complex", C), ("sort_complex", I), ("sort_complex", U),
    ("array_equiv", V, V[None]), ("array_equiv", V, W), ("array_equiv", V, I),
    ("array_equiv", 1, 1),
]  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=names_of(CASES))
def test_as_numpy(backend, case):
    check_exactly(backend, case)


#: NumPy changes its argument.
CHANGED = [
    ("put", I, [0, -1, 5], [7, 8]), ("put", I, 3, 99), ("put", F, [1, 2], [1, 2]),
    ("put", I, [-30, 30, 14], [1, 2, 3], "wrap"), ("put", I, [30, 14], [1, 2], "clip"),
    ("place", I, B, [1, 2, 3]), ("place", F, I > 0, [7]), ("place", I, I > 99, [1]),
    ("put_along_axis", I, np.argmax(I, 0)[None], 99, 0),
    ("put_along_axis", F, np.array([[0], [-1], [1]]), np.array([[1.5], [2], [3]]), 1),
    ("put_along_axis", I, np.array([[0, 1]]), 5, 1),
    ("fill_diagonal", I, 9), ("fill_diagonal", I, [1, 2]), ("fill_diagonal", I.T, 9, True),
    ("fill_diagonal", np.zeros((7, 2)), [1, 2, 3], True), ("fill_diagonal", np.zeros((3, 3, 3)), 4),
    ("fill_diagonal", np.zeros((7, 3)), 4),
]  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", CHANGED, ids=names_of(CHANGED))
def test_changed_copies(backend, case):
    name, a, *more = case
    want = a.copy()
    getattr(np, name)(want, *more)
    with td.config(backend=backend):
        assert_same(to_host(td.run(getattr(td, name)(a, *more))), want, label=name)


R, Q = np.array([0, 2, 1]), np.array([[1], [2]])
A = np.arange(60).reshape(3, 4, 5)
INDICES = [
    (R, R), (slice(None), R), (R, slice(None), R), (Q, R), (0, R), (R, 0), (slice(None), R, 0),
    (..., R), (None, R, 1), (R, None, R), ([0, -1], [1, 2]), (Q, slice(1, 3)), ([], slice(None)),
    (slice(None, None, 2), Q, R), (0, slice(None), R),
]  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_arrays_among_indices(backend, index):
    of_program = tuple(td.use(p) if isinstance(p, np.ndarray) else p for p in index)
    for chosen in (index, of_program):
        got = td.jit(lambda a: a[chosen], backend=backend)(A)
        assert_same(to_host(got), A[index])


def test_arrays_of_indices_index(backend):
    with td.config(backend=backend):
        m = td.use(A[0])
        for got, want in (
            (m[td.tril_indices(4, 0, 5)], A[0][np.tril_indices(4, 0, 5)]),
            (m[td.nonzero(m % 2)], A[0][np.nonzero(A[0] % 2)]),
            (m[td.ix_([0, 2], [1, 3])], A[0][np.ix_([0, 2], [1, 3])]),
        ):
            assert_same(to_host(td.run(got)), want)
    with pytest.raises(td.IndexOutOfBounds, match="index 7 is out of range for axis 1"):
        td.use(A)[:, np.array([7])]


def test_functions_of_indices_and_axes(backend):
    with td.config(backend=backend):
        for kind in (int, float):
            got = td.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=kind)
            want = np.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=kind)
            assert_same(to_host(td.run(got)), want)
        for k in (-1, 0, 2):
            got, want = td.mask_indices(4, td.triu, k), np.mask_indices(4, np.triu, k)
            assert_same(tuple(map(to_host, td.run(got))), want)
        whole = (T * 9).astype(int)
        assert_same(to_host(td.run(td.apply_over_axes(td.sum, whole, (0, -1)))),
                    np.apply_over_axes(np.sum, whole, (0, -1)))  # fmt: skip
        for mode, number, choices in (("wrap", K - 1, [K, K * 1.5]), ("clip", K - 1, [K, 5])):
            got = td.run(td.choose(number, choices, mode=mode))
            assert_same(to_host(got), np.choose(number, choices, mode=mode))
        assert_same(to_host(td.run(td.unique_values(N))), np.sort(N, axis=None))


def test_positions_of_the_run(backend):
    """The same with extents and positions that are not known when the program is traced."""

    @td.jit(backend=backend)
    def edited(v, k, mask, places):
        return (
            td.delete(v, k), td.delete(v, mask), td.delete(v, places), td.insert(v, k, 9.0),
            td.insert(v, 1, v), td.delete(v, slice(1, 3)), td.resize(v, 4),
            td.tril_indices(v.shape[0])[0], td.trim_zeros(v),
            td.insert(v, places, [7.0, 8.0]), td.insert(v, mask, 5.0),
            td.insert(v, [3, 3, -1], v[:3]), td.insert(v, slice(None, None, 2), 4.0),
        )  # fmt: skip

    mask, places = V > 0, np.array([1, -1])
    for k in (0, 2):
        got = edited(V, k, mask, places)
        want = (
            np.delete(V, k), np.delete(V, mask), np.delete(V, places), np.insert(V, k, 9.0),
            np.insert(V, 1, V), np.delete(V, slice(1, 3)), np.resize(V, 4),
            np.tril_indices(6)[0], V,
            np.insert(V, places, [7.0, 8.0]), np.insert(V, mask, 5.0),
            np.insert(V, [3, 3, -1], V[:3]), np.insert(V, slice(None, None, 2), 4.0),
        )  # fmt: skip
        for mine, other in zip(got, want, strict=True):
            assert_same(to_host(mine), other)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: td.delete(V, 6), td.IndexOutOfBounds, "index 6 is out of range for extent 6"),
        (lambda: td.delete(V, [True, False]), td.ShapeError, r"mask of shape \(2,\)"),
        (lambda: td.insert(V, [0, 9], 1), td.IndexOutOfBounds, "index 9 is out of range"),
        (lambda: td.put(V, [0], 1, "throw"), td.TracingError, "no mode 'throw'"),
        (lambda: td.fill_diagonal(V, 1), td.ShapeError, "rank 2 at least"),
        (lambda: td.fill_diagonal(T, 1), td.ShapeError, "equal extents"),
        (lambda: td.put_along_axis(I, K, 1, 0), td.ShapeError, "rank 1 for an array of rank 2"),
        (lambda: td.choose(K, []), td.TracingError, "0 choices"),
        (lambda: td.ix_(I), td.ShapeError, "rank 1, got rank 2"),
        (lambda: td.diag_indices_from(I), td.ShapeError, "equal extents"),
        (lambda: td.unravel_index(K, (2, 2), "K"), td.TracingError, "order is 'C' or 'F'"),
        (lambda: td.ravel_multi_index((K,), (2, 2)), td.ShapeError, "1 arrays of indices for 2"),
        (lambda: td.trim_zeros(V, "x"), td.TracingError, "trim is"),
        (lambda: td.packbits(F), td.DTypeError, "packbits packs"),
        (lambda: td.unpackbits(I), td.DTypeError, "unpacks bytes"),
    ],
)
def test_mistakes(make, error, says):
    with pytest.raises(error, match=says):
        make()

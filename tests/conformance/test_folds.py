"""fold, fold1, their segmented forms, and NumPy's reductions."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import (
    DTYPES,
    EXTENTS,
    FLOATS,
    affine,
    assert_same,
    dt,
    generator,
    matrix_product,
    scan_left,
    scan_steps,
    segments,
    small,
    td_dtype,
    wide,
)


def plus(x, y):
    return x + y


def last_nonzero(x, y):
    """Associative, not commutative, with an easy oracle."""
    return td.where(y != 0, y, x)


def last_nonzero_of(init, a):
    nonzero = np.concatenate([[init], a])
    return nonzero[np.max(np.flatnonzero(np.concatenate([[True], a != 0])))]


def first_nonzero(x, y):
    return td.where(x != 0, x, y)


@pytest.mark.parametrize("n", EXTENTS)
def test_fold_of_every_extent(check, n):
    a = wide("int64", n)
    sparse = np.where(np.arange(n) % 41 == 3, np.arange(n), 0)
    with np.errstate(all="ignore"):
        total = a.sum()
    nonzero = sparse[sparse != 0]
    check(
        {
            "+": (lambda: td.fold(plus, 0, a), np.array(total)),
            "init once": (lambda: td.fold(plus, 1000, a), np.array(total + 1000)),
            "max": (
                lambda: td.fold(lambda x, y: td.maximum(x, y), -5, sparse),
                np.array(max(-5, sparse.max(initial=-5))),
            ),
            "last": (
                lambda: td.fold(last_nonzero, -7, sparse),
                np.array(nonzero[-1] if nonzero.size else -7),
            ),
            "first": (lambda: td.fold(first_nonzero, -7, sparse), np.array(-7)),
            "first, of no init": (
                lambda: td.fold(first_nonzero, 0, sparse),
                np.array(nonzero[0] if nonzero.size else 0),
            ),
            "of a computed array": (
                lambda: td.fold(plus, 0, td.map(lambda x: x & 255, a)),
                np.array((a & 255).sum()),
            ),
            "a slice, backwards": (
                lambda: td.fold(last_nonzero, -7, td.use(sparse)[::-1]),
                np.array(nonzero[0] if nonzero.size else -7),
            ),
        }
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", ((33,), (3, 257), (257, 3), (0,), (4, 0), (1, 5000)))
def test_non_commutative_tuple_folds(check, shape):
    """Affine maps and 2×2 matrices; `init` is combined once, on the left."""
    a, b = wide("int64", shape, 1), wide("int64", shape, 2)
    c, d = wide("int64", shape, 3), wide("int64", shape, 4)
    check(
        {
            "affine": (
                lambda: td.fold(affine, (1, 0), td.zip(a, b)),
                tuple(p[..., -1] for p in scan_steps(affine, (1, 0), (a, b))),
            ),
            "affine, init": (
                lambda: td.fold(affine, (3, 5), td.zip(a, b)),
                tuple(p[..., -1] for p in scan_steps(affine, (3, 5), (a, b))),
            ),
            "matrices": (
                lambda: td.fold(matrix_product, (1, 2, 3, 4), td.zip(a, b, c, d)),
                tuple(p[..., -1] for p in scan_steps(matrix_product, (1, 2, 3, 4), (a, b, c, d))),
            ),
        }
    )


def test_non_commutative_fold_beyond_one_block(check):
    """70001 elements in one fold, and two rows of them."""
    n = 70001
    a = (generator("digits").integers(0, 2**31, n) | 1).astype("i8")
    b = wide("int32", n).astype("i8")
    slope, offset, modulus = 1, 0, 1 << 64
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        slope, offset = slope * x % modulus, (offset * x + y) % modulus
    want = tuple(np.array(v, "u8").view("i8") for v in (slope, offset))
    rows = np.stack([a, a]), np.stack([b, b])
    check(
        {
            "one": (lambda: td.fold(affine, (1, 0), td.zip(a, b)), want),
            "fold1": (lambda: td.fold1(affine, td.zip(a, b)), want),
            "rows": (
                lambda: td.fold(affine, (1, 0), td.zip(*rows)),
                tuple(np.full(2, v) for v in want),
            ),
            "columns": (
                lambda: td.fold(affine, (1, 0), td.zip(*(r.T for r in rows)), axis=0),
                tuple(np.full(2, v) for v in want),
            ),
        }
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", ((4, 5, 6), (2, 0, 3), (1, 33, 1)))
def test_axes(check, shape):
    a = wide("int64", shape)
    cases = {}
    for axis in (0, 1, 2, -1, -2, (0, 1), (1, 2), (0, 2), (-1, 0), (0, 1, 2), None):
        cases[f"fold {axis}"] = (
            lambda x=axis: td.fold(plus, 10, a, axis=x),
            np.asarray(a.sum(axis=axis) + 10),
        )
        cases[f"sum {axis}"] = (lambda x=axis: td.sum(a, axis=x), np.asarray(a.sum(axis=axis)))
        if a.size:
            cases[f"fold1 {axis}"] = (
                lambda x=axis: td.fold1(plus, a, axis=x),
                np.asarray(a.sum(axis=axis)),
            )
    check(cases)


def test_several_axes_fold_in_row_major_order(check):
    a, b = wide("int64", (3, 4, 5), 1), wide("int64", (3, 4, 5), 2)

    def sequential(x, y):
        return tuple(p[..., -1] for p in scan_steps(affine, (1, 0), (x, y)))

    check(
        {
            "None": (
                lambda: td.fold(affine, (1, 0), td.zip(a, b), axis=None),
                sequential(a.reshape(-1), b.reshape(-1)),
            ),
            "the last two": (
                lambda: td.fold(affine, (1, 0), td.zip(a, b), axis=(1, 2)),
                sequential(a.reshape(3, -1), b.reshape(3, -1)),
            ),
            "the first two": (
                lambda: td.fold(affine, (1, 0), td.zip(a, b), axis=(0, 1)),
                sequential(a.reshape(-1, 5).T, b.reshape(-1, 5).T),
            ),
            "the first": (
                lambda: td.fold(affine, (1, 0), td.zip(a, b), axis=0),
                sequential(np.moveaxis(a, 0, -1), np.moveaxis(b, 0, -1)),
            ),
        }
    )


def test_an_empty_axis_gives_init(check):
    check(
        {
            "rank 1": (lambda: td.fold(plus, 7, np.zeros(0, "i4")), np.array(7, "i4")),
            "rows": (lambda: td.fold(plus, 7, np.zeros((3, 0), "f4")), np.full(3, 7, "f4")),
            "columns": (lambda: td.fold(plus, 7, np.zeros((0, 3)), axis=0), np.full(3, 7.0)),
            "no rows": (lambda: td.fold(plus, 7, np.zeros((0, 3))), np.zeros(0)),
            "all": (lambda: td.fold(plus, 7, np.zeros((2, 0)), axis=None), np.array(7.0)),
            "tuple": (
                lambda: td.fold(affine, (3, 4), td.zip(np.zeros(0, "i8"), np.zeros(0, "i8"))),
                (np.array(3), np.array(4)),
            ),
            "of nothing": (lambda: td.fold(plus, 7, np.zeros((0, 0)), axis=1), np.zeros(0)),
        }
    )


@pytest.mark.parametrize("n", [n for n in EXTENTS if n])
def test_fold1_of_every_extent(check, n):
    a = wide("int32", n)
    keys = np.arange(n) % 17
    check(
        {
            "max": (lambda: td.fold1(lambda x, y: td.maximum(x, y), a), np.array(a.max())),
            "first": (lambda: td.fold1(lambda x, y: x, a), np.array(a[0])),
            "last": (lambda: td.fold1(lambda x, y: y, a), np.array(a[-1])),
            "pairs": (
                lambda: td.fold1(
                    lambda p, q: (td.minimum(p[0], q[0]), p[1] + q[1]), td.zip(a, keys)
                ),
                (np.array(a.min()), np.array(keys.sum())),
            ),
        }
    )


LENGTHS = {
    "ragged": (3, 0, 1, 7, 0, 0, 2, 20),
    "all empty": (0, 0, 0),
    "no segments": (),
    "one": (33,),
    "ones": (1,) * 33,
    "empty ends": (0, 5, 5, 0),
    "long": (5000, 0, 1, 40000, 25000),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("label", LENGTHS)
def test_segmented_folds(check, label):
    lengths = np.array(LENGTHS[label], "i8")
    n = int(lengths.sum())
    a = wide("int64", n, 1)
    two = np.stack([a, a[::-1]])
    pieces = segments(lengths)
    zeros = np.where(np.arange(n) % 3 == 1, a, 0)
    sums = np.array([a[s].sum() for s in pieces], "i8")
    cases = {
        "sum": (lambda: td.fold_seg(plus, 0, a, lengths), sums),
        "init": (lambda: td.fold_seg(plus, 5, a, lengths), sums + 5),
        "int32 lengths": (lambda: td.fold_seg(plus, 0, a, lengths.astype("i4")), sums),
        "last": (
            lambda: td.fold_seg(last_nonzero, -7, zeros, lengths),
            np.array([last_nonzero_of(-7, zeros[s]) for s in pieces], "i8"),
        ),
        "rows": (
            lambda: td.fold_seg(plus, 0, two, lengths),
            np.stack([np.array([r[s].sum() for s in pieces], "i8") for r in two]),
        ),
    }
    if n < 1000:
        b = wide("int64", n, 2)
        parts = [scan_steps(affine, (3, 4), (a[s], b[s])) for s in pieces]
        cases["affine"] = (
            lambda: td.fold_seg(affine, (3, 4), td.zip(a, b), lengths),
            tuple(np.array([p[k][-1] for p in parts], "i8") for k in (0, 1)),
        )
    if lengths.size and lengths.min() > 0:
        cases["fold1_seg"] = (lambda: td.fold1_seg(plus, a, lengths), sums)
        cases["fold1_seg first"] = (
            lambda: td.fold1_seg(lambda x, y: x, a, lengths),
            np.array([a[s][0] for s in pieces]),
        )
    check(cases)


@pytest.mark.parametrize("n", [1, 63, 64, 200, 8192, 8193])
def test_arguments_of_costly_elements(run, n):
    """Rows of one block hold their elements: the first of equal ones is found, or the first NaN."""
    a = np.round(np.sin(np.arange(3.0 * n)), 1).reshape(3, n)
    a[1, n // 2 :: 7] = np.nan
    near = lambda w: td.exp(w[0, -1] - w[0, 1])
    for f in (
        lambda a: td.exp(a),
        lambda a: td.stencil(near, a),
        lambda a: td.exp(a).reshape(3, -1),
    ):
        for fold in (td.argmax, td.argmin, td.nanargmax):
            got = run(fold(f(td.use(a)), axis=1))
            assert_same(got, run(fold(td.compute(f(td.use(a))), axis=1)))


@pytest.mark.parametrize("label", ["short", "one is long", "all"])
def test_segments_of_costly_elements(run, label):
    """Those of a few short segments are computed in vectors, before they are combined."""
    lengths = np.arange(300) % 9
    lengths[64:128] = {"short": 4, "one is long": 4, "all": 65}[label]
    lengths[70] += 5000 * (label == "one is long")
    n = int(lengths.sum())
    two = td.use(np.stack([np.linspace(-1, 1, n), np.linspace(3, 4, n)]))
    index = generator("index").integers(0, n, n)

    def doublings(x):
        double = lambda s: (2.0 * s[0], s[1] + 1)
        return td.while_loop(lambda s: s[0] < 20.0, double, (td.abs(x) + 1.0, 0))[1]

    pairs = lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1]))
    for add, start, elements in (
        (plus, 0, td.exp(two)),
        (pairs, (0.0, 0.0), td.zip(td.sin(two), td.exp(two)[:, index])),
        (plus, 0, td.map(doublings, two)),
    ):
        got = run(td.fold_seg(add, start, elements, lengths))
        assert_same(got, run(td.fold_seg(add, start, td.compute(elements), lengths)))


def test_segment_lengths_of_other_types_and_computed(check):
    a = small("float32", 12)
    lengths = np.array([5, 0, 7], "u1")
    want = np.array([a[:5].sum(), 0, a[5:].sum()], "f4")
    check(
        {
            "uint8": (lambda: td.fold_seg(plus, 0, a, lengths), want),
            "computed": (
                lambda: td.fold_seg(plus, 0, td.use(a) * 2, td.map(lambda n: n, lengths)),
                want * 2,
            ),
        }
    )


# ---------------------------------------------------------------------------------------------
# NumPy's reductions

REDUCTIONS = (
    "sum",
    "prod",
    "min",
    "max",
    "all",
    "any",
    "mean",
    "argmin",
    "argmax",
    "count_nonzero",
)


def reducible(name, kind):
    return not (kind.startswith("complex") and name in ("min", "max", "argmin", "argmax"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", DTYPES)
def test_reductions_of_every_type(check, kind):
    a = small(kind, (3, 37), low=-2, high=4)
    few = np.where(small("bool", (3, 37), 5) & (np.arange(37) % 9 == 0), 2, 1).astype(dt(kind))
    cases = {}
    for name in REDUCTIONS:
        if not reducible(name, kind):
            continue
        theirs, mine = getattr(np, name), getattr(td, name)
        b = few if name == "prod" else a
        ulps = 1 if name == "mean" else 0
        for axis in (None, 0, 1):
            cases[f"{name} {axis}"] = (
                lambda f=mine, b=b, x=axis: f(b, axis=x),
                np.asarray(theirs(b, axis=axis)),
                ulps,
            )
    check(cases)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", ((97,), (5, 7), (2, 3, 4), (0, 3), (1, 1)))
def test_reductions_of_every_axis(check, shape):
    a = small("int32", shape, low=-99, high=99)
    axes = [None, *range(len(shape)), -1]
    if len(shape) == 3:
        axes += [(0, 2), (1, 2), (-1, 0), (0, 1, 2)]
    cases = {}
    for name in REDUCTIONS:
        theirs, mine = getattr(np, name), getattr(td, name)
        for axis in axes:
            if name in ("argmin", "argmax") and isinstance(axis, tuple):
                continue
            counted = shape if axis is None else [shape[x] for x in np.atleast_1d(axis)]
            if name in ("min", "max", "argmin", "argmax", "mean") and 0 in counted:
                continue
            for keep in (False, True):
                cases[f"{name} {axis} {keep}"] = (
                    lambda f=mine, x=axis, k=keep: f(a, axis=x, keepdims=k),
                    np.asarray(theirs(a, axis=axis, keepdims=keep)),
                    1 if name == "mean" else 0,
                )
    check(cases)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", ((5000,), (70001,), (257, 33), (2, 70001), (70001, 2), (97, 257)))
def test_reductions_of_large_arrays(check, shape):
    a = wide("int32", shape, 1)
    f = small("float32", shape, 2)
    cases = {}
    for axis in (None, 0, -1):
        cases |= {
            f"sum {axis}": (lambda x=axis: td.sum(a, axis=x), np.asarray(a.sum(axis=axis))),
            f"float sum {axis}": (lambda x=axis: td.sum(f, axis=x), np.asarray(f.sum(axis=axis))),
            f"max {axis}": (lambda x=axis: td.max(f, axis=x), np.asarray(f.max(axis=axis))),
            f"argmin {axis}": (
                lambda x=axis: td.argmin(f, axis=x),
                np.asarray(f.argmin(axis=axis)),
            ),
            f"argmax {axis}": (
                lambda x=axis: td.argmax(a, axis=x),
                np.asarray(a.argmax(axis=axis)),
            ),
            f"any {axis}": (
                lambda x=axis: td.any(td.use(a) == 0, axis=x),
                np.asarray((a == 0).any(axis=axis)),
            ),
        }
    check(cases)


def test_reductions_of_nan_and_of_nothing(check):
    a = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]], "f4")
    empty = np.zeros((0,), "f4")
    check(
        {
            "min": (lambda: td.min(a, axis=1), a.min(axis=1)),
            "max": (lambda: td.max(a, axis=1), a.max(axis=1)),
            "argmin": (lambda: td.argmin(a, axis=1), a.argmin(axis=1)),
            "argmax": (lambda: td.argmax(a, axis=1), a.argmax(axis=1)),
            "sum": (lambda: td.sum(a, axis=1), a.sum(axis=1)),
            "any of nan": (lambda: td.any(a[:, 1:2]), np.array(True)),
            "sum of nothing": (lambda: td.sum(empty), np.array(0, "f4")),
            "prod of nothing": (lambda: td.prod(empty), np.array(1, "f4")),
            "all of nothing": (lambda: td.all(empty), np.array(True)),
            "any of nothing": (lambda: td.any(empty), np.array(False)),
            "mean of nothing": (lambda: td.mean(empty), np.array(np.nan, "f4")),
            "count of nothing": (lambda: td.count_nonzero(empty), np.array(0)),
        }
    )


def test_defaults_of_the_page(check):
    """NumPy's names reduce everything by default, folds the last axis."""
    a = small("int64", (4, 5))
    check(
        {
            "sum": (lambda: td.sum(a), np.array(a.sum())),
            "max": (lambda: td.max(a), np.array(a.max())),
            "argmax": (lambda: td.argmax(a), np.array(a.argmax())),
            "fold": (lambda: td.fold(plus, 0, a), a.sum(axis=-1)),
            "fold1": (lambda: td.fold1(plus, a), a.sum(axis=-1)),
        }
    )


def test_accuracy_of_float_sums(run):
    """Relative error at most 1e-6 for 2²² random float32 in [0, 1)."""
    a = generator("accuracy").random(1 << 22, dtype="f4")
    exact = a.sum(dtype="f8")
    total, mean, folded = run((td.sum(a), td.mean(a), td.fold(plus, 0, a)))
    assert total.dtype == np.float32
    assert abs(float(total) - exact) <= 1e-6 * exact
    assert abs(float(folded) - exact) <= 1e-6 * exact
    assert abs(float(mean) - exact / a.size) <= 1e-6


@pytest.mark.parametrize("kind", FLOATS)
def test_deterministic_sums_repeat(backend, kind):
    """`deterministic=True` pins the bits: twice the same, run after run."""
    a = generator("deterministic").random(20000).astype(dt(kind))
    with td.config(deterministic=True):
        first = td.run(td.sum(a), backend=backend)
        second = td.run(td.sum(a), backend=backend)
    assert_same(first, second)
    assert first.dtype == dt(kind)
    tolerance = {"float16": 0.01, "bfloat16": 0.1}.get(kind, 1e-5)
    assert abs(float(first) / a.astype("f8").sum() - 1) <= tolerance


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", ((40, 30), (100, 5), (3, 70), (1, 9), (65, 2)))
def test_folds_of_folds_of_stored_arrays(check, shape):
    """Short folds become loops of their readers; what they read lives until then."""
    a = small("int64", shape)
    stored = {
        "compute": (td.compute, a),
        "cumsum": (lambda v: td.cumsum(v, axis=0), a.cumsum(0)),
        "sort": (lambda v: td.sort(v, axis=1), np.sort(a, 1)),
        "product": (lambda v: td.matmul(v, td.transpose(v)), a @ a.T),
    }
    check(
        {
            f"{name} {axis}": (
                lambda f=f, k=axis: td.max(td.sum(f(td.use(a)), axis=k)),
                np.asarray(value.sum(axis).max()),
            )
            for name, (f, value) in stored.items()
            for axis in (0, 1)
        }
    )


def test_several_reductions_of_one_array(check):
    a = small("float64", (33, 97))
    used = td.use(a)
    check(
        {
            "sum": (lambda: td.sum(used), np.array(a.sum())),
            "min": (lambda: td.min(used), np.array(a.min())),
            "max": (lambda: td.max(used), np.array(a.max())),
            "squares": (lambda: td.sum(used * used), np.array((a * a).sum())),
            "normalised": (
                lambda: (used - td.min(used)) / (td.max(used) - td.min(used)),
                (a - a.min()) / (a.max() - a.min()),
            ),
            "rows": (
                lambda: used - td.max(used, axis=1, keepdims=True),
                a - a.max(axis=1, keepdims=True),
            ),
        }
    )


def test_typed_init_and_epilogue(check):
    a = small("int8", 97)
    check(
        {
            "weak": (lambda: td.fold(plus, 3, a), np.array(a.sum(dtype="i1") + np.int8(3))),
            "mapped after": (
                lambda: td.fold(plus, 0, td.cast(a, td.int64)) * 2 + 1,
                np.array(a.sum() * 2 + 1),
            ),
            "mean then root": (
                lambda: td.sqrt(td.mean(td.use(a) * 1.0) + 16),
                np.array(np.sqrt(a.mean() + 16)),
                2,
            ),
            "counts": (
                lambda: td.fold(plus, td_dtype("int16")(5), td.cast(a, td.int16)),
                np.array(a.sum(dtype="i2") + np.int16(5)),
            ),
        }
    )


def test_folds_and_scan_steps_agree_with_numpy():
    """The oracles themselves."""
    a = wide("int64", (3, 9))
    assert_same(scan_left(lambda x, y: x + y, None, a), np.cumsum(a, axis=-1))
    assert_same(scan_left(lambda x, y: x + y, 5, a)[..., -1], a.sum(axis=-1) + 5)


def test_deterministic_is_taken_by_all_that_adds_up(backend):
    x, lengths = small("float64", (3, 4)), np.array([1, 3])
    plus = lambda a, b: a + b
    for make in (
        lambda **k: td.sum(x, **k), lambda **k: td.mean(x, axis=1, **k),
        lambda **k: td.std(x, **k), lambda **k: td.cumsum(x, axis=1, **k),
        lambda **k: td.scanl(plus, 0, x, **k), lambda **k: td.scanr_total(plus, 0.0, x, **k)[1],
        lambda **k: td.fold_seg(plus, 0.0, x, lengths, **k), lambda **k: td.dot(x, x.T, **k),
        lambda **k: td.bincount(lengths, weights=x[0, :2], **k),
        lambda **k: td.strassen(x, x.T, **k), lambda **k: td.correlate(x, x[:2, :2], **k),
    ):  # fmt: skip
        assert_same(td.run(make(deterministic=True), backend=backend),
                    td.run(make(), backend=backend))  # fmt: skip
    with pytest.raises(td.TracingError, match="deterministic"):
        td.map(lambda v: v, x, deterministic=True)


def test_reductions_of_one_array_are_one_kernel():
    """Also those that start from a number and those that cannot: 0 + …, and the largest of some."""
    every = td.jit(lambda v: (td.sum(v), td.max(v), td.min(v), td.prod(v)), backend="native")
    x = small("float32", (31, 47))
    assert "4 operations written, 1 kernel launched" in every.lower(x).explain()
    for got, alone in zip(every(x), (td.sum, td.max, td.min, td.prod), strict=True):
        assert_same(got, td.run(alone(x), backend="native"))
    with pytest.raises(td.ShapeError, match="max of an empty axis"):
        every(x[:0])


def best_of(a, b):
    """The pair with the greater value; of equal values, and NaN, that with the lower key."""
    (x, i), (y, j) = a, b
    none = td.isnan(x) & td.isnan(y)
    take = (y > x) | (td.isnan(y) & ~td.isnan(x)) | (((x == y) | none) & (j < i))
    return td.where(take, y, x), td.where(take, j, i)


@pytest.mark.parametrize("n", [3, 100])
def test_pairs_whose_keys_are_no_positions(backend, n):
    """`best_of` is what `argmax` with its value folds, where keys are positions."""
    x, keys = np.ones((n, 2)), np.arange(2 * n)[::-1].reshape(n, 2) // 4
    for axis in (0, 1):
        value, key = td.run(td.fold1(best_of, td.zip(x, keys), axis), backend=backend)
        np.testing.assert_array_equal(key, keys.min(axis))
        np.testing.assert_array_equal(value, 1)

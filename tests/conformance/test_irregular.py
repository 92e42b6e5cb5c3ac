"""filter, compact, expand, sorting, unique, histogram."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import COMPLEXES, DTYPES, EXTENTS, assert_same, dt, generator, small, to_host, wide


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", EXTENTS)
def test_filter_and_compact(check, n):
    a = wide("int32", n)
    f = small("float32", n)
    check(
        {
            "filter": (
                lambda: td.filter(lambda x: x % 3 == 0, a),
                (a[a % 3 == 0], np.array((a % 3 == 0).sum())),
            ),
            "all": (lambda: td.filter(lambda x: x == x - 0, a), (a, np.array(n))),
            "none": (lambda: td.filter(lambda x: (x > 0) & (x < 0), a), (a[:0], np.array(0))),
            "compact": (lambda: td.compact(a > 0, f), (f[a > 0], np.array((a > 0).sum()))),
            "computed mask": (
                lambda: td.compact(td.use(f) != 0, td.use(a) ^ 5),
                ((a ^ 5)[f != 0], np.array((f != 0).sum())),
            ),
            "of computed": (
                lambda: td.filter(lambda x: x > 3, td.map(lambda x: x & 7, a)),
                ((a & 7)[(a & 7) > 3], np.array(((a & 7) > 3).sum())),
            ),
        }
    )


def test_results_of_filter_downstream(check):
    a = wide("int32", 5000)
    kept = a[a > 0]

    def program():
        values, count = td.filter(lambda x: x > 0, a)
        return {
            "sum": td.sum(values),
            "scan": td.scanl1(lambda x, y: td.maximum(x, y), values),
            "reversed": td.reverse(values, 0),
            "mapped": values * 2,
            "count": count + 1,
            "extent": td.fill((values.shape[0],), td.int8(1)),
            "positions": td.iota(values.shape[0]),
            "again": td.filter(lambda x: x % 2 == 0, values)[0],
        }

    want = {
        "sum": np.array(kept.sum(dtype="i8")),
        "scan": np.maximum.accumulate(kept),
        "reversed": kept[::-1],
        "mapped": kept * np.int32(2),
        "count": np.array(kept.size + 1),
        "extent": np.ones(kept.size, "i1"),
        "positions": np.arange(kept.size),
        "again": kept[kept % 2 == 0],
    }
    check({"program": (program, want)})


def test_filter_of_tuples(check):
    a, b = wide("int32", 257, 1), small("float64", 257, 2)
    keep = (a > 0) & (b != 0)
    check(
        {
            "filter": (
                lambda: td.filter(lambda t: (t[0] > 0) & (t[1] != 0), td.zip(a, b)),
                ((a[keep], b[keep]), np.array(keep.sum())),
            ),
            "indices": (
                lambda: td.filter(lambda t: t[1] > 0, td.indexed(a))[0],
                (np.flatnonzero(a > 0), a[a > 0]),
            ),
        }
    )


def test_filter_compiled_once_for_every_count(backend):
    traces = []

    @td.jit(backend=backend)
    def positive(a):
        traces.append(1)
        values, count = td.filter(lambda x: x > 0, a)
        return values * 10, count, td.sum(values)

    for n in (2, 33, 5000, 0):
        a = wide("int64", n, 4)
        kept = a[a > 0]
        want = (kept * 10, np.array(kept.size), np.array(kept.sum()))
        assert_same(positive(a), want, label=f"{n}")
    assert len(traces) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", (0, 1, 2, 33, 257, 5000))
def test_expand(check, n):
    a = generator("expand", n).integers(0, 5, n)
    want = np.concatenate([np.zeros(0, "i8"), *(x * 10 + np.arange(x) for x in a)])
    check(
        {
            "expand": (lambda: td.expand(lambda x: x, lambda x, k: x * 10 + k, a), want),
            "nothing": (lambda: td.expand(lambda x: x * 0, lambda x, k: x, a), a[:0]),
            "always two": (
                lambda: td.expand(lambda x: 2, lambda x, k: (x, k), a),
                (np.repeat(a, 2), np.tile([0, 1], n)),
            ),
            "summed": (
                lambda: td.sum(td.expand(lambda x: x, lambda x, k: x * 10 + k, a)),
                np.array(want.sum()),
            ),
        }
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [n for n in DTYPES if n not in COMPLEXES])
def test_sort_of_every_type(check, name):
    a = wide(name, (3, 257))
    if dt(name).kind == "f" or name == "bfloat16":
        a[:, ::50] = [np.nan, np.inf, -np.inf, 0.0, 1.0, np.nan]
    # NumPy's order of bfloat16 does not know NaN.
    b = a.astype(np.float32) if name == "bfloat16" else a
    check(
        {
            "last axis": (lambda: td.sort(a), np.sort(b).astype(a.dtype)),
            "axis 0": (lambda: td.sort(a, axis=0), np.sort(b, axis=0).astype(a.dtype)),
            "backwards": (lambda: td.sort(td.use(a)[:, ::-1]), np.sort(b).astype(a.dtype)),
            "indices": (lambda: td.argsort(a), np.argsort(b, kind="stable")),
            "unique": (lambda: td.unique(a), np.unique(b).astype(a.dtype)),
        }
    )


@pytest.mark.parametrize("n", EXTENTS)
def test_sort_and_argsort_of_every_extent(check, n):
    a = generator("sort", n).permutation(n).astype("i4")
    check(
        {
            "sort": (lambda: td.sort(a), np.arange(n, dtype="i4")),
            "argsort": (lambda: td.argsort(a), np.argsort(a)),
            "downstream": (lambda: td.sort(td.use(a) * 2) + 1, np.arange(n, dtype="i4") * 2 + 1),
            "gathered": (lambda: td.gather(a, td.argsort(a)), np.arange(n, dtype="i4")),
        }
    )


def test_argsort_of_axes_and_ties(run):
    a = small("int16", (7, 40))
    rows, columns = run((td.argsort(a), td.argsort(a, axis=0)))
    assert rows.dtype == np.int64
    assert_same(np.take_along_axis(a, rows, 1), np.sort(a))
    assert_same(np.take_along_axis(a, columns, 0), np.sort(a, axis=0))
    assert_same(np.sort(rows), np.broadcast_to(np.arange(40), (7, 40)).copy())


def test_unique(check):
    cases = {}
    for n in (0, 1, 2, 33, 5000):
        a = small("int32", n)
        cases[f"{n}"] = (lambda a=a: td.unique(a), np.unique(a))
        cases[f"size of {n}"] = (
            lambda a=a: td.fill((td.unique(a).shape[0],), 1),
            np.ones(np.unique(a).size, "i8"),
        )
    check(cases)


def test_unique_with_more_than_the_values(backend):
    """Of tuples, and by NumPy's function in what is compiled; NaN is one value, or each is."""
    first, second = np.array([1, 1, 0, 1]), np.array([2, 2, 1, 0])
    found = td.run(td.unique(td.zip(first, second), True, True, True), backend=backend)
    values, *others = found
    assert [to_host(part).tolist() for part in values] == [[0, 1, 1], [1, 0, 2]]
    assert [to_host(x).tolist() for x in others] == [[2, 3, 0], [2, 2, 0, 1], [1, 1, 2]]
    a = np.array([[3.0, np.nan], [np.nan, 3.0]])
    counted = td.jit(lambda a: np.unique(a, return_inverse=True, return_counts=True),
                     backend=backend)  # fmt: skip
    for got, want in zip(counted(a), np.unique(a, return_inverse=True, return_counts=True),
                         strict=True):  # fmt: skip
        assert_same(to_host(got), want)
    apart = td.unique(a, return_counts=True, equal_nan=False)
    assert to_host(td.run(apart, backend=backend)[1]).tolist() == [2, 1, 1]


def test_histogram(check):
    """Counts and edges as NumPy's: a number of bins, a range, explicit edges."""
    a = small("int64", 5000, low=0, high=100)
    f = generator("histogram").integers(0, 1000, 5000) / 8 + 0.01
    edges = np.array([0.0, 10.0, 15.0, 60.0, 80.0])
    cases = {}
    for label, values, options in (
        ("default", f, {}),
        ("bins", f, {"bins": 7}),
        ("integers", a, {"bins": 20}),
        ("range", f, {"bins": 16, "range": (3.0, 99.0)}),
        ("outside", f, {"bins": 4, "range": (500.0, 600.0)}),
        ("edges", f, {"bins": edges}),
        ("integers in edges", a, {"bins": edges}),
        ("nothing", f[:0], {"bins": 3, "range": (0.0, 1.0)}),
        ("integers as weights", f, {"bins": 7, "weights": a}),
        ("weights", f, {"bins": edges, "weights": small("float32", 5000)}),
        ("density", a, {"bins": edges, "density": True}),
        ("density of weights", f, {"bins": 4, "density": True, "weights": a}),
        ("float32", f.astype("f4"), {"bins": 9}),
        ("range of float32", f.astype("f4"), {"bins": 7, "range": (0, 99.5)}),
        ("float16", f.astype("f2"), {"bins": 9}),
        ("range of float16", f.astype("f2"), {"bins": 7, "range": (0, 99.5)}),
    ):
        counts, bounds = np.histogram(values, **options)
        cases[label] = (lambda v=values, o=options: td.histogram(v, **o)[0], counts)
        cases[f"edges of {label}"] = (
            lambda v=values, o=options: td.histogram(v, **o)[1],
            bounds,
            4,
        )
    check(cases)


def test_histograms_that_are_none():
    with pytest.raises(td.ShapeError, match="the edges must not descend"):
        td.histogram(np.arange(4), [3, 2, 1])
    for given in (3, (1,), (1, 2, 3), "ab", td.use(np.arange(2))):
        with pytest.raises(td.TracingError, match="range is a pair of numbers") as said:
            td.histogram(np.arange(4), 3, given)
        assert "range=(low, high)" in said.value.hint
    with pytest.raises(td.DTypeError, match="bincount needs real weights"):
        td.bincount(np.arange(4), weights=np.ones(4) * 1j)


def test_isin(check, backend):
    a = small("int32", 60).reshape(6, 10)
    f = np.array([1.0, np.nan, 3.5, -0.0, np.inf])
    z = np.array([1 + 1j, 2, 1 - 1j])
    wide = np.array([0, 1, 2**63, 2**64 - 1], "u8")
    cases = {
        f"{label}, {'not ' * invert}in": (
            lambda x=x, values=values, i=invert: td.isin(x, values, invert=i),
            np.isin(x, values, invert=invert),
        )
        for label, x, values in (
            ("numbers", a, [3, 1, -7]),
            ("one number", a, 3),
            ("nothing", a, []),
            ("an array", a, a[:2]),
            ("floats", f, [np.nan, 0.0, np.inf, 3.5]),
            ("integers in floats", a, f),
            ("complex", z, [1 + 1j, 2 + 0j]),
            ("what no type holds both of", wide, [-1, 1]),
            ("narrow integers", small("int8", 60), [-128, 3, 300, -300]),
            ("at the end of a type", wide, np.array([2**64 - 1, 2**64 - 5], "u8")),
            ("far apart", a, [-(2**62), 3, 2**62]),
            ("truth values", a > 0, [1, 5]),
            ("integers in floats, from a list", f, [3, 0]),
            ("one element", np.int64(3), [1, 3]),
        )
        for invert in (False, True)
    }
    cases["computed"] = (lambda: td.isin(a, td.use(a[:2]) + 1), np.isin(a, a[:2] + 1))
    cases["a set"] = (lambda: td.isin(a, {1, 3}), np.isin(a, [1, 3]))
    cases["in a kernel"] = (lambda: td.map(lambda x: td.isin(x, (1, 3)), a), np.isin(a, [1, 3]))
    cases["in a kernel, of the host"] = (
        lambda: td.generate(9, lambda i: td.isin(i, a)),
        np.isin(np.arange(9), a),
    )
    check(cases)
    member = td.jit(lambda n, values: td.isin(n, values), backend=backend)
    assert member(3, a) == (3 in a) and not member(1000, a)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_of_either_sign_is_sorted_last(run, dtype):
    """A radix sort that compares bits would put NaN with a sign first; 0 / 0 on a GPU has one."""
    a = np.array([3, np.nan, -np.inf, -np.nan, 0.0, np.inf, -1], dtype)
    assert np.signbit(a[3]) and not np.signbit(a[1])
    assert_same(run(td.argsort(a)), np.argsort(a, kind="stable"))
    assert_same(run(td.sort(a)), np.sort(a))
    zeros = td.use(np.array([0, 1, 0, 2], dtype))
    assert_same(run(td.argsort(zeros / zeros)), np.array([1, 3, 0, 2]))


def test_selections_by_one_mask_share_its_places():
    """The scan of the mask is computed once; only as many elements as are selected are stored."""

    def select(x, low):
        return x[x > low], td.nonzero(x > low)[0], td.compact(x > low, 2 * x)

    x = np.random.default_rng(5).random(100_000)
    program = td.jit(select, backend="native").lower(x, 0.7)
    kept = np.flatnonzero(x > 0.7)
    values, places, (twice, count) = program(x, 0.7)
    assert np.array_equal(values, x[kept]) and np.array_equal(places, kept)
    assert np.array_equal(twice, 2 * x[kept]) and count == len(kept)
    text = program.explain()
    assert text.count(": positions #") == 1 and "writes     float64[n1]" not in text, text


@pytest.mark.parametrize("known", [True, False, 0, 1, 2, 0.0, 1.0, 0.5])
def test_truth_values_compared_with_numbers(check, known):
    x = np.array([True, False])
    cases = {
        "==": (lambda: td.use(x) == known, x == known),
        "!=": (lambda: td.use(x) != known, x != known),
        "reversed": (lambda: known == td.use(x), known == x),
        "number ==": (lambda: td.cast(td.use(x), td.int8) == known, x.astype("int8") == known),
        "number !=": (lambda: td.cast(td.use(x), td.float32) != known, x.astype("f4") != known),
    }
    if isinstance(known, bool):
        cases["^"] = lambda: td.use(x) ^ known, x ^ known
    check(cases)

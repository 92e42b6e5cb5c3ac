"""Making arrays (docs/reference.md, "Arrays")."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import DTYPES, EXTENTS, assert_same, dt, small, td_dtype, to_host, wide


@pytest.mark.parametrize("name", DTYPES)
def test_use_and_unit(check, name):
    cases = {}
    for shape in ((), (0,), (1,), (33,), (3, 4), (0, 5), (2, 0, 3), (2, 3, 4, 5)):
        a = wide(name, shape)
        cases[f"use{shape}"] = (lambda a=a: td.use(a), a)
    value = wide(name, 3)[0]
    cases["unit"] = (lambda: td.unit(value), np.array(value))
    cases["use of a scalar"] = (lambda: td.use(td.the(td.unit(value))), np.array(value))
    check(cases)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", DTYPES)
def test_fill(check, name):
    value = small(name, 1, low=3)[0]
    check(
        {
            f"fill{shape}": (
                lambda s=shape: td.fill(s, td_dtype(name)(value.item())),
                np.full(shape, value),
            )
            for shape in ((), (0,), (1,), (97,), (3, 5), (0, 2), (2, 3, 4))
        }
    )


def test_fill_with_an_expression(check):
    a = np.arange(6.0).reshape(2, 3)
    used = td.use(a)
    check(
        {
            "the": (lambda: td.fill((2,), td.the(td.sum(a))), np.full(2, 15.0)),
            "the + 1": (lambda: td.fill((2,), td.the(td.sum(a)) + 1), np.full(2, 16.0)),
            "element": (lambda: td.map(lambda x: x + used[1, 2], a), a + 5),
            "extents": (lambda: td.fill((used.shape[1], used.shape[0] + 1), 7), np.full((3, 3), 7)),
        }
    )


def test_generate_of_every_rank(check):
    cases = {
        "rank 0": (lambda: td.generate((), lambda: 5), np.array(5)),
        "rank 1, extent as an int": (lambda: td.generate(4, lambda i: i), np.arange(4)),
    }
    for shape in ((0,), (1,), (33,), (5, 7), (0, 7), (7, 0), (1, 1), (3, 4, 5), (2, 3, 1, 4)):
        grid = np.indices(shape)
        want = sum((k + 1) * (10**k) * g for k, g in enumerate(grid))

        def element(*index):
            return sum((k + 1) * (10**k) * i for k, i in enumerate(index))

        cases[f"generate{shape}"] = (lambda s=shape: td.generate(s, element), want)
    check(cases)


@pytest.mark.sample(4)
@pytest.mark.parametrize("n", EXTENTS)
def test_iota_and_generate_of_every_extent(check, n):
    check(
        {
            "iota": (lambda: td.iota(n), np.arange(n)),
            "uint8": (lambda: td.iota(n, dtype=td.uint8), np.arange(n).astype("u1")),
            "float32": (lambda: td.iota(n, dtype=td.float32), np.arange(n, dtype="f4")),
            "generate": (lambda: td.generate((n,), lambda i: i * i - 3), np.arange(n) ** 2 - 3),
            "columns": (
                lambda: td.generate((3, n), lambda i, j: i * 1000 + j),
                np.arange(3)[:, None] * 1000 + np.arange(n),
            ),
            "rows": (
                lambda: td.generate((n, 3), lambda i, j: i * 1000 + j),
                np.arange(n)[:, None] * 1000 + np.arange(3),
            ),
        }
    )


ARANGES = {
    "arange(7)": (7,),
    "arange(0)": (0,),
    "arange(-3)": (-3,),
    "arange(2, 9)": (2, 9),
    "arange(9, 2)": (9, 2),
    "arange(2, 20, 3)": (2, 20, 3),
    "arange(20, 2, -3)": (20, 2, -3),
    "arange(5.0)": (5.0,),
    "arange(0.5, 3.0)": (0.5, 3.0),
    "arange(0, 2, 0.25)": (0, 2, 0.25),
}


def test_arange_linspace_eye(check):
    cases = {t: (lambda a=a: td.arange(*a), np.arange(*a)) for t, a in ARANGES.items()}
    for name in ("int8", "uint16", "float32", "float64"):
        cases[f"arange {name}"] = (
            lambda n=name: td.arange(2, 11, 2, dtype=td_dtype(n)),
            np.arange(2, 11, 2, dtype=name),
        )
    for label, args, options in (
        ("linspace", (0.0, 1.0), {}),
        ("linspace(5)", (0.0, 2.0, 5), {}),
        ("linspace ints", (0, 8, 5), {}),
        ("linspace down", (3.0, -3.0), {"num": 13}),
        ("linspace open", (0.0, 1.0), {"num": 8, "endpoint": False}),
        ("linspace(1)", (2.0, 3.0, 1), {}),
        ("linspace(0)", (2.0, 3.0, 0), {}),
        ("linspace float32", (0.0, 4.0, 17), {"dtype": "float32"}),
    ):
        theirs = np.linspace(*args, **options)
        mine = {k: td_dtype(v) if k == "dtype" else v for k, v in options.items()}
        cases[label] = (lambda a=args, o=mine: td.linspace(*a, **o), theirs, 4)
    for label, args, options in (
        ("eye(4)", (4,), {}),
        ("eye(0)", (0,), {}),
        ("eye(3, 5)", (3, 5), {}),
        ("eye(5, 3, k=1)", (5, 3), {"k": 1}),
        ("eye(4, k=-2)", (4,), {"k": -2}),
        ("eye int8", (3,), {"dtype": "int8"}),
        ("eye bool", (3,), {"dtype": "bool"}),
    ):
        mine = {k: td_dtype(v) if k == "dtype" else v for k, v in options.items()}
        cases[label] = (lambda a=args, o=mine: td.eye(*a, **o), np.eye(*args, **options))
    check(cases)


def test_zeros_ones_full(check):
    cases = {
        "zeros": (lambda: td.zeros((2, 3)), np.zeros((2, 3))),
        "ones": (lambda: td.ones((2, 3)), np.ones((2, 3))),
        "zeros()": (lambda: td.zeros(()), np.zeros(())),
        "zeros(3)": (lambda: td.zeros(3), np.zeros(3)),
        "full int": (lambda: td.full((2,), 7), np.full((2,), 7)),
        "full float": (lambda: td.full((0, 2), 7.5), np.full((0, 2), 7.5)),
        "full typed": (lambda: td.full((2,), 7, dtype=td.float32), np.full((2,), 7, "f4")),
    }
    for name in DTYPES:
        cases[f"zeros {name}"] = (lambda n=name: td.zeros((3,), td_dtype(n)), np.zeros(3, dt(name)))
        cases[f"ones {name}"] = (
            lambda n=name: td.ones((3,), dtype=td_dtype(n)),
            np.ones(3, dt(name)),
        )
    check(cases)


def test_extents_in_expressions(check):
    a, b = np.zeros((4, 7), "f4"), np.arange(5)
    ua, ub = td.use(a), td.use(b)
    check(
        {
            "shape of use": (
                lambda: td.generate(ua.shape, lambda i, j: i - j),
                np.subtract.outer(np.arange(4), np.arange(7)),
            ),
            "product": (lambda: td.iota(ua.shape[0] * ua.shape[1]), np.arange(28)),
            "in a kernel": (lambda: td.map(lambda x: x * ua.shape[1], b), b * 7),
            "of a reversed axis": (
                lambda: td.generate((ub.shape[0],), lambda i: ub[ub.shape[0] - 1 - i]),
                b[::-1].copy(),
            ),
            "of a result": (
                lambda: td.fill((td.concatenate([b, b]).shape[0],), td.int8(1)),
                np.ones(10, "i1"),
            ),
        }
    )


def test_the_and_indexing_with_scalars(check):
    a = small("int32", (5, 6))
    v = small("float64", 4)
    ua, uv, u0 = td.use(a), td.use(v), td.use(np.array(2.5))
    element = ua[3, 4]
    check(
        {
            "a[i, j] outside": (lambda: ua[3, 4], a[3, 4]),
            "a[-1, -2] outside": (lambda: ua[-1, -2], a[-1, -2]),
            "the(a[i, j])": (lambda: td.map(lambda x: x * td.the(element), v), v * a[3, 4]),
            "a[i, j] inside": (lambda: td.generate((6, 5), lambda i, j: ua[j, i]), a.T.copy()),
            "data-dependent": (
                lambda: td.map(lambda k: uv[k % 4], np.arange(10)),
                v[np.arange(10) % 4],
            ),
            "two of one array": (
                lambda: td.generate((2,), lambda i: uv[i] + uv[i + 2]),
                v[:2] + v[2:],
            ),
            "rank 0 inside": (lambda: td.map(lambda x: x + td.the(u0), v), v + 2.5),
        }
    )


@pytest.mark.parametrize("bounds", [
    (0, 1, 0.1), (5, -5, -3), (0.5,), (3, 3), (np.int8(-4), np.float32(2.5), np.float16(0.3)),
    (np.uint64(5),), (2**62, -(2**62), -(2**60)),
])  # fmt: skip
def test_arange_has_numpys_numbers(bounds, run):
    assert_same(run(td.arange(*bounds)), np.arange(*bounds))


def test_arange_makes_no_array_of_its_numbers():
    last = td.run(td.arange(3, 10**12, 2)[-2:], backend="native")
    assert_same(last, np.array([10**12 - 3, 10**12 - 1]))


@pytest.mark.parametrize(("bounds", "dtype"), [
    ((0, np.nan), None), ((0, np.inf), None), ((0, 1j), None), ((3,), bool),
])  # fmt: skip
def test_arange_of_no_numbers(bounds, dtype):
    with pytest.raises(td.ShapeError, match="there are no numbers from 0 to"):
        td.arange(*bounds, dtype=dtype)


def test_linspace_of_complex_numbers(run):
    assert_same(run(td.linspace(1 + 1j, 2, 3)), np.linspace(1 + 1j, 2, 3))
    assert_same(run(td.linspace(0, 4j, 5, dtype="c8")), np.linspace(0, 4j, 5, dtype="c8"))


V, A = np.array([3, 1, 2]), np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("args", [
    (V, V + 1, 3), (0, V, 3), (V, 7.5, 4), (A, V, 5), (A[:, :1], V, 5), (V * 1j, 2, 3), (V, V, 1),
    (V, A, 0), (A, 0, 3, False), ([1, 2], (3, 4), 3), (A[:0], V, 3), (np.float32([1, 2]), 2, 3),
    (np.float32(1), 2.5, 3), (np.int8(1), np.float32(2), 3), (np.int32(1), np.float32(2), 3),
    (np.int8(1), 2, 3), (np.complex64(1), 2, 3),
])  # fmt: skip
def test_between_arrays_and_of_the_types_of_ends(backend, args):
    want = np.linspace(*args)
    compiled = td.jit(lambda *xs: td.linspace(*xs), backend=backend)
    arrays = [x if isinstance(x, np.ndarray | np.generic) else np.asarray(x) for x in args[:2]]
    results = [
        (td.run(td.linspace(*args), backend=backend), want),
        (td.run(np.linspace(td.use(arrays[0]), *args[1:]), backend=backend), want),
        (td.jit(lambda a, b: td.linspace(a, b, *args[2:]), backend=backend)(*arrays),
         np.linspace(*arrays, *args[2:])),
    ]  # fmt: skip
    for got, of_numpy in results:
        assert got.dtype == of_numpy.dtype and got.shape == of_numpy.shape
        np.testing.assert_allclose(to_host(got), of_numpy, rtol=1e-6)
    assert len(args) > 3 or compiled(*arrays, args[2]).shape == want.shape
    assert to_host(td.run(td.linspace(V, A, 4, dtype=int), backend=backend)).tolist() == (
        np.linspace(V, A, 4, dtype=int).tolist()
    )
    with pytest.raises(td.ShapeError, match="linspace cannot broadcast"):
        td.linspace(V, V[:2], 3)


@pytest.mark.parametrize("value", [300, -1])
def test_a_literal_beyond_the_type_asked_for(value):
    with pytest.raises(td.DTypeError, match=f"the literal {value} does not fit in uint8"):
        td.full(2, value, dtype="uint8")


def test_lines_have_the_bits_of_numpy(check):
    """first + k · step, with a rounded product: −5 + 3 · (10 / 6) is 0."""
    cases = {}
    for ends in ((-5, 5, 7), (5, -5, 13), (0.1, 0.7, 29), (-4, -5, 29)):
        for dtype in ("float64", "float32", "int64"):
            cases[f"linspace{ends} {dtype}"] = (
                lambda e=ends, d=dtype: td.linspace(*e, dtype=d),
                np.linspace(*ends, dtype=dtype),
            )
    for bounds in ((3.1, 13, 0.55), (-1, 1, 0.1), (4.7, -4, -0.3)):
        cases[f"arange{bounds}"] = (lambda b=bounds: td.arange(*b), np.arange(*bounds))
    values = np.arange(-5.0, 6.0)
    for label, a in (("float64", values), ("int64", values.astype("i8"))):
        for bins in (6, 7, 13, 29):
            counts, edges = np.histogram(a, bins)
            cases[f"counts of {label}, {bins}"] = (
                lambda a=a, n=bins: td.histogram(a, n)[0],
                counts,
            )
            cases[f"edges of {label}, {bins}"] = (lambda a=a, n=bins: td.histogram(a, n)[1], edges)
    check(cases)


@pytest.mark.parametrize("bounds", [(5, 121, 10), (10, 0, -3), (0, 10, -1), (3, 4, 7), (7, -8, -5)])
def test_arange_in_steps_that_a_program_computes(bounds, run):
    f = td.jit(lambda start, stop, step: td.arange(start, stop, step))
    for found in (f(*bounds), run(td.arange(*map(td.use, bounds)))):
        assert np.array_equal(found, np.arange(*bounds)) and found.dtype == np.int64
    counts = td.jit(lambda n: td.loop(1, 4, lambda k, s: s + td.arange(0, n, k).shape[0], 0))
    assert counts(10) == 10 + 5 + 4
    with pytest.raises(td.ShapeError, match="step is 0"):
        f(0, 4, 0)
    with pytest.raises(td.DTypeError, match="needs an integer"):
        f(0, 4, 0.5)

"""Extents that a program requires to be equal are one, and behave as Python's ints do."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Extent, walk
from treadle.dsl.graph import Generate, Input, topological
from treadle.dsl.graphs.verify import verify

A = np.arange(30, dtype=np.float32).reshape(5, 6) / 7
B = np.cos(A)


def lowered(f, *args, backend="native"):
    made = td.jit(f, backend="native").lower(*args)
    return made if backend == "native" else made._on(backend)


def kernels(program):
    """The nodes that compute elements."""
    return [n for n in topological(program.roots) if isinstance(n, Generate)]


def extents(program):
    """The symbols in shapes and bodies."""
    nodes = list(topological(program.roots))
    found = (e for n in nodes for e in (*n.expressions(), *(x for o in n.outputs for x in o.shape)))
    return {e for e in walk(found) if isinstance(e, Extent)}


def around(w):
    return w[0, 1] + w[0, -1] + w[1, 0] + w[-1, 0] - 4 * w[0, 0]


def wave(u, v):
    def iteration(state):
        u, v = state
        v = v + td.float32(0.1) * td.stencil(around, u, boundary=td.symmetric)
        return u + v, v

    return td.iterate(3, iteration, (u, v))


def both(h, u):
    return td.stencil(lambda w: w[0, 1][0] + 2 * w[1, 0][1], td.zip(h, u), boundary=td.symmetric)


SIDE_BY_SIDE = {
    "operator": lambda a, b: a * 2 + b,
    "zip": lambda a, b: td.map(lambda p: p[0] - p[1], td.zip(a, b)),
    "map": lambda a, b: td.map(lambda x, y: x - y, a, b),
    "stencil": lambda a, b: td.stencil(lambda v, w: v[0, 1] - w[1, 0], a, b),
    "stencil of zip": both,
    "where": lambda a, b: td.where(a > 1, a, b),
    "state": wave,
    "part": lambda a, b: a[1:, 1:] + b[:-1, :-1],
    "zip in an operator": lambda a, b: b + td.map(lambda p: p[0] - p[1], td.zip(a, b)),
    "sum": lambda a, b: td.sum(a * b, axis=1) + td.sum(a, axis=1),
    "square": lambda a, b: td.matmul(a, b.T) + td.matmul(b, a.T),
}


@pytest.mark.parametrize("backend", ["native", "cuda"])
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_one_symbol_for_equal_extents(name, backend):
    program = lowered(SIDE_BY_SIDE[name], A, B, backend=backend)
    verify(program.roots)
    first = program.arguments[0]
    if name not in ("part", "square"):
        assert extents(program) == set(first.shape)
        assert program.arguments[1].shape == first.shape
    assert [n.source for n in program.inputs] == [n.source for n in program.source_inputs]


@pytest.mark.sample(16)
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
@pytest.mark.parametrize("shape", [(5, 6), (0, 3), (1, 6), (5, 1), (2, 2)])
def test_results_are_the_same(name, shape):
    a, b = (np.resize(x, shape) for x in (A, B))
    f = SIDE_BY_SIDE[name]
    want, got = (td.jit(f, backend=k)(a, b) for k in ("reference", "native"))
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
@pytest.mark.parametrize("shape", [(5, 7), (4, 6), (9, 9)])
def test_errors_are_the_same(name, shape):
    """The check of every operation stays: the first one that does not hold is reported, in its
    words, at its line."""
    f, shown = SIDE_BY_SIDE[name], []
    if name == "square" and shape == (4, 6):
        f = SIDE_BY_SIDE["zip"]
    for backend in ("reference", "native"):
        program = lowered(f, A, B, backend=backend)
        with pytest.raises(td.ShapeError) as raised:
            program(A, np.resize(B, shape))
        shown.append(str(raised.value))
    assert shown[0] == shown[1] and __file__ in shown[0]


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_a_wave_is_one_kernel(backend):
    """State that came as arguments, made inside, or of a literal shape: one kernel an iteration."""

    def made(u):
        return wave(u, td.zeros_like(u))

    def literal(u):
        return wave(u, td.zeros((5, 6), np.float32))

    for f, args, count in ((wave, (A, B), 1), (made, (A,), 2), (literal, (A,), 2)):
        assert len(kernels(lowered(f, *args, backend=backend))) == count, f.__name__


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_a_stencil_of_a_zip_is_seen_as_one(backend):
    (kernel,) = kernels(lowered(both, A, B, backend=backend))
    reads = [e for e in walk(kernel.elements) if hasattr(e, "boundary")]
    assert [r.boundary for r in reads] == ["symmetric"] * 2
    text = lowered(both, A, B).explain()
    assert "[i, j + 1] symmetric" in text and "[i + 1, j] symmetric" in text
    assert "[computed from the indices]" not in text and "u  float32[n1, n2]\n" in text


def test_sides_of_a_cond_prove_nothing():
    """What is checked only where a side is taken holds only there."""

    def f(p, a, b):
        return td.sum(td.cond(td.the(p) > 0, td.sum(a * b, axis=1), td.sum(a, axis=1))) + td.sum(b)

    p, short = np.zeros(()), B[:2]
    want = td.jit(f, backend="reference")(p, A, short)
    np.testing.assert_allclose(td.jit(f, backend="native")(p, A, short), want, rtol=1e-5)


def test_what_is_computed_of_equal_extents_is_equal():
    """`u[1:-1, 1:-1]` of one array and of another of its shape are as long as a third."""

    def f(a, b, c):
        inner = a[1:-1, 1:-1] * c + b[1:-1, 1:-1] * c
        return inner, a + b, c * 2

    program = lowered(f, A, B, A[2:, 2:])
    assert len(kernels(program)) == 2  # those of the whole, and all of the inner extents
    a, b, c = program.arguments
    assert a.shape == b.shape and all(isinstance(e, Extent) and e.node is c for e in c.shape)
    want = td.jit(f, backend="reference")(A, B, A[2:, 2:])
    for w, g in zip(want, program(A, B, A[2:, 2:]), strict=True):
        np.testing.assert_array_equal(g, w)


def test_contradictions_are_errors_at_the_call():
    def f(a):
        return td.zip(a, td.iota(3)), td.zip(a, td.iota(4))

    program = lowered(f, np.arange(5))
    for n in (3, 4, 5):
        with pytest.raises(td.ShapeError, match="zip needs arrays of equal shape"):
            program(np.arange(n))


def test_what_is_computed_may_be_an_extent_itself():
    """y.shape[0] must be 1, so x.shape[1] // y.shape[0] is x.shape[1], and as long as z."""

    def f(x, y, z):
        return td.map(lambda p, q: p * 2 + q, td.reshape(x, (y.shape[0], -1)), z)

    row, column = np.ones((1, 4)), np.ones((4, 1))
    program = lowered(f, row, column, row)
    x, _, z = program.arguments
    assert x.shape == z.shape
    for args in ((row, column, row), (column, np.ones((0, 4)), row)):
        shown = []
        for backend in ("reference", "native"):
            with pytest.raises(td.ShapeError) as raised:
                td.jit(f, backend=backend)(*args)
            shown.append(str(raised.value))
        assert shown[0] == shown[1]


def test_extents_that_contradict_themselves():
    """As long as something longer than itself: an error at the call, and no end of renaming."""

    def f(a, b):
        longer = td.concatenate([a, b])
        return td.zip(longer, td.concatenate([longer, b])), td.zip(a, longer), td.zip(b, a[1:])

    with pytest.raises(td.ShapeError, match="zip needs arrays of equal shape"):
        lowered(f, A[0], A[1])(A[0], A[1])


def test_captured_arrays_and_stored_programs(tmp_path):
    """Programs of files are fused as those that were traced; captured arrays are inputs as well."""
    captured = td.use(B)
    for f, args in ((wave, (A, B)), (lambda a: wave(a, captured), (A,)),
                    (lambda a: wave(a, td.zeros((5, 6), np.float32)), (A,))):  # fmt: skip
        program = lowered(f, *args)
        program.save(tmp_path / "p")
        stored = td.load(tmp_path / "p")
        assert len(kernels(stored)) == len(kernels(program))
        for want, got in zip(program(*args), stored(*args), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_state_is_as_long_as_what_it_starts_as():
    """Where the data decide how long a state is, nothing is computed twice to know it."""

    def f(x):
        found, _ = td.compact(x > 1, td.exp(x))
        return td.iterate(2, lambda s: td.stencil(lambda w: w[-1] + w[1], s), found * 2)

    x = np.linspace(0, 2, 50)
    program = lowered(f, x)
    labels = [n.label.operation for n in topological(program.roots) if not isinstance(n, Input)]
    assert labels.count("count") == labels.count("positions") == 1
    np.testing.assert_allclose(program(x), td.jit(f, backend="reference")(x))


def test_kernels_that_differ_by_the_shape_of_a_state():
    """Equal but for how long the rows of the state are: two kernels, not one from the cache."""

    def program(columns):
        def f(a):
            n = a.shape[0]

            def iteration(s):
                return s + td.compute(td.generate((n,), lambda i: s[i, 0]))[:, None]

            return td.iterate(2, iteration, td.generate((n, columns(a)), lambda i, j: 10 * i + j))

        return f

    for columns in (lambda a: a.shape[1], lambda a: a.shape[0]):
        f = program(columns)
        np.testing.assert_array_equal(*(td.jit(f, backend=b)(A) for b in ("native", "reference")))


# --- the type of an extent ---------------------------------------------------------------------

FLOATS = (np.float16, np.float32, np.float64, np.complex64)
MEETING = {
    "divide": lambda x: x / x.shape[0],
    "multiply": lambda x: x * x.shape[0],
    "formula": lambda x: x * (x.shape[0] - 1) + x.shape[0] // 2,
    "half": lambda x: x + x.shape[0] / 2,
    "size": lambda x: x + x.size,
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", [*FLOATS, np.uint64, np.int64, np.bool_])
@pytest.mark.parametrize("name", MEETING)
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_extents_are_as_weak_as_in_numpy(name, dtype, backend):
    x, f = np.array([0, 1, 1, 0, 1]).astype(dtype), MEETING[name]
    want = f(x)
    for got in (td.jit(f, backend=backend)(x), td.run(f(td.use(x)), backend=backend)):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-3)
    in_kernel = td.jit(lambda x: td.map(lambda e: e / x.shape[0], x), backend=backend)(x)
    assert in_kernel.dtype == (x / x.shape[0]).dtype


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_extents_do_not_wrap_beside_narrow_integers(dtype):
    """NumPy raises OverflowError where the extent does not fit, as long as 300 in 8 bits."""
    x = np.arange(300).astype(dtype)
    got = td.jit(lambda x: (x * x.shape[0], x % x.shape[0], x + td.float32(x.size)))(x)
    assert [g.dtype for g in got[:2]] == [np.int64] * 2
    np.testing.assert_array_equal(got[0], x.astype(np.int64) * 300)
    np.testing.assert_array_equal(got[1], x.astype(np.int64) % 300)
    with pytest.raises(td.DTypeError, match="is int64, the elements are"):
        td.jit(lambda x: td.fold(lambda a, b: a + b, x.shape[0], x))(x)


def test_extents_that_meet_nothing_are_int64():
    def f(x):
        n = x.shape[0]
        return td.unit(n), td.fill((2,), n - 1), td.generate((2,), lambda i: i + n), td.unit(n / 2)

    assert [r.dtype for r in td.jit(f)(A)] == [np.int64, np.int64, np.int64, np.float64]
    assert td.unit(td.use(A).shape[0]).dtype == td.int64


def test_numbers_of_a_call_stay_weak_in_formulas():
    x = A[0]
    for f in (
        lambda x, n: x / (n - 1),
        lambda x, n: x * td.where(n > 2, n, 1),
        lambda x, n: x + n * n,
    ):
        assert td.jit(f)(x, 3).dtype == np.float32


def test_a_weak_float_is_no_integer():
    with pytest.raises(td.DTypeError, match="does not fit in int64"):
        td.jit(lambda x: td.fold(lambda a, b: a + b, x.shape[0] / 2, x))(np.arange(3))

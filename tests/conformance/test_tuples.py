"""Elements that are tuples, named tuples and dataclasses, nested as one likes."""

from __future__ import annotations

import operator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td

from .helpers import EXTENTS, assert_same, small, to_host, wide


class Point(NamedTuple):
    x: object
    y: object


class Circle(NamedTuple):
    centre: Point
    radius: object


@dataclass(frozen=True)
class Particle:
    position: Point
    mass: object


@dataclass
class Colour:
    red: object
    green: object


@dataclass
class Named:
    name: object = field(kw_only=True)


@dataclass
class Inherited(Named):
    x: object
    ignored: InitVar[int] = 1
    y: object = 0
    derived: object = field(init=False, default=5)


@dataclass(match_args=False)
class Later:
    x: object
    _: KW_ONLY
    y: object


@dataclass
class Own:
    x: object
    y: object

    def __init__(self, first: object, second: object) -> None:
        self.x, self.y = first, second


class Row(tuple[object, ...]):
    """A subclass of tuple, which is made of a sequence."""


@pytest.mark.parametrize("n", EXTENTS)
def test_zip_and_unzip(check, n):
    a, b, c = wide("int8", n, 1), small("float64", n, 2), small("bool", n, 3)

    def sum_of_unzipped():
        x, y, z = td.unzip(td.zip(a, b, c))
        return x + y, z

    check(
        {
            "zip of two": (lambda: td.zip(a, b), (a, b)),
            "zip of three": (lambda: td.zip(a, td.use(b), c), (a, b, c)),
            "map over a zip": (
                lambda: td.map(lambda t: (t[1] * 2, t[0]), td.zip(a, b)),
                (b * 2, a),
            ),
            "unzip": (sum_of_unzipped, (a + b, c)),
            "unzip alone": (lambda: td.unzip(td.zip(b, a)), (b, a)),
            "map of two zips": (
                lambda: td.map(lambda t, u: t[0] + u[1], td.zip(b, a), td.zip(a, b)),
                b + b,
            ),
        }
    )


def test_zip_does_not_flatten_tuple_elements(check):
    a, b, c = small("int32", 5, 1), small("int16", 5, 2), small("float32", 5, 3)
    check(
        {
            "a pair and an array": (
                lambda: td.map(lambda t: t[0][0] + t[0][1] + t[1], td.zip(td.zip(a, b), c)),
                a + b + c,
            ),
            "structure": (lambda: td.zip(td.zip(a, b), c), ((a, b), c)),
            "unzip keeps the inner pair": (lambda: td.unzip(td.zip(td.zip(a, b), c))[0], (a, b)),
        }
    )


def test_nested_results(check):
    i = np.arange(5)
    check(
        {
            "nested": (
                lambda: td.generate((5,), lambda i: (i, (i * 0.5, (i % 2 == 0, i * i)))),
                (i, (i * 0.5, (i % 2 == 0, i * i))),
            ),
            "swapped": (
                lambda: td.map(
                    lambda t: (t[1][0], t[0]), td.generate((5,), lambda i: (i, (i + 1, i)))
                ),
                (i + 1, i),
            ),
            "one component": (lambda: td.generate((5,), lambda i: (i,)), (i,)),
            "the same value twice": (lambda: td.generate((5,), lambda i: (i, i)), (i, i)),
        }
    )


def test_named_tuples_keep_their_class(check):
    a, b = small("float64", (3, 4), 1), small("float64", (3, 4), 2)

    def points():
        return td.map(lambda x, y: Point(x, y), a, b)

    def circles():
        return td.map(lambda p: Circle(p, p.x * p.x + p.y), points())

    check(
        {
            "points": (points, Point(a, b)),
            "fields": (lambda: td.map(lambda p: p.x - p.y, points()), a - b),
            "nested": (circles, Circle(Point(a, b), a * a + b)),
            "nested fields": (
                lambda: td.map(lambda c: Point(c.radius, c.centre.y), circles()),
                Point(a * a + b, b),
            ),
            "generate": (
                lambda: td.generate((3,), lambda i: Point(i, i * 0.5)),
                Point(np.arange(3), np.arange(3) * 0.5),
            ),
            "where": (
                lambda: td.map(lambda p: td.where(p.x > p.y, p, Point(p.y, p.x)), points()),
                Point(np.maximum(a, b), np.minimum(a, b)),
            ),
            "cond": (
                lambda: td.map(lambda p: td.cond(p.x > p.y, p, Point(p.y, p.x)), points()),
                Point(np.maximum(a, b), np.minimum(a, b)),
            ),
        }
    )


MADE = {
    "named": lambda a, b: Named(name=(a, b)),
    "inherited": lambda a, b: Inherited(a, y=b, name=a + b),
    "later": lambda a, b: Later(a, y=b),
    "own": lambda a, b: Own(a, b),
    "row": lambda a, b: Row((a, b)),
}


PART_OF = {kind: lambda s: s.x for kind in MADE}
PART_OF.update(named=lambda s: s.name[0], row=lambda s: s[0])


def _parts(made):
    return tuple(made) if isinstance(made, tuple) else tuple(vars(made).items())


@pytest.mark.parametrize("kind", MADE)
def test_classes_whose_parts_are_given_by_name_or_as_a_sequence(backend, kind):
    make, a, b = MADE[kind], np.arange(3), np.arange(3) * 10

    def agrees(got, want):
        assert type(got) is type(want)
        assert str(_parts(td.run(got))) == str(_parts(td.run(want)))

    with td.config(backend=backend):
        agrees(td.jit(lambda s: s)(make(a, b)), make(a, b))
        agrees(td.run(make(td.use(a), b)), make(a, b))
        agrees(td.run(td.map(make, a, b)), make(a, b))
        agrees(td.jit(lambda s: td.iterate(2, lambda s: s, s))(make(a, b)), make(a, b))
        slope = td.grad(lambda s: td.sum(PART_OF[kind](s) * 2))(make(1.0 * a, 1.0 * b))
        assert type(slope) is type(make(a, b))
        assert_same(to_host(td.run(PART_OF[kind](slope))), 2.0 + 0 * a)


def test_dataclasses_keep_their_class(check):
    a, b, m = (small("float64", 33, k) for k in range(3))

    def particles():
        return td.map(lambda x, y, z: Particle(Point(x, y), z), a, b, m)

    def total(p, q):
        return Particle(
            Point(p.position.x + q.position.x, p.position.y + q.position.y), p.mass + q.mass
        )

    check(
        {
            "particles": (particles, Particle(Point(a, b), m)),
            "fields": (lambda: td.map(lambda p: p.position.x * p.mass, particles()), a * m),
            "not frozen": (lambda: td.map(lambda x: Colour(x, x + 1), a), Colour(a, a + 1)),
            "fold1": (
                lambda: td.fold1(total, particles()),
                Particle(Point(np.array(a.sum()), np.array(b.sum())), np.array(m.sum())),
            ),
            "fold": (
                lambda: td.fold(total, Particle(Point(1.0, 2.0), 3.0), particles()),
                Particle(
                    Point(np.array(a.sum() + 1), np.array(b.sum() + 2)), np.array(m.sum() + 3)
                ),
            ),
            "loop state": (
                lambda: td.map(
                    lambda x: td.iterate(3, lambda c: Colour(c.green, c.red + 1), Colour(x, x)), a
                ),
                Colour(a + 1, a + 2),
            ),
        }
    )


def test_every_operation_on_tuples(check):
    """Whatever moves, folds or scans plain elements does the same to tuples."""
    a, b = wide("int64", (4, 6), 1), small("float32", (4, 6), 2)
    pair = td.zip(a, b)
    captured = td.zip(a[0], b[0])

    def both(f):
        return f(a), f(b)

    def add(p, q):
        return p[0] + q[0], p[1] + q[1]

    check(
        {
            "slice": (lambda: pair[1:, ::-2], both(lambda v: v[1:, ::-2])),
            "integer": (lambda: pair[2], both(lambda v: v[2])),
            "rank 0": (lambda: pair[2, 3], both(lambda v: v[2, 3])),
            "transpose": (lambda: td.transpose(pair), both(np.transpose)),
            "reshape": (lambda: td.reshape(pair, (3, 8)), both(lambda v: v.reshape(3, 8))),
            "reverse": (lambda: td.reverse(pair, 1), both(lambda v: v[:, ::-1])),
            "roll": (lambda: td.roll(pair, 1, 0), both(lambda v: np.roll(v, 1, 0))),
            "replicate": (lambda: td.replicate(pair, 2, 0), both(lambda v: np.stack([v, v]))),
            "concatenate": (
                lambda: td.concatenate([pair, pair]),
                both(lambda v: np.concatenate([v, v])),
            ),
            "take": (lambda: td.take(pair, np.array([3, 1]), axis=0), both(lambda v: v[[3, 1]])),
            "backpermute": (
                lambda: td.backpermute((6, 4), lambda i, j: (j, i), pair),
                both(np.transpose),
            ),
            "fold": (
                lambda: td.fold(add, (0, 0), pair),
                both(lambda v: v.sum(axis=1, dtype=v.dtype)),
            ),
            "scan": (lambda: td.scanl1(add, pair), both(lambda v: np.cumsum(v, 1, dtype=v.dtype))),
            "captured": (
                lambda: td.generate((6,), lambda i: captured[5 - i]),
                both(lambda v: v[0, ::-1]),
            ),
            "stencil": (
                lambda: td.stencil(lambda w: (w[0, 1][1], w[1, 0][0]), pair, boundary=td.wrap),
                (np.roll(b, -1, 1), np.roll(a, -1, 0)),
            ),
            "cond": (lambda: td.cond(td.unit(True), pair, td.zip(a + 1, b + 1)), (a, b)),
            "loop": (
                lambda: td.iterate(3, lambda p: td.map(lambda t: (t[0] + 1, t[1] * 2), p), pair),
                (a + 3, b * 8),
            ),
            "compute": (lambda: td.compute(pair), (a, b)),
        }
    )


def test_tuples_of_many_types(check):
    parts = [wide(name, 33, 1) for name in ("bool", "int8", "uint64", "float16", "complex128")]
    check(
        {
            "five": (lambda: td.zip(*parts), tuple(parts)),
            "reversed": (lambda: td.reverse(td.zip(*parts), 0), tuple(p[::-1] for p in parts)),
            "selected": (
                lambda: td.map(lambda t: (t[4], t[0], t[2]), td.zip(*parts)),
                (parts[4], parts[0], parts[2]),
            ),
        }
    )


def test_named_tuples_as_arguments_of_a_compiled_function(backend):
    """What a compiled function returned can be put together again and passed on."""
    a, b = small("float64", 9, 1), small("float64", 9, 2)

    @td.jit(backend=backend)
    def step(x, y):
        return td.map(lambda p: Point(p[0] + p[1], p[0] - p[1]), td.zip(x, y))

    first = step(a, b)
    assert_same(first, Point(a + b, a - b))
    assert_same(step(first.x, first.y), Point(2 * a, 2 * b))


# --- order -------------------------------------------------------------------------------------


RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.integers(0, 3, (4, 5)), RNG.integers(0, 3, (4, 5)).astype("float32")
#: The same elements as Python's tuples.
ROWS = [[(int(x), float(y)) for x, y in zip(r, s, strict=True)]
        for r, s in zip(FIRST, SECOND, strict=True)]  # fmt: skip
FLAT = [p for row in ROWS for p in row]
COMPARISONS = [(operator.lt, td.less), (operator.le, td.less_equal), (operator.gt, td.greater),
               (operator.ge, td.greater_equal), (operator.eq, td.equal),
               (operator.ne, td.not_equal)]  # fmt: skip


def as_python(found):
    """The tuples of a result, in row-major order."""
    return list(zip(*(to_host(part).ravel().tolist() for part in found), strict=True))


@pytest.mark.parametrize(("sign", "function"), COMPARISONS)
def test_tuples_compare_by_the_first_difference(sign, function, backend):
    other = [p for row in ROWS[::-1] for p in row]

    def all_ways(x, y, u, v):
        p, q = td.zip(x, y), td.zip(u, v)
        return sign(p, q), function(p, q), td.map(function, p, q), sign(p, (1, 1.0))

    found = td.jit(all_ways, backend=backend)(FIRST, SECOND, FIRST[::-1], SECOND[::-1])
    wanted = [sign(a, b) for a, b in zip(FLAT, other, strict=True)]
    for made in found[:3]:
        assert to_host(made).ravel().tolist() == wanted
    assert to_host(found[3]).ravel().tolist() == [sign(a, (1, 1.0)) for a in FLAT]


def test_extremes_of_tuples(backend):
    def program(x, y):
        p = td.zip(x, y)
        return ((td.min(p), td.max(p), td.min(p, axis=1), td.max(p, axis=0, keepdims=True)),
                (td.argmin(p), td.argmax(p), td.argmax(p, 1), td.argmin(p, 0, True)))  # fmt: skip

    values, places = td.jit(program, backend=backend)(FIRST, SECOND)
    assert as_python(values[0]) == [min(FLAT)] and as_python(values[1]) == [max(FLAT)]
    assert as_python(values[2]) == [min(row) for row in ROWS]
    assert as_python(values[3]) == [max(column) for column in zip(*ROWS, strict=True)]
    assert values[3][0].shape == (1, 5) and places[3].shape == (1, 5)
    assert int(places[0]) == FLAT.index(min(FLAT)) and int(places[1]) == FLAT.index(max(FLAT))
    assert to_host(places[2]).tolist() == [row.index(max(row)) for row in ROWS]


def test_tuples_are_sorted(backend):
    def program(x, y):
        p = td.zip(x, y)
        return (td.sort(p), td.sort(p, axis=None, descending=True), td.unique(p),
                td.argsort(p, axis=1))  # fmt: skip

    rows, down, distinct, order = td.jit(program, backend=backend)(FIRST, SECOND)
    assert as_python(rows) == [p for row in ROWS for p in sorted(row)]
    assert as_python(down) == sorted(FLAT)[::-1]
    assert as_python(distinct) == sorted(set(FLAT))
    assert to_host(order).tolist() == [sorted(range(5), key=row.__getitem__) for row in ROWS]


def test_tuples_of_other_lengths_do_not_compare():
    p = td.zip(FIRST, SECOND)
    with pytest.raises(td.DTypeError, match="2 and 3 components do not compare"):
        td.less(p, (1, 2.0, 3))
    with pytest.raises(td.DTypeError, match="2 and 1 components do not compare"):
        td.less((1, 2), 3)
    with pytest.raises(td.DTypeError, match="works on scalars"):
        p + p

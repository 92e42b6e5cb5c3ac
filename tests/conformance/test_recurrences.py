"""td.scan: sequential scans with any state and results; state that loops update in place."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.dsl.analysis.updates import overwritable, overwrites
from treadle.dsl.graph import (
    ArrayLoop,
    Generate,
    Input,
    Permute,
    Recurrence,
    Sequential,
    topological,
)

from .helpers import assert_same, generator, small


def steps(f, init, xs, n, reverse=False, axis=0):
    """What scan means, in NumPy: (last state, collected)."""
    state, ys = init, [None] * n
    for k in range(n)[:: -1 if reverse else 1]:
        state, ys[k] = f(state, xs(k))
    return state, np.stack(ys, axis) if n else None


def decay(s, x):
    return 0.5 * s + x, s - 2.0 * x


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_along_every_axis(check, n, reverse):
    cases = {}
    for shape, axis in [((n, 5), 0), ((5, n), 1), ((5, n), -1), ((3, n, 70), 1), ((n, 2, 65), 0),
                        ((2, 3, n), 2), ((n,), 0), ((n,), -1)]:  # fmt: skip
        x = small("float64", shape) / 4
        others = tuple(np.delete(shape, axis))
        start = np.arange(np.prod(others, dtype=int), dtype=float).reshape(others)
        first = start if others else td.float64(0.0)
        want = steps(decay, start, lambda k, x=x, axis=axis: np.take(x, k, axis), n, reverse, axis)
        if not n:
            want = start, np.zeros(shape)
        cases[f"{shape} along {axis}"] = (
            lambda first=first, x=x, axis=axis: td.scan(
                decay, first, x, axis=axis, reverse=reverse
            ),
            want,
        )
    check(cases)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 70])
@pytest.mark.parametrize("n", [1, 40, 5000])
def test_walks_along_rows(check, backend, rows, n):
    """Cheap steps and costly ones, of rows and of columns in memory."""
    n = min(n, 300) if backend == "reference" else n  # a walk of NumPy's
    x = small("float64", (rows, n)) / 4
    turned = np.ascontiguousarray(x.T)

    def smooth(s, v):
        low, high = s
        y = 0.25 * v + low
        return (0.5 * v - 0.125 * y + high, 0.5 * v), y

    def costly(s, v):
        for _ in range(50):
            s = 0.5 * s + v
        return s, s

    z = np.zeros(rows)
    (low, high), ys = steps(smooth, (z, z), lambda k: x[:, k], n, axis=1)
    last, zs = steps(costly, z, lambda k: x[:, k], n, axis=1)
    check({
        "rows": (lambda: td.scan(smooth, (z, z), x, axis=1), ((low, high), ys)),
        "columns": (lambda: td.scan(smooth, (z, z), td.use(turned).T, axis=1), ((low, high), ys)),
        "costly": (lambda: td.scan(costly, z, x, axis=1), (last, zs)),
    })  # fmt: skip


class Pair(NamedTuple):
    low: object
    high: object


def test_structures_of_state_and_results(run):
    a, b = small("float64", (9, 4)), small("float64", 9)

    def f(s, x):
        total, seen = s["total"] + x.low, s["seen"]
        return {"seen": Pair(seen.high, seen.low + x.high), "total": total}, (
            {"t": total, "two": Pair(x.high, seen.low)},
            None,
        )

    init = {"total": td.zeros(4), "seen": Pair(1.0, 0.0)}
    last, (ys, nothing) = run(td.scan(f, init, Pair(a, b))[0]), td.scan(f, init, Pair(a, b))[1]
    assert nothing is None
    low, high, lows = 1.0, 0.0, []
    for y in b:
        lows.append(low)
        low, high = high, low + y
    assert list(last) == ["total", "seen"]
    assert_same(last, {"total": a.sum(0), "seen": Pair(low, high)})
    assert_same(run(ys), {"t": np.cumsum(a, 0), "two": Pair(b, np.array(lows))})


def test_without_arrays_to_walk_along(check):
    def fibonacci(s, k):
        return (s[1], s[0] + s[1]), s[0] + 0 * k

    want = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34])
    check(
        {
            "length": (lambda: td.scan(fibonacci, (0, 1), length=10)[1], want),
            "counter": (lambda: td.scan(lambda s, k: (s + k, k), 0, length=5), (10, np.arange(5))),
            "backward": (
                lambda: td.scan(lambda s, k: (2 * s + k, k), 0, length=4, reverse=True),
                (((3 * 2 + 2) * 2 + 1) * 2, np.arange(4)),
            ),
            "elements": (
                lambda: td.scan(
                    lambda s, x: ((s[0] + x[0], x[1]), s), (0, 1), td.zip(want, want)
                )[0],
                (88, 34),
            ),
        }
    )  # fmt: skip


def test_functions_of_whole_arrays(check):
    """What is not element by element is a loop over arrays."""
    m, x = small("float64", (6, 6)) / 16, small("float64", (40, 6))
    spread = lambda s, x: (td.roll(s, 1) + x, td.sum(s))
    numpy_spread = lambda s, x: (np.roll(s, 1) + x, s.sum())
    check(
        {
            "product": (
                lambda: td.scan(lambda s, x: (m @ s + x, s), td.zeros(6), x),
                steps(lambda s, x: (m @ s + x, s), np.zeros(6), lambda k: x[k], 40),
                512,
            ),
            "neighbours": (
                lambda: td.scan(spread, td.zeros(6), x),
                steps(numpy_spread, np.zeros(6), lambda k: x[k], 40),
            ),
            "neighbours, backward": (
                lambda: td.scan(spread, td.zeros(6), x, reverse=True, axis=0),
                steps(numpy_spread, np.zeros(6), lambda k: x[k], 40, reverse=True),
            ),
            "collected along the second axis": (
                lambda: td.scan(lambda s, x: (td.roll(s, 1) + x, s), td.zeros(40), x.T, axis=0)[1],
                steps(lambda s, x: (np.roll(s, 1) + x, s), np.zeros(40), lambda k: x.T[k], 6)[1],
            ),
        }
    )


def test_run_time_lengths_and_reads_of_other_elements(run):
    f = td.jit(
        lambda n, x: td.scan(lambda s, k: (s + x[k], x[n - 1 - k] * s), 0.0, length=n),
        backend="native",
    )
    x = small("float64", 30)
    for n in (1, 7, 30):
        assert_same(f(n, x), steps(lambda s, k, n=n: (s + x[k], x[n - 1 - k] * s), 0.0,
                                   lambda k: k, n))  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", "uint64", "float32", "float16", "complex64", "bool"])
def test_types(check, kind):
    x = small(kind, (20, 3))
    f = (lambda s, x: (s | x, s)) if kind == "bool" else (lambda s, x: (s + x, x))
    with np.errstate(all="ignore"):
        want = steps(f, np.zeros(3, kind), lambda k: x[k], 20)
    check({"": (lambda: td.scan(f, td.zeros(3, kind), x), want)})


def lowered(f, *args):
    """The nodes of a program after all passes."""
    return list(topological(td.jit(f, backend="native").lower(*args).roots))


def test_one_kernel_where_elements_are_independent():
    x = np.ones((50, 7))
    for reverse in (False, True):
        walk = lowered(lambda x, r=reverse: td.scan(decay, td.zeros(7), 2.0 * x, reverse=r), x)
        assert [type(n) for n in walk] == [Input, Recurrence]
    looped = lowered(lambda x: td.iterate(9, lambda s: td.sqrt(s * s + 1.0), x), x)
    assert [type(n) for n in looped[1:]] == [Recurrence]
    for f in (lambda s, x: (td.roll(s, 1) + x, s), lambda s, x: (s + td.sum(x), s)):
        assert any(isinstance(n, ArrayLoop) for n in lowered(
            lambda x, f=f: td.scan(f, td.zeros(7), x), x))  # fmt: skip


def filtered(s, x):
    """A step whose elements and results are costly, and do not wait for each other."""
    s = 0.5 * s + td.exp(td.sin(x))
    return s, (td.exp(-s), td.sqrt(s), s)


def by_numpy(s, x):
    s = 0.5 * s + np.exp(np.sin(x))
    return s, np.stack([np.exp(-s), np.sqrt(s), s])


@pytest.mark.parametrize("n", [0, 1, 40, 300])
def test_costly_elements_of_lone_walks(check, n):
    cases = {}
    for count, reverse, axis in (
        (None, False, 0), (None, True, 0), (1, False, 0), (3, True, 0), (9, False, 1), (9, True, 1),
    ):  # fmt: skip
        shape = (n,) if count is None else (n, count)
        x = small("float64", shape) / 4
        first = np.zeros(shape[1:])
        last, ys = steps(by_numpy, first, lambda k, x=x: x[k], n, reverse)
        ys = np.moveaxis(ys, 1, 0) if n else np.zeros((3, *shape))
        if axis:
            x, ys = np.ascontiguousarray(x.T), ys.transpose(0, 2, 1)
        cases[f"{count} {reverse} {axis}"] = (
            lambda x=x, first=first, reverse=reverse, axis=axis: td.scan(
                filtered,
                td.zeros(first.shape) if first.ndim else 0.0,
                x,
                reverse=reverse,
                axis=axis,
            ),
            (last, tuple(ys)),
            16,
        )
    check(cases)


def test_what_a_lone_walk_does_not_wait_for_is_computed_in_parallel():
    x, table = np.linspace(-1.0, 1.0, 50), np.arange(50)
    for split, f in (
        ([Generate, Recurrence, Generate], lambda x: td.scan(filtered, 0.0, x)),
        ([Generate, Recurrence], lambda x: td.scan(decay, 0.0, td.exp(x))),
        ([Recurrence, Generate], lambda x: td.scan(lambda s, x: (s + x, td.exp(s)), 0.0, x)),
        # Cheap ones hide behind the state, and of many walks each lane of a vector makes one.
        ([Recurrence], lambda x: td.scan(decay, 0.0, 1.0 / (x + 3.0))),
        ([Recurrence], lambda x: td.scan(decay, td.zeros(5), td.exp(x).reshape(10, 5))),
        # Walks along the rows of a CPU's memory are made one by one.
        ([Generate, Recurrence], lambda x: td.scan(
            decay, td.zeros(5), td.exp(x).reshape(5, 10), axis=1)),
        ([Recurrence], lambda x: td.scan(
            lambda s, x: (td.exp(s) * td.exp(x), s), td.zeros(5), x.reshape(5, 10), axis=1)),
        # What a step computes for the next one, what only some steps compute, and what is the
        # same in all.
        ([Recurrence], lambda x: td.scan(lambda s, x: (td.exp(-s) * x, s), 0.0, x)),
        ([Recurrence], lambda x: td.scan(
            lambda s, x: (s + td.cond(s > 2.0, td.exp(x), x), s), 0.0, x)),
        ([Recurrence], lambda x: td.scan(lambda s, y: (s * td.exp(x[0]) + y, s), 0.0, x)),
    ):  # fmt: skip
        nodes = [n for n in lowered(f, x) if n.iteration_space()]  # not the last state
        assert [type(n) for n in nodes if not isinstance(n, Input)] == split

    def rows(x, table, count):
        """Indices that may be outside, read only if there is an iteration."""

        def row(k, total):
            return td.scan(lambda s, t: (s + td.exp(x[t]), None), total, table)[0]

        return td.loop(count, row, 0.0)

    nodes = [n for n in lowered(rows, x, table, 0) if n.iteration_space()]
    assert [type(n) for n in nodes if not isinstance(n, Input)] == [Sequential]


def table(row):
    """A row of a table from the one above it, of n + 1 numbers, by a walk along n letters."""

    def next_row(letter, above, letters):
        cells = (above[:-1], above[1:], letters)
        return row(td.scan(lambda left, x: _cell(left, *x, letter), 0.0, cells)[1])

    return next_row


def _cell(left, corner, up, other, letter):
    best = td.maximum(td.maximum(left - 1, up - 1), corner + td.where(other == letter, 2.0, -1.0))
    best = td.maximum(best, 0.0)
    return best, best


@pytest.mark.sample(1)
@pytest.mark.parametrize("padded", [False, True])
def test_rows_of_a_table_in_a_loop(check, padded):
    """The state keeps its extent n + 1, so each row is one walk; the state enters last."""
    a, b = np.random.default_rng(3).integers(0, 4, (2, 30))
    b = b[:20]
    first = (lambda row: td.pad(row, ((1, 0),))) if padded else (
        lambda row: td.concatenate([td.zeros(1), row]))  # fmt: skip
    next_row = table(first)

    def last(a, b):
        start = td.zeros(b.shape[0] + 1)
        return td.loop(a.shape[0], lambda i, above: next_row(a[i], above, b), start)

    want = np.zeros((len(a) + 1, len(b) + 1))
    for i, letter in enumerate(a):
        for j, other in enumerate(b):
            corner = want[i, j] + (2 if letter == other else -1)
            want[i + 1, j + 1] = max(0, corner, want[i, j + 1] - 1, want[i + 1, j] - 1)
    check({"the last row": (lambda: last(td.use(a), td.use(b)), want[-1])})
    text = str(td.jit(last).lower(a, b))
    assert "maximum(state0" not in text and text.count("state0") == 2, text


def test_a_state_that_is_handed_on_is_not_waited_for():
    """It is the state of an iteration before; what has just been computed enters last."""

    def cell(state, x):
        left, corner = state
        best = td.minimum(td.minimum(x, left), corner) + 1.0
        return (best, x), best

    text = str(td.jit(lambda x: td.scan(cell, (0.0, 0.0), x)[1]).lower(np.ones(4)))
    assert "state1), state0) + 1.0" in text, text


def distance(a, b):
    """The edit distance of two words, as a nest of loops that fill a table."""
    n, m = a.shape[0], b.shape[0]
    table = td.zeros((n + 1, m + 1), td.int64)
    table = table.at[0, :].set(td.iota(m + 1)).at[:, 0].set(td.iota(n + 1))

    def row(i, t):
        def cell(j, t):
            least = td.minimum(t[i, j] + (a[i] != b[j]), td.minimum(t[i, j + 1], t[i + 1, j]) + 1)
            return t.at[i + 1, j + 1].set(least)

        return td.loop(m, cell, t)

    return td.loop(n, row, table)


def test_a_table_filled_element_by_element(check):
    """An iteration reads elements and writes one: the whole nest is a kernel, in place."""
    words = [np.frombuffer(w, np.uint8) for w in (b"sequential", b"consequently")]
    want = np.add.outer(np.arange(11), np.arange(13))
    for i, x in enumerate(words[0]):
        for j, y in enumerate(words[1]):
            least = min(want[i, j] + (x != y), want[i, j + 1] + 1, want[i + 1, j] + 1)
            want[i + 1, j + 1] = least
    check({"edit distance": (lambda: distance(*map(td.use, words)), want)})
    text = td.jit(distance, backend="native").lower(*words).explain()
    assert "updated in place" in text and text.count("Kernel ") == 4, text


def test_walks_that_follow_each_other():
    """A tridiagonal solve: the way back walks over what the way forth collected."""

    def solve(n, x):
        ones = td.ones(n - 2)
        forth = lambda s, x: (0.5 * s + x[2:] - x[:-2], 0.5 * s)
        collected = td.scan(forth, ones, x[1:-1])[1]
        return td.scan(decay, ones, collected, reverse=True)[1]

    walks = lowered(solve, 9, np.ones((9, 9)))
    assert not any(isinstance(n, ArrayLoop) for n in walks)
    assert sum(isinstance(n, Recurrence) for n in walks) == 2
    for n in (2, 3, 9):  # no step, one, several
        x = small("float64", (n, n)) / 4
        forth = lambda s, x: (0.5 * s + x[2:] - x[:-2], 0.5 * s)
        ys = steps(forth, np.ones(n - 2), lambda k, x=x: x[k + 1], n - 2)[1]
        want = steps(decay, np.ones(n - 2), lambda k, ys=ys: ys[k], n - 2, True)[1]
        got = td.jit(solve, backend="native")(n, x)
        assert_same(got, np.zeros((0, 0)) if want is None else want)


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (lambda x: td.scan(lambda s, x: s, 0.0, x), td.TracingError, "must return the pair"),
        (lambda x: td.scan(lambda s, x: (s, s), 0.0), td.TracingError, "or the number of its"),
        (lambda x: td.scan(lambda s: (s, s), 0.0, x), td.TracingError, r"but takes \(s\)"),
        (lambda x: td.scan(decay, 0, x), td.DTypeError, "must return the state's type int64"),
        (lambda x: td.scan(decay, 0.0, x, axis=3), td.AxisError, "axis 3 does not exist"),
        (lambda x: td.scan(decay, 0.0, 1.5), td.ShapeError, "xs has rank 0"),
        (lambda x: td.scan(decay, 0.0, (x, x[:3])), td.ShapeError, "axis 0 has 9 against 3"),
        (lambda x: td.scan(decay, 0.0, x, length=4), td.ShapeError, "4 against 9"),
        (lambda x: td.scan(lambda s, k: (s, td.zeros(k)), 0.0, length=4), td.ShapeError,
         "same extents in every step"),
        (lambda x: td.scan(lambda s, x: ((s, s), x), 0.0, x), td.TracingError, "1 component"),
        (lambda x: td.scan(lambda s, x: ({"b": 1.0}, x), {"a": 0.0}, x), td.TracingError,
         "a dict of 'a', but returned a dict of 'b'"),
        (lambda x: td.generate(3, lambda i: td.scan(decay, 0.0, x)[0]),
         td.NestedParallelismError, "td.loop"),
    ],
)  # fmt: skip
def test_errors(wrong, error, message):
    with pytest.raises(error, match=message) as raised:
        wrong(np.ones(9))
    assert "test_recurrences.py" in str(raised.value)


# --- state in place ------------------------------------------------------------------------------


def put(a, at, value):
    """`a` with one element, or the elements over `at`'s axes, replaced."""
    return td.permute(td.overwrite, a, at, value)


def one(x):
    return td.fill(1, x)


def cleared(a, i, k):
    """`a` with a multiple of row k subtracted from row i."""
    a = a.at[i, k].multiply(1 / (8.0 + a[k, k]))
    return a.at[i, k + 1 :].add(-a[i, k] * a[k, k + 1 :])


def rotated(a, p, q):
    """`a` with rows p and q rotated, then columns."""
    c, s = 0.6, 0.8 + a[p, q] * 0
    x, y = a[p], a[q]
    a = a.at[p].set(c * x - s * y).at[q].set(s * x + c * y)
    x, y = a[:, p], a[:, q]
    return a.at[:, p].set(c * x - s * y).at[:, q].set(s * x + c * y)


LOOPS = {
    "own element and another": lambda a, x: td.loop(
        5, lambda k, a: put(a, lambda j: (k, j), a[k] * 2.0 + a[k + 1]), a
    ),
    "rows before": lambda a, x: td.loop(
        6, lambda k, a: put(a, lambda j: (k, j), a[k - 1] * 0.5 + a[k]), a
    ),
    "two elements at one index": lambda a, x: td.loop(
        5, lambda k, x: put(x, lambda i: i // 2, td.generate(6, lambda i: x[i // 2] + 1.0)), x
    ),
    "two states that read each other": lambda a, x: td.loop(
        5,
        lambda k, s: (put(s[0], lambda _: k, one(s[1][k + 1] + 1)),
                      put(s[1], lambda _: k, one(s[0][k + 1] * 2))),
        (x, a[0]),
    ),
    "the old state is kept": lambda a, x: td.loop(
        5, lambda k, s: (put(s[0], lambda _: k, one(s[0][k] * 2)), s[0]), (x, a[0])
    ),
    "the old state is read later": lambda a, x: td.loop(
        30, lambda k, s: (put(s[0], lambda _: k % 6, one(s[1] + 7.0)), s[1] * 0.5 + s[0][0]),
        (x, 0.0),
    ),
    "states that change places": lambda a, x: td.loop(
        23, lambda k, s: (put(s[1], lambda _: k % 6, one(s[0][k % 6] * 0.5)), s[0]), (x, a[0])
    ),
    "a test that reads the state": lambda a, x: td.while_loop(
        lambda s: td.sum(s[1]) < 60.0,
        lambda s: (s[0] + 1, put(s[1], lambda _: s[0] % 6, one(td.sum(s[1]) * 0.5 + 1))), (0, x)
    ),
    "loops in loops": lambda a, x: td.loop(
        6, lambda k, a: td.loop(
            6, lambda j, a: put(a, lambda _: (k, j), one(a[j, k] * 0.5 + 1.0)), a), a
    ),
    "combined with what is there": lambda a, x: td.loop(
        9, lambda k, x: td.permute(lambda new, old: new + old, x, lambda i: (i + k) % 6, x * 0.5),
        x,
    ),
    "elimination": lambda a, x: td.loop(
        5,
        lambda k, a: put(
            a, lambda i, j: td.cond((i > k) & (j > k), (i, j), td.ignore),
            td.generate(a.shape, lambda i, j: a[i, j] - a[i, k] * a[k, j] / (8.0 + a[k, k])),
        ),
        a,
    ),
    "elimination of few elements": lambda a, x: td.loop(
        5,
        lambda k, a: put(
            a, lambda i, j: td.cond((i > k) & (j > k), (i, j), td.ignore),
            td.generate((6, 6), lambda i, j: a[i, j] - a[i, k] * a[k, j] / (8.0 + a[k, k])),
        ),
        a,
    ),
    "elimination row by row": lambda a, x: td.loop(
        5,
        lambda k, a: td.loop(k + 1, a.shape[0], lambda i, a: cleared(a, i, k), a),
        a,
    ),
    "rotations": lambda a, x: td.loop(
        5, lambda p, a: td.loop(p + 1, a.shape[0], lambda q, a: rotated(a, p, q), a), a
    ),
    "rows that data decide": lambda a, x: td.loop(
        5, lambda k, a: rotated(a, k, td.cast(a[k, 1] * 5, td.int64) % 6), a
    ),
    "rows shifted by updates of parts": lambda a, x: td.loop(
        5, lambda k, a: a.at[1:, k].add(a[:-1, k]).at[k, :-1].set(a[k, 1:] * a[0, 0]), a
    ),
    "all elements": lambda a, x: td.loop(3, lambda k, x: x.at[:].set(1.0 * k), x),
    "all elements of some states": lambda a, x: td.loop(
        5,
        lambda k, s: (s[0].at[:].set(2.0), s[1].at[::-1].set(x + k), s[2] * 0.5 + s[3], s[2]),
        (x, x, x, a[0]),
    ),
    "all rows, and their places exchanged": lambda a, x: td.loop(
        5, lambda k, s: (put(s[0], lambda i, j: (j, i), a * k), s[1] + 1.0), (a, a)
    ),
    "two updates of one state": lambda a, x: td.loop(
        9, lambda k, x: put(put(x, lambda _: k % 6, one(x[0] + 1.0)), lambda _: (k + 1) % 6,
                            one(x[1] * 0.5)), x,
    ),
}  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", LOOPS)
def test_updates_of_state(backend, name):
    """What the reference computes with copies, in repeated calls; arguments stay."""
    a, x = generator("in place").random((6, 6)), generator("in place", 1).random(6)
    before = a.copy(), x.copy()
    want = td.jit(LOOPS[name], backend="reference")(a, x)
    function = td.jit(LOOPS[name], backend=backend)
    for _ in range(3):
        assert_same(function(a, x), want, ulps=64)  # sums in another order
        assert_same((a, x), before)


def updated(f, *args):
    """Which states of the program's one loop are updated in place; None if it is one kernel."""
    nodes = lowered(f, *args)
    if any(isinstance(n, Sequential) for n in nodes):
        return None
    (loop,) = [n for n in nodes if isinstance(n, ArrayLoop)]
    found = overwritable(loop)
    assert all(isinstance(n, Permute | ArrayLoop) for n in found)
    return sorted(loop.state.index(leaf.node) for leaves in found.values() for leaf in leaves)


def test_which_states_are_updated_in_place():
    a, x = np.ones((6, 6)), np.ones(6)
    wanted = {
        "own element and another": [0],
        "rows before": [0],  # the new row is stored first
        "two elements at one index": None,
        "two states that read each other": None,
        "the old state is kept": [],
        "the old state is read later": None,
        "elimination": [0],
        "elimination of few elements": None,
    }
    assert {name: updated(LOOPS[name], a, x) for name in wanted} == wanted
    text = td.jit(LOOPS["rows before"], backend="native").lower(a, x).explain()
    assert ": updated in place" in text
    text = td.jit(LOOPS["the old state is kept"], backend="native").lower(a, x).explain()
    assert "updated in place" not in text


def test_rows_behind_a_counter_are_updated_in_place():
    """Row k is none of the rows k + 1 + j, whose counter j is not negative: of two updates, the
    second needs no copy of what the first has made."""
    nodes = lowered(LOOPS["elimination row by row"], np.ones((6, 6)), np.ones(6))
    updates = [n for n in nodes if isinstance(n, Permute)]
    assert len(updates) == 2
    assert all(overwrites(n, default) for n in updates for default in n.defaults)


def test_updates_of_what_is_read_before_are_in_place():
    """The values of an update that reads elements from before another are stored first."""
    for name, number in (("rotations", 4), ("rows that data decide", 4),
                         ("rows shifted by updates of parts", 2)):  # fmt: skip
        nodes = lowered(LOOPS[name], np.ones((6, 6)), np.ones(6))
        loops = [n for n in nodes if isinstance(n, ArrayLoop)]
        changed = overwritable(loops[0], between=True)
        assert len(changed) == number and all(isinstance(n, Permute) for n in changed)
        for node in changed:
            assert all(overwrites(node, leaf) for leaf in node.defaults)


def test_an_update_costs_what_it_writes():
    """20 000 iterations that each write a row of ten take no time for the other rows."""
    x = np.ones((20_000, 10))

    def rows(x):
        def body(k, s):
            row = td.roll(s[0], 1) * 0.5 + x[k]
            return row, put(s[1], lambda j: (k, j), row)

        return td.loop(x.shape[0], body, (td.zeros(10), td.zeros(x.shape)))[1]

    with_copies = 20_000 * x.nbytes * 2 / 50e9  # seconds at 50 GB/s
    program = td.jit(rows, backend="native")
    program(x)
    begun = time.process_time()
    program(x)
    assert time.process_time() - begun < with_copies / 4


def test_only_what_is_read_of_the_last_state_is_stored():
    """Of two parts of the state: both, one, none."""
    x = np.random.default_rng(0).random((7, 5))

    def scanned(x):
        zero = td.zeros(x.shape[0])
        return td.scan(lambda s, e: ((s[0] * 0.5 + e, s[0]), s[0] + s[1]), (zero, zero), x, axis=1)

    older = newer = np.zeros(7)
    collected = np.zeros((7, 5))
    for k in range(5):
        collected[:, k] = newer + older
        newer, older = newer * 0.5 + x[:, k], newer
    for pick, want in (
        (lambda last, all_: (*last, all_), (newer, older, collected)),
        (lambda last, all_: (last[1], all_), (older, collected)),
        (lambda last, all_: last[1], (older,)),
        (lambda last, all_: all_, (collected,)),
    ):
        f = td.jit(lambda x, pick=pick: pick(*scanned(x)), backend="native")
        got = f(x)
        for one, expected in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_allclose(one, expected)
        (node,) = {leaf.node for leaf in f.lower(x).history.roots}
        assert len(node.outputs) == len(want)


def test_sides_of_a_cond_are_collected(backend):
    """Which of two arrays a step collects depends on its data; their extents do not."""
    x = np.arange(12.0).reshape(4, 3)

    def step(before, row):
        return row, td.cond(before[0] > 0, before, row)

    f = td.jit(lambda z, x: td.scan(step, z, x)[1], backend=backend)
    np.testing.assert_array_equal(f(np.zeros(3), x), x[[0, 1, 1, 2]])
    with pytest.raises(td.ShapeError, match="from 2 to 3"):
        f(np.zeros(2), x)


@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_results_in_parts_of_arrays(check, n):
    """Steps that store at a distance, or in arrays with more elements than steps."""
    x = small("float64", (n, 3))

    def path(s, x, at):
        """All states, of which the first is given."""
        many = max(n - 1, 0)
        state, found = np.ones(3), s.copy()
        for k in range(many):
            found[at(k)] = state
            state = state / 2 + x[k]
        return state, found

    def stored(at):
        return lambda: td.loop(td.use(x).shape[0] - 1, lambda k, s: (
            s[0] / 2 + td.use(x)[k], s[1].at[at(k)].set(s[0])), (td.ones(3), x))  # fmt: skip

    few = np.zeros((7, 3))
    few[:2] = [[1.0] * 3, [2.0] * 3]
    check({
        "after the first": (stored(lambda k: k + 1), path(x, x, lambda k: k + 1)),
        "before the last": (stored(lambda k: k), path(x, x, lambda k: k)),
        "in more elements": (
            lambda: td.loop(2, lambda k, s: (2 * s[0], s[1].at[k].set(s[0])),
                            (td.ones(3), td.zeros((7, 3)))),
            (np.full(3, 4.0), few),
        ),
    })  # fmt: skip


def test_states_in_both_directions():
    """A scan from the end, and its states stored from the start, are one kernel."""
    x = small("float64", (50, 7)) / 4
    pair = td.value_and_grad(lambda x: td.sum(td.scan(
        lambda s, v: (s * v + 1.0, s * s), td.zeros(7), x, reverse=True)[1]))  # fmt: skip
    walks = [n for n in lowered(pair, x) if isinstance(n, Recurrence)]
    assert len(walks[0].collected) == 2 and walks[0].reverse
    td.check_grad(lambda x: pair(x)[0], x)

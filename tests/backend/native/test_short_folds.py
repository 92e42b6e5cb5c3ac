"""Folds of short rows on a CPU: loops inside the kernels that read them, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.running import HostRun
from treadle.dsl.analysis.combines import SHORT_ROW
from treadle.dsl.graph import Generate

pytestmark = pytest.mark.skipif("native" not in td.backends(), reason="needs the backend native")
LENGTHS = (0, 1, 3, 17, SHORT_ROW - 1, SHORT_ROW, 130)


def points(n, d, seed=0, type_="f4"):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(type_)


def squares(x, c):
    return td.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2)


CONSUMERS = {
    "argmin": lambda d: td.argmin(d, axis=1),
    "least": lambda d: td.min(d, axis=1),
    "least of a column": lambda d: td.min(d, axis=0),
    "sum": lambda d: td.sum(td.sqrt(d), axis=1),
    "sum of columns": lambda d: td.sum(d, axis=0),
    "mean of all": lambda d: td.mean(d),
    "counts": lambda d: td.bincount(td.cast(td.flatten(td.minimum(d, 9.0)), td.int32), length=10),
}


def compiled(consumer, stored):
    """A consumer of distances that are computed where they are read, or stored first."""
    return td.jit(lambda x, c: consumer(td.compute(squares(x, c)) if stored else squares(x, c)),
                  backend="native")  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CONSUMERS)
def test_taking_a_fold_in_changes_no_bit(name):
    inside, stored = (compiled(CONSUMERS[name], s) for s in (False, True))
    for d in LENGTHS:
        for n, m in ((37, 19), (5, 70)):
            x, c = points(n, d), points(m, d, 1)
            assert np.array_equal(inside(x, c), stored(x, c)), (d, n, m)
            assert np.array_equal(inside(x, c), stored(x, c)), (d, n, m)  # replayed
            backwards = x[::-1], np.asfortranarray(c)
            assert np.array_equal(inside(*backwards), stored(*backwards)), (d, n, m)


@pytest.mark.sample(1)
@pytest.mark.parametrize("type_", ["f4", "f8", "i4", "c8"])
@pytest.mark.parametrize("operation", [td.sum, td.prod, td.mean])
def test_short_rows_are_folded_in_order_however_they_are_stored(type_, operation):
    rows = td.jit(lambda a: operation(a, axis=1), backend="native")
    if operation is td.prod and type_ == "c8":
        pytest.skip("nothing is neutral to a product of complex numbers: (1 + 0i)·∞ is NaN")
    turned = td.jit(lambda a: operation(td.use(a).T, axis=1), backend="native")
    for d in (1, 3, 9, 40, SHORT_ROW - 1):
        a = (10 * points(70, d)).astype(type_)
        found = rows(a)
        assert np.array_equal(found, turned(np.ascontiguousarray(a.T)))
        assert np.array_equal(found, rows(np.asfortranarray(a)))
        with td.config(check=True):
            assert np.array_equal(found, rows(a))
        if operation is td.sum and type_ != "i4":
            total = np.zeros(70, a.dtype)
            for k in range(d):
                total = total + a[:, k]
            assert np.array_equal(found, total)


def steps(f, *args):
    """(operation, how many loops it took in, whether it was left out) of each kernel of a call."""
    program = f.lower(*args)
    program(*args)
    run = HostRun(list(args), ())
    found = []
    for s in program.executable.kernel_steps:
        loops = s.forms.loops(run)
        taken_in = s.forms.taken_in and s.node in loops
        found.append((s.node.label.operation, len(loops), taken_in))
    return found


def test_distances_are_never_stored():
    near = compiled(CONSUMERS["argmin"], False)
    assert steps(near, points(50, 3), points(20, 3)) == [("sum", 1, True), ("argmin", 2, False)]
    assert steps(near, points(50, 3), points(90, 3)) == [("sum", 1, True), ("argmin", 1, False)]
    assert steps(near, points(50, 80), points(20, 80)) == [("sum", 0, False), ("argmin", 1, False)]


def test_what_a_loop_reads_lives_until_its_reader_has_run():
    def nearest(x, c):
        ends = td.cumsum(x, axis=0)
        return td.argmin(squares(ends, td.cumsum(c, axis=0)), axis=1)

    x, c = points(37, 3), points(19, 3, 1)
    want = td.jit(nearest, backend="reference")(x, c)
    assert np.array_equal(td.jit(nearest, backend="native")(x, c), want)


def test_what_is_read_twice_is_stored():
    def normal(x):
        e = td.exp(td.sum(x[:, :, None] * x[:, None, :], axis=2))
        return td.argmin(e, axis=1), td.max(e, axis=0), e

    f = td.jit(normal, backend="native")
    assert not any(out for _, _, out in steps(f, points(9, 3)))
    twice = td.jit(lambda x, c: td.argmin(squares(x, c) + td.reverse(squares(x, c), 0), axis=1),
                   backend="native")  # fmt: skip
    assert not any(out for _, _, out in steps(twice, points(9, 3), points(9, 3, 1)))


def test_chains_of_short_folds_are_one_kernel():
    def nearest(x, c):  # the farthest of the nearest centres of groups of points
        d = td.sum((x[:, :, None, :] - c[None, None, :, :]) ** 2, axis=3)
        return td.max(td.min(d, axis=2), axis=1)

    x, c = points(60, 3).reshape(12, 5, 3), points(7, 3, 1)
    f = td.jit(nearest, backend="native")
    assert [out for _, _, out in steps(f, x, c)] == [True, True, False]
    expected = ((x[:, :, None] - c) ** 2).sum(3, dtype="f8").min(2).max(1)
    assert np.allclose(f(x, c), expected)


@pytest.mark.parametrize("n", [6, 48])
def test_only_short_sums_of_few_operations_are_unrolled(n):
    """The forces between n bodies: n times some twenty operations.  The order stays the same."""

    def forces(p, m):
        d = p[None, :, :] - p[:, None, :]
        r = td.sum(d * d, axis=2) + 0.01
        return td.sum(d * (m[None, :] / (r * td.sqrt(r)))[:, :, None], axis=1)

    rng = np.random.default_rng(0)
    p, m = rng.random((n, 3)), rng.random(n)
    program = td.jit(forces, backend="native").lower(p, m)
    found = program(p, m)
    d = p[None, :, :] - p[:, None, :]
    r = np.cumsum(d * d, axis=2)[:, :, -1] + 0.01
    wanted = np.cumsum(d * (m[None, :] / (r * np.sqrt(r)))[:, :, None], axis=1)[:, -1]
    assert np.array_equal(found, wanted)
    divisions = program.source("native").count(" fdiv ")
    assert divisions == 2 * n if n == 6 else 0 < divisions < 8  # vectors, and the rest of a row


def test_ties_infinities_and_nans_of_argmin():
    a = np.full((6, 5), np.inf, "f4")
    a[1, 3] = -np.inf
    a[2, 2:] = np.nan
    a[3] = 1
    a[4, 1] = np.nan
    a[5, 4] = 0
    for f, reference in ((td.argmin, np.argmin), (td.argmax, np.argmax)):
        got = td.jit(lambda a, f=f: f(a, axis=1), backend="native")(a)
        assert np.array_equal(got, reference(a, axis=1))
        whole = np.full((3, 4), np.iinfo("i4").max, "i4")
        assert np.array_equal(td.jit(lambda a, f=f: f(a, axis=1), backend="native")(whole), [0] * 3)


def test_a_fold_in_a_loop_over_arrays():
    """Lloyd's algorithm: distances inside the labels, inside the loop."""

    def step(c, x):
        label = td.argmin(squares(x, c), axis=1)
        sums = td.permute(lambda a, b: a + b, td.zeros(c.shape, td.float32),
                          lambda i, j: (label[i], j), x)  # fmt: skip
        count = td.bincount(label, length=c.shape[0])
        return sums / td.cast(td.maximum(count, 1), td.float32)[:, None]

    f = td.jit(lambda x, c: td.iterate(4, lambda s: step(s, td.use(x)), c), backend="native")
    x, c = points(300, 2), points(5, 2, 1)
    expected = c.copy()
    for _ in range(4):
        label = ((x[:, None] - expected) ** 2).sum(2).argmin(1)
        for k in range(5):
            mine = x[label == k]
            expected[k] = mine.sum(0) / max(len(mine), 1)
    assert np.allclose(f(x, c), expected, atol=1e-4)


def test_a_schedule_keeps_a_fold_apart():
    f = td.jit(lambda x, c: td.argmin(
        td.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2, schedule=td.schedule.Row()), axis=1),
        backend="native")  # fmt: skip
    x, c = points(40, 3), points(8, 3, 1)
    assert [out for _, _, out in steps(f, x, c)] == [False, False]
    assert np.array_equal(f(x, c), compiled(CONSUMERS["argmin"], False)(x, c))


def test_the_kernel_of_a_short_fold_is_made_of_its_loop():
    f = td.jit(lambda a: td.sum(a, axis=1), backend="native")
    program = f.lower(points(9, 3))
    (node,) = program.kernels
    assert isinstance(program.executable.short.alone[node], Generate)
    assert program.executable.short.inside(node) == (node,)


def test_explain_tells_what_is_not_launched():
    near = compiled(CONSUMERS["argmin"], False)
    text = near.lower(points(50, 3), points(20, 3)).explain()
    assert "1 kernel launched" in text and "short rows  3 < 64: a loop in kernel 2" in text
    assert "each from [n2] elements by argmin" in text and "Not fused" not in text
    long = near.lower(points(50, 80), points(20, 80)).explain()
    assert "2 kernels launched" in long and "a loop in kernel 2 where n2 < 64, here 80" in long
    assert "rows of 64 elements and more are folded by many lanes together" in long

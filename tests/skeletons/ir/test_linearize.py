"""Linearization: sharing, guards, loops, depth and time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported, run_array
from treadle.dsl.expr import walk
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.lower import LoweringContext, lower


def kernel(array, **context):
    made = lower(array._leaves[0].node, LoweringContext(**context)).kernels[0]
    verify(made)
    return made


A = np.random.default_rng(0).random((9, 11))


def test_a_guarded_read_stays_guarded():
    x = td.use(A)
    made = td.generate((9, 11), lambda i, j: td.cond(i > 0, x[i - 1, j], 0.0)
                       + td.cond(j < 10, x[i, j + 1], x[i, 0]))  # fmt: skip
    want = np.zeros((9, 11))
    want[1:] += A[:-1]
    want[:, :-1] += A[:, 1:]
    want[:, -1] += A[:, 0]
    assert np.allclose(run_array(made), want)  # the interpreter checks every load
    assert np.allclose(run_array(made, check=True), want)


def test_a_read_shared_by_two_guards_is_not_hoisted():
    x = td.use(A[0])

    def element(i):
        there = x[i + 5]
        return td.cond(i < 6, there, 0.0) + td.cond(i < 5, there * 2, 1.0)

    got = run_array(td.generate((11,), element))
    want = [(A[0, i + 5] if i < 6 else 0) + (A[0, i + 5] * 2 if i < 5 else 1) for i in range(11)]
    assert np.allclose(got, want)


def test_an_element_that_several_guards_read_is_loaded_once():
    x, table = td.use(A[0]), td.use(A[1])
    sizes = td.use(np.arange(11) % 4)

    def element(i):
        low = td.cond(sizes[i] < 2, x[i] * table[sizes[i] + 1], 0.0)
        return low + td.cond(sizes[i] > 0, x[i] * table[sizes[i] - 1], 0.0)

    made = td.generate(x.shape, element)
    read = Counter(e.buffer.name for s in ir.statements(kernel(made).body)
                   for e in walk(ir.expressions(s)) if isinstance(e, ir.Load))  # fmt: skip
    assert sorted(read.values()) == [1, 1, 2]
    k = np.arange(11) % 4
    want = A[0] * (np.where(k < 2, A[1, k + 1], 0) + np.where(k > 0, A[1, k - 1], 0))
    assert np.allclose(run_array(made), want)


def test_an_element_that_may_be_missing_stays_guarded():
    x = td.use(A[0])

    def element(i):
        return td.cond(i < 6, x[i], 0.0) + td.cond(i < 11, x[i] * 2, 1.0)

    want = [(A[0, i] if i < 6 else 0) + (A[0, i] * 2 if i < 11 else 1) for i in range(20)]
    assert np.allclose(run_array(td.generate((20,), element)), want)  # every load is checked


def test_a_read_needed_anyway_is_done_once():
    x = td.use(A[0])
    made = td.generate((11,), lambda i: td.cond(x[i] > 0.5, x[i] * td.exp(x[i]), x[i]))
    loads = [s for s in ir.statements(kernel(made).body) if isinstance(s, ir.Let)
             and isinstance(s.value, ir.Load)]  # fmt: skip
    assert len(loads) == 1


def test_what_both_sides_need_is_done_before(calls):
    """x = cond(p, f(x), x), again and again: linear, not 2ⁿ."""
    x = td.use(A)

    def work(links):
        def chain(i):
            value = i * 1
            for k in range(links):
                value = td.cond(value > k, value * 3 - x[0, 0].astype(td.int64), value)
            return value

        array = td.generate((4,), chain)
        return calls(lambda: made.append(str(kernel(array))))

    made = []
    work(10)
    short = work(75)
    assert work(300) < 4 * 1.2 * short
    assert len(made[-1]) < 200_000


def test_both_sides_through_a_nested_condition():
    x = td.use(A)

    def chain(i):
        value = x[0, i]
        for k in range(40):
            inner = td.cond(value > k, value, value + x[1, i])
            value = td.cond(x[2, i] > 0.5, inner, value * 2)
        return value

    assert len(str(kernel(td.generate((4,), chain)))) < 100_000


def test_deep_chains(calls):
    x = td.use(A)

    def work(links):
        def chain(i):
            value = i * 1.0
            for _ in range(links):
                value = value * 2 + x[0, 0]
            return value

        array = td.generate((4,), chain)
        return calls(lambda: made.append(kernel(array)))

    made = []
    work(10)
    short = work(500)
    assert work(2000) < 4 * 1.2 * short
    assert max(_depth(e) for s in ir.statements(made[-1].body) for e in ir.expressions(s)) < 64


def _depth(e):
    depth = {}
    for node in walk((e,)):
        depth[node] = 1 + max((depth[a] for a in node.args), default=0)
    return depth[e]


def test_while_with_two_states():
    made = td.generate((5, 7), lambda i, j: td.while_loop(
        lambda s: s[0] < 100, lambda s: (s[0] * 2 + s[1], s[1] + 1), (i + 1, j))[1])  # fmt: skip

    def one(i, j):
        state = (i + 1, j)
        while state[0] < 100:
            state = (state[0] * 2 + state[1], state[1] + 1)
        return state[1]

    assert np.array_equal(run_array(made), [[one(i, j) for j in range(7)] for i in range(5)])


def test_loops_that_swap_their_states():
    made = td.generate((6,), lambda i: td.loop(i, lambda k, s: (s[1], s[0] + s[1]), (0, 1))[0])
    assert np.array_equal(run_array(made), [0, 1, 1, 2, 3, 5])


def test_loops_in_loops_and_guards_in_loops():
    x = td.use(A)

    def element(i):
        return td.loop(i, lambda k, s: td.loop(
            k + 1, lambda m, t: t + td.cond(m < 9, x[m, k], 100.0), s), 0.0)  # fmt: skip

    got = run_array(td.generate((11,), element), seed=1)
    want = [sum(A[m, k] if m < 9 else 100 for k in range(i) for m in range(k + 1))
            for i in range(11)]  # fmt: skip
    assert np.allclose(got, want)


def test_a_while_reads_only_while_it_may():
    x = td.use(np.array([3.0, 2.0, 0.0]))
    made = td.generate((3,), lambda i: td.while_loop(
        lambda k: td.cond(k < 3, x[k] > 1, False), lambda k: k + 1, i))  # fmt: skip
    assert np.array_equal(run_array(made, check=True), [2, 2, 2])


def test_checks_stay_under_their_guard():
    x = td.use(A[0])
    safe = td.generate((20,), lambda i: td.cond(i < 11, x[i], 0.0))
    assert np.allclose(run_array(safe, check=True), [*A[0], *[0] * 9])
    with pytest.raises(Reported):
        run_array(td.generate((20,), lambda i: td.where(i < 11, x[i], 0.0)), check=True)


def test_what_exists_only_under_a_condition_is_loaded_under_it():
    """A constant index that only a condition makes valid, in two of them."""

    def f(a, x, y):
        def element(k):
            first = td.cond(x[k] > 50, a[1 << 40] * td.exp(x[k]), 0.0)
            return first + td.cond(y[k] > 50, a[1 << 40] + td.sin(y[k]), 1.0)

        return td.generate((x.shape[0],), element)

    found = td.jit(f, backend="native")(np.arange(3.0), np.arange(4.0), np.ones(4))
    np.testing.assert_array_equal(found, np.ones(4))

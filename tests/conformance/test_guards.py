"""Nothing is computed that a guard leaves out: the body of a loop that does not run, what a test
ends, the other side of a cond. What is left out here would read far outside its array, which
ends a process, or never end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treadle as td

FAR = 1 << 44
A = np.arange(6.0)
M = np.arange(24.0).reshape(4, 6)
#: Places outside every array.
PLACES = np.full(6, FAR)


def add(x, y):
    return x + y


def outside(a, at):
    """Six elements, none of which is there."""
    return td.generate(6, lambda i: a[at[i]])


def at_the_greatest(a, table, s):
    place = td.max(s).astype("int64")
    return td.generate(6, lambda i: a[table[td.the(place)]])


def endless(a):
    return td.map(lambda x: td.while_loop(lambda v: v >= x, lambda v: v + 1, x), a)


#: In each a loop of `n` iterations; there are none.
WITHOUT_A_TURN = {
    "gather": lambda a, at, n: td.iterate(n, lambda s: s + outside(a, at), a),
    "generate": lambda a, at, n: td.iterate(
        n, lambda s: s + td.generate(6, lambda i: td.exp(a[i * FAR + FAR])), a
    ),
    "by number": lambda a, at, n: td.loop(
        n, lambda k, s: s + td.generate(6, lambda i: a[at[i] + k]), a
    ),
    "sum": lambda a, at, n: td.iterate(n, lambda s: s + td.sum(outside(a, at)), a),
    "prefixes": lambda a, at, n: td.iterate(n, lambda s: s + td.cumsum(outside(a, at)), a),
    "sent": lambda a, at, n: td.iterate(
        n, lambda s: s + td.permute(add, a, lambda i: i, outside(a, at)), a
    ),
    "product": lambda a, at, n: td.iterate(
        n, lambda s: s + td.generate((6, 6), lambda i, j: a[at[i]]) @ a, a
    ),
    "sorted": lambda a, at, n: td.iterate(n, lambda s: s + td.sort(outside(a, at)), a),
    "materialised": lambda a, at, n: td.iterate(n, lambda s: s + td.compute(outside(a, at)), a),
    "of what is outside": lambda a, at, n: td.iterate(
        n, lambda s: s + td.sum(td.compute(outside(a, at)) * 2), a
    ),
    "the next state": lambda a, at, n: td.iterate(n, lambda s: outside(a, at), a),
    "endless": lambda a, at, n: td.iterate(n, lambda s: s + endless(a), a),
    "beside another kernel": lambda a, at, n: (
        td.compute(a * 2),
        td.iterate(n, lambda s: s + td.compute(td.generate(6, lambda i: a[i] + a[at[i]])), a),
    ),
    "with a result": lambda a, at, n: (
        td.sum(a),
        td.iterate(n, lambda s: s + td.sum(td.generate(6, lambda i: a[i] + a[at[i]])), a),
    ),
    "in two loops": lambda a, at, n: (
        td.iterate(n, lambda s: s + td.compute(outside(a, at)), a),
        td.iterate(n, lambda s: s * td.compute(outside(a, at)), a),
    ),
    "a loop inside": lambda a, at, n: td.iterate(
        3, lambda s: td.iterate(n, lambda t: t + s * td.compute(outside(a, at)), s + 1), a
    ),
    "a loop inside, of its state": lambda a, at, n: td.iterate(
        3,
        lambda s: td.iterate(
            n, lambda t: t + td.compute(td.generate(6, lambda i: s[at[i]])), s + 1
        ),
        a,
    ),
    "a loop around": lambda a, at, n: td.iterate(
        n, lambda s: td.iterate(3, lambda t: t + td.compute(outside(a, at)), s + 1), a
    ),
    "in a side": lambda a, at, n: td.cond(
        n == 0, td.iterate(n, lambda s: s + outside(a, at), a), a * 2
    ),
    "a side in it": lambda a, at, n: td.iterate(
        3, lambda s: td.cond(n > 0, s + td.compute(outside(a, at)), s + 1), a
    ),
    "a test": lambda a, at, n: td.while_loop(
        lambda s: td.sum(s) < n, lambda s: s + td.compute(outside(a, at)), a
    ),
    "a test and a fold beside it": lambda a, at, n: td.while_loop(
        lambda s: td.sum(s) < n,
        lambda s: s + td.sum(td.generate(6, lambda i: s[i] + s[at[i]])),
        a,
    ),
    "a test of counters": lambda a, at, n: td.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + td.compute(outside(a, at))), (0, a)
    ),
    "in elements": lambda a, at, n: td.generate(
        6, lambda i: td.loop(n, lambda k, s: s + a[at[i]] * a[at[2]], a[i])
    ),
    "in elements, by number": lambda a, at, n: td.generate(
        6, lambda i: td.loop(n, lambda k, s: s + a[at[i] + k], 0.0)
    ),
    "in elements, tested": lambda a, at, n: td.generate(
        6, lambda i: td.while_loop(lambda s: s < n, lambda s: s + 1 + a[at[i]], 0.0)
    ),
    "in rows": lambda a, at, n: td.sum(
        td.generate((6, 6), lambda i, j: td.loop(n, lambda k, s: s + a[at[j]], a[i])), axis=1
    ),
    "of elements inside": lambda a, at, n: td.generate(
        6,
        lambda i: td.loop(
            3, lambda k, s: s + td.loop(n, lambda j, t: t + a[at[i]] * s, 1.0), a[i]
        ),
    ),
    "both sides": lambda a, at, n: td.map(
        lambda x: td.cond(n > 0, a[at[0]] + x, td.cond(n > 1, a[at[0]], x)), a
    ),
    "a side of a side": lambda a, at, n: td.map(
        lambda x: td.cond(n > 0, td.cond(x > 2, a[at[0]], a[at[1]]), x), a
    ),
    "chosen by where": lambda a, at, n: td.generate(6, lambda i: td.where(n > i, a[at[i]], a[i])),
    "branches": lambda a, at, n: td.cond(n > 0, td.compute(outside(a, at)), td.compute(a * 3)),
    "branches of one kernel": lambda a, at, n: (
        a * 2,
        td.cond(n > 0, td.compute(td.generate(6, lambda i: a[i] * a[at[i]])), a),
    ),
}  # fmt: skip

#: What is outside where the test of a loop fails, after `n` iterations.
AFTER_THE_LAST = {
    "while": lambda a, table, n: td.while_loop(
        lambda s: s[0] < n,
        lambda s: (s[0] + 1, s[1] + td.generate(6, lambda i: a[table[s[0]]])),
        (0, a),
    ),
    "while, by data": lambda a, table, n: td.while_loop(
        lambda s: td.the(td.max(s)) < n, lambda s: s + at_the_greatest(a, table, s), a * 0
    ),
    "while in elements": lambda a, table, n: td.generate(
        6,
        lambda i: td.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + a[table[s[0]]]), (0, a[i])
        )[1],
    ),
}  # fmt: skip


def run_all(backend):
    for name, f in WITHOUT_A_TURN.items():
        compiled = td.jit(f, backend=backend)
        want = td.jit(f, backend="reference")(A, PLACES, 0)
        for _ in range(3):
            got = compiled(A, PLACES, 0)
            for mine, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)),
                                    strict=True):  # fmt: skip
                np.testing.assert_array_equal(mine, theirs, err_msg=name)
    for iterations in (1, 3, 6, 50):
        table = np.append(np.ones(iterations, int), [FAR] * 4)
        for name, f in AFTER_THE_LAST.items():
            got = td.jit(f, backend=backend)(A, table, iterations)
            want = td.jit(f, backend="reference")(A, table, iterations)
            for mine, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)),
                                    strict=True):  # fmt: skip
                np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_on_an_emulated_gpu(backend):
    if backend == "cuda":
        run_all(backend)


def test_on_a_cpu():
    """In a process of its own."""
    code = "from tests.conformance.test_guards import run_all; run_all('native')"
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code], cwd=root, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", WITHOUT_A_TURN)
def test_what_is_left_out_is_not_tested(name, backend):
    """Nor reported, in checked mode."""
    if name == "chosen by where":  # both sides are evaluated
        return
    program = td.jit(WITHOUT_A_TURN[name], backend=backend)
    with td.config(check=True):
        program(A, PLACES, 0)


MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    "test",
    [
        lambda i, k: k <= MOST,
        lambda i, k: k > MOST,
        lambda i, k: k >= LEAST,
        lambda i, k: k < LEAST,
        lambda i, k: i + k <= MOST,
        lambda i, k: MOST - k >= i,
        lambda i, k: k + MOST > i,
        lambda i, k: k * 2**62 > i,
    ],
)
def test_guards_at_the_ends_of_int64(test, backend):
    program = td.jit(
        lambda a: td.generate((3, 7), lambda i, k: td.cond(test(i, k), a[k % 6] + 1, 0.0)),
        backend=backend,
    )
    want = [[A[k % 6] + 1 if test(i, k) else 0.0 for k in np.arange(7)] for i in np.arange(3)]
    np.testing.assert_array_equal(program(A), want)


DIVISIONS = {
    "in a loop of elements": lambda n, m: td.generate(
        37, lambda i: td.loop(n, lambda k, s: s + i // m + 7 // m + n % m, 0)
    ),
    "in no columns": lambda n, m: td.generate((3, n), lambda i, j: 5 // m + j % m),
    "in a fold": lambda n, m: td.sum(td.generate((n, 4), lambda i, j: i + j // m), axis=1),
    "that overflow": lambda n, m: td.generate(
        6, lambda i: td.loop(n, lambda k, s: s + td.int64(-(2**63)) // (m - 1), 0)
    ),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_before_loops(name, backend):
    """What does not change in a loop is computed before it, also if the loop does not iterate."""
    f = DIVISIONS[name]
    for n, m in ((0, 0), (3, 0), (0, 3), (2, 2)):
        want = td.jit(f, backend="reference")(n, m)
        np.testing.assert_array_equal(td.jit(f, backend=backend)(n, m), want)


def test_indices_computed_from_elements_of_the_same_array(run):
    """The loop of an element is inside of itself: each has variables of its own."""
    x = np.array([7, -8, -5, 7, -6, -9, 9, -5, -3, 6], np.int16)
    v = x[:-1] * 2 + x[1:]

    def program(x):
        sums = td.generate(x.shape[0] - 1, lambda i: td.loop(
            2, lambda k, s: s * 2 + x[i + k], td.int16(0)))  # fmt: skip
        steps = td.generate(x.shape[0] - 1, lambda i: td.while_loop(
            lambda s: s < 20, lambda s: s + td.abs(x[i]) + 1, td.int16(0)))  # fmt: skip
        n = sums.shape[0]
        return sums[sums % n], td.take_along_axis(steps, sums[steps % n] % n, axis=0)

    steps = np.array([next(s for s in range(0, 99, abs(int(e)) + 1) if s >= 20) for e in x[:-1]])
    want = v[v % 9], steps[v[steps % 9] % 9]
    for got, expected in zip(run(program(td.use(x))), want, strict=True):
        np.testing.assert_array_equal(got, expected)

"""Polynomials, and the affine forms of index expressions."""

from __future__ import annotations

import math

import numpy as np

import treadle as td
from treadle.dsl.analysis.polynomial import Polynomial, affine, variables
from treadle.dsl.expr import Index, Loop, Read, walk

A = np.zeros((9, 11))


def forms(array):
    """Of the indices of each read: the coefficients of the axes, and the constant."""
    elements = array._leaves[0].node.elements
    return [
        [None if f is None else ({name(v): c for v, c in variables(f).items()}, f.constant)
         for f in map(affine, e.args)]
        for e in walk(elements) if isinstance(e, Read)
    ]  # fmt: skip


def name(variable):
    return variable.axis if isinstance(variable, Index) else "loop"


def test_transpose_and_reverse():
    x = td.use(A)
    assert forms(x.T) == [[({1: 1}, 0), ({0: 1}, 0)]]
    (rows, columns), = forms(x[::-1, ::2])  # fmt: skip
    assert rows[0] == {0: -1} and columns == ({1: 2}, 0)


def test_indices_from_data_are_not_affine():
    x, at = td.use(A), td.use(np.zeros(9, "i8"))
    found = forms(td.generate((9,), lambda i: x[at[i], i]))
    assert [({0: 1}, 0)] in found and [None, ({0: 1}, 0)] in found


def test_loops_take_part():
    x = td.use(A)
    made = td.generate((9,), lambda i: td.loop(11, lambda k, s: s + x[i, 2 * k + 1], 0.0))
    assert forms(made) == [[({0: 1}, 0), ({"loop": 2}, 1)]]
    assert any(isinstance(e, Loop) for e in walk(made._leaves[0].node.elements))


def test_data_is_not_affine():
    x = td.use(np.zeros(4, "i8"))
    made = td.generate((4,), lambda i: x[i] * 2)
    assert affine(made._leaves[0].node.elements[0]) is None


def test_run_time_constants_are_terms():
    x = td.use(A)
    made = td.generate((9,), lambda i: x[i * 2 + x.shape[0] - 3, 0])
    found = affine(next(e for e in walk(made._leaves[0].node.elements) if isinstance(e, Read)
                        ).args[0])  # fmt: skip
    assert variables(found) == {Index(0): 2} and found.constant == -3
    assert [c for m, c in found.terms.items() if m and m[0] != Index(0)] == [1]


def test_arithmetic_is_that_of_the_values():
    """Sums and products of random polynomials, evaluated at random integers."""
    random = np.random.default_rng(0)

    def one():
        monomials = (random.integers(0, 4, random.integers(0, 3)).tolist() for _ in range(4))
        return Polynomial({tuple(sorted(m)): int(random.choice([-3, -1, 1, 2])) for m in monomials})

    def at(p, values):
        return sum(c * math.prod(values[a] for a in m) for m, c in p.terms.items())

    for _ in range(50):
        p, q, k = one(), one(), int(random.integers(-3, 4))
        values = random.integers(-9, 10, 4).tolist()
        x, y = at(p, values), at(q, values)
        for made, want in ((p + q, x + y), (p - q, x - y), (p * q, x * y), (-p, -x), (p * k, x * k),
                           (p + k, x + k), (p - k, x - k)):  # fmt: skip
            assert at(made, values) == want and 0 not in made.terms.values()
        assert p * q == q * p and hash(p * q) == hash(q * p) and (p - p).value == 0
        assert p.nonconstant + p.constant == p and (p == q) == ((p - q).value == 0)

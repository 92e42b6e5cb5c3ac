"""Affine forms of index expressions."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.dsl.expr import Index, Loop, Read, walk
from treadle.skeletons.access.affine import affine

A = np.zeros((9, 11))


def forms(array):
    """Of the indices of each read: the coefficients of the axes, and the constant."""
    elements = array._leaves[0].node.elements
    return [
        [None if f is None else ({name(v): c for v, c in f.variables.items()}, f.constant)
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
    assert found.variables == {Index(0): 2} and found.constant == -3
    assert [c for _, c in found.uniform] == [1]

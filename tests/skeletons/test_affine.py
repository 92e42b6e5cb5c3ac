"""Affine forms and access maps."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.skeletons.access.affine import affine
from treadle.skeletons.lower.lower import lower

A = np.zeros((9, 11))


def accesses(array):
    found = {}
    for kernel in lower(array._leaves[0].node).kernels:
        for a in kernel.accesses:
            found.setdefault((a.array, a.write), []).append((a.coefficients, a.offset))
    return found


def test_stencil():
    found = accesses(td.stencil(lambda w: w[-1, 0] + w[0, 2], A))
    assert found["input", False] == [(({"i0": 1}, {"i1": 1}), (-1, 0)),
                                     (({"i0": 1}, {"i1": 1}), (0, 2))]  # fmt: skip
    assert found["out", True] == [(({"i0": 1}, {"i1": 1}), (0, 0))]


def test_transpose_reverse_and_gather():
    x, at = td.use(A), td.use(np.zeros(9, "i8"))
    assert accesses(x.T)["input", False] == [(({"i1": 1}, {"i0": 1}), (0, 0))]
    reverse = accesses(x[::-1, ::2])["input", False][0]
    assert reverse[0] == ({"i0": -1}, {"i1": 2})
    gather = accesses(td.generate((9,), lambda i: x[at[i], i]))
    assert gather["input", False] == [(({"i0": 1},), (0,))]
    assert gather["input_1", False] == [((None, {"i0": 1}), (None, 0))]


def test_loops_take_part():
    x = td.use(A)
    made = td.generate((9,), lambda i: td.loop(11, lambda k, s: s + x[i, 2 * k + 1], 0.0))
    assert accesses(made)["input", False] == [(({"i0": 1}, {"k": 2}), (0, 1))]


def test_data_is_not_affine():
    x = td.use(np.zeros(4, "i8"))
    made = td.generate((4,), lambda i: x[i] * 2)
    assert affine(made._leaves[0].node.elements[0]) is None


def test_scatter_writes_are_described():
    x = td.use(np.zeros(4, "i8"))
    made = td.permute(lambda n, o: n + o, np.zeros(9, "i8"), lambda i: 8 - i, x)
    assert accesses(made)["out", True][0] == (({"i0": -1},), (8,))

"""Stencils whose weights are known at run time, lowered for one number of them."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import execute
from treadle.dsl.expr import Loop, Read, walk
from treadle.dsl.graph import Leaf
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.specialise import counting_extents, specialise
from treadle.skeletons.lower.lower import LoweringContext, lower


def correlated(boundary=td.clamp):
    program = td.jit(lambda a, w: td.correlate(a, w, boundary)).lower(
        np.zeros((9, 8), "f4"), np.zeros((3, 3), "f4")
    )
    return program.kernels[-1], program.inputs


@pytest.mark.parametrize("boundary", [td.clamp, td.wrap, td.mirror, td.constant(2)])
@pytest.mark.parametrize("size", [(3, 3), (1, 4), (2, 1)])
def test_the_specialised_kernel_computes_the_same(boundary, size):
    node, (a, w) = correlated(boundary)
    rng = np.random.default_rng(0)
    values = {a.leaf(): rng.random((9, 8), np.float32), w.leaf(): rng.random(size, np.float32)}
    counts = counting_extents(node)
    assert {(e.node, e.axis) for e in counts} == {(w, 0), (w, 1)}
    made = specialise(node, {e: size[e.axis] for e in counts})
    assert not any(isinstance(e, Loop) for e in walk(made.elements))
    assert sum(isinstance(e, Read) and e.node is w for e in walk(made.elements)) == np.prod(size)
    found = []
    for one in (node, made):
        arrays = dict(values)
        execute(lower(one, LoweringContext()), one, arrays, {})
        found.append(arrays[Leaf(one, 0)])
    assert np.array_equal(*found)


@pytest.mark.parametrize("size", [3, 5])
def test_weights_of_a_known_number_are_like_weights_in_the_program(size):
    """They are read for several rows together."""
    node, _ = correlated()
    made = specialise(node, {e: size for e in counting_extents(node)})

    def near(w):
        around = range(-(size // 2), size // 2 + 1)
        return sum((w[i, j] * (2 + 5 * i + j) for i in around for j in around), start=0.0)

    written = td.jit(lambda a: td.stencil(near, a, boundary=td.clamp)).lower(np.zeros((9, 8), "f4"))
    kinds = []
    for one in (made, written.kernels[-1]):
        (kernel,) = lower(one, LoweringContext()).kernels
        kinds.append([s.kind for s in ir.statements(kernel.body) if isinstance(s, ir.For)])
    assert kinds[0] == kinds[1]
    assert "unrolled" in kinds[0]


def test_loops_of_other_counts_stay():
    node, _ = correlated()
    assert specialise(node, {}) is node
    many = specialise(node, {e: 200 for e in counting_extents(node)})
    assert any(isinstance(e, Loop) for e in walk(many.elements))
    total = td.use(np.zeros(4)) + 1
    assert counting_extents(total._leaves[0].node) == {}

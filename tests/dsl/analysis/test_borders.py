"""Elements that are 0 beyond the arrays that they read."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.dsl.analysis.borders import zero_beyond
from treadle.dsl.expr import Const, Expr, Index, Read, constant, walk
from treadle.dsl.scalar import apply_primitive as of
from treadle.dsl.types import float64

ARRAY = td.use(np.ones((3, 4)))
A, B = ARRAY._leaves[0], td.cast(ARRAY, td.int64)._leaves[0]
I, J = Index(0), Index(1)
ZERO = Const(0, float64)


def found(e: Expr, wanted: tuple[int, ...] = (0, 1), signed: bool = False) -> tuple[set[int], int]:
    """The axes along which an element over the axes of A and 5 is 0, and the bordered reads."""
    shape = (*A.shape, constant(5))
    places = (of("subtract", [I, J]), J, Index(2))
    made, axes = zero_beyond(e, shape, wanted, places, signed=signed)
    reads = [x for x in walk((made,)) if isinstance(x, Read)]
    return axes, sum(x.boundary == "constant" for x in reads)


def test_products_and_choices_of_zeros() -> None:
    a, three = A.at(I, J), Const(3.0, float64)
    assert found(a) == ({0, 1}, 1)
    assert found(a, (1,)) == ({1}, 1)
    assert found(a, ()) == (set(), 0)
    assert found(of("multiply", [a, three])) == ({0, 1}, 1)
    assert found(of("add", [a, three])) == (set(), 0)
    assert found(of("multiply", [a, Const(-3.0, float64)]), signed=True) == (set(), 0)
    chosen = of("select", [of("equal", [B.at(I, J), constant(2)]), a, ZERO])
    assert found(chosen) == ({0, 1}, 2)


def test_other_indices_are_not_read_beyond_the_array() -> None:
    assert found(A.at(J, I)) == (set(), 0)  # its extents are those of other axes
    product = of("multiply", [A.at(I, J), A.at(constant(0), J)])
    assert found(product) == ({1}, 2)  # 0 · ∞ is not 0
    moved = A.at(of("add", [I, constant(1)]), J)
    assert found(of("select", [of("less", [moved, ZERO]), A.at(I, J), ZERO])) == (set(), 0)


def test_integers_are_not_divided_by_the_border() -> None:
    """A division of integers by 0 is an error."""
    quotient = of("floor_divide", [constant(4), B.at(I, J)])
    assert found(of("select", [of("less", [constant(1), quotient]), A.at(I, J), ZERO])) == (
        set(),
        0,
    )

"""How the arrays of a call lie in memory, as far as kernels are made for it.

An array that is dense and row-major needs no word.  Of any other, the strides are numbers of the
call; but kernels are made for the one that decides how it is read: along which axis its neighbours
lie side by side (the columns of a Fortran matrix, the rows of a slice of columns), or a few
elements apart, or backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.configuration import Settings
from treadle.dsl.evaluator import evaluator
from treadle.dsl.expr import Index
from treadle.dsl.graph import Generate, Input, Label, Leaf
from treadle.dsl.types import ScalarType, as_type
from treadle.dsl.values import flatten_results

#: Of each array that is not dense: (leaf, axis along which its elements are nearest to each other,
#: how many elements apart), 0 where they are far apart.
Layout = tuple[Leaf, int, int]
Layouts = frozenset[Layout]

DENSE: Layouts = frozenset()
#: Kernels are made for neighbours at most so far apart: they are loaded by vectors of what is
#: between them, or one by one (`memory.py`).
FARTHEST = 16
#: Neighbours at most so far apart are loaded by vectors.
NEIGHBOURS = 4


def layouts_of(arrays: Iterable[tuple[int, Leaf]], slots: Sequence[Any]) -> Layouts:
    """The layouts of the arrays (slot, leaf) that are not dense."""
    found = [(leaf, slots[slot]) for slot, leaf in arrays if not slots[slot].flags.c_contiguous]
    return frozenset((leaf, *nearest(a)) for leaf, a in found) if found else DENSE


def nearest(array: Any) -> tuple[int, int]:
    """The axis along which the elements of an array are nearest to each other, and how far apart
    neighbours are, 0 for far.

    >>> import numpy as np
    >>> a = np.zeros((6, 8))
    >>> [nearest(v) for v in (a.T, a[:, 1:], a[:, ::-2], a[::2].T, a[::3, 0])]
    [(0, 1), (1, 1), (1, -2), (0, 1), (0, 0)]
    """
    steps = [
        (abs(stride), -axis, stride)
        for axis, (stride, n) in enumerate(zip(array.strides, array.shape, strict=True))
        if n > 1 and stride
    ]
    if not steps:
        return array.ndim - 1, 0
    _, axis, stride = min(steps)
    step, rest = divmod(stride, array.itemsize)
    return -axis, step if not rest and abs(step) <= FARTHEST else 0


def row_major(array: Any) -> Any:
    """The array if it is dense, else a dense copy."""
    if array.flags.c_contiguous:
        return array
    if array.size < FEW:
        return np.ascontiguousarray(array)
    return _copy(as_type(array.dtype), array.ndim)(array)


#: Arrays of fewer elements are copied by NumPy.
FEW = 1 << 12


@lru_cache(maxsize=64)
def _copy(t: ScalarType, rank: int) -> Callable[[Any], Any]:
    """A program that copies arrays, from any layout: through tiles, where they lie column by
    column."""
    given = Input("given", t, (False,) * rank, kind="argument")
    element = Leaf(given, 0).at(*map(Index, range(rank)))
    node = Generate(given.shape, (element,), label=Label("copy"))
    leaves, tree = flatten_results(Array(node.leaves))
    program = evaluator().program(leaves, tree, Settings(), "native", (given,))
    return lambda array: program.execute((array,))

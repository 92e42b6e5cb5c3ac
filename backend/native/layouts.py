"""The memory layouts of a call's arrays for which kernels are specialised.

Dense row-major arrays have no entry.  The strides of other arrays are scalar arguments.  Kernels
are specialised only for the smallest stride, which decides how the array is read: the axis along
which its elements are contiguous (the columns of a Fortran matrix, the rows of a slice of columns),
a few elements apart, or reversed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.evaluator import evaluator
from treadle.dsl.expr import Index
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Generate, Input, Label, Leaf
from treadle.dsl.process.configuration import Settings
from treadle.dsl.types import ScalarType, as_type

from ..runtime.types import HostArray

#: The layout of an array that is not dense: (leaf, axis with the smallest stride, that stride in
#: elements, the order of axes in which the array is dense).  The stride is 0 if it is large; the
#: order is omitted for most kernels, which do not depend on it.
Layout = tuple[Leaf, int, int, tuple[int, ...]]
Layouts = frozenset[Layout]

DENSE: Layouts = frozenset()
#: The largest stride for which kernels are specialised: they load vectors that include the elements
#: in between, or load elements one by one (`memory.py`).
FARTHEST = 16
#: The largest stride that is loaded by vectors.
NEIGHBOURS = 4


def layouts_of(arrays: Iterable[tuple[int, Leaf]], slots: Sequence[Any], orders: bool = False
               ) -> Layouts:  # fmt: skip
    """The layouts of the arrays (slot, leaf) that are not dense, with `orders` if wanted."""
    found = [(leaf, slots[slot]) for slot, leaf in arrays if not slots[slot].flags.c_contiguous]
    if not found:
        return DENSE
    return frozenset((leaf, *nearest(a), order_of(a) if orders else ()) for leaf, a in found)


def order_of(array: HostArray) -> tuple[int, ...]:
    """The axes of an array in the order in which it is dense in memory; empty if there is no such
    order.

    >>> import numpy as np
    >>> a = np.zeros((6, 8, 2))
    >>> [order_of(v) for v in (a.T, a.transpose(2, 0, 1), a.T[1:], a.T[:, ::-1])]
    [(2, 1, 0), (1, 2, 0), (), ()]
    """
    strides = array.strides
    order = tuple(sorted(range(array.ndim), key=lambda axis: -strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else ()


def nearest(array: Any) -> tuple[int, int]:
    """The axis of an array with the smallest stride, and that stride in elements, 0 if it is large.

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
    if array.flags.c_contiguous:
        return array
    if array.size < FEW:
        return np.ascontiguousarray(array)
    return copying(as_type(array.dtype), array.ndim).execute((array,))


#: Arrays with fewer elements are copied by NumPy.
FEW = 1 << 12


@lru_cache(maxsize=64)
def copying(t: ScalarType, rank: int) -> Any:
    """A program that copies arrays of any layout; column-major arrays are copied in tiles."""
    given = Input("given", t, (False,) * rank, kind="argument")
    element = Leaf(given, 0).at(*map(Index, range(rank)))
    node = Generate(given.shape, (element,), label=Label("copy"))
    leaves, tree = flatten_results(Array(node.leaves))
    return evaluator().program(leaves, tree, Settings(), "native", (given,))

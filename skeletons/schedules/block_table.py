"""Orders of blocks as lookup tables: a lookup costs a load, a curve hundreds of instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.graphs.interning import cached_per_object

from .examine import evaluate, inverse_table, row_major_ids
from .orders import Order
from .user_orders import built_in

#: Tables cached per order, for the lifetime of the order.
_KEPT = 8


def looked_up(order: Order) -> bool:
    """Whether a GPU reads the coordinates of the blocks of an order from a table."""
    return not order.cheap_on_gpu


def block_table(order: Order, grid: Sequence[int]) -> NDArray[np.int32]:
    """The row-major ids of the blocks of ``grid`` in the sequence of ``order``, without padding.
    Read-only.

    >>> from treadle.skeletons.schedules import Column
    >>> block_table(Column(1), (2, 3)).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return _table(order, tuple(int(n) for n in grid))


@cached_per_object(_KEPT)
def _table(order: Order, extents: tuple[int, ...]) -> NDArray[np.int32]:
    if built_in(order):
        ids = row_major_ids(evaluate(order, extents), extents)
    else:  # raises if the order is not a bijection
        ids = np.argsort(inverse_table(order, extents).ravel())
    found = ids.astype(np.int32)
    found.flags.writeable = False
    return found


class BlockTable:
    """``HostTable.make`` for an order; the values are the extents of the grid."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def __call__(self, values: Sequence[Any], contents: Sequence[Any]) -> NDArray[np.int32]:
        grid = tuple(int(v) for v in values)
        return block_table(self.order, grid) if min(grid, default=1) > 0 else np.zeros(1, np.int32)

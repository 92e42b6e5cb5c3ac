"""A schedule resolved for one rank: what an id visits, and in which units.

The grain rule of schedules.md, section 1: alone, an order visits elements, and a block consists of
consecutive ids; together with a ``Block`` it visits blocks, with its lengths rounded up to whole
blocks.

Where an operation consists of *leaves*, parts that every schedule computes as one unit (a block of
a row that is folded, a strip of columns), everything is rounded up to whole leaves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.graphs.interning import cached_per_object
from treadle.dsl.schedule import ScheduleError

from .arithmetic import Index, ceil_div, product
from .examine import evaluate, inverse_table, row_major_ids
from .layers import Block, Lanes, PerThread
from .orders import Grain, Order
from .user_orders import built_in

if TYPE_CHECKING:
    from collections.abc import Sequence

# 8 rows of 32: for a stencil, a third of the L2 traffic of one row of 256.
_DEFAULT_BLOCK = (8, 32)
# Default extents where the lanes run along another axis than the last: 32 there, 8 along the last.
_LANES, _BESIDE_LANES = 32, 8


@dataclasses.dataclass(frozen=True)
class Resolved:
    """What ids visit, for one rank.

    ``order`` visits units, and its lengths count units. A unit has ``unit`` elements: one block at
    block grain, the outputs of one thread at thread grain. ``block`` has the extents of a block in
    elements; it is ``None`` when blocks are runs of ids, and then ``threads``, the threads of a
    block, is ``None`` if it was left open. ``per_thread`` has one extent per axis, ``lanes`` is an
    axis. Resolved for leaves, ``unit`` and ``per_thread`` count leaves, and ``block`` elements.
    ``table``: ids are looked up (``block_table``), and none is skipped.

    >>> from treadle.skeletons.schedules import Column
    >>> plan = (Column(64) | Block(8, 32) | PerThread(rows=2)).resolve(2)
    >>> plan.order, plan.unit, plan.threads, plan.origin(2, (100, 100))
    (Column(2), (8, 32), 128, (8, 0))
    """

    grain: Grain
    order: Order
    unit: tuple[int, ...]
    block: tuple[int, ...] | None
    per_thread: tuple[int, ...]
    threads: int | None
    lanes: int
    table: bool = False

    @property
    def ndim(self) -> int:
        """The rank this plan is for."""
        return len(self.unit)

    def grid(self, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        """The number of units along each axis of ``shape``."""
        return tuple(
            n if unit == 1 else ceil_div(n, unit) for n, unit in zip(shape, self.unit, strict=True)
        )

    def linear_size(self, shape: tuple[Index, ...]) -> Index:
        """The number of ids to launch for ``shape``; units outside ``grid(shape)`` are skipped."""
        grid = self.grid(shape)
        return product(grid) if self.table else self.order.linear_size(grid)

    def origin(self, i: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
        """The first element of the unit that id ``i`` visits."""
        coordinates = self.order.coordinates(i, self.grid(shape))
        return tuple(
            at if unit == 1 else at * unit for at, unit in zip(coordinates, self.unit, strict=True)
        )


def resolve(
    ndim: int,
    order: Order,
    grain: Grain,
    block: Block | None,
    per_thread: PerThread | None,
    lanes: Lanes | None,
    leaf: Sequence[int] | None = None,
) -> Resolved:
    """Applies the grain rule; see ``Schedule.resolve``."""
    outputs = _outputs(per_thread, ndim)
    covered: tuple[int, ...] | None = None
    threads: int | None = None
    if grain == "block":
        covered = _covered(block, ndim, outputs, _axis(lanes, ndim))
        threads = math.prod(covered) // math.prod(outputs)
    elif block is not None:
        threads = max(math.prod(block.extents) // math.prod(outputs), 1)
    unit = outputs if covered is None else covered
    leaf = leaf or (1,) * ndim
    unit, own = (
        tuple(ceil_div(n, size) for n, size in zip(extents, leaf, strict=True))
        for extents in (unit, outputs)
    )
    rows, cols = fit([n * size for n, size in zip(unit, leaf, strict=True)][-2:], 2)
    return Resolved(
        grain, _in_units(order, rows, cols), unit, covered, own, threads, _axis(lanes, ndim)
    )


def _in_units(order: Order, rows: int, cols: int) -> Order:
    """The order with its lengths in units; an error in a user-defined method names the method."""
    form = "in_units(self, rows, cols)"
    try:
        found = order.in_units(rows, cols)
    except Exception as error:
        raise ScheduleError(
            f"{type(order).__name__}.in_units({rows}, {cols}) failed: {error}",
            hint=f"It is {form}, and returns the order with its lengths in units of rows × cols.",
        ) from error
    if not isinstance(found, Order):
        raise ScheduleError(
            f"{type(order).__name__}.in_units returned {found!r}, not an order.",
            hint=f"{form} returns the order with its lengths in units, or self.",
        )
    return found


def fit(extents: Sequence[int], ndim: int) -> tuple[int, ...]:
    """``extents`` of the last axes as one per axis; leading ones are added, or dropped if 1.

    >>> fit((8, 32), 3), fit((1, 256), 1)
    ((1, 8, 32), (256,))
    """
    extents = tuple(extents)
    spare = len(extents) - ndim
    if spare <= 0:
        return (1,) * -spare + extents
    if any(extent > 1 for extent in extents[:spare]):
        raise ScheduleError(f"{len(extents)} extents do not fit {ndim} axes.")
    return extents[spare:]


def _outputs(per_thread: PerThread | None, ndim: int) -> tuple[int, ...]:
    extents = (1,) if per_thread is None else per_thread.extents
    try:
        return fit(extents, ndim)
    except ScheduleError:
        raise ScheduleError(
            f"{per_thread!r} needs {len(extents)} axes, the operation has {ndim}.",
            hint="Write PerThread(cols=...) for rank 1." if ndim == 1 else None,
        ) from None


def _covered(
    block: Block | None, ndim: int, outputs: tuple[int, ...], lanes: int
) -> tuple[int, ...]:
    if block is None and lanes < ndim - 1:
        sides = [1] * (ndim - 1) + [_BESIDE_LANES]
        sides[lanes] = _LANES
        return tuple(ceil_div(n, size) * size for n, size in zip(sides, outputs, strict=True))
    if block is None:
        chosen = (math.prod(_DEFAULT_BLOCK),) if ndim == 1 else _DEFAULT_BLOCK
        whole = fit(chosen[len(chosen) - min(ndim, 2) :], ndim)
        return tuple(ceil_div(n, size) * size for n, size in zip(whole, outputs, strict=True))
    try:
        covered = fit(block.extents, ndim)
    except ScheduleError:
        smaller = block.extents[len(block.extents) - ndim :] if ndim else ()
        raise ScheduleError(
            f"{block!r} has {len(block.extents)} axes, the operation has {ndim}.",
            hint=f"Write Block({', '.join(map(str, smaller))})." if ndim else None,
        ) from None
    if any(extent % size for extent, size in zip(covered, outputs, strict=True)):
        raise ScheduleError(
            f"blocks of {covered} elements are not multiples of a thread's {outputs} outputs.",
            hint="Choose extents of the block that are multiples of the outputs per thread.",
        )
    return covered


def _axis(lanes: Lanes | None, ndim: int) -> int:
    axis = -1 if lanes is None else lanes.axis
    if lanes is not None and not -ndim <= axis < ndim:
        raise ScheduleError(
            f"{lanes!r}: the operation has {ndim} axes.",
            hint=f"The axis is one of {-ndim} ... {ndim - 1}." if ndim else None,
        )
    return max(axis + ndim, 0) if axis < 0 else axis


# --- Orders of blocks as lookup tables: a lookup costs a load, a curve hundreds of instructions ---

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

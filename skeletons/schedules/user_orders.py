"""User-defined orders, tested before they run: an order that misses an element would leave it
unwritten.

They are tested on a few small shapes when the rank of an operation is known, then once on each grid
that they number in a launch.  The test suite proves the built-in orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.graphs.interning import cached_per_object
from treadle.dsl.schedule import ScheduleError, of_operation

from .examine import all_points, check, inside_of, inverse_table, points_of, row_major_ids, size_of
from .layers import is_built_in
from .orders import Order, PlaneOrder

if TYPE_CHECKING:
    from treadle.dsl.graph import Node

#: Up to this many ids, a user-defined order is always tested on the extents of a launch (0.3 s).
TRIED = 1 << 22
# Ids tested at a time on the extents of a launch.
_AT_ONCE = 1 << 18
# The shapes that every order is tested on first; of each, the last extents, one for each axis.
_SMALL = ((1, 1, 1), (2, 3, 5), (7, 4, 3), (3, 17, 8))


def built_in(order: Order) -> bool:
    """Whether an order is defined by this package, whose tests prove it to be a bijection.

    >>> from treadle.skeletons.schedules import Column
    >>> built_in(Column(2))
    True
    """
    return is_built_in(type(order))


@cached_per_object(8)
def require_bijection(order: Order, ndim: int) -> None:
    """Raises ``ScheduleError`` if an order misses or repeats elements of small shapes of this rank.

    Tests user-defined orders only, when they are first used. The error names the first wrong
    element or, for an order of another rank, that rank.
    """
    if built_in(order):
        return
    try:
        _try_small_shapes(order, ndim)
    except ScheduleError as error:
        # A PlaneOrder accepts every rank, correct or not.
        ranks = () if isinstance(order, PlaneOrder) else (1, 2, 3, 4)
        others = [n for n in ranks if n != ndim and _is_for(order, n)]
        if not _can_be_called(order, ndim):  # so there are no visits to explain
            raise (
                _of_another_rank(order, ndim, others[-1]) if others else error
            ) from error.__cause__
        raise _explained(
            error,
            order,
            "shape",
            "; every order is first tested on a few small shapes",
            "\nAn order for powers of two, for example, visits the enclosing shape: "
            "linear_size(self, shape) is the number of its ids, and those outside are skipped.",
        ) from error.__cause__


def require_fit(order: Order, extents: Sequence[int], thorough: bool = False) -> None:
    """Checks, before a launch, an ``order`` that numbers a grid of these extents.

    Calls ``order.require``. Tests with NumPy, once, that a user-defined order is a bijection there:
    for at most ``TRIED`` ids, or for any number if ``thorough`` (checked mode). Raises
    ``ScheduleError``.

    >>> from treadle.skeletons.schedules import Table
    >>> require_fit(Table([1, 0]), (2, 1))
    """
    grid = tuple(max(int(n), 0) for n in extents)
    order.require(grid)
    if not built_in(order) and 0 not in grid:
        _require_bijection_on(order, grid, thorough)


def require_fits(
    node: Node, fits: Iterable[tuple[Order, int, int]], values: Sequence[int], check: bool
) -> None:
    """``require_fit`` for the grids of a launch, whose extents are slices of ``values``; errors
    name the operation."""
    with of_operation(node.label, node.where):
        for order, start, end in fits:
            require_fit(order, values[start:end], check)


@cached_per_object(64)
def _require_bijection_on(order: Order, extents: tuple[int, ...], thorough: bool) -> None:
    try:
        size = size_of(order, extents)
        if (size > TRIED and not thorough) or _visits_each_once(order, extents, size):
            return
        inverse_table(order, extents)
    except ScheduleError as error:
        raise _explained(error, order, repr(extents)) from error.__cause__
    raise AssertionError(f"{order!r} on {extents}: the two tests disagree")


def _visits_each_once(order: Order, extents: tuple[int, ...], size: int) -> bool:
    """Whether each element is visited exactly once; needs one byte per element."""
    seen = np.zeros(math.prod(extents), np.bool_)
    count = 0
    for start in range(0, size, _AT_ONCE):
        ids = np.arange(start, min(start + _AT_ONCE, size), dtype=np.int64)
        points = points_of(order, ids, extents)
        inside = inside_of(points, extents)
        if not inside.all() and (order.dense or (points < 0).any()):
            return False
        positions = row_major_ids(points[inside], extents)
        seen[positions] = True
        count += len(positions)
    return count == seen.size and bool(seen.all())


def _small_shapes(ndim: int) -> list[tuple[int, ...]]:
    return [(1,) * (ndim - 3) + extents[max(3 - ndim, 0) :] for extents in _SMALL]


def _try_small_shapes(order: Order, ndim: int) -> None:
    for shape in _small_shapes(ndim):
        order.require(shape)
        check(order, shape)


def _is_for(order: Order, ndim: int) -> bool:
    try:
        _try_small_shapes(order, ndim)
    except ScheduleError:
        return False
    return True


def _can_be_called(order: Order, ndim: int) -> bool:
    """Whether ``coordinates`` returns one coordinate per axis, correct or not."""
    try:
        for shape in _small_shapes(ndim):
            all_points(order, shape)
    except ScheduleError:
        return False
    return True


def _of_another_rank(order: Order, ndim: int, own: int) -> ScheduleError:
    names = ("plane", "row", "column")[-ndim:] if ndim <= 3 else ("…",)
    return ScheduleError(
        f"{order!r} is an order of {_axes(own)}, and the operation has {_axes(ndim)}.",
        hint=f"Its coordinates(self, i, shape) gets {ndim} extents here and returns as many "
        f"coordinates: ({', '.join(names)}{',' * (ndim == 1)}). An order of the last two axes for "
        "every rank is a PlaneOrder, which defines plane(self, i, height, width).",
    )


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _explained(error: ScheduleError, order: Order, shape: str, more: str = "", cure: str = ""
               ) -> ScheduleError:  # fmt: skip
    """The error for a user who did not call ``check``."""
    hint = (
        "An order is a bijection: it visits every element (with a Block: every block) exactly "
        f"once. td.schedule.check({order!r}, {shape}) reports where it does not.{cure}"
    )
    return type(error)(
        f"{error.message.removesuffix('.')}{more}.",
        hint=hint if error.hint is None else f"{error.hint}\n{hint}",
        where=error.where,
    )

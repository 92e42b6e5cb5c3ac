"""Orders evaluated, inverted, checked and drawn with NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import TreadleError, user_facing_maker
from treadle.dsl.graphs.interning import cached_per_object
from treadle.dsl.schedule import ScheduleError, ScheduleTypeError, as_schedule

from .orders import Order

# Cells that a drawing shows along each axis, and planes if there are more than two axes.
_DRAWN = 24
_PLANES = 4
# Elements of what is drawn, at most.
_MOST = 1 << 24


@user_facing_maker
def evaluate(order: Order, shape: Sequence[int]) -> NDArray[np.int64]:
    """The coordinates in visiting order, one row each, without the ids outside ``shape``.

    Parameters
        order: an order.
        shape: the extents.

    Result: a NumPy array of int64.

    >>> from treadle.skeletons.schedules import Column
    >>> evaluate(Column(1), (2, 2)).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    order, extents = order_alone(order), extents_of(shape)
    points = all_points(order, extents)
    return points if order.dense else points[inside_of(points, extents)]


@user_facing_maker
def inverse_table(order: Order, shape: Sequence[int]) -> NDArray[np.int64]:
    """An array of extents ``shape``: the id that visits each element (counting skipped ids).

    Raises ``ScheduleError`` when the order is not a bijection on ``shape``.

    Parameters
        order: an order.
        shape: the extents.

    Result: a NumPy array of int64.

    >>> from treadle.skeletons.schedules import Column
    >>> inverse_table(Column(1), (2, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    order, extents = order_alone(order), extents_of(shape)
    points = all_points(order, extents)
    inside = inside_of(points, extents)
    _refuse_outside(order, extents, points, inside)
    ids = np.flatnonzero(inside)
    positions = row_major_ids(points[ids], extents)
    _refuse_collision(order, extents, ids, positions)
    table = np.full(math.prod(extents), -1, np.int64)
    table[positions] = ids
    _refuse_gap(order, extents, table)
    return table.reshape(extents)


@user_facing_maker
def padding(order: Order, shape: Sequence[int]) -> int:
    """The number of ids that an order skips on ``shape``; 0 for a dense order.

    Parameters
        order: an order.
        shape: the extents.

    Result: a Python int.

    >>> from treadle.skeletons.schedules import Morton
    >>> padding(Morton(), (4, 8)), padding(Morton(), (5, 8))
    (0, 24)
    """
    order, extents = order_alone(order), extents_of(shape)
    return int(order.linear_size(extents)) - math.prod(extents)


def order_alone(value: object) -> Order:
    """The order that a value is, or the order of a schedule that has no other layer.

    Raises ``ScheduleTypeError`` for anything else.
    """
    if isinstance(value, Order):
        return value
    layers = as_schedule(value).layers  # raises for other values
    orders = [layer for layer in layers if isinstance(layer, Order)]
    if orders and len(layers) == 1:
        return orders[0]
    raise ScheduleTypeError(
        f"{value!r} is more than an order of elements." if orders else f"{value!r} has no order.",
        hint="Give an order, such as Column(8); schedule.plot(shape) draws whole schedules.",
    )


@user_facing_maker
def check(order: Order, shape: Sequence[int]) -> int:
    """Checks that an order is a bijection on ``shape``, and returns its padding.

    Checked for all ids with NumPy, and for a few with Python integers, which must agree. Raises
    ``ScheduleError`` with the first collision, gap, or id outside.

    Parameters
        order: an order.
        shape: the extents.

    Result: a Python int.

    >>> from treadle.skeletons.schedules import Hilbert
    >>> check(Hilbert(), (3, 4))
    4
    """
    order, extents = order_alone(order), extents_of(shape)
    inverse_table(order, extents)
    points = all_points(order, extents)
    count = len(points)
    for i in sorted({0, 1, count // 3, count // 2, count - 1} & set(range(count))):
        single = tuple(order.coordinates(i, extents))
        if not all(a == b for a, b in zip(single, points[i].tolist(), strict=True)):
            raise ScheduleError(
                f"{order!r} gives id {i} of {extents} coordinates {single} with Python integers, "
                f"but {tuple(points[i].tolist())} with NumPy arrays."
            )
    return padding(order, extents)


@cached_per_object(8)
def ascends(order: Order, ndim: int) -> bool:
    """Whether an order visits every line along the last axis from left to right.

    Tested on a few shapes of this rank; False for a table, which fits one extent only.

    >>> from treadle.skeletons.schedules import Column, ZigZag
    >>> ascends(Column(2), 2), ascends(ZigZag(2), 2)
    (True, False)
    """
    for extents in ((2, 3, 5), (7, 4, 3), (3, 17, 8), (2, 9, 70), (1, 70, 9)):
        shape = (1,) * (ndim - 3) + extents[max(3 - ndim, 0) :]
        try:
            when = inverse_table(order, shape)
        except ScheduleError:
            return False
        if (np.diff(when, axis=-1) < 0).any():
            return False
    return True


@cached_per_object(1)
def pieces_of_a_warp(order: Order) -> int:
    """The most row segments that the elements of 32 consecutive ids fall into.

    Tested on the first ids of a plane of 256 x 256; 0 for an order that does not fit it. On a GPU
    each segment costs an L1 transaction, where one would be enough.

    >>> from treadle.skeletons.schedules import Column, Row
    >>> pieces_of_a_warp(Row()), pieces_of_a_warp(Column(8))
    (1, 4)
    """
    plane = (256, 256)
    try:
        order.require(plane)
        row, column = order.coordinates(np.arange(2048, dtype=np.int64), plane)
    except ScheduleError:
        return 0
    visited = row * plane[1] + column + np.zeros(2048, np.int64)
    positions = np.sort(visited.reshape(-1, 32), axis=1)
    return int((np.diff(positions, axis=1) != 1).sum(axis=1).max()) + 1


@user_facing_maker
def draw(order: Order, shape: Sequence[int]) -> str:
    """A small picture: each element shows when it is visited, or -1 if it never is. If the order is
    not a bijection, a line below says why. Large extents are cut off. Raises ``ScheduleError`` if
    coordinates lie outside ``shape``, and for more than 16,777,216 elements.

    Parameters
        order: an order.
        shape: the extents.

    Result: a string.

    >>> from treadle.skeletons.schedules import ZigZag
    >>> print(draw(ZigZag(2), (2, 4)))
    0 1 4 5
    3 2 7 6
    """
    order, extents = order_alone(order), extents_of(shape)
    if (size := math.prod(extents)) > _MOST:
        raise ScheduleError(
            f"draw evaluates an order at every element: {size:,} are too many (at most {_MOST:,}).",
            hint="Draw a smaller array, such as (16, 64): the order is the same.",
        )
    points = evaluate(order, extents)
    outside = np.flatnonzero(((points < 0) | (points >= extents)).any(axis=1))
    if len(outside):
        first = tuple(int(c) for c in points[outside[0]])
        raise ScheduleError(f"{order!r} visits {first}, which is outside of {extents}.",
                            hint="check(order, shape) says what else is wrong.")  # fmt: skip
    when = np.full(math.prod(extents), -1, np.int64)
    when[row_major_ids(points, extents)] = np.arange(len(points))
    height, width = (1, 1, *extents)[-2:]
    planes = when.reshape(math.prod(extents[:-2]), height, width)
    pictures = []
    for number, plane in enumerate(planes[:_PLANES]):
        leading = np.unravel_index(number, extents[:-2]) if extents[:-2] else ()
        title = f"[{', '.join(str(k) for k in leading)}, :, :]\n" if leading else ""
        pictures.append(title + _draw_plane(plane, len(str(max(len(points) - 1, 0)))))
    if len(planes) > _PLANES:
        pictures.append(f"... and {len(planes) - _PLANES} more")
    try:
        inverse_table(order, extents)
    except ScheduleError as error:
        pictures.append(error.message)
    return "\n\n".join(pictures)


def _draw_plane(plane: NDArray[np.int64], digits: int) -> str:
    height, width = plane.shape
    more = " ..." if width > _DRAWN else ""
    lines = [
        " ".join(f"{when:{digits}d}" for when in row[:_DRAWN]) + more for row in plane[:_DRAWN]
    ]
    return "\n".join(lines + ["..."] * (height > _DRAWN))


def extents_of(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape as a tuple of extents; ``ScheduleError`` if it is not one."""
    try:
        extents = tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        raise ScheduleTypeError(
            f"a shape is a tuple of extents, got {shape!r}.", hint="For example (480, 640)."
        ) from None
    if any(extent < 0 for extent in extents):
        raise ScheduleError(f"extents are 0 or more, got {extents}.")
    return extents


def all_points(order: Order, extents: tuple[int, ...]) -> NDArray[np.int64]:
    """The coordinates of every id, including skipped ones; (linear size, rank)."""
    order.require(extents)
    size = size_of(order, extents)
    if size < math.prod(extents):
        raise ScheduleError(
            f"{order!r} has {size} ids on {extents}, fewer than its {math.prod(extents)} elements."
        )
    return points_of(order, np.arange(size, dtype=np.int64), extents)


def points_of(order: Order, ids: NDArray[np.int64], extents: tuple[int, ...]) -> NDArray[np.int64]:
    """The coordinates of the given ids; (number of ids, rank)."""
    columns = _call(order, ids, extents)
    points = np.empty((len(ids), len(extents)), np.int64)
    for axis, column in enumerate(columns):
        values = np.asarray(column)
        if values.dtype.kind not in "iu":
            raise ScheduleTypeError(
                f"{order!r}: coordinate {axis} has type {values.dtype}; coordinates are integers.",
                hint="Divide with //, not with /.",
            )
        points[:, axis] = values
    return points


def size_of(order: Order, extents: tuple[int, ...]) -> int:
    try:
        return int(order.linear_size(extents))
    except TreadleError:
        raise
    except Exception as error:
        raise _failed(order, "linear_size", extents, error) from error


def _call(order: Order, ids: NDArray[np.int64], extents: tuple[int, ...]) -> tuple[object, ...]:
    name = type(order).__name__
    try:
        # Both operands of a selection are evaluated, even one that divides by zero.
        with np.errstate(divide="ignore"):
            result = order.coordinates(ids, extents)
    except TreadleError:
        raise
    except Exception as error:
        raise _failed(order, "coordinates", extents, error) from error
    if not isinstance(result, tuple) or len(result) != len(extents):
        got = f"{len(result)} of them" if isinstance(result, tuple) else repr(type(result).__name__)
        raise ScheduleTypeError(
            f"{name}.coordinates has to return a tuple of {len(extents)} coordinates on {extents}, "
            f"got {got}."
        )
    return result


def _failed(order: Order, method: str, extents: tuple[int, ...], error: Exception) -> ScheduleError:
    """The error for an exception in a user's method; its traceback shows only the user's frames."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    hint = None
    if "ambiguous" in str(error) or ("only" in str(error) and "scalar" in str(error)):
        hint = (
            "coordinates is evaluated for many ids at once: write where(p, a, b), minimum and "
            "maximum of td.schedule instead of Python's if, min, max, int and divmod on values."
        )
    return ScheduleError(
        f"{type(order).__name__}.{method} failed on {extents}: {error}.", hint=hint
    )


def inside_of(points: NDArray[np.int64], extents: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.asarray(((points >= 0) & (points < np.array(extents, np.int64))).all(axis=1))


def row_major_ids(points: NDArray[np.int64], extents: tuple[int, ...]) -> NDArray[np.int64]:
    ids = np.zeros(len(points), np.int64)
    for axis, extent in enumerate(extents):
        ids = ids * extent + points[:, axis]
    return ids


def _refuse_outside(
    order: Order, extents: tuple[int, ...], points: NDArray[np.int64], inside: NDArray[np.bool_]
) -> None:
    # A padding order may exceed the extents; kernels do not test for negative coordinates.
    wrong = ~inside if order.dense else (points < 0).any(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ScheduleError(
            f"{order!r} is not a bijection on {extents}: id {i} visits "
            f"{tuple(points[i].tolist())}, which is outside.",
            hint="An order with ids to be skipped defines linear_size(self, shape)."
            if order.dense
            else None,
        )


def _refuse_collision(
    order: Order, extents: tuple[int, ...], ids: NDArray[np.int64], positions: NDArray[np.int64]
) -> None:
    _, first = np.unique(positions, return_index=True)
    if len(first) == len(positions):
        return
    repeated = np.ones(len(positions), bool)
    repeated[first] = False
    later = int(np.argmax(repeated))
    earlier = int(np.argmax(positions == positions[later]))
    point = tuple(int(c) for c in np.unravel_index(positions[later], extents))
    raise ScheduleError(
        f"{order!r} is not a bijection on {extents}: ids {ids[earlier]} and {ids[later]} both "
        f"visit {point}."
    )


def _refuse_gap(order: Order, extents: tuple[int, ...], table: NDArray[np.int64]) -> None:
    gaps = table < 0
    if gaps.any():
        point = tuple(int(c) for c in np.unravel_index(int(np.argmax(gaps)), extents))
        raise ScheduleError(f"{order!r} is not a bijection on {extents}: no id visits {point}.")

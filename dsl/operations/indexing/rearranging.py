"""Axes moved, arrays repeated, split and stacked, with NumPy's names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from ... import late_binding as later
from ...analysis.bounds import element_bounds
from ...analysis.short_extents import UNPACKED, fixed, short_extent
from ...annotations import ArrayLike, AxisLike, ShapeLike
from ...array import Array, map_over
from ...errors import AxisError, DTypeError, ShapeError
from ...expr import Index, constant
from ...frontend.call_cache import slices
from ...frontend.sources import as_array
from ...frontend.tracing import is_tracing, is_tracing_program
from ...graph import Check, Leaf, indices, known
from ...scalar import KnownExtent, Scalar, lift
from ...shapes import as_shape, broadcast_shapes, extents, require
from ..common import integer, normalise_axis, operation, unrolled, whole_number
from ..elements.functions import minimum
from ..elements.mapping import with_checks, zip as zip_
from ..reducing.irregular import expand
from ..reducing.reductions import min as min_
from .index_space import (
    broadcast_to,
    expand_dims,
    flatten,
    reshape,
    reverse,
    swapaxes,
    take,
    transpose,
)
from .joining import concatenate, require_list
from .making import iota, the

__all__ = ["append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays",
           "column_stack", "dsplit", "dstack", "fliplr", "flipud", "hsplit", "hstack",
           "matrix_transpose", "moveaxis", "repeat", "rollaxis", "rot90",
           "sliding_window_view", "split", "tile", "unstack", "vsplit", "vstack"]  # fmt: skip


@operation
def moveaxis(a: ArrayLike, source: AxisLike, destination: AxisLike) -> Array:
    """Move axes to new positions; the others keep their order.

    Parameters
        source: the axis to move, or a tuple of axes; negative ones count from the end.
        destination: where it goes, or where each of them goes.

    Result: an array with the same elements, and its axes in that order.

    Errors: `AxisError` if there is no such axis; `ShapeError` if the numbers of axes differ.

    >>> td.moveaxis(np.zeros((3, 4, 5)), 0, -1).shape
    (4, 5, 3)
    """
    array = as_array(a, "moveaxis")
    froms, tos = (_in_order(x, array, "moveaxis") for x in (source, destination))
    if len(froms) != len(tos):
        raise ShapeError(
            f"moveaxis: {len(froms)} axes cannot move to {len(tos)} positions.",
            hint="Give source and destination equally many axes.",
        )
    order = [axis for axis in range(array.ndim) if axis not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return transpose(array, order)


def _listed(given: int | Sequence[int]) -> list[int]:
    """Numbers in a list, of a sequence of them or of one."""
    several = isinstance(given, Iterable) and not isinstance(given, Scalar | str)
    if several and getattr(given, "ndim", None) != 0:
        return list(cast(Sequence[int], given))
    return [cast(int, given)]


def _in_order(axes: AxisLike, array: Array, operation: str) -> list[int]:
    """Different axes, counted from the start, in the given order."""
    given = _listed(axes)
    found = [normalise_axis(x, array.ndim, operation) for x in given]
    if len(set(found)) != len(found):
        raise AxisError(
            f"{operation}: an axis is named twice: {axes}.", hint="Name each axis once."
        )
    return found


@operation
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`axis` moved to before the axis `start`; `moveaxis` is easier to read.

    Parameters
        start: the axis before which it goes; default 0.

    >>> td.rollaxis(td.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    array = as_array(a, "rollaxis")
    axis = normalise_axis(axis, array.ndim, "rollaxis")
    if start < 0:
        start += array.ndim
    if not 0 <= start <= array.ndim:
        raise AxisError(
            f"rollaxis: start={start} is outside 0 … {array.ndim}.",
            hint="td.moveaxis(a, source, destination) is easier to read.",
        )
    return moveaxis(array, axis, start - (axis < start))


@operation
def matrix_transpose(a: ArrayLike) -> Array:
    """The last two axes swapped; `ShapeError` if the rank is below 2.

    >>> td.matrix_transpose(np.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    array = as_array(a, "matrix_transpose")
    _require_rank(array, 2, "matrix_transpose")
    return swapaxes(array, -1, -2)


def _require_rank(array: Array, least: int, operation: str) -> None:
    if array.ndim < least:
        raise ShapeError(
            f"{operation} needs a rank of at least {least}, got {array.ndim}.",
            hint="td.expand_dims(a, axis) adds an axis.",
        )


@operation
def sliding_window_view(
    a: ArrayLike, window_shape: ShapeLike, axis: AxisLike | None = None
) -> Array:
    """All windows of this shape: the axes of the window come last.

    Nothing is stored: what reduces the windows reads `a`.  Also as
    `np.lib.stride_tricks.sliding_window_view`.

    Parameters
        window_shape: the extents of a window, along all axes or those of `axis`.
        axis: the axes along which windows lie, in the order of `window_shape`; default None: all.

    Result: an array whose axes with windows of w elements are w − 1 shorter, and the axes of the
        window after them.

    >>> td.sliding_window_view(np.array([3, 1, 2, 4]), 3)
    Array([[3, 1, 2],
           [1, 2, 4]])
    """
    array = as_array(a, "sliding_window_view")
    window, tests = as_shape(window_shape, "sliding_window_view")
    given = range(array.ndim) if axis is None else axis if isinstance(axis, Sequence) else [axis]
    axes = [normalise_axis(k, array.ndim, "sliding_window_view") for k in given]
    if len(axes) != len(window):
        raise ShapeError(
            f"sliding_window_view: {len(window)} extents of a window for {len(axes)} axes.",
            hint="Write axis=, as many axes as the window has.",
        )
    checks, shape = list(tests), list(array._shape)
    index = [Scalar(Index(k)) for k in range(array.ndim)]
    for k, (at, extent) in enumerate(zip(axes, window, strict=True)):
        shape[at] = lift(Scalar(shape[at]) - Scalar(extent) + 1)
        index[at] = index[at] + Scalar(Index(array.ndim + k))
        said = f"sliding_window_view: the windows are longer than axis {at}."
        checks += require(shape[at], constant(1), said, relation=">=", hint="Pad it: td.pad.")
    where = [lift(i) for i in index]
    return map_over(array, where, (*shape, *window), "sliding_window_view", tuple(checks))


@operation
def fliplr(a: ArrayLike) -> Array:
    """Axis 1 reversed; the rank is at least 2.

    >>> td.fliplr(np.arange(6).reshape(2, 3))
    Array([[2, 1, 0],
           [5, 4, 3]])
    """
    array = as_array(a, "fliplr")
    _require_rank(array, 2, "fliplr")
    return reverse(array, 1)


@operation
def flipud(a: ArrayLike) -> Array:
    """Axis 0 reversed; the rank is at least 1.

    >>> td.flipud(np.arange(6).reshape(2, 3))
    Array([[3, 4, 5],
           [0, 1, 2]])
    """
    array = as_array(a, "flipud")
    _require_rank(array, 1, "flipud")
    return reverse(array, 0)


@operation
def rot90(a: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Rotate by `k` quarter turns in the plane of two axes, from the first towards the second.

    Parameters
        k: how many quarter turns; default 1.
        axes: the plane; default (0, 1).

    Result: an array with the extents of the two axes exchanged if `k` is odd.

    >>> td.rot90(np.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]])
    """
    array = as_array(a, "rot90")
    k = whole_number(k, "rot90", "k")
    if len(axes) != 2:
        raise ShapeError(f"rot90 needs two axes, got {len(axes)}.", hint="Write axes=(0, 1).")
    first, second = _in_order(tuple(axes), array, "rot90")
    if k % 4 == 0:
        return array
    if k % 4 == 2:
        return reverse(array, (first, second))
    rotated = reverse(array, second) if k % 4 == 1 else array
    rotated = swapaxes(rotated, first, second)
    return rotated if k % 4 == 1 else reverse(rotated, second)


# --- repeating -------------------------------------------------------------------------------


@operation
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Each element `repeats` times, next to each other; of the flattened array for axis None.

    `repeats` is one number, which may be a run-time value, or an array of a number for each element
    (along `axis`): the extent of the result is then computed by the kernels.

    Parameters
        repeats: how often each element is repeated.

    Result: an array like `a` with more elements along the axis; of rank 1 for axis None.

    Errors: `ShapeError` if a number of repeats is negative.  (An array of numbers that may be, on
    dask arrays and in `td.stream`, too, is tested as a whole: `td.maximum(repeats, 0)` is not.)

    >>> td.repeat(np.array([3, 1]), 2)
    Array([3, 3, 1, 1])
    """
    array = as_array(a, "repeat")
    if axis is None:
        array, axis = flatten(array), 0
    axis = normalise_axis(axis, array.ndim, "repeat")
    if not isinstance(repeats, int | Scalar | np.integer):
        counts = as_array(repeats, "repeat")
        if not counts.structure.is_leaf or not counts.types[0].is_integer or counts.ndim > 1:
            raise DTypeError(
                f"repeat: the numbers of repeats are {counts.dtype} of rank {counts.ndim}.",
                hint="Give an integer, or an array of rank 1 with one for each element.",
            )
        if element_bounds(counts._leaves[0])[0] < 0:
            least = lift(the(min_(counts, initial=0)))
            counts = with_checks(counts, require(
                least, constant(0),
                "repeat: a number of repeats is negative, {left}.", relation=">=",
                hint="td.maximum(repeats, 0) leaves out such elements.",
            ), "repeat")  # fmt: skip
        if counts.ndim and known(counts._shape[0]) != 1:
            pairs = zip_(iota(array.shape[axis]), counts)
            return take(array, expand(lambda p: p[1], lambda p, k: p[0], pairs), axis)
        repeats = the(counts[0] if counts.ndim else counts)
    wide = expand_dims(array, axis + 1)
    shape = [*array.shape[: axis + 1], repeats, *array.shape[axis + 1 :]]
    merged = [*array.shape[:axis], array.shape[axis] * repeats, *array.shape[axis + 1 :]]
    return reshape(broadcast_to(wide, shape), merged)


#: Up to this number, copies are joined, of which no index is divided.
_COPIES = 8


@operation
def tile(a: ArrayLike, reps: int | Sequence[int]) -> Array:
    """The array repeated `reps` times along each axis, the last numbers for the last axes.

    Parameters
        reps: how often along each axis.

    Result: an array whose extents are those of `a`, times `reps`.

    >>> td.tile(np.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    array = as_array(a, "tile")
    times = _listed(reps)
    rank = max(array.ndim, len(times))
    times = [1] * (rank - len(times)) + times
    array = reshape(array, [1] * (rank - array.ndim) + list(array.shape))
    for axis, count in enumerate(times):
        few = isinstance(count, int | np.integer) and 1 < count <= _COPIES
        if few and known(array._shape[axis]) != 1:
            array, times[axis] = concatenate([array] * int(count), axis), 1
    shape = array.shape
    with_ones = reshape(array, list(itertools.chain.from_iterable((1, n) for n in shape)))
    wide = broadcast_to(
        with_ones, list(itertools.chain.from_iterable(zip(times, shape, strict=True)))
    )
    return reshape(wide, [t * n for t, n in zip(times, shape, strict=True)])


# --- ranks -----------------------------------------------------------------------------------


@operation
def atleast_1d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Arrays of rank 0 become arrays of one element; one array, or a tuple of several.

    Parameters
        *arrays: arrays.

    >>> td.atleast_1d(5)
    Array([5])
    """
    made = tuple(_at_least(a, 1) for a in arrays)
    return made[0] if len(made) == 1 else made


@operation
def atleast_2d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Arrays of lower rank become rows of a matrix; one array, or a tuple of several.

    Parameters
        *arrays: arrays.

    >>> td.atleast_2d(np.array([3, 1, 2]))
    Array([[3, 1, 2]])
    """
    made = tuple(_at_least(a, 2) for a in arrays)
    return made[0] if len(made) == 1 else made


@operation
def atleast_3d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Rank 3 at least: (1, n, 1) for n elements, (m, n, 1) for a matrix, as in NumPy.

    Parameters
        *arrays: arrays.

    >>> td.atleast_3d(np.array([3, 1, 2])).shape
    (1, 3, 1)
    """
    made = tuple(_at_least(a, 3) for a in arrays)
    return made[0] if len(made) == 1 else made


def _at_least(a: ArrayLike, rank: int) -> Array:
    array = as_array(a, f"atleast_{rank}d")
    if rank == 3 and array.ndim in (1, 2):
        return expand_dims(array if array.ndim == 2 else expand_dims(array, 0), 2)
    for _ in range(rank - array.ndim):
        array = expand_dims(array, 0)
    return array


@operation
def broadcast_arrays(*arrays: ArrayLike) -> tuple[Array, ...]:
    """The arrays, all with the shape to which they broadcast.

    Parameters
        *arrays: arrays.

    Result: a tuple of arrays of one shape.

    >>> [x.shape for x in td.broadcast_arrays(np.zeros((3, 1)), np.zeros(4))]
    [(3, 4), (3, 4)]
    """
    made = [as_array(a, "broadcast_arrays") for a in arrays]
    shape, _ = broadcast_shapes([a._shape for a in made], "broadcast_arrays")
    return tuple(broadcast_to(a, extents(shape)) for a in made)


# --- joining and splitting -------------------------------------------------------------------


@operation
def hstack(arrays: Iterable[ArrayLike]) -> Array:
    """Join along axis 1, or along axis 0 arrays of rank 1.

    Result: an array of the rank of the operands, at least 1.

    >>> td.hstack([np.array([3, 1, 2]), np.array([2, 0, 1])])
    Array([3, 1, 2, 2, 0, 1])
    """
    require_list(arrays, None, "hstack")
    made = [_at_least(a, 1) for a in arrays]
    return concatenate(made, 1 if made and made[0].ndim > 1 else 0)


@operation
def vstack(arrays: Iterable[ArrayLike]) -> Array:
    """Join along axis 0; arrays of rank 1 are rows.

    Result: an array of rank 2 or more.

    >>> td.vstack([np.array([1, 2]), np.array([3, 4])])
    Array([[1, 2],
           [3, 4]])
    """
    require_list(arrays, None, "vstack")
    return concatenate([_at_least(a, 2) for a in arrays], 0)


@operation
def dstack(arrays: Iterable[ArrayLike]) -> Array:
    """Join along axis 2, after `atleast_3d`.

    Result: an array of rank 3 or more.

    >>> td.dstack([np.array([3, 1, 2]), np.array([2, 0, 1])]).shape
    (1, 3, 2)
    """
    require_list(arrays, None, "dstack")
    return concatenate([_at_least(a, 3) for a in arrays], 2)


@operation
def column_stack(arrays: Iterable[ArrayLike]) -> Array:
    """A matrix whose columns are arrays of rank 1; matrices are joined along axis 1.

    Result: an array (rows, columns).

    >>> td.column_stack([np.array([3, 1, 2]), np.array([2, 0, 1])])
    Array([[3, 2],
           [1, 0],
           [2, 1]])
    """
    require_list(arrays, None, "column_stack")
    made = [as_array(a, "column_stack") for a in arrays]
    return concatenate([expand_dims(_at_least(a, 1), 1) if a.ndim < 2 else a for a in made], 1)


@operation
def append(a: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `a` along an axis; both are flattened for axis None.

    Parameters
        values: what follows `a`: an array of its other extents.

    Result: an array of the promoted type; of rank 1 for axis None, else longer along the axis.

    >>> td.append(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([3, 1, 2, 2, 0, 1])
    """
    parts = [as_array(a, "append"), as_array(values, "append")]
    if axis is None:
        return concatenate([flatten(p) for p in parts], 0)
    return concatenate(parts, axis)


@operation
def array_split(a: ArrayLike, parts: int | Sequence[int], axis: int = 0) -> tuple[Array, ...]:
    """Split along an axis into `parts` nearly equal parts (the first ones are longer), or before
    the indices in `parts`.

    Result: a tuple of arrays, one for each part, that differ from `a` in this extent.

    >>> [x.tolist() for x in td.array_split(np.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _split(as_array(a, "array_split"), parts, axis, "array_split", equal=False)


@operation
def split(a: ArrayLike, parts: int | Sequence[int], axis: int = 0) -> tuple[Array, ...]:
    """`array_split` into parts of equal extent: `ShapeError` if the extent is no multiple.

    Result: a tuple of arrays, one for each part, of equal shape.

    >>> td.split(np.array([3, 1, 2]), 3)
    (Array([3]), Array([1]), Array([2]))
    """
    return _split(as_array(a, "split"), parts, axis, "split", equal=True)


@operation
def hsplit(a: ArrayLike, parts: int | Sequence[int]) -> tuple[Array, ...]:
    """`split` along axis 1, or along axis 0 if the rank is 1.

    >>> td.hsplit(np.arange(6).reshape(2, 3), 3)
    (Array([[0],
           [3]]), Array([[1],
           [4]]), Array([[2],
           [5]]))
    """
    array = as_array(a, "hsplit")
    _require_rank(array, 1, "hsplit")
    return _split(array, parts, 1 if array.ndim > 1 else 0, "hsplit", equal=True)


@operation
def vsplit(a: ArrayLike, parts: int | Sequence[int]) -> tuple[Array, ...]:
    """`split` along axis 0; the rank is at least 2.

    >>> td.vsplit(np.arange(6).reshape(2, 3), 2)
    (Array([[0, 1, 2]]), Array([[3, 4, 5]]))
    """
    array = as_array(a, "vsplit")
    _require_rank(array, 2, "vsplit")
    return _split(array, parts, 0, "vsplit", equal=True)


@operation
def dsplit(a: ArrayLike, parts: int | Sequence[int]) -> tuple[Array, ...]:
    """`split` along axis 2; the rank is at least 3.

    >>> td.dsplit(td.ones((1, 1, 2)), 2)
    (Array([[[1.]]]), Array([[[1.]]]))
    """
    array = as_array(a, "dsplit")
    _require_rank(array, 3, "dsplit")
    return _split(array, parts, 2, "dsplit", equal=True)


def _split(array: Array, parts: int | Sequence[int], axis: int, operation: str,
           equal: bool) -> tuple[Array, ...]:  # fmt: skip
    axis = normalise_axis(axis, array.ndim, operation)
    extent = array.shape[axis]
    whole = (slice(None),) * axis
    number = integer(parts)
    if number is None:
        if isinstance(parts, str | bytes) or not isinstance(parts, Iterable):
            hint = "Give a number of parts, or the indices between them."
            number = whole_number(parts, operation, "parts", hint)
    if isinstance(parts, np.ndarray) and is_tracing_program():  # what it holds may change
        read = as_array(parts, operation)
        parts = cast(Sequence[int], [read[k] for k in range(len(parts))])
    if number is None:
        ends = [None, *cast(Sequence[int], parts), None]
        return slices(array, [(*whole, slice(a, b)) for a, b in itertools.pairwise(ends)])
    parts = number
    if parts <= 0:
        raise ShapeError(
            f"{operation} needs at least one part, got {parts}.",
            hint="Give a number of parts, or the indices between them.",
        )
    if isinstance(extent, KnownExtent):
        extent = int(extent)
    size, longer = extent // parts, extent % parts
    if equal and isinstance(longer, int) and longer:
        raise ShapeError(_uneven(operation, parts, longer), hint=_TO_SPLIT)
    # (For run-time extents, too: the first `longer` parts have one element more.)
    least = min if isinstance(longer, int) else minimum
    starts = [
        k * size + (0 if equal else least(longer, k))
        for k in (*unrolled(parts, operation, "parts"), parts)
    ]
    found = slices(array, [(*whole, slice(a, b)) for a, b in itertools.pairwise(starts)])
    if not equal or parts == 1:
        return found
    checks = require(lift(longer), constant(0), _uneven(operation, parts, "{left}"), hint=_TO_SPLIT)
    return tuple(_checked(part, checks) for part in found) if checks else found


def _uneven(operation: str, parts: int, longer: int | str) -> str:
    return (
        f"{operation}: an axis does not split into {parts} equal parts: {longer} of its elements "
        "are left over."
    )


_TO_SPLIT = "td.array_split makes the first parts longer."


def _checked(array: Array, checks: tuple[Check, ...]) -> Array:
    """The array with more checks of the operation that makes it."""
    node = array._leaves[0].node
    made = node.with_(checks=(*node.checks, *checks))
    return Array([Leaf(made, leaf.component) for leaf in array._leaves], array.structure)


@operation
def unstack(a: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis.

    In a compiled function, the program is for the extent that the axis has (at most 32): other
    extents compile again.

    Result: a tuple of as many arrays as the extent, without the axis.

    >>> [x.tolist() for x in td.unstack(np.arange(6).reshape(2, 3))]
    [[0, 1, 2], [3, 4, 5]]
    """
    array = as_array(a, "unstack")
    axis = normalise_axis(axis, array.ndim, "unstack")
    extent = array._shape[axis]
    number = known(extent) if is_tracing() else int(array.shape[axis])
    if number is not None:
        whole = (slice(None),) * axis
        return slices(array, [(*whole, k) for k in unrolled(number, "unstack", "the extent")])
    short = short_extent(extent, UNPACKED)
    if not short:  # of an empty axis there is no slice that could carry the check
        raise ShapeError(
            "unstack: the number of parts is the extent of the axis, a run-time value here, or "
            f"more than {UNPACKED}.",
            hint="Index what you need: a[0], a[k]; or td.unzip arrays of tuples.",
        )
    shape = array._shape[:axis] + array._shape[axis + 1 :]
    own, checks = indices(len(shape)), fixed(extent, short, "unstack", "an axis")
    return tuple(
        map_over(array, (*own[:axis], constant(k), *own[axis:]), shape, "unstack", checks)
        for k in range(short)
    )


later.offer(unstack=unstack)

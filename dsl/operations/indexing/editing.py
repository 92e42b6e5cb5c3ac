"""Copies of arrays in which elements are put in, taken out, or replaced, with NumPy's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ...annotations import ArrayLike, IntLike, ShapeLike, Value
from ...array import Array
from ...errors import DTypeError, IndexOutOfBounds, ShapeError, TracingError
from ...expr import constant
from ...frontend.deferred import values_are_read
from ...frontend.sources import as_array, use
from ...graph import known
from ...scalar import Scalar
from ...shapes import as_shape, extents, require
from ..common import checked, normalise_axis, operation, unrolled
from ..control import cond
from ..elements import functions as fn
from ..elements.choosing import of_one_type
from ..elements.mapping import imap, map as map_
from ..reducing.irregular import argsort, compact
from ..reducing.quantiles import flatnonzero
from ..reducing.scans import cumsum
from ..reducing.searching import searchsorted
from .index_space import broadcast_to, expand_dims, flatten, reshape, take
from .joining import concatenate
from .making import generate, iota, the, zeros
from .permuting import overwrite, permute
from .rearranging import moveaxis
from .slicing import require_in_range

__all__ = ["apply_over_axes", "block", "choose", "compress", "delete", "extract", "fill_diagonal",
           "insert", "place", "put", "put_along_axis", "resize"]  # fmt: skip

Mode = Literal["raise", "wrap", "clip"]
Positions = int | slice | Sequence[int] | ArrayLike


def _line(a: ArrayLike, axis: int | None, operation: str) -> tuple[Array, int]:
    """The array and an axis; None flattens."""
    array = as_array(a, operation)
    if axis is None:
        return flatten(array), 0
    return array, normalise_axis(axis, array.ndim, operation)


def _numbers(positions: Positions, extent: int | None, operation: str) -> np.ndarray | None:
    """Positions that are known when the program is traced, along an axis of known extent."""
    if extent is None or isinstance(positions, Array | Scalar):
        return None
    if isinstance(positions, slice):
        try:
            return np.arange(extent)[positions]
        except TypeError:
            return None
    values_are_read()
    found = np.asarray(positions)
    if found.dtype == bool:
        if found.shape != (extent,):
            raise ShapeError(
                f"{operation}: a mask of shape {found.shape} for an axis of extent {extent}.",
                hint="Give a truth value for each index of the axis.",
            )
        return np.flatnonzero(found)
    if not found.size:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise TracingError(
            f"{operation}: positions are integers, got {found.dtype}.", hint="Convert them."
        )
    return found


def _require_within(found: np.ndarray, extent: int, most: int, operation: str) -> np.ndarray:
    """Positions counted from the start; `IndexOutOfBounds` if one is not in −extent … most."""
    wrong = found[(found < -extent) | (found > most)]
    if wrong.size:
        raise IndexOutOfBounds(
            f"{operation}: index {wrong.flat[0]} is out of range for extent {extent}.",
            hint=f"Indices run from {-extent} to {most}.",
        )
    return np.where(found < 0, found + extent, found)


@operation
def delete(arr: ArrayLike, obj: Positions, axis: int | None = None) -> Array:
    """The array without the elements (slices) at the positions `obj` along an axis: a number, a
    slice, several numbers, or a mask.  None flattens the array first.

    Positions of the run (a `Scalar`, an `Array` of numbers or a mask) are allowed: for an array
    the extent of the result is a run-time value, too.  `IndexOutOfBounds` for known positions out
    of range.

    Result: an array of the type of `arr`, shorter along the axis; of rank 1 for axis None.

    >>> td.delete(np.array([5, 6, 7, 8]), [0, 2])
    Array([6, 8])
    """
    array, k = _line(arr, axis, "delete")
    extent = known(array._shape[k])
    numbers = _numbers(obj, None if extent is None else int(extent), "delete")
    if numbers is not None and extent is not None:
        n = int(extent)
        kept = np.delete(np.arange(n), _require_within(numbers, n, n - 1, "delete"))
        return take(array, use(kept), k)
    n_ = array.shape[k]
    if isinstance(obj, Scalar | int):
        at = fn.where(fn.less(obj, 0), obj + n_, obj)
        return take(array, generate((n_ - 1,), lambda i: i + (i >= at)), k)
    if isinstance(obj, slice):
        first, stop, step = obj.start, obj.stop, obj.step
        if step not in (None, 1):
            raise TracingError(
                "delete: a slice with a step needs a known extent.",
                hint="Give a mask: td.delete(a, (td.iota(n) % 2) == 0).",
            )
        before, after = slice(None, 0 if first is None else first), slice(stop, None)
        lead = (slice(None),) * k
        parts = [array[(*lead, before)]]
        return concatenate([*parts, array[(*lead, after)]] if stop is not None else parts, k)
    chosen = as_array(obj, "delete")
    if chosen.types[0].family == "bool":
        gone = chosen
    else:
        positions = fn.where(chosen < 0, chosen + n_, chosen)
        gone = permute(overwrite, zeros(n_, bool), lambda i: positions[i],
                       generate(positions.shape, lambda i: i == i))  # fmt: skip
    return take(array, compact(~gone, iota(n_))[0], k)


def _values(values: ArrayLike, array: Array, operation: str) -> Array:
    """`values` in the type of `array`; imaginary parts are not dropped silently."""
    given = as_array(values, operation)
    if given.types[0].is_complex and not array.types[0].is_complex:
        raise DTypeError(
            f"{operation}: complex values for an array of {array.types[0]}.",
            hint="Give their real parts, td.real(values), or a complex array.",
        )
    return given.astype(array.dtype)


@operation
def insert(arr: ArrayLike, obj: Positions, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with `values` before the positions `obj` along an axis: a number, a slice, several
    numbers or a mask, all of which count in `arr`.  None flattens the array first.

    `values` are broadcast to the positions, and cast to the type of `arr`.  Positions may be known
    only at run time (a `Scalar`, an `Array`).  `IndexOutOfBounds` if a known one is out of range.

    Parameters
        values: a number, or an array that broadcasts to the positions.

    Result: an array of the type of `arr`, longer along the axis; of rank 1 for axis None.

    >>> td.insert(np.array([5, 6, 7]), [1, 3], [0, 9])
    Array([5, 0, 6, 7, 9])
    """
    array, k = _line(arr, axis, "insert")
    new = _values(values, array, "insert")
    n, extent = array.shape[k], known(array._shape[k])
    one = isinstance(obj, int | np.integer | Scalar)
    if one and extent is not None and not isinstance(obj, Scalar):
        _require_within(np.asarray(obj), int(extent), int(extent), "insert")
    positions: Array | None = None
    if not one:
        numbers = _numbers(obj, None if extent is None else int(extent), "insert")
        if not isinstance(obj, slice) and as_array(obj, "insert").ndim > 1:
            raise ShapeError(
                "insert: obj is a number, a slice or of rank 1.",
                hint="Flatten it: td.flatten(obj), and give a value for each position.",
            )
        if numbers is not None and extent is not None:
            positions = use(_require_within(numbers.ravel(), int(extent), int(extent), "insert"))
        elif isinstance(obj, slice):
            positions = iota(n)[obj]
        else:
            chosen = flatten(as_array(obj, "insert"))
            positions = flatnonzero(chosen) if chosen.types[0].family == "bool" else chosen
    while new.ndim < array.ndim:
        new = expand_dims(new, 0)
    if positions is None or known(positions._shape[0]) == 1:
        if one:  # as in NumPy: the first axis of the values is the one that grows
            new = moveaxis(new, 0, k)
        shape = [*array.shape[:k], new.shape[k], *array.shape[k + 1 :]]
        at: Any = obj if positions is None else positions[0]
        at = at if isinstance(at, int | np.integer) else the(at)
        at = fn.where(fn.less(at, 0), at + n, at) if isinstance(at, Scalar) else int(at)
        lead = (slice(None),) * k
        head, tail = array[(*lead, slice(None, at))], array[(*lead, slice(at, None))]
        return concatenate([head, broadcast_to(new, shape), tail], k)
    count = positions.shape[0]
    shape = [*array.shape[:k], count, *array.shape[k + 1 :]]
    positions = fn.where(positions < 0, positions + n, positions)
    order = argsort(positions)
    ends = take(positions, order) + iota(count)  # where the new elements are in the result

    def source(q: Scalar, before: Scalar) -> Scalar:
        there = cond(before < count, ends[before] == q, False)
        found: Scalar = cond(there, n + order[before], q - before)
        return found

    every = iota(n + count)
    joined = concatenate([array, broadcast_to(new, shape)], k)
    return take(joined, map_(source, every, searchsorted(ends, every)), k)


@operation
def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """An array of a new shape, filled with the elements of `a` in row-major order, again and again;
    zeros if there are none.

    Parameters
        new_shape: the extents of the result.

    >>> td.resize(np.array([1, 2, 3]), (2, 4))
    Array([[1, 2, 3, 1],
           [2, 3, 1, 2]])
    """
    array = flatten(as_array(a, "resize"))
    n, zero = array.shape[0], array.types[0](0)
    shape = extents(as_shape(new_shape, "resize")[0])
    total: IntLike = 1
    for extent in shape:
        total = total * extent

    def element(p: Scalar) -> Scalar:
        found: Scalar = cond(fn.greater(n, 0), array[p % n], zero)
        return found

    return reshape(generate((total,), element), shape)


# --- elements replaced: NumPy changes its argument, these return the changed array ------------


@operation
def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: Mode = "raise") -> Array:
    """The array with the elements of `v` (repeated as needed) at the positions `ind` of the
    flattened array; of several for one position the last stays.

    `mode`: positions out of range count modulo the size ("wrap"), or as the nearest in range
    ("clip"); with "raise" they change nothing, and are reported in checked mode.

    Parameters
        ind: an array of integers.
        v: the values, repeated as needed.

    >>> td.put(np.array([1, 2, 3]), [0, -1], [7, 9])
    Array([7, 2, 9])
    """
    array = as_array(a, "put")
    flat, new = flatten(array), flatten(as_array(v, "put"))
    positions = flatten(as_array(ind, "put"))
    if known(new._shape[0]) == 0:
        return array  # as in NumPy
    new = _with_elements(new, "put")
    n, count = flat.shape[0], new.shape[0]
    if mode == "wrap":
        positions = positions % n
    elif mode == "clip":
        positions = fn.clip(positions, 0, n - 1)
    elif mode != "raise":
        raise TracingError(f"put: no mode {mode!r}.", hint='Choose of "raise", "wrap", "clip".')
    values = generate(positions.shape, lambda k: new[k % count])
    return reshape(flat.at[positions].set(values), array.shape)


def _with_elements(values: Array, operation: str) -> Array:
    """Values that are repeated: one at least."""
    checks = require(
        values._shape[0], constant(1), f"{operation}: there are {{left}} values to put in.",
        relation=">=", hint="Give one at least: it is repeated as needed.",
    )  # fmt: skip
    return checked(values, checks) if checks else values


@operation
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike) -> Array:
    """The array with the elements of `vals`, one after the other (and again from the first), where
    `mask` holds, in row-major order.

    Parameters
        vals: the values, repeated as needed.

    >>> td.place(np.arange(5), np.arange(5) > 2, [7, 8])
    Array([0, 1, 2, 7, 8])
    """
    array, new = as_array(arr, "place"), flatten(as_array(vals, "place"))
    new = _with_elements(new, "place")
    chosen = reshape(as_array(mask, "place") != 0, array.shape)  # as in NumPy, of one size
    ranks = reshape(cumsum(chosen) - 1, array.shape)
    n = new.shape[0]
    kind = array.types[0]

    def element(*given: Scalar) -> Scalar:
        *at, x = given
        found: Scalar = cond(chosen[tuple(at)], fn.cast(new[ranks[tuple(at)] % n], kind), x)
        return found

    return imap(element, array)


@operation
def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int) -> Array:
    """The array with `values` at one index per row along `axis`, the counterpart of
    `take_along_axis`; the other axes of `indices` and `values` broadcast.

    Parameters
        values: a number, or an array that broadcasts to `indices`.

    >>> td.put_along_axis(np.array([[10, 30, 20], [60, 40, 50]]), np.array([[1], [0]]), 99, 1)
    Array([[10, 99, 20],
           [99, 40, 50]])
    """
    array, chosen = as_array(arr, "put_along_axis"), as_array(indices, "put_along_axis")
    k = normalise_axis(axis, array.ndim, "put_along_axis")
    if chosen.ndim != array.ndim:
        raise ShapeError(
            f"put_along_axis: indices of rank {chosen.ndim} for an array of rank {array.ndim}.",
            hint="a.at[indices].set(values) puts whole slices.",
        )
    n = array.shape[k]
    checks = require_in_range(chosen, array._shape[k], k, "put_along_axis")
    shape = [*array.shape[:k], chosen.shape[k], *array.shape[k + 1 :]]
    positions = broadcast_to(fn.where(chosen < 0, chosen + n, chosen), shape)
    positions = checked(positions, checks) if checks else positions
    new = broadcast_to(_values(values, array, "put_along_axis"), shape)
    return permute(overwrite, array, lambda *at: (*at[:k], positions[at], *at[k + 1 :]), new)


@operation
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False) -> Array:
    """The array with `val` (its elements repeated as needed) on the diagonal over all axes; with
    `wrap` the diagonal of a tall matrix starts again after a row without one.

    `ShapeError` if the rank is below 2, or is above 2 and known extents differ.

    Parameters
        val: the values.
        wrap: whether the diagonal begins again after n + 1 rows; default False.

    >>> td.fill_diagonal(td.zeros((2, 3), int), [4, 5])
    Array([[4, 0, 0],
           [0, 5, 0]])
    """
    array, new = as_array(a, "fill_diagonal"), flatten(as_array(val, "fill_diagonal"))
    numbers = {int(n) for n in map(known, array._shape) if n is not None}
    if array.ndim < 2 or (array.ndim > 2 and len(numbers) > 1):
        raise ShapeError(
            f"fill_diagonal needs rank 2 at least, and above it equal extents; got rank "
            f"{array.ndim}.",
            hint="td.diag(v) makes a matrix of its diagonal.",
        )
    count, kind = new.shape[0], array.types[0]
    period = array.shape[-1] + 1

    def element(*given: Scalar) -> Scalar:
        *at, x = given
        row = at[0]
        on = fn.equal(row % period if wrap and array.ndim == 2 else row, at[1])
        for other in at[2:]:
            on = on & fn.equal(row, other)
        if wrap and array.ndim == 2:
            row = row // period * (period - 1) + row % period
        found: Scalar = cond(on, fn.cast(new[row % count], kind), x)
        return found

    return imap(element, array)


# --- elements chosen -------------------------------------------------------------------------


@operation
def choose(
    a: ArrayLike, choices: Sequence[ArrayLike] | ArrayLike, *, mode: Mode = "raise"
) -> Value:
    """For each element k of `a` the element of `choices[k]`; all broadcast.

    `mode`: numbers out of range count modulo the number of choices ("wrap"), or as the nearest in
    range ("clip"); with "raise" they are not noticed, and count as by "clip".

    Parameters
        choices: arrays that broadcast together.

    >>> td.choose(np.array([1, 0, 2]), [np.arange(3), np.arange(3) + 10, np.arange(3) + 20])
    Array([10,  1, 22])
    """
    if not isinstance(choices, tuple | list):
        table = as_array(choices, "choose")
        extent = known(table._shape[0]) if table.ndim else None
        if extent is None:
            raise TracingError(
                "choose: the number of choices must be known.",
                hint="td.take_along_axis(choices, a[None], axis=0) chooses of an array.",
            )
        choices = [table[k] for k in unrolled(int(extent), "choose", "len(choices)")]
    if not choices or mode not in ("raise", "wrap", "clip"):
        raise TracingError(
            f"choose: {len(choices)} choices, mode {mode!r}.",
            hint='Give at least one choice; modes: "raise", "wrap", "clip".',
        )
    number = a if isinstance(a, Scalar) else as_array(a, "choose")
    kind = number.dtype if isinstance(number, Scalar) else number.types[0]
    if not (kind.is_integer or kind.family == "bool"):
        raise DTypeError(
            f"choose: the numbers of choices are integers, not {kind}.",
            hint="Convert: a.astype(td.int64).",
        )
    at = number % len(choices) if mode == "wrap" else number
    choices = of_one_type(
        [as_array(c, "choose") if isinstance(c, list | range | tuple) else c for c in choices],
        "choose",
    )
    found: Value = choices[-1]
    for k in range(len(choices) - 2, -1, -1):
        found = fn.where(fn.less_equal(at, k), choices[k], found)
    return found if len(choices) > 1 else fn.where(fn.less(at, 0), choices[0], choices[0])


@operation
def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None) -> Array:
    """The elements (slices along `axis`) where a condition of rank 1 holds, which may be shorter
    than the axis, but not longer (in NumPy it may, by elements that are False); the extent of the
    result is a run-time value.  None flattens the array first.

    Parameters
        condition: a 1-D array of booleans.

    Result: an array like `a` with fewer elements along the axis; of rank 1 for axis None.

    >>> td.compress(np.array([0, 1]), np.array([[1, 2], [3, 4], [5, 6]]), axis=0)
    Array([[3, 4]])
    """
    array, k = _line(a, axis, "compress")
    mask = as_array(condition, "compress")
    if mask.ndim != 1:
        raise ShapeError(
            f"compress takes a condition of rank 1, got rank {mask.ndim}.",
            hint="a[mask] takes one of the shape of the array.",
        )
    checks = require(
        array._shape[k],
        mask._shape[0],
        "compress: the condition has {right} elements, the axis {left}.",
        relation=">=",
        hint="A condition may be shorter than the axis, not longer.",
    )
    return take(array, flatnonzero(checked(mask, checks) if checks else mask), k)


@operation
def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """The elements where `condition` (of the same size) holds, in row-major order; `compact` gives
    their number, too.

    Parameters
        condition: an array of booleans of the shape of `arr`.

    Result: an array of rank 1, whose extent is known when the program runs.

    >>> td.extract(np.array([True, False, True]), np.array([1, 2, 3]))
    Array([1, 3])
    """
    mask, array = flatten(as_array(condition, "extract")), flatten(as_array(arr, "extract"))
    return compact(mask != 0, array)[0]


# --- arrays of others ------------------------------------------------------------------------


@operation
def block(arrays: ArrayLike | Sequence[object]) -> Array:
    """An array of nested lists of blocks: those of the innermost lists are joined along the last
    axis, the lists of these along the one before, and so on.

    Result: an array of the rank of the blocks, or of the depth of the lists if that is more.

    >>> td.block([[np.eye(1), np.zeros((1, 2))], [np.ones((1, 3))]])
    Array([[1., 0., 0.],
           [1., 1., 1.]])
    """

    def depth(value: object) -> int:
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    def leaves(value: object) -> list[Array]:
        if isinstance(value, list):
            return [a for part in value for a in leaves(part)]
        return [as_array(value, "block")]

    levels = depth(arrays)
    parts = leaves(arrays)
    if not parts:
        raise ShapeError("block needs at least one array.", hint="An empty list has no type.")
    rank = max(levels, *(a.ndim for a in parts))

    def joined(value: object, axis: int) -> Array:
        if isinstance(value, list):
            return concatenate([joined(part, axis + 1) for part in value], axis)
        array = as_array(value, "block")
        while array.ndim < rank:
            array = expand_dims(array, 0)
        return array

    return joined(arrays, rank - levels)


@operation
def apply_over_axes(
    func: Callable[[Array, int], ArrayLike], a: ArrayLike, axes: int | Sequence[int]
) -> Array:
    """`func(a, axis)` for one axis after the other; axes that it removes stay with extent 1.

    Parameters
        func: a function of an array and an axis.
        axes: an axis or several.

    Result: an array of the rank of `a`.

    >>> td.apply_over_axes(td.sum, np.ones((2, 3)), (0, 1))
    Array([[6.]])
    """
    array = as_array(a, "apply_over_axes")
    rank = array.ndim
    for given in axes if isinstance(axes, tuple | list) else (axes,):
        axis = normalise_axis(given, rank, "apply_over_axes")
        made = as_array(func(array, axis), "apply_over_axes")
        array = expand_dims(made, axis) if made.ndim == rank - 1 else made
        if array.ndim != rank:
            raise ShapeError(
                f"apply_over_axes: the function returned rank {made.ndim} for rank {rank}.",
                hint="It returns an array of the same rank, or without the axis.",
            )
    return array

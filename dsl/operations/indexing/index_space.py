"""Index transformations (reshape, transpose, slices, gathers).  All fuse into their consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ... import late_binding as later, simplify
from ...analysis.polynomial import polynomial
from ...annotations import (
    ArrayLike,
    AxisLike,
    FunctionN,
    Indexing,
    IndexMode,
    IntLike,
    Order,
    ShapeLike,
)
from ...array import Array, map_over
from ...errors import DTypeError, ShapeError, TracingError, user_location
from ...expr import Const, Expr, Extent, Index, Read, constant, known_before
from ...frontend.deferred import values_are_read
from ...frontend.sources import as_array
from ...frontend.standard import require_order
from ...frontend.tracing import call_scalar_function, flatten_result, forbid_nesting
from ...graph import Check, Generate, Input, Leaf, Node, Shape, indices, known
from ...scalar import Scalar, apply_primitive, as_count, as_index, lift
from ...shapes import as_shape, broadcast_shapes, require, show_shape, stretch_checks, stretched
from ...types import int64, uint64
from ..common import normalise_axes, normalise_axis, operation, whole_number
from .parts import (
    index_parts,
    is_index_array,
    is_truth,
    part_of,
    refuse_no_index,
    untyped,
    unwrapped,
)
from .row_major import at_most, delinear, greatest, least, linear, minus, plus, product, size, times
from .slicing import from_either_end, from_some, integer_index, require_in_range, slice_axis, within

__all__ = ["backpermute", "broadcast_to", "diagonal", "expand_dims", "flatten", "flip", "gather",
           "permute_dims", "ravel", "replicate", "reshape", "reverse", "roll", "squeeze",
           "swapaxes", "take", "take_along_axis", "transpose"]  # fmt: skip

# --- reshape ---------------------------------------------------------------------------------


@operation
def reshape(
    a: ArrayLike, shape: ShapeLike, order: Order = "C", *, copy: bool | None = None
) -> Array:
    """The same elements in row-major order in another shape; one extent may be −1.

    A shape of another size is an error, at run time if the size is not known while tracing.

    Parameters
        order: "C" (default): elements are read and placed in row-major order; "F": the first index
            varies fastest.
        copy: no effect: arrays never change; optional.

    >>> td.reshape(np.arange(6).reshape(2, 3), (3, -1))
    Array([[0, 1],
           [2, 3],
           [4, 5]])
    """
    forbid_nesting("reshape")
    array, by_columns = as_array(a, "reshape"), require_order(order, "reshape") == "F"
    parts = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    unknown = [k for k, p in enumerate(parts) if isinstance(p, int) and p == -1]
    if len(unknown) > 1:
        raise ShapeError(
            "reshape: only one extent may be -1.",
            hint="Write the others as numbers, or a.shape[k].",
        )
    target, checks = as_shape([1 if k in unknown else p for k, p in enumerate(parts)], "reshape")
    have, more = size(array._shape, "reshape")
    asked, most = size(target, "reshape")
    for k in unknown:
        missing = apply_primitive("floor_divide", [have, asked])
        target = (*target[:k], missing, *target[k + 1 :])
    checks += (*more, *most)
    checks += require(
        have,
        product(target),
        f"reshape: {{left}} elements of shape {show_shape(array._shape)} do not fit the shape "
        f"{show_shape(target)}, which holds {{right}}"
        f"{' (-1 stands for ' + show_shape(target[k : k + 1])[1:-2] + ')' if unknown else ''}.",
        hint="The products of the extents must agree; -1 lets one be computed.",
    )
    if target == array._shape:
        return array
    if by_columns:
        index = reshaped_index(array._shape[::-1], target[::-1])
        return transpose(map_over(transpose(array), index, target[::-1], "reshape", checks))
    index = reshaped_index(array._shape, target)
    return map_over(array, index, target, "reshape", checks)


def reshaped_index(source: Shape, target: Shape) -> tuple[Expr, ...]:
    """Source index of a target element.  Kept, split and joined axes are treated separately: only
    what is joined needs a division, and axes of extent 1 need none."""
    needed = [k for k, e in enumerate(source) if not _is_one(e)]
    kept = [k for k, e in enumerate(target) if not _is_one(e)]
    index: list[Expr] = [constant(0)] * len(source)
    i = j = 0
    for end, stop in _cuts(tuple(source[k] for k in needed), tuple(target[k] for k in kept)):
        into, of = needed[i:end], kept[j:stop]
        at = linear([Index(k) for k in of], tuple(target[k] for k in of))
        for k, e in zip(into, delinear(at, tuple(source[k] for k in into)), strict=True):
            index[k] = e
        i, j = end, stop
    return tuple(index)


def _cuts(source: Shape, target: Shape) -> list[tuple[int, int]]:
    """Where groups of axes end that have equally many elements in `source` and in `target`, given
    that all axes have: those with equal products of extents; and of n elements, n // c · c are all
    if no other axis has more in `target` than in `source`."""
    found: list[tuple[int, int]] = []
    stop = 0
    for end, n in enumerate(source, 1):
        fits = (k for k in range(stop + 1, len(target) + 1) if at_most(product(target[stop:k]), n))
        after = next(fits, None)
        if after is None:
            break
        found.append((end, after))
        stop = after
    if len(found) == len(source) and stop == len(target):
        return found
    last = (len(source), len(target))
    before = {(i, j) for i in range(1, last[0]) for j in range(1, last[1])
              if _same(source[:i], target[:j]) or _same(source[i:], target[j:])}  # fmt: skip
    found, least_ = [], (0, 0)
    for cut in sorted(before):
        if cut[0] > least_[0] and cut[1] > least_[1]:
            found.append(cut)
            least_ = cut
    return [*found, last]


def _same(a: Shape, b: Shape) -> bool:
    """Whether the products of extents are certainly equal."""
    first, second = polynomial(product(a)), polynomial(product(b))
    return first is not None and first == second


def _is_one(e: Expr) -> bool:
    return isinstance(e, Const) and int(e.value) == 1


def reshaped(node: Node) -> tuple[Leaf, ...] | None:
    """The arrays whose elements, all of them and in row-major order, are the results of a node:
    the same memory, where they are dense.  None if the node does anything else."""
    if not isinstance(node, Generate) or node.label.ordered:
        return None
    at = linear(indices(len(node.shape)), node.shape)
    for e in node.elements:
        if not isinstance(e, Read) or e.boundary is not None:
            return None
        source = e.node.outputs[e.component].shape
        if e.args != reshaped_index(source, node.shape) and not _same(
            (linear(e.args, source),), (at,)
        ):
            return None
    return tuple(Leaf(e.node, e.component) for e in node.elements if isinstance(e, Read))


@operation
def flatten(a: ArrayLike, order: Order = "C") -> Array:
    """All elements in row-major order, as an array of rank 1.

    Parameters
        order: "C" (default): in row-major order; "F": the first index varies fastest.

    >>> td.flatten(np.arange(6).reshape(2, 3))
    Array([0, 1, 2, 3, 4, 5])
    """
    array = as_array(a, "flatten")
    if require_order(order, "flatten") == "F":
        array = transpose(array)
    return array if array.ndim == 1 else reshape(array, (-1,))


ravel = flatten


@operation
def squeeze(a: ArrayLike, axis: AxisLike | None = None) -> Array:
    """Drop axes of extent 1: those named, or all of them.

    Without `axis`, every extent must be known while tracing, or be that of an argument (`jit`
    traces again where an argument's extent becomes 1); others raise `ShapeError`.

    Parameters
        axis: the axis, from −rank to rank − 1; default None: all of extent 1.

    Result: an array of lower rank, with the same elements.

    >>> td.squeeze(td.ones((1, 2)))
    Array([1., 1.])
    """
    forbid_nesting("squeeze")
    array = as_array(a, "squeeze")
    if axis is None:
        axes = tuple(k for k, e in enumerate(array._shape) if _is_one(e) or known(e) == 1)
        for k, e in enumerate(array._shape):
            if known(e) is None and not (isinstance(e, Extent) and isinstance(e.node, Input)):
                raise ShapeError(
                    f"squeeze: whether axis {k} has extent 1 is known only when the program runs.",
                    hint=f"Name the axes to drop: td.squeeze(a, axis={k}).",
                )
    else:
        axes = normalise_axes(axis, array.ndim, "squeeze")
    checks: tuple[Check, ...] = ()
    for k in axes:
        checks += require(
            array._shape[k],
            constant(1),
            f"squeeze: axis {k} has extent {{left}}, not 1.",
            hint="a[0] takes one of several, td.reshape joins axes.",
        )
    kept = [k for k in range(array.ndim) if k not in axes]
    index: list[Expr] = [constant(0)] * array.ndim
    for j, k in enumerate(kept):
        index[k] = Index(j)
    shape = tuple(array._shape[k] for k in kept)
    return map_over(array, index, shape, "squeeze", checks)


@operation
def expand_dims(a: ArrayLike, axis: AxisLike) -> Array:
    """Insert an axis of extent 1, or several.

    Parameters
        axis: the axis, or a tuple of axes, of the result.

    Result: an array of the same elements, with these axes more.

    >>> td.expand_dims(np.array([3, 1, 2]), 0)
    Array([[3, 1, 2]])
    """
    array = as_array(a, "expand_dims")
    rank = array.ndim + (len(axis) if isinstance(axis, tuple | list) else 1)
    axes = normalise_axes(axis, rank, "expand_dims")
    return slice_array(array, tuple(None if k in axes else slice(None) for k in range(rank)))


# --- transposes and slices -------------------------------------------------------------------


@operation
def transpose(a: ArrayLike, axes: AxisLike | None = None) -> Array:
    """Permute the axes; the default reverses them.

    Parameters
        axes: the order of the axes; default: reversed.

    Result: an array with its axes in that order.

    >>> td.transpose(np.arange(6).reshape(2, 3))
    Array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    forbid_nesting("transpose")
    array = as_array(a, "transpose")
    axes = axes if axes is None or isinstance(axes, tuple | list | np.ndarray) else (axes,)
    order = (
        tuple(reversed(range(array.ndim)))
        if axes is None
        else tuple(normalise_axis(x, array.ndim, "transpose") for x in axes)
    )
    if sorted(order) != list(range(array.ndim)):
        raise ShapeError(
            f"transpose: axes {axes!r} are not a permutation of the {array.ndim} axes.",
            hint="Name each axis once: axes=(1, 0, 2).",
        )
    index: list[Expr] = [constant(0)] * array.ndim
    for k, source in enumerate(order):
        index[source] = Index(k)
    shape = tuple(array._shape[k] for k in order)
    return map_over(array, index, shape, "transpose")


permute_dims = transpose


@operation
def swapaxes(a: ArrayLike, first: int, second: int) -> Array:
    """Exchange two axes.

    Parameters
        first: an axis.
        second: another axis.

    >>> td.swapaxes(np.arange(6).reshape(2, 3), 0, 1)
    Array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    array = as_array(a, "swapaxes")
    order = list(range(array.ndim))
    i, j = (normalise_axis(x, array.ndim, "swapaxes") for x in (first, second))
    order[i], order[j] = order[j], order[i]
    return transpose(array, order)


def slice_array(array: Array, index: Indexing) -> Array:
    """NumPy's indexing, by integers, slices, None, `...` and integer arrays."""
    forbid_nesting("slice")
    index = unwrapped(index)
    if is_index_array(index) or is_truth(index):
        chosen = as_array(untyped(index), "an index")
        if chosen.types[0].family == "bool":
            return later.chosen(array, chosen)
        return take(array, chosen, 0)
    if isinstance(index, tuple) and any(map(is_index_array, index)):
        part = part_of(array, index, "a[…]", reading=True)
        return map_over(array, part.target, part.shape, "take", part.checks)
    parts = index_parts(index, array.ndim, not array.structure.is_leaf)
    shape: list[Expr] = []
    source: list[Expr] = []
    checks: list[Check] = []
    plain = True
    for part in parts:
        if part is None:
            shape.append(constant(1))
            plain = False
            continue
        axis = len(source)
        n = array._shape[axis]
        if isinstance(part, slice):
            sliced = slice_axis(part, n, checks)
            source.append(sliced.at(Index(len(shape))))
            shape.append(sliced.extent)
            plain = plain and part.start is part.stop is part.step is None
            continue
        refuse_no_index(part)
        source.append(integer_index(part, n, axis, checks))
        plain = False
    if plain:
        return array
    return map_over(array, source, tuple(shape), "slice", tuple(checks))


#: What a window reads of each axis: the extent and the step of a slice; None for a new axis, and
#: "at" where it reads one index.
WindowAxes: TypeAlias = tuple[tuple[int, int] | str | None, ...]


class Window(NamedTuple):
    """A part of an array of known extents, in range: what it reads of its axes, and where."""

    axes: WindowAxes
    starts: tuple[int, ...]


def window_of(extents: Sequence[int], index: Sequence[object]) -> Window | None:
    """What an index of integers, slices, None and ... reads; None if it is out of range."""
    axes: list[tuple[int, int] | str | None] = []
    starts: list[int] = []
    try:
        for part in index_parts(tuple(index), len(extents)):
            if part is None:
                axes.append(None)
                continue
            n = extents[len(starts)]
            if isinstance(part, slice):
                read = range(n)[part]
                axes.append((len(read), read.step))
                starts.append(read.start if read else 0)
            else:
                axes.append("at")
                starts.append(range(n)[part])
    except (ShapeError, IndexError, TypeError, ValueError, OverflowError):
        return None
    return Window(tuple(axes), tuple(starts))


def read_window(array: Array, axes: WindowAxes, starts: Sequence[IntLike]) -> Array:
    """The window of these axes that begins at `starts`, which are in range."""
    shape: list[Expr] = []
    source: list[Expr] = []
    for axis in axes:
        if axis is None:
            shape.append(constant(1))
            continue
        start = as_count(starts[len(source)], "an index")
        if isinstance(axis, str):
            source.append(start)
            continue
        extent, step = axis
        source.append(plus(start, times(Index(len(shape)), constant(step))))
        shape.append(constant(extent))
    return map_over(array, source, tuple(shape), "slice")


@operation
def reverse(a: ArrayLike, axis: AxisLike | None = None) -> Array:
    """Reverse the order along one axis, several axes, or all (None).

    Parameters
        axis: the axis, from −rank to rank − 1; default None: all axes.

    >>> td.reverse(np.array([3, 1, 2]))
    Array([2, 1, 3])

    See also `fliplr`, `flipud`, `roll`, `rot90`.
    """
    array = as_array(a, "reverse")
    axes = normalise_axes(axis, array.ndim, "reverse")
    return (
        array[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(array.ndim))]
        if axes
        else array
    )


flip = reverse


@operation
def broadcast_to(a: ArrayLike, shape: ShapeLike) -> Array:
    """Stretch extents of 1 and add leading axes, as in NumPy.

    >>> td.broadcast_to(np.array([3, 1, 2]), (2, 3))
    Array([[3, 1, 2],
           [3, 1, 2]])
    """
    forbid_nesting("broadcast_to")
    array = as_array(a, "broadcast_to")
    target, checks = as_shape(shape, "broadcast_to")
    if len(target) < array.ndim:
        raise ShapeError(
            f"broadcast_to: rank {array.ndim} does not fit into rank {len(target)}.",
            hint="a[0] or td.reshape drops axes; broadcasting only adds them.",
        )
    checks += stretch_checks(
        array._shape,
        target,
        f"broadcast_to: {show_shape(array._shape)} does not stretch to {show_shape(target)}",
        "Only extents of 1 stretch; a[:, None] inserts one.",
    )
    return map_over(array, stretched(array._shape, target), target, "broadcast_to", checks)


@operation
def replicate(a: ArrayLike, n: IntLike, axis: int = 0) -> Array:
    """Insert an axis along which the array is repeated `n` times.

    Parameters
        n: the number of copies.

    Result: an array of one rank more.

    >>> td.replicate(np.array([3, 1, 2]), 2, axis=0)
    Array([[3, 1, 2],
           [3, 1, 2]])
    """
    forbid_nesting("replicate")
    array = as_array(a, "replicate")
    k = normalise_axis(axis, array.ndim + 1, "replicate")
    (extent,), checks = as_shape((n,), "replicate")
    shape = (*array._shape[:k], extent, *array._shape[k:])
    index = [Index(j if j < k else j + 1) for j in range(array.ndim)]
    return map_over(array, index, shape, "replicate", checks)


@operation
def roll(a: ArrayLike, shift: IntLike | Sequence[IntLike], axis: AxisLike | None = None) -> Array:
    """Shift elements by `shift`, with wrap-around; axis None rolls the flattened array.

    Parameters
        shift: by how many elements: a number, or one for each axis.

    >>> td.roll(np.array([3, 1, 2]), 1)
    Array([2, 3, 1])
    """
    forbid_nesting("roll")
    array = as_array(a, "roll")
    rolled = flatten(array) if axis is None else array
    axes = list(axis) if isinstance(axis, tuple | list) else [0 if axis is None else axis]
    if isinstance(shift, np.ndarray) and shift.ndim == 1:
        values_are_read()
        shift = shift.tolist()
    shifts = list(shift) if isinstance(shift, tuple | list) else [shift]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(
            f"roll: {len(shifts)} shifts for {len(axes)} axes.",
            hint="Give one shift, or one for each axis.",
        )
    count = len(axes) if len(shifts) == 1 else len(shifts)
    shifts, axes = (v * count if len(v) == 1 else v for v in (shifts, axes))
    for s, x in zip(shifts, axes, strict=True):
        rolled = _roll_axis(rolled, s, normalise_axis(x, rolled.ndim, "roll"))
    return rolled if rolled.ndim == array.ndim else reshape(rolled, array.shape)


def _roll_axis(array: Array, shift: IntLike | Sequence[IntLike], axis: int) -> Array:
    n = array._shape[axis]
    index: list[Expr] = list(indices(array.ndim))
    by = lift(shift, "roll")
    as_index(by, "roll")  # check the type
    if not (isinstance(by, Const) and abs(int(by.value)) < 1 << 31):  # i - shift might overflow
        wide = uint64 if by.type == uint64 else int64
        by = apply_primitive("remainder", [simplify.cast(e, wide) for e in (by, n)])
    moved = minus(index[axis], as_index(by, "roll"))
    index[axis] = apply_primitive("remainder", [moved, n])
    return map_over(array, index, array._shape, "roll")


@operation
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal over two axes, which becomes the last axis of the result, as in NumPy.

    Result: an array without the two axes, and with the diagonal as its last.

    >>> td.diagonal(np.arange(6).reshape(2, 3))
    Array([0, 4])
    """
    forbid_nesting("diagonal")
    array = as_array(a, "diagonal")
    if array.ndim < 2:
        raise ShapeError(
            f"diagonal needs rank 2 at least, got {array.ndim}.",
            hint="For a matrix with this diagonal write td.where(td.eye(n, dtype=bool), a, 0).",
        )
    offset = whole_number(offset, "diagonal", "offset")
    first, second = (normalise_axis(x, array.ndim, "diagonal") for x in (axis1, axis2))
    if first == second:
        raise ShapeError("diagonal: the two axes are the same.", hint="Write axis1=0, axis2=1.")
    rest = [k for k in range(array.ndim) if k not in (first, second)]
    array = transpose(array, (*rest, first, second)) if (first, second) != (0, 1) or rest else array
    rows, cols = array._shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    extent = greatest(least(minus(rows, constant(down)), minus(cols, constant(right))), constant(0))
    lead = array.ndim - 2
    i = Index(lead)
    index = (*indices(lead), plus(i, constant(down)), plus(i, constant(right)))
    return map_over(array, index, (*array._shape[:-2], extent), "diagonal")


# --- gathers ---------------------------------------------------------------------------------


@operation
def backpermute(shape: ShapeLike, f: FunctionN, a: ArrayLike) -> Array:
    """Read each element of the result where a function of its index says: out[i, j] = a[f(i, j)].

    Parameters
        f: a function of the index in the result that returns the index in `a`.

    Result: an array of that shape, in the type of `a`.

    >>> td.backpermute((3, 2), lambda i, j: (j, i), np.arange(6).reshape(2, 3))
    Array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    forbid_nesting("backpermute")
    where = user_location()
    array = as_array(a, "backpermute")
    extents, checks = as_shape(shape, "backpermute")
    arguments = [Scalar(Index(k)) for k in range(len(extents))]
    value = call_scalar_function(f, arguments, "backpermute", where)
    leaves, _ = flatten_result(value, "backpermute")
    if len(leaves) != array.ndim:
        raise ShapeError(
            f"the index function of backpermute returned {len(leaves)} indices for an array of "
            f"rank {array.ndim}.",
            hint="Return one index per axis of the array that is read.",
        )
    index = [as_index(Scalar(e), "the index function of backpermute") for e in leaves]
    for k, (e, n) in enumerate(zip(index, array._shape, strict=True)):
        if not (isinstance(e, Index) and extents[e.axis] is n):
            checks += from_some(n, k, extents)
    return map_over(array, index, extents, "backpermute", checks)


@operation
def gather(a: ArrayLike, indices: ArrayLike, axis: int = 0) -> Array:
    """Elements (or slices) of `a` at integer `indices` along `axis`.

    Indices count from the start, as in kernels: −1 is out of range, unlike in `take`.

    Result: an array with the axes of `indices` in place of the axis.

    >>> td.gather(np.array([3, 1, 2]), [2, 2, 0])
    Array([2, 2, 3])
    """
    return _take(a, indices, axis, "gather")


@operation
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, mode: IndexMode = "raise"
) -> Array:
    """NumPy's take: axis None takes from the flattened array; −1 is the last element.

    Parameters
        axis: the axis; default None: of the flattened array.
        mode: for indices outside: "raise" (default), "wrap" (modulo the extent) or "clip" (the
            nearest, also for negative ones).

    Result: an array, with the axes of `indices` in place of the axis.

    >>> td.take(np.arange(6).reshape(2, 3), [2, 0], axis=1)
    Array([[2, 0],
           [5, 3]])
    """
    if mode not in ("raise", "wrap", "clip"):
        raise TracingError(f"take: no mode {mode!r}.", hint='Choose of "raise", "wrap", "clip".')
    if axis is None:
        return _take(flatten(a), indices, 0, "take", mode)
    return _take(a, indices, axis, "take", mode)


def _take(
    a: ArrayLike, index_array: ArrayLike, axis: int, operation: str, mode: IndexMode = "raise"
) -> Array:
    forbid_nesting(operation)
    array, chosen = as_array(a, operation), as_array(untyped(index_array), operation)
    k = normalise_axis(axis, array.ndim, operation)
    if not chosen.structure.is_leaf or not chosen.types[0].is_integer:
        raise DTypeError(
            f"{operation} needs integer indices, got {chosen.dtype}.",
            hint="Convert them: td.cast(indices, td.int64).",
        )
    r, n = chosen.ndim, array._shape[k]
    checks: list[Check] = []
    if mode == "raise":
        checks += require_in_range(chosen, n, k, operation, from_end=operation == "take")
    shape = (*array._shape[:k], *chosen._shape, *array._shape[k + 1 :])
    if isinstance(index_array, Scalar | int | np.integer):
        at = as_count(index_array, "an index")
    else:
        at = simplify.cast(chosen._element([Index(k + j) for j in range(r)])[0], int64)
    if mode != "raise" or not known_before(at):
        checks += from_some(n, k, shape)
    if mode == "wrap":
        at = apply_primitive("remainder", [at, n])
    elif mode == "clip":
        at = greatest(least(at, minus(n, constant(1))), constant(0))
    elif operation == "take":
        at = from_either_end(at, n, k, checks)
    else:
        checks += within(at, n, k)
    index = [
        *(Index(j) for j in range(k)),
        at,
        *(Index(j + r - 1) for j in range(k + 1, array.ndim)),
    ]
    return map_over(array, index, shape, operation, tuple(checks))


@operation
def take_along_axis(a: ArrayLike, indices: ArrayLike, axis: int = -1) -> Array:
    """NumPy's take_along_axis: one index per element along `axis`; other axes broadcast.

    Result: an array of the shape of `indices`, in the type of `a`.

    >>> td.take_along_axis(np.arange(6).reshape(2, 3), [[2], [0]], axis=1)
    Array([[2],
           [3]])
    """
    array, chosen = (as_array(x, "take_along_axis") for x in (a, indices))
    k = normalise_axis(axis, array.ndim, "take_along_axis")
    if chosen.ndim != array.ndim:
        raise ShapeError(
            "take_along_axis: arrays of different rank.",
            hint="Indices have the rank of the array; td.take(a, indices, axis) takes slices.",
        )
    if not chosen.structure.is_leaf or not chosen.types[0].is_integer:
        raise DTypeError(
            f"take_along_axis needs integer indices, got {chosen.dtype}.",
            hint="Convert them: td.cast(indices, td.int64).",
        )
    tested = require_in_range(chosen, array._shape[k], k, "take_along_axis")
    shapes = [(*s[:k], constant(1), *s[k + 1 :]) for s in (array._shape, chosen._shape)]
    shape, checks = broadcast_shapes(shapes, "take_along_axis")
    index, where = (list(stretched(s, shape)) for s in shapes)
    where[k] = Index(k)
    at = simplify.cast(chosen._element(where)[0], int64)
    n = array._shape[k]
    index[k] = simplify.select(apply_primitive("less", [at, constant(0)]), plus(at, n), at)
    shape = (*shape[:k], chosen._shape[k], *shape[k + 1 :])
    return map_over(array, index, shape, "take_along_axis", (*checks, *tested))


later.offer(
    flatten=flatten,
    read_window=read_window,
    reshape=reshape,
    slice_array=slice_array,
    transpose=transpose,
    window_of=window_of,
)

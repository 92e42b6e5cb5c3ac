"""Joining and padding (concatenate, stack, pad); each element reads only its source array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import ArrayLike, AxisLike, IntLike, ScalarLike
from ...array import Array, generated, map_over
from ...errors import DTypeError, ShapeError, TracingError
from ...expr import Cond, Const, Expr, Index, Proj, constant
from ...frontend.deferred import values_are_read
from ...frontend.operators import Operators
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Check, indices
from ...scalar import apply_primitive, as_count, fit_weak, lift, refuse_traced
from ...shapes import require, same_shape, show_shape
from ...types import Structure, bool_, int64, promote
from ..common import normalise_axis, operation
from ..stencils import resolve_index
from .index_space import flatten, slice_array
from .row_major import ends, greatest, minus

__all__ = ["concat", "concatenate", "pad", "stack"]

#: More arrays than this are joined by several kernels, as a kernel that joins n arrays has n loops.
#: (The sum of this many extents cannot overflow: no check is needed.)
MOST_JOINED = 63


def _common_elements(arrays: Sequence[Array], operation: str) -> tuple[Structure, list[Any]]:
    """The structure and the common types of the elements of several arrays."""
    structure = arrays[0].structure
    for other in arrays[1:]:
        if not structure.same_nesting(other.structure):
            raise DTypeError(
                f"{operation}: the arrays have elements of different structure.",
                hint="Make them alike with td.map, or td.zip and td.unzip.",
            )
    types = []
    for parts in zip(*(a.types for a in arrays), strict=True):
        common = parts[0]
        for t in parts[1:]:
            common = promote(common, False, t, False)[0]
        types.append(common)
    return structure, types


def require_list(arrays: Iterable[ArrayLike], axis: AxisLike | None, operation: str) -> None:
    """Refuse what is no list or has no order, and `concatenate(a, b)`, where the second array would
    be the axis."""
    both = isinstance(arrays, Array | np.ndarray) and isinstance(axis, Array | np.ndarray)
    if both or not isinstance(arrays, Iterable) or isinstance(arrays, Set | Mapping):
        raise TracingError(
            f"{operation} takes its arrays in a list.", hint=f"Write td.{operation}([a, b])."
        )


@operation
def concatenate(arrays: Iterable[ArrayLike], axis: int | None = 0) -> Array:
    """Join arrays along an existing axis; with axis None, flattened ones.

    Parameters
        axis: the axis, from −rank to rank − 1; default 0; None: flattened arrays are joined.

    Result: an array of the promoted type, whose extent along the axis is the sum of theirs.

    >>> td.concatenate([np.array([3, 1, 2]), np.array([2, 0, 1])])
    Array([3, 1, 2, 2, 0, 1])
    """
    forbid_nesting("concatenate")
    require_list(arrays, axis, "concatenate")
    parts = [as_array(a, "concatenate") for a in arrays]
    if axis is None:
        parts, axis = [flatten(p) for p in parts], 0
    if not parts:
        raise ShapeError(
            "concatenate needs at least one array.",
            hint="An empty list has no element type: write td.zeros((0, n), dtype).",
        )
    rank = parts[0].ndim
    if any(p.ndim != rank for p in parts):
        raise ShapeError(
            "concatenate needs arrays of equal rank, got "
            + ", ".join(str(p.ndim) for p in parts)
            + ".",
            hint="a[None] adds an axis in front, td.flatten(a) leaves one.",
        )
    if rank == 0:
        raise ShapeError(
            "rank-0 arrays cannot be concatenated.",
            hint="The arrays are given in a list: td.concatenate([a, b])."
            if isinstance(arrays, Array)
            else "Use td.stack.",
        )
    k = normalise_axis(axis, rank, "concatenate")
    checks: list[Check] = []
    for p in parts[1:]:
        for x in range(rank):
            e, g = p._shape[x], parts[0]._shape[x]
            if x != k:
                checks += require(
                    g,
                    e,
                    f"concatenate along axis {k}: axis {x} has {{left}} against {{right}}; shapes "
                    f"{show_shape(parts[0]._shape)} and {show_shape(p._shape)}.",
                    hint="Slice to the common extent, or pad: td.pad.",
                )
    structure, types = _common_elements(parts, "concatenate")

    def join(parts: Sequence[Array], checks: Sequence[Check]) -> Array:
        upto, more = ends([p._shape[k] for p in parts], "concatenate")
        shape = (*parts[0]._shape[:k], upto[-1], *parts[0]._shape[k + 1 :])
        elements = _joined(parts, upto, k, rank, types)
        return generated(shape, elements, "concatenate", (*checks, *more), structure)

    while len(parts) > MOST_JOINED:  # join leading arrays in groups
        groups = min(len(parts) // MOST_JOINED, -(-(len(parts) - 1) // (MOST_JOINED - 1)) - 1)
        first = range(0, groups * MOST_JOINED, MOST_JOINED)
        parts = [
            *(join(parts[at : at + MOST_JOINED], ()) for at in first),
            *parts[groups * MOST_JOINED :],
        ]
    return join(parts, checks)


concat = concatenate


def _joined(
    parts: Sequence[Array], ends: Sequence[Expr], axis: int, rank: int, types: Sequence[Any],
    low: int = 0,
) -> tuple[Expr, ...]:  # fmt: skip
    """A balanced tree of `cond`s on the index, so that joining n arrays costs log n comparisons.

    `low` is the number of the first of `parts` among all arrays; `ends` are the ends of all arrays.
    """
    if len(parts) == 1:
        index: list[Expr] = list(indices(rank))
        if low:
            index[axis] = minus(index[axis], ends[low - 1])
        values = parts[0]._element(index)
        return tuple(simplify.cast(v, t) for v, t in zip(values, types, strict=True))
    half = len(parts) // 2
    left = _joined(parts[:half], ends, axis, rank, types, low)
    right = _joined(parts[half:], ends, axis, rank, types, low + half)
    node = Cond(apply_primitive("less", [Index(axis), ends[low + half - 1]]), left, right)
    return tuple(Proj(node, c) for c in range(len(left)))


@operation
def stack(arrays: Iterable[ArrayLike], axis: int = 0) -> Array:
    """Join arrays along a new axis.

    Result: an array of one rank more, and of the promoted type.

    >>> td.stack([np.array([3, 1, 2]), np.array([2, 0, 1])])
    Array([[3, 1, 2],
           [2, 0, 1]])
    """
    require_list(arrays, axis, "stack")
    parts = [as_array(a, "stack") for a in arrays]
    if not parts:
        raise ShapeError(
            "stack needs at least one array.",
            hint="An empty list has no element type: write td.zeros((0, n), dtype).",
        )
    k = normalise_axis(axis, parts[0].ndim + 1, "stack")
    if any(p.ndim != parts[0].ndim for p in parts):
        raise ShapeError(
            "stack needs arrays of equal shape.",
            hint="td.concatenate joins arrays that differ along one axis.",
        )
    for p in parts[1:]:  # static differences; concatenate checks the rest at run time
        same_shape(parts[0]._shape, p._shape, "stack")
    return concatenate([slice_array(p, (slice(None),) * k + (None,)) for p in parts], k)


@operation
def pad(
    a: ArrayLike,
    pad_width: IntLike | Sequence[IntLike] | Sequence[Sequence[IntLike]],
    mode: str = "constant",
    constant_values: ScalarLike | Sequence[ScalarLike] = 0,
) -> Array:
    """NumPy's pad with the modes constant, edge, reflect, symmetric and wrap.

    Parameters
        pad_width: the numbers of elements before and after, which may be run-time values: one for
            all, a pair, or a pair for each axis.
        mode: "constant" (default), "edge", "reflect", "symmetric" or "wrap".
        constant_values: the value of the mode "constant", without effect in others; default 0.

    Result: an array of the rank and type of `a`, with larger extents.

    >>> td.pad(np.array([3, 1, 2]), 1, mode="edge")
    Array([3, 3, 1, 2, 2])
    """
    forbid_nesting("pad")
    array = as_array(a, "pad")
    refuse_traced("pad", mode=mode)
    widths, checks = _pad_widths(pad_width, array.ndim)
    kinds = {"edge": "clamp", "reflect": "mirror", "symmetric": "symmetric", "wrap": "wrap"}
    if mode != "constant" and mode not in kinds:
        raise ShapeError(
            f"pad: unknown mode {mode!r}.",
            hint="Modes: constant, edge, reflect, symmetric, wrap.  Others by NumPy, before: "
            f"np.pad(np.asarray(a), width, mode={mode!r}); or td.concatenate of the parts.",
        )
    longer = [ends([e, *width], "pad") for e, width in zip(array._shape, widths, strict=True)]
    shape = tuple(upto[-1] for upto, _ in longer)
    checks += tuple(check for _, more in longer for check in more)
    index: list[Expr] = [minus(Index(k), lo) for k, (lo, _) in enumerate(widths)]
    if mode != "constant":
        index = [resolve_index(kinds[mode], p, n) for p, n in zip(index, array._shape, strict=True)]
        checks += _require_not_empty(array, widths, mode)
        return map_over(array, index, shape, "pad", checks)
    values = tuple(array._element(index))
    inside: Expr = Const(True, bool_)
    outside = values
    sides = _pad_values(constant_values, array.ndim)
    for p, n, around in zip(index, array._shape, sides, strict=True):
        low = apply_primitive("greater_equal", [p, constant(0)])
        high = apply_primitive("less", [p, n])
        within = apply_primitive("logical_and", [low, high])
        before, after = (tuple(fit_weak(lift(x, "pad"), v.type) for v in values) for x in around)
        here = _choose(low, after, before)
        # A corner takes the value of the last of its axes, as if they were padded one after the
        # other.
        outside = here if outside is values else _choose(within, outside, here)
        inside = apply_primitive("logical_and", [inside, within])
    chosen = Cond(inside, values, outside)
    elements = tuple(Proj(chosen, k) for k in range(len(values)))
    return generated(shape, elements, "pad", checks, array.structure)


def _require_not_empty(
    array: Array, widths: Sequence[tuple[Expr, Expr]], mode: str
) -> tuple[Check, ...]:
    """Require that padded axes are not empty: an error now, or run-time checks."""
    checks: list[Check] = []
    for k, (extent, width) in enumerate(zip(array._shape, widths, strict=True)):
        text = f"pad: axis {k} is empty, and mode {mode!r} has nothing to repeat there."
        hint = 'mode="constant" fills it.'
        least = apply_primitive("minimum", [greatest(*width), constant(1)])
        checks += require(extent, least, text, relation=">=", hint=hint)
    return tuple(checks)


def _choose(p: Expr, then: tuple[Expr, ...], other: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(simplify.select(p, a, b) for a, b in zip(then, other, strict=True))


def _pad_values(
    constant_values: ScalarLike | Sequence[ScalarLike], rank: int
) -> list[tuple[Any, Any]]:
    """The values before and after each axis."""
    try:
        return _by_axis(constant_values, rank)
    except ValueError:
        raise ShapeError(
            f"pad: constant_values {constant_values!r} does not fit an array of rank {rank}.",
            hint="Give a value, (before, after), or one (before, after) per axis.",
        ) from None


def _pad_widths(
    pad_width: IntLike | Sequence[IntLike] | Sequence[Sequence[IntLike]], rank: int
) -> tuple[list[tuple[Expr, Expr]], tuple[Check, ...]]:
    """The widths before and after each axis, and checks of those that are run-time values."""
    try:
        pairs = _by_axis(pad_width, rank)
    except ValueError:
        raise ShapeError(
            f"pad: pad_width {pad_width!r} does not fit an array of rank {rank}.",
            hint="Give n, (before, after), or one (before, after) per axis.",
        ) from None
    numbers = np.asarray([w for p in pairs for w in p if not isinstance(w, Operators)] or [0])
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ShapeError(
            "pad: widths are integers, not negative.", hint="To cut instead, slice: a[1:-1]."
        )
    if (numbers > int64.highest).any():
        raise ShapeError(
            f"pad: pad_width {pad_width!r} does not fit in 64 bits.",
            hint="Widths count elements: n, (before, after), or one pair per axis.",
        )
    counts = [(as_count(low, "pad"), as_count(high, "pad")) for low, high in pairs]
    checks: tuple[Check, ...] = ()
    for width in dict.fromkeys(width for pair in counts for width in pair):
        text, hint = "pad: a width is negative: {left}.", "To cut instead, slice: a[1:-1]."
        checks += require(width, constant(0), text, relation=">=", hint=hint)
    return counts, checks


def _by_axis(nested: object, rank: int) -> list[tuple[Any, Any]]:
    """A value, a pair or a pair for each axis as pairs; `ValueError` where it is none of these."""
    if isinstance(nested, np.ndarray):
        values_are_read()
        nested = nested.tolist()
    leaves: list[object] = []

    def numbered(part: object) -> object:
        if isinstance(part, list | tuple):
            return [numbered(x) for x in part]
        leaves.append(part)
        return len(leaves) - 1

    places = np.broadcast_to(np.asarray(numbered(nested)), (rank, 2))
    return [(leaves[before], leaves[after]) for before, after in places.tolist()]


later.offer(stack=stack)

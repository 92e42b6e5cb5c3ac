"""The part of an array that an index selects: integers, slices, None, `...`, integer arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import Indexing
from ...array import APART, Array
from ...errors import AxisError, DTypeError, ShapeError, TracingError
from ...expr import Const, Expr, Index, constant, substitute
from ...frontend.sources import as_array, entries, is_arraylike
from ...graph import Check, Shape
from ...scalar import Scalar, as_count
from ...shapes import broadcast_shapes, require, stretched
from ...types import int64
from .slicing import from_either_end, from_some, from_start, require_in_range, slice_axis


def unwrapped(index: Indexing) -> Indexing:
    """`a[(i,)]` is `a[i]`.  A tuple within an index is an array of indices, as NumPy's."""
    if not isinstance(index, tuple):
        return index
    parts = tuple([list(p) if isinstance(p, tuple) else p for p in index])
    return parts[0] if len(parts) == 1 else parts


def is_index_array(part: Any) -> bool:
    """Whether an index is an array or a list, not a rank-0 `Array`: that is a scalar."""
    if isinstance(part, Array):
        return part.ndim > 0
    return isinstance(part, list | range) or is_arraylike(part)


def is_truth(index: Any) -> bool:
    """Whether an index is one truth value: a mask of rank 0."""
    if isinstance(index, Array):
        return not index.ndim and index.structure.is_leaf and index.types[0].family == "bool"
    return isinstance(index, bool | np.bool_)


def index_parts(index: Indexing, rank: int, tuples: bool = False) -> list[Any]:
    """The parts of an index of an array of this rank, with `slice(None)` for what `...` means and
    for the axes that are left out; `tuples`: whether its elements are such."""
    parts = list(index) if isinstance(index, tuple) else [index]
    consumed = sum(1 for p in parts if p is not None and p is not Ellipsis)
    if sum(1 for p in parts if p is Ellipsis) > 1:
        raise ShapeError(
            "an index may hold only one ellipsis (...).", hint='Write ":" for the other axes.'
        )
    if consumed > rank:
        raise AxisError(
            f"{'1 index' if consumed == 1 else f'{consumed} indices'} for an array of rank {rank}.",
            hint=_fewer(rank, tuples),
        )
    fill = [slice(None)] * (rank - consumed)
    at = next((k for k, p in enumerate(parts) if p is Ellipsis), None)
    return [*parts, *fill] if at is None else [*parts[:at], *fill, *parts[at + 1 :]]


def _fewer(rank: int, tuples: bool) -> str:
    """What to write instead of too many indices."""
    if tuples:
        return f"Write at most {rank}.  {APART}" if rank else APART
    return (
        f"Write at most {rank}."
        if rank
        else ("It is one value: td.the(a) is that as a scalar, float(a) as a number of Python's.")
    )


def refuse_no_index(part: Any) -> None:
    """Raise an error for what cannot be one of the indices of `a[…]`."""
    if isinstance(part, str):
        raise TracingError(
            f"an array has no columns with names, as {part!r}.",
            hint="A data frame is an array of rows and columns; as a dict of columns it keeps the "
            "names: f(dict(frame)), where x[name] is a column.",
        )
    if isinstance(part, float):
        raise TracingError(
            f"an index of type {type(part).__name__} is not supported.",
            hint="Indices are integers, slices, None and ...; gather with td.take(a, indices, "
            "axis) or td.backpermute(shape, f, a).",
        )


class Part(NamedTuple):
    """The elements of an array that an index selects."""

    shape: Shape
    target: tuple[Expr, ...]  # over Index(axis of shape)
    checks: tuple[Check, ...]
    repeats: bool  # whether an element may occur twice


def part_of(array: Array, index: Indexing, called: str, reading: bool) -> Part:
    """The part that an index selects.  A run-time integer out of range is reported where it is
    read (`reading`); it selects nothing where it is written."""
    parts, found = _without_masks(array, index, called)
    checks = [*found]
    arrays = {
        k: _integers(p, called)
        for k, p in enumerate(parts)
        if is_index_array(p) and as_array(p, "an index").ndim
    }
    shapes = [found._shape for found in arrays.values()]
    block, misfits = broadcast_shapes(shapes, called)
    checks += misfits
    # NumPy's rule: the axes of the integer arrays are where these are, if nothing that makes an
    # axis separates them (or the integers); else they come first.
    picking = [k for k, p in enumerate(parts) if not (p is None or isinstance(p, slice))]
    together = not arrays or picking == list(range(picking[0], picking[-1] + 1))
    first = picking[0] if arrays and together else 0

    shape: list[Expr] = []  # of slices and None
    target: list[Expr] = []
    picked: list[tuple[Expr, int]] = []
    for k, part in enumerate(parts):
        before = len(shape)
        here = Index(before if before < first else before + len(block))
        if part is None:
            shape.append(constant(1))
            continue
        axis = len(target)
        n = array._shape[axis]
        if isinstance(part, slice):
            sliced = slice_axis(part, n, checks)
            target.append(sliced.at(here))
            shape.append(sliced.extent)
        elif k in arrays:
            if isinstance(part, list | range):
                checks += _in_range(part, n, axis)
            checks += require_in_range(arrays[k], n, axis, called)
            own = stretched(arrays[k]._shape, block)
            shifted = substitute(own, {Index(j): Index(first + j) for j in range(len(block))})
            (e,) = arrays[k]._element(shifted)
            target.append(from_start(simplify.cast(e, int64), n))
            picked.append((n, axis))
        else:
            refuse_no_index(part)
            e = as_count(part, "an index")
            strict = reading or isinstance(e, Const)
            at = from_either_end(e, n, axis, checks) if strict else from_start(e, n)
            target.append(at)
    shape[first:first] = block
    for n, axis in picked if reading else ():
        checks += from_some(n, axis, tuple(shape))
    return Part(tuple(shape), tuple(target), tuple(checks), bool(arrays))


def _without_masks(
    array: Array, index: Indexing, called: str
) -> tuple[list[Any], tuple[Check, ...]]:
    """The parts of an index.  A boolean array in it stands for the arrays of the indices where it
    holds, one for each of its axes, as in NumPy."""
    given = index if isinstance(index, tuple) else (index,)
    masks: list[tuple[Array, Array]] = []  # the first of its index arrays, and the mask
    wide: list[Any] = []
    for part in given:
        mask = as_array(part, "an index") if is_index_array(part) else None
        if mask is None or not mask.ndim or mask.types[0].family != "bool":
            wide.append(part)
            continue
        indices = later.nonzero(mask)
        masks.append((indices[0], mask))
        wide += indices
    parts = index_parts(tuple(wide), array.ndim, not array.structure.is_leaf)
    checks: tuple[Check, ...] = ()
    for first, mask in masks:
        at = next(k for k, part in enumerate(parts) if part is first)
        axis = sum(part is not None for part in parts[:at])
        checks += mask_checks(array._shape[axis:], mask, axis)
    return parts, checks


def mask_checks(
    shape: Shape, mask: Array, first: int = 0, error: str = "ShapeError"
) -> tuple[Check, ...]:
    """That a mask has the extents of an array, from its axis `first` on."""
    checks: tuple[Check, ...] = ()
    for axis, (own, given) in enumerate(zip(shape, mask._shape, strict=False)):
        checks += require(
            own,
            given,
            f"a boolean index: axis {first + axis} has {{left}} elements, the index {{right}}.",
            error=error,
            hint="It has the shape of the array, or of its first axes.",
        )
    return checks


def untyped(indices: object) -> object:
    """Indices; an empty list, which NumPy takes for one of floats, has the type of indices."""
    if isinstance(indices, list | range | tuple) and not any(
        isinstance(x, Scalar) or np.size(x) for x in entries(indices)
    ):
        return np.zeros(np.shape(indices), np.int64)
    return indices


def _integers(part: Any, called: str) -> Array:
    """An array of indices."""
    found = as_array(untyped(part), "an index")
    if not found.structure.is_leaf or not found.types[0].is_integer:
        raise DTypeError(
            f"{called} needs integer indices, got {found.dtype}.",
            hint="Convert them: td.cast(indices, td.int64).",
        )
    return found


def _in_range(part: Any, n: Expr, axis: int) -> tuple[Check, ...]:
    """Checks that integers of the host are in range."""
    numbers = np.asarray(part)
    if not numbers.size:
        return ()
    checks: list[Check] = []
    for worst in (int(numbers.max()), int(numbers.min())):
        from_either_end(constant(worst), n, axis, checks)
    return tuple(checks)

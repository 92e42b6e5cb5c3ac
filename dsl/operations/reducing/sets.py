"""Arrays as sets: distinct elements, unions, intersections and differences, sorted."""

from __future__ import annotations

from typing import NamedTuple, overload

from ...annotations import ArrayLike, AxisLike, IntLike, ScheduleLike
from ...array import Array, generated
from ...errors import TracingError
from ...expr import Index, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...scalar import Scalar, apply_primitive
from ..common import normalise_axes, operation
from ..control import cond
from ..elements import functions as fn
from ..elements.foreign import compute
from ..indexing.index_space import flatten, reshape, take
from ..indexing.joining import concatenate
from ..indexing.making import generate, iota, the, zeros
from ..indexing.permuting import scatter
from .irregular import argsort, compact, isin, sort
from .reductions import any as any_, max as max_, min as min_
from .scans import cumsum

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique",
           "unique_all", "unique_counts", "unique_inverse", "unique_values"]  # fmt: skip


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


@overload
def unique(
    a: ArrayLike, *, equal_nan: bool = True, name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array: ...  # fmt: skip
@overload
def unique(
    a: ArrayLike, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, *, equal_nan: bool = True, name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array | tuple[Array, ...]: ...  # fmt: skip
@operation
def unique(
    a: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    equal_nan: bool = True,
) -> Array | tuple[Array, ...]:
    """The distinct elements, ascending; the extent is computed by the kernels.

    Parameters
        return_index: whether to return the first index of each; default False.
        return_inverse: whether to return, for each element of `a`, the index of its value.
        return_counts: whether to return how often each occurs.
        equal_nan: whether all NaN are one value (default True); if not, each is a value of its own.

    Result: a sorted array of rank 1, or a tuple of it and what else was asked for, in this order.

    >>> td.unique([2, 1, 2])
    Array([1, 2])
    >>> td.unique([2, 1, 2], return_counts=True)
    (Array([1, 2]), Array([1, 2]))
    """
    forbid_nesting("unique")
    array = as_array(a, "unique")
    asked = return_index, return_inverse, return_counts
    if not any(asked):
        return _ascending(array, equal_nan, "unique")
    values, *others = _distinct(array, equal_nan, "unique")
    return values, *(part for part, wanted in zip(others, asked, strict=True) if wanted)


@operation
def unique_all(x: ArrayLike) -> UniqueAll:
    """The distinct elements, ascending, with the first index and the number of each, and for each
    element of `x` the index of its value.  Every NaN is a value of its own.

    One sort; the extent of all but the inverse indices is computed by the kernels.

    Result: a named tuple (values, indices, inverse_indices, counts).

    >>> found = td.unique_all(np.array([3, 1, 3]))
    >>> [part.tolist() for part in found]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return _distinct(as_array(x, "unique_all"), False, "unique_all")


def _distinct(array: Array, equal_nan: bool, operation: str) -> UniqueAll:
    flat = flatten(array)
    n = flat.shape[0]
    order = argsort(flat)
    # Three kernels read each element twice.
    ordered = as_array(compute(take(flat, order)), operation)
    first = _starts(ordered, equal_nan)
    values, found = compact(first, ordered, name=operation)
    starts = compact(first, iota(n))[0]
    count = the(found)

    def number(k: Scalar) -> Scalar:
        found: Scalar = cond(k + 1 < count, starts[k + 1], n + 0 * k) - starts[k]
        return found

    counts = generate(values.shape, number)
    ranks = cumsum(first) - 1
    inverse = scatter(zeros(n, int), order, ranks)
    return UniqueAll(values, compact(first, order)[0], reshape(inverse, array.shape), counts)


def _ascending(array: Array, equal_nan: bool, operation: str) -> Array:
    """The distinct elements, and nothing else."""
    ordered = sort(flatten(array))
    return compact(_starts(ordered, equal_nan), ordered, name=operation)[0]


def _starts(ordered: Array, equal_nan: bool) -> Array:
    """Where the elements of a sorted array differ from those before, and where there is none."""
    before = apply_primitive(
        "maximum", [apply_primitive("subtract", [Index(0), constant(1)]), constant(0)]
    )
    new = apply_primitive("equal", [Index(0), constant(0)])
    for here, previous in zip(
        ordered._element((Index(0),)), ordered._element((before,)), strict=True
    ):
        other = apply_primitive("not_equal", [here, previous])
        if equal_nan and here.type.is_inexact:
            both = [apply_primitive("isnan", [e]) for e in (here, previous)]
            nan = apply_primitive("logical_not", [apply_primitive("logical_and", both)])
            other = apply_primitive("logical_and", [other, nan])
        new = apply_primitive("logical_or", [new, other])
    return generated(ordered._shape, (new,), "unique")


@operation
def unique_counts(x: ArrayLike) -> UniqueCounts:
    """The distinct elements, ascending, and how often each occurs.

    Result: a named tuple (values, counts).

    >>> td.unique_counts(np.array([3, 1, 3])).counts
    Array([1, 2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


@operation
def unique_inverse(x: ArrayLike) -> UniqueInverse:
    """The distinct elements, ascending, and for each element of `x` the index of its value.

    Result: a named tuple (values, inverse_indices).

    >>> td.unique_inverse(np.array([3, 1, 3]))
    UniqueInverse(values=Array([1, 3]), inverse_indices=Array([1, 0, 1]))
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


@operation
def unique_values(x: ArrayLike) -> Array:
    """The distinct elements, ascending; every NaN is a value of its own.

    >>> td.unique_values(np.array([3, 1, 2]))
    Array([1, 2, 3])
    """
    return _ascending(as_array(x, "unique_values"), False, "unique_values")


def _alike(a: ArrayLike, b: ArrayLike, operation: str) -> tuple[Array, Array]:
    """Two flat arrays of one type."""
    left, right = flatten(as_array(a, operation)), flatten(as_array(b, operation))
    kind = (fn.where(True, left.types[0](0), right.types[0](0))).dtype
    return left.astype(kind), right.astype(kind)


@operation
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """The distinct elements of both arrays, ascending.

    >>> td.union1d(np.array([3, 1]), np.array([2, 3]))
    Array([1, 2, 3])
    """
    return unique(concatenate(_alike(ar1, ar2, "union1d")))


@operation
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Array | tuple[Array, Array, Array]:
    """The distinct elements that both arrays have, ascending; NaN is in none.

    `return_indices`: also their first indices in the two flattened arrays.  `assume_unique` has no
    effect.

    Parameters
        return_indices: whether to return the indices in both arrays, too; default False.

    Result: a sorted array of rank 1, whose extent is known when the program runs; with
        `return_indices` also two int64 arrays.

    >>> td.intersect1d(np.array([3, 1, 3]), np.array([2, 3]))
    Array([3])
    """
    left, right = _alike(ar1, ar2, "intersect1d")
    if not return_indices:
        values = unique(left)
        return compact(isin(values, right), values)[0]
    (values, first, *_), (others, second, *_) = unique_all(left), unique_all(right)
    common, back = isin(values, others), isin(others, values)
    return compact(common, values)[0], compact(common, first)[0], compact(back, second)[0]


@operation
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """The distinct elements of `ar1` that `ar2` does not have, ascending; with `assume_unique` in
    the order of `ar1`.

    >>> td.setdiff1d(np.array([3, 1, 2]), np.array([2]))
    Array([1, 3])
    """
    array, other = flatten(as_array(ar1, "setdiff1d")), as_array(ar2, "setdiff1d")
    values = array if assume_unique else unique(array)
    return compact(isin(values, other, invert=True), values)[0]


@operation
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """The distinct elements that one of the arrays has and the other does not have, ascending.

    `assume_unique` has no effect.

    >>> td.setxor1d(np.array([3, 1]), np.array([2, 3]))
    Array([1, 2])
    """
    left, right = (unique(a) for a in _alike(ar1, ar2, "setxor1d"))
    alone = compact(isin(left, right, invert=True), left)[0]
    other = compact(isin(right, left, invert=True), right)[0]
    return sort(concatenate([alone, other]))


@operation
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: AxisLike | None = None) -> Array:
    """The array without the zeros at its front ("f") and back ("b"), along the given axes or all:
    what is left is the smallest part with all other elements.  Its extents are run-time values.

    Parameters
        filt: an array.
        trim: "f" (front), "b" (back) or both (default).
        axis: the axis, from −rank to rank − 1; default None: all.

    Result: an array of the rank and type of `filt`.

    >>> td.trim_zeros(np.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2])
    """
    array = as_array(filt, "trim_zeros")
    sides = trim.lower() if isinstance(trim, str) else trim
    if sides not in ("f", "b", "fb", "bf"):
        raise TracingError(
            f"trim_zeros: trim is 'f', 'b' or 'fb', got {trim!r}.", hint='"fb" trims both ends.'
        )
    present = array != 0
    parts: list[slice] = [slice(None)] * array.ndim
    for k in normalise_axes(axis, array.ndim, "trim_zeros"):
        others = tuple(j for j in range(array.ndim) if j != k)
        parts[k] = _trimmed(any_(present, axis=others) if others else present, sides)
    trimmed: Array = array[tuple(parts)]
    return trimmed


def _trimmed(present: Array, sides: str) -> slice:
    n: IntLike = present.shape[0]
    last = concatenate([generate((1,), lambda k: k), fn.where(present, iota(n) + 1, 0)])
    first = concatenate([generate((1,), lambda k: n + 0 * k), fn.where(present, iota(n), n)])
    high = the(max_(last)) if "b" in sides else n
    low = the(min_(first)) if "f" in sides else 0
    return slice(low, fn.maximum(low, high))

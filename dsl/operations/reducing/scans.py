"""Scans (prefix sums with any associative function) in both directions."""

from __future__ import annotations

from typing import Any

from ... import simplify
from ...analysis.combines import simple_combine
from ...annotations import ArrayLike, DTypeLike, Element, Function2, ScheduleLike
from ...array import Array, map_over, require_scalars
from ...errors import ShapeError, user_location
from ...expr import Index, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Label, Scan
from ...types import LEAF, as_type
from ..common import combining, fit_to, label_of, normalise_axis, operation, trace_combine
from ..indexing.index_space import flatten
from ..indexing.joining import concatenate
from ..indexing.making import full
from ..indexing.row_major import ends
from .reductions import summed_type

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "scanl",
           "scanl1", "scanl_total", "scanr", "scanr1", "scanr_total"]  # fmt: skip


def scan_array(
    f: Function2,
    init: tuple[Any, ...],
    a: ArrayLike,
    axis: int,
    form: str,
    backward: bool,
    operation: str,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """A Scan node; for form "total" the Array holds only the prefixes (see `with_total`)."""
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    k = normalise_axis(axis, array.ndim, operation)
    types = array.types
    start = (
        fit_to(init[0], array.structure, types, "the initial value", operation) if init else None
    )
    combine = trace_combine(f, array.structure, types, operation, where)
    _, checks = ends([array._shape[k], constant(int(form == "exclusive"))], operation)
    node = Scan(
        array._shape,
        k,
        tuple(array._element([Index(j) for j in range(array.ndim)])),
        combine,
        start,
        form,
        backward,
        label=label_of(operation, name, schedule),
        where=where,
        checks=checks,
    )
    count = array.structure.count
    return Array(node.leaves[:count], array.structure, node.outputs[0].shape)


def with_total(prefix: Array) -> tuple[Array, Array]:
    node = prefix._leaves[0].node
    count = prefix.structure.count
    totals = Array(node.leaves[count:], prefix.structure, node.outputs[count].shape)
    return prefix, totals


@combining
def scanl(f: Function2, init: Element, a: ArrayLike, axis: int = -1) -> Array:
    """init, f(init, a₀), f(f(init, a₀), a₁), …: length n + 1; `f` is associative.

    >>> td.run(td.scanl(lambda x, y: x + y, 0, np.array([1, 2, 3])))
    array([0, 1, 3, 6])
    """
    return scan_array(f, (init,), a, axis, "exclusive", False, "scanl")


@combining
def scanl1(f: Function2, a: ArrayLike, axis: int = -1) -> Array:
    """a₀, f(a₀, a₁), …: length n.

    >>> add = lambda a, b: a + b
    >>> td.scanl1(add, np.array([3, 1, 2]))
    Array([3, 4, 6])
    """
    return scan_array(f, (), a, axis, "inclusive", False, "scanl1")


@combining
def scanl_total(f: Function2, init: Element, a: ArrayLike, axis: int = -1) -> tuple[Array, Array]:
    """(the first n elements of `scanl`, its last element).

    Result: the prefixes, and the total.

    >>> add = lambda a, b: a + b
    >>> td.scanl_total(add, 0, np.array([3, 1, 2]))
    (Array([0, 3, 4]), Array(6))
    """
    return with_total(scan_array(f, (init,), a, axis, "total", False, "scanl_total"))


@combining
def scanr(f: Function2, init: Element, a: ArrayLike, axis: int = -1) -> Array:
    """From the right: element k combines aₖ, …, aₙ₋₁ and `init`; length n + 1.

    >>> add = lambda a, b: a + b
    >>> td.scanr(add, 0, np.array([3, 1, 2]))
    Array([6, 3, 2, 0])
    """
    return scan_array(f, (init,), a, axis, "exclusive", True, "scanr")


@combining
def scanr1(f: Function2, a: ArrayLike, axis: int = -1) -> Array:
    """From the right without an initial value: length n.

    >>> add = lambda a, b: a + b
    >>> td.scanr1(add, np.array([3, 1, 2]))
    Array([6, 3, 2])
    """
    return scan_array(f, (), a, axis, "inclusive", True, "scanr1")


@combining
def scanr_total(f: Function2, init: Element, a: ArrayLike, axis: int = -1) -> tuple[Array, Array]:
    """(the last n elements of `scanr`, its first element).

    Result: the suffixes, and the total.

    >>> add = lambda a, b: a + b
    >>> td.scanr_total(add, 0, np.array([3, 1, 2]))
    (Array([3, 2, 0]), Array(6))
    """
    return with_total(scan_array(f, (init,), a, axis, "total", True, "scanr_total"))


# --- NumPy's names ---------------------------------------------------------------------------


def _cumulative(a: ArrayLike, axis: int | None, operation: str, primitive: str, widen: bool,
                schedule: ScheduleLike | None, dtype: DTypeLike | None = None
                ) -> Array:  # fmt: skip
    forbid_nesting(operation)
    array = as_array(a, operation)
    require_scalars(array, operation)
    asked = label_of(operation, None, schedule).schedule
    if axis is None:
        if asked is not None and array.ndim > 1:
            asked = asked.along_a_line()
        array, axis = flatten(array), 0
    if array.ndim == 0:
        array = map_over(array, (), (constant(1),), operation)
    k = normalise_axis(axis, array.ndim, operation)
    t = summed_type(array.types[0]) if widen else array.types[0]
    t = t if dtype is None else as_type(dtype)
    element = simplify.cast(array._element([Index(j) for j in range(array.ndim)])[0], t)
    node = Scan(
        array._shape,
        k,
        (element,),
        simple_combine(primitive, t),
        None,
        "inclusive",
        False,
        label=Label(operation, schedule=asked),
        where=user_location(),
    )
    return Array(node.leaves, LEAF, array._shape)


@combining
def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """Cumulative sums; axis None scans the flattened array.

    >>> td.cumsum(np.arange(6).reshape(2, 3), axis=1)
    Array([[ 0,  1,  3],
           [ 3,  7, 12]])
    """
    return _cumulative(a, axis, "cumsum", "add", True, schedule, dtype)


@combining
def cumprod(
    a: ArrayLike,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """Cumulative products; axis None scans the flattened array.

    >>> td.cumprod(np.array([3, 1, 2]))
    Array([3, 3, 6])
    """
    return _cumulative(a, axis, "cumprod", "multiply", True, schedule, dtype)


@combining
def cumulative_sum(
    x: ArrayLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative sums along an axis (not needed for rank 1); `include_initial`: from 0 on, one
    more.

    >>> td.cumulative_sum(np.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6])
    """
    return _accumulated(x, axis, dtype, include_initial, "cumulative_sum", "add", 0)


@combining
def cumulative_prod(
    x: ArrayLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative products along an axis (not needed for rank 1); `include_initial`: from 1 on, one
    more.

    >>> td.cumulative_prod(np.array([3, 1, 2]))
    Array([3, 3, 6])
    """
    return _accumulated(x, axis, dtype, include_initial, "cumulative_prod", "multiply", 1)


def _accumulated(
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    initial: bool,
    operation: str,
    primitive: str,
    neutral: int,
) -> Array:
    array = as_array(x, operation)
    if axis is None and array.ndim != 1:
        raise ShapeError(
            f"{operation} of rank {array.ndim} needs an axis.",
            hint=f"Write td.{operation}(a, axis=0).",
        )
    k = normalise_axis(0 if axis is None else axis, array.ndim, operation)
    array = array if dtype is None else array.astype(dtype)
    found = _cumulative(array, k, operation, primitive, dtype is None, None)
    if not initial:
        return found
    shape = [*found.shape[:k], 1, *found.shape[k + 1 :]]
    return concatenate([full(shape, neutral, found.dtype), found], k)


@operation
def cummax(a: ArrayLike, axis: int | None = None, *, schedule: ScheduleLike | None = None) -> Array:
    """Cumulative maxima.

    >>> td.cummax(np.array([2, 0, 1]))
    Array([2, 2, 2])
    """
    return _cumulative(a, axis, "cummax", "maximum", False, schedule)


@operation
def cummin(a: ArrayLike, axis: int | None = None, *, schedule: ScheduleLike | None = None) -> Array:
    """Cumulative minima.

    >>> td.cummin(np.array([3, 1, 2]))
    Array([3, 1, 1])
    """
    return _cumulative(a, axis, "cummin", "minimum", False, schedule)

"""Positions of values in sorted arrays, and orders by several keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ... import simplify
from ...annotations import ArrayLike, Element
from ...array import Array
from ...errors import ShapeError, TracingError
from ...expr import constant
from ...frontend.deferred import HostArray, fact, values_are_read
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting, is_tracing_program
from ...scalar import apply_primitive
from ...shapes import require
from ...types import int64
from ..common import alike, checked, normalise_axis, operation, require_real, whole_number
from ..control import cond, while_loop
from ..elements.foreign import compute
from ..elements.functions import isnan, quot, where
from ..elements.mapping import map as map_
from ..indexing.index_space import flatten, take
from ..indexing.joining import stack
from ..indexing.making import generate, the
from .irregular import argsort, order_by, placed, sort as sort_

__all__ = ["argpartition", "digitize", "lexsort", "partition", "searchsorted"]


@operation
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Array:
    """Where the elements of `v` would be inserted into the sorted array `a` to keep it sorted.

    `a` has rank 1 and is ascending (or `a[sorter]` is); `v` any shape, that of the result (int64).
    `side="left"`: before equal elements, "right": after them.  NaN is last.  One binary search per
    element, of which nothing is stored.

    Parameters
        a: a sorted 1-D array.
        v: the values to place.
        side: "left" (default): the first position that fits; "right": the last.
        sorter: indices that sort `a`; default: it is sorted.

    Result: an array of integers of the shape of `v`.

    >>> td.searchsorted(np.array([1, 3, 5]), np.array([0, 3, 9]))
    Array([0, 1, 3])
    """
    if side not in ("left", "right"):
        raise TracingError(
            f"searchsorted: side is 'left' or 'right', got {side!r}.",
            hint='"left": before equal elements; "right": after them.',
        )
    table, values = as_array(a, "searchsorted"), as_array(v, "searchsorted")
    require_real(table, "searchsorted")
    require_real(values, "searchsorted")
    if table.ndim != 1:
        raise ShapeError(
            f"searchsorted needs a sorted array of rank 1, got rank {table.ndim}.",
            hint="Search its rows one by one, or sort td.flatten(a)."
            if table.ndim
            else "Its elements are edges, between which values lie: np.linspace(0, 1, 11).",
        )
    if sorter is not None:
        table = take(table, alike(as_array(sorter, "searchsorted"), table, "searchsorted"))
    inexact = table.types[0].is_inexact or values.types[0].is_inexact

    def before(x: Any, y: Any) -> Any:
        """Whether x < y, NaN being the largest."""
        return (x < y) | ((x == x) & (y != y)) if inexact else x < y

    def found(x: Any) -> Any:
        def narrowed(state: Any) -> Any:
            low, high = state
            middle = low + quot(high - low, 2)
            here = table[middle]
            right = before(here, x) if side == "left" else ~before(x, here)
            return where(right, middle + 1, low), where(right, high, middle)

        first = (int64(0), table.shape[0] + int64(0))
        return while_loop(lambda s: s[0] < s[1], narrowed, first)[0]

    return map_(found, values)


@operation
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """The number of the bin of each element: i where `bins[i-1] <= x < bins[i]`, or with `right`
    `bins[i-1] < x <= bins[i]`; of descending `bins`, i where `bins[i-1] > x >= bins[i]`, or with
    `right` `bins[i-1] >= x > bins[i]`.

    Parameters
        bins: a 1-D array of edges, which ascend or descend (which is checked where their values
            are known before the program runs).
        right: whether intervals include the right edge instead of the left; default False.

    Result: an array of integers of the shape of `x`.

    >>> td.digitize(np.array([3, 1, 2]), [1, 3])
    Array([2, 1, 1])
    """
    edges = as_array(bins, "digitize")
    require_real(edges, "digitize")
    require_real(as_array(x, "digitize"), "digitize")
    constant_edges = isinstance(bins, list | tuple) or not is_tracing_program()
    ascend = fact(edges, _ascend) if edges.ndim == 1 and constant_edges else None
    side: Literal["left", "right"] = "left" if right else "right"
    n = edges.shape[0] if edges.ndim == 1 else 1
    if ascend is None and edges.ndim == 1:

        def falls() -> Element:
            first, last = edges[0], edges[n - 1]
            return (first > last) | (isnan(first) & ~isnan(last))

        turned = the(generate((), lambda: cond(n > 1, falls(), False)))
        ascending: Array = generate(n, lambda k: edges[where(turned, n - 1 - k, k)])
        place = searchsorted(as_array(compute(ascending), "digitize"), x, side)
        found: Array = where(turned, n - place, place)
        return found
    if ascend is None or ascend:
        return searchsorted(edges, x, side)
    return edges.shape[0] - searchsorted(edges[::-1], x, side)


def _ascend(edges: HostArray) -> bool:
    """Whether edges ascend; else they descend."""
    if not np.any(np.less(edges[1:], edges[:-1])):
        return True
    if np.any(np.greater(edges[1:], edges[:-1])):
        raise ShapeError("digitize: the edges neither ascend nor descend.",
                         hint="Sort them: bins=np.sort(edges).")  # fmt: skip
    return False


@operation
def partition(a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """The elements in an order in which the `kth` one is where sorting would put it, none before it
    is larger, and none after it smaller; the order on either side may differ between backends.

    >>> td.partition(np.array([3, 1, 2]), 1)
    Array([1, 2, 3])
    """
    return _parted("partition", a, kth, axis)


@operation
def argpartition(a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """The indices of the elements in an order as that of `partition`.

    Result: an array of int64 of the shape of `a`.

    >>> td.argpartition(np.array([3, 1, 2]), 1)
    Array([1, 2, 0])
    """
    return _parted("argpartition", a, kth, axis)


def _parted(operation: str, a: ArrayLike, kth: int | Sequence[int], axis: int | None) -> Array:
    forbid_nesting(operation)
    if isinstance(kth, np.ndarray):
        values_are_read()
        kth = kth.tolist()
    places = [
        whole_number(k, operation, "kth", "Write kth=1, a position along the axis.")
        for k in (kth if isinstance(kth, list | tuple) else [kth])
    ]
    array = as_array(a, operation)
    if axis is None:
        array, axis = flatten(array), 0
    if not array.structure.is_leaf or not array.ndim:
        return (argsort if operation == "argpartition" else sort_)(array, axis)
    axis = normalise_axis(axis, array.ndim, operation)
    if not places:
        return generate(array.shape, lambda *i: i[axis]) if operation == "argpartition" else array
    extent, farthest = array._shape[axis], max(places, key=lambda k: k + 1 if k >= 0 else -k)
    empty = apply_primitive("equal", [extent, constant(0)])  # as in NumPy, any position is right
    needed = constant(farthest + 1 if farthest >= 0 else -farthest)
    checks = require(
        extent, simplify.select(empty, constant(0), needed),
        f"{operation}: there is no element {farthest} of {{left}}.", relation=">=",
        hint="kth is a position along the axis, from 0, or from −1 backwards.",
    )  # fmt: skip
    at = stack([int64(k) if k >= 0 else array.shape[axis] + int64(k) for k in places])
    return placed(checked(array, checks) if checks else array, at, axis, operation)


@operation
def lexsort(keys: Sequence[ArrayLike] | ArrayLike, axis: int = -1) -> Array:
    """The indices that sort by the last key, equal elements by the one before it, and so on.

    `keys`: a sequence of arrays of one shape (or an array, its rows).

    Parameters
        keys: arrays of equal shape; the last is the primary key.
        axis: the axis; default −1.

    Result: an int64 array of the shape of one key.

    >>> td.lexsort((np.array([1, 0, 0]), np.array([0, 1, 0])))
    Array([2, 0, 1])
    """
    rows = list(keys) if isinstance(keys, tuple | list) else list(as_array(keys, "lexsort"))
    if not rows:
        raise ShapeError(
            "lexsort needs at least one key.", hint="td.lexsort((second, first)) sorts by first."
        )
    arrays = [as_array(k, "lexsort") for k in rows]
    arrays = [alike(array, arrays[0], "lexsort") for array in arrays]
    return order_by(arrays, axis)

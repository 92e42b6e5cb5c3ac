"""Operations with data-dependent extents (compact, filter, expand, unique), and sorting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import ArrayLike, Element, Function1, Function2, ScheduleLike, Value
from ...array import Array, generated
from ...errors import AxisError, DTypeError, ShapeError, user_location
from ...expr import Const, Expr, Index, Read, constant
from ...frontend.deferred import HostArray
from ...frontend.refusals import no_array
from ...frontend.sources import as_array, is_arraylike, normalise_source, use
from ...frontend.tracing import enclosing_kernel, forbid_nesting, is_tracing_program
from ...graph import Generate, Label, Library, Output, Permute, indices, known
from ...libraries.sort import sorting
from ...scalar import Scalar, apply_primitive, as_index, as_strong, as_truth, lift
from ...shapes import same_shape
from ...types import LEAF, ScalarType, complex64, complex128, int64
from ..common import label_of, normalise_axis, operation, require_axes, trace_elements
from ..control import cond, while_loop
from ..elements.functions import cast, logical_not, where
from ..elements.mapping import map as map_, unzip_flat, with_checks
from ..indexing.index_space import flatten, reshape, reverse, take, take_along_axis
from ..indexing.making import iota, the
from ..indexing.parts import mask_checks
from .scans import scan_array
from .segments import add_lengths, length_of, segment_of_position

__all__ = ["argsort", "compact", "expand", "filter", "isin", "sort", "sort_complex"]


@operation
def compact(
    mask: ArrayLike, a: ArrayLike, *, name: str | None = None, schedule: ScheduleLike | None = None
) -> tuple[Array, Array]:
    """(elements of `a` where `mask` holds, in row-major order; their count as a rank-0 array).

    `values.shape[0]` is computed by the kernels; later operations can use it.

    >>> td.compact([True, False, True], np.array([3, 1, 2]))
    (Array([3, 2]), Array(2))
    """
    forbid_nesting("compact")
    where = user_location()
    source, keep = as_array(a, "compact"), as_array(mask, "compact")
    if not keep.structure.is_leaf:
        raise DTypeError(
            "compact needs a mask of truth values, got tuples.",
            hint="Make one value of the parts: td.map(lambda p: p[0] & p[1], mask).",
        )
    if keep.ndim < source.ndim:
        raise ShapeError(
            f"compact: the mask has rank {keep.ndim}, the array rank {source.ndim}.",
            hint="a[mask], or td.compress(mask, a, axis=0), selects rows.",
        )
    checks = same_shape(keep._shape, source._shape, "compact")
    flat_mask, flat = flatten(keep), flatten(source)
    truth = as_truth(flat_mask._element((Index(0),))[0])
    ones = generated(flat_mask._shape, (simplify.cast(truth, int64),), "mask", checks)
    positions = scan_array(lambda x, y: x + y, (0,), ones, 0, "exclusive", False, "positions")
    n = flat._shape[0]
    count_read = positions._element((n,))[0]
    count = generated((), (count_read,), "count")
    total = count._element(())[0]
    empty = Generate(
        (total,), tuple(Const(0, t) for t in flat.types), label=Label("compact"), where=where
    )
    packed = Permute(
        (n,),
        truth,
        (positions._element((Index(0),))[0],),
        tuple(flat._element((Index(0),))),
        empty.leaves,
        None,
        label=label_of("compact", name, schedule),
        where=where,
    )
    require_axes(packed, packed.label)
    return Array(packed.leaves, source.structure, (total,)), count


@operation
def filter(
    p: Function1, a: ArrayLike, *, name: str | None = None, schedule: ScheduleLike | None = None
) -> tuple[Array, Array]:
    """`compact` with a predicate on the elements: (values, count).

    Parameters
        p: a function of an element that returns a boolean.

    >>> td.filter(lambda e: e > 1, np.array([3, 1, 2]))
    (Array([3, 2]), Array(2))
    """
    forbid_nesting("filter")
    array = as_array(a, "filter")
    where = user_location()
    index = indices(array.ndim)
    elements, structure = trace_elements(p, [array._scalar_at(index)], "filter", where)
    if not structure.is_leaf:
        raise DTypeError(
            "the predicate of filter must return one truth value.",
            hint="Combine several with & and |.",
        )
    mask = generated(array._shape, (as_truth(elements[0]),), "filter")
    return compact(mask, array, name=name, schedule=schedule)


@operation
def expand(count: Function1, get: Function2, a: ArrayLike) -> Array:
    """Concatenate `get(x, k)` for k < count(x) over all elements x of `a`.

    Parameters
        count: a function: how many results an element gives.
        get: a function (element, k) that gives its k-th result.

    >>> td.expand(lambda n: n, lambda n, k: 10 * n + k, np.array([2, 0, 1]))
    Array([20, 21, 10])
    """
    forbid_nesting("expand")
    where = user_location()
    array = flatten(as_array(a, "expand"))
    element = array._scalar_at((Index(0),))
    lengths, structure = trace_elements(count, [element], "expand", where, [array])
    if not structure.is_leaf:
        raise DTypeError(
            "the count function of expand must return one integer.",
            hint="expand(count, get, a): count(x) says how many, get(x, k) gives the k-th.",
        )
    as_index(Scalar(lengths[0]), "expand")
    length = apply_primitive("maximum", [length_of(as_strong(lengths[0])), constant(0)])
    counts = generated(array._shape, (length,), "counts")
    offsets = scan_array(add_lengths, (0,), counts, 0, "exclusive", False, "offsets")
    n = array._shape[0]
    last = Generate((), (offsets._element((n,))[0],), label=Label("count"), where=where)
    total: Expr = Read(last, 0, ())
    owner = segment_of_position(offsets._leaves[0], n, total, 0)
    segment = owner._element((Index(0),))[0]
    k = apply_primitive("subtract", [Index(0), offsets._element((segment,))[0]])
    elements, result = trace_elements(
        get, [array._scalar_at((segment,)), Scalar(k)], "expand", where
    )
    return generated((total,), elements, "expand", structure=result)


# --- operations of a library -----------------------------------------------------------------


def _plain(a: ArrayLike, operation: str) -> Array:
    array = as_array(a, operation)
    if not array.structure.is_leaf:
        raise DTypeError(
            f"{operation} works on scalars, but the elements are tuples.",
            hint="Sort keys and gather: order = td.argsort(keys).",
        )
    return array


def _sorted(a: ArrayLike, axis: int | None, operation: str, index: bool) -> Array:
    forbid_nesting(operation)
    array = as_array(a, operation)
    if axis is None:
        array, axis = flatten(array), 0
    k = normalise_axis(axis, array.ndim, operation)
    if not array.structure.is_leaf:
        order = order_by(unzip_flat(array)[::-1], k)
        return order if index else take_along_axis(array, order, k)
    return _by_library(operation, array, k, int64 if index else array.types[0])


def _by_library(operation: str, array: Array, axis: int, kind: ScalarType, *more: Array) -> Array:
    made = Library(
        sorting(operation, axis),
        (*array._leaves, *(leaf for a in more for leaf in a._leaves)),
        (Output(array._shape, kind),),
        label=Label(operation),
        where=user_location(),
    )
    return Array(made.leaves, LEAF, array._shape)


def placed(array: Array, at: Array, axis: int, operation: str = "partition") -> Array:
    """Numbers along an axis in an order in which those at the positions `at`, an array of rank 1,
    are where sorting puts them, with none before them that is larger and none after smaller; by
    `argpartition`, their indices in such an order."""
    kind = array.types[0] if operation == "partition" else int64
    return _by_library(operation, array, axis, kind, at)


def order_by(keys: Sequence[Array], axis: int) -> Array:
    """The indices that sort by the last key, equal elements by the one before it, and so on."""
    order: Array = argsort(keys[0], axis)
    for key in keys[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


@operation
def sort(
    a: ArrayLike, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Sort along an axis, as NumPy's sort; NaN last, or first if `descending`.

    Tuples are sorted by their first components, equal ones by the second, and so on.

    Parameters
        stable: no effect: equal tuples keep their order anyway; in NumPy's way, a 0.0 may become
            −0.0, its equal, or the other way round; default True.

    >>> td.sort(np.array([3, 1, 2]))
    Array([1, 2, 3])
    """
    found = _sorted(a, axis, "sort", False)
    return reverse(found, 0 if axis is None else axis) if descending else found


@operation
def sort_complex(a: ArrayLike) -> Array:
    """Complex numbers sorted along the last axis, by their real, then their imaginary parts.

    >>> td.sort_complex(np.array([3, 1, 2]))
    Array([1.+0.j, 2.+0.j, 3.+0.j])
    """
    array = _plain(a, "sort_complex")
    kind = array.types[0]
    if not kind.is_complex:
        array = array.astype(complex64 if kind.bytes <= 2 and kind.is_integer else complex128)
    return sort(array)


@operation
def argsort(
    a: ArrayLike, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """Indices (int64) that sort along an axis, those of equal elements ascending.

    Parameters
        stable: no effect: equal elements always keep their order; default True.

    Result: an array of integers of the shape of `a`.

    >>> td.argsort(np.array([3, 1, 2]))
    Array([1, 2, 0])
    """
    if not descending:
        return _sorted(a, axis, "argsort", True)
    array = as_array(a, "argsort")
    if axis is None:
        array, axis = flatten(array), 0
    # Ascending from the end, the last of equal elements comes first: reversed, the first does.
    found: Array = reverse(_sorted(reverse(array, axis), axis, "argsort", True), axis)
    return array.shape[axis] - 1 - found


#: The length of a table of flags, which a core's cache holds.
_FLAGS = 1 << 16


@operation
def isin(
    element: ArrayLike,
    test_elements: ArrayLike | Collection[float],
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """Whether a scalar, or each element of an array, is among `test_elements`: numbers or an array
    (inside a kernel, a host array, of which a compiled function searches one element after the
    other).  NaN is never found; `assume_unique` has no effect.

    Parameters
        test_elements: the numbers to look for.
        invert: whether to return the opposite; default False.

    Result: an array of the shape of `element`; a scalar if it is a number.

    >>> td.run(td.isin(np.array([1, 2, 3]), [3, 1]))
    array([ True, False,  True])
    """
    if isinstance(test_elements, set | frozenset | range | tuple):
        test_elements = list(test_elements)
    numbers = isinstance(test_elements, list | int | float | complex | np.generic)
    computed = isinstance(test_elements, Array)
    if not (numbers or computed or is_arraylike(test_elements)):
        raise no_array(test_elements, "isin")
    values: HostArray | None = None
    if numbers or not (computed or is_tracing_program()):
        values = np.unique(normalise_source(test_elements))
        table = use(values)
    elif computed or enclosing_kernel() is None:
        forbid_nesting("isin")
        table = sort(flatten(as_array(test_elements, "isin")))
    else:  # what it holds may change, and a kernel cannot sort
        table = use(np.ravel(normalise_source(test_elements)))
    ordered = values is not None or enclosing_kernel() is None
    n = table.shape[0]
    flags = None if values is None else _flags(values)

    def member(x: Scalar) -> Element:
        found: Element
        if flags is not None and x.dtype.is_integer:
            present, low, high = flags
            found = cond((x >= low) & (x <= high), present[cast(x, int64) - low], False)
        elif not ordered or table.types[0].is_complex or x.dtype.is_complex:
            place = while_loop(lambda k: (k < n) & (table[k] != x), lambda k: k + 1, 0)
            found = place < n
        else:  # the first index whose value is not less than x
            first, _ = while_loop(lambda s: s[0] < s[1], lambda s: _half(s, table, x), (0, n))
            found = cond(first < n, table[first] == x, False)
        return logical_not(found) if invert else found

    if enclosing_kernel() is not None:
        inside: Scalar = member(Scalar(as_strong(lift(element, "isin"))))
        return inside
    found = map_(member, as_array(element, "isin"))
    return the(found) if isinstance(element, Scalar) else found


def _flags(values: HostArray) -> tuple[Array, int, int] | None:
    """For each integer from the first of ascending ones to the last, whether it is among them; None
    for others, and for too long a table."""
    if values.dtype.kind not in "iu" or not values.size:
        return None
    low, high = int(values[0]), int(values[-1])
    if high - low >= _FLAGS or high > int64.highest:
        return None
    present = np.zeros(high - low + 1, bool)
    present[(values - values[0]).astype(np.int64)] = True
    return use(present), low, high


def _half(span: tuple[Any, Any], table: Array, x: ArrayLike) -> tuple[Any, Any]:
    """The half of a range of a sorted table that contains the first value not less than `x`."""
    low, high = span
    middle = (low + high) // 2
    less = table[middle] < x
    return where(less, middle + 1, low), where(less, high, middle)


def chosen(array: Array, mask: Array) -> Array:
    """`array[mask]`: the elements, or the slices along the first axes, where the mask holds."""
    if mask.ndim > array.ndim:
        raise AxisError(
            f"a boolean index of rank {mask.ndim} for an array of rank {array.ndim}.",
            hint="It has the shape of the array, or of its first axes.",
        )
    # (As in the Array API standard, a mask without elements selects nothing.)
    empty = [known(given) == 0 for given in mask._shape]
    shape = [mask._shape[k] if none else array._shape[k] for k, none in enumerate(empty)]
    mask = with_checks(mask, mask_checks(tuple(shape), mask, error="IndexOutOfBounds"), "mask")
    if any(empty):
        rows = reshape(array, (prod(array.shape[: mask.ndim]), *array.shape[mask.ndim :]))
        return take(rows, iota(0), 0)
    if mask.ndim == array.ndim:
        return compact(mask, array)[0]
    rows = reshape(array, (mask.size, *array.shape[mask.ndim :]))
    at, _ = compact(flatten(mask), iota(mask.size))
    return take(rows, at, 0)


later.offer(chosen=chosen)

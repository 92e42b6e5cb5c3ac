"""Element-wise operations: map, zip, unzip, indexed, imap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import late_binding as later
from ...annotations import ArrayLike, FunctionN
from ...array import Array, generated, map_over
from ...errors import DTypeError, ShapeError, user_location
from ...expr import Expr, Index
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Check, Generate, Label, indices
from ...scalar import Scalar
from ...shapes import same_shape
from ...types import LEAF, Structure, tuple_of
from ..common import operation, trace_elements

__all__ = ["imap", "indexed", "map", "unzip", "zip"]


def _same_shapes(arrays: Sequence[Array], operation: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = ()
    for other in arrays[1:]:
        checks += same_shape(arrays[0]._shape, other._shape, operation)
    return checks


@operation
def map(f: FunctionN, a: ArrayLike, *more: ArrayLike) -> Array:
    """Apply `f(x, y, …)` to elements of arrays of equal shape; tuple elements are passed as such.

    Parameters
        f: a function of an element of each array.
        *more: further arrays of the same shape.

    Result: an array of the same shape, whose elements are what `f` returns.

    >>> td.run(td.map(lambda x, y: x * y, np.array([1, 2]), np.array([3, 4])))
    array([3, 8])
    """
    return _map(f, (a, *more), "map", with_index=False)


@operation
def imap(f: FunctionN, a: ArrayLike, *more: ArrayLike) -> Array:
    """`map` with the index as the first arguments: `f(i, j, …, x, …)`.

    Parameters
        f: a function of the index and the element, f(i, j, …, x).
        *more: further arrays of the same shape.

    >>> td.imap(lambda i, a: 10 * i + a, np.array([3, 1, 2]))
    Array([ 3, 11, 22])
    """
    return _map(f, (a, *more), "imap", with_index=True)


def _map(f: FunctionN, operands: Sequence[Any], operation: str, with_index: bool) -> Array:
    forbid_nesting(operation)
    where = user_location()
    arrays = [as_array(o, operation) for o in operands]
    checks = _same_shapes(arrays, operation)
    shape = arrays[0]._shape
    index = indices(len(shape))
    arguments = [Scalar(i) for i in index] if with_index else []
    arguments += [array._scalar_at(index) for array in arrays]
    elements, structure = trace_elements(f, arguments, operation, where, arrays)
    return generated(shape, elements, operation, checks, structure)


@operation
def zip(*arrays: ArrayLike) -> Array:
    """Tuples of the elements of arrays of equal shape; no data is copied.

    Parameters
        *arrays: arrays of equal shape.

    Result: an array of tuples.

    >>> td.run(td.zip(np.array([1, 2]), np.array([True, False])))
    (array([1, 2]), array([ True, False]))
    """
    forbid_nesting("zip")
    if not arrays:
        raise ShapeError("zip needs at least one array.", hint="Write td.zip(a, b).")
    parts = [as_array(a, "zip") for a in arrays]
    checks = _same_shapes(parts, "zip")
    structure = tuple_of([p.structure for p in parts])
    return with_checks(
        Array([le for p in parts for le in p._leaves], structure, parts[0]._shape), checks, "zip"
    )


def with_checks(array: Array, checks: tuple[Check, ...], operation: str) -> Array:
    """The same array with run-time checks, attached by a Generate of plain reads."""
    if not checks:
        return array
    return map_over(array, indices(array.ndim), array._shape, operation, checks)


def zip_like(parts: Sequence[Array], structure: Structure) -> Array:
    """One array with elements of the given structure, from flat component arrays."""
    return Array([p._leaves[0] for p in parts], structure, parts[0]._shape)


def unzip_flat(array: Array) -> list[Array]:
    return [Array((leaf,), LEAF, array._shape) for leaf in array._leaves]


@operation
def unzip(a: ArrayLike) -> tuple[Array, ...]:
    """The component arrays of an array of tuples, as a tuple.

    Result: a tuple of arrays of the shape of `a`.

    >>> td.unzip(td.zip(np.array([3, 1, 2]), np.array([2, 0, 1])))[1]
    Array([2, 0, 1])
    """
    if isinstance(a, tuple | list) and a and all(isinstance(x, Array) for x in a):
        raise DTypeError(
            f"unzip takes one array of tuples apart, and these are {len(a)} arrays.",
            hint="They are apart already: x, y = a.",
        )
    array = as_array(a, "unzip")
    if array.structure.is_leaf:
        raise DTypeError(
            f"unzip needs tuple elements, got {array.structure.describe(array.types)}.",
            hint="The elements are scalars: omit td.unzip.",
        )
    parts, at = [], 0
    for child in array.structure.children:
        parts.append(Array(array._leaves[at : at + child.count], child, array._shape))
        at += child.count
    return tuple(parts)


@operation
def indexed(a: ArrayLike) -> Array:
    """Elements `(i, j, …, x)`: each element preceded by its index.

    Result: an array of tuples of the shape of `a`.

    >>> td.indexed(np.array([3, 1, 2]))
    Array((array([0, 1, 2]), array([3, 1, 2])))
    """
    forbid_nesting("indexed")
    array = as_array(a, "indexed")
    index = indices(array.ndim)
    elements: tuple[Expr, ...] = (*(Index(k) for k in range(array.ndim)), *array._element(index))
    node = Generate(array._shape, elements, label=Label("indexed"), where=user_location())
    inner = array.structure
    structure = tuple_of([*([LEAF] * array.ndim), inner])
    return Array(node.leaves, structure, array._shape)


later.offer(unzip_flat=unzip_flat, zip=zip, zip_like=zip_like)

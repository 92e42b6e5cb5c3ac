"""The functions that an order needs in addition to operators, for every kind of number.

An order is written once and evaluated on Python integers, on NumPy arrays (the oracle) and on
traced scalars of the language (lowering). Operators dispatch by themselves; selection, minimum
and bit counts dispatch here. Any value that is neither a Python nor a NumPy number is taken to be
a traced scalar.

If all operands are numbers, the result is computed immediately: with extents that are Python
integers, a select is never added to the traced program.
"""

from __future__ import annotations

import functools
import operator
import weakref
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import user_facing_maker
from treadle.dsl.frontend.sources import use
from treadle.dsl.operations.elements import functions

Index: TypeAlias = Any
"""An ``int``, a NumPy int64 array or a traced int64 scalar. They share operators, not a type."""

WORD = 64
"""Index scalars are int64 in meaning, so leading zeros are counted in 64 bits."""

_SCALARS = (bool, int, np.bool_, np.integer)
_CONCRETE = (*_SCALARS, np.ndarray)


def _scalar(*values: Index) -> bool:
    return all(isinstance(value, _SCALARS) for value in values)


def _traced(*values: Index) -> bool:
    return not all(isinstance(value, _CONCRETE) for value in values)


@user_facing_maker
def where(condition: Index, chosen: Index, otherwise: Index) -> Index:
    """``chosen`` where the condition holds, else ``otherwise``; both are evaluated.

    Parameters
        condition: booleans.
        chosen: the result where it holds.
        otherwise: the result elsewhere.

    Result: an integer, or integers.

    >>> where(3 < 4, 10, 20)
    10
    """
    if _scalar(condition):
        return chosen if condition else otherwise
    if _traced(condition, chosen, otherwise):
        return functions.where(condition, chosen, otherwise)
    return np.where(condition, chosen, otherwise)


@user_facing_maker
def minimum(a: Index, b: Index) -> Index:
    """The smaller of two indices.

    Parameters
        a: an integer, or integers.
        b: an integer, or integers.

    Result: an integer, or integers.

    >>> minimum(3, 5)
    3
    """
    if _scalar(a, b):
        return min(a, b)
    return functions.minimum(a, b) if _traced(a, b) else np.minimum(a, b)


@user_facing_maker
def maximum(a: Index, b: Index) -> Index:
    """The larger of two indices.

    Parameters
        a: an integer, or integers.
        b: an integer, or integers.

    Result: an integer, or integers.

    >>> maximum(3, 5)
    5
    """
    if _scalar(a, b):
        return max(a, b)
    return functions.maximum(a, b) if _traced(a, b) else np.maximum(a, b)


@user_facing_maker
def clz(x: Index) -> Index:
    """The number of leading zero bits of an int64: 64 for 0, 0 for anything negative.

    Parameters
        x: an integer.

    Result: an integer, or integers.

    >>> clz(1), clz(0)
    (63, 64)
    """
    if _traced(x):
        # The language counts bits in int32; the extents shifted by the count need 64 bits.
        return functions.cast(functions.clz(x), np.int64)
    if _scalar(x):
        return 0 if x < 0 else WORD - int(x).bit_length()
    return _clz_array(x)


def _clz_array(x: NDArray[Any]) -> NDArray[np.int64]:
    # Binary search on the highest set bit: exact, where a logarithm of floats is not.
    rest = x.astype(np.int64)
    length = np.zeros(rest.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >= (1 << step)
        length = np.where(high, length + step, length)
        rest = np.where(high, rest >> step, rest)
    length = length + (rest > 0)
    return np.where(x < 0, 0, WORD - length).astype(np.int64)


@user_facing_maker
def ceil_div(a: Index, b: Index) -> Index:
    """``a / b`` rounded up, for ``a >= 0`` and ``b >= 1``.

    Parameters
        a: an integer, or integers.
        b: an integer, or integers.

    Result: an integer, or integers.

    >>> ceil_div(65, 32)
    3
    """
    return (a + (b - 1)) // b


@user_facing_maker
def ceil_log2(n: Index) -> Index:
    """The least ``k`` with ``2**k >= n``; 0 for ``n <= 1``.

    Parameters
        n: an integer ≥ 1.

    Result: an integer, or integers.

    >>> [ceil_log2(n) for n in (0, 1, 2, 3, 4, 5)]
    [0, 0, 1, 2, 2, 3]
    """
    return WORD - clz(maximum(n, 1) - 1)


@user_facing_maker
def lookup(table: NDArray[np.int64], i: Index) -> Index:
    """Entry ``i`` of a rank-1 table: NumPy indexing, or a gather from a captured array.

    A read-only table is stored in 32 bits if its entries fit.

    Parameters
        table: a table of integers.
        i: an index, or indices.

    Result: an integer, or integers.

    >>> lookup(np.array([2, 0, 1]), 0)
    2
    """
    if not _traced(i):
        return int(table[i]) if _scalar(i) else table[i]
    stored = None if table.flags.writeable else _in_32_bits(table)
    if stored is None:
        return use(table)[i]
    # The mask changes no entry: it states an upper bound, so that divisions take 32 bits.
    mask = (1 << int(stored.max(initial=0)).bit_length()) - 1
    return functions.cast(use(stored)[i], np.int64) & mask


#: 32-bit copies of tables, by the ``id`` of the table.
_stored: dict[int, tuple[weakref.ref[Any], NDArray[np.int32] | None]] = {}


def _in_32_bits(table: NDArray[np.int64]) -> NDArray[np.int32] | None:
    """The one 32-bit copy of a table with entries in 0 … 2**31 - 1; None for other tables."""
    key = id(table)
    if key not in _stored:
        fits = table.size > 0 and table.min() >= 0 and table.max() < 1 << 31
        forget = weakref.ref(table, lambda _: _stored.pop(key, None))
        _stored[key] = forget, table.astype(np.int32) if fits else None
    return _stored[key][1]


def product(extents: tuple[Index, ...]) -> Index:
    """The number of elements of a shape; 1 for rank 0.

    >>> product((2, 3, 4))
    24
    """
    return functools.reduce(operator.mul, extents) if extents else 1

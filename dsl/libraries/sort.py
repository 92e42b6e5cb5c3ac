"""Sorting by NumPy: the `Library` operations `sort` and `argsort`.

NumPy's unstable sort of numbers uses vectors; its stable `argsort` does not, and takes ten times as
long.  So keys become integers of the same order, and are sorted together with their indices, as
one number each.  Keys that are too far apart for that are replaced by their ranks first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import bfloat16
from .base import LibraryOperation, builtin, register

Values = np.ndarray[Any, Any]

#: So few keys are quicker to sort than to prepare.
FEW = 256


def _ordered(x: Values) -> Values:
    """The array in a type that orders NaN correctly: float32 for bfloat16, which does not."""
    return x.astype(np.float32) if x.dtype == bfloat16.numpy else x


def sort(x: Values, axis: int) -> Values:
    """As NumPy's.  Equal values are indistinguishable, so stability is not needed."""
    return np.sort(_ordered(x), axis=axis).astype(x.dtype, copy=False)


def argsort(x: Values, axis: int) -> Values:
    """As NumPy's with `kind="stable"`."""
    x = _ordered(x)
    small = x.dtype.kind in "biu" and x.dtype.itemsize <= 2  # a radix sort
    if small or x.dtype.kind == "c" or x.shape[axis] < FEW or not x.size:
        return np.argsort(x, axis=axis, kind="stable")
    keys = _integers(np.moveaxis(x, axis, -1))
    n = keys.shape[-1]
    low, high = int(keys.min()), int(keys.max())
    bits = n.bit_length()
    if (high - low + 1) << bits < 2**63:
        places = (keys - keys.dtype.type(low)).astype(np.int64, copy=False) << bits
        places |= np.arange(n)
    else:
        order = np.argsort(keys, axis=-1)
        ordered = np.take_along_axis(keys, order, -1)
        differs = ordered[..., 1:] != ordered[..., :-1]
        if differs.all():
            return np.moveaxis(order, -1, axis)
        places = order
        places[..., 1:] += np.cumsum(differs, axis=-1) << bits
    places.sort(axis=-1)
    places &= (1 << bits) - 1
    return np.moveaxis(places, -1, axis)


def _integers(x: Values) -> Values:
    """Integers of the order of `x`: equal for equal keys, the largest for all NaN."""
    if x.dtype.kind != "f":
        return x.astype(np.uint64 if x.dtype.kind == "u" else np.int64, copy=False)
    x = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    bits = np.where(np.isnan(x), x.dtype.type(np.nan), x + x.dtype.type(0)).view(f"i{x.itemsize}")
    negative = bits >> (8 * x.itemsize - 1)
    made: Values = (bits ^ (negative & np.iinfo(bits.dtype).max)).astype(np.int64)
    return made


register("sort", lambda axis: lambda x: sort(x, axis))
register("argsort", lambda axis: lambda x: argsort(x, axis))


def sorting(name: str, axis: int) -> LibraryOperation:
    """The operation `sort` or `argsort` along an axis."""
    return builtin(name, (axis,))

"""Compare the results of two schedules: equal in all bits, or how they differ.

No schedule changes a bit.  Products of floats by another algorithm or execution round differently:
they may differ by `rounding`, which is far above their actual differences (docs/accuracy.md) and
far below the effect of one wrong element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

#: The permitted error of an element of a standard product, in unit roundoffs of the largest element
#: times the root of the inner extent; and the factor per level of a fast algorithm.
UNITS, LEVEL = 8.0, 4.0


def leaves(value: Any) -> Iterator[Any]:
    """The arrays of a result, from nested tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for v in value:
            yield from leaves(v)
    elif hasattr(value, "__dataclass_fields__"):
        yield from leaves([getattr(value, f) for f in value.__dataclass_fields__])
    else:
        yield value


def on_host(value: Any) -> list[Any]:
    """The arrays of a result, as NumPy arrays."""
    return [
        x.get() if hasattr(x, "__cuda_array_interface__") else np.asarray(x) for x in leaves(value)
    ]


def rounding(inner: int, levels: int = 0) -> float:
    """The permitted difference between products of floats, in unit roundoffs of the largest
    element, for sums of `inner` products and `levels` levels of a fast algorithm.

    >>> rounding(4096), rounding(4096, 1)
    (512.0, 2048.0)
    """
    return float(UNITS * LEVEL**levels * max(inner, 1) ** 0.5)


def difference(found: Sequence[Any], wanted: Sequence[Any], allowed: float = 0.0) -> str:
    """How two results differ, in words; "" if they do not.

    `allowed`: the permitted difference of arrays of floats, in unit roundoffs of the largest
    element (0: all bits must be equal).

    >>> difference([np.array([1.0, 2.5])], [np.array([1.0, 2.0])])
    '1 of 2 elements differ, by up to 0.25 of the largest'
    >>> difference([np.array([1.0, 2.0000001])], [np.array([1.0, 2.0])], 1e9)
    ''
    """
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for x, y in zip(found, wanted, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{x.dtype}{list(x.shape)} instead of {y.dtype}{list(y.shape)}"
        text = "" if np.array_equal(_bytes(x), _bytes(y)) else _array_difference(x, y, allowed)
        if text:
            return text
    return ""


def _unit_roundoff(dtype: Any) -> float:
    """The unit roundoff of a float type of NumPy or ml_dtypes."""
    found: Any = finfo
    return float(found(dtype).eps) / 2


def _bytes(x: Any) -> Any:
    """An array of shape (elements, bytes per element)."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, x.itemsize)


def _array_difference(x: Any, y: Any, allowed: float) -> str:
    """Of two arrays whose bits differ."""
    count = int(np.count_nonzero((_bytes(x) != _bytes(y)).any(1)))
    text = f"{count:,} of {x.size:,} elements differ"
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = x.astype(wide), y.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite):
            return f"{text}, some in being finite"
        largest = float(np.abs(b[finite]).max(initial=0.0))
        most = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    part = most / largest if largest else most
    others = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    explained = 0.0 if x.dtype.kind in "biu" else allowed * _unit_roundoff(x.dtype)
    if explained and part <= explained and others:
        return ""
    text += f", by up to {part:.2g} of the largest"
    return text + (f" (rounding explains {explained:.2g})" if explained else "")

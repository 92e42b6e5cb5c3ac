"""Bits packed into bytes, bytes unpacked, and bits of one type read as another."""

from __future__ import annotations

from typing import Any, Literal

from ... import simplify
from ...annotations import ArrayLike, DTypeLike, IntLike
from ...array import Array
from ...errors import DTypeError, TracingError
from ...expr import Apply, Expr
from ...frontend.sources import as_array
from ...primitives import FROM_BITS, TO_BITS
from ...scalar import Scalar, as_strong
from ...types import as_type, uint8
from ..common import normalise_axis, operation, whole_number
from ..control import cond
from ..indexing.index_space import flatten
from ..indexing.making import generate
from . import functions as fn
from .lifting import lifted

__all__ = ["bitcast", "packbits", "unpackbits"]

BitOrder = Literal["big", "little"]


def _line(a: ArrayLike, axis: int | None, bitorder: str, operation: str) -> tuple[Array, int]:
    if bitorder not in ("big", "little"):
        raise TracingError(
            f"{operation}: bitorder is 'big' or 'little', got {bitorder!r}.",
            hint='"big": the first bit is the highest.',
        )
    array = as_array(a, operation)
    if axis is None:
        return flatten(array), 0
    return array, normalise_axis(axis, array.ndim, operation)


@operation
def bitcast(x: ArrayLike, dtype: DTypeLike) -> Any:
    """The same bits read as another type of the same width, as NumPy's `view`.

    Parameters
        x: a scalar, or an array of any shape, of integers, floats or truth values.
        dtype: a type of integers or floats, of the same width.

    Result: an array of the shape of `x`; a scalar if it is a number.

    Errors: `DTypeError` for other types and other widths.

    >>> hex(td.bitcast(np.float32(1.0), td.uint32))
    '0x3f800000'
    >>> td.bitcast(np.array([-1, 127], "int8"), td.uint8)
    Array([255, 127], dtype=uint8)
    """
    target = as_type(dtype)

    def build(values: list[Expr]) -> Expr:
        e = as_strong(values[0])
        source = e.type
        if source == target:
            return e
        if source.bits != target.bits or source.is_complex or target.family in ("complex", "bool"):
            raise DTypeError(
                f"bitcast: {source} cannot be read as {target}.",
                hint="Types of equal widths keep the bits, as float32 and uint32; td.cast converts "
                "values, td.real and td.imag take complex numbers apart.",
            )
        bits = as_type(f"uint{source.bits}")
        e = Apply(TO_BITS, (e,), bits) if source.is_float else simplify.cast(e, bits)
        return Apply(FROM_BITS, (e,), target) if target.is_float else simplify.cast(e, target)

    return lifted(build, "bitcast", (x,))


@operation
def packbits(a: ArrayLike, axis: int | None = None, bitorder: BitOrder = "big") -> Array:
    """Eight truth values along an axis to a byte (uint8); zeros fill the last byte.

    None flattens the array first.  `DTypeError` for floats.

    Result: a uint8 array of the shape of `a`, but for one eighth of the extent, rounded up.

    >>> td.packbits(np.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
    Array([131, 128], dtype=uint8)
    """
    array, k = _line(a, axis, bitorder, "packbits")
    if array.types[0].is_inexact:
        raise DTypeError(
            f"packbits packs truth values or integers, got {array.types[0]}.",
            hint="Compare: td.packbits(a != 0).",
        )
    n = array.shape[k]
    zero = uint8(0)

    def byte(*at: Scalar) -> Scalar:
        total: Scalar = zero
        for bit in range(8):
            number = at[k] * 8 + bit
            here = array[(*at[:k], fn.minimum(number, n - 1), *at[k + 1 :])]
            up = 7 - bit if bitorder == "big" else bit
            there = cond(number < n, here != 0, False)
            total = total | fn.where(there, uint8(1 << up), zero)
        return total

    return generate((*array.shape[:k], (n + 7) // 8, *array.shape[k + 1 :]), byte)


@operation
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: IntLike | None = None, bitorder: BitOrder = "big"
) -> Array:
    """The eight bits (0 or 1, uint8) of each byte along an axis.

    None flattens the array first.  `count`: so many bits, zeros after the last byte; a negative
    one leaves out the last bits.  `DTypeError` unless `a` is uint8.

    Parameters
        a: an array of uint8.
        count: how many bits to keep; default all.

    Result: a uint8 array of the shape of `a`, but for eight times the extent, or `count`.

    >>> td.unpackbits(np.array([131], "uint8"))
    Array([1, 0, 0, 0, 0, 0, 1, 1], dtype=uint8)
    """
    array, k = _line(a, axis, bitorder, "unpackbits")
    if array.types[0] != uint8:
        raise DTypeError(
            f"unpackbits unpacks bytes, got {array.types[0]}.", hint="Convert: a.astype(td.uint8)."
        )
    n = array.shape[k]
    extent: IntLike = n * 8
    if count is not None and not isinstance(count, Scalar):
        count = whole_number(count, "unpackbits", "count")
        extent = count if count >= 0 else extent + count
    elif count is not None:
        extent = fn.where(count >= 0, count, extent + count)

    def bit(*at: Scalar) -> Scalar:
        number = at[k]
        here = array[(*at[:k], fn.minimum(number // 8, n - 1), *at[k + 1 :])]
        down = 7 - number % 8 if bitorder == "big" else number % 8
        byte = cond(number < n * 8, here, uint8(0))
        return (byte >> fn.cast(down, uint8)) & uint8(1)

    return generate((*array.shape[:k], extent, *array.shape[k + 1 :]), bit)

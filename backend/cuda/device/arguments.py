"""A kernel's arguments in memory, in the format of a launch: packed once, updated in place."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.dsl.types import ScalarType

_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "H", "bfloat16": "H",
    "float32": "f", "float64": "d", "complex64": "ff", "complex128": "dd",
}  # fmt: skip


class Arguments:
    """Slots for `pointers` addresses, then for scalars, each aligned for its type.

    `address` is the address of the array of slot addresses that cuLaunchKernel takes.
    """

    __slots__ = ("_array", "_end", "_pack_pointers", "_pack_scalars", "_plain", "_scalars",
                 "_space", "_types", "address")  # fmt: skip

    def __init__(self, pointers: int, types: Sequence[ScalarType]) -> None:
        self._types = tuple(types)
        self._plain = not any(t.is_complex or (t.is_float and t.bits == 16) for t in self._types)
        offsets = [8 * k for k in range(pointers)]
        start = at = 8 * pointers
        layout = "="
        for t in self._types:
            size = max(t.bytes, 8)
            offsets.append(at)
            layout += _CODES[t.name] + "x" * (size - t.bytes)
            at += size
        # Sixteen bytes are the strictest alignment of a scalar (complex128).
        self._space = ctypes.create_string_buffer(at + 16)
        base = ctypes.addressof(self._space)
        self._array = (ctypes.c_void_p * max(len(offsets), 1))(*(base + o for o in offsets))
        self.address = ctypes.addressof(self._array)
        self._pack_pointers = struct.Struct(f"={pointers}Q").pack_into
        self._pack_scalars = struct.Struct(layout).pack_into
        self._scalars, self._end = start, at

    def point(self, addresses: Sequence[int]) -> None:
        """Set the addresses."""
        self._pack_pointers(self._space, 0, *addresses)

    def scalars(self, values: Sequence[Any]) -> None:
        """Set the scalars: integers wrap, floats overflow to infinity."""
        if self._plain:
            try:
                self._pack_scalars(self._space, self._scalars, *values)
                return
            except (struct.error, OverflowError, TypeError):
                pass  # a value out of range of its type
        flat: list[Any] = []
        for value, t in zip(values, self._types, strict=True):
            if t.is_complex:
                number = complex(value)
                flat += [_fit(number.real, t), _fit(number.imag, t)]
            else:
                flat.append(_fit(value, t))
        self._pack_scalars(self._space, self._scalars, *flat)

    def bits(self) -> bytes:
        """The scalars as they are packed: equal only if kernels get the same."""
        return self._space.raw[self._scalars : self._end]


def _fit(value: Any, t: ScalarType) -> Any:
    if t.family == "bool":
        return bool(value)
    if t.is_integer:
        return t.wrapped(int(value))
    with np.errstate(over="ignore"):
        if t.bits == 16:
            return int(np.asarray(value).astype(t.numpy).view(np.uint16))
        if t.name in ("float32", "complex64"):
            return float(np.float32(value))
    return float(value)

"""Launches of the engines' kernels: matrices in device memory, fused code, loaded machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.dsl.process.recent import Recent

from ..compile.nvrtc import compile_text
from .form import FORMS, Code, sum_source

Size = tuple[int, int, int]
"""Rows of C, columns of C, inner extent."""
Layout = tuple[int, ...]
"""Extents and strides of a matrix."""


@dataclass(frozen=True)
class Fused:
    """Code fused into one launch: source with structs of `SLOTS`, the 64-bit words that they read
    (addresses of arrays, strides, scalars), and whether the second arrays of operands may be read
    by sixteen-byte loads."""

    source: str
    words: Sequence[int] = ()
    aligned: bool = True


class Matrix(NamedTuple):
    """A matrix in device memory: strides in elements of `itemsize` bytes."""

    address: int
    rows: int
    cols: int
    down: int
    across: int
    itemsize: int = 4

    def part(self, top: int, left: int, rows: int, cols: int) -> Matrix:
        """A block of the matrix, clipped at its end (so perhaps empty)."""
        rows, cols = (max(min(n, end - at), 0) for n, end, at in
                      ((rows, self.rows, top), (cols, self.cols, left)))  # fmt: skip
        address = self.address + self.itemsize * (top * self.down + left * self.across)
        return Matrix(address, rows, cols, self.down, self.across, self.itemsize)

    @property
    def transposed(self) -> Matrix:
        """The transposed matrix, in place."""
        return Matrix(self.address, self.cols, self.rows, self.across, self.down, self.itemsize)

    @property
    def whole(self) -> bool:
        """Whether lines (rows, or contiguous columns) consist of whole, aligned vectors."""
        line = self if self.across == 1 else self.transposed
        return line.aligned and line.cols * self.itemsize % 16 == 0

    @property
    def aligned(self) -> bool:
        """Whether rows are contiguous and start at multiples of sixteen bytes."""
        return self.address % 16 == 0 and self.down * self.itemsize % 16 == 0 and self.across == 1


#: Loaded kernels that are cached by their code.
KEPT = 256


class Launching:
    """Loads and launches the engines' kernels on one GPU."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._loaded = Recent[Code | tuple[str, str], Any](KEPT)

    def load(self, what: Code | tuple[str, str], name: str, threads: int, shared: int) -> Any:
        found = self._loaded.get(what)
        if found is None:
            source = sum_source(FORMS[what[1]]) if isinstance(what, tuple) else what.source()
            cubin = compile_text(source, name, self.device.arch, dynamic_shared_bytes=shared)
            found = self._loaded[what] = self.device.load(cubin, threads)
        return found

    def run(self, loaded: Any, arguments: Sequence[Any], blocks: tuple[int, int]) -> None:
        from ..device.driver import launchKernel, stream_here

        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(x) for x in arguments))
        launchKernel(loaded.handle, *blocks, 1, loaded.threads, 1, 1, loaded.shared, stream_here(),
                     ctypes.addressof(pointers), 0)  # fmt: skip

    def clear(self, address: int, size: int) -> None:
        from cupy.cuda import runtime

        from ..device.driver import stream_here

        runtime.memsetAsync(address, 0, size, stream_here())

    def copy_lines(self, to: int, to_pitch: int, source: int, pitch: int, width: int, count: int
                   ) -> None:  # fmt: skip
        """Copies `count` lines of `width` bytes, so many bytes from line to line."""
        from cupy.cuda import runtime

        from ..device.driver import stream_here

        device_to_device = 3
        runtime.memcpy2DAsync(to, to_pitch, source, pitch, width, count, device_to_device,
                              stream_here())  # fmt: skip


def address_of(array: Any) -> int:
    """The address of an array of CuPy, or of NumPy in the emulation."""
    data: Any = array.data
    found: int = data.ptr if hasattr(data, "ptr") else array.ctypes.data
    return found

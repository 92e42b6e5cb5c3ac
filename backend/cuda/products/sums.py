"""Sums of blocks on a GPU in one pass over memory, by engines/sums.cu with a table of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from treadle.dsl.process.recent import Recent

from ..compile.nvrtc import compile_text
from .form import text
from .launching import address_of

#: (coefficient, matrix) pairs of a sum.
Terms = Sequence[tuple[float, Any]]
_THREADS = 256
#: Loaded kernels that are cached by their tables.
_KEPT = 256
#: Blocks of a launch per multiprocessor; they iterate over rows.  (The rate on an H200: 3.92 TB/s
#: with 16, 4.05 with 64, 4.15 with 1 000.)
_BLOCKS = 1000
_COMPLEX = """
struct alignas(2 * sizeof({0})) Complex {{ {0} re, im; }};
__device__ Complex operator+(Complex a, Complex b) {{ return {{a.re + b.re, a.im + b.im}}; }}
__device__ Complex operator-(Complex a, Complex b) {{ return {{a.re - b.re, a.im - b.im}}; }}
__device__ Complex operator-(Complex a) {{ return {{-a.re, -a.im}}; }}
__device__ Complex operator*({0} a, Complex b) {{ return {{a * b.re, a * b.im}}; }}
"""

Table = tuple[tuple[tuple[float, int], ...], ...]
"""The terms of each sum: coefficients, and indices of matrices that are read."""


def source(dtype: Any, table: Table, read: int) -> str:
    """The kernel that forms sums of `read` matrices of a type."""
    if dtype.kind == "c":
        real = "float" if dtype.itemsize == 8 else "double"
        head, element, scalar = _COMPLEX.format(real), "Complex", real
        number = element
    elif dtype.kind == "f":
        element = number = scalar = {4: "float", 8: "double"}[dtype.itemsize]
        head = ""
    else:
        names = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
        element, head = names[dtype.itemsize], ""
        number = scalar = names[max(dtype.itemsize, 4)]
    sums = " ".join(f"y[{k}] = {_sum(terms, scalar)};" for k, terms in enumerate(table))
    macros = {"ELEMENT": element, "NUMBER": number, "READ": read, "WRITTEN": len(table),
              "SUMS": sums}  # fmt: skip
    return head + "".join(f"#define {k} {v}\n" for k, v in macros.items()) + text("sums.cu")


def _sum(terms: Sequence[tuple[float, int]], scalar: str) -> str:
    found = ""
    for c, k in terms:
        minus, size = c < 0, abs(c)
        value = f"x[{k}]" if size == 1 else f"({scalar}){size!r} * x[{k}]"
        found += (" - " if minus else " + ") + value if found else ("-" if minus else "") + value
    return found or "{}"


class Adder:
    """The kernels of one device, by table."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._loaded = Recent[tuple[Any, Table, int], tuple[Any, Any]](_KEPT)

    def __call__(self, made: Sequence[tuple[Any, Terms]], shared: Terms = ()) -> None:
        """`out[...] = Σ c·x + Σ shared` for every (out, terms), all two-dimensional, of one shape
        and type; all reads come before all writes."""
        first = made[0][0]
        if not first.size:
            return
        read: list[Any] = []
        numbers: dict[tuple[Any, ...], int] = {}

        def number(x: Any) -> int:
            key = address_of(x), x.strides
            if key not in numbers:
                numbers[key] = len(read)
                read.append(x)
            return numbers[key]

        table = []
        for _, terms in made:
            total: dict[int, float] = {}
            for c, x in (*terms, *shared):
                k = number(x)
                total[k] = total.get(k, 0) + c
            table.append(tuple((c, k) for k, c in total.items() if c))
        self._launch(first.dtype, read, [out for out, _ in made], tuple(table))

    def _launch(self, dtype: Any, read: Sequence[Any], written: Sequence[Any],
                table: Table) -> None:  # fmt: skip
        from ..device.driver import launchKernel, stream_here

        loaded, Arguments = self._kernel(dtype, table, len(read))
        rows, cols = written[0].shape
        size, layouts = dtype.itemsize, []
        for x in (*read, *written):
            down, across = x.strides
            layouts.append((address_of(x), down // size, across // size))
        if all(abs(down) < abs(across) or cols == 1 for _, down, across in layouts):
            rows, cols = cols, rows  # contiguous columns: the sums of the transposed matrices
            layouts = [(p, across, down) for p, down, across in layouts]
        many = max(1, 16 // size)
        vector = cols % many == 0 and all(
            across == 1 and p % 16 == 0 and down % many == 0 for p, down, across in layouts
        )
        g = Arguments()
        for k, (p, down, across) in enumerate(layouts):
            to = g.read[k] if k < len(read) else g.written[k - len(read)]
            to.p, to.down, to.across = p, down, across
        wide = cols // many if vector else cols
        threads_across = min(_THREADS, 1 << max(0, wide - 1).bit_length())
        g.rows, g.cols, g.wide, g.vector = rows, wide, threads_across.bit_length() - 1, vector
        across = -(-wide // threads_across)
        below = -(-rows * threads_across // _THREADS)
        most = max(1, _BLOCKS * self.device.multiprocessors // across)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(g))
        launchKernel(loaded.handle, across, min(below, most, 65535), 1, _THREADS, 1, 1, 0,
                     stream_here(), ctypes.addressof(pointers), 0)  # fmt: skip

    def _kernel(self, dtype: Any, table: Table, read: int) -> tuple[Any, Any]:
        key = dtype, table, read

        def make() -> tuple[Any, Any]:
            cubin = compile_text(source(dtype, table, read), "sums", self.device.arch)
            return self.device.load(cubin, _THREADS), _arguments(read, len(table))

        return self._loaded.made(key, make)


@lru_cache(maxsize=64)
def _arguments(read: int, written: int) -> Any:
    """The structure `Arguments` for these numbers of matrices."""

    class Matrix(ctypes.Structure):
        _fields_ = (("p", ctypes.c_void_p), ("down", ctypes.c_longlong),
                    ("across", ctypes.c_longlong))  # fmt: skip

    class Arguments(ctypes.Structure):
        _fields_ = (("read", Matrix * read), ("written", Matrix * written),
                    ("rows", ctypes.c_uint), ("cols", ctypes.c_uint), ("wide", ctypes.c_uint),
                    ("vector", ctypes.c_uint))  # fmt: skip

    return Arguments


@lru_cache(maxsize=16)
def adder_for(device: Any) -> Adder | None:
    """The adder of a device; None if no kernel can be loaded."""
    return Adder(device) if hasattr(device, "load") else None

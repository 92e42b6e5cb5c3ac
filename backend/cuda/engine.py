"""The tile engine of skeletons/cuda on a Hopper GPU: float32 and 32-bit integer products.

    standard   one product: "owner" (whole tiles) or "split" (tiles cut along k so that every
               multiprocessor has the same share, parts added in a fixed order)
    strassen   one level, the sums of quadrants formed while tiles are loaded: "owner", or "atomic"
               (all products at once, added to C in the L2 cache: faster, float sums then differ
               in their last bits from run to run), or "sequential" (a launch for every product)
    two levels the outer level's operand sums in memory (a quarter of each operand), the inner fused

Which is best where was measured: benchmarks/matmul/NOTES.md.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from treadle import skeletons
from treadle.dsl.types import ScalarType

#: Tiles of the engine, threads of its blocks, k-steps of a stage; see f32_engine.cuh.
ROWS, COLUMNS, STEP, THREADS, STAGES = 128, 256, 8, 384, 8
_STAGE_BYTES = -(-(STEP * 4 * (ROWS + 4 + COLUMNS + 4) + 16) // 128) * 128
SHARED_BYTES = STAGES * _STAGE_BYTES + 2048 + 128
#: Rows of tiles that are walked together.
GROUP = 16
#: Steps of every multiprocessor below which the library is faster, and the least inner extent.
LEAST_STEPS, LEAST_INNER = 64, 256
#: How full waves of whole tiles must be: to gain nothing by cutting them (several waves, a single
#: one); with an epilogue.
WHOLE_WAVES, WHOLE_WAVE, FUSED_WAVES = 0.985, 0.95, 0.7
_FOLDER = Path(str(skeletons.__file__)).parent / "cuda"
_WORDS = 16

# (terms of A, terms of B, targets in C): quadrants by rows, with their coefficients
Terms = tuple[tuple[int, int], ...]
Algorithm = tuple[tuple[Terms, Terms, Terms], ...]
STANDARD: Algorithm = ((((0, 1),), ((0, 1),), ((0, 1),)),)
STRASSEN: Algorithm = (
    (((0, 1), (3, 1)), ((0, 1), (3, 1)), ((0, 1), (3, 1))),
    (((2, 1), (3, 1)), ((0, 1),), ((2, 1), (3, -1))),
    (((0, 1),), ((1, 1), (3, -1)), ((1, 1), (3, 1))),
    (((3, 1),), ((2, 1), (0, -1)), ((0, 1), (2, 1))),
    (((0, 1), (1, 1)), ((3, 1),), ((1, 1), (0, -1))),
    (((2, 1), (0, -1)), ((0, 1), (1, 1)), ((3, 1),)),
    (((1, 1), (3, -1)), ((2, 1), (3, 1)), ((0, 1),)),
)

_I, _W, _L, _P = ctypes.c_int, ctypes.c_uint32, ctypes.c_longlong, ctypes.c_void_p


class _Term(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _W))


class _Target(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _W), ("first", _I), ("last", _I))


class _Product(ctypes.Structure):
    _fields_ = (("na", _I), ("nb", _I), ("nc", _I), ("pad", _I), ("a", _Term * 2), ("b", _Term * 2),
                ("c", _Target * 4))  # fmt: skip


class _Arguments(ctypes.Structure):
    """`tile::Arguments`."""

    _fields_ = (
        ("a", _P), ("b", _P), ("c", _P), ("flags", _P),
        ("a_row", _L), ("a_col", _L), ("b_row", _L), ("b_col", _L), ("c_row", _L),
        ("a_rows", _I), ("a_depth", _I), ("b_depth", _I), ("b_cols", _I), ("c_rows", _I),
        ("c_cols", _I), ("qm", _I), ("qn", _I), ("qk", _I), ("alpha", _W), ("beta", _W),
        ("tiles_m", _I), ("tiles_n", _I), ("group", _I), ("products", _I), ("items", _I),
        ("product", _Product * 7), ("extra", ctypes.c_uint64 * _WORDS),
    )  # fmt: skip


class _Quadrant(ctypes.Structure):
    _fields_ = (("p", _P), ("pitch", _L), ("rows", _I), ("cols", _I))


@dataclass(frozen=True)
class Code:
    """One compiled form of the engine.

    Layouts: which index of the tile walks memory in steps of one, "K", "R" (rows of A, columns of
    B) or "S" (neither); `vector`: sixteen-byte loads; `epilogue`: the body of a function of the
    value x and its place (i, j), and of `extra`, 64-bit words of a launch.
    """

    left: str
    right: str
    vector: bool
    mode: str
    terms: int
    arithmetic: str
    epilogue: str | None = None

    def source(self) -> str:
        """CUDA C++, all in one file."""
        layouts = {"K": "K_CONTIGUOUS", "R": "R_CONTIGUOUS", "S": "STRIDED"}
        defines = {
            "TILE_LAYOUT_A": layouts[self.left], "TILE_LAYOUT_B": layouts[self.right],
            "TILE_VECTOR": "true" if self.vector else "false", "TILE_MODE": self.mode.upper(),
            "TILE_TERMS": str(self.terms), "TILE_ARITHMETIC": f"tile::{self.arithmetic}",
        }  # fmt: skip
        if self.epilogue is not None:
            defines["TILE_EPILOGUE"] = "Fused"
        head = "".join(f"#define {k} {v}\n" for k, v in defines.items())
        text = _text("f32_matmul.cu")
        if self.epilogue is not None:
            marker = 'extern "C" __global__'
            text = text.replace(marker, f"{self.epilogue}\n{marker}", 1)
        return head + text


@lru_cache(maxsize=8)
def _text(name: str) -> str:
    """A file of skeletons/cuda with what it includes."""
    lines = []
    for line in (_FOLDER / name).read_text().splitlines():
        if line.startswith('#include "'):
            lines.append(_text(line.split('"')[1]))
        elif line.strip() != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


def word(value: float, arithmetic: str) -> int:
    """A coefficient as the 32 bits of the engine's arithmetic."""
    if arithmetic == "Float32":
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return int(value) & 0xFFFFFFFF


@lru_cache(maxsize=8)
def _table(name: str, arithmetic: str) -> bytes:
    """The products of a one-level algorithm; `first` and `last` touch of every quadrant of C."""
    algorithm = {"standard": STANDARD, "strassen": STRASSEN}[name]
    made = (_Product * 7)()
    targets = [q for _, _, cs in algorithm for q, _ in cs]
    seen: list[int] = []
    for p, (a, b, c) in zip(made, algorithm, strict=False):
        p.na, p.nb, p.nc = len(a), len(b), len(c)
        for to, terms in ((p.a, a), (p.b, b)):
            for d, (q, f) in zip(to, terms, strict=False):
                d.row, d.col, d.factor = q >> 1, q & 1, word(f, arithmetic)
        for d, (q, f) in zip(p.c, c, strict=False):
            d.row, d.col, d.factor = q >> 1, q & 1, word(f, arithmetic)
            d.first = q not in seen
            seen.append(q)
            d.last = seen.count(q) == targets.count(q)
    return bytes(made)


@lru_cache(maxsize=2)
def _outer_tables(arithmetic: str) -> tuple[bytes, ...]:
    """For each product of an outer level of Strassen, the inner table on the 4 × 4 grid of C."""
    touches = [
        (r, s, (co >> 1) * 2 + (ci >> 1), (co & 1) * 2 + (ci & 1), fo * fi)
        for r, (_, _, outer) in enumerate(STRASSEN) for s, (_, _, inner) in enumerate(STRASSEN)
        for co, fo in outer for ci, fi in inner
    ]  # fmt: skip
    order: dict[tuple[int, int], list[int]] = {}
    for n, touch in enumerate(touches):
        order.setdefault(touch[2:4], []).append(n)
    tables = []
    for r in range(len(STRASSEN)):
        table = (_Product * 7).from_buffer_copy(_table("strassen", arithmetic))
        for s in range(len(STRASSEN)):
            mine = [(n, *t[2:]) for n, t in enumerate(touches) if t[:2] == (r, s)]
            table[s].nc = len(mine)
            for d, (n, row, col, f) in zip(table[s].c, mine, strict=False):
                d.row, d.col, d.factor = row, col, word(f, arithmetic)
                d.first, d.last = order[row, col][0] == n, order[row, col][-1] == n
        tables.append(bytes(table))
    return tuple(tables)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def arithmetic_of(t: ScalarType) -> str | None:
    """The engine's name for the arithmetic of a type; None for types that it does not multiply."""
    return {"float32": "Float32", "int32": "Int32", "uint32": "Int32"}.get(t.name)


@dataclass(frozen=True)
class Fused:
    """An epilogue for one launch: its source (a struct `Fused`), and the 64-bit words that it
    reads: addresses of arrays, then numbers."""

    source: str
    words: Sequence[int] = ()


class Matrix(NamedTuple):
    """A matrix in the memory of the device: 32-bit elements, strides in elements."""

    address: int
    rows: int
    cols: int
    down: int
    across: int

    def part(self, top: int, left: int, rows: int, cols: int) -> Matrix:
        """A block of it, cut off where it ends (then perhaps empty)."""
        rows, cols = (max(min(n, end - at), 0) for n, end, at in
                      ((rows, self.rows, top), (cols, self.cols, left)))  # fmt: skip
        address = self.address + 4 * (top * self.down + left * self.across)
        return Matrix(address, rows, cols, self.down, self.across)


Size = tuple[int, int, int]


class Engine:
    """The engine on one GPU."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._loaded: dict[Code | tuple[str, str], Any] = {}

    # --- which way ---

    def standard_mode(self, m: int, n: int, k: int, fused: bool = False) -> str | None:
        """How one product is best dealt out; None where something else is better.

        ptxas finds no good registers for "split" with a fused epilogue.
        """
        tiles, steps = _ceil(m, ROWS) * _ceil(n, COLUMNS), _ceil(k, STEP)
        processors = self.device.multiprocessors
        if k < LEAST_INNER or tiles * steps < LEAST_STEPS * processors:
            return None
        filled = tiles / (_ceil(tiles, processors) * processors)
        if fused:
            return "owner" if filled >= FUSED_WAVES else None
        enough = WHOLE_WAVE if tiles <= processors else WHOLE_WAVES
        return "owner" if filled >= enough else "split"

    # --- products of whole matrices ---

    def standard(self, out: Matrix, a: Matrix, b: Matrix, mode: str, arithmetic: str,
                 fused: Fused | None = None) -> None:  # fmt: skip
        """`out = a @ b`; `out` is dense."""
        size = (a.rows, b.cols, a.cols)
        self._launch(out, a, b, mode, size, _table("standard", arithmetic), arithmetic, fused)

    def strassen(self, out: Matrix, a: Matrix, b: Matrix, mode: str, arithmetic: str,
                 levels: int) -> None:  # fmt: skip
        """`out = a @ b` by one or two levels; mode "owner", "atomic" or "sequential".

        `out` is dense; two levels want the columns of a and b side by side.
        """
        if mode == "atomic":
            self._clear(out.address, 4 * out.rows * out.cols)
        if levels == 2:
            self._two_levels(out, a, b, mode, arithmetic)
            return
        size = _quadrants(a, b, 2)
        self._fused(out, a, b, mode, arithmetic, size, _table("strassen", arithmetic))

    def _fused(self, out: Matrix, a: Matrix, b: Matrix, mode: str, arithmetic: str, size: Size,
               table: bytes) -> None:  # fmt: skip
        if mode != "sequential":
            self._launch(out, a, b, mode, size, table, arithmetic)
            return
        one = len(table) // 7
        for r in range(len(STRASSEN)):
            self._launch(out, a, b, "owner", size, table[r * one : (r + 1) * one], arithmetic)

    def _two_levels(self, out: Matrix, a: Matrix, b: Matrix, mode: str, arithmetic: str) -> None:
        qm, qn, qk = size = _quadrants(a, b, 4)
        s, t = (self.device.empty(shape, np.dtype(np.float32))
                for shape in ((2 * qm, 2 * qk), (2 * qk, 2 * qn)))  # fmt: skip
        for (left, right, _), table in zip(STRASSEN, _outer_tables(arithmetic), strict=True):
            x = self._sum(a, left, 2 * qm, 2 * qk, s, arithmetic)
            y = self._sum(b, right, 2 * qk, 2 * qn, t, arithmetic)
            self._fused(out, x, y, mode, arithmetic, size, table)

    def _sum(self, x: Matrix, terms: Terms, rows: int, cols: int, room: Any, arithmetic: str
             ) -> Matrix:  # fmt: skip
        """A view of one quadrant, or the sum of two in `room`."""
        parts = [x.part((q >> 1) * rows, (q & 1) * cols, rows, cols) for q, _ in terms]
        if len(parts) == 1:
            return parts[0]
        aligned = all(y.address % 16 == 0 and y.down % 4 == 0 for y in parts)
        quadrants = [_Quadrant(y.address, y.down, y.rows, y.cols) for y in parts]
        arguments = (_P(room.data.ptr), _L(cols), _I(rows), *quadrants,
                     ctypes.c_float(terms[1][1]), _I(aligned))  # fmt: skip
        loaded = self._load(("f32_sum.cu", arithmetic), "quadrant_sum", 256, 0)
        self._run(loaded, arguments, (_ceil(cols, 1024), min(rows, 2048)))
        return Matrix(room.data.ptr, rows, cols, cols, 1)

    # --- launching ---

    def _launch(self, out: Matrix, a: Matrix, b: Matrix, mode: str, size: Size, table: bytes,
                arithmetic: str, fused: Fused | None = None) -> None:  # fmt: skip
        """The products of `table` on the quadrants of a and b, of extents `size` (m, n, k)."""
        aligned = (a.address | b.address) % 16 == 0
        source = None if fused is None else fused.source
        code, template, blocks = _prepared(
            out[1:], a[1:], b[1:], aligned, mode, size, table, arithmetic, source,
            self.device.multiprocessors,
        )  # fmt: skip
        g = _Arguments.from_buffer_copy(template)
        g.a, g.b, g.c = a.address, b.address, out.address
        flags = None
        if mode == "split":
            flags = self.device.empty((self.device.multiprocessors + 1,), np.dtype(np.uint32))
            self._clear(flags.data.ptr, flags.nbytes)
            g.flags = flags.data.ptr
        if fused is not None:
            for k, w in enumerate(fused.words):
                g.extra[k] = w
        loaded = self._load(code, "matmul_f32", THREADS, SHARED_BYTES)
        self._run(loaded, (g,), (blocks, 1))

    def _load(self, what: Code | tuple[str, str], name: str, threads: int, shared: int) -> Any:
        found = self._loaded.get(what)
        if found is None:
            from .compile import compile_text

            source = _sum_source(*what) if isinstance(what, tuple) else what.source()
            cubin = compile_text(source, name, self.device.arch, dynamic_shared_bytes=shared)
            found = self._loaded[what] = self.device.load(cubin, threads)
        return found

    def _run(self, loaded: Any, arguments: Sequence[Any], blocks: tuple[int, int]) -> None:
        from .driver import launchKernel, stream_here

        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(x) for x in arguments))
        launchKernel(loaded.handle, *blocks, 1, loaded.threads, 1, 1, loaded.shared, stream_here(),
                     ctypes.addressof(places), 0)  # fmt: skip

    def _clear(self, address: int, size: int) -> None:
        from cupy.cuda import runtime

        from .driver import stream_here

        runtime.memsetAsync(address, 0, size, stream_here())


def _quadrants(a: Matrix, b: Matrix, split: int) -> Size:
    # Multiples of eight: quadrants start on sixteen bytes, only the last k-step has a fringe.
    m, n, k = (_ceil(_ceil(x, split), 8) * 8 for x in (a.rows, b.cols, a.cols))
    return m, n, k


def _sum_source(name: str, arithmetic: str) -> str:
    exact = (
        "#define SUM(f, y, x) __int_as_float(__float_as_int(x) + (int)(f) * __float_as_int(y))\n"
    )
    return (exact if arithmetic == "Int32" else "") + _text(name)


Layout = tuple[int, int, int, int]
"""Extents and strides of a matrix."""


@lru_cache(maxsize=256)
def _prepared(out: Layout, a: Layout, b: Layout, aligned: bool, mode: str, size: Size,
              table: bytes, arithmetic: str, epilogue: str | None, processors: int
              ) -> tuple[Code, bytes, int]:  # fmt: skip
    """Which code, its arguments but for addresses, and how many blocks."""
    (m, k, a_row, a_col), (_, n, b_row, b_col) = a, b
    left = "K" if a_col == 1 else "R" if a_row == 1 else "S"
    right = "R" if b_col == 1 else "K" if b_row == 1 else "S"
    pitches = (a_row if left == "K" else a_col, b_col if right == "K" else b_row)
    along = (k if left == "K" else m, k if right == "K" else n)
    vector = aligned and "S" not in (left, right) and all(p % 4 == 0 for p in (*pitches, *along))
    count = 1 if table == _table("standard", arithmetic) else len(table) // ctypes.sizeof(_Product)
    terms = 1 if table == _table("standard", arithmetic) else 2
    code = Code(left, right, vector, mode, terms, arithmetic, epilogue)
    g = _Arguments()
    g.a_row, g.a_col, g.b_row, g.b_col, g.c_row = a_row, a_col, b_row, b_col, out[2]
    g.a_rows, g.a_depth, g.b_depth, g.b_cols, g.c_rows, g.c_cols = *a[:2], *b[:2], *out[:2]
    g.qm, g.qn, g.qk = size
    g.alpha, g.beta = word(1, arithmetic), word(0, arithmetic)
    g.tiles_m, g.tiles_n, g.group = _ceil(g.qm, ROWS), _ceil(g.qn, COLUMNS), GROUP
    g.products = count
    g.items = g.tiles_m * g.tiles_n * (count if mode == "atomic" else 1)
    ctypes.memmove(g.product, table, len(table))
    # A block's share is no less than four steps.
    work = g.items * (4 if mode == "owner" else max(1, _ceil(g.qk, STEP)))
    return code, bytes(g), max(1, min(work // 4, processors))


@lru_cache(maxsize=16)
def engine_for(device: Any) -> Engine | None:
    """The engine of a device; None where it does not run."""
    return Engine(device) if device.arch == "sm_90a" and hasattr(device, "load") else None

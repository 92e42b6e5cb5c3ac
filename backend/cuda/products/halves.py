"""Products on tensor cores by engines/half_engine.cuh, of 16-bit floats, and in tf32 on GPUs
without wgmma: tiles by tensor maps, or by copies of sixteen bytes."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from .form import WORDS, Code, Form
from .launching import Fused, Launching, Matrix, address_of

_I, _L, _P = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
#: Bytes of a box along the contiguous index: those of the swizzle.
BOX = 128
#: The elements of tensor maps: bytes, and the name of their type; "tf32" are float32, rounded as
#: they are copied.
ELEMENTS = {"float16": (2, "FLOAT16"), "bfloat16": (2, "BFLOAT16"), "float32": (4, "FLOAT32"),
            "tf32": (4, "TFLOAT32")}  # fmt: skip


class Map(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


class Lines(ctypes.Structure):
    _fields_ = (("first", _P), ("pitch", _L), ("inner", _I), ("outer", _I))


#: What follows the operands in `tile::Arguments` of engines/half_engine.cuh.
_REST = (
    ("c", _P), ("c_row", _L), ("rows", _I), ("cols", _I), ("stages", _I), ("tiles_m", _I),
    ("tiles_n", _I), ("group", _I), ("items", _I), ("extra", ctypes.c_uint64 * WORDS),
    ("arrived", _P), ("pace", _I),
)  # fmt: skip


class Arguments(ctypes.Structure):
    """`tile::Arguments`, with tensor maps: as large as their alignment of 64 makes it."""

    _fields_ = (("a", Map), ("b", Map), *_REST)


class PortableArguments(ctypes.Structure):
    """`tile::Arguments`, with lines that the block copies."""

    _fields_ = (("a", Lines), ("b", Lines), *_REST)


def multiply(on: Launching, out: Matrix, a: Matrix, b: Matrix, form: Form, fused: Fused | None
             ) -> None:  # fmt: skip
    """`out = a @ b`; a and b are contiguous along rows or columns."""
    (left, x, kept_a), (right, y, kept_b) = (mappable(on, q) for q in (a, b.transposed))
    g = PortableArguments() if form.copies else Arguments()
    name = form.types[0]
    for to, layout, matrix, rows in ((g.a, left, x, form.rows), (g.b, right, y, form.columns)):
        inner, outer = (matrix.cols, matrix.rows) if layout == "K" else (matrix.rows, matrix.cols)
        pitch = matrix.down if layout == "K" else matrix.across
        if form.copies:
            to.first, to.pitch, to.inner, to.outer = matrix.address, pitch, inner, outer
            continue
        box = rows if layout == "K" else form.step
        to.opaque[:] = tensor_map(matrix.address, inner, outer, pitch, box, name)
    g.c, g.c_row, g.rows, g.cols = out.address, out.down, out.rows, out.cols
    g.stages = max(1, -(-a.cols // form.step))
    g.tiles_m, g.tiles_n = -(-out.rows // form.rows), -(-out.cols // form.columns)
    g.group, g.items = form.group, g.tiles_m * g.tiles_n
    for k, w in enumerate(() if fused is None else fused.words):
        g.extra[k] = w
    code = Code(left, right, False, "owner", 1, form.arithmetic,
                None if fused is None else fused.source)  # fmt: skip
    loaded = on.load(code, form.entry, form.threads, form.shared_bytes)
    on.run(loaded, (g,), (min(g.items, form.resident * on.device.multiprocessors), 1))
    del kept_a, kept_b


def mappable(on: Launching, x: Matrix) -> tuple[str, Matrix, Any]:
    """The index along which an operand is contiguous, and the operand as a tensor map can describe
    it: its lines begin at multiples of sixteen bytes, if need be in a copy."""
    layout = "K" if x.across == 1 else "R"
    count, width, pitch = (x.rows, x.cols, x.down) if layout == "K" else (x.cols, x.rows, x.across)
    vector = 16 // x.itemsize
    whole = -(-width // vector) * vector
    if count == 1:
        pitch = whole
    if x.address % 16 == 0 and pitch % vector == 0 and pitch >= width:
        return layout, _with_lines(x, layout, x.address, pitch), None
    memory = on.device.empty((count, whole), np.dtype(f"u{x.itemsize}"))
    address = address_of(memory)
    size = x.itemsize
    on.copy_lines(address, whole * size, x.address, pitch * size, width * size, count)
    return layout, _with_lines(x, layout, address, whole), memory


def _with_lines(x: Matrix, layout: str, address: int, pitch: int) -> Matrix:
    down, across = (pitch, 1) if layout == "K" else (1, pitch)
    return x._replace(address=address, down=down, across=across)


@lru_cache(maxsize=512)
def tensor_map(address: int, inner: int, outer: int, pitch: int, box: int, name: str
               ) -> tuple[int, ...]:  # fmt: skip
    """A tensor map of a matrix of `ELEMENTS`: `inner` elements a line, `outer` lines, `pitch`
    elements from line to line, boxes of `BOX` bytes of `box` lines, zeros outside."""
    from cuda.bindings import driver as cu

    from ..device.calls import checked

    size, kind = ELEMENTS[name]
    made = checked(
        cu.cuTensorMapEncodeTiled(
            getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"), 2, address,
            [cu.cuuint64_t(inner), cu.cuuint64_t(outer)], [cu.cuuint64_t(size * pitch)],
            [cu.cuuint32_t(BOX // size), cu.cuuint32_t(box)], [cu.cuuint32_t(1)] * 2,
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        "describing a matrix to the copy engine",
    )  # fmt: skip
    return tuple(int(w) for w in made.opaque)

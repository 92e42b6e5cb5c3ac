"""Products on tensor cores whose tiles are copied as they are in memory: by tensor maps, or by
copies of sixteen bytes.

Of 16-bit floats (engines/half_engine.cuh), and of float32 rounded to tf32, on the way by tensor
maps (engines/tf32_engine.cuh).
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from .form import WORDS, Code, Form
from .launching import Fused, Launching, Matrix, address_of

_I, _L, _P = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
#: Bytes of a box along the contiguous index: those of the swizzle.
BOX = 128
#: Rows and columns of a block of `transposed_words`, its threads, and bytes of shared memory.
SIDE, THREADS, SHARED = 32, 256, 32 * 33 * 4
#: The elements of tensor maps: bytes, and the name of their type; "tf32" are float32, rounded as
#: they are copied.
ELEMENTS = {"float16": (2, "FLOAT16"), "bfloat16": (2, "BFLOAT16"), "float32": (4, "FLOAT32"),
            "tf32": (4, "TFLOAT32")}  # fmt: skip


class Map(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


class Lines(ctypes.Structure):
    _fields_ = (("first", _P), ("pitch", _L), ("inner", _I), ("outer", _I))


#: What follows the operands in `tile::Arguments`.
_REST = (
    ("c", _P), ("c_row", _L), ("rows", _I), ("cols", _I), ("stages", _I), ("tiles_m", _I),
    ("tiles_n", _I), ("group", _I), ("items", _I), ("extra", ctypes.c_uint64 * WORDS),
    ("arrived", _P), ("pace", _I),
)  # fmt: skip


class Arguments(ctypes.Structure):
    """`tile::Arguments`, with tensor maps: as large as their alignment of 64 makes it."""

    _fields_ = (("a", Map), ("b", Map), *_REST)


class Tf32Arguments(ctypes.Structure):
    """`tile::Arguments` of engines/tf32_engine.cuh."""

    _fields_ = (("x", Map), ("y", Map), *_REST, ("depth", _I))


class PortableArguments(ctypes.Structure):
    """`tile::Arguments`, with lines that the block copies."""

    _fields_ = (("a", Lines), ("b", Lines), *_REST)


class Transposed(ctypes.Structure):
    """`tile::Arguments` of engines/transposed.cu."""

    _fields_ = (("x", _P), ("out", _P), ("x_row", _L), ("out_row", _L), ("rows", _I),
                ("cols", _I), ("across", _I))  # fmt: skip


def arranged(left: str, right: str, source: str, fewer: bool) -> tuple[bool, str]:
    """Whether the rows of a tile are columns of C, and the layout of the operand that they come
    from.  The other operand is contiguous along the inner index, or is copied to be.

    `left`, `right`: the index along which a and b are contiguous, "K" (inner) or "R"; `source`: the
    source of what is fused; `fewer`: a has no more rows than b has columns.

    >>> arranged("K", "K", "", True), arranged("K", "R", "", True), arranged("R", "K", "", True)
    ((False, 'K'), (True, 'R'), (False, 'R'))
    """
    if "struct ProducerA {" in source or "struct ProducerB {" in source:
        flipped = "struct ProducerB {" in source
    elif left == right == "R":  # the smaller one is transposed
        flipped = fewer
    else:
        flipped = right == "R"
    return flipped, right if flipped else left


def multiply(on: Launching, out: Matrix, a: Matrix, b: Matrix, form: Form, fused: Fused | None
             ) -> None:  # fmt: skip
    """`out = a @ b`; a and b are contiguous along rows or columns.

    In tf32 by tensor maps, rows of a tile may be columns of C.  If neither operand is contiguous
    along the inner index, or only the one into which a function is fused, one of them is transposed
    first.
    """
    source = "" if fused is None else fused.source
    flipped, kept, kinds, sides = False, None, [form.types[0]] * 2, [a, b.transposed]
    if form.precision:
        left, right = ("K" if x.across == 1 else "R" for x in sides)
        flipped, _ = arranged(left, right, source, a.rows <= b.cols)
        if flipped:
            sides.reverse()
        if sides[1].across != 1:
            sides[1], kept = _along_lines(on, sides[1], form)
        kinds = ["float32" if "struct Producer" in source else "tf32", "tf32"]
    (how, x, kept_x), (how_y, y, kept_y) = (mappable(on, side) for side in sides)
    g = PortableArguments() if form.copies else (Tf32Arguments() if form.precision else Arguments())
    first, second = (getattr(g, name) for name, _ in g._fields_[:2])
    for to, layout, matrix, rows, kind in (
        (first, how, x, form.rows, kinds[0]), (second, how_y, y, form.columns, kinds[1]),
    ):  # fmt: skip
        inner, outer = (matrix.cols, matrix.rows) if layout == "K" else (matrix.rows, matrix.cols)
        pitch = matrix.down if layout == "K" else matrix.across
        if form.copies:
            to.first, to.pitch, to.inner, to.outer = matrix.address, pitch, inner, outer
            continue
        box = rows if layout == "K" else form.step
        to.opaque[:] = tensor_map(matrix.address, inner, outer, pitch, box, kind)
    g.c, g.c_row, g.rows, g.cols = out.address, out.down, x.rows, y.rows
    g.stages = max(1, -(-x.cols // form.step))
    g.tiles_m, g.tiles_n = -(-x.rows // form.rows), -(-y.rows // form.columns)
    g.group, g.items = form.group, g.tiles_m * g.tiles_n
    if isinstance(g, Tf32Arguments):
        g.depth = x.cols
    for k, w in enumerate(() if fused is None else fused.words):
        g.extra[k] = w
    code = _code(form, flipped, how, how_y, source)
    loaded = on.load(code, form.entry, form.threads, form.shared_bytes)
    on.run(loaded, (g,), (min(g.items, form.resident * on.device.multiprocessors), 1))
    del kept, kept_x, kept_y


def _code(form: Form, flipped: bool, x: str, y: str, source: str) -> Code:
    """The code for layouts of what rows and columns of tiles come from."""
    layouts = (y, x) if flipped else (x, y)
    return Code(*layouts, False, "owner", 1, form.arithmetic, source or None, flipped=flipped)


def code_of(form: Form, left: str, right: str, source: str, fewer: bool) -> Code:
    """The code of a product in tf32 by tensor maps; see `arranged`."""
    flipped, layout = arranged(left, right, source, fewer)
    return _code(form, flipped, layout, "K", source)


def _along_lines(on: Launching, x: Matrix, form: Form) -> tuple[Matrix, Any]:
    """A copy of a matrix with contiguous columns whose rows are contiguous, and its memory."""
    pitch = -(-x.cols // form.aligned) * form.aligned
    memory = on.device.empty((x.rows, pitch), np.dtype(np.uint32))
    out = x._replace(address=address_of(memory), down=pitch, across=1)
    across = -(-x.cols // SIDE)
    g = Transposed(x.address, out.address, x.across, pitch, x.rows, x.cols, across)
    code = replace(Code("K", "K", False, "owner", 1, form.arithmetic), file="transposed.cu")
    loaded = on.load(code, "transposed_words", THREADS, SHARED)
    on.run(loaded, (g,), (across * -(-x.rows // SIDE), 1))
    return out, memory


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

    from ..device.optional import checked

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

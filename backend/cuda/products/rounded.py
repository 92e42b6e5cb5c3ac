"""Products of float32 in tf32 on tensor cores (engines/tf32_engine.cuh): tiles by tensor maps,
which round elements on the way."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from .form import WORDS, Code, Form
from .halves import Map, mappable, tensor_map
from .launching import Fused, Launching, Matrix, address_of

_I, _L, _P = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
#: Rows and columns of a block of `transposed_words`, its threads, and bytes of shared memory.
SIDE, THREADS, SHARED = 32, 256, 32 * 33 * 4


class Arguments(ctypes.Structure):
    """`tile::Arguments` of engines/tf32_engine.cuh."""

    _fields_ = (
        ("x", Map), ("y", Map), ("c", _P), ("c_row", _L), ("rows", _I), ("cols", _I),
        ("stages", _I), ("tiles_m", _I), ("tiles_n", _I), ("group", _I), ("items", _I),
        ("extra", ctypes.c_uint64 * WORDS), ("arrived", _P), ("pace", _I), ("depth", _I),
    )  # fmt: skip


class Transposed(ctypes.Structure):
    """`tile::Arguments` of engines/transposed.cu."""

    _fields_ = (("x", _P), ("out", _P), ("x_row", _L), ("out_row", _L), ("rows", _I),
                ("cols", _I), ("across", _I))  # fmt: skip


def arranged(left: str, right: str, source: str, fewer: bool = True) -> tuple[bool, str]:
    """Whether the rows of a tile are columns of C, and the layout of the operand that they come
    from.  The other operand is contiguous along the inner index, or is copied to be.

    `left`, `right`: the index along which a and b are contiguous, "K" (inner) or "R"; `source`: the
    source of what is fused; `fewer`: a has no more rows than b has columns.

    >>> arranged("K", "K", ""), arranged("K", "R", ""), arranged("R", "K", "")
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

    If neither is contiguous along the inner index, or only the one into which a function is fused,
    one of them is transposed first.
    """
    source, kept = "" if fused is None else fused.source, None
    plain = "struct Producer" not in source
    sides = [a, b.transposed]
    left, right = ("K" if x.across == 1 else "R" for x in sides)
    flipped, _ = arranged(left, right, source, a.rows <= b.cols)
    x, y = sides[::-1] if flipped else sides
    if y.across != 1:
        y, kept = _along_lines(on, y, form)
    (how, x, kept_x), (_, y, kept_y) = mappable(on, x), mappable(on, y)
    g = Arguments()
    for to, matrix, layout, rows, kind in (
        (g.x, x, how, form.rows, "tf32" if plain else "float32"),
        (g.y, y, "K", form.columns, "tf32"),
    ):  # fmt: skip
        inner, outer = (matrix.cols, matrix.rows) if layout == "K" else (matrix.rows, matrix.cols)
        pitch = matrix.down if layout == "K" else matrix.across
        box = rows if layout == "K" else form.step
        to.opaque[:] = tensor_map(matrix.address, inner, outer, pitch, box, kind)
    g.c, g.c_row, g.rows, g.cols, g.depth = out.address, out.down, x.rows, y.rows, x.cols
    g.stages = max(1, -(-x.cols // form.step))
    g.tiles_m, g.tiles_n = -(-x.rows // form.rows), -(-y.rows // form.columns)
    g.group, g.items = form.group, g.tiles_m * g.tiles_n
    for k, w in enumerate(() if fused is None else fused.words):
        g.extra[k] = w
    code = code_of(form, flipped, how, source)
    loaded = on.load(code, form.entry, form.threads, form.shared_bytes)
    on.run(loaded, (g,), (min(g.items, on.device.multiprocessors), 1))
    del kept, kept_x, kept_y


def code_of(form: Form, flipped: bool, layout: str, source: str) -> Code:
    """The code of an arrangement."""
    layouts = ("K", layout) if flipped else (layout, "K")
    return Code(*layouts, False, "owner", 1, form.arithmetic, source or None, flipped=flipped)


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

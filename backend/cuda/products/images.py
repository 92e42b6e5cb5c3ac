"""Products on tensor cores from tile images: float32-accurate ones, tf32, and exact ones of int32.

Three launches (skeletons/products/engines/tensor_*): the largest magnitudes of rows of A and
columns of B, if the form scales them; the images of both operands, with fused operand functions and
the sums of a fast algorithm; the products.  For floats, a fourth launch, the float32 engine's,
returns at once unless an operand has infinities, NaN, or a spread within a row that the planes
cannot hold.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from treadle.skeletons.products import BilinearAlgorithm, instances

from .form import PRODUCTS, TARGETS, TERMS, WORDS, Code, Form, marked, normalised, updated
from .launching import Fused, Launching, Layout, Matrix, Size, address_of

_I, _L, _P, _W = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_uint32
#: Bytes of a row of an image; rows of a block of `operand_maxima`, by layout; k of a part of it.
ROW, ROWS_OF_BLOCK, PART = 128, {"K": 8, "R": 32, "S": 32}, 512


class _Term(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _W))


class _Operand(ctypes.Structure):
    _fields_ = (
        ("x", _P), ("images", _P), ("maxima", _P), ("shifts", _P), ("small", _P), ("down", _L),
        ("along", _L), ("rows", _I), ("depth", _I), ("block_rows", _I), ("block_depth", _I),
        ("tiles", _I), ("stages", _I), ("blocks", _I), ("across", _I), ("count", _I * PRODUCTS),
        ("term", (_Term * TERMS) * PRODUCTS),
    )  # fmt: skip


class Operands(ctypes.Structure):
    """`tile::Operands` of engines/tensor_images.cuh."""

    _fields_ = (("a", _Operand), ("b", _Operand), ("flag", _P), ("products", _L),
                ("extra", ctypes.c_uint64 * WORDS))  # fmt: skip


class _Target(ctypes.Structure):
    _fields_ = (("row", _I), ("col", _I), ("factor", _W), ("first", _I), ("last", _I))


class _Product(ctypes.Structure):
    _fields_ = (("count", _I), ("target", _Target * TARGETS))


class Arguments(ctypes.Structure):
    """`tile::Arguments` of engines/tensor_engine.cuh."""

    _fields_ = (
        ("a", _P), ("b", _P), ("a_shift", _P), ("b_shift", _P), ("c", _P), ("guard", _P),
        ("arrived", _P), ("extra", ctypes.c_uint64 * WORDS), ("c_row", _L), ("c_rows", _I),
        ("c_cols", _I), ("qm", _I), ("qn", _I), ("stages", _I), ("alpha", _W), ("beta", _W),
        ("tiles_m", _I), ("tiles_n", _I), ("group", _I), ("pace", _I), ("products", _I),
        ("items", _I), ("product", _Product * PRODUCTS),
    )  # fmt: skip


@lru_cache(maxsize=16)
def table(algorithm: BilinearAlgorithm, form: Form) -> tuple[bytes, bytes, bytes]:
    """The products of an algorithm: terms of A, terms of B (`count` and `term` of an operand) and
    blocks of C."""
    word = form.word
    made = [normalised(i) for i in instances(algorithm)]
    left, right = _Operand(), _Operand()
    products = (_Product * PRODUCTS)()
    blocks = marked([updated(each, algorithm.n) for each in made])
    for r, each in enumerate(made):
        left.count[r], right.count[r] = len(each.a), len(each.b)
        for to, (p, c) in zip(left.term[r], each.a, strict=False):
            to.row, to.col, to.factor = p // algorithm.k, p % algorithm.k, word(c)
        for to, (p, c) in zip(right.term[r], each.b, strict=False):  # its rows are columns of B
            to.row, to.col, to.factor = p % algorithm.n, p // algorithm.n, word(c)
        products[r].count = len(each.c)
        for block, (i, j, c, first, last) in zip(products[r].target, blocks[r], strict=False):
            block.row, block.col, block.factor = i, j, word(c)
            block.first, block.last = first, last
    start = _Operand.count.offset
    return bytes(left)[start:], bytes(right)[start:], bytes(products)


class WorkspaceLayout:
    """The memory of a product beside its operands and result, as offsets in bytes, each for A and
    B: `images`; `maxima`, `shifts` and `small` of rows (engines/tensor_images.cuh); the `flag`."""

    def __init__(self, form: Form, size: Size, algorithm: BilinearAlgorithm) -> None:
        qm, qn, qk = size
        self.tiles = -(-qm // form.rows), -(-qn // form.columns)
        self.stages = max(1, -(-qk // form.step))
        rows = self.tiles[0] * form.rows, self.tiles[1] * form.columns
        count, self.blocks = (
            algorithm.products,
            [x * algorithm.k for x in (algorithm.m, algorithm.n)],
        )
        self.total = 0
        self.images = self._placed(count * self.stages * form.planes * ROW * r for r in rows)
        self.cleared = self.total
        self.maxima = self._placed(4 * n * r for n, r in zip(self.blocks, rows, strict=True))
        self.shifts, self.small = (self._placed(4 * count * r for r in rows) for _ in range(2))
        self.flag, self.arrived = self._placed((4, 4))

    def _placed(self, sizes: Iterable[int]) -> list[int]:
        found = []
        for size in sizes:
            found.append(self.total)
            self.total += size
        return found


class Prepared(NamedTuple):
    """The launches of a product, but for addresses and the words of fused code."""

    layout: WorkspaceLayout
    operands: bytes
    arguments: bytes
    codes: tuple[Code, Code, Code]
    parts: int
    blocks: tuple[int, int]
    workers: int


@lru_cache(maxsize=512)
def _prepared(c: Layout, a: Layout, b: Layout, size: Size, form: Form,
              algorithm: BilinearAlgorithm, source: str | None, processors: int
              ) -> Prepared:  # fmt: skip
    """`c`, `a`, `b`: rows, columns and strides; b is transposed."""
    layout = WorkspaceLayout(form, size, algorithm)
    layouts = ["K" if x[3] == 1 else "R" if x[2] == 1 else "S" for x in (a, b)]
    terms = max(len(t) for i in instances(algorithm) for t in (i.a, i.b))
    code = Code(layouts[0], layouts[1], False, "owner", min(terms, TERMS), form.arithmetic, source)
    g, tables = Operands(), table(algorithm, form)
    for x, (to, matrix) in enumerate(((g.a, a), (g.b, b))):
        ctypes.memmove(ctypes.byref(to, _Operand.count.offset), tables[x], len(tables[x]))
        to.rows, to.depth, to.down, to.along = matrix
        to.block_rows, to.block_depth = size[x], size[2]
        to.tiles, to.stages = layout.tiles[x], layout.stages
        to.blocks, to.across = layout.blocks[x], algorithm.k
    g.products = algorithm.products
    h = Arguments()
    h.c_rows, h.c_cols, h.c_row, _ = c
    h.qm, h.qn, h.stages = *size[:2], layout.stages
    h.alpha, h.tiles_m, h.tiles_n, h.group = form.word(1), *layout.tiles, form.group
    h.products, h.items = algorithm.products, prod(layout.tiles)
    h.pace = form.pace if h.items > processors else 0
    ctypes.memmove(h.product, tables[2], len(tables[2]))
    rows = form.rows, form.columns
    blocks = sum(tiles * r // ROWS_OF_BLOCK[how]
                 for tiles, r, how in zip(layout.tiles, rows, layouts, strict=True))  # fmt: skip
    parts = max(1, min(-(-size[2] // PART), -(-8 * processors // blocks)))
    codes = (replace(code, file="tensor_maxima.cu"), replace(code, file="tensor_images.cu"),
             replace(code, left="K", right="K", terms=1))  # fmt: skip
    return Prepared(layout, bytes(g), bytes(h), codes, parts, (blocks, sum(layout.tiles)),
                    min(h.items, processors))  # fmt: skip


def multiply(on: Launching, out: Matrix, a: Matrix, b: Matrix, size: Size, form: Form,
             algorithm: BilinearAlgorithm, fused: Fused | None) -> tuple[int, Any]:  # fmt: skip
    """`out = a @ b` by one product or one level of an algorithm, on blocks of `size` (m, n, k).

    Returns the address of the images' flag, and the memory that it is in: of floats, it is not zero
    if nothing was computed, because the operands need float32; of integers, how many planes are."""
    source, processors = None if fused is None else fused.source, on.device.multiprocessors
    layouts = out[1:5], a[1:5], b.transposed[1:5]
    made = _prepared(*layouts, size, form, algorithm, source, processors)
    layout = made.layout
    memory = on.device.empty((layout.total,), np.dtype(np.uint8))
    start = address_of(memory)
    on.clear(start + layout.cleared, layout.total - layout.cleared)
    g, h = Operands.from_buffer_copy(made.operands), Arguments.from_buffer_copy(made.arguments)
    for x, (to, matrix) in enumerate(((g.a, a), (g.b, b))):
        to.x = matrix.address
        to.images, to.maxima = start + layout.images[x], start + layout.maxima[x]
        to.shifts, to.small = start + layout.shifts[x], start + layout.small[x]
    flag = g.flag = h.guard = start + layout.flag
    h.arrived = start + layout.arrived
    h.a, h.b, h.a_shift, h.b_shift, h.c = (
        g.a.images,
        g.b.images,
        g.a.shifts,
        g.b.shifts,
        out.address,
    )
    if fused is not None:
        for k, w in enumerate(fused.words):
            g.extra[k] = h.extra[k] = w
    maxima, images, product = made.codes
    if form.scaled:
        loaded = on.load(maxima, "operand_maxima", 256, 0)
        on.run(loaded, (g,), (made.blocks[0], made.parts))
    loaded = on.load(images, "operand_images", 256,
                     form.planes * max(form.rows, form.columns) * ROW)  # fmt: skip
    on.run(loaded, (g,), (layout.stages * made.blocks[1], 1))
    loaded = on.load(product, form.entry, form.threads, form.shared_bytes)
    on.run(loaded, (h,), (made.workers, 1))
    return flag, memory


def workspace(form: Form, size: Size, algorithm: BilinearAlgorithm) -> int:
    """Bytes beside operands and result."""
    return WorkspaceLayout(form, size, algorithm).total

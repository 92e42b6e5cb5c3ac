"""The tile engines of skeletons/products/engines on a Hopper GPU: products of complete matrices.

    standard   one product: "owner" (whole tiles) or "split" (tiles cut along k so that every
               multiprocessor has the same share, parts added in a fixed order)
    one level  the sums of blocks are formed while tiles are loaded; products are combined in C by
        owner       a block computes all products of its tiles, in order: deterministic
        sequential  a launch for every product
        streams     the dependency stages, with two concurrent launches in each: deterministic
        persistent  (tile, product) from one queue, added to C in order: deterministic
        atomic      all products in one launch, distributed evenly, added to C in the L2 cache
        batched     a launch for every variant, whose instances are distributed evenly; all variants
                    run concurrently, each on its share of the multiprocessors
    two levels  the outer level's operand sums in memory (a quarter of each operand), the inner
               one fused by any of the above ("hybrid": the faster of atomic and owner)
    recursive  one or two levels of operand sums in memory, one of A and one of B at a time;
               standard products, added to their blocks of C as they are stored: deterministic

With levels, float32 operands whose lines do not begin at multiples of sixteen bytes are copied
first (`REUSED`).

Forms of tile images (`images.py`) have "owner" at one level or none, those of tensor maps
(`mapped.py`) standard products only.

Which is best for which extents was measured: benchmarks/matmul/NOTES.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from treadle.skeletons.products import STANDARD, BilinearAlgorithm, instances, stages, variants
from treadle.skeletons.products.measured import exact

from . import images, mapped
from .form import (
    FORMS,
    Arguments,
    Code,
    Form,
    Launches,
    Quadrant,
    Table,
    in_order,
    leaf_tables,
    normalised,
    outer_tables,
    tables,
)
from .launching import Fused, Launching, Layout, Matrix, Size, address_of

#: How full waves of whole tiles must be so that cutting tiles gains nothing: several waves, one
#: wave; with an epilogue.
WHOLE_WAVES, WHOLE_WAVE, FUSED_WAVES = 0.985, 0.95, 0.7

#: Elements that are loaded one by one cost a level of float32 a seventh of its time on large
#: matrices (one level at 8,192, vectors or not: 1.23 and 1.04 times cuBLAS's rate).  A copy with
#: aligned lines costs a fifth of that if each element is used so many times.
REUSED = 2048

_I, _L, _P = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p


class LaunchPlan(NamedTuple):
    """The launches of an algorithm: the indices of their products, the mode of the kernel, and
    groups of launches (indices) that run concurrently."""

    launches: Launches
    mode: str
    concurrent: tuple[tuple[int, ...], ...]

    @property
    def adds(self) -> bool:
        """Whether C is cleared first, and products are added to it in any order."""
        return self.mode == "atomic"


@lru_cache(maxsize=64)
def launch_plan(algorithm: BilinearAlgorithm, execution: str) -> LaunchPlan:
    """The launches of an execution.

    >>> from treadle.skeletons.products import STRASSEN
    >>> launch_plan(STRASSEN, "streams").launches
    ((1, 5), (4, 6), (2,), (3,), (0,))
    """
    whole = tuple(range(len(instances(algorithm))))
    if execution == "sequential":
        return LaunchPlan(tuple((r,) for r in whole), "owner", tuple((r,) for r in whole))
    if execution == "streams":
        groups = [[members for members in stage if members] for stage in stages(algorithm)]
        launches = tuple(members for group in groups for members in group)
        numbers = iter(range(len(launches)))
        return LaunchPlan(launches, "owner", tuple(tuple(next(numbers) for _ in g) for g in groups))
    if execution == "batched":
        launches = tuple(variants(algorithm).values())
        return LaunchPlan(launches, "atomic", (tuple(range(len(launches))),))
    return LaunchPlan((whole,), execution, ((0,),))


def _copies(m: int, n: int, form: Form) -> bool:
    """Whether operands of a product with levels are copied if vectors cannot load them."""
    return form.types[0] == "float32" and min(m, n) >= REUSED


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class Sum(NamedTuple):
    """out = x + factor y; out is dense, and x and y are padded with zeros."""

    out: Matrix
    x: Matrix
    y: Matrix
    factor: float


class Leaf(NamedTuple):
    """A product of the recursion: its operands, and the sums to be formed before it."""

    x: Matrix
    y: Matrix
    before: list[Sum]


class Engine(Launching):
    """The engines of one GPU, one for each arithmetic (`FORMS`)."""

    # --- standard products ---

    def standard_mode(self, m: int, n: int, k: int, fused: bool = False,
                      arithmetic: str = "Float32") -> str | None:  # fmt: skip
        """How tiles of one product are best distributed; None if an engine is not the best choice.

        With a fused epilogue ptxas allocates registers badly for "split".
        """
        form = FORMS[arithmetic]
        tiles, steps = _ceil(m, form.rows) * _ceil(n, form.columns), _ceil(k, form.step)
        processors = self.device.multiprocessors
        least = max(1, form.least_steps * processors)
        if k < form.least_inner or tiles * steps < least:
            return None
        if fused:
            return "owner" if self._filled(tiles) >= FUSED_WAVES else None
        return self._distribution(tiles, form)

    def fills(self, m: int, n: int, arithmetic: str) -> bool:
        """Whether a product has a tile for every multiprocessor."""
        form = FORMS[arithmetic]
        tiles = _ceil(m, form.rows) * _ceil(n, form.columns)
        return bool(tiles >= self.device.multiprocessors)

    def _filled(self, tiles: int) -> float:
        """The occupied fraction of waves of whole tiles."""
        processors = self.device.multiprocessors
        return tiles / float(_ceil(tiles, processors) * processors)

    def _distribution(self, tiles: int, form: Form) -> str:
        """The mode of a standard product."""
        if form.cut == "owner":
            return "owner"
        enough = WHOLE_WAVE if tiles <= self.device.multiprocessors else WHOLE_WAVES
        return "owner" if self._filled(tiles) >= enough else form.cut

    # --- products of complete matrices ---

    def standard(self, out: Matrix, a: Matrix, b: Matrix, mode: str, arithmetic: str,
                 fused: Fused | None = None, guard: int = 0) -> None:  # fmt: skip
        """`out = a @ b`; `out` may be a block of a matrix.  `guard`: the address of a word; nothing
        is computed if that is zero."""
        form = FORMS[arithmetic]
        if form.maps or form.copies:
            mapped.multiply(self, out, a, b, form, fused)
            return
        if form.planes:
            self._by_images(out, a, b, (a.rows, b.cols, a.cols), form, STANDARD, fused)
            return
        if mode == "atomic" and out.down != out.cols:
            mode = "owner"  # must not clear the memory between the rows of a block
        if mode == "atomic":
            self.clear(out.address, form.itemsize * out.rows * out.cols)
        table = tables(form, STANDARD, ((0,),))[0]
        self._launch(out, a, b, mode, (a.rows, b.cols, a.cols), table, form, fused, guard=guard)

    def product(self, out: Matrix, a: Matrix, b: Matrix, execution: str, arithmetic: str,
                algorithm: BilinearAlgorithm, levels: int, fused: Fused | None = None
                ) -> None:  # fmt: skip
        """`out = a @ b` by one or two levels of an algorithm that the form `fits`.

        `out` is dense; for sums in memory the rows of a and b should be contiguous, or (if no level
        is fused) their columns.
        """
        form = FORMS[arithmetic]
        if form.planes:
            self._by_images(out, a, b, _block(a, b, algorithm, levels), form, algorithm, fused)
            return
        a, b, copies = self._with_vectors(a, b, form, fused)
        if execution == "recursive":
            self._recursive(out, a, b, form, algorithm, levels)
            return
        way = launch_plan(algorithm, execution)
        if way.adds:
            self.clear(out.address, form.itemsize * out.rows * out.cols)
        if levels == 2:
            self._two_levels(out, a, b, way, form, algorithm, fused)
            return
        size = _block(a, b, algorithm, 1)
        self._fused(out, a, b, way, size, tables(form, algorithm, way.launches), form, fused)
        del copies  # which launches read

    def _with_vectors(self, a: Matrix, b: Matrix, form: Form, fused: Fused | None
                      ) -> tuple[Matrix, Matrix, list[Any]]:  # fmt: skip
        """Operands that vectors can load: copies of those that they cannot, padded with zeros, and
        their memory.  (What an engine computes of operands is not zero where they end.)"""
        computed = fused is not None and "struct Producer" in fused.source
        strided = any(1 not in (x.down, x.across) for x in (a, b))
        if not _copies(a.rows, b.cols, form) or computed or strided:
            return a, b, []
        memory: list[Any] = []
        made = [x if x.whole else self._padded(x, form, memory) for x in (a, b)]
        return made[0], made[1], memory

    def _padded(self, x: Matrix, form: Form, memory: list[Any]) -> Matrix:
        if x.across != 1:
            return self._padded(x.transposed, form, memory).transposed
        cols = _ceil(x.cols, form.aligned) * form.aligned
        memory.append(self.device.empty((x.rows, cols), np.dtype(f"f{form.itemsize}")))
        out = Matrix(address_of(memory[-1]), x.rows, cols, cols, 1, x.itemsize)
        self._add_up([Sum(out, x, x.part(0, 0, 0, 0), -0.0)], form)  # x + -0 is x, of zeros too
        return out

    def _by_images(self, out: Matrix, a: Matrix, b: Matrix, size: Size, form: Form,
                   algorithm: BilinearAlgorithm, fused: Fused | None) -> None:  # fmt: skip
        """A product on tensor cores, and in float32 if the flag of its operands, floats, is set."""
        flag, memory = images.multiply(self, out, a, b, size, form, algorithm, fused)
        if not exact(form.arithmetic):
            self.standard(out, a, b, "owner", "Float32", fused, guard=flag)
        del memory  # which holds the flag

    def workspace(self, m: int, n: int, k: int, arithmetic: str, algorithm: BilinearAlgorithm,
                  levels: int, execution: str) -> int:  # fmt: skip
        """Bytes in addition to operands and result, without the flags of a standard product; the
        operands are row-major."""
        form = FORMS[arithmetic]
        if form.planes:
            chosen = algorithm if levels else STANDARD
            size = _extents(m, n, k, chosen, levels) if levels else (m, n, k)
            return images.workspace(form, size, chosen)
        stored = range(1, levels + 1) if execution == "recursive" else range(1, levels)
        shapes = [x for level in stored for x in _sum_shapes(m, n, k, algorithm, levels, level)]
        if levels and _copies(m, n, form):
            shapes += [(rows, _ceil(cols, form.aligned) * form.aligned)
                       for rows, cols in ((m, k), (k, n)) if cols % form.aligned]  # fmt: skip
        found = sum(form.itemsize * r * c for r, c in shapes)
        if execution == "recursive":
            mode, tiles = self._leaf_mode(_extents(m, n, k, algorithm, levels), form)
            found += 4 * flags_of(mode, tiles, self.device.multiprocessors)
        return found

    def _fused(self, out: Matrix, a: Matrix, b: Matrix, way: LaunchPlan, size: Size,
               each: Sequence[Table], form: Form, fused: Fused | None) -> None:  # fmt: skip
        for group in way.concurrent:
            counts = [each[number].count for number in group]
            shares = _shares(self.device.multiprocessors, counts)
            self._concurrently([
                lambda number=number, share=share: self._launch(  # type: ignore[misc]
                    out, a, b, way.mode, size, each[number], form, fused, share)
                for number, share in zip(group, shares, strict=True)
            ])  # fmt: skip

    def _two_levels(self, out: Matrix, a: Matrix, b: Matrix, way: LaunchPlan, form: Form,
                    algorithm: BilinearAlgorithm, fused: Fused | None) -> None:  # fmt: skip
        qm, qn, qk = size = _block(a, b, algorithm, 2)
        rows, inner, cols = algorithm.m * qm, algorithm.k * qk, algorithm.n * qn
        number = np.dtype(f"f{form.itemsize}")
        buffers = [self.device.empty(shape, number)
                   for shape in _sum_shapes(a.rows, b.cols, a.cols, algorithm, 2, 1)]  # fmt: skip
        each = outer_tables(form, algorithm, algorithm, way.launches)
        for instance, launches in zip(map(normalised, instances(algorithm)), each, strict=True):
            x, sums_x = _operand(a, instance.a, algorithm.k, rows, inner, address_of(buffers[0]))
            y, sums_y = _operand(b, instance.b, algorithm.n, inner, cols, address_of(buffers[1]))
            self._add_up([*sums_x, *sums_y], form)
            self._fused(out, x, y, way, size, launches, form, fused)

    def _recursive(self, out: Matrix, a: Matrix, b: Matrix, form: Form,
                   algorithm: BilinearAlgorithm, levels: int) -> None:  # fmt: skip
        m, n, k = a.rows, b.cols, a.cols
        size, number = _extents(m, n, k, algorithm, levels), np.dtype(f"f{form.itemsize}")
        buffers = [
            [self.device.empty(shape, number)
             for shape in _sum_shapes(m, n, k, algorithm, levels, level)]
            for level in range(1, levels + 1)
        ]  # fmt: skip
        mode, tiles = self._leaf_mode(size, form)
        if mode == "atomic":
            self.clear(out.address, form.itemsize * out.rows * out.cols)
        flags = self._flags(mode, tiles) if mode == "split" else None
        leaves = _leaves(a, b, algorithm, size, buffers)
        for leaf, table in zip(leaves, leaf_tables(form, algorithm, levels), strict=True):
            self._add_up(leaf.before, form)
            self._launch(out, leaf.x, leaf.y, mode, size, table, form, flags=flags)

    def _leaf_mode(self, size: Size, form: Form) -> tuple[str, int]:
        """How tiles of the recursion's standard products are distributed, and their number."""
        tiles = _ceil(size[0], form.rows) * _ceil(size[1], form.columns)
        return self._distribution(tiles, form), tiles

    def _add_up(self, sums: Sequence[Sum], form: Form) -> None:
        """Forms sums by a separate kernel."""
        vector = 16 // form.itemsize
        for out, x, y, c in sums:
            if not out.rows * out.cols:
                continue
            parts = [Quadrant(q.address, q.down, q.rows, q.cols) for q in (x, y)]
            arguments = (_P(out.address), _L(out.cols), _I(out.rows), *parts, ctypes.c_float(c),
                         _I(x.aligned and y.aligned))  # fmt: skip
            loaded = self.load((str(form.sums), form.arithmetic), "quadrant_sum", 256, 0)
            self.run(loaded, arguments, (_ceil(out.cols, 256 * vector), min(out.rows, 2048)))

    # --- launching ---

    def _launch(self, out: Matrix, a: Matrix, b: Matrix, mode: str, size: Size, table: Table,
                form: Form, fused: Fused | None = None, processors: int | None = None,
                 flags: Any = None, guard: int = 0) -> None:  # fmt: skip
        """Launches the products of `table` on the blocks of a and b, of extents `size` (m, n, k).

        `flags`: of an earlier split launch, which left them zero.
        """
        aligned = (a.address | b.address) % 16 == 0 and (fused is None or fused.aligned)
        source = None if fused is None else fused.source
        code, template, blocks = _prepared(
            out[1:5], a[1:5], b[1:5], aligned, mode, size, table, form, source,
            processors or self.device.multiprocessors,
        )  # fmt: skip
        if guard:
            code = replace(code, guarded=True)
        g = Arguments.from_buffer_copy(template)
        g.flags = guard
        g.a, g.b, g.c = a.address, b.address, out.address
        if mode in ("split", "persistent"):
            flags = self._flags(mode, g.tiles_m * g.tiles_n) if flags is None else flags
            g.flags = address_of(flags)
        if fused is not None:
            for k, w in enumerate(fused.words):
                g.extra[k] = w
        loaded = self.load(code, form.entry, form.threads, form.shared_bytes)
        self.run(loaded, (g,), (blocks, 1))

    def _flags(self, mode: str, tiles: int) -> Any:
        """The flags of a launch, cleared."""
        count = flags_of(mode, tiles, self.device.multiprocessors)
        found = self.device.empty((count,), np.dtype(np.uint32))
        self.clear(address_of(found), found.nbytes)
        return found

    def _concurrently(self, jobs: Sequence[Callable[[], None]]) -> None:
        on_streams(jobs)


def on_streams(jobs: Sequence[Callable[[], None]]) -> None:
    """Runs each job on a separate stream, the first on the current one: all streams wait for it,
    and it waits for all of them.  A graph can record this as well."""
    if len(jobs) == 1:
        jobs[0]()
        return
    import cupy

    streams = _side_streams(cupy.cuda.Device().id)
    while len(streams) < len(jobs) - 1:
        streams.append(cupy.cuda.Stream(non_blocking=True))
    here = cupy.cuda.get_current_stream()
    start = cupy.cuda.Event(disable_timing=True)
    start.record(here)
    jobs[0]()
    for stream, job in zip(streams, jobs[1:], strict=False):
        stream.wait_event(start)
        with stream:
            job()
        end = cupy.cuda.Event(disable_timing=True)
        end.record(stream)
        here.wait_event(end)


@lru_cache(maxsize=16)
def _side_streams(device: int) -> list[Any]:
    """The side streams of a device, created when first needed."""
    return []


def _shares(processors: int, counts: Sequence[int]) -> list[int]:
    """The numbers of multiprocessors for concurrent launches, in proportion to their products."""
    total, given, found = sum(counts), 0, []
    so_far = 0
    for count in counts:
        so_far += count
        upto = max(processors * so_far // total, given + 1)
        found.append(upto - given)
        given = upto
    return found


def flags_of(mode: str, tiles: int, processors: int) -> int:
    """The number of words by which blocks of a launch order their additions to C."""
    return {"split": processors + 2, "persistent": 16 * tiles}.get(mode, 0)


def _extents(m: int, n: int, k: int, algorithm: BilinearAlgorithm, levels: int) -> Size:
    # Multiples of eight: blocks are sixteen-byte aligned, and only the last k-step has a fringe.
    parts = algorithm.m**levels, algorithm.n**levels, algorithm.k**levels
    qm, qn, qk = (_ceil(_ceil(x, p), 8) * 8 for x, p in zip((m, n, k), parts, strict=True))
    return qm, qn, qk


def _block(a: Matrix, b: Matrix, algorithm: BilinearAlgorithm, levels: int) -> Size:
    return _extents(a.rows, b.cols, a.cols, algorithm, levels)


def _sum_shapes(m: int, n: int, k: int, algorithm: BilinearAlgorithm, levels: int, level: int
                ) -> list[tuple[int, int]]:  # fmt: skip
    """The shapes of the sums of A and of B at one of `levels` levels."""
    qm, qn, qk = _extents(m, n, k, algorithm, levels)
    rows, inner, cols = (
        x * p ** (levels - level)
        for x, p in ((qm, algorithm.m), (qk, algorithm.k), (qn, algorithm.n))
    )
    return [(rows, inner), (inner, cols)]


def _operand(x: Matrix, terms: Any, across: int, rows: int, cols: int, address: int
             ) -> tuple[Matrix, list[Sum]]:  # fmt: skip
    """A block of (rows, cols), or the sum of two blocks, which is to be formed at `address`."""
    parts = [x.part(p // across * rows, p % across * cols, rows, cols) for p, _ in terms]
    if len(parts) == 1:
        return parts[0], []
    if x.across != 1:  # contiguous columns: the sum of the transposed blocks
        out = Matrix(address, cols, rows, rows, 1, x.itemsize)
        sides = [p.transposed for p in parts]
        return out.transposed, [Sum(out, sides[0], sides[1], terms[1][1])]
    out = Matrix(address, rows, cols, cols, 1, x.itemsize)
    return out, [Sum(out, parts[0], parts[1], terms[1][1])]


def _leaves(a: Matrix, b: Matrix, algorithm: BilinearAlgorithm, size: Size,
            buffers: Sequence[Sequence[Any]]) -> list[Leaf]:  # fmt: skip
    """The products of one or two levels, in order; `buffers`: by level, for sums of A and of B."""
    made, levels = in_order(algorithm), len(buffers)

    def operands(x: Matrix, y: Matrix, level: int, number: int) -> tuple[Matrix, Matrix, list[Sum]]:
        """The operands of product `number` of a level, and the sums that they need."""
        instance, (qm, qn, qk) = made[number], size
        rows, inner, cols = (
            extent * p ** (levels - level)
            for extent, p in ((qm, algorithm.m), (qk, algorithm.k), (qn, algorithm.n))
        )
        here = [address_of(buffer) for buffer in buffers[level - 1]]
        left, sums = _operand(x, instance.a, algorithm.k, rows, inner, here[0])
        right, more = _operand(y, instance.b, algorithm.n, inner, cols, here[1])
        return left, right, [*sums, *more]

    outer = [operands(a, b, 1, r) for r in range(len(made))] if levels == 2 else [(a, b, [])]
    found: list[Leaf] = []
    for x, y, sums in outer:
        for number in range(len(made)):
            left, right, own = operands(x, y, levels, number)
            found.append(Leaf(left, right, own if number else [*sums, *own]))
    return found


@lru_cache(maxsize=512)
def _prepared(out: Layout, a: Layout, b: Layout, aligned: bool, mode: str, size: Size,
              table: Table, form: Form, epilogue: str | None, processors: int
              ) -> tuple[Code, bytes, int]:  # fmt: skip
    """The code, its arguments except addresses, and the number of blocks."""
    (m, k, a_row, a_col), (depth, n, b_row, b_col) = a, b
    left = "K" if a_col == 1 else "R" if a_row == 1 else "S"
    right = "R" if b_col == 1 else "K" if b_row == 1 else "S"
    pitches = (a_row if left == "K" else a_col, b_col if right == "K" else b_row)
    along = (k if left == "K" else m, depth if right == "K" else n)
    whole = all(p % form.aligned == 0 for p in (*pitches, *along))
    vector = aligned and "S" not in (left, right) and whole
    terms = next(t for t in (1, 2, 4) if table.terms <= t)
    code = Code(left, right, vector, mode, terms, form.arithmetic, epilogue)
    g = Arguments()
    g.a_row, g.a_col, g.b_row, g.b_col, g.c_row = a_row, a_col, b_row, b_col, out[2]
    g.a_rows, g.a_depth, g.b_depth, g.b_cols, g.c_rows, g.c_cols = *a[:2], *b[:2], *out[:2]
    g.qm, g.qn, g.qk = size
    g.alpha, g.beta = form.word(1), form.word(0)
    g.tiles_m, g.tiles_n = _ceil(g.qm, form.rows), _ceil(g.qn, form.columns)
    g.group, g.products = form.group, table.count
    g.items = g.tiles_m * g.tiles_n * (table.count if mode in ("atomic", "persistent") else 1)
    ctypes.memmove(g.product, table.data, len(table.data))
    # A block's share is at least four steps.
    whole = mode in ("owner", "persistent")
    work = g.items * (4 if whole else max(1, _ceil(g.qk, form.step)))
    workers = max(1, min(work // 4, processors))
    return code, bytes(g), workers


@lru_cache(maxsize=16)
def engine_for(device: Any) -> Engine | None:
    """The engines of a device; None if none that was measured is for it."""
    there = any(f.measured and f.runs_on(device.arch) for f in FORMS.values())
    return Engine(device) if there and hasattr(device, "load") else None

"""The tile engines of skeletons/cuda on a Hopper GPU: products of whole matrices.

    standard   one product: "owner" (whole tiles) or "split" (tiles cut along k so that every
               multiprocessor has the same share, parts added in a fixed order)
    one level  the sums of blocks formed while tiles are loaded; the products meet in C by
        owner       a block computes all products of its tiles, in order: deterministic
        sequential  a launch for every product
        streams     the dependency stages, two launches beside each other in each: deterministic
        atomic      all products in one launch, dealt out evenly, added to C in the L2 cache
        batched     a launch for every variant, its instances dealt out evenly, all variants
                    beside each other, each on its share of the multiprocessors
    two levels  the outer level's operand sums in memory (a quarter of each operand), the inner
               one fused by any of the above ("hybrid": the faster of atomic and owner)

Which is best where was measured: benchmarks/matmul/NOTES.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from treadle.skeletons.algorithms import BilinearAlgorithm, instances, stages, variants

from .engine_form import (
    FORMS,
    Code,
    Form,
    Launches,
    Quadrant,
    Table,
    normalised,
    one_table,
    outer_tables,
    structures,
    sum_source,
    tables,
)

#: How full waves of whole tiles must be: to gain nothing by cutting them (several waves, a single
#: one); with an epilogue.
WHOLE_WAVES, WHOLE_WAVE, FUSED_WAVES = 0.985, 0.95, 0.7

_I, _L, _P = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p


class Way(NamedTuple):
    """Launches of an algorithm's products: by number, the mode of the kernel, and which of them run
    beside each other (numbers of launches, group by group)."""

    launches: Launches
    mode: str
    beside: tuple[tuple[int, ...], ...]

    @property
    def adds(self) -> bool:
        """Whether C is cleared first, and added to in any order."""
        return self.mode == "atomic"


@lru_cache(maxsize=64)
def way_of(algorithm: BilinearAlgorithm, execution: str) -> Way:
    """An execution as launches.

    >>> from treadle.skeletons.algorithms import STRASSEN
    >>> way_of(STRASSEN, "streams").launches
    ((1, 5), (4, 6), (2,), (3,), (0,))
    """
    whole = tuple(range(len(instances(algorithm))))
    if execution == "sequential":
        return Way(tuple((r,) for r in whole), "owner", tuple((r,) for r in whole))
    if execution == "streams":
        groups = [[members for members in stage if members] for stage in stages(algorithm)]
        launches = tuple(members for group in groups for members in group)
        numbers = iter(range(len(launches)))
        return Way(launches, "owner", tuple(tuple(next(numbers) for _ in g) for g in groups))
    if execution == "batched":
        launches = tuple(variants(algorithm).values())
        return Way(launches, "atomic", (tuple(range(len(launches))),))
    return Way((whole,), execution, ((0,),))


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Fused:
    """An epilogue for one launch: its source (a struct `Fused`), and the 64-bit words that it
    reads: addresses of arrays, then numbers."""

    source: str
    words: Sequence[int] = ()


class Matrix(NamedTuple):
    """A matrix in the memory of the device: strides in elements, `itemsize` bytes each."""

    address: int
    rows: int
    cols: int
    down: int
    across: int
    itemsize: int = 4

    def part(self, top: int, left: int, rows: int, cols: int) -> Matrix:
        """A block of it, cut off where it ends (then perhaps empty)."""
        rows, cols = (max(min(n, end - at), 0) for n, end, at in
                      ((rows, self.rows, top), (cols, self.cols, left)))  # fmt: skip
        address = self.address + self.itemsize * (top * self.down + left * self.across)
        return Matrix(address, rows, cols, self.down, self.across, self.itemsize)


Size = tuple[int, int, int]
"""Rows of C, columns of C, inner extent."""


class Engine:
    """The engines of one GPU, of which every arithmetic has one (`FORMS`)."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._loaded: dict[Code | tuple[str, str], Any] = {}

    # --- which way ---

    def standard_mode(self, m: int, n: int, k: int, fused: bool = False,
                      arithmetic: str = "Float32") -> str | None:  # fmt: skip
        """How one product is best dealt out; None where something else is better.

        ptxas finds no good registers for "split" with a fused epilogue.
        """
        form = FORMS[arithmetic]
        tiles, steps = _ceil(m, form.rows) * _ceil(n, form.columns), _ceil(k, form.step)
        processors = self.device.multiprocessors
        if k < form.least_inner or tiles * steps < form.least_steps * processors:
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
        form = FORMS[arithmetic]
        self._launch(out, a, b, mode, (a.rows, b.cols, a.cols), one_table(form), form, fused)

    def product(self, out: Matrix, a: Matrix, b: Matrix, execution: str, arithmetic: str,
                algorithm: BilinearAlgorithm, levels: int) -> None:  # fmt: skip
        """`out = a @ b` by one or two levels of an algorithm that the form `fits`.

        `out` is dense; two levels want the columns of a and b side by side.
        """
        form = FORMS[arithmetic]
        way = way_of(algorithm, execution)
        if way.adds:
            self._clear(out.address, form.itemsize * out.rows * out.cols)
        if levels == 2:
            self._two_levels(out, a, b, way, form, algorithm)
            return
        size = _block(a, b, algorithm, 1)
        self._fused(out, a, b, way, size, tables(form, algorithm, way.launches), form)

    def workspace(self, m: int, n: int, k: int, arithmetic: str, algorithm: BilinearAlgorithm,
                  levels: int) -> int:  # fmt: skip
        """Bytes beside operands and result."""
        if levels < 2:
            return 0
        form = FORMS[arithmetic]
        return sum(form.itemsize * r * c for r, c in _rooms(m, n, k, algorithm))

    def _fused(self, out: Matrix, a: Matrix, b: Matrix, way: Way, size: Size,
               each: Sequence[Table], form: Form) -> None:  # fmt: skip
        for group in way.beside:
            counts = [each[number].count for number in group]
            shares = _shares(self.device.multiprocessors, counts)
            self._beside([
                lambda number=number, share=share: self._launch(  # type: ignore[misc]
                    out, a, b, way.mode, size, each[number], form, processors=share)
                for number, share in zip(group, shares, strict=True)
            ])  # fmt: skip

    def _two_levels(self, out: Matrix, a: Matrix, b: Matrix, way: Way, form: Form,
                    algorithm: BilinearAlgorithm) -> None:  # fmt: skip
        qm, qn, qk = size = _block(a, b, algorithm, 2)
        rows, inner, cols = algorithm.m * qm, algorithm.k * qk, algorithm.n * qn
        number = np.dtype(f"f{form.itemsize}")
        rooms = [self.device.empty(shape, number)
                 for shape in _rooms(a.rows, b.cols, a.cols, algorithm)]  # fmt: skip
        each = outer_tables(form, algorithm, algorithm, way.launches)
        for instance, launches in zip(map(normalised, instances(algorithm)), each, strict=True):
            x = self._sum(a, instance.a, algorithm.k, rows, inner, rooms[0], form)
            y = self._sum(b, instance.b, algorithm.n, inner, cols, rooms[1], form)
            self._fused(out, x, y, way, size, launches, form)

    def _sum(self, x: Matrix, terms: Any, across: int, rows: int, cols: int, room: Any, form: Form
             ) -> Matrix:  # fmt: skip
        """A view of one block, or the sum of two in `room`."""
        parts = [x.part(p // across * rows, p % across * cols, rows, cols) for p, _ in terms]
        if len(parts) == 1:
            return parts[0]
        vector = 16 // form.itemsize
        aligned = all(y.address % 16 == 0 and y.down % vector == 0 for y in parts)
        quadrants = [Quadrant(y.address, y.down, y.rows, y.cols) for y in parts]
        factor = ctypes.c_float if form.itemsize == 4 else ctypes.c_double
        arguments = (_P(address_of(room)), _L(cols), _I(rows), *quadrants, factor(terms[1][1]),
                     _I(aligned))  # fmt: skip
        loaded = self._load((str(form.sums), form.arithmetic), "quadrant_sum", 256, 0)
        self._run(loaded, arguments, (_ceil(cols, 256 * vector), min(rows, 2048)))
        return Matrix(address_of(room), rows, cols, cols, 1, form.itemsize)

    # --- launching ---

    def _launch(self, out: Matrix, a: Matrix, b: Matrix, mode: str, size: Size, table: Table,
                form: Form, fused: Fused | None = None, processors: int | None = None
                ) -> None:  # fmt: skip
        """The products of `table` on the blocks of a and b, of extents `size` (m, n, k)."""
        aligned = (a.address | b.address) % 16 == 0
        source = None if fused is None else fused.source
        code, template, blocks = _prepared(
            out[1:5], a[1:5], b[1:5], aligned, mode, size, table, form, source,
            processors or self.device.multiprocessors,
        )  # fmt: skip
        g = structures(form).Arguments.from_buffer_copy(template)
        g.a, g.b, g.c = a.address, b.address, out.address
        if mode == "split":
            flags = self.device.empty((self.device.multiprocessors + 2,), np.dtype(np.uint32))
            self._clear(address_of(flags), flags.nbytes)
            g.flags = address_of(flags)
        if fused is not None:
            for k, w in enumerate(fused.words):
                g.extra[k] = w
        loaded = self._load(code, form.entry, form.threads, form.shared_bytes)
        self._run(loaded, (g,), (blocks, 1))

    def _load(self, what: Code | tuple[str, str], name: str, threads: int, shared: int) -> Any:
        found = self._loaded.get(what)
        if found is None:
            from .compile import compile_text

            source = sum_source(FORMS[what[1]]) if isinstance(what, tuple) else what.source()
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

    def _beside(self, jobs: Sequence[Callable[[], None]]) -> None:
        beside(jobs)


def beside(jobs: Sequence[Callable[[], None]]) -> None:
    """Each job on a stream of its own, the first on the current one, which all wait for and which
    waits for all: that is recorded into a graph as well."""
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
    """Streams of a device, made when first needed and kept."""
    return []


def _shares(processors: int, counts: Sequence[int]) -> list[int]:
    """Multiprocessors for launches beside each other, by their products."""
    total, given, found = sum(counts), 0, []
    so_far = 0
    for count in counts:
        so_far += count
        upto = max(processors * so_far // total, given + 1)
        found.append(upto - given)
        given = upto
    return found


def address_of(array: Any) -> int:
    """Of an array of CuPy, or of NumPy in the emulation."""
    data: Any = array.data
    found: int = data.ptr if hasattr(data, "ptr") else array.ctypes.data
    return found


def _extents(m: int, n: int, k: int, algorithm: BilinearAlgorithm, levels: int) -> Size:
    # Multiples of eight: blocks start on sixteen bytes, only the last k-step has a fringe.
    parts = algorithm.m**levels, algorithm.n**levels, algorithm.k**levels
    qm, qn, qk = (_ceil(_ceil(x, p), 8) * 8 for x, p in zip((m, n, k), parts, strict=True))
    return qm, qn, qk


def _block(a: Matrix, b: Matrix, algorithm: BilinearAlgorithm, levels: int) -> Size:
    return _extents(a.rows, b.cols, a.cols, algorithm, levels)


def _rooms(m: int, n: int, k: int, algorithm: BilinearAlgorithm) -> list[tuple[int, int]]:
    """Shapes of the sums of A and of B of an outer level."""
    qm, qn, qk = _extents(m, n, k, algorithm, 2)
    return [(algorithm.m * qm, algorithm.k * qk), (algorithm.k * qk, algorithm.n * qn)]


Layout = tuple[int, ...]
"""Extents and strides of a matrix."""


@lru_cache(maxsize=512)
def _prepared(out: Layout, a: Layout, b: Layout, aligned: bool, mode: str, size: Size,
              table: Table, form: Form, epilogue: str | None, processors: int
              ) -> tuple[Code, bytes, int]:  # fmt: skip
    """Which code, its arguments but for addresses, and how many blocks."""
    (m, k, a_row, a_col), (_, n, b_row, b_col) = a, b
    left = "K" if a_col == 1 else "R" if a_row == 1 else "S"
    right = "R" if b_col == 1 else "K" if b_row == 1 else "S"
    pitches = (a_row if left == "K" else a_col, b_col if right == "K" else b_row)
    along = (k if left == "K" else m, k if right == "K" else n)
    whole = all(p % form.aligned == 0 for p in (*pitches, *along))
    vector = aligned and "S" not in (left, right) and whole
    terms = next(t for t in (1, 2, 4) if table.terms <= t)
    code = Code(left, right, vector, mode, terms, form.arithmetic, epilogue)
    g = structures(form).Arguments()
    g.a_row, g.a_col, g.b_row, g.b_col, g.c_row = a_row, a_col, b_row, b_col, out[2]
    g.a_rows, g.a_depth, g.b_depth, g.b_cols, g.c_rows, g.c_cols = *a[:2], *b[:2], *out[:2]
    g.qm, g.qn, g.qk = size
    g.alpha, g.beta = form.word(1), form.word(0)
    g.tiles_m, g.tiles_n = _ceil(g.qm, form.rows), _ceil(g.qn, form.columns)
    g.group, g.products = form.group, table.count
    g.items = g.tiles_m * g.tiles_n * (table.count if mode == "atomic" else 1)
    ctypes.memmove(g.product, table.data, len(table.data))
    # A block's share is no less than four steps.
    work = g.items * (4 if mode == "owner" else max(1, _ceil(g.qk, form.step)))
    workers = max(1, min(work // 4, processors // form.cluster))
    return code, bytes(g), workers * form.cluster


@lru_cache(maxsize=16)
def engine_for(device: Any) -> Engine | None:
    """The engine of a device; None where it does not run."""
    return Engine(device) if device.arch == "sm_90a" and hasattr(device, "load") else None

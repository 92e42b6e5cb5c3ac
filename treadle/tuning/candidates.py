"""The candidates of tuning: schedules that often win, filtered by the model's predictions.

    kind of kernel                  candidates
    generate, map, stencil          orders, blocks, outputs per thread, as ranked by the model
    permute                         the same over the source, and blocks along rows of the target
    fold, scan, segmented fold      the number and order of leaves (chunks computed as a unit, see
                                    lower/visits.py) per task or block of threads; on a CPU also
                                    the width of strips of columns
    product                         permitted ways to compute it; orders of tiles if the skeletons
                                    compute it
    then, for any of these          `Hints` for the access classes that could profit

A candidate that results in the same kernels as another is not tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.dsl.graph import Fold, FoldSeg, Generate, Matmul, Memory, Permute, Scan
from treadle.dsl.graphs.names import Names, address
from treadle.dsl.operations.algebra.product_way import WORTH_TRYING, ProductWay
from treadle.dsl.schedule import ScheduleError
from treadle.dsl.target import target_of
from treadle.skeletons.access.maps import access_classes, kernel_maps
from treadle.skeletons.lower.launches import kernels_made
from treadle.skeletons.model import choose, device
from treadle.skeletons.model.report import seconds_predicted
from treadle.skeletons.schedules.layers import Block, Hints, PerThread
from treadle.skeletons.schedules.orders import Column, Row, Tile
from treadle.skeletons.schedules.schedule import Schedule, ScheduleLike, as_schedule

if TYPE_CHECKING:
    from treadle.dsl.graph import Node
    from treadle.dsl.graphs.names import Names
    from treadle.dsl.program import TracedProgram

MOST = 12  # schedules timed per operation, if the model can rank them
ROWS_PER_THREAD = (2, 4, 8)

Option = Schedule | ProductWay | None
"""A candidate for an operation; None: unchanged."""

# Elements of a block: of threads on a GPU, of a task on a CPU.
_BLOCKS = {"cuda": ((4, 64), (8, 32), (16, 32), (32, 32))}
_CPU_BLOCKS = ((16, 256), (32, 512), (64, 128), (64, 64))
# Elements along the folded axes, and results, per block: rounded up to complete leaves. A leaf of a
# GPU is 8 192 elements of a row, or 64 of 128 columns; a leaf of a CPU is 8 192 elements, or 1 024
# of as many columns as a block is wide.
_FOLDED = {"cuda": ((1, 4), (1, 16), (1, 64), (1, 256), (1, 512), (256, 1), (32768, 1))}
_CPU_FOLDED = ((1, 64), (1, 128), (1, 256), (1, 512), (1, 1024), (4096, 256), (65536, 1))
# Complete rows of a scan, or columns.
_SCANNED = ((4, 1), (16, 1), (64, 1), (1, 64), (1, 128), (1, 256), (1, 512), (1, 1024))
# Segments of a fold, elements of a line.
_SEGMENTS, _LINES = (16, 64, 256, 1024), (32768, 131072, 524288)
# Elements of a product's tiles, if the skeletons compute it.
_TILES = ((64, 1024), (128, 256), (256, 256), (512, 256))
#: The least number of results for which stores may bypass a CPU's caches.
LARGE = 1 << 20


def candidates(backend: str, extents: Sequence[int | None]) -> list[Schedule]:
    """Promising schedules for independent elements of these extents; the default is first.

    >>> candidates("native", (1, 1)), candidates("native", (64, 300))[:3]
    ([Row()], [Row(), Column(64), Column(256)])
    """
    height, width = (10**9 if n is None else n for n in extents[-2:])
    found: list[ScheduleLike] = [Row()]
    found += [Column(w) for w in (64, 256) if w < width]
    found += [Tile(r, c) for r, c in ((32, 64), (64, 256)) if r < height and c < width]
    if height > 16 and width > 512:
        found.append(Column(512) | Block(16, 256))
    for rows, cols in _BLOCKS.get(backend, _CPU_BLOCKS):
        if rows >= 2 * height or cols >= 2 * width:
            continue
        block = Row() | Block(rows, cols)
        found.append(block)
        found += [block | PerThread(rows=k) for k in ROWS_PER_THREAD if rows % k == 0]
    return [as_schedule(s) for s in found]


def fold_candidates(backend: str, extents: Sequence[int | None]) -> list[Schedule]:
    """Promising schedules for a fold; `extents`: the folded axes, merged, and the result's.

    >>> fold_candidates("native", (1 << 20,))[0], fold_candidates("native", (100, 300))[0]
    (Row() | Block(32768), Column(64))
    """
    folded, *outer = (10**9 if n is None else n for n in extents)
    if not outer:
        return [as_schedule(Row() | Block(n)) for n in _LINES if n < folded]
    results, between = math.prod(outer), (1,) * (len(outer) - 1)
    found: list[ScheduleLike] = [Column(w) for w in (64, 256, 1024) if w < outer[-1]]
    found += [
        Row() | Block(rows, *between, cols)
        for rows, cols in _FOLDED.get(backend, _CPU_FOLDED)
        if rows < 2 * folded and cols < 2 * results
    ]
    if target_of(backend).gpu and len(outer) == 1 and outer[-1] > 32:  # rows of the folded axes
        found.append(Row() | Block(8, 32) | PerThread(rows=4))
    return [as_schedule(s) for s in found]


def scan_candidates(extents: Sequence[int | None]) -> list[Schedule]:
    """Promising schedules for a scan of these extents, along any axis."""
    if len(extents) < 2:
        return []
    height, width = (10**9 if n is None else n for n in extents[-2:])
    found: list[ScheduleLike] = [Column(w) for w in (64, 256) if w < width]
    found += [Row() | Block(r, c) for r, c in _SCANNED if r < 2 * height and c < 2 * width]
    return [as_schedule(s) for s in found]


def _leaf_candidates(node: Node, backend: str, extents: Sequence[int | None]) -> list[Schedule]:
    """Schedules for nodes computed in leaves."""
    if isinstance(node, Fold):
        return fold_candidates(backend, extents)
    if isinstance(node, Scan):
        return scan_candidates(extents)
    before = (1,) * (len(extents) - (1 if isinstance(node, FoldSeg) else 2))
    blocks = [(n,) for n in _SEGMENTS] if isinstance(node, FoldSeg) else list(_TILES)
    sizes = [10**9 if n is None else n for n in extents[len(before) :]]
    return [
        as_schedule(Row() | Block(*before, *block))
        for block in blocks
        if all(b < 2 * n for b, n in zip(block, sizes, strict=True))
    ]


def promising(program: TracedProgram, node: Node, extents: Sequence[int | None],
              known: Mapping[Any, int]) -> list[Schedule]:  # fmt: skip
    """Of `candidates` and the schedules considered by `Auto`, the row order and the MOST with the
    shortest predicted times; all candidates if the model has no prediction."""
    found = candidates(program.backend, extents)
    if not target_of(program.backend).kernels:
        return found

    kernel = kernel_maps(node, known)
    if kernel is None or not kernel.size or 0 in kernel.inner:
        return found
    ceilings = device.device_of(program)
    extra = [s for s in choose.candidates(kernel, None, ceilings.gpu) if s is not None]
    pool = list(dict.fromkeys([*found, *extra]))
    guessed = choose.choose(kernel, ceilings, None, pool, complete=True).predictions
    ranked = sorted(guessed, key=lambda p: (p.seconds, sum(p.terms)))
    best = [p.schedule for p in ranked if p.schedule is not None and p.schedule != Row()]
    return [as_schedule(Row()), *best[:MOST]]


def _promising_folds(program: TracedProgram, node: Node, found: list[Schedule],
                     known: Mapping[Any, int]) -> list[Schedule]:  # fmt: skip
    """Candidates sorted by predicted time, without those predicted to be many times slower than the
    best; unsorted if the model has no prediction."""
    predicted = seconds_predicted(program, node, known, [None, *found])
    if None in predicted.values():
        return found[:MOST]
    limit = WORTH_TRYING * min(s for s in predicted.values() if s is not None)
    fit = [s for s in found if (predicted[s] or 0.0) <= limit]
    return sorted(fit, key=lambda s: predicted[s] or 0.0)[:MOST]


def hint_candidates(node: Node, backend: str, size: int | None) -> list[Hints]:
    """Hints for the access classes of a kernel that could profit; `size`: elements of its result.

    Data read once should leave cache space for data that is reused; so should stores, if anything
    is reused.  Data-dependent indices load entire cache lines for single words.  On CPUs only
    stores have hints, which avoid reading the lines before they are written.
    """
    found = access_classes(node)
    loads = {c for a in found if not a.store for c in a.classes}
    again = loads - {"streaming"}
    stores = any(a.store and "streaming" in a.classes for a in found)
    if not target_of(backend).gpu:
        large = size is None or size >= LARGE
        return [Hints(stores="streaming")] if stores and large else []
    made = []
    if "streaming" in loads and again:
        made.append(Hints(stream="evict_first"))
    if stores and again:
        made.append(Hints(stores="streaming"))
    if "random" in loads:
        made += [Hints(random="no_l1"), Hints(random="evict_last")]
    return made


# --- of programs -----------------------------------------------------------------------------


def options(program: TracedProgram, names: Names, node: Node, extents: Sequence[int | None]
            ) -> list[Option]:  # fmt: skip
    """What to try for a kernel: first unchanged, then the alternatives."""
    ways: list[Option] = []
    if isinstance(node, Matmul):
        size = tuple(names.value(e) for e in (node.m, node.k, node.n))
        if None not in size:
            ways = [*program.product_ways(node, size)]  # type: ignore[arg-type]
        if program.lowering(node) is None:
            return [None, *ways]
    if isinstance(node, Generate | Permute):
        found = promising(program, node, extents, names.known)
    else:
        found = _leaf_candidates(node, program.backend, extents)
        found = _promising_folds(program, node, found, names.known)
    kept = _kept(node)
    return [None, *ways, *distinct(program, node, [s | kept if kept else s for s in found])]


def hinted(program: TracedProgram, node: Node, base: Schedule | None, size: int | None
           ) -> list[Option]:  # fmt: skip
    """`base`, or the default choice, with hints; empty if the program gives hints."""
    if _kept(node) is not None or program.lowering(node) is None:
        return []
    chosen = program.first_choice(node) if base is None else base
    under = None if chosen is None else as_schedule(chosen)
    found = [as_schedule(h) if under is None else under | h
             for h in hint_candidates(node, program.backend, size)]  # fmt: skip
    return list(distinct(program, node, found, under))


def _kept(node: Node) -> Hints | None:
    """The hints given by the program, which are kept when orders are tried."""
    given = node.label.schedule
    return None if given is None else as_schedule(given).hints


def distinct(program: TracedProgram, node: Node, found: Sequence[Schedule],
             plain: Schedule | None = None) -> list[Schedule]:  # fmt: skip
    """The schedules that result in other kernels than `plain` (None: the default choice) and than
    the previous ones.  Schedules that cannot be lowered are kept, so that the reason is reported.
    """
    context = program.lowering(node)
    if context is None:
        return list(found)
    under = program.first_choice(node) if plain is None else plain
    seen = {kernels_made(node, replace(context, schedule=under))}
    left = []
    for schedule in found:
        try:
            made = kernels_made(node, replace(context, schedule=schedule))
        except ScheduleError:
            left.append(schedule)
            continue
        if made not in seen:
            seen.add(made)
            left.append(schedule)
    return left


def tunable(names: Names) -> Iterator[tuple[str, Node, tuple[int | None, ...]]]:
    """Address, node and extents of everything that can be tuned: independent elements over two axes
    or more; folds (folded axes merged, then the result's); scans; segmented folds; products."""
    for node in names.kernels:
        number = names.number(node)
        if number is None or isinstance(node, Memory):  # (memory alone is written by its readers)
            continue
        extents: tuple[int | None, ...] = ()
        if isinstance(node, Generate | Permute):
            shape = node.shape if isinstance(node, Generate) else node.domain
            extents = tuple(map(names.value, shape)) if len(shape) >= 2 else ()
        elif isinstance(node, Fold):
            extents = (names.size(node.inner), *map(names.value, node.outer))
        elif isinstance(node, Scan):
            extents = tuple(map(names.value, node.shape))
        elif isinstance(node, FoldSeg):
            extents = tuple(map(names.value, (*node.outer, node.segments)))
        elif isinstance(node, Matmul):
            extents = tuple(map(names.value, (*node.batch, node.m, node.n)))
        if extents:
            yield node.label.name or address(number), node, extents

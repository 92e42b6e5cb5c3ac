"""Executions: how the products of a bilinear algorithm are combined in C, on arrays of any library.

    recursive    sums in memory at every level, at most two temporaries a level (`sequences`)
    sequential   one product after another, of all levels at once
    streams      two workers through the dependency stages (`primitives.stages`)
    batched      level by level all sums of A in one pass, all of B in one, the products in
                 buffers, all blocks of C in one pass (`at_once`): more memory, fewer passes
    atomic       any idle worker computes the next product, and adds it to blocks of C under locks
    owner        one worker owns a tile of C and computes all products that contribute to it
    persistent   (tile, product) pairs from one queue, tile by tile; the last pair completes a tile
    hybrid       the outer level as `recursive`, the inner ones as `owner`

(Huang, Yu, van de Geijn 2020, section 3.3; Li, Ranka, Sahni 2011, figures 8 and 15.) Matrices are
two-dimensional views; sums are formed in their type, so integers stay exact.  If the extents are
not multiples of what the levels require, the algorithm computes the core and standard products
compute the fringes.

All temporaries are slices of one workspace, allocated once: `plan` computes its size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from treadle.dsl.records import dataclass

from .at_once import at_once, block_names
from .kit import Job, Kit
from .primitives import Instance, Terms, instances, stages
from .sequences import RECURSIVE, Product, Program, Sums, kinds
from .tables import BilinearAlgorithm, power

EXECUTIONS = (
    "recursive", "sequential", "streams", "batched", "atomic", "owner", "persistent", "hybrid",
)  # fmt: skip
#: Rows and columns of the tiles of `owner` and `persistent`, within a block of C.
TILE = 512
#: The sizes of temporaries are multiples of this, so that they start on cache lines.
ALIGNED = 32
#: Rows of C updated at a time if the inner extent has a remainder.
FRINGE_ROWS = 256

Size = tuple[int, int, int]
"""m, k, n."""


#: With more levels than FEW_LEVELS, leaves keep this extent: 7⁸ products of scalars take minutes.
FEW_LEVELS, LEAST_LEAF = 4, 16


# --- plans ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The plan of one product: its levels, its core, and the size of its workspace in elements."""

    algorithm: BilinearAlgorithm
    execution: str
    levels: int
    size: Size
    core: Size
    workspace: int
    adds: bool = False


def plan(algorithm: BilinearAlgorithm, execution: str, levels: int, size: Size,
         workers: int = 1, adds: bool = False) -> Plan:  # fmt: skip
    """The plan of an (m, k) by (k, n) product, for a kit with `workers` workers; `adds`: whether
    the kit adds products to C without additional memory.

    >>> from .tables import STRASSEN, WINOGRAD
    >>> plan(STRASSEN, "recursive", 2, (100, 100, 101)).core
    (100, 100, 100)
    >>> n = 1024
    >>> [plan(WINOGRAD, "recursive", x, (n, n, n)).workspace / n**2 for x in (1, 2)]
    [0.5, 0.625]
    >>> [plan(WINOGRAD, "batched", x, (n, n, n)).workspace / n**2 for x in (1, 2)]
    [2.0, 2.5]
    """
    parts = algorithm.m, algorithm.k, algorithm.n
    while levels and any(
        s < p**levels * (LEAST_LEAF if levels > FEW_LEVELS else 1)
        for s, p in zip(size, parts, strict=True)
    ):
        levels -= 1
    core = tuple(s - s % p**levels for s, p in zip(size, parts, strict=True))
    m, k, n = core
    space = _workspace(algorithm, execution, levels, size, (m, k, n), workers, adds)
    return Plan(algorithm, execution, levels, size, (m, k, n), space, adds)


def execute(kit: Kit, made: Plan, a: Any, b: Any, out: Any, workspace: Any) -> None:
    """`out[...] = a @ b`; `workspace` is a flat array of `made.workspace` elements."""
    (m, k, n), (_, depth, _) = made.core, made.size
    if not made.levels:
        kit.product(a, b, out)
        return
    space = Space(workspace)
    _core(kit, made, a[:m, :k], b[:k, :n], out[:m, :n], space)
    if k < depth and made.adds:
        kit.update(a[:m, k:], b[k:, :n], out[:m, :n], 1, True)
    elif k < depth:  # in bands, which reuse the workspace
        rows = min(m, FRINGE_ROWS)
        band = Space(workspace).take(rows, n)
        for top in range(0, m, rows):
            part = out[top : min(top + rows, m), :n]
            rest = band[: part.shape[0]]
            kit.product(a[top : top + part.shape[0], k:], b[k:, :n], rest)
            kit.sums(((part, ((1, part), (1, rest))),))
    if n < made.size[2]:
        kit.product(a[:m], b[:, n:], out[:m, n:])
    if m < made.size[0]:
        kit.product(a[m:], b, out[m:])


def _core(kit: Kit, made: Plan, a: Any, b: Any, out: Any, space: Space) -> None:
    whole, levels = made.algorithm, made.levels
    match made.execution:
        case "recursive":
            _recursive(kit, (whole,) * levels, a, b, out, space, kit.product)
        case "batched":
            programs = _programs(whole, levels, made.adds)
            _run_levels(kit, whole, programs, a, b, out, space, kit.product)
        case "hybrid":
            inner = power(whole, levels - 1)

            def fused(x: Any, y: Any, z: Any) -> None:
                if levels == 1:
                    kit.product(x, y, z)
                else:
                    with space:
                        _tiles(kit, inner, x, y, z, space, by_owner=True)

            _recursive(kit, (whole,), a, b, out, space, fused)
        case "sequential":
            _products(kit, _composed(whole, levels), a, b, out, space, None)
        case "streams":
            _products(kit, _composed(whole, levels), a, b, out, space, "stages")
        case "atomic":
            _products(kit, _composed(whole, levels), a, b, out, space, "locks")
        case "owner" | "persistent":
            _tiles(kit, _composed(whole, levels), a, b, out, space,
                   by_owner=made.execution == "owner")  # fmt: skip


@lru_cache(maxsize=16)
def _composed(algorithm: BilinearAlgorithm, levels: int) -> BilinearAlgorithm:
    return power(algorithm, levels)


# --- memory -------------------------------------------------------------------------------------


class Space:
    """Allocates matrices in a flat array; leaving the context frees those allocated inside."""

    def __init__(self, flat: Any) -> None:
        self.flat, self.at, self.marks = flat, 0, list[int]()

    def take(self, *shape: int) -> Any:
        count = _count(*shape)
        found = self.flat[self.at : self.at + count].reshape(shape)
        if found.size != count:
            raise AssertionError(f"workspace too small for {shape}")
        self.at += _aligned(count)
        return found

    def __enter__(self) -> Space:
        self.marks.append(self.at)
        return self

    def __exit__(self, *_: object) -> None:
        self.at = self.marks.pop()


def _count(*shape: int) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


def _block(size: Size, algorithm: BilinearAlgorithm) -> Size:
    return size[0] // algorithm.m, size[1] // algorithm.k, size[2] // algorithm.n


def _kind_counts(size: Size) -> dict[str, int]:
    m, k, n = size
    return {"A": m * k, "B": k * n, "C": m * n}


def _level_space(algorithm: BilinearAlgorithm, size: Size) -> int:
    """Elements of the temporaries of one level of `recursive` with blocks of this size."""
    program = RECURSIVE.get(algorithm)
    if program is not None:
        return _program_space(program, size)
    return sum(_aligned(c) for c in _kind_counts(size).values())


def _program_space(program: Program, size: Size) -> int:
    """Elements of the temporaries of a program, for blocks of this size."""
    counts = _kind_counts(size)
    return sum(_aligned(max(counts[k] for k in of)) for of in kinds(program).values())


def _workspace(algorithm: BilinearAlgorithm, execution: str, levels: int, size: Size, core: Size,
               workers: int, adds: bool) -> int:  # fmt: skip
    if not levels:
        return 0
    parts = algorithm.m, algorithm.k, algorithm.n
    m, k, n = block = tuple(c // p**levels for c, p in zip(core, parts, strict=True))
    banded = core[1] < size[1] and not adds
    fringe = _aligned(min(core[0], FRINGE_ROWS) * core[2]) if banded else 0
    sums = sum(_aligned(c) for c in _kind_counts(block).values())
    tile = sum(
        _aligned(c) for c in (min(m, TILE) * k, k * min(n, TILE), min(m, TILE) * min(n, TILE))
    )
    needed = 0
    match execution:
        case "recursive":
            at = core
            for _ in range(levels):
                at = _block(at, algorithm)
                needed += _level_space(algorithm, at)
        case "hybrid":
            needed = _level_space(algorithm, _block(core, algorithm))
            needed += workers * tile if levels > 1 else 0
        case "sequential":
            needed = sums
        case "streams":
            needed = min(2, workers) * sums
        case "atomic":
            needed = workers * sums
        case "batched":
            at = core
            for program in _programs(algorithm, levels, adds):
                at = _block(at, algorithm)
                needed += _program_space(program, at)
        case "owner" | "persistent":
            needed = workers * tile
    return max(needed, fringe)


# --- recursive ----------------------------------------------------------------------------------


def _recursive(kit: Kit, levels: Sequence[BilinearAlgorithm], a: Any, b: Any, out: Any,
               space: Space, leaf: Callable[[Any, Any, Any], None]) -> None:  # fmt: skip
    if not levels:
        leaf(a, b, out)
        return
    algorithm, *inner = levels

    def product(x: Any, y: Any, z: Any) -> None:
        _recursive(kit, inner, x, y, z, space, leaf)

    with space:
        program = RECURSIVE.get(algorithm)
        if program is None:
            _one_by_one(kit, algorithm, a, b, out, space, product)
        else:
            run(kit, program, _blocks(algorithm, a, b, out), space, product)


def _programs(algorithm: BilinearAlgorithm, levels: int, adds: bool) -> tuple[Program, ...]:
    """The programs of `batched`, from the outer level: only leaves are added to C in place."""
    return tuple(at_once(algorithm, adds and level == levels - 1) for level in range(levels))


def _run_levels(kit: Kit, algorithm: BilinearAlgorithm, programs: Sequence[Program], a: Any, b: Any,
                out: Any, space: Space, leaf: Callable[[Any, Any, Any], None]) -> None:  # fmt: skip
    """Run one program per level; `leaf` computes the products of the innermost."""
    program, *inner = programs

    def product(x: Any, y: Any, z: Any) -> None:
        _run_levels(kit, algorithm, inner, x, y, z, space, leaf)

    with space:
        blocks = _blocks(algorithm, a, b, out)
        run(kit, program, blocks, space, product if inner else leaf)


def _blocks(algorithm: BilinearAlgorithm, a: Any, b: Any, out: Any) -> dict[str, Any]:
    """The blocks of the three matrices, by name."""
    sides = (("A", a, algorithm.m, algorithm.k), ("B", b, algorithm.k, algorithm.n),
             ("C", out, algorithm.m, algorithm.n))  # fmt: skip
    return {
        name: part for letter, x, rows, cols in sides
        for name, part in zip(block_names(letter, rows, cols), cut(x, rows, cols), strict=True)
    }  # fmt: skip


def run(kit: Kit, program: Program, blocks: dict[str, Any], space: Space,
        product: Callable[[Any, Any, Any], None]) -> None:  # fmt: skip
    """Runs a program on the blocks A11 …, with temporaries from `space`.

    A product that is scaled, or added to a block, is stored in memory first, unless the kit does
    that in place.
    """
    first = {kind: next(x for name, x in blocks.items() if name[0] == kind) for kind in "ABC"}
    shapes = {kind: x.shape for kind, x in first.items()}
    flat = {
        name: space.take(max(_count(*shapes[k]) for k in of)) for name, of in kinds(program).items()
    }
    kind: dict[str, str] = {}

    def target(name: str, what: str) -> Any:
        if name in flat:
            kind[name] = what
            blocks[name] = _like(first[what], flat[name][: _count(*shapes[what])])
        return blocks[name]

    def terms(addends: Sequence[tuple[float, str]]) -> list[tuple[float, Any]]:
        return [(c, blocks[name]) for c, name in addends]

    for step in program:
        if isinstance(step, Sums):
            # Terms first: a temporary may be overwritten by a sum that it is part of.
            parts = [(name, terms(addends), (*step.shared, *addends)[0][1])
                     for name, addends in step.made]  # fmt: skip
            shared = terms(step.shared)
            kit.sums([
                (blocks[name] if any(x is blocks.get(name) for _, x in (*own, *shared))
                 else target(name, kind.get(first, first[0])), own)
                for name, own, first in parts
            ], shared)  # fmt: skip
            continue
        _multiply(kit, step, blocks, target, space, product)


def _like(block: Any, flat: Any) -> Any:
    """A matrix of a block's shape and memory order (row- or column-major) in flat memory."""
    rows, cols = block.shape
    if block.strides[0] == block.itemsize != block.strides[1]:
        return flat.reshape(cols, rows).T
    return flat.reshape(rows, cols)


def _multiply(kit: Kit, step: Product, blocks: dict[str, Any], target: Any, space: Space,
              product: Callable[[Any, Any, Any], None]) -> None:  # fmt: skip
    w, x, sign, addends = blocks[step.w], blocks[step.x], step.sign, step.addends
    if sign == 1 and not addends:
        product(w, x, target(step.target, "C"))
        return
    if kit.adds and addends in ((), ((1, step.target),)):
        kit.update(w, x, target(step.target, "C"), sign, bool(addends))
        return
    with space:
        m = space.take(*next(x for name, x in blocks.items() if name[0] == "C").shape)
        product(w, x, m)
        terms = [(c, blocks[name]) for c, name in addends]
        kit.sums(((target(step.target, "C"), [(sign, m), *terms]),))


def cut(x: Any, rows: int, cols: int) -> list[Any]:
    """The blocks of a matrix that divides evenly, row by row."""
    h, w = x.shape[-2] // rows, x.shape[-1] // cols
    return [
        x[..., i * h : (i + 1) * h, j * w : (j + 1) * w] for i in range(rows) for j in range(cols)
    ]


# --- the products of all levels at once ---------------------------------------------------------


def _one_by_one(kit: Kit, algorithm: BilinearAlgorithm, a: Any, b: Any, out: Any, space: Space,
                product: Callable[[Any, Any, Any], None]) -> None:  # fmt: skip
    one = _Instances(kit, algorithm, a, b, out, space, 1)
    for instance in instances(algorithm):
        one.add(one.made(instance, 0, product), instance)


class _Instances:
    """Products of the fused primitive, stored in memory and then added to blocks of C."""

    def __init__(self, kit: Kit, algorithm: BilinearAlgorithm, a: Any, b: Any, out: Any,
                 space: Space, workers: int) -> None:  # fmt: skip
        self.kit = kit
        self.a = cut(a, algorithm.m, algorithm.k)
        self.b = cut(b, algorithm.k, algorithm.n)
        self.c = cut(out, algorithm.m, algorithm.n)
        self.buffers = [
            [space.take(*blocks[0].shape) for blocks in (self.a, self.b, self.c)]
            for _ in range(workers)
        ]
        self.written: set[int] = set()

    def made(
        self, instance: Instance, worker: int, product: Callable[[Any, Any, Any], None]
    ) -> Any:
        x, y, m = self.buffers[worker]
        product(self.sum(self.a, instance.a, x), self.sum(self.b, instance.b, y), m)
        return m

    def sum(self, blocks: Sequence[Any], terms: Terms, buffer: Any) -> Any:
        if len(terms) == 1 and terms[0][1] == 1:
            return blocks[terms[0][0]]
        self.kit.sums(((buffer, [(c, blocks[p]) for p, c in terms]),))
        return buffer

    def add(self, m: Any, instance: Instance) -> None:
        self.kit.sums([
            (self.c[p], ([(1, self.c[p])] if p in self.written else []) + [(c, m)])
            for p, c in instance.c
        ])  # fmt: skip
        self.written.update(p for p, _ in instance.c)


def _products(kit: Kit, algorithm: BilinearAlgorithm, a: Any, b: Any, out: Any, space: Space,
              how: str | None) -> None:  # fmt: skip
    """Each product separately: in order (None), in stages of two streams, or all at once."""
    workers = 1 if how is None else min(2, kit.workers) if how == "stages" else kit.workers
    each = _Instances(kit, algorithm, a, b, out, space, workers)
    made = instances(algorithm)

    def ordered(r: int, worker: int) -> None:
        each.add(each.made(made[r], worker % workers, kit.product), made[r])

    if how != "locks":
        for stage in stages(algorithm) if how else ((tuple(range(len(made))),),):
            kit.concurrently([[partial(ordered, r) for r in stream] for stream in stage if stream])
        return
    locks = [threading.Lock() for _ in each.c]

    def one(instance: Instance, worker: int) -> None:
        m = each.made(instance, worker, kit.product)
        for p, c in instance.c:
            with locks[p]:
                each.add(m, Instance((), (), ((p, c),)))

    _from_queue(kit, [partial(one, i) for i in made])


def _from_queue(kit: Kit, jobs: Sequence[Job]) -> None:
    left = iter(jobs)
    lock = threading.Lock()

    def work(worker: int) -> None:
        while True:
            with lock:
                job = next(left, None)
            if job is None:
                return
            job(worker)

    kit.concurrently([[work] for _ in range(kit.workers)])


def _tiles(kit: Kit, algorithm: BilinearAlgorithm, a: Any, b: Any, out: Any, space: Space, *,
           by_owner: bool) -> None:  # fmt: skip
    """Tiles of the blocks of C, each with all its products (`by_owner`) or one (tile, product) pair
    at a time.

    A lock protects each tile; the first product is stored, the others are added.
    """
    p, q, r = algorithm.m, algorithm.k, algorithm.n
    sides = [cut(a, p, q), cut(b, q, r), cut(out, p, r)]
    (rows, depth), cols = sides[0][0].shape, sides[1][0].shape[1]
    tall, wide = min(rows, TILE), min(cols, TILE)
    buffers = [(space.take(tall, depth), space.take(depth, wide), space.take(tall, wide))
               for _ in range(kit.workers)]  # fmt: skip
    made = instances(algorithm)
    jobs: list[Job] = []

    def products(tile: _Tile, mine: Sequence[Instance], worker: int) -> None:
        for instance in mine:
            tile.add(instance, buffers[worker])

    for top in range(0, rows, tall):
        for left in range(0, cols, wide):
            tile = _Tile(kit, sides, slice(top, min(top + tall, rows)),
                         slice(left, min(left + wide, cols)))  # fmt: skip
            if by_owner:
                jobs.append(partial(products, tile, made))
            else:
                jobs += [partial(products, tile, (i,)) for i in made]
    _from_queue(kit, jobs)


class _Tile:
    """The same rows and columns of every block of C."""

    def __init__(self, kit: Kit, sides: Sequence[Sequence[Any]], rows: slice, cols: slice) -> None:
        self.kit, self.lock = kit, threading.Lock()
        self.a = [x[rows] for x in sides[0]]
        self.b = [x[:, cols] for x in sides[1]]
        self.c = [x[rows, cols] for x in sides[2]]
        self.written: set[int] = set()

    def add(self, instance: Instance, buffers: Sequence[Any]) -> None:
        h, w = self.c[0].shape
        depth = self.a[0].shape[1]
        # Smaller tiles at the edges use a contiguous prefix of the buffers.
        x, y, m = (
            buffer.reshape(-1)[: p * q].reshape(p, q)
            for buffer, (p, q) in zip(buffers, ((h, depth), (depth, w), (h, w)), strict=True)
        )
        own = self.kit.sums
        for blocks, terms, buffer in ((self.a, instance.a, x), (self.b, instance.b, y)):
            own(((buffer, [(c, blocks[p]) for p, c in terms]),))
        self.kit.product(x, y, m)
        with self.lock:
            own([(self.c[p], ([(1, self.c[p])] if p in self.written else []) + [(c, m)])
                 for p, c in instance.c])  # fmt: skip
            self.written.update(p for p, _ in instance.c)

"""Reads along another axis than the last go through tiles in a core's own caches, on a CPU.

    out[…, i, …, j] = f(a[…, j, …, i], …)          `across` is the axis of i

    task                      a tile of `width` × `length`: i along `across`, j along the last axis
      for j, for i (vector)   held[j, i] = a[…, j, …, i]        pieces of rows of a
      for i, for j (vector)   out[…, i, …, j] = f(held[j, i])   pieces of rows of out

Each line of either array is touched once, whole, and never has to outlast others: whether the rows
of one begin in few sets of a cache (pitches near powers of two) makes no difference.  Axes too
short for that are known at run time: their reads are made where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.dsl.expr import Expr, Index, Read, Var, rewrite
from treadle.dsl.graph import Generate, Leaf

from .gpu.transpose import staged_reads
from .kernel import arithmetic as at
from .kernel.build import Builder
from .kernel.ir import Buffer, Load, Store
from .kernel.linearize import Linearizer
from .kernel.tiling import block_range

#: Elements of a side of a tile, and bytes of its rows, at most.
SIDE, ROW_BYTES = 128, 512
#: Bytes of all tiles of a task, about; but no shorter ones.
HELD_BYTES, SHORTEST = 1 << 16, 16
#: Where either side has fewer elements nothing is held: what was just stored would be loaded from
#: places of the same vectors at once, which has to wait for the stores.
WORTH_HOLDING = 48


def in_tiles(builder: Builder, node: Generate, outs: Sequence[Buffer], task: Var,
               into: Linearizer) -> Expr | None:  # fmt: skip
    """The number of tasks; None where no read can be made ahead, as under a condition."""
    staged = staged_reads(builder, node)
    if staged is None:
        return None
    across, reads = staged
    last = len(node.shape) - 1
    found = [e for e in reads if Leaf(e.node, e.component) not in builder.context.strided]
    if not found:
        return None
    width, length = sides([e.type.bytes for e in found])
    pitch = width + 1  # a column of a tile is in all sets of a cache
    held: dict[Read, Buffer] = {}
    for e in found:
        name = f"{builder.input(Leaf(e.node, e.component)).name}_held"
        (held[e],) = builder.local(name, [e.type], length * pitch)
    extents = builder.shape(node.shape)
    others = [k for k in range(last) if k != across]
    counts = [extents[k] for k in others]
    tiled = ((across, width, "tiles_down"), (last, length, "tiles_across"))
    counts += [builder.scalar(at.ceil_div(node.shape[k], n), name) for k, n, name in tiled]
    *planes, row, col = at.row_major(task, tuple(counts))
    place: dict[int, Expr] = {k: into.let(p, f"i{k}") for k, p in zip(others, planes, strict=True)}
    ranges = {
        k: block_range(into, f"at{k}", number, n, extents[k])
        for number, (k, n, _) in zip((row, col), tiled, strict=True)
    }

    def rows(outer: int, inner: int, kind: str, held: Mapping[Read, Buffer]) -> None:
        """The tile in rows along `inner`: filled where that is `across`, else computed."""
        with (
            into.loop("ij"[outer == last], *ranges[outer]) as o,
            into.loop("ij"[inner == last], *ranges[inner], kind) as v,
        ):
            here = {**place, outer: o, inner: v}
            for k, index in here.items():
                builder.stays_below(index, node.shape[k])
            i, j = (at.subtract(here[k], ranges[k][0]) for k in (across, last))
            slot = at.add(at.multiply(j, pitch), i)
            with into.when_always({Index(k): x for k, x in here.items()}):
                if inner == across:
                    values = into.emit(found)
                    stores = [Store(held[e], slot, v) for e, v in zip(found, values, strict=True)]
                else:
                    memo: dict[Expr, Expr] = {e: Load(b, slot) for e, b in held.items()}
                    values = into.emit(rewrite(node.elements, lambda e: e, memo))
                    where = at.linear([here[k] for k in range(last + 1)], extents)
                    stores = [Store(b, where, v) for b, v in zip(outs, values, strict=True)]
                into.append(*stores)

    enough = into.let(at.both(*(at.less_equal(WORTH_HOLDING, extents[k]) for k in ranges)), "hold")
    with into.when(enough):
        rows(last, across, "vector", held)
        rows(across, last, "vector", held)
    with into.otherwise(enough):
        rows(across, last, "serial", {})
    names = ", ".join(b.name.removesuffix("_held") for b in held.values())
    builder.notes.append(f"tiles of {width} × {length} in a core's caches: {names}")
    return at.product(counts)


def sides(sizes: Sequence[int]) -> tuple[int, int]:
    """Elements of a tile across and along, for reads of so many bytes: both sides have rows of
    some cache lines, and all tiles together stay in the second cache."""
    width = max(min(SIDE, ROW_BYTES // max(sizes)), 1)
    length = SIDE
    while length > SHORTEST and width * length * sum(sizes) > HELD_BYTES:
        length //= 2
    return width, length

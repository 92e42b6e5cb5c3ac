"""Plans as graphs of dask: lazy arrays with known chunks, named layers, one task per block."""

from __future__ import annotations

import gc
import hashlib
import operator
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from treadle.dsl.graph import Leaf

from ..blocks.buffers import Block, Piece
from ..blocks.domain import Chunks, edges
from ..blocks.engine import default_chunks
from ..blocks.plan import Either, Plan, Repeat, Stage
from ..blocks.tasks import key_of, tasks
from ..runtime.storage import packed
from .memory import has_workers
from .worker import computed, part_of, strip_of

#: Parts of chunks that are so many times smaller travel without them.
SMALL = 4


def is_dask(value: Any) -> bool:
    """Whether this is an array of dask."""
    return isinstance(value, da.Array)


def as_dask(value: Any) -> da.Array:
    """An array of dask; other arrays are part of the graph, in chunks if they are large."""
    if is_dask(value):
        return value
    array = np.asarray(value)
    return da.from_array(array, chunks=default_chunks(array.shape, array.itemsize))


def chunks_of(value: da.Array) -> Chunks:
    return tuple(tuple(int(n) for n in sizes) for sizes in value.chunks)


def arrays(plan: Plan, data: Sequence[da.Array], name: str) -> list[da.Array]:
    """The results of a plan as arrays of dask."""
    array = {leaf: data[k] for leaf, k in plan.given.items()}
    array.update((leaf, as_dask(value)) for leaf, value in plan.constants.items())
    plain = re.sub(r"\W+", "", name) or "program"
    _grow(plan, array, plain)
    return [array[leaf] for leaf in plan.roots]


def _grow(plan: Plan, array: dict[Leaf, da.Array], name: str) -> None:
    """Add the arrays that a plan computes to those that are there."""
    for part in plan.parts():
        match part:
            case Stage():
                with _without_collection():
                    made = _layers(part, plan, array, name)
            case Repeat():
                made = _repeated(part, array, name)
            case Either():
                side = 0 if array[part.predicate].compute() else 1
                _grow(part.sides[side], array, name)
                made = [array[leaf] for leaf in part.results[side]]
        array.update(zip(part.leaves, made, strict=True))


def _repeated(loop: Repeat, array: dict[Leaf, da.Array], name: str) -> list[da.Array]:
    """The last state of a loop, whose iterations are computed one after the other."""
    bound = {*loop.state, loop.index}
    used = [leaf for leaf in loop.uses() if leaf in array and leaf not in bound]
    array.update(zip(used, dask.persist(*(array[leaf] for leaf in used)), strict=True))
    state = [array[leaf] for leaf in loop.init]
    goes_on: da.Array | None = None
    iteration = 0
    while True:
        inner = {**array, **dict(zip(loop.state, state, strict=True))}
        if loop.predicate is None and iteration == loop.count:
            return state
        if loop.predicate is not None and goes_on is None:
            _grow(loop.test, inner, name)
            goes_on = inner[loop.predicate]
        if goes_on is not None and not goes_on.compute():
            return state
        if loop.index is not None:
            inner[loop.index] = as_dask(np.asarray(iteration))
        _grow(loop.step, inner, name)
        state = [inner[leaf] for leaf in loop.body]
        if loop.predicate is not None:  # of the next state, computed with it
            inner.update(zip(loop.state, state, strict=True))
            _grow(loop.test, inner, name)
            *state, goes_on = dask.persist(*state, inner[loop.predicate])
        else:
            state = list(dask.persist(*state))
        iteration += 1


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection: traversing a hundred thousand tasks again and again takes longer than
    making them, and none of them is garbage."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _layers(stage: Stage, plan: Plan, array: Any, name: str) -> list[da.Array]:
    """The arrays that a stage computes."""
    blocks = stage.blocks
    sources = [array[b.leaf] for b in blocks.buffers]
    tables = [None if b.windows is None else array[b.windows] for b in blocks.buffers]
    needed = [*sources, *(t for t in tables if t is not None)]
    text = blocks.program.text = blocks.program.text or packed(blocks.program)
    token = _token(text, blocks, needed)
    label = blocks.node.label
    layer = f"{name}-{re.sub(r'[^A-Za-z0-9_]+', '_', label.name or label.operation)}-{token}"
    program = f"{layer}-program"
    graph: dict[Any, Any] = {program: text}
    names = [s.name for s in sources]
    several = len(blocks.results) > 1
    own = f"{layer}-all" if several else layer
    first = blocks.results[0]
    strips = _Strips(layer, graph) if has_workers() else None
    chosen: list[dict[Any, Any]] = [{} for _ in blocks.results]
    for task in tasks(blocks, [chunks_of(s) for s in sources]):
        keys: list[Any] = []
        for k, (source, used, table) in enumerate(zip(names, task.along, tables, strict=True)):
            if table is None and strips is not None:
                chunks = tuple(product(*used))
                block, own_keys = strips.cut(task.block, k, source, chunks, sources[k].chunks)
                keys += own_keys
                task = task._replace(block=block)
                continue
            if table is None:
                keys += product((source,), *used)
                continue
            starts = edges(plan.chunks[blocks.buffers[k].leaf][0])
            for number, begin in zip(*used, starts, strict=False):
                part = (f"{layer}-part", k, *task.position, number)
                where = (*task.position, number, begin)
                graph[part] = (part_of, (source, number), (table.name, 0, 0, 0), *where)
                keys.append(part)
        key = (own, *(task.position if several else key_of(first.axes, task.position)))
        graph[key] = (computed, program, task.block, *keys)
        if several:
            for k, result in enumerate(blocks.results):
                position = key_of(result.axes, task.position)
                chosen[k][(f"{layer}-{k}", *position)] = (operator.getitem, key, k)
    if not several:
        whole = HighLevelGraph.from_collections(layer, graph, dependencies=needed)
        return [_array(whole, layer, plan.chunks[stage.leaves[0]], first.type)]
    base = HighLevelGraph.from_collections(own, graph, dependencies=needed)
    made = []
    for k, (own_part, result) in enumerate(zip(chosen, blocks.results, strict=True)):
        layers = {**base.layers, f"{layer}-{k}": own_part}
        every = {**base.dependencies, f"{layer}-{k}": {own}}
        made.append(
            _array(
                HighLevelGraph(layers, every),
                f"{layer}-{k}",
                plan.chunks[stage.leaves[k]],
                result.type,
            )
        )
    return made


class _Strips:
    """Small parts of chunks that tasks read, as tasks of their own: between processes they travel
    instead of the chunks."""

    def __init__(self, layer: str, graph: dict[Any, Any]) -> None:
        self.name, self.graph = f"{layer}-strip", graph
        self.known: dict[Any, tuple[str, int]] = {}

    def cut(
        self, block: Block, k: int, source: str, used: Sequence[tuple[int, ...]], chunks: Chunks
    ) -> tuple[Block, list[Any]]:
        """The block that reads strips for buffer `k`, and the keys of what it reads."""
        cut = block.cuts[k]
        if cut is None or not used:
            return block, [(source, *chunk) for chunk in used]
        keys: list[Any] = []
        along: list[list[Piece]] = [list(pieces) for pieces in cut]
        narrow: list[list[bool]] = []
        for a, pieces in enumerate(cut):
            step = prod(len(more) for more in cut[a + 1 :])
            sizes = [chunks[a][used[i * step][a]] for i in range(len(pieces))]
            lengths = [last - first for first, last, _, _ in pieces]
            narrow.append([SMALL * n <= size for n, size in zip(lengths, sizes, strict=True)])
        for a, pieces in enumerate(cut):
            for i, (first, last, _, _) in enumerate(pieces):
                if narrow[a][i]:
                    along[a][i] = first, last, 0, last - first
        for index, chunk in zip(product(*map(range, map(len, cut))), used, strict=True):
            if not any(narrow[a][i] for a, i in enumerate(index)):
                keys.append((source, *chunk))
                continue
            part = tuple(
                slice(*cut[a][i][2:]) if narrow[a][i] else slice(None) for a, i in enumerate(index)
            )
            asked = (k, chunk, tuple((p.start, p.stop) for p in part))
            if asked not in self.known:
                self.known[asked] = self.name, len(self.known)
                self.graph[self.known[asked]] = (strip_of, (source, *chunk), part)
            keys.append(self.known[asked])
        cuts = (*block.cuts[:k], tuple(map(tuple, along)), *block.cuts[k + 1 :])
        return Block(cuts, block.numbers, block.kept, block.flat), keys


def _array(graph: HighLevelGraph, name: str, chunks: Chunks, type_: Any) -> da.Array:
    return da.Array(
        graph, name, chunks, dtype=type_.numpy, meta=np.empty((0,) * len(chunks), type_.numpy)
    )


def _token(text: str, blocks: Any, sources: Sequence[da.Array]) -> str:
    """A hash of everything that determines the results of a stage."""
    digest = hashlib.sha256(text.encode())
    for source in sources:
        digest.update(repr((source.name, source.chunks)).encode())
    for axis in blocks.axes:
        digest.update(
            repr((axis.extent, axis.sizes, axis.dimension, axis.before, axis.after)).encode()
        )
    parts = [part for b in blocks.buffers for part in (*b.low, *b.high, *(b.flat or ()))]
    for number in (*blocks.numbers, *parts):
        array = np.asarray(number)
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def compute(results: Sequence[da.Array]) -> list[Any]:
    """The values of arrays: by the current client of distributed, else by threads."""
    return list(dask.compute(*results))


__all__ = ["arrays", "as_dask", "chunks_of", "compute", "is_dask"]

"""Plans as dask graphs: lazy arrays with known chunks, named layers, one task per block."""

from __future__ import annotations

import gc
import hashlib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, product, repeat
from math import prod
from operator import is_not
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from treadle.dsl.graph import Leaf
from treadle.dsl.graphs.names import word_of

from ..blocks.buffers import Piece
from ..blocks.domain import Chunks, edges
from ..blocks.engine import default_chunks
from ..blocks.localise import Blocks
from ..blocks.stages import Either, Gathered, Later, Plan, Repeat, Stage
from ..blocks.tasks import SMALL, Parts, chunks_in, key_of, rows, travels_alone
from ..runtime.storage import packed
from .gathers import tasks_of
from .memory import has_workers
from .windows import exchanged
from .worker import computed, result_of, strip_of

#: The keys that each task of a row reads, given the row and the parts of a buffer in it.
_Reader = Callable[[tuple[int, ...], list[tuple[Parts, ...]]], Sequence[Sequence[Any]]]


def is_dask(value: Any) -> bool:
    return isinstance(value, da.Array)


def as_dask(value: Any, name: str = "array") -> da.Array:
    """A dask array; others are embedded in the graph, in chunks if they are large."""
    if is_dask(value):
        return value
    array = np.asarray(value)
    chunks = default_chunks(array.shape, array.itemsize)
    return da.from_array(array, chunks=chunks, name=f"{name}-{tokenize(array, chunks)}")


def chunks_of(value: da.Array) -> Chunks:
    return tuple(tuple(int(n) for n in sizes) for sizes in value.chunks)


def arrays(plan: Plan, data: Sequence[da.Array], name: str) -> list[da.Array]:
    made = every_array(plan, data, name)
    # (An argument returned as a result may have another byte order.)
    return [made[leaf].astype(leaf.type.numpy) for leaf in plan.roots]


def every_array(plan: Plan, data: Sequence[da.Array], name: str) -> dict[Leaf, da.Array]:
    """All arrays of a plan, given and computed."""
    arrays = {leaf: data[k] for leaf, k in plan.given.items()}
    plain = re.sub(r"\W+", "", name) or "program"
    arrays.update(_constants(plan, plain))
    _grow(plan, arrays, plain, has_workers())
    return arrays


def _constants(plan: Plan, name: str) -> dict[Leaf, da.Array]:
    return {leaf: as_dask(x, f"{name}-numbers") for leaf, x in plan.constants.items()}


def _grow(plan: Plan, arrays: dict[Leaf, da.Array], name: str, apart: bool) -> None:
    """Add the arrays that a plan computes; `apart`: tasks run in other processes."""
    for part in plan.parts():
        match part:
            case Stage():
                with _without_collection():
                    made = _layers(part, plan, arrays, name, apart)
            case Repeat():
                made = _repeated(part, arrays, name, apart)
            case Either():
                side = 0 if arrays[part.predicate].compute() else 1
                _grow(part.sides[side], arrays, name, apart)
                made = [arrays[leaf] for leaf in part.results[side]]
            case Gathered():
                made = [_gathered(part, plan, arrays, name, apart)]
            case Later():
                after = part.resume(_now(part, plan, arrays))
                arrays.update({**_constants(after, name), **arrays})
                _grow(after, arrays, name, apart)
                return
        arrays.update(zip(part.leaves, made, strict=True))


def _gathered(part: Gathered, plan: Plan, arrays: dict[Leaf, da.Array], name: str, apart: bool
              ) -> da.Array:  # fmt: skip
    """The elements of an array at computed positions."""
    source, positions = arrays[part.source], arrays[part.positions]
    layer, graph = tasks_of(part, plan.chunks, source, positions, f"{name}-gather", apart)
    whole = HighLevelGraph.from_collections(layer, graph, dependencies=[source, positions])
    return _array(whole, layer, plan.chunks[part.leaves[0]], part.source.type)


def _now(later: Later, plan: Plan, arrays: dict[Leaf, da.Array]) -> list[Any]:
    """The values that a plan needs to continue; arrays computed for them are kept."""
    given = plan.given.keys() | plan.constants.keys()
    used = [leaf for leaf in {**dict.fromkeys(later.needs), **dict.fromkeys(later.read)}
            if leaf in arrays and leaf not in given]  # fmt: skip
    arrays.update(zip(used, dask.persist(*(arrays[leaf] for leaf in used)), strict=True))
    return list(dask.compute(*(arrays[leaf] for leaf in later.needs)))


def _repeated(loop: Repeat, arrays: dict[Leaf, da.Array], name: str, apart: bool
              ) -> list[da.Array]:  # fmt: skip
    """The last state of a loop, whose iterations are computed one after the other."""
    bound = {*loop.state, loop.index}
    used = [leaf for leaf in loop.uses() if leaf in arrays and leaf not in bound]
    arrays.update(zip(used, dask.persist(*(arrays[leaf] for leaf in used)), strict=True))
    state = [arrays[leaf] for leaf in loop.init]
    goes_on: da.Array | None = None
    iteration = 0
    while True:
        inner = {**arrays, **dict(zip(loop.state, state, strict=True))}
        if loop.predicate is None and iteration == loop.count:
            return state
        if loop.predicate is not None and goes_on is None:
            _grow(loop.test, inner, name, apart)
            goes_on = inner[loop.predicate]
        if goes_on is not None and not goes_on.compute():
            return state
        if loop.index is not None:
            inner[loop.index] = as_dask(np.asarray(iteration))
        _grow(loop.step, inner, name, apart)
        state = [inner[leaf] for leaf in loop.body]
        if loop.predicate is not None:  # the predicate of the next state is computed with it
            inner.update(zip(loop.state, state, strict=True))
            _grow(loop.test, inner, name, apart)
            *state, goes_on = dask.persist(*state, inner[loop.predicate])
        else:
            state = list(dask.persist(*state))
        iteration += 1


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection: repeatedly traversing a hundred thousand tasks takes longer than
    making them, and none of them is garbage."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            if not gc.get_freeze_count():  # into the oldest generation, or each is traversed now
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _layers(stage: Stage, plan: Plan, arrays: Any, name: str, apart: bool) -> list[da.Array]:
    blocks = stage.blocks
    own_results = {b.leaf for b in blocks.buffers} & set(stage.leaves)
    tables = [None if b.windows is None else arrays[b.windows] for b in blocks.buffers]
    needed = [arrays[b.leaf] for b in blocks.buffers if b.leaf not in own_results]
    needed += [t for t in tables if t is not None]
    text = blocks.program.text = blocks.program.text or packed(blocks.program)
    token = _token(text, blocks, needed)
    word = word_of(blocks.node) or blocks.node.label.called
    # (Dashboards show the words between hyphens, up to the first that is not alphabetic.)
    words = f"{name}-{re.sub(r'[^A-Za-z0-9]+', '-', word)}"

    def named(*what: str) -> str:
        # Schedulers learn durations by the words of a task's name, and place tasks accordingly, so
        # tasks that cut or take a part of an array have other words than blocks.
        return "-".join((words, *what, token))

    layer, program = named(), named("program")
    graph: dict[Any, Any] = {program: text}
    several = len(blocks.results) > 1 or stage.chunks is not None
    first = blocks.results[0]
    # Results of this layer that its own tasks read, which have the same chunks, get keys in it.
    state = [k for k, leaf in enumerate(stage.leaves) if leaf in own_results]
    handed_on = named("state") if several else layer
    sources = [_named(handed_on, plan.chunks[b.leaf], b.leaf.type) if b.leaf in own_results
               else arrays[b.leaf] for b in blocks.buffers]  # fmt: skip
    run: Callable[..., Any] = computed
    if len(state) > 1:
        components = [state.index(stage.leaves.index(b.leaf)) if b.leaf in own_results else None
                      for b in blocks.buffers]  # fmt: skip
        run = partial(computed, components=components)
    strips = _Strips(named("strip"), blocks, sources, graph) if apart else None
    readers: list[_Reader] = [
        partial(_row_of, exchanged(graph, f"{named('part')}-{k}", source.name, table,
                                   edges(plan.chunks[buffer.leaf][0])[:-1],
                                   apart=strips is not None)) if table is not None
        else _Chunks(source).row if strips is None or buffer.leaf in own_results
        else partial(strips.row, k)
        for k, (buffer, source, table)
        in enumerate(zip(blocks.buffers, sources, tables, strict=True))
    ]  # fmt: skip
    adapt = None if strips is None else strips.adapt
    chosen: list[dict[Any, Any]] = [{} for _ in blocks.results]
    beside: da.Array | None = None
    if strips is not None and stage.chunks is not None:
        # Schedulers give tasks with few dependences to idle workers, wherever their inputs are, and
        # a part of a block would take the whole block along.  It therefore also depends on the
        # chunk that it replaces, which the block has read, and of which there are as many.
        beside = next((s for s in needed if chunks_of(s) == stage.chunks), None)
    last = [range(n) for n in blocks.grid[-1:]]
    for row in rows(blocks, [chunks_of(s) for s in sources], adapt):
        keys = [read(row.position, along) for read, along in zip(readers, row.along, strict=True)]
        given = map(chain, *keys) if keys else repeat(())
        made = [
            (run, program, block, *read) for block, read in zip(row.blocks, given, strict=False)
        ]
        positions = [(*row.position, *at) for at in product(*last)]
        chunks = positions if several else [key_of(first.axes, at) for at in positions]
        graph.update(zip([(layer, *at) for at in chunks], made, strict=True))
        if several:
            for k, result in enumerate(blocks.results):
                number = k if len(blocks.results) > 1 else None
                for at in positions:
                    for chunk, part in chunks_in(stage, result.axes, at):
                        near = () if beside is None else ((beside.name, *chunk),)
                        chosen[k][f"{named('result')}-{k}", *chunk] = (
                            result_of, (layer, *at), number, part, *near
                        )  # fmt: skip
            if state:
                axes, parts_of_state = blocks.results[state[0]].axes, operator.itemgetter(*state)
                graph.update(((handed_on, *key_of(axes, at)), (parts_of_state, (layer, *at)))
                             for at in positions)  # fmt: skip
    if not several:
        whole = HighLevelGraph.from_collections(layer, graph, dependencies=needed)
        return [_array(whole, layer, plan.chunks[stage.leaves[0]], first.type)]
    base = HighLevelGraph.from_collections(layer, graph, dependencies=needed)
    made = []
    for k, (leaf, tasks) in enumerate(zip(stage.leaves, chosen, strict=True)):
        key = f"{named('result')}-{k}"
        reads = {layer, *(() if beside is None else beside.__dask_layers__())}
        both = HighLevelGraph({**base.layers, key: tasks}, {**base.dependencies, key: reads})
        made.append(_array(both, key, plan.chunks[leaf], leaf.type))
    return made


def _row_of(parts: Sequence[list[Any]], position: tuple[int, ...], along: Sequence[Any]
            ) -> list[list[Any]]:  # fmt: skip
    """The parts of a buffer for each task of a row, if other arrays determine them."""
    return [[parts[at]] for at in range(len(along))]


class _Chunks:
    """The keys of the chunks of an array; equal keys are one object, since there are many."""

    def __init__(self, source: da.Array) -> None:
        self.counts = [len(sizes) for sizes in source.chunks]
        self.keys = list(product((source.name,), *map(range, self.counts)))

    def row(self, position: Sequence[int], along: Sequence[tuple[Parts, ...]]) -> list[list[Any]]:
        """The keys that each task of a row reads."""
        made: list[list[Any]] = []
        before: tuple[Parts, ...] | None = None
        lines: list[list[Any]] = []
        for axes in along:
            if not axes:
                made.append(self.keys)
                continue
            if before is None or any(map(is_not, axes[:-1], before)):
                before = axes[:-1]
                lines = [
                    self.keys[first : first + self.counts[-1]] for first in self.firsts(before)
                ]
            used = axes[-1].chunks
            if len(used) == 1:
                made.append([line[used[0]] for line in lines])
            elif not used:
                made.append([])
            elif used[-1] - used[0] + 1 == len(used):
                found = slice(used[0], used[-1] + 1)
                made.append([key for line in lines for key in line[found]])
            else:
                made.append([line[k] for line in lines for k in used])
        return made

    def firsts(self, axes: Sequence[Parts]) -> list[int]:
        """The number of the first key of each line of chunks along the last axis."""
        found = [0]
        for parts, count in zip(axes, self.counts, strict=False):
            found = [n * count + k for n in found for k in parts.chunks]
        return [n * self.counts[-1] for n in found]


class _Strips:
    """Parts of chunks as separate tasks: between processes, they are sent instead of the chunks.

    The elements that neighbours need at both ends of a chunk along an axis form one strip, which
    also serves the corners.  Indices near the end of a chunk count from there, so they hold in the
    chunk and in all its strips.  Tasks that need other parts get a strip of their own.
    """

    def __init__(
        self, name: str, blocks: Blocks, sources: Sequence[da.Array], graph: dict[Any, Any]
    ) -> None:
        """`graph` receives the tasks that cut strips."""
        self.name, self.buffers, self.sources = name, blocks.buffers, sources
        self.graph, self.count = graph, 0
        #: Interns equal ways along an axis.
        self.ways: dict[_Ways, _Ways] = {}
        #: The cuts of a task's chunks, by the array and the ways along each axis (by `id`).
        self.cuts: dict[tuple[Any, ...], list[_Cut | None]] = {}
        self.known: dict[tuple[Any, ...], _Cut] = {}
        #: The runs of rows, by the parts along the last axis (by `id`).
        self.runs: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        #: The chunks of each array.
        self.whole: dict[str, _Chunks] = {}

    def adapt(self, k: int, a: int, every: list[Parts]) -> Callable[[Parts], Parts]:
        """The chunks to cut along axis `a` of buffer `k`, given `every` part that tasks read."""
        chunks: Chunks = self.sources[k].chunks
        sizes, whole = chunks[a], prod(max(n, default=0) for n in chunks)
        size: int = whole * self.buffers[k].leaf.type.numpy.itemsize
        ends = [(0, 0)] * len(sizes)

        def narrow(c: int, piece: Piece) -> bool:
            return travels_alone(piece[1] - piece[0], sizes[c], size)

        for chunk, piece in {x for p in every for x in zip(p.chunks, p.pieces, strict=True)}:
            if narrow(chunk, piece):
                (first, last), (_, _, low, high) = ends[chunk], piece
                left = sizes[chunk] - low
                ends[chunk] = (max(first, high), last) if high <= left else (first, max(last, left))

        def adapted(p: Parts) -> Parts:
            pieces, ways = list(p.pieces), list[_Way | None]()
            for i, (c, (begin, end, low, high)) in enumerate(zip(p.chunks, p.pieces, strict=True)):
                n, (first, last) = sizes[c], ends[c]
                if not narrow(c, p.pieces[i]):
                    ways.append(None)
                elif SMALL * (first + last) <= n:
                    cut = tuple(r for r in ((0, first), (n - last, n)) if r[0] < r[1])
                    ways.append(_Way((first + last) / n, cut, False))
                    if high > n - low:
                        pieces[i] = begin, end, low - n, high - n
                else:
                    ways.append(_Way(0.0, ((low, high),), True))
                    pieces[i] = begin, end, 0, high - low
            whole = p.whole and not any(ways)
            every = tuple(ways)
            return Parts(p.chunks, tuple(pieces), whole, self.ways.setdefault(every, every))

        return adapted

    def row(
        self, k: int, position: Sequence[int], along: Sequence[tuple[Parts, ...]]
    ) -> list[Sequence[Any]]:
        """The keys that each task of a row reads of buffer `k`."""
        source = self.sources[k].name
        whole = self.whole.get(source)
        if whole is None:
            whole = self.whole[source] = _Chunks(self.sources[k])
        if not along or not along[0]:
            return [whole.keys] * len(along)
        made: list[Sequence[Any]] = []
        for at, n in self._runs(along):
            axes = along[at]
            cuts = self.cuts.get((source, *[id(p.ways) for p in axes]))
            if cuts is None:
                cuts = self._cuts(source, axes)
            chunks = [first + c for first in whole.firsts(axes[:-1]) for c in axes[-1].chunks]
            columns = [
                whole.keys[k : k + n] if cut is None else self._strips(cut, k, n, whole)
                for k, cut in zip(chunks, cuts, strict=True)
            ]
            made += zip(*columns, strict=True) if columns else [()] * n
        return made

    def _runs(self, along: Sequence[tuple[Parts, ...]]) -> list[tuple[int, int]]:
        """Runs (first task, length) of adjacent tasks that read the same parts, each of chunks one
        further along the last axis."""
        *others, last = zip(*along, strict=True)
        if any(len(set(map(id, axis))) > 1 for axis in others):
            return [(at, 1) for at in range(len(along))]
        key = tuple(map(id, last))
        found = self.runs.get(key)
        if found is None:
            found = self.runs[key] = _runs(last)
        return found

    def _strips(self, cut: _Cut, first: int, n: int, whole: _Chunks) -> list[Any]:
        """The keys of a part of `n` chunks along the last axis."""
        found = list(map(cut.keys.get, range(first, first + n)))
        if None in found:
            new = [first + k for k, key in enumerate(found) if key is None]
            keys = [(self.name, k) for k in range(self.count, self.count + len(new))]
            self.count += len(new)
            cut.keys.update(zip(new, keys, strict=True))
            self.graph.update(
                (key, (strip_of, whole.keys[k], cut.ranges))
                for k, key in zip(new, keys, strict=True)
            )
            found = list(map(cut.keys.get, range(first, first + n)))
        return found

    def _cuts(self, source: str, axes: Sequence[Parts]) -> list[_Cut | None]:
        """The cut of each chunk of a task."""
        found: list[_Cut | None] = []
        for ways in product(*(p.ways for p in axes)):
            if not any(ways):
                found.append(None)
                continue
            chosen: Sequence[_Way | None] = ways
            if not any(way is not None and way.alone for way in ways):  # the smallest one serves
                _, axis = min((way, a) for a, way in enumerate(ways) if way is not None)
                chosen = [way if a == axis else None for a, way in enumerate(ways)]
            ranges = tuple(None if way is None else way.cut for way in chosen)
            found.append(self.known.setdefault((source, ranges), _Cut(ranges, {})))
        self.cuts[(source, *[id(p.ways) for p in axes])] = found
        return found


def _runs(last: Sequence[Parts]) -> list[tuple[int, int]]:
    """The runs of tasks that differ only along the last axis."""
    found: list[tuple[int, int]] = []
    before: Parts | None = None
    for at, p in enumerate(last):
        chunks = p.chunks
        further = (
            before is not None and before.ways is p.ways and len(chunks) > 0
            and chunks[0] - before.chunks[0] == chunks[-1] - before.chunks[-1] == 1
            and chunks[-1] - chunks[0] == len(chunks) - 1
        )  # fmt: skip
        if further:
            first, n = found[-1]
            found[-1] = first, n + 1
        else:
            found.append((at, 1))
        before = p
    return found


class _Way(NamedTuple):
    """How a chunk is cut along an axis: into the ranges `cut`, a fraction `share` of its size.
    `alone`: the ranges serve a single task."""

    share: float
    cut: tuple[tuple[int, int], ...]
    alone: bool


_Ways = tuple[_Way | None, ...]


class _Cut(NamedTuple):
    """Ranges along each axis, and the keys of the cut chunks by chunk number."""

    ranges: tuple[Any, ...]
    keys: dict[int, Any]


def _array(graph: HighLevelGraph, name: str, chunks: Chunks, type_: Any) -> da.Array:
    return da.Array(
        graph, name, chunks, dtype=type_.numpy, meta=np.empty((0,) * len(chunks), type_.numpy)
    )


def _named(name: str, chunks: Chunks, type_: Any) -> da.Array:
    """An array whose graph is not known yet."""
    return _array(HighLevelGraph({name: {}}, {name: set()}), name, chunks, type_)


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

"""Sorting an array of rank 1 by samples: each chunk separately, then each part of the result from
the elements of all chunks that may belong to it.

These elements are found from a few samples of every chunk (`dsl/libraries/sort.py`), so each
element moves once, and the chunks of the result have the extents of those of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.dsl.expr import Expr, Extent, Index, Param, Read, walk
from treadle.dsl.graph import Generate, Input, Label, Leaf, Library, Node, Output
from treadle.dsl.libraries.base import builtin
from treadle.dsl.types import ScalarType, int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Axis, Known, Numbers, edges
from .engine import Engine
from .localise import Blocks, Buffer, NoRule, Result
from .program import BlockProgram

#: The samples of a chunk per chunk of the array: a part of the result reads at most 2 / SAMPLES
#: more elements than it has.
SAMPLES = 8


#: Adds blocks to a plan as a stage, and returns the arrays of their results.
Add = Callable[[Blocks], list[Leaf]]
#: Makes an array of numbers a constant of the plan.
Constant = Callable[[Any], Leaf]


@dataclass
class Writer:
    """Writes the program of blocks by hand: arrays it reads, numbers, and results."""

    engine: Engine
    of: Node
    name: str | None
    buffers: list[Buffer] = field(default_factory=list)
    numbers: dict[Param, Any] = field(default_factory=dict)

    def reads(self, leaf: Leaf, low: Sequence[Any], high: Sequence[Any],
              windows: Leaf | None = None, flat: tuple[Numbers, Numbers] | None = None
              ) -> Leaf:  # fmt: skip
        """The elements `low` … `high` − 1 of an array, as an argument of the program."""
        rank = 1 if flat is not None else len(low)
        given = Input(f"in{len(self.buffers)}", leaf.type, (False,) * rank, kind="argument")
        first, last = ([np.asarray(n, np.int64) for n in side] for side in (low, high))
        self.buffers.append(Buffer(leaf, given, first, last, [False] * len(low), flat, windows))
        return given.leaf()

    def all(self, leaf: Leaf, *extents: int) -> Leaf:
        return self.reads(leaf, [0] * len(extents), extents)

    def number(self, name: str, value: Any, type_: ScalarType = int64) -> Param:
        made = Param(name, type_)
        self.numbers[made] = np.asarray(value, type_.numpy)
        return made

    def all_numbers(self, roots: Sequence[Expr], known: Known) -> dict[Expr, Expr]:
        """The run-time numbers in expressions that read no array."""
        found: dict[Expr, Expr] = {}
        for e in walk(roots):
            if isinstance(e, Read):
                raise NoRule("its combination or its initial value reads an array")
            if isinstance(e, Param):
                found[e] = self.number(e.name, known.values[e], e.type)
            elif isinstance(e, Extent):
                found[e] = self.number("n", known.number(e) or 0)
        return found

    def made(self, roots: Sequence[Leaf], results: Sequence[Result], axis: Axis | None) -> Blocks:
        label = Label(self.of.label.operation, self.name)
        used = list(self.numbers)
        given = [b.input for b in self.buffers]
        program = BlockProgram.over(roots, self.engine, given, used, self.of.label.operation)
        return Blocks(self.of.with_(label=label, checks=()), program, self.buffers, list(results),
                      [] if axis is None else [axis], list(self.numbers.values()))  # fmt: skip


def library(name: str, parameters: tuple[Any, ...], arguments: Sequence[Leaf],
            outs: Sequence[tuple[Sequence[Any], ScalarType]]) -> Library:  # fmt: skip
    """A built-in operation on arrays; `outs`: shapes and types of its results."""
    shapes = (tuple(at.integer(n) if isinstance(n, int) else n for n in s) for s, _ in outs)
    made = tuple(Output(s, t) for s, (_, t) in zip(shapes, outs, strict=True))
    return Library(builtin(name, parameters), tuple(arguments), made, label=Label(name))


def sort(node: Library, sizes: Sequence[int], engine: Engine, add: Add, constant: Constant
         ) -> Blocks:  # fmt: skip
    """The last stage of `sort` or `argsort` of an array in these chunks; adds earlier ones."""
    (given,) = node.arguments
    count, total = len(sizes), sum(sizes)
    axis = Axis(total, tuple(sizes), 0, rank=1)
    step = max(max(sizes) // (SAMPLES * count), 1)
    runs, samples = _runs(node, given, axis, step, engine, add)
    lengths, ranks = constant(sizes), constant(edges(sizes))

    writer = Writer(engine, node, "sort_boundaries")
    arguments = [
        writer.all(samples, sum(-(-n // step) for n in sizes)),
        writer.all(lengths, count),
        writer.all(ranks, count + 1),
    ]
    twice = 2 * (count + 1)
    outs = [((twice,), given.type), ((twice, 2), int64)]
    made = library("sort_boundaries", (step,), arguments, outs)
    keys, where = add(writer.made(made.leaves, _whole(outs), None))

    windows, skipped = windows_of(
        node, engine, add, constant, (runs[0], axis), (keys, where), ranks, count
    )
    writer = Writer(engine, node, node.label.name)
    most = np.minimum(axis.high - axis.low + 2 * (count + 1) * step, total)
    parts = [writer.reads(x, [0 * most], [most], windows) for x in runs]
    skip = writer.reads(skipped, [axis.numbers()], [axis.numbers() + 1]).at(at.integer(0))
    extent = writer.number("extent", axis.high - axis.low)
    of = parts[0]
    ordered = library(node.operation.name, (0,), [of], [(of.shape, node.outs[0].type)])
    element = ordered.leaves[0].at(Index(0) + skip)
    if len(parts) > 1:
        element = parts[1].at(element)
    last = Generate((extent,), (element,), label=node.label, where=node.where)
    blocks = writer.made(last.leaves, [Result((total,), (axis,), node.outs[0].type)], axis)
    blocks.notes.append("every chunk is sorted, then each part of the result from parts of all")
    return blocks


def windows_of(
    node: Node,
    engine: Engine,
    add: Add,
    constant: Constant,
    run: tuple[Leaf, Axis],
    boundaries: tuple[Leaf, Leaf],
    ranks: Leaf,
    parts: int,
) -> tuple[Leaf, Leaf]:
    """For each part of a result and each run, the range of elements it consists of, and the
    number of elements before them (`sort_windows`); parts are separated by boundaries
    (`sort_boundaries`)."""
    runs, axis = run
    count, twice = axis.count, 2 * (parts + 1)
    writer = Writer(engine, node, "sort_ranks")
    own = writer.reads(runs, [axis.low], [axis.high])
    number = writer.reads(constant(range(count)), [axis.numbers()], [axis.numbers() + 1])
    keys, where = boundaries
    arguments = [own, number, writer.all(keys, twice), writer.all(where, twice, 2)]
    counted = library("sort_ranks", (), arguments, [((twice, 1), int64)])
    result = Result((twice, count), (None, axis.counting()), int64)
    (before,) = add(writer.made(counted.leaves, [result], axis))
    writer = Writer(engine, node, "sort_windows")
    arguments = [
        writer.all(before, twice, count),
        writer.all(constant(axis.start.reshape(-1)), count),
        writer.all(ranks, parts + 1),
    ]
    outs = [((parts, count, 2), int64), ((parts,), int64)]
    made = library("sort_windows", (), arguments, outs)
    windows, skipped = add(writer.made(made.leaves, _whole(outs), None))
    return windows, skipped


def _runs(node: Library, given: Leaf, axis: Axis, step: int, engine: Engine, add: Add
          ) -> tuple[list[Leaf], Leaf]:  # fmt: skip
    """The sorted chunks of an array (for `argsort`, their elements' indices), and samples."""
    writer = Writer(engine, node, "sort_runs")
    part = writer.reads(given, [axis.low], [axis.high])
    ordered = library(node.operation.name, (0,), [part], [(part.shape, node.outs[0].type)])
    roots = [ordered.leaves[0]]
    if node.operation.name == "argsort":
        index = roots[0].at(Index(0))
        elements = part.at(index), index + writer.number("origin", axis.low)
        roots = list(Generate(part.shape, elements, label=Label("run")).leaves)
    counts = tuple(-(-n // step) for n in axis.sizes)
    few = Axis(sum(counts), counts, 0, rank=1)
    shape = (writer.number("samples", few.high - few.low),)
    sample = roots[0].at(Index(0) * writer.number("step", step))
    roots += Generate(shape, (sample,), label=Label("samples")).leaves
    results = [Result((axis.extent,), (axis,), leaf.type) for leaf in roots[:-1]]
    results.append(Result((few.extent,), (few,), given.type))
    *runs, samples = add(writer.made(roots, results, axis))
    return runs, samples


def _whole(outs: Sequence[tuple[tuple[int, ...], ScalarType]]) -> list[Result]:
    return [Result(shape, (None,) * len(shape), type_) for shape, type_ in outs]

"""The lines of `explain` about a plan: blocks, halos, bytes moved, tasks and memory of every
stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from treadle.dsl.graph import Node
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import in_bytes

from .domain import Axis, Chunks
from .engine import Engine
from .localise import Buffer
from .memory import elements, projected
from .plan import Planner
from .stages import Either, Gathered, Later, Plan, Repeat, Stage
from .tasks import count, traffic


def remarks(
    program: TracedProgram,
    engine: Engine,
    where: str,
    chunks_of: Callable[[int, Sequence[int], int], Chunks],
) -> list[str]:
    """The stages of a program for its example extents; `where`: where its arrays are; `chunks_of`:
    the chunks of an argument, given its number, its extents and the bytes of an element."""
    if program.example_shapes is None or len(program.example_numbers) != len(program.params):
        return [f"The blocks {where} follow from the arguments: f.lower(*args)."]
    captured = [node.source for node in program.inputs[len(program.arguments) :]]
    shapes = [*program.example_shapes, *(tuple(c.shape) for c in captured)]
    chunks = [
        chunks_of(k, shape, node.type.numpy.itemsize)
        for k, (shape, node) in enumerate(zip(shapes, program.inputs, strict=True))
    ]
    numbers = program.numbers([*program.arguments, *captured], program.example_numbers)
    plan = Planner(program, shapes, chunks, numbers, engine).plan
    stages, described = list(plan.every()), _described(plan)
    gathers = list(plan.gathers())
    tasks = [count(s.blocks) for s in stages] + [_asked(g, plan)[0] for g in gathers]
    needed = [projected(s.blocks) for s in stages] + [_asked(g, plan)[1] for g in gathers]
    lines = [f"{where[0].upper()}{where[1:]}: {_counted(len(tasks), 'stage')}, "
             f"{_counted(sum(tasks), 'task')}, {in_bytes(max(needed, default=0))} "
             f"for the largest task, which may use {in_bytes(engine.allowed)}."]  # fmt: skip
    first = 0
    for k, text in enumerate(described):
        if k + 1 == len(described) or described[k + 1] != text:  # merge equal windows of a loop
            number = str(k + 1) if first == k else f"{first + 1} to {k + 1}"
            lines += [f"  {number}. {text[0]}", *text[1:]]
            first = k + 1
    return lines


def _described(plan: Plan) -> list[list[str]]:
    """The lines about each stage."""
    lines: list[list[str]] = []
    for part in plan.parts():
        match part:
            case Stage():
                lines.append(_stage(part, plan))
            case Repeat():
                label = f"{part.node.label}{_where(part.node)}"
                for when, steps in (("before", part.test), ("at", part.step)):
                    lines += [
                        [*t, f"     {when} every iteration of {label}"] for t in _described(steps)
                    ]
            case Either():
                label = f"{part.node.label}{_where(part.node)}"
                for holds, side in zip(("", "not "), part.sides, strict=True):
                    lines += [[*t, f"     if the predicate of {label} does {holds}hold"]
                             for t in _described(side)]  # fmt: skip
            case Gathered():
                lines.append(_gathered(part, plan))
            case Later():
                what = f"{part.node.label}{_where(part.node)}"
                names = ", ".join(f"{leaf.node.label}{_where(leaf.node)}" for leaf in part.needs)
                lines.append([
                    f"{what} and what follows: planned when the function is called",
                    f"     extents or checks depend on what arrays hold: {names}",
                ])  # fmt: skip
    return lines


def _asked(part: Gathered, plan: Plan) -> tuple[int, int]:
    """The tasks of a gather, and the bytes of the largest: answers, and a block of them."""
    found = plan.chunks[part.leaves[0]]
    blocks, positions = (prod(map(len, c)) for c in (found, plan.chunks[part.positions]))
    chunks = prod(len(plan.chunks[part.source][a]) for a in part.axes)
    itemsize = part.source.type.numpy.itemsize
    return positions + blocks * (chunks + 1), 2 * prod(map(max, found)) * itemsize


def _gathered(part: Gathered, plan: Plan) -> list[str]:
    chunks = prod(len(plan.chunks[part.source][a]) for a in part.axes)
    found, (tasks, needed) = plan.chunks[part.leaves[0]], _asked(part, plan)
    grid = " × ".join(str(len(sizes)) for sizes in found if len(sizes) > 1) or "1"
    moved = prod(map(sum, found)) * part.source.type.numpy.itemsize
    return [
        f"gather{_where(part.node)}: a grid of {grid} blocks of elements of "
        f"{part.source.node.called()} at computed positions, {_counted(tasks, 'task')} of up to "
        f"{in_bytes(needed)}",
        f"     {_counted(chunks, 'chunk')} asked for each block, {in_bytes(moved)} in answers",
    ]


def _where(node: Node) -> str:
    return "" if node.where is None else f" at {node.where.short()}"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _stage(stage: Stage, plan: Plan) -> list[str]:
    blocks = stage.blocks
    label = blocks.node.label
    grid = " × ".join(map(str, blocks.grid)) or "1"
    lines = [
        f"{label}{_where(blocks.node)}: a grid of {grid} blocks{_size(blocks.axes)}, "
        f"{_counted(count(blocks), 'task')} of up to {in_bytes(projected(blocks))}"
    ]
    halos = [
        f"{a.before} before and {a.after} after along axis {k}{' (periodic)' * a.periodic}"
        for k, a in enumerate(blocks.axes) if a.before or a.after
    ]  # fmt: skip
    if halos:
        lines.append(f"     halo: {', '.join(halos)}")
    read, moved = traffic(blocks, [plan.chunks[b.leaf] for b in blocks.buffers])
    lines.append(f"     reads {in_bytes(read)}, of which {in_bytes(moved)} from other chunks than "
                 "its largest")  # fmt: skip
    if count(blocks) > 1:
        for buffer in blocks.buffers:
            sizes = plan.chunks[buffer.leaf]
            total = prod(map(sum, sizes))
            if elements(buffer) == total and total > 1 and buffer.low:
                lines.append(f"     every task reads all of {buffer.leaf.node.called()}")
            elif buffer.windows is None:
                lines += [f"     {text}" for text in _rechunked(buffer, sizes, bool(halos))]
    return lines + [f"     {note}" for note in blocks.notes]


def _rechunked(buffer: Buffer, chunks: Chunks, halo: bool) -> list[str]:
    """The axes along which blocks need several chunks of an array, not counting halos."""
    lines, name = [], buffer.leaf.node.called()
    for axis, (low, high, sizes) in enumerate(zip(buffer.low, buffer.high, chunks, strict=True)):
        ends, needed = np.cumsum(sizes), high - low
        first, last = (np.searchsorted(ends, at, "right") for at in (low, high - 1))
        if not ((first != last) & (needed > 0)).any():
            continue
        if (needed == ends[-1]).all():
            lines.append(f"rechunks {name}: every block needs axis {axis} whole, "
                         f"which is in {len(sizes):,} chunks")  # fmt: skip
        elif not halo:
            lines.append(f"rechunks {name}: blocks need up to {needed.max():,} indices of axis "
                         f"{axis}, in chunks of up to {max(sizes):,}")  # fmt: skip
    return lines


def _size(axes: Sequence[Axis]) -> str:
    sizes = [max(a.sizes) for a in axes]
    return f" of up to {' × '.join(f'{n:,}' for n in sizes)} elements" if sizes else ""

"""Kernels without a rule: one task computes all of their results from whole arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from treadle.dsl import graph
from treadle.dsl.expr import Const, Expr, Extent, Param, walk
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.graphs.rebuild import Rebuilder
from treadle.dsl.libraries.base import is_builtin
from treadle.dsl.types import int64

from .domain import Known
from .engine import Engine
from .localise import (
    Blocks,
    Buffer,
    NoRule,
    Result,
    extents_of,
    of_constant_extents,
    require_travel,
)
from .program import BlockProgram


def whole(
    node: Node,
    known: Known,
    outside: Collection[Node],
    engine: Engine,
    params: Sequence[Param],
    why: str,
) -> Blocks:
    """A node in one block; `outside`: the nodes whose results are stored."""
    inner, needed = inside(node, outside)
    for n in inner:
        if isinstance(n, graph.Library) and not is_builtin(n.operation) and engine.separate:
            raise NoRule(
                f"{n.label} calls a Python function, which cannot travel to other processes"
            )
        for e in walk(n.expressions()):
            require_travel(e, n, engine)
    results = [
        Result(extents_of(o.shape, known, node), (None,) * len(o.shape), o.type)
        for o in node.outputs
    ]
    builder = Rebuilder()
    by_library = any(isinstance(n, graph.Library) for n in inner)
    buffers: list[Buffer] = []
    for leaf in needed:
        shape = extents_of(leaf.shape, known, node)
        made = graph.Input(
            f"in{len(buffers)}", leaf.type, tuple(n == 1 for n in shape), kind="argument"
        )
        buffers.append(Buffer.whole(leaf, made, shape))
        same = (w if by_library and isinstance(w, Const) else n
                for w, n in zip(leaf.shape, made.shape, strict=True))  # fmt: skip
        at_all = made.leaf().at(*graph.indices(len(shape)))
        builder.leaves[leaf] = of_constant_extents(at_all, tuple(same))
        for written, own in zip(leaf.shape, made.shape, strict=True):
            if isinstance(written, Extent):
                builder.memo.setdefault(written, own)
    numbers: list[Any] = [known.values[p] for p in params]
    more: list[Param] = list(params)
    for n in inner:
        for e in walk(_all_expressions(n)):
            if isinstance(e, Extent) and e not in builder.memo:
                if known.number(e) is None:
                    continue  # part of a loop's state
                builder.memo[e] = param = Param("n", int64)
                more.append(param)
                numbers.append(np.asarray(np.int64(known.number(e) or 0)))
    for n in inner:
        if isinstance(n, graph.Input):
            builder.nodes[n] = copied = n.copy()
            for a, e in enumerate(n.shape):
                if e is Extent(n, a):
                    builder.memo[e] = Extent(copied, a)
            copied.of_shape(builder.exprs(n.shape))
            continue
        again = builder.over(n, builder)
        label = graph.Label(
            again.label.operation, again.label.name, None, again.label.deterministic
        )
        again = again.with_(label=label)
        if again is not n:
            builder.nodes[n] = again
    made_node = builder.nodes.get(node, node)
    given = [b.input for b in buffers]
    program = BlockProgram.over(made_node.leaves, engine, given, more, node.label.operation)
    return Blocks(node, program, buffers, results, [], numbers, [f"computed whole: {why}"])


def _bound(n: Node) -> list[Leaf]:
    return [s.leaf() for s in n.bound] if isinstance(n, graph.ArrayLoop) else []


def _all_expressions(n: Node) -> tuple[Expr, ...]:
    sides = tuple(e for c in n.checks for e in (c.left, c.right))
    if isinstance(n, graph.Input):
        return n.shape
    return (*n.expressions(), *n.host_expressions(), *sides)


def why_one(node: Node) -> str:
    """Why a kernel that reads an array in parts is not cut."""
    match node:
        case graph.Scan() | graph.Recurrence() | graph.Library():
            return "it goes along the rows, which are complete in a block"
        case graph.Fold():
            return "what it folds is complete in a block"
    return "it has no axis that can be cut"


def inside(node: Node, outside: Collection[Node]) -> tuple[list[Node], list[Leaf]]:
    """The nodes computed together with a node, dependencies first, and the arrays they use."""
    found: dict[Node, None] = {node: None}
    needed: dict[Leaf, None] = {}
    pending = [node]
    while pending:
        n = pending.pop()
        for leaf in (*n.inputs(), *n.inside(), *_bound(n)):
            if leaf.node in outside:
                needed[leaf] = None
            elif leaf.node not in found:
                found[leaf.node] = None
                pending.append(leaf.node)
    order = {n: k for k, n in enumerate(graph.topological(node.leaves))}
    return sorted(found, key=lambda n: order.get(n, -1)), list(needed)

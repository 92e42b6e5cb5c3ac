"""Compact, on a CPU: the sources that fit, stored one after the other.

    tasks                          blocks of `Compact.BLOCK` sources
      for i (vector)               mark[i] = whether source i fits
      for 64 marks, if any is set
        for i                      chosen[count] = i;  count += mark[i]
      for k < count (vector)       out[first + k] = the value of source chosen[k]

Only sources that fit compute a value, so a mask may guard what these read.
"""

from __future__ import annotations

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import simple_combine
from treadle.dsl.expr import FALSE, Expr, Index, Var, constant
from treadle.dsl.graph import Compact
from treadle.dsl.types import bool_, int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Load, Lowered, Store
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder, LoweringContext
from ..combining import compute, reduce_range

#: Marks that are tested at a time.
TESTED = 64


def lower_compact(node: Compact, context: LoweringContext) -> Lowered:
    """One kernel."""
    builder = Builder(node, context)
    outs = builder.outputs("update")
    (n,) = node.domain
    roots = (node.valid, *node.target, *node.values)
    valid, target, *values = transform.resolve(roots, builder, node.domain)
    (marks,) = builder.local("mark", [bool_], Compact.BLOCK)
    (chosen,) = builder.local("chosen", [int64], Compact.BLOCK)
    into, task = builder.emitter(), Var("task", int64)
    start, stop = tiling.block_range(into, "source", task, Compact.BLOCK, builder.extent(n))
    with into.loop("i", start, stop, "vector") as i:
        builder.stays_below(i, n)
        with into.when_always({Index(0): i}):
            into.append(Store(marks, at.subtract(i, start), into.value(valid)))
    count = into.declare(constant(0), "count")
    length = into.let(at.subtract(stop, start), "length")

    def mark(_: Linearizer, k: Expr) -> tuple[Expr, ...]:
        return (Load(marks, k),)

    with into.loop("group", 0, length, step=TESTED) as group:
        end = into.let(at.minimum(at.add(group, TESTED), length), "group_end")
        some = into.declare(FALSE, "some")
        reduce_range(into, simple_combine("logical_or", bool_), (some,), group, end, mark)
        with into.when(some), into.loop("k", group, end) as k:
            one = simplify.cast(Load(marks, k), int64)
            into.append(Store(chosen, count, k), Assign(count, at.add(count, one)))
    with into.when_always({Index(0): start}):
        first = into.let(into.value(target), "first")
    with into.loop("k", 0, count, "vector") as k:
        source = into.let(at.add(start, Load(chosen, k)), "chosen")
        builder.stays_below(source, n)
        compute(into, outs, (source,), (), values, at.add(first, k))
    tasks = builder.scalar(at.ceil_div(n, Compact.BLOCK), "blocks")
    builder.notes.append(f"blocks of {Compact.BLOCK} elements, of which those that fit are stored")
    return builder.lowered(builder.kernel("", tasks, task, tuple(into.out)))

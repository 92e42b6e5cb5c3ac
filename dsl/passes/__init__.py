"""The rewrite passes, in one list, in the order in which they run.

Each pass maps the roots of an array graph to roots with the same meaning.  `History` contains the
graph after each pass; tests verify each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph import Input, Leaf, topological
from ..graphs import rebuild
from ..node import remembered_orders
from ..operations.algebra.product_way import ProductWay
from ..operations.common import label_of, require_order
from ..process.configuration import Settings
from ..target import target_of
from .arguments import join_extremes, single_pass_arguments
from .base import Context
from .columns import unroll_columns
from .compaction import recognise_compaction
from .convolutions import recognise_convolution
from .counted import recognise_counted
from .crossed import cross_folds
from .dense import dense_updates
from .epilogues import fuse_epilogues
from .extents import unify_extents
from .factors import factor_in_place
from .flattened import split_flattened
from .fma import form_fma
from .folded_products import fold_products, store_operands
from .guard import guard_reads
from .halves import widen_halves
from .horizontal import fuse_arguments, fuse_horizontal, fuse_shared
from .in_place import fuse_in_place
from .iteration_tests import decide_counters
from .neighbours import recognise_neighbours
from .partitions import sort_partitions
from .pin import pin_order
from .planes import split_planes
from .recognise import recognise_histogram, recognise_matmul
from .recorded import record_in_place
from .recurrence import recognise_recurrence
from .separable import recognise_separable
from .sequences import recognise_sequence
from .short_axes import unroll_short
from .short_folds import fold_windows
from .small_products import unroll_small_products
from .stacked import unroll_stacked
from .store_first import store_first
from .stored_folds import store_in_folds
from .tested import drop_marks
from .turned import turn_axes
from .unread import drop_unread
from .updates import fuse_updates
from .vertical import fuse_vertical
from .walked_updates import fuse_walked_updates
from .walks import split_walks

Pass = Callable[[Sequence[Leaf], Context], "list[Leaf]"]


PASSES: tuple[tuple[str, Pass], ...] = (
    ("widen_halves", widen_halves),  # 16-bit floats are summed in float32
    ("unify_extents", unify_extents),  # equal extents become one
    ("drop_marks", drop_marks),  # stop(x) → x; also(0, x[i]) → 0, unless indices are tested
    ("sort_partitions", sort_partitions),  # where no library selects
    ("factor_in_place", factor_in_place),  # on a GPU: potrf, then clear a triangle
    ("recognise_counted", recognise_counted),  # while k < n: k += 1 → a counted loop
    ("dense_updates", dense_updates),  # a[1:] = b: where(1 <= i, b[i - 1], a[i])
    ("single_pass_arguments", single_pass_arguments),  # argmax in one pass
    ("fuse_arguments", fuse_arguments),  # argmin and min of one array
    ("recognise_convolution", recognise_convolution),  # windows · weights: a sum over the axes
    ("recognise_separable", recognise_separable),  # 9 × 9 box → 9 + 9
    ("form_fma", form_fma),  # a·b + c inside one operation
    ("split_planes", split_planes),  # loops over stacks become loops over arrays
    ("recognise_recurrence", recognise_recurrence),  # loops element by element
    ("unroll_small_products", unroll_small_products),  # tiny products in loops become sums
    ("unroll_stacked", unroll_stacked),  # folds along the axis of a stack
    ("unroll_short", unroll_short),  # Σ over 3 coordinates is an expression
    ("unroll_columns", unroll_columns),  # t.at[i].add(stack([x, y], axis=1)): by column
    ("fuse_shared", fuse_shared),  # Σ w·u and Σ w·v of a computed w
    ("fuse_vertical", fuse_vertical),  # producers into consumers
    ("decide_counters", decide_counters),  # for k < n: if k < n: … without the test
    ("turn_axes", turn_axes),  # store arrays transposed if read so
    ("split_walks", split_walks),  # take out work independent of the state
    ("recognise_compaction", recognise_compaction),  # a[mask] without all positions
    ("recognise_matmul", recognise_matmul),  # Σ a[i, k]·b[k, j]
    ("fuse_updates", fuse_updates),  # g[i] += x; g[j] += y
    ("fuse_walked_updates", fuse_walked_updates),  # s = f(s, x[k]); c[k] = s; h[c[k]] += 1
    ("recognise_histogram", recognise_histogram),  # target[index] += 1
    ("fold_windows", fold_windows),  # max over 2 × 2 elements: loops
    ("fuse_in_place", fuse_in_place),  # results read at the same index
    ("fuse_horizontal", fuse_horizontal),  # independent kernels over the same extents
    ("fuse_epilogues", fuse_epilogues),  # consumers into the write-back
    ("join_extremes", join_extremes),  # max and argmax of one array
    ("split_flattened", split_flattened),  # a[p // m, p % m] over p: a[i, j] over i, j
    ("recognise_neighbours", recognise_neighbours),  # u[(i − 1) mod n] is one; u[i] read once
    ("drop_unread", drop_unread),  # components read only in registers
    ("record_in_place", record_in_place),  # u, s = f(u), update(s, k, u): s[k + 1] = f(s[k])
    ("store_first", store_first),  # a = update(a, k, f(a)): f(a), then in place
    ("recognise_sequence", recognise_sequence),  # loops that write one element
    ("guard_reads", guard_reads),  # where(p, a[i - 1], x) reads only where p
    ("pin_order", pin_order),  # deterministic=True where it has an effect
    ("cross_folds", cross_folds),  # r = a @ x and r @ a in one pass
    ("fold_products", fold_products),  # y = (x − c) @ a and Σ_j f(y)[i, j] in one pass
    ("store_in_folds", store_in_folds),  # g = f(x) and Σ g in one pass
    ("store_operands", store_operands),  # g, Σ_k g[k, j] and a @ g in one pass
)


@dataclass
class History:
    """The roots after every pass, and the decisions of the passes."""

    roots: list[Leaf]
    stages: list[tuple[str, list[Leaf]]] = field(default_factory=list)
    context: Context | None = None

    def inputs(self, written: Sequence[Input]) -> tuple[Input, ...]:
        """The inputs that replace those of the graph as written, in the same order."""
        others = {} if self.context is None else self.context.inputs
        return tuple(others.get(node, node) for node in written)


def run_passes(
    roots: Sequence[Leaf], settings: Settings, backend: str, in_parts: bool = False
) -> History:
    """Apply the passes in order.  The reference backend interprets the graph as written, except for
    the first pass, which is part of its meaning.  `in_parts`: arrays are partitioned over several
    devices."""
    context = Context(settings, backend, in_parts)
    history = History(list(roots), context=context)
    with remembered_orders():
        for name, run in PASSES if target_of(backend).kernels else PASSES[:1]:
            history.roots = run(history.roots, context)
            history.stages.append((name, history.roots))
    return history


def reschedule(roots: Sequence[Leaf], schedules: dict[str, Any]) -> list[Leaf]:
    """Set schedules, or ways to compute products, by an operation's name or number (`#3`)."""
    if not schedules:
        return list(roots)
    builder = rebuild.Rebuilder()
    number = 0
    for node in topological(roots):
        if isinstance(node, Input):
            builder.take(node)
            continue
        number += 1
        made = builder.node(node)
        wanted = schedules.get(f"#{number}")
        if node.label.name:
            wanted = schedules.get(node.label.name, wanted)
        if isinstance(wanted, ProductWay):
            made = wanted.put_on(made)
        elif wanted is not None:
            old = node.label
            label = label_of(old.operation, old.name, wanted, old.deterministic)
            require_order(node, label)
            made = made.with_(label=label)
        builder.replace(node, made)
    return [builder.leaf(r) for r in roots]


__all__ = ["History", "reschedule", "run_passes", "topological"]

"""recognise_matmul, recognise_histogram: replace idioms for which a better kernel exists.

* A sum of products over replicated rows and columns — `fold(+, 0, map(*, replicate…))`, written
  in any way that fuses to Σₖ a[…, i, k]·b[…, k, j] — is a matrix product.
* A permute that adds the same constant at every index is a histogram: skeletons count in 32 bits,
  whatever the type, and multiply at the end (a warp of a GPU counts an index once).

An explicit schedule on the fold disables recognition: a naive product under a column order is
executed as written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import graph
from ..analysis.short_extents import SHORT_AXIS
from ..expr import Apply, Const, Expr, Index, Read, substitute, walk
from ..graph import Leaf, Node
from ..graphs.rebuild import replace_nodes
from ..operations.algebra.products import MatmulOptions
from ..types import ScalarType
from .base import Context
from .tested import may_be_outside

#: The fewest elements of a target that is counted in bytes.
BYTE_COUNTS = 1 << 17


def recognise_matmul(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    if not context.settings.recognise:
        return list(roots)
    rounded = _rounded_to_halves(roots)

    def change(node: Node, same: Node) -> Node | Sequence[Leaf]:
        made = _as_matmul(same, node in rounded)
        if made is not None and not (context.settings.check and _may_be_outside(same)):
            # (In a checked program only if it may read its operands by strides.)
            said = f"{node.label}: a sum of products over rows and columns is a matmul"
            context.notes.append(said)
            return made
        as_it_is = _converting_nothing(same) if same is not node else None
        return same if as_it_is is None else [as_it_is]

    return replace_nodes(roots, change, context.kept)


def recognise_histogram(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Note counting permutes for `explain()`; lowering recognises them by `is_count`."""
    for node in graph.topological(roots):
        if (
            isinstance(node, graph.Permute)
            and node.combine is not None
            and not node.label.deterministic
        ):
            counted = [is_count(node.combine, k, v) for k, v in enumerate(node.values)]
            if context.settings.recognise and all(counted):
                context.notes.append(f"{node.label}: adding a constant at every index is a count")
    return list(roots)


def is_count(combine: graph.Combine, component: int, value: Expr) -> bool:
    """Whether a component of a permute adds a constant, in a type that counts exactly."""
    t, result = value.type, combine.results[component]
    exact = t.is_integer or (t.is_float and t.bits >= 32)
    return isinstance(value, Const) and exact and (
        isinstance(result, Apply) and result.op.name == "add"
        and {*result.args} == {combine.left[component], combine.right[component]}
    )  # fmt: skip


def counts_in_bytes(node: graph.Permute) -> bool:
    """Whether a CPU counts in bytes, with carries, so that a large target stays in the cache."""
    size = math.prod(int(n.value) if isinstance(n, Const) else 0 for n in node.defaults[0].shape)
    return (
        node.combine is not None and len(node.values) == 1 and size >= BYTE_COUNTS
        and node.values[0].type.is_integer and is_count(node.combine, 0, node.values[0])
    )  # fmt: skip


def _rounded_to_halves(roots: Sequence[Leaf]) -> dict[Node, ScalarType]:
    """The folds of converted 16-bit floats whose results are all rounded to that type: a product of
    16-bit matrices, which is summed in float32, has that type without a conversion."""
    found: dict[Node, ScalarType] = {}
    order = list(graph.topological(roots))
    for node in order:
        if isinstance(node, graph.Fold) and len(node.elements) == 1:
            e = node.elements[0]
            if isinstance(e, Apply) and e.op.name == "cast" and e.args[0].type.is_narrow:
                found[node] = e.args[0].type
    if not found:
        return found
    for leaf in (*roots, *(x for node in order for x in (*node.operands(), *node.inside()))):
        found.pop(leaf.node, None)
    for node in order:
        own = [*node.expressions(), *(e for c in node.checks for e in (c.left, c.right))]
        used: list[tuple[Expr | None, Expr]] = [(None, e) for e in own]
        used += [(e, x) for e in walk(own) for x in (*e.args, *e.scoped)]
        for by, e in used:
            if not isinstance(e, Read) or e.node not in found:
                continue
            if not (isinstance(by, Apply) and by.op.name == "cast" and by.type == found[e.node]):
                del found[e.node]
    return found


def _converting_nothing(node: Node) -> Leaf | None:
    """The array, for a node that converts a whole array to its own type; else None."""
    if isinstance(node, graph.Generate) and len(node.elements) == 1 and not node.checks:
        e = node.elements[0]
        if graph.is_identity_read(e, len(node.shape)) and isinstance(e, Read):
            source = Leaf(e.node, e.component)
            return source if source.shape == node.shape and not node.label.ordered else None
    return None


def _as_matmul(node: Node, rounded: bool) -> graph.Matmul | None:
    if not isinstance(node, graph.Fold) or len(node.inner) != 1 or len(node.outer) < 2:
        return None
    if node.label.ordered or len(node.elements) != 1 or node.label.deterministic:
        return None
    if node.epilogue != node.results or not _is_zero(node.init) or not _is_sum(node.combine):
        return None
    value = node.elements[0].args[0] if rounded else node.elements[0]
    if not (isinstance(value, Apply) and value.op.name == "multiply"):
        return None
    if all(
        isinstance(e, Const) and int(e.value) <= SHORT_AXIS for e in (*node.inner, node.outer[-1])
    ):
        return None  # rows times a small matrix: a fold fuses with its surroundings
    rank = len(node.outer)
    i, j, k = Index(rank - 2), Index(rank - 1), Index(rank)
    batch = {Index(x) for x in range(rank - 2)}
    a, b = value.args
    if _indices(a) == batch | {k, j}:
        a, b = b, a
    if _indices(a) != batch | {i, k} or _indices(b) != batch | {k, j}:
        return None
    if not (_plain(a) and _plain(b)):
        return None
    left = substitute((a,), {k: Index(rank - 1)})[0]
    right = substitute((b,), {k: Index(rank - 2)})[0]
    return graph.Matmul(node.outer[:-2], node.outer[-2], node.outer[-1], node.inner[0], left, right,
                        MatmulOptions(), label=node.label, where=node.where, checks=node.checks,
                        fused=node.fused)  # fmt: skip


def _may_be_outside(node: Node) -> bool:
    space = node.iteration_space()
    return any(isinstance(e, Read) and may_be_outside(e, space) for e in walk(node.per_element()))


def _is_zero(init: tuple[Expr, ...] | None) -> bool:
    return init is not None and isinstance(init[0], Const) and not init[0].value


def _is_sum(combine: Any) -> bool:
    result = combine.results[0]
    return (
        isinstance(result, Apply) and result.op.name == "add"
        and {*result.args} == {combine.left[0], combine.right[0]}
    )  # fmt: skip


def _indices(e: Expr) -> set[Index]:
    return {x for x in walk((e,)) if isinstance(x, Index)}


def _plain(e: Expr) -> bool:
    """Whether this is a read (possibly cast) whose indices are axes or constants."""
    while isinstance(e, Apply) and e.op.name == "cast":
        e = e.args[0]
    return isinstance(e, Read) and e.boundary is None and all(
        isinstance(a, Index | Const) for a in e.args)  # fmt: skip

"""fuse_horizontal: merge independent kernels over the same extents.

Siblings that share an input then read it once: several maps or stencils over the same shape,
several reductions of the same array.  Several numbers computed by one loop also become one kernel.
Only kernels in the same sides of conds and bodies of loops are merged; otherwise work of a side not
taken, or of a loop without iterations, would be done.  On a GPU an `argmin` is merged with other
folds; a CPU has a special two-pass kernel for it.  On a CPU, permutes to the same indices (sums and
counts over the same bins) are merged, too; a GPU counts in separate kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from .. import graph
from ..analysis.combines import argument_of, is_commutative
from ..analysis.regions import innermost, nests, regions
from ..expr import Expr, Index, Loop, Read, Var, While, substitute, walk
from ..graph import Leaf, Node
from ..graphs.rebuild import Rebuilder
from .base import Context
from .cost import operations
from .recognise import counts_in_bytes

#: The most results of a merged kernel, and the most numbers of a kernel for numbers.
MOST_OUTPUTS, MOST_NUMBERS = 8, 64
#: The least work per element, in additions, for which folds are merged to compute it once.
LEAST_SHARED = 4.0
#: Expressions with more operands than this are not searched for shared ones.
MOST_OPERANDS = 64

#: An array and the axes of the iteration space along which its axes lie (none: anywhere); or a loop
#: that computes numbers.
Operand = tuple[Leaf | Expr, tuple[int, ...]]


def fuse_arguments(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """On a GPU, merge an `argmin` with other folds of the same elements.  This runs before
    producers are inlined into either fold: elements with a single reader can be computed where they
    are read."""
    if not context.target.gpu:
        return list(roots)
    found: dict[Any, list[graph.Fold]] = {}
    for node in graph.topological(roots):
        if isinstance(node, graph.Fold):
            found.setdefault((node.outer, node.inner, node.elements[0]), []).append(node)
    wanted: dict[Node, Set[Operand]] = {
        node: _inputs(node)
        for same in found.values() if any(_is_argument(n) for n in same) for node in same
        if len(same) > 1
    }  # fmt: skip
    return _fuse(roots, context, wanted) if wanted else list(roots)


def fuse_shared(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge folds over the same elements of arrays that take work to compute, before producers are
    inlined: the merged fold is their only reader, so they need not be stored.

    w = f(x[:, None] − x);  sum(w * u, axis=1);  sum(w * v, axis=1)   →   one fold of pairs
    """
    folds = [n for n in graph.topological(roots) if isinstance(n, graph.Fold)]
    spaces = Counter((n.outer, n.inner) for n in folds)
    operands = _Operands()
    wanted: dict[Node, Set[Operand]] = {}
    for node in folds:
        if spaces[node.outer, node.inner] > 1 and argument_of(node.combine) is None:
            found = operands.of(node.elements, node.iteration_space())
            if found:
                wanted[node] = found
    return _fuse(roots, context, wanted) if len(wanted) > 1 else list(roots)


class _Operands:
    """The arrays over a whole iteration space whose elements take work, and that expressions read
    at a permutation of the indices, directly or through other arrays."""

    def __init__(self) -> None:
        self.known: dict[Leaf, Set[Operand]] = {}

    def of(self, elements: Sequence[Expr], space: Sequence[Expr]) -> Set[Operand]:
        found: set[Operand] = set()
        for e in walk(elements):
            if not isinstance(e, Read) or e.boundary is not None:
                continue
            node, leaf = e.node, Leaf(e.node, e.component)
            axes = [a.axis for a in e.args if isinstance(a, Index)]
            if not isinstance(node, graph.Generate) or sorted(axes) != list(range(len(space))):
                continue
            if len(axes) < len(e.args) or [space[a] for a in axes] != list(node.shape):
                continue
            body = (node.elements[e.component],)
            if leaf not in self.known:
                self.known[leaf] = self.of(body, node.shape)
            if operations(body) >= LEAST_SHARED:
                found.add((leaf, tuple(axes)))
            found |= {(x, tuple(axes[k] for k in at)) for x, at in self.known[leaf]}
        return found if len(found) <= MOST_OPERANDS else set()


def fuse_horizontal(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge groups of siblings at the same depth of the graph, between which no path exists."""
    return _fuse(roots, context, None)


def kept_apart(roots: Sequence[Leaf], context: Context) -> list[list[Node]]:
    """Groups of kernels that would be merged if none of them had a schedule."""
    clusters, _ = _siblings(roots, context, None, scheduled=True)
    return [nodes for nodes in clusters if any(node.label.ordered for node in nodes)]


def _siblings(roots: Sequence[Leaf], context: Context, only: Mapping[Node, Set[Operand]] | None,
              scheduled: bool) -> tuple[list[list[Node]], dict[Node, int]]:  # fmt: skip
    """Groups of nodes that can be merged, among the nodes `only` (None: all), with or without those
    that have schedules; and the depth of each node in the graph."""
    depth: dict[Node, int] = {}
    changing = innermost(roots, regions(roots))
    groups: dict[Any, list[Node]] = {}
    nest = nests(roots)
    key: tuple[Any, ...]
    for node in graph.topological(roots):
        needed = [*node.inputs(), *graph.inner_inputs(node)]
        depth[node] = 1 + max((depth[leaf.node] for leaf in needed), default=0)
        if (node.label.ordered and not scheduled) or (only is not None and node not in only):
            continue
        where = changing[node], nest[node]
        if isinstance(node, graph.Generate):
            loops = () if node.shape else _loops(node)
            if node.shape or loops:  # (the host computes other scalars)
                key = ("g", depth[node], node.shape, loops, where)
                groups.setdefault(key, []).append(node)
        elif isinstance(node, graph.Fold) and (
            node.epilogue == node.results or (only is not None and _is_argument(node))
        ):
            key = ("f", depth[node], node.outer, node.inner, _start(node), where)
            groups.setdefault(key, []).append(node)
        elif isinstance(node, graph.Permute) and not context.target.gpu and _is_regroupable(node):
            key = ("p", depth[node], node.domain, node.valid, node.target, node.defaults[0].shape,
                   node.label.deterministic, where)  # fmt: skip
            groups.setdefault(key, []).append(node)
    clusters = [nodes for group in groups.values() for nodes in _clusters(group, only)]
    return [nodes for nodes in clusters if len(nodes) > 1], depth


def _loops(node: graph.Generate) -> tuple[Expr, ...]:
    return tuple(e for e in walk(node.elements) if isinstance(e, Loop | While))


def _fuse(roots: Sequence[Leaf], context: Context,
          only: Mapping[Node, Set[Operand]] | None) -> list[Leaf]:  # fmt: skip
    """`fuse_horizontal` of the nodes `only` (None: all) that share one of these operands."""
    clusters, depth = _siblings(roots, context, only, scheduled=False)
    members = {node: cluster for cluster in clusters for node in cluster}
    if not members:
        return list(roots)
    builder = Rebuilder()
    done: set[Node] = set()
    # Rebuild nodes by depth, so that all inputs of a cluster exist when it is merged.
    for node in sorted(depth, key=lambda n: depth[n]):
        if node in done:
            continue
        cluster = members.get(node, [node])
        made = [builder.node(n) for n in cluster]
        done |= set(cluster)
        if len(cluster) == 1:
            builder.replace(node, made[0], context.kept)
            continue
        merge = {
            graph.Generate: _merge_generates,
            graph.Fold: _merge_folds,
            graph.Permute: _merge_permutes,
        }
        merged = merge[type(node)](made)
        context.kept[merged] = context.kept.get(node, "")
        builder.join(cluster, merged)
    return [builder.leaf(r) for r in roots]


def _is_argument(node: graph.Fold) -> bool:
    """Whether a fold is an argmin or argmax that stores only the index."""
    return argument_of(node.combine) is not None and node.epilogue == node.results[1:]


def _start(node: graph.Fold) -> bool:
    """Whether a fold must start with its initial value, because it is read from an array.  A
    constant can be combined at the end, so that such folds can be merged with others."""
    return node.init is not None and any(isinstance(e, Read) for e in walk(node.init))


def _clusters(group: list[Node], operands: Mapping[Node, Set[Operand]] | None) -> list[list[Node]]:
    """Group nodes that share an input (or operand), up to a maximum number of outputs."""
    clusters: list[tuple[list[Node], Set[Operand], int]] = []
    for node in group:
        mine = _inputs(node) if operands is None else operands[node]
        for k, (nodes, inputs, outputs) in enumerate(clusters):
            most = MOST_OUTPUTS if node.outputs[0].shape else MOST_NUMBERS
            if (mine & inputs) and outputs + len(node.outputs) <= most:
                clusters[k] = ([*nodes, node], inputs | mine, outputs + len(node.outputs))
                break
        else:
            clusters.append(([node], mine, len(node.outputs)))
    return [nodes for nodes, _, _ in clusters]


def _inputs(node: Node) -> Set[Operand]:
    found: set[Operand] = {(leaf, ()) for leaf in node.inputs()}
    if isinstance(node, graph.Generate) and not node.shape:
        found |= {(loop, ()) for loop in _loops(node)}
    return found


def _is_regroupable(node: graph.Permute) -> bool:
    """Whether a permute combines each component independently by a commutative primitive, without
    needing a special kernel."""
    regroupable = node.combine is not None and is_commutative(node.combine)
    return regroupable and not counts_in_bytes(node)


def _common(nodes: Sequence[Node]) -> dict[str, Any]:
    checks = tuple(dict.fromkeys(c for n in nodes for c in n.checks))
    fused = tuple(f for n in nodes[1:] for f in ((n.label, n.where), *n.fused))
    return {"checks": checks, "fused": (*nodes[0].fused, *fused)}


def _merge_generates(nodes: Sequence[Any]) -> Node:
    first = nodes[0]
    elements = tuple(e for n in nodes for e in n.elements)
    return first.with_(elements=elements, **_common(nodes))  # type: ignore[no-any-return]


def _merge_permutes(nodes: Sequence[Any]) -> Node:
    values, defaults = (
        tuple(x for n in nodes for x in getattr(n, name)) for name in ("values", "defaults")
    )
    return nodes[0].with_(values=values, defaults=defaults, combine=joined(nodes),  # type: ignore[no-any-return]
                          **_common(nodes))  # fmt: skip


def joined(nodes: Sequence[Any]) -> graph.Combine:
    """The combinations of several nodes as one, with renumbered variables."""
    left: list[Var] = []
    right: list[Var] = []
    results: list[Expr] = []
    for n in nodes:
        fresh_left = [Var(v.name, v.type) for v in n.combine.left]
        fresh_right = [Var(v.name, v.type) for v in n.combine.right]
        left += fresh_left
        right += fresh_right
        results += n.combine.of(fresh_left, fresh_right)
    return graph.canonical_combine(tuple(left), tuple(right), tuple(results))


def _merge_folds(nodes: Sequence[Any]) -> Node:
    """One fold of several values, with combining variables and results renumbered."""
    first, combine = nodes[0], joined(nodes)
    elements = tuple(e for n in nodes for e in n.elements)
    variables = graph.result_variables(elements)
    init = None
    if all(n.init is not None for n in nodes):
        init = tuple(e for n in nodes for e in n.init)
    epilogue = _stored(nodes, variables, init is None)
    return first.with_(elements=elements, combine=combine, init=init, results=variables,  # type: ignore[no-any-return]
                       epilogue=epilogue, **_common(nodes))  # fmt: skip


def _stored(nodes: Sequence[Any], variables: Sequence[Var], start: bool) -> tuple[Expr, ...]:
    """The epilogues of merged folds, combined with a constant initial value where a fold has one
    and (if `start`) the merged fold has none.

    The folds are not empty: those without an initial value would be errors.
    """
    made: list[Expr] = []
    at = 0
    for n in nodes:
        own: tuple[Expr, ...] = tuple(variables[at : at + len(n.elements)])
        at += len(n.elements)
        if start and n.init is not None:
            own = n.combine.of(n.init, own)
        made += substitute(n.epilogue, dict(zip(n.results, own, strict=True)))
    return tuple(made)

"""short_folds: compute folds of short rows as loops inside the kernels that read them.

    d = Σₖ (x[i, k] − c[j, k])²;  argmin over j of d[i, j]   →   one kernel, in which Σ is a loop

A fold of few elements for each of very many results would be a kernel whose results cost more to
store and load than to compute.  The length of rows is known only at run time, so the graph is not
changed; instead a backend asks which folds a kernel may compute itself (`Short`), and for the
resulting kernel (`Short.of`).  A fold is inlined only if one kernel reads it, each result at most
once, so nothing is computed twice.

Rows with fewer than `SHORT_ROW` elements are always folded sequentially from the left, so the loop
gives exactly the bits that would have been stored.  A short fold that is not inlined becomes a
`Generate` with a loop per element.

On a CPU, so does a fold of several axes whose elements are computed from much smaller arrays (a
convolution: Σ over p, q, c of x[i + p, j + q, c]·w[p, q, c, o]): the loops keep their sums in
registers, and their operands in the cache (`deep_folds`).

Nor is it known at compile time whether a kernel that reads `(a / b)[k[i]]` reads few elements, or
all of them many times: the quotient is stored, unless `k` is much shorter in a call
(`few_gathered`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from .. import expr as ex
from ..analysis.combines import SHORT_ROW, argument_ahead, argument_of, identities
from ..analysis.polynomial import affine_forms
from ..expr import Expr
from ..graph import Fold, FoldSeg, Generate, Leaf, Node, Permute, topological
from ..graphs.rebuild import rewrite_graph
from ..operations.indexing.row_major import product
from ..process.configuration import Settings
from ..scalar import apply_primitive
from .base import Context
from .vertical import Uses, find_uses

#: The most iterations of the loops of a fold over several axes.
LOOPED = 2048
#: An array is computed where it is gathered from if it has this many times as many elements as are
#: read: computing and storing them all costs more.
FEW = 8
#: The most expressions of elements that are computed by their reader.
MOST_TAKEN = 256


def length(node: Fold | Generate) -> Expr:
    """The number of elements of a row, a host expression; 1 for nodes other than folds."""
    return node.inner[0] if isinstance(node, Fold) else ex.constant(1)


def is_short(count: int) -> bool:
    """Whether rows with so many elements are folded sequentially."""
    return 0 < count < SHORT_ROW


@dataclass(frozen=True)
class Short:
    """The folds of a program that are computed as loops if their rows are short.

    `alone`: all of them, with their `Generate`; `reader`: the kernel that inlines a fold, if any;
    `worth`: the condition (a host expression over extents) for inlining it, if any; `deep`: the
    folds of several axes, with the condition for the loops.
    """

    alone: dict[Node, Generate] = field(default_factory=dict)
    reader: dict[Node, Node] = field(default_factory=dict)
    worth: dict[Node, Expr] = field(default_factory=dict)
    deep: dict[Node, Expr] = field(default_factory=dict)

    def conditions(self, fold: Node) -> tuple[Expr, ...]:
        """The host expressions that decide, besides the length of rows."""
        return tuple(of[fold] for of in (self.worth, self.deep) if fold in of)

    def inside(self, node: Node) -> tuple[Fold, ...]:
        """The folds that may be loops in the kernel of `node`, possibly itself, operands first."""
        found: dict[Node, None] = {}
        for inner in _read(node):
            if self.reader.get(inner) is node:
                found.update(dict.fromkeys(self.inside(inner)))
        if node in self.alone:
            found[node] = None
        return tuple(found)  # type: ignore[arg-type]

    def loops(self, node: Node, count: Callable[[Fold], int | None],
              holds: Callable[[Expr], Any] = bool) -> frozenset[Node]:  # fmt: skip
        """The folds that are loops in the kernel of `node`, if their rows have `count` elements
        (None: unknown) and `holds` is true for their conditions."""
        found: set[Node] = set()
        for fold in reversed(self.inside(node)):
            reader = self.reader.get(fold)
            n = count(fold) if fold is node or reader is node or reader in found else None
            if not all(map(holds, self.conditions(fold))):
                continue
            if n is not None and (is_short(n) or fold in self.deep):
                found.add(fold)
        return frozenset(found)

    def of(self, node: Node, loops: Set[Node]) -> Node:
        """The kernel of `node` with the folds `loops`, a subset of `inside(node)`, as loops."""
        made = self.alone[node] if node in loops else node
        bodies = {
            inner: self.of(inner, loops) for inner in _read(node)
            if inner in loops and self.reader.get(inner) is node
        }  # fmt: skip
        if not bodies:
            return made

        def change(e: Expr) -> Expr:
            if not isinstance(e, ex.Read) or e.node not in bodies:
                return e
            body = bodies[e.node]
            assert isinstance(body, Generate)
            indices: dict[Expr, Expr] = {ex.Index(k): a for k, a in enumerate(e.args)}
            return ex.substitute((body.elements[e.component],), indices)[0]

        memo: dict[Expr, Expr] = {}
        changes: dict[str, Any] = {}
        for name in made.computed:
            value = getattr(made, name)
            if isinstance(value, Expr):
                changes[name] = ex.rewrite((value,), change, memo)[0]
            elif value:
                changes[name] = ex.rewrite(value, change, memo)
        inner = [*bodies.values()]
        fused = (*made.fused, *(f for n in inner for f in ((n.label, n.where), *n.fused)))
        checks = dict.fromkeys((*made.checks, *(c for n in inner for c in n.checks)))
        return made.with_(fused=fused, checks=tuple(checks), **changes)


def short_folds(roots: Sequence[Leaf], settings: Settings) -> Short:
    """The folds of an optimised program that are loops if their rows are short; none in checked
    mode, whose errors name kernels as written."""
    if settings.check:
        return Short()
    made = {n: _as_loops(n) for n in topological(roots) if isinstance(n, Fold)}
    alone: dict[Node, Generate] = {n: loops for n, loops in made.items() if loops is not None}
    if not alone:
        return Short()
    uses = find_uses(roots)
    readers = {node: _only_reader(uses[node]) for node in alone}
    return Short(alone, {node: r for node, r in readers.items() if r is not None})


def deep_folds(roots: Sequence[Leaf], settings: Settings) -> Short:
    """The folds of several axes that are loops per result if these are not too long."""
    if settings.check:
        return Short()
    nodes = [n for n in topological(roots) if isinstance(n, Fold) and _is_deep(n)]
    made: dict[Node, Generate] = {n: g for n in nodes if (g := _looped(n)) is not None}
    return Short(made, deep={n: _not_too_long(n) for n in nodes if n in made})


def few_gathered(roots: Sequence[Leaf], settings: Settings) -> Short:
    """Arrays that one kernel gathers from, and computes itself if it reads few elements: `(a /
    b)[k]` divides all elements if there are many indices, and only the elements read if there are
    few."""
    results = {leaf.node for leaf in roots}
    maps = any(isinstance(n, Generate) and n not in results for n in topological(roots))
    if settings.check or not maps:
        return Short()
    alone: dict[Node, Generate] = {}
    reader: dict[Node, Node] = {}
    worth: dict[Node, Expr] = {}
    for node, use in find_uses(roots).items():
        readers = {reader for reader, _ in use.reads}
        if not isinstance(node, Generate) or not use.gathered or len(readers) != 1:
            continue
        (own,) = readers
        extents = own.iteration_space()
        space = [e for e in extents if e is not None]
        taken = isinstance(own, Generate | Fold | Permute) and not own.label.ordered
        if use.whole is not None or use.by_other_region or not taken or not _is_simple(node):
            continue
        known = (ex.Const, ex.Extent, ex.Apply)
        if len(space) < len(extents) or any(e.boundary is not None for _, e in use.reads):
            continue
        if all(isinstance(e, known) for e in ex.walk((*space, *node.shape))):
            reads = ex.constant(FEW * len(use.reads))
            count = apply_primitive("multiply", [product(space), reads])
            alone[node], reader[node] = node, own
            worth[node] = apply_primitive("less", [count, product(node.shape)])
    return Short(alone, reader, worth)


def _is_simple(node: Generate) -> bool:
    """Whether the reading kernel may compute the elements: they have no loops (whose variables the
    kernel's own might share) and no schedule."""
    kinds = ex.Apply | ex.Const | ex.Extent | ex.Param | ex.Index | ex.Read | ex.Cond | ex.Proj
    body = list(ex.walk(node.elements))
    return (
        not node.label.ordered
        and len(body) <= MOST_TAKEN
        and all(isinstance(e, kinds) for e in body)
    )


def _is_deep(node: Fold) -> bool:
    """Whether each element read contributes to several results, and neighbours in a row of results
    read elements of a row, adjacent or at a constant distance."""
    known = all(
        isinstance(e, ex.Const | ex.Extent | ex.Apply | ex.Param) for e in ex.walk(node.inner)
    )
    if len(node.inner) < 2 or not node.outer or not known:
        return False
    if node.label.ordered or node.label.deterministic:
        return False
    everything = list(ex.walk(node.elements))
    reads = [e for e in everything if isinstance(e, ex.Read)]
    last, axes = ex.Index(len(node.outer) - 1), {ex.Index(k) for k in range(len(node.outer))}
    forms = affine_forms(node.elements)
    seen = False
    for e in reads:
        used = {i for i in ex.walk(e.args) if isinstance(i, ex.Index)}
        if e.boundary not in (None, "constant"):
            return False
        if any(isinstance(i, ex.Read) for i in ex.walk(e.args)):
            return False
        if axes <= used and len(used) <= len(e.args):
            return False
        if last in used:
            form = forms.get(e.args[-1])
            across = any(last in ex.walk((a,)) for a in e.args[:-1])
            if across or form is None or form.coefficient(last) < 1:
                return False
            seen = True
    plain = all(
        isinstance(e, ex.Apply | ex.Const | ex.Extent | ex.Param | ex.Index | ex.Read)
        for e in everything
    )
    return seen and plain


def _not_too_long(node: Fold) -> Expr:
    """The condition on the number of elements per result.  It must not depend on the number of
    results, which is smaller for blocks of dask, since it decides the bits."""
    return apply_primitive("less_equal", [product(node.inner), ex.constant(LOOPED)])


def _only_reader(use: Uses) -> Node | None:
    """The only kernel that reads a fold's results, if it reads each at most once."""
    readers = {reader for reader, _ in use.reads}
    if use.whole is not None or use.by_other_region or use.times > 1 or len(readers) != 1:
        return None
    (reader,) = readers
    takes = isinstance(reader, Fold | FoldSeg | Permute) and not reader.label.ordered
    guarded = any(e.boundary is not None for _, e in use.reads if isinstance(e, ex.Read))
    return reader if takes and not guarded else None


def _as_loops(node: Fold) -> Generate | None:
    """A fold as one loop per row; None if that would change the order of operations."""
    if len(node.inner) != 1 or not node.outer or node.label.ordered:
        return None
    known = (ex.Const, ex.Extent, ex.Apply)
    return _looped(node) if all(isinstance(e, known) for e in ex.walk(node.inner)) else None


def _looped(node: Fold) -> Generate | None:
    """A fold as loops over its inner axes from the left; None without an identity."""
    if node.init is not None and not all(isinstance(e, ex.Const) for e in node.init):
        return None
    start = _start(node)
    if start is None:
        return None
    rank = len(node.outer)
    combine = argument_ahead(node.combine) or node.combine
    found, values = start, node.elements
    states = [tuple(ex.Var("total", e.type) for e in start) for _ in node.inner]
    counters = [
        ex.Var("ijklmn"[a] if a < 6 else "k", n.type) for a, n in enumerate(node.inner, rank)
    ]  # as `explain` names axes
    values = ex.substitute(values, {ex.Index(rank + a): k for a, k in enumerate(counters)})
    found = combine.of(states[-1], values)
    for a in reversed(range(len(node.inner))):
        loop = ex.Loop(
            node.inner[a], states[a - 1] if a else start, (counters[a], *states[a]), found
        )
        found = tuple(ex.Proj(loop, c) for c in range(len(start)))
    if node.init is not None:
        found = combine.of(node.init, found)
    stored = ex.substitute(node.epilogue, dict(zip(node.results, found, strict=True)))
    return Generate(node.outer, stored, label=node.label, where=node.where, checks=node.checks,
                    fused=node.fused)  # fmt: skip


def fold_windows(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Folds of several axes with few elements in all, as of a pooling layer, as loops per result.

    max over k, l < 2 of a[2·i + k, 2·j + l]   →   four reads of a, in a kernel over i, j
    """

    def change(node: Node) -> Node:
        return (isinstance(node, Fold) and _is_window(node) and _looped(node)) or node

    return rewrite_graph(roots, change, context.kept)


def _is_window(node: Fold) -> bool:
    """Whether a fold has several inner axes with fewer than `SHORT_ROW` elements in total."""
    if len(node.inner) < 2 or not node.outer or node.label.ordered:
        return False
    sizes = [int(n.value) for n in node.inner if isinstance(n, ex.Const)]
    return len(sizes) == len(node.inner) and is_short(math.prod(sizes))


def _start(node: Fold) -> tuple[Expr, ...] | None:
    """The identity to start folding a row from; None if there is none."""
    better = argument_of(node.combine)
    if better is None:
        return identities(node.combine)
    value, index = node.elements
    rank = len(node.outer)
    start: dict[Expr, Expr] = {ex.Index(rank + a): ex.constant(0) for a in range(len(node.inner))}
    first = ex.substitute((index,), start)[0]
    if value.type.family == "bool" or any(_is_costly(e) for e in ex.walk((first,))):
        return None
    worst = value.type.lowest if better == "greater" else value.type.highest
    return ex.Const(worst, value.type), first


def _is_costly(e: Expr) -> bool:
    return not isinstance(e, ex.Apply | ex.Const | ex.Extent | ex.Index)


def _read(node: Node) -> Iterator[Fold | Generate]:
    """The distinct folds and maps that a node reads."""
    seen: dict[Fold | Generate, None] = {}
    for leaf in node.inputs():
        if isinstance(leaf.node, Fold | Generate):
            seen[leaf.node] = None
    return iter(seen)

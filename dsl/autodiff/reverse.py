"""The reverse derivative of an array graph, as another graph of ordinary nodes.

The nodes are visited in reverse.  Each leaf collects contributions, expressions over its own
indices, which are summed in one `Generate`; a cotangent of 0 is no contribution.  A rule per node
class (`RULES`) gives the contributions of a node to what it computes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import simplify
from ..analysis.combines import argument_combine, independent_parts, ways
from ..array import Array
from ..errors import GradientError, Location
from ..expr import (
    FALSE,
    TRUE,
    Apply,
    Const,
    Expr,
    Index,
    Read,
    Var,
    constant,
    rewrite,
    walk,
)
from ..graph import (
    FoldSeg,
    Generate,
    Label,
    Leaf,
    Matmul,
    Node,
    Permute,
    Shape,
    canonical_combine,
    indices,
    is_identity_read,
    topological,
)
from ..graphs.relations import checks_before
from ..node import Combine
from ..operations.indexing.index_space import flatten
from ..operations.indexing.row_major import product
from ..operations.reducing.irregular import argsort
from ..operations.reducing.searching import searchsorted
from ..passes.extents import equal_extents
from ..scalar import apply_primitive
from . import reads
from .arguments import constant_leaf
from .expressions import (
    Active,
    Cotangent,
    add,
    combine_vjp,
    combined,
    expr_vjp,
    guarded,
    resolved,
    settled,
    shifted,
    zero,
)
from .rules import WILD

#: The cotangents of a node's components; None is 0.
Bars = Sequence[Leaf | None]


class Reverse:
    """The cotangents of `targets`, for those of results."""

    def __init__(
        self, roots: Sequence[Leaf], targets: Sequence[Leaf], memory: int | None = None
    ) -> None:
        #: The bytes that the states of one loop may take; None for all states.
        self.memory = memory
        self.targets = dict.fromkeys(targets)
        self.parts: dict[Leaf, list[Expr]] = {}
        self.nodes = list(topological(roots))
        #: The nodes that are computed outside of loops and branches.
        self.outside = set(topological(roots, inside=False))
        #: Leaves of loops, and those of the loops that compute the same and store their states.
        self.replaced: dict[Leaf, Leaf] = {}
        self._same = equal_extents(checks_before(roots))
        self.moving = moving(roots, targets)
        self.active = Active(lambda e: isinstance(e, Read) and self.moves(e.node, e.component))
        #: Nodes whose elements may not be finite where those of the inputs are.
        self.unbounded: set[Node] = set()
        for node in self.nodes:
            used = any(leaf.node in self.unbounded for leaf in node.inputs())
            if used or node.inside() or any(self.wild(e) for e in node.bodies() if e.type):
                self.unbounded.add(node)

    def moves(self, node: Node, component: int = 0) -> bool:
        """Whether a leaf depends differentiably on a target."""
        return Leaf(node, component) in self.moving

    def wild(self, e: Expr) -> bool:
        """Whether the values or the derivatives of an expression may not be finite."""
        return any(
            x.op.name in WILD if isinstance(x, Apply) else x.node in self.unbounded
            for x in walk((e,))
            if isinstance(x, Apply | Read) and x.type.is_inexact
        )

    def give(self, leaf: Leaf, part: Expr) -> None:
        """Add a contribution, an expression over the leaf's indices."""
        if leaf in self.moving:
            self.parts.setdefault(leaf, []).append(part)

    def bar(self, leaf: Leaf) -> Leaf | None:
        """The sum of a leaf's contributions, as an array."""
        parts = self.parts.get(leaf)
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        if is_identity_read(total, len(leaf.shape)):
            assert isinstance(total, Read)
            found = Leaf(total.node, total.component)
            if self.unified(found.shape) == self.unified(leaf.shape):
                return found
        return stored(leaf.shape, total, adjoint(leaf.node), leaf.node.where)

    def unified(self, shape: Shape) -> Shape:
        """The extents, with one expression for those that are checked to be equal."""
        return rewrite(shape, lambda e: self._same.get(e, e)) if self._same else shape

    def run(self) -> None:
        for node in reversed(self.nodes):
            open_ = [leaf for leaf in node.leaves if leaf not in self.targets]
            if not any(leaf in self.parts for leaf in open_):
                continue
            bars = [self.bar(x) if x not in self.targets else None for x in node.leaves]
            try:
                rule(node)(self, node, bars)
            except GradientError as error:
                raise located(error, node) from None

    # --- for rules ---
    def through(
        self, domain: Shape, seeds: Sequence[tuple[Expr, Expr | Cotangent]], node: Node
    ) -> None:
        """Pass cotangents of expressions over `domain` on to the arrays they read."""
        bodies = resolved([e for e, _ in seeds], self.active)
        pairs = [(e, g) for e, (_, g) in zip(bodies, seeds, strict=True)]
        send = reads.Scatterer(domain, adjoint(node), node.where, self.unified)
        for leaf, cotangent in expr_vjp(pairs, self.active).items():
            assert isinstance(leaf, Read)
            self.give(Leaf(leaf.node, leaf.component), send.contribution(leaf, cotangent))


def pulled(
    roots: Sequence[Leaf],
    seeds: Sequence[Leaf | Expr | None],
    targets: Sequence[Leaf],
    memory: int | None = None,
) -> tuple[list[Leaf], dict[Leaf, Leaf]]:
    """The cotangents of `targets` for those of `roots`: arrays, or expressions over their indices.
    Targets that the roots do not depend on get zeros.  Also leaves of the program to replace by
    others that compute the same."""
    reverse = Reverse(roots, targets, memory)
    for root, seed in zip(roots, seeds, strict=True):
        if isinstance(seed, Leaf):
            seed = seed.at(*indices(len(root.shape)))
        if seed is not None:
            reverse.give(root, seed)
    reverse.run()
    found = [reverse.bar(t) or constant_leaf(0, t, "no gradient") for t in targets]
    return found, reverse.replaced


def adjoint(node: Node) -> Label:
    """The label of nodes that compute the adjoint of this one."""
    name = f"adjoint of {node.label}"
    return Label(
        name if not node.label.operation.startswith("adjoint of") else node.label.operation
    )


def located(error: GradientError, node: Node) -> GradientError:
    """The error at the user's line of the operation, with the line that differentiates."""
    if node.where is None or getattr(error, "at_node", False):
        return error
    made = GradientError(
        error.message,
        hint=error.hint,
        where=node.where,
        also=(*error.also, ("differentiated here:", error.where)),
    )
    made.at_node = True  # type: ignore[attr-defined]
    return made


def refused(what: str, hint: str) -> GradientError:
    return GradientError(what, hint=hint)


def stored(shape: Shape, e: Expr, label: Label, where: Location | None) -> Leaf:
    """The array of an expression; no node if it is one already."""
    if is_identity_read(e, len(shape)):
        assert isinstance(e, Read)
        if e.node.outputs[e.component].shape == shape:
            return Leaf(e.node, e.component)
    return Generate(shape, (e,), label=label, where=where).leaf()


def moving(roots: Sequence[Leaf], targets: Sequence[Leaf]) -> set[Leaf]:
    """The leaves that depend differentiably on a target, the targets included."""
    found: set[Leaf] = {t for t in targets if t.type.is_inexact}
    active = Active(lambda e: isinstance(e, Read) and Leaf(e.node, e.component) in found)
    for node in topological(roots):
        if isinstance(node, Generate):
            for leaf, e in zip(node.leaves, node.elements, strict=True):
                if active(e):
                    found.add(leaf)
            continue
        used = [*node.operands(), *node.inside()]
        bodies = node.bodies()
        if any(leaf in found for leaf in used) or any(active(e) for e in bodies):
            found.update(leaf for leaf in node.leaves if leaf.type.is_inexact)
    return found


# --- rules -------------------------------------------------------------------------------------

RULES: dict[type[Node], Callable[..., None]] = {}


def rule(node: Node) -> Callable[..., None]:
    found = RULES.get(type(node))
    if found is None:
        raise refused(
            f"'{node.label}' has no derivative here.",
            "Stop the gradient before it with td.stop(x).",
        )
    return found


def rule_for(cls: type[Node]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        RULES[cls] = function
        return function

    return register


def own(bar: Leaf, rank: int) -> Expr:
    """The cotangent at the element's own index."""
    return bar.at(*indices(rank))


def through_epilogue(
    r: Reverse,
    shape: Shape,
    variables: Sequence[Var],
    values: Sequence[Leaf],
    epilogue: Sequence[Expr],
    bars: Bars,
    node: Node,
) -> list[Leaf | None]:
    """The cotangents of the `variables` that an epilogue is computed from, whose values are stored
    in `values`."""
    if tuple(epilogue) == tuple(variables):
        return list(bars)
    rank = len(shape)
    by_variable: dict[Expr, Expr] = {
        v: own(leaf, rank) for v, leaf in zip(variables, values, strict=True)
    }
    seeds = [(e, own(b, rank)) for e, b in zip(epilogue, bars, strict=True) if b is not None]
    active = Active(
        lambda e: isinstance(e, Var) or (isinstance(e, Read) and r.moves(e.node, e.component))
    )
    send = reads.Scatterer(shape, adjoint(node), node.where, r.unified)
    made: list[Leaf | None] = [None] * len(variables)
    for leaf, cotangent in expr_vjp(seeds, active).items():
        mask = tuple(c._replace(holds=shifted(c.holds, by_variable)) for c in cotangent.mask)
        cotangent = cotangent._replace(mask=mask, value=shifted(cotangent.value, by_variable))
        if isinstance(leaf, Read):
            r.give(Leaf(leaf.node, leaf.component), send.contribution(leaf, cotangent))
        else:
            k = list(variables).index(leaf)  # type: ignore[arg-type]
            made[k] = stored(shape, settled(cotangent), adjoint(node), node.where)
    return made


def operand(e: Expr, shape: Shape, node: Node) -> Expr:
    """The operand of a product: a read, of an array of its own if it is computed."""
    if isinstance(e, Read) and e.boundary is None:
        return e
    return own(stored(shape, e, adjoint(node), node.where), len(shape))


@rule_for(Matmul)
def _matmul(r: Reverse, node: Matmul, bars: Bars) -> None:
    """Abar = G Bᴴ, Bbar = Aᴴ G; whatever algorithm computes the product."""
    batch = len(node.batch)
    shape = (*node.batch, node.m, node.n)
    rank = batch + 2
    plain = node.with_(epilogue=(node.result,))
    (bar,) = through_epilogue(r, shape, (node.result,), plain.leaves, node.epilogue, bars, node)
    if bar is None:
        return
    i, j = Index(batch), Index(batch + 1)
    turned: dict[Expr, Expr] = {i: j, j: i}
    options = (
        replace(node.options, levels=None, execution=None)
        if (node.options.algorithm not in ("auto", "standard"))
        else node.options
    )
    options = replace(options, algorithm="auto" if options.algorithm != "standard" else "standard")
    common = (adjoint(node), node.where)

    def conjugate(e: Expr) -> Expr:
        return apply_primitive("conjugate", [e]) if e.type.is_complex else e

    if r.active(node.left):
        shape = (*node.batch, node.n, node.k)
        right = operand(conjugate(shifted(node.right, turned)), shape, node)
        made = Matmul(node.batch, node.m, node.k, node.n, own(bar, rank), right, options,
                      label=common[0], where=common[1])  # fmt: skip
        r.through((*node.batch, node.m, node.k), [(node.left, own(made.leaf(), rank))], node)
    if r.active(node.right):
        shape = (*node.batch, node.k, node.m)
        left = operand(conjugate(shifted(node.left, turned)), shape, node)
        made = Matmul(node.batch, node.k, node.n, node.m, left, own(bar, rank), options,
                      label=common[0], where=common[1])  # fmt: skip
        r.through((*node.batch, node.k, node.n), [(node.right, own(made.leaf(), rank))], node)


@rule_for(Permute)
def _permute(r: Reverse, node: Permute, bars: Bars) -> None:
    seeds: list[tuple[Expr, Expr]] = []
    if node.combine is None:
        winner = None
        if not one_to_one(node) and any(r.active(v) for v in node.values):
            winner = _numbered(r, node)
        for k, bar in enumerate(bars):
            if bar is None:
                continue
            nothing = node.with_(
                values=(zero(bar.type),), defaults=(bar,), label=adjoint(node), checks=()
            )
            default = node.defaults[k]
            r.give(default, own(nothing.leaf(), len(default.shape)))
            seeds.append((node.values[k], _received(node, bar, winner)))
        r.through(node.domain, seeds, node)
        return
    if one_to_one(node) and not set(ways(node.combine)) <= {"add", "minimum", "maximum"}:
        _each_component(r, node, node.combine, bars)
        return
    for group, combine in independent_parts(node.combine):
        k, bar = group[0], bars[group[0]]
        if all(bars[j] is None for j in group):
            continue
        how = ways(combine)[0] if len(group) == 1 else ""
        if how not in ("add", "minimum", "maximum") or bar is None:
            seeds += _by_segments(r, node, group, combine, bars)
            continue
        default = node.defaults[k]
        rank = len(default.shape)
        if how == "add":
            r.give(default, own(bar, rank))
            seeds.append((node.values[k], _received(node, bar, None)))
        else:
            winner = _extremes(node, k, "less" if how == "minimum" else "greater")
            kept = apply_primitive("equal", [own(winner, rank), constant(-1)])
            r.give(default, simplify.select(kept, own(bar, rank), zero(bar.type)))
            seeds.append((node.values[k], _received(node, bar, winner)))
    r.through(node.domain, seeds, node)


def _by_segments(
    r: Reverse, node: Permute, group: Sequence[int], combine: Combine, bars: Bars
) -> list[tuple[Expr, Expr]]:
    """Any combination: as a segmented fold of the sources, sorted by their targets."""
    label, where = adjoint(node), node.where
    shape, domain = node.defaults[group[0]].shape, node.domain
    size = product(shape)

    def made(extents: Shape, *elements: Expr) -> tuple[Leaf, ...]:
        return Generate(extents, elements, label=label, where=where).leaves

    def in_a_row(leaf: Leaf) -> Leaf:
        found: Leaf = flatten(Array((leaf,)))._leaves[0]
        return found

    position = linear_index(shape, node.target)
    keys = in_a_row(made(domain, guarded(node.valid, position, size))[0])
    order = argsort(Array((keys,)))._leaves[0]
    (ordered,) = made(keys.shape, keys.at(order.at(Index(0))))
    targets = made((apply_primitive("add", [size, constant(1)]),), Index(0))
    offsets = searchsorted(Array((ordered,)), Array(targets))._leaves[0]
    values = made(domain, *(node.values[k] for k in group))
    elements = tuple(in_a_row(leaf).at(order.at(Index(0))) for leaf in values)
    start = (FALSE, *(Const(0, e.type) for e in elements))
    folded = FoldSeg((), size, keys.shape[0], offsets, (TRUE, *elements), _optional(combine),
                     start, label=label, where=where)  # fmt: skip
    defaults = [node.defaults[k] for k in group]
    old = [d.at(*indices(len(shape))) for d in defaults]
    some, *new = (leaf.at(linear_index(shape)) for leaf in folded.leaves)
    joined = combined(combine, new, old)
    results = made(shape, *(guarded(some, e, d) for e, d in zip(joined, old, strict=True)))
    found, _ = pulled(results, [bars[k] for k in group], [*values, *defaults])
    seeds: list[tuple[Expr, Expr]] = []
    for k, of_value, of_default in zip(group, found, found[len(group) :], strict=False):
        if node.defaults[k].type.is_inexact:
            seeds.append((node.values[k], own(of_value, len(domain))))
            r.give(node.defaults[k], own(of_default, len(shape)))
    return seeds


def _optional(combine: Combine) -> Combine:
    """The combination of pairs of whether there is an element, and the element."""
    left, right = ([Var(name, v.type) for v in (TRUE, *combine.left)] for name in ("a", "b"))
    joined = combined(combine, left[1:], right[1:])
    results = [
        simplify.select(left[0], simplify.select(right[0], e, a), b)
        for a, b, e in zip(left[1:], right[1:], joined, strict=True)
    ]
    some = apply_primitive("logical_or", [left[0], right[0]])
    return canonical_combine(tuple(left), tuple(right), (some, *results))


def _each_component(r: Reverse, node: Permute, combine: Combine, bars: Bars) -> None:
    """Any combination, where every target has one source: that of two elements."""
    old = [d.at(*node.target) for d in node.defaults]
    given = [None if b is None else b.at(*node.target) for b in bars]
    of_new, of_old = combine_vjp(combine, node.values, old, given)
    seeds = []
    for k, (value, default, bar) in enumerate(zip(node.values, node.defaults, bars, strict=True)):
        if not default.type.is_inexact:
            continue
        start = bar or Generate(default.shape, (zero(default.type),), label=adjoint(node),
                                where=node.where).leaf()  # fmt: skip
        kept = node.with_(values=(of_old[k] or zero(default.type),), defaults=(start,),
                          combine=None, label=adjoint(node), checks=())  # fmt: skip
        r.give(default, own(kept.leaf(), len(default.shape)))
        g = of_new[k]
        if g is not None:
            seeds.append((value, guarded(node.valid, g, zero(g.type))))
    r.through(node.domain, seeds, node)


def one_to_one(node: Permute) -> bool:
    """Whether no two sources have the same target."""
    return reads.one_to_one(node.target, node.domain, node.defaults[0].shape)


def _received(node: Permute, bar: Leaf, winner: Leaf | None) -> Expr:
    """The cotangent of the target of each source; 0 if another source won there."""
    g: Expr = bar.at(*node.target)
    if winner is not None:
        mine = apply_primitive("equal", [winner.at(*node.target), linear_position(node.domain, 0)])
        g = simplify.select(mine, g, zero(bar.type))
    return guarded(node.valid, g, zero(bar.type))


def _numbers(node: Permute) -> Leaf:
    """The number of the source that wins at each target, before any has: −1."""
    shape = node.defaults[0].shape
    return Generate(shape, (constant(-1),), label=adjoint(node), where=node.where).leaf()


def _numbered(r: Reverse, node: Permute) -> Leaf:
    """Who won where sources overwrite each other: the same permute, with their numbers as one more
    component, replaces this one."""
    made = node.with_(
        values=(*node.values, linear_position(node.domain, 0)),
        defaults=(*node.defaults, _numbers(node)),
    )
    for k, leaf in enumerate(node.leaves):
        r.replaced[leaf] = made.leaf(k)
    return made.leaf(len(node.values))


def _extremes(node: Permute, k: int, better: str) -> Leaf:
    """The numbers of the sources with the extreme values, −1 for the default."""
    value = node.values[k]
    made = Permute(
        node.domain,
        node.valid,
        node.target,
        (value, linear_position(node.domain, 0)),
        (node.defaults[k], _numbers(node)),
        argument_combine(value.type, better),
        label=adjoint(node),
        where=node.where,
    )
    return made.leaf(1)


def linear_position(inner: Shape, first: int) -> Expr:
    """The row-major number of an element within the folded axes, which start at axis `first`."""
    return linear_index(inner, [Index(first + k) for k in range(len(inner))])


def linear_index(shape: Shape, index: Sequence[Expr] | None = None) -> Expr:
    """The row-major number of an element, by default of that at the own index."""
    total: Expr = constant(0)
    for i, n in zip(indices(len(shape)) if index is None else index, shape, strict=True):
        total = apply_primitive("add", [apply_primitive("multiply", [total, n]), i])
    return total

"""The derivatives of permutes."""

from __future__ import annotations

from collections.abc import Sequence

from .. import simplify
from ..analysis.combines import argument_combine, independent_parts, ways
from ..array import Array
from ..expr import FALSE, TRUE, Const, Expr, Index, Read, constant, walk
from ..graph import Combine, FoldSeg, Generate, Leaf, Permute, Shape, indices
from ..operations.indexing.index_space import flatten
from ..operations.indexing.row_major import linear, product
from ..operations.reducing.irregular import argsort
from ..operations.reducing.searching import searchsorted
from ..passes.guard import inside
from ..scalar import apply_primitive
from . import reads
from .expressions import guarded, optional, zero
from .forward import Forward, forward_rule, tangent_of
from .reverse import Bars, Reverse, adjoint, combine_vjp, own, pulled, reverse_rule

#: The comparisons of extremes.
_BETTER = {"minimum": "less", "maximum": "greater"}


@forward_rule(Permute)
def _permute_tangents(f: Forward, node: Permute) -> None:
    moved = f.along(node.values)

    def make(group: Sequence[int], values: Sequence[Expr], combine: Combine | None) -> Permute:
        """A permute of values, and of tangents of the components that have any."""
        defaults = [node.defaults[k] for k in group][: len(values)]
        floats = [k for k in group if node.defaults[k].type.is_inexact]
        return Permute(
            node.domain, node.valid, node.target,
            (*values, *(moved[k] or zero(node.defaults[k].type) for k in floats)),
            (*defaults, *(f.of(node.defaults[k]) for k in floats)),
            combine, label=tangent_of(node), where=node.where,
        )  # fmt: skip

    every = range(len(node.values))
    groups: list[tuple[Sequence[int], Combine | None]]
    groups = [(every, None)] if node.combine is None else list(independent_parts(node.combine))
    for group, combine in groups:
        floats = [k for k in group if node.defaults[k].type.is_inexact]
        still = all(moved[k] is None and node.defaults[k] not in f.tangents for k in floats)
        if still and not (combine is not None and f.captures(combine)):
            continue
        if combine is None:
            together = not one_to_one(node)  # the same source wins
            made = make(group, node.values if together else (), None)
            if together:
                f.replaced.update(zip(node.leaves, made.leaves, strict=False))
            before = len(node.values) if together else 0
        elif ways(combine) == ["add"]:
            made, before = make(group, (), combine), 0
        elif ways(combine)[0] in _BETTER and len(group) == 1:
            (k,) = group
            better = _BETTER[ways(combine)[0]]
            f.tangents[node.leaf(k)] = _of_winners(f, node, k, better, moved[k])
            continue
        else:
            made = make(group, [node.values[k] for k in group], f.dual(combine))
            before = len(group)
        for j, k in enumerate(floats):
            f.tangents[node.leaf(k)] = made.leaf(before + j)


@reverse_rule(Permute)
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
    simple = set(ways(node.combine)) <= {"add", "minimum", "maximum"}
    if one_to_one(node) and not simple and not any(map(r.active, node.combine.results)):
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
            winner = _extremes(node, k, _BETTER[how])
            kept = apply_primitive("equal", [own(winner, rank), constant(-1)])
            r.give(default, simplify.select(kept, own(bar, rank), zero(bar.type)))
            seeds.append((node.values[k], _received(node, bar, winner)))
    r.through(node.domain, seeds, node)


def _by_segments(
    r: Reverse, node: Permute, group: Sequence[int], combine: Combine, bars: Bars
) -> list[tuple[Expr, Expr]]:
    """Any combination: a segmented fold of the sources, sorted by target."""
    label, where = adjoint(node), node.where
    shape, domain = node.defaults[group[0]].shape, node.domain
    size = product(shape)

    def made(extents: Shape, *elements: Expr) -> tuple[Leaf, ...]:
        return Generate(extents, elements, label=label, where=where).leaves

    def in_a_row(leaf: Leaf) -> Leaf:
        found: Leaf = flatten(Array((leaf,)))._leaves[0]
        return found

    position = _written(node, linear(node.target, shape), size)
    keys = in_a_row(made(domain, position)[0])
    order = argsort(Array((keys,)))._leaves[0]
    (ordered,) = made(keys.shape, keys.at(order.at(Index(0))))
    targets = made((apply_primitive("add", [size, constant(1)]),), Index(0))
    offsets = searchsorted(Array((ordered,)), Array(targets))._leaves[0]
    values = made(domain, *(node.values[k] for k in group))
    elements = tuple(in_a_row(leaf).at(order.at(Index(0))) for leaf in values)
    start = (FALSE, *(Const(0, e.type) for e in elements))
    folded = FoldSeg((), size, keys.shape[0], offsets, (TRUE, *elements), optional(combine),
                     start, label=label, where=where)  # fmt: skip
    defaults = [node.defaults[k] for k in group]
    old = [d.at(*indices(len(shape))) for d in defaults]
    some, *new = (leaf.at(linear(indices(len(shape)), shape)) for leaf in folded.leaves)
    joined = combine.of(new, old)
    results = made(shape, *(guarded(some, e, d) for e, d in zip(joined, old, strict=True)))
    captured = dict.fromkeys(
        Leaf(e.node, e.component)
        for e in walk(combine.results)
        if isinstance(e, Read) and r.moves(e.node, e.component)
    )
    wanted = dict.fromkeys((*values, *defaults, *captured))
    found, _ = pulled(results, [bars[k] for k in group], [*wanted])
    of = dict(zip(wanted, found, strict=True))
    seeds: list[tuple[Expr, Expr]] = []
    for k, value in zip(group, values, strict=True):
        if node.defaults[k].type.is_inexact:
            seeds.append((node.values[k], own(of[value], len(domain))))
    for leaf in dict.fromkeys((*defaults, *captured)):
        if leaf.type.is_inexact:
            r.give(leaf, own(of[leaf], len(leaf.shape)))
    return seeds


def _each_component(r: Reverse, node: Permute, combine: Combine, bars: Bars) -> None:
    """Any combination, if every target has one source: a combination of two elements."""
    old = [d.at(*node.target) for d in node.defaults]
    given = [None if b is None else b.at(*node.target) for b in bars]
    of_new, of_old = combine_vjp(combine, node.values, old, given)
    seeds = []
    for k, (value, default, bar) in enumerate(zip(node.values, node.defaults, bars, strict=True)):
        if not default.type.is_inexact:
            continue
        start = bar or Generate(default.shape, (zero(default.type),), label=adjoint(node),
                                where=node.where).leaf()  # fmt: skip
        nothing = zero(default.type)
        passed = _written(node, of_old[k] or nothing, nothing)
        kept = node.with_(values=(passed,), defaults=(start,), combine=None,
                          label=adjoint(node), checks=())  # fmt: skip
        r.give(default, own(kept.leaf(), len(default.shape)))
        g = of_new[k]
        if g is not None:
            seeds.append((value, _written(node, g, nothing)))
    r.through(node.domain, seeds, node)


def one_to_one(node: Permute) -> bool:
    return reads.one_to_one(node.target, node.domain, node.defaults[0].shape)


def _received(node: Permute, bar: Leaf, winner: Leaf | None) -> Expr:
    """The cotangent of the target of each source; 0 if another source won there."""
    g: Expr = bar.at(*node.target)
    if winner is not None:
        mine = apply_primitive("equal", [winner.at(*node.target), _number(node)])
        g = simplify.select(mine, g, zero(bar.type))
    return _written(node, g, zero(bar.type))


def _written(node: Permute, value: Expr, otherwise: Expr) -> Expr:
    """An expression over the sources, which may read at their targets; `otherwise` for sources that
    are ignored or whose targets are out of range (unchecked programs drop these)."""
    equal = [(c.left, c.right) for c in node.checks if c.relation == "=="]
    written = inside(TRUE, node.target, node.defaults[0].shape, node.domain, equal)
    return guarded(node.valid, simplify.select(written, value, otherwise), otherwise)


def _number(node: Permute) -> Expr:
    return linear(indices(len(node.domain)), node.domain)


def _numbers(node: Permute) -> Leaf:
    """The number of the source that wins at each target, initially −1."""
    shape = node.defaults[0].shape
    return Generate(shape, (constant(-1),), label=adjoint(node), where=node.where).leaf()


def _numbered(r: Reverse, node: Permute) -> Leaf:
    """The winners if sources overwrite each other: the permute is replaced by one that also stores
    the sources' numbers."""
    made = node.with_(
        values=(*node.values, _number(node)), defaults=(*node.defaults, _numbers(node))
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
        (value, _number(node)),
        (node.defaults[k], _numbers(node)),
        argument_combine(value.type, better),
        label=adjoint(node),
        where=node.where,
    )
    return made.leaf(1)


def _of_winners(f: Forward, node: Permute, k: int, better: str, moved: Expr | None) -> Leaf:
    """The tangents of the extreme values, from the same sources as in the reverse rule."""
    default = node.defaults[k]
    shape, label = default.shape, tangent_of(node)
    old = own(f.of(default), len(shape))
    new = zero(default.type)
    winner = own(_extremes(node, k, better), len(shape))
    if moved is not None:
        tangents = Generate(node.domain, (moved,), label=label, where=node.where)
        new = flatten(Array(tangents.leaves))._leaves[0].at(winner)
    kept = apply_primitive("equal", [winner, constant(-1)])
    element = simplify.select(kept, old, new)
    return Generate(shape, (element,), label=label, where=node.where).leaf()

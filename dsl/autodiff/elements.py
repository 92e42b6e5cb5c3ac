"""The derivatives of independent elements (`Generate`), and of the loops inside them.

A loop in an element that only adds, `s + f(k)`, is a sum over one more axis.  Other loops are
differentiated in place, carrying along derivatives with respect to a few values; those that read
arrays at changing indices, or depend on many values, become loops over arrays with stored states.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import expr as ex
from ..analysis.combines import simple_combine
from ..errors import GradientError
from ..expr import Expr
from ..graph import ArrayLoop, Fold, Generate, Input, Leaf, Node, indices, topological
from ..scalar import apply_primitive
from ..shapes import on_host
from ..simplify import cast
from ..types import bool_, int64
from .expressions import MOST_DUALS, Cotangent, _outside, add, index_map, shifted, where_given
from .forward import Forward, forward_rule
from .loops import closed_loop, invariants, state_like
from .reads import inverse, summed
from .reverse import Bars, Reverse, own, reverse_rule, rule


@forward_rule(Generate)
def _generate_tangents(f: Forward, node: Generate) -> None:
    f.give(node.leaves, f.along(node.elements), node)


@reverse_rule(Generate)
def _generate(r: Reverse, node: Generate, bars: Bars) -> None:
    rank = len(node.shape)
    seeds: list[tuple[Expr, Expr | Cotangent]] = []
    elements, made = _loops_as_nodes(r, node)
    elements = tuple(_of_views(r, e, node) for e in elements)
    # Each node once, after all its readers: loops may share their initial states and their terms.
    order = list(topological([leaf for n in made for leaf in n.leaves], inside=False))
    own_nodes = {n for n in made if not any(leaf in r.targets for leaf in n.leaves)}
    separate = [n for n in reversed(order) if n in own_nodes]
    for e, bar in zip(elements, bars, strict=True):
        if bar is not None:
            g = own(bar, rank)
            seeds.append((e, where_given(g) if r.wild(e) else g))
    # Equal nodes may exist in the graph; contributions to these belong to them.
    others = {leaf: r.parts.pop(leaf, None) for part in separate for leaf in part.leaves}
    known = {node.elements[0]: own(node.leaf(), rank)} if node in r.results else None
    r.through(node.shape, seeds, node, known)
    for part in separate:
        bars = [r.bar(leaf) if leaf in r.moving else None for leaf in part.leaves]
        if any(b is not None for b in bars):
            rule(part)(r, part, bars)
    for leaf, parts in others.items():
        r.parts.pop(leaf, None)
        if parts is not None:
            r.parts[leaf] = parts


def _of_views(r: Reverse, e: Expr, node: Generate) -> Expr:
    """A read of a view without other readers becomes a read of the viewed array, so that, for
    instance, the sum over every second window is computed directly, not via an array of all
    windows."""
    while isinstance(e, ex.Read) and e.boundary is None and r.only_reads(node, e.node):
        view = e.node
        inner = view.elements[0] if isinstance(view, Generate) else None
        if not isinstance(inner, ex.Read) or inner.boundary is not None:
            break
        composed = shifted(inner, index_map(e.args))
        assert isinstance(composed, ex.Read)
        shape = r.unified(composed.node.outputs[composed.component].shape)
        if inverse(r.unified(composed.args), r.unified(node.shape), shape) is None:
            break
        e = composed
    return e


def _loops_as_nodes(r: Reverse, node: Generate) -> tuple[tuple[Expr, ...], list[Node]]:
    """The elements with their loops as separate nodes, and these nodes.  Only loops that every
    element evaluates, not those in the sides of conditionals."""
    mapping: dict[Expr, Expr] = {}
    made: list[Node] = []
    lifted: dict[Expr, ArrayLoop] = {}
    for e in ex.evaluated(node.elements):
        if not isinstance(e, ex.Proj) or not r.active(e):
            continue
        loop = e.args[0]
        term = _added(loop, e.which) if isinstance(loop, ex.Loop) else None
        if isinstance(loop, ex.Loop) and term is not None and not loop.count.varies:
            total, terms = _sum(node, loop, term)
            made += [total.node, terms]
            r.moving.update((terms.leaf(), total))
            if r.wild(term):
                r.unbounded.update((terms, total.node))
            mapping[e] = add(loop.args[1 + e.which], own(total, len(node.shape)))
        elif isinstance(loop, ex.Loop | ex.While) and _must_be_lifted(r, loop):
            if loop not in lifted:
                lifted[loop] = _lifted(r, node, loop)
                made += [lifted[loop], *(leaf.node for leaf in lifted[loop].init)]
            mapping[e] = own(lifted[loop].leaf(e.which), len(node.shape))
    return ex.substitute(node.elements, mapping), made


def _added(loop: ex.Loop, k: int) -> Expr | None:
    """What a loop adds to state component k per iteration, if it does nothing else."""
    state, body = loop.vars[1 + k], loop.scoped[k]
    if not isinstance(body, ex.Apply) or body.op.name != "add" or state not in body.args:
        return None
    term = body.args[1 if body.args[0] is state else 0]
    return None if set(loop.vars[1:]) & set(ex.walk((term,))) else term


def _sum(node: Generate, loop: ex.Loop, term: Expr) -> tuple[Leaf, Generate]:
    rank = len(node.shape)
    count = on_host(apply_primitive("maximum", [loop.count, ex.constant(0)]))
    term = shifted(term, {loop.vars[0]: cast(ex.Index(rank), loop.vars[0].type)})
    terms = Generate((*node.shape, count), (term,), label=node.label, where=node.where)
    element = own(terms.leaf(), rank + 1)
    return summed(node.shape, (count,), element, node.label, node.where), terms


def _must_be_lifted(r: Reverse, loop: ex.Loop | ex.While) -> bool:
    init = loop.args[1:] if isinstance(loop, ex.Loop) else loop.args
    try:
        inputs = {*(a for a in init if r.active(a)), *_outside(loop, r.active)}
    except GradientError:
        return True
    return len(inputs) > MOST_DUALS or any(x.type.is_complex for x in inputs)


def _lifted(r: Reverse, node: Generate, loop: ex.Loop | ex.While) -> ArrayLoop:
    """The loops of all elements as one loop over arrays; finished elements keep their state."""
    shape, where, label = node.shape, node.where, node.label
    at = indices(len(shape))
    counted = isinstance(loop, ex.Loop)
    first: Sequence[Expr] = loop.args[1:] if counted else loop.args
    init = [Generate(shape, (e,), label=label, where=where).leaf() for e in first]
    states = [state_like(leaf, "state", where) for leaf in init]
    now = [s.leaf().at(*at) for s in states]
    mapping: dict[Expr, Expr] = dict(zip(loop.vars[1:] if counted else loop.vars, now, strict=True))
    index = count = predicate = None
    if isinstance(loop, ex.Loop):
        index = Input("k", int64, (), kind="counter", where=where)
        here = index.leaf().at()
        mapping[loop.vars[0]] = cast(here, loop.vars[0].type)
        following = ex.substitute(loop.scoped, mapping)
        count = on_host(loop.count) if not loop.count.varies else None
        if count is None:
            own_count = cast(loop.count, int64)
            most = _folded("maximum", shape, own_count, ex.constant(0), node)
            count = most.at()
            following = _while(apply_primitive("less", [here, own_count]), following, now)
    else:
        holds, *following = ex.substitute(loop.scoped, mapping)  # type: ignore[assignment]
        predicate = _folded("logical_or", shape, holds, ex.FALSE, node)
        following = _while(holds, following, now)
    body = Generate(shape, tuple(following), label=label, where=where)
    made = closed_loop(
        ArrayLoop(tuple(states), tuple(init), body.leaves, predicate, count, index,
                  label=label, where=where)
    )  # fmt: skip
    r.moving.update(leaf for leaf, e in zip(init, first, strict=True) if r.active(e))
    r.moving.update(leaf for leaf in made.leaves if leaf.type.is_inexact)
    r.admit(invariants(made))  # the whole body, if no state is used
    r.unbounded.add(made)
    return made


def _while(holds: Expr, new: Sequence[Expr], old: Sequence[Expr]) -> tuple[Expr, ...]:
    """The new values if the condition holds; otherwise they are not evaluated."""
    chosen = ex.Cond(holds, tuple(new), tuple(old))
    return tuple(ex.Proj(chosen, k) for k in range(len(old)))


def _folded(name: str, shape: Sequence[Expr], e: Expr, start: Expr, node: Generate) -> Leaf:
    type_ = bool_ if name == "logical_or" else int64
    if not shape:
        return Generate((), (e,), label=node.label, where=node.where).leaf()
    made = Fold((), tuple(shape), (e,), simple_combine(name, type_), (start,), label=node.label,
                where=node.where)  # fmt: skip
    return made.leaf()

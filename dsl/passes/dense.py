"""dense_updates: an update of most of an array becomes an element-wise operation.

    update(a, slice(1, None), b)   →   element i is b[i − 1] where 1 ≤ i, else a[i]
    a.at[1:].add(b)                →   element i is b[i − 1] + a[i] where 1 ≤ i, else a[i]

A permute starts with a copy of its defaults, and nothing is fused across it.  An element-wise
operation fuses with the producer of `a` and with the readers of the result, and writes each element
once.  The pass rewrites updates of inputs and of computed elements, and combinations with nearly
all results of a fold, which move into its kernel.  Arrays that are stored anyway, such as the state
of a loop, are updated in place, which costs only what is written.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction

from ..analysis.polynomial import affine_forms, polynomial, variables
from ..expr import (
    TRUE,
    Apply,
    Cond,
    Const,
    Expr,
    Index,
    Proj,
    Read,
    constant,
    rewrite,
    substitute,
    walk,
)
from ..graph import Fold, Generate, Input, Leaf, Node, Permute, Shape, known, topological
from ..graphs.rebuild import rewrite_graph
from ..node import indices
from ..scalar import apply_primitive
from .base import Context

#: The smallest fraction of an array that counts as most of it: arrays of two or three components of
#: a gradient are made by as many updates.
LEAST_PART = Fraction(1, 4)


def dense_updates(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace updates of dense slices by element-wise operations."""
    if context.settings.check or not any(isinstance(n, Permute) for n in topological(roots)):
        return list(roots)

    def change(node: Node) -> Node:
        if not isinstance(node, Permute) or not _may_change(node):
            return node
        made = as_elements(node)
        least = 1 if any(_is_folded(node, d) for d in node.defaults) else LEAST_PART
        return node if made is None or made[1] < least else made[0]

    return rewrite_graph(roots, change, context.kept)


def _may_change(node: Permute) -> bool:
    if node.valid is not TRUE or node.label.schedule is not None:
        return False
    return all(
        isinstance(d.node, Generate)
        or (isinstance(d.node, Input) and not d.node.bound)
        or _is_folded(node, d)
        for d in node.defaults
    )


def _is_folded(node: Permute, default: Leaf) -> bool:
    """Whether a permute combines values with results of a fold."""
    return node.combine is not None and isinstance(default.node, Fold)


def as_elements(node: Permute, shape: Shape = (), near: Container[Node] = ()
                ) -> tuple[Generate, Fraction] | None:  # fmt: skip
    """An update of a dense slice as an element-wise operation, with the fraction of elements that
    it writes, if known: all but a constant number along an axis counts as all, a constant number as
    none.  `shape`: the extents of the array, if the domain uses other but equal ones.  `near`:
    arrays whose elements beside the targets are read as neighbours, as in p[0] = p[1]."""
    if any(isinstance(e, Read) for e in walk((node.valid,))):
        return None
    shape = shape or node.defaults[0].shape
    part = Fraction(1)
    inside: Expr = TRUE
    fixed: dict[int, Expr] = {}
    sources: dict[Index, Expr] = {}
    equal = {c.left: c.right for c in node.checks if c.relation == "=="}
    domain = tuple(equal.get(n, n) for n in node.domain)  # in terms of the array
    for k, (target, n) in enumerate(zip(node.target, shape, strict=True)):
        axis = _axis(target)
        if axis is None:
            return None
        moving, start = axis
        if moving is None:
            fixed[k] = start
        length = constant(1) if moving is None else _length(domain[moving.axis], n)
        covered = _part(length, n)
        in_order = moving is None or all(moving.axis > e.axis for e in sources)
        if not in_order:
            return None
        part *= covered
        source = apply_primitive("subtract", [Index(k), start])
        if moving is not None:
            sources[moving] = source
        tests: list[tuple[str, Expr, Expr]] = [("greater_equal", Index(k), start)] * (
            start is not constant(0)
        )
        if not _ends(start, length, n):
            tests.append(("less", source, length))
        for name, left, right in tests:
            inside = apply_primitive("logical_and", [inside, apply_primitive(name, [left, right])])
    for k, extent in enumerate(node.domain):
        if Index(k) not in sources:
            if known(extent) != 1:
                return None
            sources[Index(k)] = constant(0)
    moved: dict[Expr, Expr] = dict(sources.items())
    (valid,) = substitute((node.valid,), moved)
    inside = apply_primitive("logical_and", [inside, valid])
    new = substitute(node.values, moved)
    beside: dict[Expr, Expr] = {
        e: _beside(e, fixed) for e in walk(new) if isinstance(e, Read) and e.node in near
    }
    new = rewrite(new, lambda e: beside.get(e, e))
    old = tuple(d.at(*indices(len(shape))) for d in node.defaults)
    if node.combine is not None:
        new = node.combine.of(new, old)
    chosen = Cond(inside, new, old)
    elements = new if inside is TRUE else tuple(Proj(chosen, k) for k in range(len(new)))
    made = Generate(shape, elements, label=node.label, where=node.where, checks=node.checks,
                    fused=node.fused)  # fmt: skip
    return made, part


def _beside(read: Read, fixed: Mapping[int, Expr]) -> Read:
    """A read at a fixed distance from an axis's only targets, as a read of a neighbour."""
    found = list(read.args)
    for k, start in fixed.items():
        if k < len(found):
            at, target = polynomial(found[k]), polynomial(start)
            far = None if at is None or target is None else (at - target).value
            if far is not None:
                found[k] = apply_primitive("add", [Index(k), constant(far)])
    if tuple(found) == read.args:
        return read
    return Read(read.node, read.component, tuple(found), read.boundary, read.scoped, read.vars)


def _axis(target: Expr) -> tuple[Index | None, Expr] | None:
    """The domain axis that advances a target along an axis by 1, if any; the first target."""
    form = affine_forms((target,)).get(target)
    if form is None:
        return None
    moving = {v: c for v, c in variables(form).items() if isinstance(v, Index)}
    if not moving:
        return None, target
    ((index, step), *others) = moving.items()
    if others or step != 1:
        return None
    return index, substitute((target,), {index: constant(0)})[0]


def _length(extent: Expr, n: Expr) -> Expr:
    """The extent of a slice of an axis of `n` elements, without the terms that clip negative
    extents to 0: max(max(n − b, 0) − min(n, a), 0) of [a:−b] becomes n − b − a (or 0)."""
    found = _other(extent, "maximum", _ZERO)
    if found is None:
        return extent
    if isinstance(found, Apply) and found.op.name == "subtract":
        stop, start = found.args
        first = next((x for x in _pair(start, "minimum", n) if isinstance(x, Const)), None)
        if first is not None and first.value >= 0:
            last = _other(stop, "maximum", _ZERO)
            if stop is n or (last is not None and _is_before(last, n)):
                return apply_primitive("subtract", [stop if last is None else last, first])
    return found


_ZERO = constant(0)


def _pair(e: Expr, name: str, of: Expr) -> tuple[Expr, ...]:
    """The arguments of the primitive `name`, if `of` is among them."""
    found = isinstance(e, Apply) and e.op.name == name and of in e.args
    return e.args if found else ()


def _other(e: Expr, name: str, of: Expr) -> Expr | None:
    """The other argument of a primitive whose two arguments include `of`."""
    return next((x for x in _pair(e, name, of) if x is not of), None)


def _is_before(e: Expr, n: Expr) -> bool:
    """Whether an expression is n − b for a non-negative number b."""
    left, right = polynomial(n), polynomial(e)
    if left is None or right is None:
        return False
    terms = (left - right).terms
    return set(terms) <= {()} and terms.get((), 0) >= 0


def _part(length: Expr, n: Expr) -> Fraction:
    """The written fraction of an axis; all but a constant number is all, unknown is none."""
    few, many = known(length), known(n)
    if few is not None and many is not None:
        return Fraction(max(int(few), 0), max(int(many), 1))
    left, right = polynomial(n), polynomial(length)
    if left is None or right is None:
        return Fraction(0)
    return Fraction(set((left - right).terms) <= {()})


def _ends(start: Expr, length: Expr, n: Expr) -> bool:
    """Whether the written part reaches the end of its axis."""
    forms = polynomial(start), polynomial(length), polynomial(n)
    first, more, last = forms
    return None not in forms and first + more == last  # type: ignore[operator]

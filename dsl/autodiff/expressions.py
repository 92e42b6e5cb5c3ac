"""Derivatives of scalar expressions: one reverse traversal of the interned expressions.

Cotangents are *masked*: a condition, and a value that counts only where the condition holds.
Through `where(p, a, b)` the cotangent of `a` holds where `p` does, and its value is multiplied by
the derivatives of `a` as if it held everywhere; non-finite values on the side not taken are
discarded at the end by one select, and never multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .. import expr as ex, simplify
from ..errors import GradientError
from ..expr import Expr
from ..node import Combine, canonical_combine
from ..operations.stencils import resolve_read
from ..primitives import TABLE
from ..scalar import Scalar, apply_primitive
from ..types import ScalarType, float32
from .rules import COMPLEX_REFUSED, RULES, ZERO


class Condition(NamedTuple):
    """One condition of a mask.  `guarding`: values may be evaluated only where it holds, because
    they read elements that need not exist elsewhere.  `given`: the cotangent, nonzero where the
    condition holds, to which the value is proportional; always the first condition of a mask."""

    holds: Expr
    guarding: bool
    given: Expr | None = None


#: The conditions in order: each may be evaluated only where the previous ones hold.
Mask = tuple[Condition, ...]


class Cotangent(NamedTuple):
    mask: Mask
    value: Expr


#: The most outer values with respect to which a loop inside an element is differentiated.
MOST_DUALS = 8


class Active:
    """Which expressions depend differentiably on active leaves (reads and variables)."""

    def __init__(self, leaf: Callable[[Expr], bool]) -> None:
        self._leaf = leaf
        self._known: dict[Expr, bool] = {}

    def __call__(self, e: Expr) -> bool:
        known = self._known
        for x in ex.unknown((e,), known):
            known[x] = self._of(x)
        return known[e]

    def _of(self, e: Expr) -> bool:
        known = self._known
        if isinstance(e, ex.Read):
            own = e.type.is_inexact and self._leaf(e)
            return own or any(known[x] for x in e.scoped)
        if isinstance(e, ex.Var):
            return e.type.is_inexact and self._leaf(e)
        if isinstance(e, ex.Apply):
            if not e.type.is_inexact or not any(known[a] for a in e.args):
                return False
            return e.op.name not in ZERO or (e.type.is_complex and e.op.name in COMPLEX_REFUSED)
        if isinstance(e, ex.Proj):
            of = e.args[0]
            if isinstance(of, ex.Cond):
                return e.type.is_inexact and (known[of.then[e.which]] or known[of.other[e.which]])
            return e.type.is_inexact and known[of]
        return any(known[x] for x in (*e.args, *e.scoped))


def ordered(roots: Iterable[Expr], children: Callable[[Expr], Sequence[Expr]]) -> list[Expr]:
    """Every expression under `roots` once, children first; iterative."""
    seen: set[Expr] = set()
    made: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(r, False) for r in roots]
    while stack:
        e, ready = stack.pop()
        if ready:
            made.append(e)
        elif e not in seen:
            seen.add(e)
            stack.append((e, True))
            stack += [(c, False) for c in children(e) if c not in seen]
    return made


def both(p: Expr, q: Expr) -> Expr:
    return apply_primitive("logical_and", [p, q])


def zero(type_: ScalarType) -> ex.Const:
    return ex.Const(0, type_)


def add(a: Expr, b: Expr) -> Expr:
    """The sum; adding 0 is omitted, to keep results short (0 + −0 is 0 anyway)."""
    if isinstance(a, ex.Const) and not a.value:
        return b
    if isinstance(b, ex.Const) and not b.value:
        return a
    return simplify.apply(TABLE["add"], (a, b), a.type)


def sum_type(t: ScalarType) -> ScalarType:
    """The type in which cotangents are summed over the iterations of a loop."""
    return float32 if t.is_narrow else t


def guarded(p: Expr, value: Expr, other: Expr) -> Expr:
    """`value` where p holds; if it reads anything, it is evaluated only there."""
    if isinstance(p, ex.Const):
        return value if bool(p.value) else other
    if not value.reads:
        return simplify.select(p, value, other)
    return ex.Proj(ex.Cond(p, (value,), (other,)), 0)


def settled(cotangent: Cotangent) -> Expr:
    """The value where the mask holds, else 0."""
    return _under(cotangent.mask, cotangent.value, zero(cotangent.value.type))


def _under(mask: Mask, value: Expr, other: Expr) -> Expr:
    if mask and mask[0].given is not None:
        if len(mask) == 1 and _multiple(value, mask[0].given):
            return value
        return simplify.select(mask[0].holds, _under(mask[1:], value, other), other)
    if any(c.guarding for c in mask):
        for condition in mask[::-1]:
            value = guarded(condition.holds, value, other)
        return value
    if not mask:
        return value
    p = mask[0].holds
    for condition in mask[1:]:
        p = both(p, condition.holds)
    return simplify.select(p, value, other)


def _multiple(e: Expr, g: Expr) -> bool:
    """Whether an expression is `g` times a finite constant, and hence 0 where `g` is."""
    while e is not g:
        if not isinstance(e, ex.Apply) or e.op.name not in ("negative", "multiply", "true_divide"):
            return False
        first, *rest = e.args
        if e.op.name == "multiply" and isinstance(first, ex.Const):
            first, rest = rest[0], [first]
        if not all(isinstance(c, ex.Const) and np.isfinite(c.value) and c.value for c in rest):
            return False
        e = first
    return True


def _negates(p: Expr, q: Expr) -> bool:
    return any(
        isinstance(x, ex.Apply) and x.op.name == "logical_not" and x.args[0] is y
        for x, y in ((p, q), (q, p))
    )


def joined(a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two masked cotangents; a common prefix of masks is tested once, at the end."""
    if a.mask == b.mask:
        return Cotangent(a.mask, add(a.value, b.value))
    if any(c.given is not None for m in (a.mask, b.mask) for c in m[:1]):
        if a.mask[:1] != b.mask[:1]:
            return where_given(add(settled(a), settled(b)))
        inner = joined(Cotangent(a.mask[1:], a.value), Cotangent(b.mask[1:], b.value))
        return Cotangent((*a.mask[:1], *inner.mask), inner.value)
    common = 0
    for x, y in zip(a.mask, b.mask, strict=False):
        if x.holds is not y.holds:
            break
        common += 1
    shared, first, second = a.mask[:common], a.mask[common:], b.mask[common:]
    total = add(settled(Cotangent(first, a.value)), settled(Cotangent(second, b.value)))
    if not first or not second:
        return Cotangent(shared, total)
    if len(first) == len(second) == 1 and _negates(first[0].holds, second[0].holds):
        return Cotangent(shared, total)
    true = ex.Const(True, first[0].holds.type)
    either = apply_primitive("logical_or", [_under(m, true, ex.FALSE) for m in (first, second)])
    guarding = any(c.guarding for c in (*first, *second))
    return Cotangent((*shared, Condition(either, guarding)), total)


def _fitted(value: Expr, type_: ScalarType) -> Expr:
    """A cotangent converted to the type of its value."""
    if value.type.is_complex and not type_.is_complex:
        value = apply_primitive("real", [value])
    return simplify.cast(value, type_)


def negated(p: Expr) -> Expr:
    return simplify.apply(TABLE["logical_not"], (p,), p.type)


def _partial(e: ex.Apply, k: int, g: Expr) -> Cotangent | None:
    """The contribution of the cotangent `g` of `e` to its argument k."""
    name = e.op.name
    if name in ZERO and not (e.type.is_complex and name in COMPLEX_REFUSED):
        return None
    if name not in RULES:
        raise GradientError(
            f"{name} of complex numbers has no derivative here.", hint=COMPLEX_REFUSED.get(name)
        )
    rule = RULES[name][k]
    if rule is None:
        return None
    found = rule(Scalar(g), Scalar(e), *(Scalar(a) for a in e.args))
    if isinstance(found, tuple):
        p, value = found
        return Cotangent((Condition(p._expr, False),), _fitted(value._expr, e.args[k].type))
    return Cotangent((), _fitted(found._expr, e.args[k].type))


def where_given(g: Expr) -> Cotangent:
    """A cotangent that is not multiplied where it is 0: a result does not matter there, and its
    derivatives need not be finite.

    The resulting `where(g != 0, v, 0)`, with v proportional to g, is differentiated with respect to
    g as v (`proportional`), so that second derivatives do not vanish where first ones do.
    """
    stopped = apply_primitive("stop", [g])
    holds = apply_primitive("not_equal", [stopped, zero(g.type)])
    return Cotangent((Condition(holds, False, g),), g)


def proportional(e: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(p, g, v) for an expression `where(p, v, 0)` that stems from `where_given(g)`."""
    if not isinstance(e, ex.Apply) or e.op.name != "select":
        return None
    p, v, other = e.args
    if not (isinstance(p, ex.Apply) and p.op.name == "not_equal" and isinstance(other, ex.Const)):
        return None
    stopped = p.args[0]
    if not (isinstance(stopped, ex.Apply) and stopped.op.name == "stop") or bool(other.value):
        return None
    return p, stopped.args[0], v


def _through_proportional(
    parts: tuple[Expr, Expr, Expr], given: Cotangent, active: Active
) -> list[tuple[Expr, Cotangent]]:
    """The contributions to g, as for v; and to everything else, where g is not 0."""
    p, g, v = parts
    factor = ex.Var("g", g.type)
    (of_factor,) = ex.substitute((v,), {g: factor})
    back: dict[Expr, Expr] = {factor: g}
    seed = where_given(given.value)
    inner = Active(lambda e: e is factor or active(e))
    made = []
    for leaf, (mask, value) in expr_vjp([(of_factor, seed)], inner).items():
        there = tuple(c._replace(holds=shifted(c.holds, back)) for c in mask)
        value = shifted(value, back)
        if leaf is factor:
            # Settled, since a mask has only one cotangent to which it is proportional.
            total = settled(Cotangent(there, value))
            made.append((g, Cotangent(given.mask, total)))
        else:
            total = settled(Cotangent(there, value))
            made.append((leaf, Cotangent((*given.mask, Condition(p, False)), total)))
    return [(leaf, c) for leaf, c in made if active(leaf)]


def expr_vjp(
    seeds: Sequence[tuple[Expr, Expr | Cotangent]], active: Active
) -> dict[Expr, Cotangent]:
    """The cotangents of the active leaves (reads and variables) of expressions.

    seeds: expressions, each with its cotangent; active: which leaves are differentiated.  Errors:
    `GradientError` for operations without a derivative.
    """
    found: dict[Expr, Cotangent] = {}
    leaves: dict[Expr, Cotangent] = {}
    #: The cotangents of the results of conditionals and loops.
    results: dict[Expr, dict[int, Cotangent]] = {}

    def give(e: Expr, cotangent: Cotangent) -> None:
        found[e] = joined(found[e], cotangent) if e in found else cotangent

    order = ordered((e for e, _ in seeds if active(e)), lambda e: _differentiable(e, active))
    for e, seed in seeds:
        if active(e):
            give(e, seed if isinstance(seed, Cotangent) else Cotangent((), seed))
    for e in reversed(order):
        if isinstance(e, ex.Cond | ex.Loop | ex.While):
            own = results.get(e)
            if own is None:
                continue
            if isinstance(e, ex.Cond):
                p = e.args[0]
                for k, (mask, value) in own.items():
                    for side, holds in ((e.then, p), (e.other, negated(p))):
                        if active(side[k]):
                            give(side[k], Cotangent((*mask, Condition(holds, True)), value))
            else:
                for inner, cotangent in _through_loop(e, own, active):
                    give(inner, cotangent)
            continue
        given = found.get(e)
        if given is None:
            continue
        if isinstance(e, ex.Read | ex.Var):
            leaves[e] = given
        elif isinstance(e, ex.Proj):
            mine = results.setdefault(e.args[0], {})
            mine[e.which] = given
        elif (parts := proportional(e)) is not None:
            for inner, cotangent in _through_proportional(parts, given, active):
                give(inner, cotangent)
        elif isinstance(e, ex.Apply):
            for k, a in enumerate(e.args):
                if active(a) and (made := _partial(e, k, given.value)) is not None:
                    give(a, Cotangent((*given.mask, *made.mask), made.value))
        elif isinstance(e, ex.Foreign):
            raise _foreign()
    return leaves


def optional(combine: Combine) -> Combine:
    """The combination lifted to optional elements: pairs of a flag and an element."""
    left, right = ([ex.Var(name, v.type) for v in (ex.TRUE, *combine.left)] for name in ("a", "b"))
    joined = combine.of(left[1:], right[1:])
    results = [
        simplify.select(left[0], simplify.select(right[0], e, a), b)
        for a, b, e in zip(left[1:], right[1:], joined, strict=True)
    ]
    some = apply_primitive("logical_or", [left[0], right[0]])
    return canonical_combine(tuple(left), tuple(right), (some, *results))


def _foreign() -> GradientError:
    return GradientError(
        "a foreign function has no derivative.",
        hint="Write it in treadle's functions, or give its derivative with td.rule.",
    )


def _differentiable(e: Expr, active: Active) -> list[Expr]:
    """The active expressions to which `e` passes cotangents."""
    if isinstance(e, ex.Read):
        return []
    if isinstance(e, ex.Cond):
        return [x for x in e.scoped if active(x)]
    if isinstance(e, ex.Loop | ex.While):
        return [*(a for a in e.args if active(a)), *_outside(e, active)]
    if (parts := proportional(e)) is not None:
        leaves = (x for x in ex.walk(parts[2:]) if isinstance(x, ex.Read | ex.Var))
        return [x for x in (parts[1], *leaves) if active(x)]
    return [a for a in e.args if active(a)]


def resolved(roots: Sequence[Expr], active: Active) -> tuple[Expr, ...]:
    """The expressions with boundaries resolved in reads whose boundary value is active."""
    mapping: dict[Expr, Expr] = {
        e: resolve_read(e)
        for e in ex.walk(roots)
        if isinstance(e, ex.Read) and any(active(x) for x in e.scoped)
    }
    return ex.substitute(roots, mapping)


# --- loops inside elements ---------------------------------------------------------------------


def _free(e: Expr, of: set[Expr]) -> bool:
    return of.isdisjoint(ex.walk((e,)))


def _outside(e: ex.Loop | ex.While, active: Active) -> list[Expr]:
    """The active expressions in a loop's body that do not depend on the loop."""
    bound: set[Expr] = {
        v for x in ex.walk((e,)) for v in x.vars if isinstance(x, ex.Loop | ex.While)
    }
    inside = {x for x in ex.walk(e.scoped) if not _free(x, bound)}
    found: dict[Expr, None] = {}
    stack = [s for s in e.scoped if active(s)]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x not in inside and x.type is not None:
            found[x] = None
        elif isinstance(x, ex.Read):
            raise GradientError(
                "the derivative of a loop inside a scalar function that reads an array at an index "
                "which changes from iteration to iteration is not supported.",
                hint="Write the loop over arrays: td.sum or td.fold of a td.generate with the "
                "loop's index as one more axis, td.scan, or td.loop outside of the function.",
                where=None,
            )
        else:
            stack += [c for c in (*x.args, *x.scoped) if active(c)]
    return list(found)


def _through_loop(
    e: ex.Loop | ex.While, own: dict[int, Cotangent], active: Active
) -> list[tuple[Expr, Cotangent]]:
    """The contributions of a loop to its operands: the loop runs again, carrying along derivatives
    with respect to each operand (there is no tape)."""
    init = e.args[1:] if isinstance(e, ex.Loop) else e.args
    inputs = list(dict.fromkeys([*(a for a in init if active(a)), *_outside(e, active)]))
    if len(inputs) > MOST_DUALS:
        raise GradientError(
            f"the derivative of a loop inside a scalar function that depends on {len(inputs)} "
            f"values is not supported: at most {MOST_DUALS} are.",
            hint="Write the loop over arrays: td.loop, td.scan or td.fold outside of the function.",
        )
    made = []
    for x in inputs:
        # Treat the inputs as independent, even if one is computed from another.
        directions: dict[Expr, Expr] = {a: ex.Const(int(a is x), a.type) for a in inputs}
        duals = loop_jvp(e, directions.get)
        total: Cotangent | None = None
        for k, (mask, g) in own.items():
            dual = duals.get(k)
            if dual is None:
                continue
            part = Cotangent(mask, apply_primitive("multiply", [g, dual]))
            total = part if total is None else joined(total, part)
        if total is not None:
            if x.type.is_complex:
                raise GradientError(
                    "the derivative of a loop on complex numbers inside a scalar function is not "
                    "supported.",
                    hint="Compute with the real and imaginary parts.",
                )
            made.append((x, Cotangent(total.mask, _fitted(total.value, x.type))))
    return made


def loop_jvp(e: ex.Loop | ex.While, tangent: Callable[[Expr], Expr | None]) -> dict[int, Expr]:
    """The tangents of a loop's results, by a loop that carries the state and its tangent."""
    counted = isinstance(e, ex.Loop)
    init = e.args[1:] if counted else e.args
    head = e.vars[:1] if counted else ()
    old = e.vars[1:] if counted else e.vars
    floats = [k for k, v in enumerate(old) if v.type.is_inexact]
    state = [ex.Var(v.name, v.type) for v in old]
    duals = {k: ex.Var(f"d_{old[k].name}", old[k].type) for k in floats}
    index = [ex.Var(v.name, v.type) for v in head]
    renamed: dict[Expr, Expr] = dict(zip((*head, *old), (*index, *state), strict=True))
    body = e.scoped if counted else e.scoped[1:]
    by_var: dict[Expr, Expr] = {state[k]: duals[k] for k in floats}
    now = ex.substitute(body, renamed)

    def inner(x: Expr) -> Expr | None:
        return by_var.get(x) or tangent(x)

    following = expr_jvp(now, inner)
    starting = expr_jvp(init, tangent)
    variables = (*index, *state, *duals.values())
    values = (*now, *(following[k] or zero(old[k].type) for k in floats))
    first = (*init, *(starting[k] or zero(old[k].type) for k in floats))
    made: ex.Loop | ex.While
    if isinstance(e, ex.Loop):
        made = ex.Loop(e.count, first, variables, values)
    else:
        (predicate,) = ex.substitute(e.scoped[:1], renamed)
        made = ex.While(first, variables, predicate, values)
    return {k: ex.Proj(made, len(old) + j) for j, k in enumerate(floats)}


# --- forward -----------------------------------------------------------------------------------


def expr_jvp(
    results: Sequence[Expr], tangent: Callable[[Expr], Expr | None]
) -> tuple[Expr | None, ...]:
    """The tangents of expressions; None is 0.  `tangent` returns those of leaves, and of any other
    expressions with respect to which we differentiate."""
    found: dict[Expr, Expr | None] = {}
    loops: dict[Expr, dict[int, Expr]] = {}

    def children(e: Expr) -> Sequence[Expr]:
        if isinstance(e, ex.Read | ex.Loop | ex.While) or tangent(e) is not None:
            return ()
        if proportional(e) is not None:
            return ()
        return (*e.args, *e.scoped)

    for e in ordered(results, children):
        given = tangent(e)
        if given is not None:
            found[e] = given
        elif (parts := proportional(e)) is not None:
            found[e] = _forward_proportional(parts, tangent)
        elif isinstance(e, ex.Apply):
            found[e] = _forward(e, [found.get(a) for a in e.args])
        elif isinstance(e, ex.Cond):
            sides = [found.get(s) for s in e.scoped]
            n = len(e.types)
            for k, t in enumerate(e.types):
                a, b = sides[k], sides[n + k]
                if a is None and b is None:
                    continue
                made = ex.Cond(e.args[0], (a or zero(t),), (b or zero(t),))
                loops.setdefault(e, {})[k] = ex.Proj(made, 0)
        elif isinstance(e, ex.Loop | ex.While):
            loops[e] = loop_jvp(e, tangent) if _moves(e, tangent) else {}
        elif isinstance(e, ex.Proj):
            found[e] = loops.get(e.args[0], {}).get(e.which) if e.type.is_inexact else None
        elif isinstance(e, ex.Foreign) and any(found.get(a) is not None for a in e.args):
            raise _foreign()
        else:
            found[e] = None
    return tuple(found[e] for e in results)


def _moves(e: Expr, tangent: Callable[[Expr], Expr | None]) -> bool:
    return any(tangent(x) is not None for x in ex.walk((e,)))


def _forward_proportional(
    parts: tuple[Expr, Expr, Expr], tangent: Callable[[Expr], Expr | None]
) -> Expr | None:
    """The tangent of `where(g != 0, v, 0)`: by g, as for v; else where g is not 0."""
    p, g, v = parts
    factor = ex.Var("g", g.type)
    (of_factor,) = ex.substitute((v,), {g: factor})
    (moved,) = expr_jvp((g,), tangent)
    (others,) = expr_jvp((of_factor,), tangent)
    total: Expr | None = None
    if others is not None:
        total = simplify.select(p, shifted(others, {factor: g}), zero(v.type))
    if moved is not None:
        (own,) = expr_jvp((of_factor,), lambda e: moved if e is factor else None)
        if own is not None:
            holds = apply_primitive("not_equal", [moved, zero(moved.type)])
            part = simplify.select(holds, shifted(own, {factor: g}), zero(v.type))
            total = part if total is None else add(total, part)
    return total


def _forward(e: ex.Apply, tangents: Sequence[Expr | None]) -> Expr | None:
    """The tangent of a primitive's result, by the reverse rules: d·t = conj(conj(d)·conj(t))."""
    if not e.type.is_inexact:
        return None
    name = e.op.name
    total: Expr | None = None
    if name == "select":
        p, a, b = e.args
        if tangents[1] is None and tangents[2] is None:
            return None
        return simplify.select(p, tangents[1] or zero(a.type), tangents[2] or zero(b.type))
    if name in ("real", "imag", "conjugate", "cast", "complex"):
        if all(t is None for t in tangents):
            return None
        args = tuple(t or zero(a.type) for t, a in zip(tangents, e.args, strict=True))
        return simplify.apply(e.op, args, e.type)
    for k, t in enumerate(tangents):
        if t is None:
            continue
        complex_ = e.args[k].type.is_complex
        if name == "absolute" and complex_:
            x = Scalar(e.args[k])
            made = _partial(e, k, ex.Const(1, e.type))
            assert made is not None
            moved = (x.real * Scalar(t).real + x.imag * Scalar(t).imag) / Scalar(e)
            part = simplify.select(made.mask[0].holds, moved._expr, zero(e.type))
        else:
            given = apply_primitive("conjugate", [t]) if complex_ else t
            made = _partial(e, k, given)
            if made is None:
                continue
            part = settled(made)
            part = apply_primitive("conjugate", [part]) if complex_ else part
        total = part if total is None else add(total, part)
    return total


def shifted(e: Expr, mapping: dict[Expr, Expr]) -> Expr:
    return ex.substitute((e,), mapping)[0]


def index_map(images: Sequence[Expr]) -> dict[Expr, Expr]:
    """Maps Index(k) to the k-th expression."""
    return {ex.Index(k): image for k, image in enumerate(images)}

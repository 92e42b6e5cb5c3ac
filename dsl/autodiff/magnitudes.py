"""Even functions of magnitudes, rewritten for differentiation.

    abs(x) · abs(x)       → x · x, of complex numbers re² + im²
    hypot(a, b)²          → a² + b²
    √s · √s               → s, where s ≥ 0; so (s^(1/n))ⁿ
    cos(abs(x))           → cos(x); so cosh
    a / tan(x)            → a · cos(x) / sin(x)

A magnitude has no derivative at 0, but these functions are smooth there, as is 1 / tan(x) at the
poles of the tangent.  The program computes the expressions as written; only derivatives are those
of the right side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeGuard

from .. import simplify
from ..expr import Apply, Cond, Const, Expr, Proj, Read, Var, rewrite, substitute, walk
from ..graph import Generate
from ..operations.stencils import resolve_read
from ..scalar import Scalar, apply_primitive
from .expressions import Active, add, index_map, proportional, shifted, where_given, zero

_EVEN = frozenset(["cos", "cosh"])
#: Operations through which arrays are expanded; arrays of other expressions are opaque.
_SEEN = frozenset(
    ["absolute", "hypot", "sqrt", "power", "multiply", "true_divide", "negative", "cast",
     "select", "equal", "not_equal", "greater", "less", "greater_equal", "less_equal", "tan",
     *_EVEN]
)  # fmt: skip
#: The most factors of a product that is searched.
_MOST = 32


class _Root(NamedTuple):
    """s to the power of c; `nonnegative`: s is, or the power is defined for negative s."""

    s: Expr
    c: float
    nonnegative: bool


def smooth(
    roots: Sequence[Expr], active: Active, closed: Callable[[Read], bool] = lambda e: True
) -> tuple[Expr, ...]:
    """The expressions with even functions of magnitudes replaced by differentiable ones.

    closed: which reads are of differentiated arrays; other reads are expanded.
    """
    return _Magnitudes(active, closed).rewritten(roots)


class _Magnitudes:
    def __init__(self, active: Active, closed: Callable[[Read], bool]) -> None:
        self._active, self._closed = active, closed
        self._opened: dict[Expr, Expr] = {}

    def rewritten(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        memo: dict[Expr, Expr] = {}
        for e in walk(roots, lambda e: proportional(e) is None):
            if (parts := proportional(e)) is not None:  # v stays proportional to g
                _, g, v = parts
                factor = Var("g", g.type)
                given, of_factor = self.rewritten((g, *substitute((v,), {g: factor})))
                mask, _ = where_given(given)
                (v,) = substitute((of_factor,), {factor: given})
                memo[e] = simplify.select(mask[0].holds, v, zero(v.type))
        return rewrite(roots, self.instead, memo)

    def instead(self, e: Expr) -> Expr:
        if not isinstance(e, Apply) or not self._active(e):
            return e
        if e.op.name == "multiply":
            return self._product(e)
        if e.op.name == "power" and self._active(e.args[0]):
            return self._power(e)
        if e.op.name == "true_divide" and _is(tangent := self._open(e.args[1]), "tan"):
            sine, cosine = (apply_primitive(name, tangent.args) for name in ("sin", "cos"))
            return (Scalar(e.args[0]) * Scalar(cosine) / Scalar(sine))._expr
        if e.op.name in _EVEN:
            inside = self._open(e.args[0])
            if _is(inside, "absolute") and not inside.args[0].type.is_complex:
                return self.instead(simplify.apply(e.op, self.rewritten(inside.args), e.type))
        return e

    def _product(self, e: Apply) -> Expr:
        """A product whose repeated magnitudes are merged into one power."""
        factors, minus = self._factors(e)
        alike: dict[Expr, list[Expr]] = {}
        for x in factors:
            alike.setdefault(self._open(x), []).append(x)
        for a, same in alike.items():
            several = len(same) > 1 and self._active(a)
            power, n = self._together(a, same) if several else (e, 0)
            if n:
                rest = [x for b, xs in alike.items() for x in (xs[n:] if b is a else xs)]
                total = self.instead(_product([power, *self.rewritten(rest)]))
                return apply_primitive("negative", [total]) if minus else total
        return e

    def _together(self, a: Expr, same: list[Expr]) -> tuple[Expr, int]:
        """A differentiable product of equal factors, and how many of them it covers."""
        if (root := self._root(a)) is not None:
            for n in range(len(same), 1, -1):
                if _whole(root.c * n):
                    return self._raised(root, root.c * n), n
        elif (sides := _sides(a)) is not None:
            powers = [_product([x] * len(same)) for x in sides]
            made = self.rewritten(powers)
            if made != tuple(powers):
                if _is(a, "select"):
                    return simplify.select(a.args[0], *made), len(same)
                return Proj(Cond(a.args[0].args[0], made[:1], made[1:]), 0), len(same)
        return a, 0

    def _factors(self, e: Expr) -> tuple[list[Expr], bool]:
        """The factors of a product, including stored products, and whether it is negated."""
        made: list[Expr] = []
        minus, stack = False, [e]
        while stack:
            x = stack.pop()
            inside = self._open(x)
            if _is(inside, "negative"):
                minus = not minus
                stack += inside.args
            elif len(made) + len(stack) >= _MOST:
                made.append(x)
            elif _is(inside, "multiply"):
                stack += inside.args[::-1]
            elif _is(inside, "true_divide") and not isinstance(inside.args[0], Const):
                a, b = inside.args
                stack += (apply_primitive("true_divide", [Const(1, b.type), b]), a)
            else:
                made.append(x)
        return made, minus

    def _power(self, e: Apply) -> Expr:
        (base, exponent), root = e.args, self._root(e.args[0])
        if exponent.type.is_complex:
            return e
        if root is None:
            n = float(exponent.value) if isinstance(exponent, Const) else 0
            if n not in (2, 4) or not _is(self._open(base), "multiply", "negative", "true_divide"):
                return e
            product = _product([base] * int(n))
            made = self.instead(product)
            return e if made is product else made
        if isinstance(exponent, Const):
            k = root.c * float(exponent.value)
            return self._raised(root, k) if _whole(k) else e
        if root.c != 0.5 or not root.nonnegative:
            return e
        two = apply_primitive("equal", [exponent, Const(2, exponent.type)])
        rest = Scalar(base) ** (Scalar(exponent) - 2)
        return simplify.select(two, (Scalar(root.s) * rest)._expr, e)

    def _root(self, e: Expr) -> _Root | None:
        """The root that an expression is, if any."""
        e = self._open(e)
        if _is(e, "absolute"):
            z = Scalar(e.args[0])
            s = z.real * z.real + z.imag * z.imag if z.dtype.is_complex else z * z
            return _Root(self.rewritten((s._expr,))[0], 0.5, True)
        if _is(e, "hypot"):
            a, b = map(Scalar, e.args)
            return _Root(add(*self.rewritten([(x * x)._expr for x in (a, b)])), 0.5, True)
        if _is(e, "sqrt"):
            return _Root(self.rewritten(e.args)[0], 0.5, e.type.is_complex)
        if _is(e, "power") and isinstance(e.args[1], Const) and e.type.is_float:
            c = float(e.args[1].value)
            return _Root(self.rewritten(e.args)[0], c, False) if 0 < c < 1 else None
        if _is(e, "cast") and e.args[0].type.is_inexact:
            inner = self._root(e.args[0])
            if inner is not None and (inner.nonnegative or e.type.is_float):
                return inner._replace(s=simplify.cast(inner.s, e.type))
        if _is(e, "select"):
            return self._guarded(e)
        return None

    def _guarded(self, e: Apply) -> _Root | None:
        """The root in a guarded form: `where(s > 0, sqrt(s), 0)`, in which √ may have another
        argument where it is not taken."""
        p, *sides = e.args
        p = self._open(p)
        for k, names in enumerate((("not_equal", "greater"), ("equal", "less_equal"))):
            root, outside = self._root(sides[k]), self._open(sides[1 - k])
            if root is None or not _is_zero(outside) or not isinstance(p, Apply):
                continue
            s = self._open(root.s)
            if _is(s, "select") and self._open(s.args[0]) is p:
                s = self._open(s.args[1 + k])
            swapped = not _is(p, *names)
            if swapped and not _is(p, *(_SWAPPED[n] for n in names)):
                continue
            tested, bound = p.args[::-1] if swapped else p.args
            if _is_zero(bound) and self._open(tested) in (s, self._open(sides[k])):
                return _Root(s, root.c, e.type.is_complex)
        return None

    def _raised(self, root: _Root, k: float) -> Expr:
        """s to the power of k; NaN, like its derivative, where s has no root."""
        power = self.instead((Scalar(root.s) ** round(k))._expr)
        if root.nonnegative:
            return power
        exists = apply_primitive("greater_equal", [root.s, zero(root.s.type)])
        return simplify.select(exists, power, apply_primitive("sqrt", [root.s]))

    def _open(self, e: Expr) -> Expr:
        """The element of an array of such expressions that is read, through any views."""
        found = self._opened.get(e)
        if found is None:
            found = e
            while isinstance(found, Read) and not self._closed(found):
                if type(found.node) is not Generate:
                    break
                inside = found.node.elements[found.component]
                if not (isinstance(inside, Read | Const) or _sides(inside) or _is(inside, *_SEEN)):
                    break
                if found.boundary is not None:
                    found = resolve_read(found)
                else:
                    found = shifted(inside, index_map(found.args))
            self._opened[e] = found
        return found


#: a > b is b < a.
_SWAPPED = {"not_equal": "not_equal", "equal": "equal", "greater": "less",
            "less_equal": "greater_equal"}  # fmt: skip


def _is(e: Expr, *names: str) -> TypeGuard[Apply]:
    return isinstance(e, Apply) and e.op.name in names


def _sides(e: Expr) -> tuple[Expr, Expr] | None:
    if _is(e, "select"):
        return None if proportional(e) else (e.args[1], e.args[2])
    if isinstance(e, Proj) and isinstance(e.args[0], Cond):
        return e.args[0].then[e.which], e.args[0].other[e.which]
    return None


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and not e.value


def _whole(k: float) -> bool:
    """Whether a power is a positive whole number, up to rounding of exponents."""
    return k > 0.5 and abs(k - round(k)) < 1e-12


def _product(factors: Sequence[Expr]) -> Expr:
    first, *others = factors
    for x in others:
        first = apply_primitive("multiply", [first, x])
    return first

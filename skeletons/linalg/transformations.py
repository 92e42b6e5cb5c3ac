"""The reflections of QR decompositions and the rotations of Jacobi's method, of one matrix each.

Their parameters are scalars; CPU and GPU kernels apply them in their own order of elements.
"""

from __future__ import annotations

import numpy as np

from treadle.dsl import simplify
from treadle.dsl.expr import Expr
from treadle.dsl.records import dataclass
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import ScalarType

from ..ir import arithmetic as at
from ..ir.linearize import Linearizer
from .small import (
    LARGEST,
    conjugate,
    constant_of,
    larger,
    minus,
    negative,
    over,
    plus,
    quotient,
    real,
    real_type,
    size,
    times,
)


@dataclass(frozen=True)
class Scale:
    """A divisor for the elements of a column or matrix, with its inverse: no square overflows then,
    and squares that underflow are negligible."""

    value: Expr
    inverse: Expr

    @classmethod
    def of(cls, into: Linearizer, most: Expr) -> Scale:
        """The largest size of an element; at least the smallest number with a finite inverse."""
        least = constant_of(float(np.finfo(most.type.numpy).tiny), most.type)
        value = into.let(larger(most, least), "scale")
        return cls(value, into.let(quotient(constant_of(1, most.type), value), "inverse"))


@dataclass(frozen=True)
class Reflection:
    """H = I − τ v vᴴ with v[0] = 1, whose conjugate transpose maps a column to `top` e₀; the rest
    of v is that of the scaled column times `inverse`."""

    tau: Expr
    inverse: Expr
    top: Expr

    @classmethod
    def of(cls, into: Linearizer, alpha: Expr, rest: Expr, squares: Expr, scale: Scale
           ) -> Reflection:  # fmt: skip
        """`alpha`: the first element of the column.  `rest`: the largest size of the others;
        `squares`: the sum of the squares of all of them, scaled.  With LAPACK's signs."""
        t, kind = alpha.type, squares.type
        zero, one = constant_of(0, kind), constant_of(1, kind)
        if t.is_complex:
            rest = larger(rest, apply_primitive("absolute", [apply_primitive("imag", [alpha])]))
        none = into.let(apply_primitive("equal", [rest, zero]), "none")
        first = into.let(times(alpha, scale.inverse), "first")
        norm = into.let(apply_primitive("sqrt", [squares]), "norm")
        positive = apply_primitive("greater_equal", [real(first), zero])
        beta = into.let(simplify.select(positive, negative(norm), norm), "beta")
        wide = simplify.cast(beta, t)
        divisor = into.let(simplify.select(none, one, beta), "divisor")
        tau = simplify.select(none, constant_of(0, t), over(minus(wide, first), divisor))
        difference = simplify.select(none, constant_of(1, t), minus(first, wide))
        inverse = into.let(quotient(constant_of(1, t), into.let(difference, "difference")),
                           "factor")  # fmt: skip
        top = simplify.select(none, alpha, simplify.cast(times(beta, scale.value), t))
        return cls(into.let(tau, "tau"), inverse, into.let(top, "top"))


@dataclass(frozen=True)
class Rotation:
    """In the plane of axes p and q: columns become `c·p − s·q'` and `s·p + c·q'` with `q' = q ·
    phase` (None: 1), so that the element off the diagonal becomes zero, and the elements on the
    diagonal `shift` smaller and larger."""

    shift: Expr
    c: Expr
    s: Expr
    phase: Expr | None
    #: Whether the element was not negligible.
    acts: Expr

    @classmethod
    def of(cls, into: Linearizer, p: Expr, q: Expr, x: Expr) -> Rotation:
        """`p`, `q`: elements on the diagonal of a matrix whose largest element is about 1; `x`: the
        element of row p and column q."""
        kind = p.type
        zero, one = constant_of(0, kind), constant_of(1, kind)
        g = into.let(apply_primitive("absolute", [x]), "size") if x.type.is_complex else x
        least = constant_of(negligible(kind), kind)
        acts = into.let(apply_primitive("greater", [size(g), least]), "acts")
        divisor = into.let(simplify.select(acts, g, one), "divisor")
        tau = into.let(quotient(minus(q, p), plus(divisor, divisor)), "tau")
        root = apply_primitive("sqrt", [plus(times(tau, tau), one)])
        sign = simplify.select(apply_primitive("less", [tau, zero]), constant_of(-1, kind), one)
        t = simplify.select(acts, quotient(sign, plus(size(tau), root)), zero)
        t = into.let(t, "t")
        root = apply_primitive("sqrt", [plus(times(t, t), one)])
        c = into.let(quotient(one, root), "c")
        phase = None
        if x.type.is_complex:
            phase = simplify.select(acts, over(conjugate(x), divisor), constant_of(1, x.type))
            phase = into.let(phase, "phase")
        return cls(into.let(times(t, g), "shift"), c, into.let(times(t, c), "s"), phase, acts)


def negligible(kind: ScalarType) -> float:
    """Elements off the diagonal that change no eigenvalue of a matrix with a largest element of 1
    by more than its rounding."""
    return float(np.finfo(kind.numpy).eps) / (4 * LARGEST)


def unbounded(most: Expr) -> Expr:
    """Whether the largest size of the elements of a matrix is inf or NaN."""
    infinite = constant_of(float("inf"), real_type(most.type))
    return apply_primitive("logical_not", [apply_primitive("less", [most, infinite])])


def comes_before(x: Expr, i: Expr, y: Expr, j: Expr) -> Expr:
    """Whether x, of number i, comes before y, of number j, in ascending order."""
    less, equal = (apply_primitive(name, [x, y]) for name in ("less", "equal"))
    return at.either(less, at.both(equal, at.less(i, j)))

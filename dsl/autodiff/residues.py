"""Sums over indices of which only one in s contributes, rewritten to visit only these.

The adjoint of `a[s·i + k]`, as for windows at a stride of s, sums over all k for which p − k is a
multiple of s.  Each class of elements p with the same remainder has its own k, one in s:

    Σ over k < n of (g[(p − k) / s, k] where (p − k) mod s = 0)
    →  t[r, q] = Σ over m < n / s of g[q − m, s·m + r]     and   t[p mod s, p // s]

No iteration is wasted, and neighbours in a row of t read neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis.polynomial import affine, variables
from ..expr import Apply, Const, Expr, Index, constant
from ..graph import Shape
from ..operations.indexing.row_major import minus, plus, times
from ..scalar import apply_primitive
from .expressions import shifted


class Congruence(NamedTuple):
    """The condition that p + start − c·k is a multiple of `step`: p is the index along `axis` of an
    array, k the index along the axis `lost` that is summed over; c and `step` are coprime."""

    axis: int
    lost: int
    step: int
    c: int
    start: int
    quotient: Expr

    @property
    def offset(self) -> int:
        return self.start % self.step

    @property
    def before(self) -> int:
        """The number of elements of t before the first element."""
        return max(self.c - 1, 0)

    def first(self, p: Expr) -> Expr:
        s = constant(self.step)
        place = times(plus(p, constant(self.offset)), constant(pow(self.c, -1, self.step)))
        return apply_primitive("remainder", [place, s])

    def place(self, p: Expr) -> Expr:
        """(p + start − c·k) / step for this k, without the multiples of `step` in `start`."""
        at, s = plus(p, constant(self.offset)), constant(self.step)
        if self.c != 1:
            at = minus(at, times(self.first(p), constant(self.c)))
        return apply_primitive("floor_divide", [at, s])

    def places(self, n: Expr) -> Expr:
        """The extent of t along q for n elements."""
        more = self.offset - 1 + max(-self.c, 0) * (self.step - 1) + self.step * (1 + self.before)
        return apply_primitive("floor_divide", [plus(n, constant(more)), constant(self.step)])

    def most(self, n: Expr) -> Expr:
        """The most of n indices k that contribute to one element."""
        return apply_primitive(
            "floor_divide", [plus(n, constant(self.step - 1)), constant(self.step)]
        )


def congruence(condition: Expr, rank: int) -> Congruence | None:
    """A condition on one index of an array of `rank` axes and one of the axes after them."""
    if not isinstance(condition, Apply) or condition.op.name != "equal":
        return None
    left, right = condition.args
    zero = isinstance(right, Const) and right.value == 0
    if not (zero and isinstance(left, Apply) and left.op.name == "remainder"):
        return None
    x, step = left.args
    form = affine(x)
    if form is None or not isinstance(step, Const):
        return None
    found, s = variables(form), int(step.value)
    axes = sorted(v.axis for v in found if isinstance(v, Index))
    if len(axes) != 2 or len(form.nonconstant.terms) != 2 or not axes[0] < rank <= axes[1]:
        return None
    axis, lost = axes
    c = -found[Index(lost)]
    if s < 2 or found[Index(axis)] != 1 or math.gcd(c, s) != 1:
        return None
    quotient = apply_primitive("floor_divide", [x, step])
    return Congruence(axis, lost, s, c, form.constant, quotient)


class Classes(NamedTuple):
    """The sum by classes: over `inner`, for each element of `outer`; the position at which an
    element of the array reads it; images and conditions of its terms."""

    outer: Shape
    inner: Shape
    at: tuple[Expr, ...]
    images: tuple[Expr, ...]
    conditions: tuple[Expr, ...]


def by_class(
    images: Sequence[Expr], conditions: Sequence[Expr], shape: Shape, inner: Shape
) -> Classes:
    """A sum over `inner` for each element of `shape`.

    The classes are the first axis for each congruence.  If each element has only one term, it is
    found without classes.
    """
    rank = len(shape)
    every = [c for e in conditions if (c := congruence(e, rank)) is not None]
    axes = [a for c in every for a in (c.axis, c.lost)]
    found = [c for c in every if axes.count(c.axis) == axes.count(c.lost) == 1]
    counts = {c.lost: c.most(inner[c.lost - rank]) for c in found}
    several = [c for c in found if counts[c.lost] is not constant(1)]
    first = len(several)
    left = [a for a in range(rank, rank + len(inner)) if counts.get(a) is not constant(1)]
    mapping: dict[Expr, Expr] = {Index(a): Index(first + a) for a in range(rank)}
    mapping |= {Index(a): Index(first + rank + k) for k, a in enumerate(left)}
    outer, at = list(shape), list[Expr](map(Index, range(rank)))
    classes, below = list[Expr](), list[Expr]()
    for c in found:
        s, p, n = constant(c.step), Index(c.axis), inner[c.lost - rank]
        if c in several:
            k, place = mapping[Index(c.lost)], mapping[p]
            r = Index(len(classes))
            classes.append(s)
            outer[c.axis], at[c.axis] = c.places(shape[c.axis]), c.place(p)
            at[c.axis] = plus(at[c.axis], constant(c.before))
            place = minus(place, constant(c.before))
            mapping[p] = minus(plus(times(place, s), times(r, constant(c.c))), constant(c.offset))
            place = minus(place, times(k, constant(c.c)))
            index = plus(times(k, s), r)
        else:
            own = shifted(p, mapping)
            place, index = c.place(own), c.first(own)
        mapping[Index(c.lost)] = index
        mapping[c.quotient] = plus(place, constant(c.start // c.step))
        whole = isinstance(n, Const) and int(n.value) % c.step == 0
        if not whole:
            below.append(apply_primitive("less", [index, n]))
    places = [c.first(Index(c.axis)) for c in several]
    rest = [e for e in conditions if congruence(e, rank) not in found]
    return Classes(
        (*classes, *outer),
        tuple(counts.get(a, inner[a - rank]) for a in left),
        (*places, *at),
        tuple(shifted(e, mapping) for e in images),
        (*below, *(shifted(e, mapping) for e in rest)),
    )

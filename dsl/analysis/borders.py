"""Recognise indices resolved at the border of a domain, and simplify them for the interior.

A stencil over a view reads an array at indices computed by its boundary condition: for a[1:−1, 2:],

    a[min(max(i − 1, 0), n − 1) + 1, j + 2]        interior:  a[i, j + 2]
    in range(i − 1, n) ? a[i, j + 2] : 0           interior:  a[i, j + 2]

where n is the extent of the domain along i.  The same holds for slices with steps, transposed and
reversed views, and producers that use indices as numbers.  This module finds such indices in the
expressions themselves, so that splitting border from interior needs no information from producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..expr import (
    Apply,
    Cond,
    Const,
    Expr,
    Extent,
    Index,
    Param,
    Proj,
    Read,
    Var,
    conjuncts,
    rewrite,
    split_constant,
    substitute,
    walk,
)
from ..node import Shape
from ..operations.stencils import resolve_index, resolved_index
from ..scalar import apply_primitive

#: Offsets beyond this are ignored: such neighbours share no reads, and their border could be the
#: entire array.
FARTHEST = 64


class Inside:
    """A transformation for `rewrite` that replaces border indices by those of the interior.

    `extents`: maps the index variable of each axis to its extent. `low` and `high`: the least and
    greatest offset found for each variable. `kinds`: the boundary conditions found.  `guarded`:
    arrays read only under range tests.
    """

    def __init__(self, extents: Mapping[Expr, Expr]) -> None:
        self.extents = extents
        self.low: dict[Expr, int] = {}
        self.high: dict[Expr, int] = {}
        self.kinds: set[str] = set()
        self.guarded: set[Expr] = set()

    def __call__(self, e: Expr) -> Expr:
        if isinstance(e, Apply):
            return self._unresolved(e)
        if isinstance(e, Proj) and isinstance(e.args[0], Cond):
            return self._chosen(e, e.args[0])
        return e

    def of(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        """`roots`, as they are in the interior."""
        return rewrite(roots, self)

    def _unresolved(self, e: Apply) -> Expr:
        found = resolved_index(e)
        if found is None:
            return e
        kind, x = found
        v, c = split_constant(x)
        n = self.extents.get(v)
        if n is None or abs(c) > FARTHEST or resolve_index(kind, x, n) is not e:
            return e
        self.kinds.add(kind)
        self._meet(v, c)
        return x

    def _chosen(self, e: Proj, choice: Cond) -> Expr:
        """A choice by range tests, with tests of other axes kept."""
        tests = conjuncts(choice.args[0])
        ranges = {x for t in tests if (x := self._below_extent(t)) is not None}
        ranges &= {x for t in tests if (x := _not_negative(t)) is not None}
        reads = [x for x in walk(choice.then) if isinstance(x, Read)] if ranges else []
        if not reads:
            return e
        for x in ranges:
            v, c = split_constant(x)
            self._meet(v, c)
        beyond = isinstance(choice.other[e.which], Const)
        self.kinds.add("constant" if beyond else "function")
        self.guarded.update(reads)
        met = [{self._below_extent(t), _not_negative(t)} & ranges for t in tests]
        left = [t for t, known in zip(tests, met, strict=True) if not known]
        if not left:
            return choice.then[e.which]
        condition = left[0]
        for test in left[1:]:
            condition = apply_primitive("logical_and", [condition, test])
        return Proj(Cond(condition, choice.then, choice.other), e.which)

    def _below_extent(self, e: Expr) -> Expr | None:
        """The x of  x < n, where x is near the index of an axis of extent n."""
        if not isinstance(e, Apply) or e.op.name != "less":
            return None
        x, limit = e.args
        v, c = split_constant(x)
        return x if self.extents.get(v) is limit and abs(c) <= FARTHEST else None

    def _meet(self, v: Expr, c: int) -> None:
        self.low[v] = min(self.low.get(v, c), c)
        self.high[v] = max(self.high.get(v, c), c)


def _not_negative(e: Expr) -> Expr | None:
    """The x of  x ≥ 0."""
    if not isinstance(e, Apply) or e.op.name != "greater_equal":
        return None
    x, limit = e.args
    return x if isinstance(limit, Const) and limit.value == 0 else None


#: Expressions whose computation ends for any data.
_ANYWHERE = Apply | Cond | Const | Extent | Index | Param | Proj | Read | Var


def _may_divide(e: Expr) -> bool:
    """Whether integers are divided by a number that may be 0."""
    divides = isinstance(e, Apply) and e.type.is_integer and e.op.name in _DIVISIONS
    return divides and not isinstance(e.args[1], Const)


_DIVISIONS = ("floor_divide", "remainder", "quot", "rem")


def zero_beyond(
    e: Expr, domain: Shape, wanted: Iterable[int], places: Sequence[Expr], shape: Shape = (),
    unified: Callable[[Shape], Shape] = lambda shape: shape, signed: bool = False,
    finite: Callable[[Expr], bool] = lambda e: False,
) -> tuple[Expr, set[int]]:  # fmt: skip
    """An element of `domain` that is 0 beyond it along some of the `wanted` axes, since the arrays
    that it reads have a border of zeros, and these axes.

        out[p] = in range(p − 1, n) ? 2 · a[p − 1] : 0   →   2 · a[p − 1], a with a border

    Along these axes, the element may be computed at any index, such as those of `places`: other
    arrays are read there at an index of `shape`, the domain of the reader.  `signed`: -0 is not 0.
    `finite`: whether the product of an expression and 0 is taken for 0.
    """
    if any(not isinstance(x, _ANYWHERE) or _may_divide(x) for x in walk((e,))):
        return e, set()
    axes: dict[Expr, int] = {Index(k): k for k in range(len(domain))}
    bordered: dict[Expr, tuple[Read, set[Expr]]] = {}
    for x in walk((e,)):
        along = {i for i in walk(x.args) if i in axes} if isinstance(x, Read) else None
        if not along:
            continue
        assert isinstance(x, Read)
        extents = unified(x.node.outputs[x.component].shape)
        own = {i for i, n in zip(x.args, extents, strict=True)
               if i in axes and domain[axes[i]] is n}  # fmt: skip
        if x.boundary is None or (x.boundary == "constant" and is_zero(x.scoped[0])):
            if own >= along:
                border = (Const(0, x.type),)
                bordered[x] = Read(x.node, x.component, x.args, "constant", border), along
                continue
            images: dict[Expr, Expr] = {Index(k): place for k, place in enumerate(places)}
            at = substitute(x.args, images)
            if all(isinstance(i, Index) and i.axis < len(shape) and shape[i.axis] is n
                   for i, n in zip(at, extents, strict=True)):  # fmt: skip
                continue
        for i in along:
            del axes[i]
    found = set()
    for i, k in ((Index(k), k) for k in wanted if Index(k) in axes):
        beyond: dict[Expr, Expr] = {
            x: Const(0, x.type) for x, (_, along) in bordered.items() if i in along
        }
        if _vanishes(substitute((e,), beyond)[0], signed, finite):
            found.add(k)
    used: dict[Expr, Expr] = {
        x: r for x, (r, along) in bordered.items() if any(axes.get(i) in found for i in along)
    }
    return substitute((e,), used)[0], found


def _vanishes(e: Expr, signed: bool, finite: Callable[[Expr], bool]) -> bool:
    if isinstance(e, Apply) and e.op.name in ("add", "multiply", "cast"):
        vanish = [_vanishes(a, signed, finite) for a in e.args]
        if e.op.name == "multiply":
            return any(vanish) and all(v or finite(a) for v, a in zip(vanish, e.args, strict=True))
        return all(vanish)
    return is_zero(e, signed)


def is_zero(e: Expr, signed: bool = False) -> bool:
    """Whether an expression is the constant 0; `signed`: not -0."""
    return isinstance(e, Const) and not e.value and not (signed and "-" in str(e.value))

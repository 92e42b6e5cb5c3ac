"""Arithmetic on extents and indices: row-major offsets and their coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from ... import late_binding as later
from ...analysis.bounds import MEMORY, Intervals, Range, along, bounds
from ...expr import Apply, Const, Expr, Extent, Index, constant
from ...graph import Check, Shape
from ...scalar import apply_primitive
from ...shapes import require
from ...simplify import select
from ...types import int64


def plus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("add", [a, b])


def minus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("subtract", [a, b])


class _Bounds(Intervals):
    """Indices are those of arrays in memory, or of positions outside of them."""

    def leaf(self, e: Expr) -> Range:
        return (-MEMORY, MEMORY) if isinstance(e, Index) else super().leaf(e)


def distance(low: Expr, high: Expr) -> tuple[Expr, bool]:
    """How many integers are in low … high − 1: `high − low`, which may be negative if there are
    none; and whether this is 0 instead, because the difference might wrap."""
    ranges = _Bounds()
    (least, most), (low_end, high_end) = ranges.range(high), ranges.range(low)
    between = minus(high, low)
    if most - low_end <= int64.highest and least - high_end >= int64.lowest:
        return between, False
    return select(apply_primitive("greater", [high, low]), between, constant(0)), True


def times(a: Expr, b: Expr) -> Expr:
    return apply_primitive("multiply", [a, b])


def least(a: Expr, b: Expr) -> Expr:
    if at_most(a, b):
        return a
    return b if at_most(b, a) else apply_primitive("minimum", [a, b])


def at_most(part: Expr, whole: Expr) -> bool:
    """Whether an extent is certainly no more than another: equal, or n // c · c of n."""
    if part is whole:
        return True
    if not (isinstance(part, Apply) and part.op.name == "multiply" and bounds(whole)[0] >= 0):
        return False
    for quotient, c in (part.args, part.args[::-1]):
        if isinstance(quotient, Apply) and quotient.op.name == "floor_divide":
            n, by = quotient.args
            if n is whole and by is c and bounds(c)[0] >= 0:
                return True
    return False


def greatest(a: Expr, b: Expr) -> Expr:
    for one, other in ((a, b), (b, a)):
        if bounds(one)[0] >= bounds(other)[1]:
            return one
    return apply_primitive("maximum", [a, b])


def ends(extents: Sequence[Expr], operation: str) -> tuple[list[Expr], tuple[Check, ...]]:
    """The prefix sums of the extents, and checks that they do not overflow int64."""
    found: list[Expr] = []
    checks: tuple[Check, ...] = ()
    sum_: Expr = constant(0)
    most = 0
    for e in extents:
        most += bounds(e)[1]
        if most > int64.highest:
            limit = minus(constant(int64.highest), e)
            checks += _no_more(sum_, limit, f"{operation}: an axis")
        sum_ = plus(sum_, e)
        found.append(sum_)
    return found, checks


def size(shape: Shape, operation: str) -> tuple[Expr, tuple[Check, ...]]:
    """The number of elements of a shape, and checks that it does not overflow int64."""
    checks: tuple[Check, ...] = ()
    total: Expr = constant(1)
    most = 1
    axes: set[Extent] = set()  # extents whose arrays have been counted
    for e in shape:
        of = along(e)
        if of is None:
            most *= max(bounds(e)[1], 1)
        else:
            counted = any(x.node is of[0].node for x in axes) and of[0] not in axes
            most *= of[1] * (1 if counted else MEMORY)
            axes.add(of[0])
        if most > int64.highest:
            limit = apply_primitive(
                "floor_divide", [constant(int64.highest), greatest(e, constant(1))]
            )
            checks += _no_more(total, limit, f"{operation}: an array")
        total = times(total, e)
    return total, checks


def _no_more(e: Expr, limit: Expr, what: str) -> tuple[Check, ...]:
    return require(
        least(e, limit),
        e,
        f"{what} of more than 2**63 - 1 elements: no memory holds it.",
        error="DeviceOutOfMemory",
        hint="Use smaller arrays, or compute in parts.",
    )


def product(extents: Sequence[Expr]) -> Expr:
    total: Expr = constant(1)
    for e in extents:
        total = times(total, e)
    return total


def linear(index: Sequence[Expr], shape: Shape) -> Expr:
    """Row-major offset of an index."""
    at: Expr = constant(0)
    for i, n in zip(index, shape, strict=True):
        at = plus(times(at, n), i)
    return at


def delinear(at: Expr, shape: Shape) -> tuple[Expr, ...]:
    """Index of a row-major offset."""
    index: list[Expr] = []
    for n in reversed(shape[1:]):
        if isinstance(n, Const) and int(n.value) == 1:
            index.append(constant(0))
            continue
        index.append(apply_primitive("remainder", [at, n]))
        at = apply_primitive("floor_divide", [at, n])
    return (at, *reversed(index)) if shape else ()


later.offer(product_of=product)

"""Indexing of one axis (`a[1:-1]`, `a[::-2]`, `a[k]`) as arithmetic on its extent."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

from ... import simplify
from ...analysis.bounds import bounds, is_counter
from ...analysis.polynomial import polynomial
from ...analysis.short_extents import extent_now
from ...array import Array
from ...errors import IndexOutOfBounds, ShapeError, TracingError
from ...expr import Apply, Const, Expr, Extent, Read, Var, constant, known_before, substitute, walk
from ...frontend.deferred import fact, in_range, needed_by
from ...graph import Check, Shape
from ...scalar import Scalar, apply_primitive, as_count
from ...shapes import on_host, require
from ...types import int64
from .row_major import greatest, least, minus, plus, times


def _given(value: Any) -> Expr:
    """A bound as the user wrote it."""
    return on_host(as_count(value, "a slice"))


def _is_natural(e: Expr) -> bool:
    """Whether an index made of counters of loops, extents and numbers is not negative."""
    known = all(isinstance(x, Const | Extent | Apply) or is_counter(x) for x in walk((e,)))
    return known and bounds(e)[0] >= 0


def from_start(e: Expr, n: Expr) -> Expr:
    """An index or a bound, counted from the end if negative."""
    if _is_natural(e):
        return e
    return simplify.select(apply_primitive("less", [e, constant(0)]), plus(e, n), e)


def _bound(value: Any, n: Expr) -> Expr:
    """A slice bound clipped to 0 … n, as in NumPy."""
    e = _given(value)
    if isinstance(e, Const):
        v = int(e.value)
        return least(constant(v), n) if v >= 0 else greatest(plus(n, constant(v)), constant(0))
    return least(_clipped(e, n, 0), n)


def _single(s: slice, n: Expr) -> bool:
    """Whether a slice, such as `:1`, `-1:` or `k:k + 1`, has at most one element for every `n`."""
    start = 0 if s.start is None else s.start
    if isinstance(start, int) and (s.stop is None or isinstance(s.stop, int)):
        return bool(s.stop == (start + 1 or None))
    low, high = _first(s), n if s.stop is None else _given(s.stop)
    if not isinstance(high, Const) and high is not n and _counts_from_end(low):
        return False  # if k = -1, a[-7:k] of 5 rows is a[-7:-1]: four rows
    if any(e.type != int64 for e in walk((low, high))):
        return False  # k + 1 in a narrow type may overflow
    # The counter of a loop is read; it is the same number on both sides.
    reads: dict[Expr, Expr] = {e: Var("k", int64) for e in walk((low, high)) if isinstance(e, Read)}
    low, high = substitute((low, high), reads)
    low, high = (plus(n, e) if _counts_from_end(e) else e for e in (low, high))
    after = polynomial(plus(low, constant(1)))
    return after is not None and after == polynomial(high)


def _first(s: slice) -> Expr:
    return constant(0) if s.start is None else _given(s.start)


def _counts_from_end(bound: Expr) -> bool:
    return isinstance(bound, Const) and int(bound.value) < 0


class Sliced(NamedTuple):
    """One sliced axis: the first source index, the extent and the step."""

    start: Expr
    extent: Expr
    step: Expr

    def at(self, i: Expr) -> Expr:
        """The source index of an element."""
        one = isinstance(self.step, Const) and self.step.value == 1
        return plus(self.start, i if one else times(i, self.step))


def slice_axis(s: slice, n: Expr, checks: list[Check]) -> Sliced:
    """A slice of an axis of extent `n`."""
    step = s.step
    if (isinstance(step, Scalar) and not isinstance(step._expr, Const)) or (
        isinstance(step, Array) and not step._is_closed()
    ):
        return _by_run_time_step(s, _given(step), n, checks)
    start, extent, step = _by_known_step(s, n)
    return Sliced(start, extent, constant(step))


def _by_run_time_step(s: slice, step: Expr, n: Expr, checks: list[Check]) -> Sliced:
    """From the end if the step is negative then.  A step of 0 that is not known before the first
    kernel selects nothing."""
    zero, one = constant(0), constant(1)
    size = apply_primitive("absolute", [step])
    if known_before(step):
        checks += require(size, one, "the step of a slice must not be 0.", relation=">=",
                          hint="td.backpermute takes any index.")  # fmt: skip
    start = zero if s.start is None else _bound(s.start, n)
    stop = n if s.stop is None else _bound(s.stop, n)
    span = minus(stop, start)
    if not _is_natural(step):
        down = apply_primitive("less", [step, zero])
        last = minus(n, one) if s.start is None else _bound_down(s.start, n)
        first = constant(-1) if s.stop is None else _bound_down(s.stop, n)
        span = simplify.select(down, minus(last, first), span)
        start = simplify.select(down, last, start)
    # (No axis is longer than 2 ** 62; with longer steps, int64 would overflow.)
    size = least(size, constant(1 << 62))
    extent = apply_primitive("floor_divide", [plus(span, minus(size, one)), size])
    return Sliced(start, greatest(extent, zero), step)


def _by_known_step(s: slice, n: Expr) -> tuple[Expr, Expr, int]:
    step = 1 if s.step is None else s.step
    try:
        number = index(step)
    except TracingError:
        raise
    except TypeError:
        number = 0
    if number == 0:
        raise ShapeError(
            f"the step of a slice must be a nonzero integer, got {s.step!r}.",
            hint="Write a number, as in a[::2] or a[::-1]; td.backpermute takes any index.",
        )
    # Clamp huge steps, with which int64 would overflow below; no axis is that long.
    step, zero = max(min(number, 1 << 62), -(1 << 62)), constant(0)
    if step == 1 and not isinstance(n, Const) and _single(s, n):
        first = _first(s)
        if isinstance(first, Const):  # an empty result reads nothing: no clipping needed
            k = int(first.value)
            have = n if k in (0, -1) else greatest(plus(n, constant(-k if k > 0 else k + 1)), zero)
            return (first if k >= 0 else plus(n, first)), least(have, constant(1)), 1
        start = _bound(first, n)
        stop = n if s.stop is None else _bound(s.stop, n)
        return start, least(greatest(minus(stop, start), zero), constant(1)), 1
    if step > 0:
        start = constant(0) if s.start is None else _bound(s.start, n)
        stop = n if s.stop is None else _bound(s.stop, n)
        span = minus(stop, start)
        if step > 1:
            span = apply_primitive("floor_divide", [plus(span, constant(step - 1)), constant(step)])
        whole = s.start is None and (s.stop is None or step == 1)
        extent = span if whole else greatest(span, constant(0))
        if isinstance(s.start, int) and s.start >= 0:
            start = constant(s.start)  # an empty result reads nothing: no clipping needed
        return start, extent, step
    last = minus(n, constant(1))
    # For negative steps, bounds are clipped to −1 … n − 1.
    start = last if s.start is None else _bound_down(s.start, n)
    stop = constant(-1) if s.stop is None else _bound_down(s.stop, n)
    span = apply_primitive(
        "floor_divide", [plus(minus(start, stop), constant(-step - 1)), constant(-step)]
    )
    return start, greatest(span, constant(0)), step


def _bound_down(value: Any, n: Expr) -> Expr:
    return least(_clipped(_given(value), n, -1), minus(n, constant(1)))


def _clipped(e: Expr, n: Expr, low: int) -> Expr:
    """A bound counted from the start, not below `low`."""
    return e if _is_natural(e) else greatest(from_start(e, n), constant(low))


def integer_index(value: Any, n: Expr, axis: int, checks: list[Check]) -> Expr:
    return from_either_end(as_count(value, "an index"), n, axis, checks)


def from_either_end(e: Expr, n: Expr, axis: int, checks: list[Check]) -> Expr:
    """The index `e`, counted from the end if negative; checked if known before the first kernel."""
    if not isinstance(e, Const):
        at = from_start(e, n)
        checks += within(at, n, axis)
        return at
    v = int(e.value)
    needed = min(v + 1 if v >= 0 else -v, int64.highest)  # no axis is that long
    checks += require(
        n,
        constant(needed),
        f"index {v} is out of range for axis {axis} with extent {{left}}.",
        error="IndexOutOfBounds",
        relation=">=",
        hint=_INDICES,
    )
    return e if v >= 0 else plus(n, e)


def require_in_range(indices: Array, n: Expr, axis: int, operation: str,
                     from_end: bool = True) -> tuple[Check, ...]:  # fmt: skip
    """The check of indices that are data on the host, which may be changed before a run reads them;
    `IndexOutOfBounds` now if the extent is known now.  A read far out of range could crash the
    process, and NumPy knows no write out of range."""
    least_extent, extent = needed_by(indices, from_end), extent_now(n)
    if least_extent is None:
        return ()
    checks = require(
        n, least_extent,
        f"{operation}: an index is out of range for axis {axis} with extent {{left}}.",
        relation=">=", error="IndexOutOfBounds",
        hint=_INDICES if from_end else "Indices run from 0 to n - 1.",
    )  # fmt: skip
    if extent is None:
        return checks
    least = -extent if from_end else 0

    def error(index: int) -> IndexOutOfBounds:
        return IndexOutOfBounds(
            f"{operation}: index {index} is out of range for axis {axis} with extent {extent}.",
            hint=f"Indices run from {least} to {extent - 1}."
            if extent
            else "The axis has no elements.",
        )

    fact(indices, in_range(extent, from_end, error))
    return checks


def within(at: Expr, n: Expr, axis: int) -> tuple[Check, ...]:
    """Checks that 0 ≤ at < n, if `at` is known before the first kernel."""
    if not known_before(at):
        return ()
    zero, last = constant(0), minus(n, constant(1))
    return (
        *require(
            last, at,
            f"index {{right}} is out of range for axis {axis}, whose last is {{left}}.",
            relation=">=", error="IndexOutOfBounds", hint=_INDICES),
        *require(
            at, zero,
            f"an index is out of range for axis {axis}: {{left}}, counted from its start.",
            relation=">=", error="IndexOutOfBounds", hint=_INDICES),
    )  # fmt: skip


def from_some(n: Expr, axis: int, shape: Shape) -> tuple[Check, ...]:
    """A check that an axis has elements if anything of `shape` is read along it, at indices that
    depend on data: there is none in range, and on a GPU a read elsewhere ends the process's use of
    it.  No check where extents of the result depend on data, too: an index stands for each."""
    if (isinstance(n, Const) and n.value > 0) or not all(map(known_before, (n, *shape))):
        return ()
    some: Expr = constant(1)
    for e in shape:
        some = least(some, e)
    return require(
        n, some, f"axis {axis} has no elements, so no index is in range.",
        relation=">=", error="IndexOutOfBounds",
        hint="Test for it: td.cond(a.shape[0] > 0, a[i], other), or give it an element.",
    )  # fmt: skip


_INDICES = "Indices run from 0 to n - 1, or from -1 down to -n."

"""Short extents as Python numbers: the size of small matrices, whose operations are unrolled.

Extents are run-time values, so that one program serves all.  `short_extent` returns the value of an
extent in the call for which a function is traced.  The program then serves only calls with that
value: it is part of the key by which `jit` finds the program, and a check attached to the operation
rejects others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..expr import Expr, Extent, constant
from ..graph import Check, Input, known
from ..graphs.names import evaluate
from ..shapes import require

Shapes = Sequence[Sequence[int]]

#: The most elements of an axis that is unrolled in a fold (`dsl/passes/short_axes.py`).
SHORT_AXIS = 4

#: The most rows or columns of matrices whose products are unrolled in each iteration of a loop
#: (`dsl/passes/small_products.py`).
TINY = 6

#: The most slices into which Python unpacks an array: `w, x, y, z = q.T`.
UNPACKED = 32


@dataclass
class SpecialisedExtents:
    """The extents whose values a trace requested, each with the largest value for which it becomes
    a constant of the program, and those of which it requested whether they are equal; `shapes`:
    those of the `arguments` in the traced call."""

    arguments: Sequence[Input]
    shapes: Shapes
    most: dict[Expr, int] = field(default_factory=dict)
    pairs: dict[tuple[Expr, Expr], None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.most or self.pairs)

    def values(self, shapes: Shapes) -> tuple[int, ...]:
        """The key's part for arguments of these shapes; too large values are equal."""
        named = _named(self.arguments, shapes)
        values = (min(_value(e, named), most + 1) for e, most in self.most.items())
        return *values, *(_value(a, named) == _value(b, named) for a, b in self.pairs)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two extents are equal in the traced call, as far as known."""
        named = _named(self.arguments, self.shapes)
        found = evaluate(a, named), evaluate(b, named)
        if None in found:
            return False
        self.pairs[a, b] = None
        return found[0] == found[1]

    def value(self, e: Expr, most: int) -> int | None:
        """An extent in the traced call; None if unknown or larger than `most`."""
        found = evaluate(e, _named(self.arguments, self.shapes))
        if found is None:
            return None
        self.most[e] = max(most, self.most.get(e, 0))
        return found if found <= most else None


def _named(arguments: Sequence[Input], shapes: Shapes) -> Mapping[Expr, int]:
    return {Extent(node, axis): int(n) for node, shape in zip(arguments, shapes, strict=True)
            for axis, n in enumerate(shape)}  # fmt: skip


def _value(e: Expr, named: Mapping[Expr, int]) -> int:
    found = evaluate(e, named)
    assert found is not None, "an extent asked for depends on extents of arguments only"
    return found


class _Traces(threading.local):
    innermost: SpecialisedExtents | None = None


_traces = _Traces()


@contextmanager
def specialising(arguments: Sequence[Input], shapes: Shapes) -> Iterator[SpecialisedExtents]:
    """While active, extents of `arguments` have the values that they have in `shapes`."""
    outer = _traces.innermost
    _traces.innermost = specialised = SpecialisedExtents(arguments, shapes)
    try:
        yield specialised
    finally:
        _traces.innermost = outer


def extent_now(e: Expr) -> int | None:
    """The extent in the traced call, if known, without specialising the program to it."""
    value, trace = known(e), _traces.innermost
    if value is not None:
        return int(value)
    return None if trace is None else evaluate(e, _named(trace.arguments, trace.shapes))


def short_extent(e: Expr, most: int) -> int | None:
    """The value of an extent, if it is at most `most` and known when the program is traced."""
    value = known(e)
    if value is not None:
        return int(value) if value <= most else None
    return None if _traces.innermost is None else _traces.innermost.value(e, most)


def short_extents(
    extents: Sequence[Expr], most: int, operation: str
) -> tuple[list[int], tuple[Check, ...]] | None:
    """The extents of small matrices, with checks that calls have these extents; None if one of them
    is 0, larger than `most`, or unknown when the program is traced."""
    sizes: list[int] = []
    for e in extents:
        size = short_extent(e, most)
        if not size:
            return None
        sizes.append(size)
    pairs = zip(extents, sizes, strict=True)
    return sizes, tuple(c for e, n in pairs for c in fixed(e, n, operation))


def equal_extents(a: Expr, b: Expr, operation: str) -> tuple[Check, ...] | None:
    """The checks that two extents are equal, if they are in the traced call; the program is
    specialised for calls in which they are."""
    trace = _traces.innermost
    if trace is None or not trace.equal(a, b):
        return None
    return require(
        a, b,
        f"{operation}: this program is for arrays of one extent, not of {{left}} and {{right}}.",
        hint="Call the compiled function, or lower it again for arrays like these.",
    )  # fmt: skip


def fixed(e: Expr, value: int, operation: str, what: str = "matrices") -> tuple[Check, ...]:
    """The check that an extent has the value for which the program is specialised."""
    return require(
        e, constant(value),
        f"{operation}: this program is for {what} with an extent of {{right}}, not {{left}}.",
        hint="Call the compiled function, or lower it again for arrays like these.",
    )  # fmt: skip

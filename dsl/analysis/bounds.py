"""Interval analysis of integer expressions, and of the elements of integer arrays.

`RULES` has the range of each operation's result, and `Intervals` applies them to expressions.  What
is known of leaves depends on the caller: the language (`bounds`), the printer of CUDA C++, and the
narrowing of indices, whose symbolic bounds (`skeletons/ir/ranges.py`) share `MONOTONIC`.  The
ranges of elements follow from how they are computed: x & 255, y % 10, clip(z, 0, n - 1), whatever
x, y and z.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TypeVar

from ..expr import Apply, Cond, Const, Expr, Extent, Index, Proj, Read, is_common_sum, unknown
from ..graph import ArrayLoop, Generate, Leaf, Node, Permute
from ..types import ScalarType, int64

#: The least and the greatest value.
Range = tuple[int, int]

#: An upper bound on extents of arrays in memory. (An empty array, or a view that repeats its
#: elements, may have a larger extent: code that must be correct for these assumes any int64.)
MEMORY = 1 << 57


def whole(t: ScalarType) -> Range:
    """The range of an integer type; 0 and 1 for booleans."""
    return int(t.lowest), int(t.highest)


def exact(op: str, t: ScalarType, args: Sequence[Range]) -> Range:
    """The range of an operation's result before it wraps to its type `t`, from the ranges of its
    operands (booleans: 0 and 1); the range of the type if there is no rule."""
    rule = RULES.get(op)
    found = None if rule is None else rule(*args)
    return whole(t) if found is None else found


def wraps(found: Range, t: ScalarType) -> bool:
    low, high = whole(t)
    return found[0] < low or found[1] > high


def is_counter(e: Expr) -> bool:
    """Whether this is the counter of a loop over arrays: 0, 1, 2, …"""
    return isinstance(e, Read) and getattr(e.node, "kind", None) == "counter"


class Intervals:
    """The ranges of integer expressions, each computed once from those of its operands."""

    def __init__(self) -> None:
        self.known: dict[Expr, Range] = {}

    def range(self, e: Expr) -> Range:
        """The least and the greatest value that an integer expression can have."""
        if e not in self.known:
            for x in unknown((e,), self.known, self.enters):
                self.known[x] = self._find(x)
        return self.known[e]

    def _find(self, e: Expr) -> Range:
        if e.type is None or e.type.is_inexact:  # several results, or a float
            return 0, 0
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if isinstance(e, Apply) and self.enters(e):
            return self.result(e, exact(e.op.name, e.type, [self.known[a] for a in e.args]))
        return self.leaf(e)

    def enters(self, e: Expr) -> bool:
        """Whether the range of an expression follows from those of its operands."""
        return isinstance(e, Apply) and not any(a.type.is_inexact for a in e.args)

    def leaf(self, e: Expr) -> Range:
        """The range of an expression whose operands are not analysed."""
        natural = isinstance(e, Extent) or is_counter(e)
        return (0, MEMORY) if natural else whole(e.type)

    def result(self, e: Apply, found: Range) -> Range:
        """The range of an operation whose result has the range `found` before it wraps."""
        return whole(e.type) if wraps(found, e.type) else found


def bounds(e: Expr) -> Range:
    """The range of an integer expression over extents of arrays in memory."""
    found = e.bounds
    if found is None:
        found = e.bounds = whole(int64) if _is_long(e) else Intervals().range(e)
    return found


def _is_long(e: Expr) -> bool:
    """Whether `e` is a sum of so many extents that it may overflow."""
    for _ in range(int64.highest // MEMORY):
        if not is_common_sum(e):
            return False
        e = e.args[0]
    return True


def along(e: Expr) -> tuple[Extent, int] | None:
    """An extent of an array and a factor, such that `e` ≤ factor · max(extent, 1).  Covers slices
    and slightly longer extents; None for other expressions."""
    if isinstance(e, Extent):
        return e, 1
    if not isinstance(e, Apply):
        return None
    first, *rest = e.args
    match e.op.name:
        case "minimum":
            return along(first) or along(rest[0])
        case "subtract" | "floor_divide" if bounds(rest[0])[0] >= 0:
            return along(first)
        case "add" | "maximum" if isinstance(rest[0], Const):
            more, found = max(int(rest[0].value), 0), along(first)
            if found is not None:
                return found[0], found[1] + more if e.op.name == "add" else max(found[1], more)
    return None


def _hull(*ends: int) -> Range:
    return min(ends), max(ends)


def _divide(divide: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The rule of a division that gives 0 for the divisor 0 and is monotonic in the dividend."""

    def rule(a: Range, b: Range) -> Range:
        if b[0] < 0:
            most = max(map(abs, a))
            return -most, most
        quotients = [divide(x, max(y, 1)) for x in a for y in b]
        return _hull(*quotients, 0) if b[0] == 0 else _hull(*quotients)

    return rule


def _truncated(a: int, b: int) -> int:
    return -(-a // b) if a < 0 else a // b


def _remainder(a: Range, b: Range) -> Range:
    """A remainder with the sign of the divisor; 0 for the divisor 0."""
    if a[0] >= 0 and b[0] >= 0:
        return a if a[1] < b[0] else (0, min(a[1], max(b[1] - 1, 0)))
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _rem(a: Range, b: Range) -> Range:
    """A remainder with the sign of the dividend; 0 for the divisor 0."""
    most = max(max(map(abs, b)) - 1, 0)
    return -min(max(-a[0], 0), most), min(max(a[1], 0), most)


def _absolute(a: Range) -> Range:
    return max(a[0], -a[1], 0), max(map(abs, a))


def _multiply(a: Range, b: Range) -> Range:
    return _hull(*(x * y for x in a for y in b))


def _fma(a: Range, b: Range, c: Range) -> Range:
    low, high = _multiply(a, b)
    return low + c[0], high + c[1]


def _left_shift(a: Range, by: Range) -> Range | None:
    """A left shift; a shift by the width or more gives 0."""
    if by[0] != by[1] or not 0 <= by[0] < 64:
        return None
    return min(a[0] << by[0], 0), max(a[1] << by[0], 0)


def _right_shift(a: Range, by: Range) -> Range | None:
    """An arithmetic right shift; a shift by the width or more gives 0, or -1 if negative."""
    if by[0] < 0:
        return (0, a[1]) if a[0] >= 0 else None
    return _hull(*(x >> min(n, 64) for x in a for n in by))


def _and(a: Range, b: Range) -> Range | None:
    natural = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(natural)) if natural else None


def _or(a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return 0, (1 << max(a[1], b[1]).bit_length()) - 1


#: A bound: a number, or an expression.
B = TypeVar("B")

#: The operations that are monotonic in each operand: increasing (+) or decreasing (-).
MONOTONIC = {"add": "++", "subtract": "+-", "negative": "-", "invert": "-", "minimum": "++",
             "fmin": "++", "maximum": "++", "fmax": "++"}  # fmt: skip


def monotonic(name: str, apply: Callable[..., B]) -> Callable[..., tuple[B, B]]:
    """The rule of an operation in `MONOTONIC`, which `apply` computes for bounds."""
    if MONOTONIC[name] == "-":
        return lambda a: (apply(a[1]), apply(a[0]))
    low = 1 if MONOTONIC[name] == "+-" else 0
    return lambda a, b: (apply(a[0], b[low]), apply(a[1], b[1 - low]))


#: The range of a result from the ranges of the operands; None: unknown.
RULES: dict[str, Callable[..., Range | None]] = {
    "add": monotonic("add", operator.add),
    "subtract": monotonic("subtract", operator.sub),
    "multiply": _multiply,
    "fma": _fma,
    "negative": monotonic("negative", operator.neg),
    "invert": monotonic("invert", operator.invert),
    "absolute": _absolute,
    "sign": lambda a: (-1, 1),
    "popcount": lambda a: (0, 64),
    "clz": lambda a: (0, 64),
    "ctz": lambda a: (0, 64),
    "minimum": monotonic("minimum", min),
    "fmin": monotonic("fmin", min),
    "maximum": monotonic("maximum", max),
    "fmax": monotonic("fmax", max),
    "floor_divide": _divide(lambda x, y: x // y),
    "quot": _divide(_truncated),
    "remainder": _remainder,
    "rem": _rem,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _or,
    "select": lambda p, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "also": lambda a, tested: a,
    "cast": lambda a: a,
}


#: The depth of arrays computed from each other through which a range is followed.
DEEPEST = 40
#: The most arrays to analyse; those before a loop count again for each range tried for its state.
MOST = 1000


def element_bounds(leaf: Leaf) -> Range:
    """The smallest and largest value that elements of an integer array can have; 0 for floats."""
    return (0, 0) if leaf.type.is_inexact else _Elements().of(leaf)


class _Elements(Intervals):
    """The ranges of elements, given the ranges `assumed` for the states of loops."""

    def __init__(self, assumed: Mapping[Node, Range] | None = None, depth: int = 0,
                 steps: Iterator[int] | None = None) -> None:  # fmt: skip
        super().__init__()
        self.assumed, self.depth, self.steps = assumed or {}, depth, steps or count()

    def of(self, leaf: Leaf) -> Range:
        if self.depth == DEEPEST or next(self.steps) >= MOST:
            return whole(leaf.type)
        self.depth += 1
        try:
            return self._of(leaf)
        finally:
            self.depth -= 1

    def _of(self, leaf: Leaf) -> Range:
        node, component = leaf
        if type(node) is Generate:
            return self.range(node.elements[component])
        if type(node) is Permute and node.combine is None:  # some of the elements are new
            return _hull(*self.of(node.defaults[component]), *self.range(node.values[component]))
        if isinstance(node, ArrayLoop):
            return self._last(node, component)
        return self.assumed.get(node, whole(leaf.type))

    def _last(self, loop: ArrayLoop, component: int) -> Range:
        """The range of a loop state: a fixed point that an iteration preserves."""
        found = self.of(loop.init[component])
        for _ in range(2):
            assumed = {**self.assumed, loop.state[component]: found}
            inside = _Elements(assumed, self.depth, self.steps)
            after = _hull(*found, *inside.of(loop.body[component]))
            if after == found:
                return found
            found = after
        return whole(loop.state[component].type)

    def leaf(self, e: Expr) -> Range:
        if isinstance(e, Index):
            return 0, MEMORY
        if isinstance(e, Read) and e.boundary is None:
            return self.of(Leaf(e.node, e.component))
        if isinstance(e, Proj) and isinstance(e.args[0], Cond):
            sides = e.args[0].then[e.which], e.args[0].other[e.which]
            return _hull(*(end for side in sides for end in self.range(side)))
        return super().leaf(e)
